"""`ReadOnlyTensorWrapper`: an export that says that it must not be written to, of any producer's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from nbdlpack import native
from nbdlpack.dlpack import consumer
from nbdlpack.dlpack.capsules import dlpack_method
from nbdlpack.dlpack.consumer import is_plain_view
from nbdlpack.dlpack.enums import READ_ONLY, VERSION
from nbdlpack.dlpack.producer import checked_pair, export
from nbdlpack.errors import ExportOnlyError
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Callable


def readonly_view(x: View) -> View:
    """Return a read-only array on an array's storage."""
    return x._view(View, 0, x.dtype, READ_ONLY, x.shape, x._steps)  # type: ignore[no-any-return]


class ReadOnlyTensorWrapper:
    """An object whose one ability is to export another's memory by DLPack with the flag READ_ONLY set.

    The flag is advice: NumPy and nbdlpack heed it, but torch, paddle and drjit import the memory as writable and write
    through it, without a word.  Give them a copy if that must not happen.

    Pass the wrapper where an array would be passed to be imported: ``np.from_dlpack(ReadOnlyTensorWrapper(x))``.  It
    holds the object and exports it anew for each consumer.  Nothing is copied, also where the storage of `x` is shared
    with lazy copies, which an export for writing would make move.

    Parameters
    ----------
    x
        An array of this library, or any object with ``__dlpack__``: a torch tensor, a NumPy array.  Another wrapper
        is unwrapped.

    Raises
    ------
    AttributeError
        If `x` has no ``__dlpack__``.

    Notes
    -----
    As torch's class of this name, it answers a consumer that does not say what version it understands with a versioned
    capsule, for only that can carry the flag.  A consumer that asks for an unversioned one, and `to_dlpack`, get
    BufferError.  An object of another library is asked for a read-only export if its ``__dlpack__`` has the keyword
    `read_only`, as torch's has from 2.14 on; otherwise for an ordinary one, which is passed on with the flag.

    ``copy=True`` exports a copy, which belongs to the consumer and may be written to.

    Anything but DLPack, `repr` and `hash` raises an error that is both RuntimeError and AttributeError.  To get at the
    object again, keep it.

    Examples
    --------
    >>> import numpy as np
    >>> import nbdlpack as nd
    >>> x = nd.arange(3)
    >>> y = np.from_dlpack(nd.dlpack.ReadOnlyTensorWrapper(x))
    >>> y.flags.writeable
    False
    >>> x[0] = 7
    >>> y
    array([7, 1, 2])
    """

    __slots__ = ("__weakref__", "_source", "_view")

    # Found on the instance too, as tvm-ffi asks there.
    __dlpack_c_exchange_api__: ClassVar[Any] = native.OVERRIDDEN_EXCHANGE_API

    _source: Any
    _view: View | None

    def __init__(self, x: Any, /) -> None:
        if is_plain_view(x):
            self._source, self._view = x, readonly_view(x)
        elif isinstance(x, ReadOnlyTensorWrapper):
            self._source, self._view = x._source, x._view
        else:
            dlpack_method(x)
            self._source, self._view = x, None

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **options: Any) -> Any:
        """Return a versioned capsule with the flag READ_ONLY.

        Parameters
        ----------
        max_version
            None, or a version from (1, 0) on.
        **options
            `stream`, `dl_device` and `copy` as the standard has them.

        Returns
        -------
        PyCapsule
            Named ``dltensor_versioned``; it shares memory with the object, unless `copy` is True.

        Raises
        ------
        BufferError
            If an unversioned capsule is asked for, which cannot say that it is read-only, or the object cannot be
            exported.
        """
        if max_version is None:
            max_version = VERSION
        elif checked_pair("max_version", max_version)[0] < 1:
            msg = (
                f"a read-only export needs a consumer of DLPack 1.0 or later, but max_version is {max_version}: "
                "pass the array itself, or a copy"
            )
            raise BufferError(msg)
        view = self._view
        if view is None:
            view = _readonly_import(self._source)
        if options or view._negative or view._memory() is not None:
            return export(view, max_version=max_version, **options)
        return view._capsule(1, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device of the object, ``(device type, number)``."""
        return self._source.__dlpack_device__()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        kind = type(self._source)
        return f"<{type(self).__name__} of a {kind.__module__}.{kind.__qualname__}, for export by DLPack alone>"

    def __getattr__(self, name: str) -> NoReturn:
        raise _refusal(self, name)

    __hash__ = object.__hash__


def _refusal(wrapper: ReadOnlyTensorWrapper, name: str) -> ExportOnlyError:
    msg = (
        f"{type(wrapper).__name__} does nothing but export by DLPack, and has no {name!r}: use the object that it was "
        "made of, or import it, for instance by nd.from_dlpack, as a read-only array"
    )
    return ExportOnlyError(msg)


# What Python finds on the type, or would answer in a way that says nothing of the data, is refused as well.
_REFUSED: Final = (
    "array bool bytes complex contains copy deepcopy delitem eq float ge getitem getstate gt index int "
    "invert iter le len lt ne neg pos reduce reduce_ex reversed setitem "
    "add and divmod floordiv lshift matmul mod mul or pow rshift sub truediv xor "
    "radd rand rdivmod rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rsub rtruediv rxor "
    "iadd iand ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor"
).split()


def _refusing(name: str) -> Callable[..., NoReturn]:
    def method(self: ReadOnlyTensorWrapper, *_: object, **__: object) -> NoReturn:
        raise _refusal(self, name)

    method.__name__, method.__qualname__ = name, f"{ReadOnlyTensorWrapper.__qualname__}.{name}"
    return method


for _name in _REFUSED:
    setattr(ReadOnlyTensorWrapper, f"__{_name}__", _refusing(f"__{_name}__"))


def _readonly_import(x: Any) -> View:
    """Return a read-only array over the memory of another library's object, exported now."""
    if "read_only" in (getattr(type(x).__dlpack__, "__kwdefaults__", None) or ()):
        # Its own way, which need not make its memory fit for writing.
        return readonly_view(View._import_capsule(x.__dlpack__(max_version=VERSION, read_only=True)))
    return readonly_view(consumer.from_dlpack(x))
