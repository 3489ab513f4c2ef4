"""Asking an object for a capsule, and looking at a capsule without consuming it."""

from __future__ import annotations

from ctypes import PYFUNCTYPE, c_char_p, c_void_p, py_object, pythonapi
from typing import TYPE_CHECKING, Any, Final

from nbdlpack.dlpack.enums import VERSION
from nbdlpack.native import View
from nbdlpack.native.abi import DLManagedTensorVersioned

if TYPE_CHECKING:
    from collections.abc import Mapping

Capsule: Final = type(View.__dlpack_c_exchange_api__)

LEGACY: Final = "dltensor"
VERSIONED: Final = "dltensor_versioned"
EXCHANGE: Final = "dlpack_exchange_api"

# Prototypes of our own: pythonapi's functions are shared by the whole process and stay as they are.
_get_name = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))
_get_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))


def capsule_name(capsule: Any) -> str | None:
    """Return the name of a capsule, or None if it has none."""
    name = _get_name(capsule)
    return None if name is None else name.decode(errors="replace")


def capsule_pointer(capsule: Any) -> int:
    """Return what a capsule, of whatever name, points to."""
    return int(_get_pointer(capsule, _get_name(capsule)))


def capsule_flags(capsule: Any) -> int:
    """Return the flags of the tensor in a capsule; 0 if it is not a versioned one that has not been consumed."""
    if capsule_name(capsule) != VERSIONED:
        return 0
    managed = DLManagedTensorVersioned.from_address(capsule_pointer(capsule))
    return managed.flags if managed.major == VERSION[0] else 0


def check_name(capsule: Any) -> None:
    """Raise ValueError in words if a capsule holds no tensor that can be taken."""
    name = capsule_name(capsule)
    if name in (LEGACY, VERSIONED):
        return
    if name in (f"used_{LEGACY}", f"used_{VERSIONED}"):
        msg = f"the capsule, named {name!r}, has been consumed already: export a new one for each import"
    else:
        msg = f"the capsule is named {name!r}, but one with a DLPack tensor is named {LEGACY!r} or {VERSIONED!r}"
    raise ValueError(msg)


def dlpack_method(x: object) -> Any:
    """Return the bound ``__dlpack__`` of an object, or raise AttributeError in words."""
    try:
        return x.__dlpack__  # type: ignore[attr-defined]
    except AttributeError as error:
        if hasattr(type(x), "__dlpack__"):
            raise  # it has one, and says itself why not now
        cause = error
    msg = (
        f"x is of type {type(x).__module__}.{type(x).__qualname__}, which has no __dlpack__: from_dlpack takes objects "
        "that have it and DLPack capsules; for anything else use nd.asarray(x)"
    )
    raise AttributeError(msg, name="__dlpack__", obj=x) from cause


def ask(x: object, wanted: Mapping[str, object], *, versioned: bool = True) -> tuple[Any, bool]:
    """Return the capsule that an object exports, asking it for no more than it understands.

    Parameters
    ----------
    x
        Anything with ``__dlpack__``.
    wanted
        Keywords of ``__dlpack__``.  Those that the object does not know are left out.
    versioned
        Whether to ask for a versioned capsule, as long as the object knows of versions.

    Returns
    -------
    capsule : PyCapsule
        Of either kind.
    took : bool
        Whether the object took all the keywords.

    Raises
    ------
    AttributeError
        If `x` has no ``__dlpack__``.
    TypeError
        If what it returns is no capsule.
    Exception
        Whatever the object's ``__dlpack__`` raises, unchanged.
    """
    method = dlpack_method(x)
    asked = {"max_version": VERSION, **wanted} if versioned else wanted
    # At most two calls: with all keywords and, only if that call as such was refused, with those that it understands.
    # The second stands outside of the handler, so that what it raises has no history.
    try:
        return _checked(x, method, asked), True
    except TypeError as error:
        if not asked or not _is_about_the_call(error, asked):
            raise
    return _checked(x, method, _understood(method, asked)), False


def _checked(x: object, method: Any, asked: Mapping[str, object]) -> Any:
    capsule = method(**asked)
    if type(capsule) is Capsule:
        return capsule
    msg = f"{type(x).__qualname__}.__dlpack__ returned a {type(capsule).__qualname__}, but must return a DLPack capsule"
    raise _NoCapsuleError(msg)


class _NoCapsuleError(TypeError):
    """A producer returned something else, which is no refusal of the call."""


def _is_about_the_call(error: TypeError, wanted: Mapping[str, object]) -> bool:
    """Return whether a TypeError of `_checked` refuses the call of the method, and does not come from its body."""
    if isinstance(error, _NoCapsuleError):
        return False
    trace = error.__traceback__
    for _ in range(2):  # the frames of `ask` and `_checked`
        trace = trace and trace.tb_next
    if trace is None:
        return True  # no frame of the producer was entered; a compiled one has none, and is asked again
    words = str(error)
    return "keyword argument" in words and ("no keyword" in words or any(f"'{name}'" in words for name in wanted))


def _understood(method: Any, wanted: Mapping[str, object]) -> dict[str, object]:
    """Return the keywords that a producer's signature has."""
    from inspect import Parameter, signature  # noqa: PLC0415 (slow to import, and needed for old producers alone)

    try:
        parameters = signature(method).parameters.values()
    except (TypeError, ValueError):  # a compiled method without one
        return {}
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        return {}  # it passes on what it does not know, and just failed with that
    return {p.name: wanted[p.name] for p in parameters if p.name in wanted and p.kind is not Parameter.POSITIONAL_ONLY}
