"""Who shares memory with whom, what was copied and why, and how much memory there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from nbdlpack import devices, layout, native, storage
from nbdlpack.array import ndarray
from nbdlpack.devices.cuda import memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbdlpack.devices import Device

    A = TypeVar("A", bound=ndarray)

__all__ = [
    "CopyStats",
    "MemoryInfo",
    "add_memory_callback",
    "copy_log",
    "copy_stats",
    "is_shared",
    "materialize",
    "memory_info",
    "no_copies",
    "readonly",
    "release_cached_memory",
    "shares_memory",
]


def _checked(x: A, name: str = "x") -> A:
    if not isinstance(x, ndarray):
        msg = f"{name} is a {type(x).__name__}, but must be an nbdlpack.ndarray; nd.asarray({name}) makes one"
        raise TypeError(msg)
    return x


def readonly(x: A) -> A:
    """Return a read-only array on the same memory.

    Whatever is made of it is read-only as well, except for copies, and so are its exports by any protocol; they copy
    nothing, also where `x` shares its memory with lazy copies.  It is no snapshot: it shows what is written to `x`.

    Parameters
    ----------
    x : ndarray
        Any array, of any shape and dtype.

    Returns
    -------
    ndarray
        Of x's class, shape, dtype and device.  It **shares memory** with `x`.

    Raises
    ------
    TypeError
        If `x` is not an ndarray.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.zeros(3)
    >>> r = nd.readonly(x)
    >>> x[0] = 5
    >>> r
    array([5., 0., 0.])
    >>> r[0] = 1  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: assignment destination is read-only: write to a copy of it, x.copy(), ...
    """
    return _checked(x)._restepped(x.shape, x._steps, native.READ_ONLY)


def is_shared(x: ndarray) -> bool:
    """Return whether a write to an array would first move it to memory of its own.

    That is so while a lazy copy, or an export made before one of the two was written to, has the same memory.
    Views of one array are no copies: they are written to together.

    Parameters
    ----------
    x : ndarray
        Any array.

    Returns
    -------
    bool
        True if the memory is shared with a lazy copy.

    Raises
    ------
    TypeError
        If `x` is not an ndarray.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.zeros(3)
    >>> y = x.copy()
    >>> nd.is_shared(x)
    True
    >>> y[0] = 1
    >>> nd.is_shared(x)
    False
    """
    return storage.is_shared(_checked(x))


def materialize(x: A) -> A:
    """Give an array memory of its own now, rather than at the first write.

    Parameters
    ----------
    x : ndarray
        Any array that may be written to.

    Returns
    -------
    ndarray
        `x` itself.  All views of it have moved with it.

    Raises
    ------
    TypeError
        If `x` is not an ndarray.
    ValueError
        If `x` is read-only: it does not decide over the memory.
    MemoryError
        If there is not enough memory; then nothing has changed.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.zeros(3)
    >>> y = x.copy()
    >>> nd.is_shared(nd.materialize(y))
    False
    """
    with storage.writing(_checked(x), native.BY_NAME):
        return x


def shares_memory(a: ndarray, b: ndarray) -> bool:
    """Return whether some element of one array lies where an element of another does.

    Lazy copies do share memory, until one of them is written to.

    Parameters
    ----------
    a, b : ndarray
        Two arrays, of any dtypes, on any devices.

    Returns
    -------
    bool
        True if they have a byte in common.

    Raises
    ------
    TypeError
        If one is not an ndarray.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.arange(10)
    >>> nd.shares_memory(x[:6], x[5:]), nd.shares_memory(x[::2], x[1::2])
    (True, False)

    References
    ----------
    https://numpy.org/doc/stable/reference/generated/numpy.shares_memory.html
    """
    one, other = _checked(a, "a"), _checked(b, "b")
    if a.__dlpack_device__() != b.__dlpack_device__():
        return False
    return np.shares_memory(_shadow(one), _shadow(other))


class _Shadow:
    """What NumPy asks of an array at an address that it will not read."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _shadow(x: ndarray) -> np.ndarray[Any, Any]:
    """Return a NumPy array that lies where an array does, on whatever device, for its bounds alone."""
    interface = {
        "version": 3,
        "shape": x.shape,
        "strides": x.strides,
        "typestr": f"|V{x.itemsize}",
        "data": (x._state()[0], True),
    }
    low, high = layout.bounds(x.shape, x._steps)
    if low == high or x._state()[0] == 0:
        return np.empty(0, f"V{x.itemsize}")
    return np.asarray(_Shadow(interface))


def copy_log() -> storage.Scope:
    """List the copies of array data that are made inside a ``with`` block.

    Listed is every copy between blocks of memory that the library makes: a lazy copy that moves because someone writes,
    an eager copy, what ``copy=True`` and changes of layout, dtype or device need.  Results of computing are no copies,
    nor is selecting by index arrays and masks, nor what overwrites all of an array (``x += 1``, ``x[...] = 0``).  What
    other libraries copy is not seen.  Other threads and other contexts are not listened to.

    Returns
    -------
    context manager
        It gives a list, which fills up with objects that have `nbytes`, `source` and `target` (the devices), `cause`
        (in words), `asked` (whether it was asked for by name) and `where` (your line).

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.zeros(1000)
    >>> with nd.copy_log() as log:
    ...     y = x.copy()  # lazy: nothing is copied
    ...     y[0] = 1  # now y moves
    >>> [(c.nbytes, c.cause) for c in log]
    [(8000, 'a write to an array that shares its memory with a lazy copy')]
    """
    return storage.Scope(forbidden=False)


