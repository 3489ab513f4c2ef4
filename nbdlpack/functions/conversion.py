"""Functions that make arrays of data there is: numbers in sequences, buffers, arrays of this library and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import devices, dtypes, engine, layout, native, storage
from nbdlpack.array import from_dlpack, ndarray

if TYPE_CHECKING:
    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DType, DTypeLike
    from nbdlpack.layout import Order

__all__ = ["array", "asarray", "ascontiguousarray", "asfortranarray", "from_dlpack"]


def array(
    obj: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    order: Order = "K",
    ndmin: int = 0,
    device: Device | str | None = None,
) -> ndarray:
    """Return an array with the elements of anything: a copy if not asked otherwise.

    Parameters
    ----------
    obj : array_like
        Numbers in nested sequences, an array of this library or another, a buffer.
    dtype : dtype, optional
        That of the data if not given.
    copy : bool or None
        True for a copy, which of an array of ours is a lazy one; None for one only if it is needed; False for none, or
        a ValueError.
    order : {'C', 'F', 'A', 'K'}
        The layout, see `ndarray.copy`.
    ndmin : int
        How many dimensions there are at least: axes of length one are put in front.
    device : Device or str, optional
        Where the data is if not given, and the default device for what is no array.

    Returns
    -------
    ndarray
        Shares memory if `copy` is not True and none was needed.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If `copy` is False and a copy is needed.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.array([1, 2.5])
    array([1. , 2.5])
    """
    x = asarray(obj, dtype, device=device, copy=copy, order=order)
    if x.ndim >= ndmin:
        return x
    extra = ndmin - x.ndim
    return x._restepped((1,) * extra + x.shape, (0,) * extra + x._steps)


def asarray(
    obj: Any,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
    copy: bool | None = None,
    order: Order = "K",
) -> ndarray:
    """Return anything as an array: on the same memory if that can be.

    An array of this library is returned as it is.  Objects with ``__dlpack__``, NumPy arrays, and objects with a buffer
    or NumPy's array protocols are shared; what is written on one side is seen on the other.

    Parameters
    ----------
    obj : array_like
        Numbers in nested sequences, an array of this library or another, a buffer.
    dtype : dtype, optional
        That of the data if not given.
    device : Device or str, optional
        Where the data is if not given, and the default device for what is no array.
    copy : bool or None
        True for a copy; None for one only if it is needed; False for none, or a ValueError.
    order : {'C', 'F', 'A', 'K'}
        The layout, see `ndarray.copy`.

    Returns
    -------
    ndarray
        Shares memory with `obj` if nothing had to be copied; read-only if `obj` is.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If `copy` is False and a copy is needed, or `obj` has a mask.

    Examples
    --------
    >>> import numpy as np
    >>> import nbdlpack as nd
    >>> a = np.zeros(2)
    >>> x = nd.asarray(a)
    >>> x[0] = 1
    >>> a
    array([1., 0.])
    """
    if type(obj) is ndarray and dtype is None and device is None and not copy and order == "K":
        return obj
    kind = None if dtype is None else dtypes.canonical(dtype)
    letter: Any = layout.check_order(order)
    where = None if device is None else devices.named(device)
    if isinstance(obj, ndarray):
        return _fit(obj, kind, where, copy, letter, fresh=False)
    if hasattr(type(obj), "__dlpack__") and not isinstance(obj, (np.ndarray, np.generic)):
        return _fit(from_dlpack(obj), kind, where, copy, letter, fresh=False)
    if hasattr(obj, "__cuda_array_interface__"):
        from nbdlpack.devices.cuda import interface  # noqa: PLC0415 (for GPUs alone)

        return _fit(interface.imported(ndarray, obj), kind, where, copy, letter, fresh=False)
    _refuse_mask(obj)
    a, shared = _host_array(obj, kind)
    if a.dtype not in dtypes.ROWS and a.dtype.newbyteorder("=") not in dtypes.ROWS:
        dtypes.canonical(a.dtype)  # says what is allowed
    x = _share(a) if shared else None
    if x is not None:
        return _fit(x, kind, where or devices.default(), copy, letter, fresh=False, asked=where is not None)
    if copy is False:
        msg = f"copy is False, but a {type(obj).__name__} has to be copied to become an array: pass copy=None"
        raise ValueError(msg)
    if shared:
        cause = f"strides {a.strides} of {a.dtype!r} cannot be shared"
        storage.copied(a.nbytes, str(devices.host), str(devices.host), cause, asked=bool(copy))
    a = a if kind is None else a.astype(kind, copy=False)
    if not a.dtype.isnative:
        a = a.astype(a.dtype.newbyteorder("="))
    return _fit(from_host(a, where), kind, where, None, letter, fresh=True)


def _refuse_mask(obj: Any) -> None:
    """Raise ValueError for data of which a mask says that some is not valid: an array has no room for that."""
    if isinstance(obj, np.ndarray):
        found = engine.is_masked(obj)
    else:
        interface = getattr(obj, "__array_interface__", None)
        found = isinstance(interface, dict) and interface.get("mask") is not None
    if found:
        msg = f"obj is a {type(obj).__name__} with a mask, which an array cannot have: pass obj.filled(), or obj.data"
        raise ValueError(msg)


def _host_array(obj: Any, dtype: DType | None) -> tuple[np.ndarray[Any, Any], bool]:
    """Return data as a NumPy array, and whether that is on memory which the data has."""
    if isinstance(obj, np.ndarray):
        return obj, True
    if _has_memory(obj):
        return np.asarray(obj), True
    return np.array(engine.hosted(obj), dtype), False


def _has_memory(obj: Any) -> bool:
    """Return whether NumPy makes an array of something by sharing its memory, or leaves it to the thing itself."""
    kind = type(obj)
    if kind in (list, tuple, int, float) or isinstance(obj, np.generic):
        return False
    try:
        memoryview(obj)
    except TypeError:
        return any(hasattr(obj, name) for name in ("__array__", "__array_interface__", "__array_struct__"))
    return True


def _share(a: np.ndarray[Any, Any]) -> ndarray | None:
    """Return an array on the memory of a NumPy array, or None if its dtype or strides do not allow it."""
    dtype = a.dtype
    itemsize = dtype.itemsize
    if dtype not in dtypes.ROWS or any(stride % itemsize for stride in a.strides):
        return None
    kind = dtypes.canonical(dtype)
    shape, steps = a.shape, tuple([stride // itemsize for stride in a.strides])
    flags = 0 if a.flags.writeable else native.READ_ONLY
    if a.size == 0:
        return devices.host.empty(ndarray, shape, kind)._restepped(shape, layout.c_steps(shape), flags)
    address = _address(a)
    low, high = layout.bounds(shape, steps)
    start = address + low * itemsize
    positive = tuple([abs(step) for step in steps])
    x = ndarray._wrap(a, start, devices.host.dlpack, (high - low) * itemsize, 1, kind, flags, shape, positive)
    return x if low == 0 else x._view(ndarray, -low * itemsize, kind, x._flags, shape, steps)


def _address(a: np.ndarray[Any, Any]) -> int:
    address: int = a.__array_interface__["data"][0]
    return address


def _fit(
    x: ndarray,
    dtype: DType | None,
    device: Device | None,
    copy: Any,
    order: Order,
    *,
    fresh: bool,
    asked: bool = True,
) -> ndarray:
    """Return an array with a dtype, on a device, in an order, copied if it has to be or that is wanted.

    `asked` says whether the device was named, and is not only the default one.
    """
    changes_device = device is not None and device is not x.device
    changes_dtype = dtype is not None and dtype is not x.dtype
    changes_order = not layout.is_laid_out(x._contiguous, order)
    if not (changes_device or changes_dtype or changes_order):
        return x.copy(order) if copy else x
    changes = (
        (changes_dtype, f"dtype {x.dtype} to {dtype}"),
        (changes_device, f"device {x.device} to {device}"),
        (changes_order, f"layout to order {order!r}"),
    )
    words = f"asarray() changes {' and '.join([what for changed, what in changes if changed])}"
    if copy is False:
        msg = f"copy is False, but {words}, which needs a copy: pass copy=None"
        raise ValueError(msg)
    if changes_device:
        x = storage.to_device(x, type(x), device, words, asked=asked or bool(copy))  # type: ignore[arg-type]
    if changes_dtype or changes_order:
        asked = bool(copy) or fresh or changes_device
        x = storage.copy(x, type(x), order, words, asked=asked, dtype=dtype)
    return x


def from_host(a: np.ndarray[Any, Any], device: Device | str | None) -> ndarray:
    """Return a new array with the elements of a NumPy array, on a device or the default one."""
    dtypes.canonical(a.dtype)
    return devices.default(device).from_host(ndarray, a)


def ascontiguousarray(obj: Any, dtype: DTypeLike | None = None, *, device: Device | str | None = None) -> ndarray:
    """Return anything as an array in C order of at least one dimension: itself if it is, else a copy.

    Parameters
    ----------
    obj : array_like
        The data, see `asarray`.
    dtype : dtype, optional
        That of the data if not given.
    device : Device or str, optional
        See `asarray`.

    Returns
    -------
    ndarray
        Shares memory with `obj` if nothing had to be copied.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.ascontiguousarray(nd.arange(3)[::-1]).strides
    (8,)
    """
    x = asarray(obj, dtype, device=device, order="C")
    return x if x.ndim else x.reshape(1)


def asfortranarray(obj: Any, dtype: DTypeLike | None = None, *, device: Device | str | None = None) -> ndarray:
    """Return anything as an array in Fortran order: itself if it is, else a copy.

    Parameters
    ----------
    obj : array_like
        The data, see `asarray`.
    dtype : dtype, optional
        That of the data if not given.
    device : Device or str, optional
        See `asarray`.

    Returns
    -------
    ndarray
        Shares memory with `obj` if nothing had to be copied.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.asfortranarray(nd.zeros((2, 3))).flags.f_contiguous
    True
    """
    return asarray(obj, dtype, device=device, order="F")
