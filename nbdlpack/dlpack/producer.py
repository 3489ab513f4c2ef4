"""`__dlpack__` beyond the plain case: what its arguments may be, what may be exported, and copies for the consumer."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import devices, native, storage
from nbdlpack.devices.base import checked_stream
from nbdlpack.dlpack.capsules import LEGACY, ask, capsule_name
from nbdlpack.dlpack.description import is_usable
from nbdlpack.dlpack.enums import device_words
from nbdlpack.errors import ExchangeError
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Iterator

_negative_allowed: ContextVar[bool] = ContextVar("nbdlpack.dlpack.allow_negative_strides", default=False)


@contextmanager
def allow_negative_strides() -> Iterator[None]:
    """Let arrays with negative strides be exported as they are.

    Outside of this context ``x[::-1].__dlpack__()`` raises BufferError, for many consumers do not expect a negative
    stride: torch up to 2.13 ends the process, JAX and pyarrow refuse.  NumPy and tvm-ffi understand it.  The context
    counts for this thread or asyncio task alone.

    Notes
    -----
    No permission is needed for ``numpy.asarray(x)`` and ``memoryview(x)``, which give the array as it is, nor for
    ``copy=True``, which exports a compact copy.

    Examples
    --------
    >>> import numpy as np
    >>> import nbdlpack as nd
    >>> x = nd.arange(3)[::-1]
    >>> with nd.dlpack.allow_negative_strides():
    ...     np.from_dlpack(x)
    array([2, 1, 0])
    """
    token = _negative_allowed.set(True)
    try:
        yield
    finally:
        _negative_allowed.reset(token)


def check_export(x: View) -> None:
    """Raise BufferError if an array's strides are negative and that is not allowed here.

    Parameters
    ----------
    x
        The array that is about to be exported as it is.

    Raises
    ------
    BufferError
        If so, naming the cures.
    """
    if x._negative and not _negative_allowed.get():
        msg = (
            f"an array with negative strides, {x._steps}, is not exported as it is, since many consumers cannot read "
            "it: ask for copy=True, export nd.ascontiguousarray(x), or, if the consumer can, export inside "
            "nd.dlpack.allow_negative_strides()"
        )
        raise BufferError(msg)


def checked_copy(copy: object) -> bool | None:
    """Return the argument `copy` of the standard, or raise TypeError; NumPy's bool counts as Python's."""
    if copy is None or copy is True or copy is False:
        return copy
    if isinstance(copy, np.bool):
        return bool(copy)
    msg = f"copy must be None, True or False, got {copy!r}"
    raise TypeError(msg)


def checked_pair(name: str, value: object) -> tuple[int, int]:
    """Return a tuple of two integers, or raise TypeError naming the argument."""
    if isinstance(value, tuple) and len(value) == 2:
        try:
            return index(value[0]), index(value[1])
        except TypeError:
            pass
    msg = f"{name} must be None or a tuple of two integers, got {value!r}"
    raise TypeError(msg)


def export(
    x: View,
    *,
    stream: object = None,
    max_version: object = None,
    dl_device: object = None,
    copy: object = None,
    **unknown: object,
) -> Any:
    """Return a capsule of an array: `__dlpack__` with all that may be asked of it.

    Parameters
    ----------
    x
        The array.
    stream, max_version, dl_device, copy
        As in the array API standard's ``__dlpack__``.

    Returns
    -------
    PyCapsule
        Named ``dltensor_versioned`` if the major version asked for is 1 or more, else ``dltensor``.  It shares memory
        with the array, unless `copy` is True.

    Raises
    ------
    TypeError
        If an argument is not of the type that it must have, or unknown.
    ValueError
        If `stream` is not one that the array's device can have.
    BufferError
        If the array cannot be exported so.
    """
    if unknown:
        msg = (
            f"__dlpack__() got an unexpected keyword argument {min(unknown)!r}: it takes stream, max_version, "
            "dl_device and copy. For a read-only export there is nd.dlpack.ReadOnlyTensorWrapper"
        )
        raise TypeError(msg)
    device = devices.of(x)
    own = device.dlpack
    major = 0 if max_version is None else checked_pair("max_version", max_version)[0]
    target = own if dl_device is None else checked_pair("dl_device", dl_device)
    copy = checked_copy(copy)
    number = None if stream is None else checked_stream(stream)
    versioned = int(major >= 1)
    there = device if target == own else devices.numbered(target) if is_usable(*target) else None
    (there or device).check_stream(number)  # the consumer's, where it will have the array
    if target != own:
        if copy is False or there is None or there.dlpack != target:
            msg = (
                f"the array is on device ({device_words(*own)}) and cannot be exported to ({device_words(*target)}): "
                "let the consumer move it, or move it first by x.to_device"
            )
            raise ExchangeError(msg) if copy is False else BufferError(msg)
        new = storage.to_device(x, View, there, "__dlpack__(dl_device=...)")
        there.export_on(new, number)
        return new._capsule(versioned, 1)
    if copy:
        with device.working_on(number):
            new = storage.copy(x, View, "A", "__dlpack__(copy=True)", asked=True)
            device.export_on(new, number)
            return new._capsule(versioned, 1)
    check_export(x)
    if x._flags and not versioned:
        msg = (
            "a read-only array needs a consumer of DLPack 1.0 or later, for a capsule without a version cannot say "
            "that it is read-only: ask for max_version=(1, 0), or for copy=True"
        )
        raise BufferError(msg)
    if not device.streamed:
        return x._capsule(versioned, 0)
    # What is to be waited for includes the move of an array that shares its memory, so that comes first.
    with storage.reading(x) if x._flags else storage.writing(x, native.FOR_DLPACK):
        device.export_on(x, number)
        return x._capsule(versioned, 0)


def to_dlpack(x: Any, /) -> Any:
    """Return an unversioned capsule of an array, as the first DLPack had it.

    Parameters
    ----------
    x
        An array, or any object with ``__dlpack__``.

    Returns
    -------
    PyCapsule
        Named ``dltensor``, sharing memory with `x`.  It can be consumed once; dropped before that, it lets go of
        the memory.

    Raises
    ------
    BufferError
        If `x` is read-only, which such a capsule cannot say, or cannot be exported so for another reason.
    AttributeError
        If `x` has no ``__dlpack__``.

    See Also
    --------
    nbdlpack.from_dlpack : Takes such a capsule, and the arrays themselves, which is what consumers should be given.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> capsule = nd.dlpack.to_dlpack(nd.arange(3))
    >>> nd.from_dlpack(capsule)
    array([0, 1, 2])
    """
    capsule, _ = ask(x, {}, versioned=False)
    if capsule_name(capsule) != LEGACY:
        msg = f"a {type(x).__name__} gives no unversioned capsule: pass it to a consumer that knows versions of DLPack"
        raise BufferError(msg)
    return capsule