def no_copies() -> storage.Scope:
    """Turn each copy of array data that was not asked for by name into an error, inside a ``with`` block.

    ``x.copy()``, ``copy=True``, `materialize`, `to_device` and `array` ask by name.  An operation that is refused
    leaves all as it was.  Other threads and other contexts are not affected.

    Returns
    -------
    context manager
        Inside it, what would copy raises `nbdlpack.errors.CopyError` naming the cause.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.zeros(3)
    >>> y = x.copy()
    >>> with nd.no_copies():  # doctest: +ELLIPSIS
    ...     y[0] = 1
    Traceback (most recent call last):
    ...
    nbdlpack.errors.CopyError: no_copies() is in effect, and 24 bytes would be copied on cpu: a write to an array ...
    >>> y
    array([0., 0., 0.])
    """
    return storage.Scope(forbidden=True)


class CopyStats(NamedTuple):
    """How often data was copied and how often that was saved, since the library was imported."""

    lazy_copies: int
    """Copies that were made without copying."""
    lazy_bytes: int
    """What they would have copied."""
    moves: int
    """How often an array moved to memory of its own because it was to be written to."""
    moved_bytes: int
    """What that copied."""


def copy_stats() -> CopyStats:
    """Return how many lazy copies there were, and how many of them had to be made up for.

    Returns
    -------
    CopyStats
        A named tuple of counts for the whole process: `lazy_copies`, `lazy_bytes`, `moves`, `moved_bytes`.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> before = nd.copy_stats()
    >>> y = nd.zeros(1000).copy()
    >>> nd.copy_stats().lazy_bytes - before.lazy_bytes
    8000
    """
    world = native.world
    return CopyStats(world.lazy, world.lazy_bytes, world.moves, world.moved)


class MemoryInfo(NamedTuple):
    """How much memory a device has, and how much of it the library's arrays have."""

    bytes: int
    """Allocated here and not yet given back."""
    blocks: int
    """In so many allocations."""
    pinned_bytes: int
    """Of these, what no array has any more, only exports that others keep."""
    cached_bytes: int
    """What is kept for arrays to come, until `release_cached_memory`."""
    free_bytes: int
    """What anyone can still have, as the system or the driver says."""
    total_bytes: int
    """What the device has in all."""


def memory_info(device: Device | str | None = None) -> MemoryInfo:
    """Return how much memory the library has allocated on a device, and how much there is.

    Memory of others that arrays were imported from is not counted.

    Parameters
    ----------
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    MemoryInfo
        A named tuple: `bytes`, `blocks`, `pinned_bytes`, `cached_bytes`, `free_bytes`, `total_bytes`.

    Raises
    ------
    DeviceError
        If the device is not there.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> before = nd.memory_info("cpu").bytes
    >>> x = nd.zeros(1000, device="cpu")
    >>> nd.memory_info("cpu").bytes - before
    8000
    """
    return MemoryInfo(*devices.default(device).memory_info())


def release_cached_memory(device: Device | str | None = None) -> None:
    """Give back the memory of a device that is kept for arrays to come, for other libraries and processes to have.

    It waits until the device has done all that it was asked for.  A pool that the environment variable
    ``NBDLPACK_POOL=shared`` has chosen is not the library's, and left as it is.

    Parameters
    ----------
    device : Device or str, optional
        The default device if not given.

    Raises
    ------
    DeviceError
        If the device is not there.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.release_cached_memory("cpu")
    """
    devices.default(device).release_cached_memory()


def add_memory_callback(callback: Callable[[int], object]) -> Callable[[], None]:
    """Let a function be called when the memory of a GPU does not suffice, to free some.

    By then the library has given back all that it can.  Functions are called in the order in which they were added,
    until one returns True; then the allocation is tried once more, and raises MemoryError if it fails again.

    Parameters
    ----------
    callback : callable
        Called with how many bytes are wanted.  It returns True if it is worth a try now, without asking others.

    Returns
    -------
    callable
        Called without arguments, it takes the function off again.

    Raises
    ------
    TypeError
        If it cannot be called.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> cache = {"large": nd.zeros(1000)}
    >>> remove = nd.add_memory_callback(lambda nbytes: cache.clear())
    >>> remove()
    """
    if not callable(callback):
        msg = f"callback is a {type(callback).__name__}, but must be a function of the number of bytes"
        raise TypeError(msg)
    entry = [callback]  # equal to no other, though a function can be added twice
    memory.callbacks.append(entry)

    def remove() -> None:
        memory.callbacks[:] = [other for other in memory.callbacks if other is not entry]

    return remove
