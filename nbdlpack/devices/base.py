"""What a device is, and what it must be able to do.

A device is one module beside this one with one subclass of `Device`, and one row in `nbdlpack.devices.KINDS`.

A device must (the methods below that raise NotImplementedError)

* allocate: `empty`, with or without zeros,
* compute: `elementwise`, `reduce`, `generalized`,
* move data between layouts, dtypes and the host: `assign`, `to_host`, `from_host`,
* reach single elements: `gather`, `scatter`, `at`,
* `synchronize`.

What stands above it does the rest once for all devices: promotion, broadcasting, shapes, basic indexing, views,
copy-on-write, the locks of a write.  So a device is given operands that fit, and outputs that it may write to.

Operands are Views on this device, or Python and NumPy scalars and NumPy arrays.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np

from nbdlpack import dtypes, native
from nbdlpack.devices.routines import ROUTINES
from nbdlpack.errors import DeviceError
from nbdlpack.native.device_types import DLDeviceType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from nbdlpack.native import View

    V = TypeVar("V", bound=View)

REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sum": np.add.reduce,
    "prod": np.multiply.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "any": np.logical_or.reduce,
    "all": np.logical_and.reduce,
    "mean": np.mean,
    "std": np.std,
    "var": np.var,
    "argmin": np.argmin,
    "argmax": np.argmax,
}
"""The reductions, and what of NumPy says what each of them is: a ufunc's method, without a wrapper, or a function."""
ACCUMULATING: Final = frozenset({"sum", "prod", "mean", "std", "var"})
"""The reductions whose intermediate results are larger or finer than their elements."""
NARROW: Final = {name: dtypes.EXTENDED | ({np.dtype(np.float16)} if name == "mean" else set()) for name in ACCUMULATING}
"""The dtypes of which these are computed in float32: NumPy does so for a mean of float16."""
SEARCHING: Final = frozenset({"argmin", "argmax"})
"""The reductions that give positions: along one axis, or in the flattened array."""


class Device:
    """A place where arrays can be, such as ``cpu``.

    Devices are values: two with the same kind and index are equal, and equal to their names.  The names of devices of
    which there can be several have a number, as in ``cuda:1``.

    Parameters
    ----------
    name : str or Device
        The name of the device.

    Returns
    -------
    Device
        The device of that name: one of a subclass, and the same one each time.

    Raises
    ------
    ValueError
        If no device has such a name.
    DeviceError
        If it is not there on this machine.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.Device("cpu")
    Device('cpu')
    >>> nd.zeros(3).device == nd.Device("cpu")
    True
    >>> nd.Device("tape")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: there is no device named 'tape', only: cpu, cuda, cuda:1, ...
    """

    __slots__ = ("_dlpack", "_name")

    kind: ClassVar[str]
    """The device's name without a number."""
    hosted: ClassVar[bool] = False
    """Whether NumPy computes on the device's memory itself, where it is."""
    routines: ClassVar[frozenset[str]] = frozenset()
    """The rows of `devices.routines.ROUTINES` that `compute` has a way for where NumPy does not compute."""
    streamed: ClassVar[bool] = False
    """Whether work on the device is put into streams; then it has the functions of `native.watch`."""

    _name: str
    _dlpack: tuple[int, int]

    def __new__(cls, name: str | Device) -> Device:  # noqa: D102
        return named(name)

    @property
    def index(self) -> int:
        """The device's number among those of its kind."""
        return self._dlpack[1]

    @property
    def dlpack(self) -> tuple[int, int]:
        """The device as DLPack names it: its type and its number."""
        return self._dlpack

    @property
    def place(self) -> int:
        """The device's number in arrays, no other device's: `View._place`."""
        return self._dlpack[0] | self._dlpack[1] << 8

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"Device({self._name!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Device):
            return self.place == other.place
        if isinstance(other, str):
            return other in (self._name, f"{self.kind}:{self.index}")
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._name)

    def __reduce__(self) -> tuple[type[Device], tuple[str]]:
        return Device, (self._name,)

    # -- allocate

    def empty(self, cls: type[V], shape: tuple[int, ...], dtype: np.dtype[Any], *, zeros: bool = False) -> V:
        """Return a C-contiguous array of a class in new memory, of zeros or of anything."""
        raise NotImplementedError

    # -- compute: into outputs, which may overlap inputs as if those had been read first

    def elementwise(
        self, ufunc: np.ufunc, inputs: tuple[Any, ...], outputs: tuple[Any, ...], options: Mapping[str, Any]
    ) -> None:
        """Apply a ufunc, element by element after broadcasting, with NumPy's options such as `where`."""
        raise NotImplementedError

    def reduce(self, name: str, x: View, out: Any, axes: tuple[int, ...], options: Mapping[str, Any]) -> None:
        """Reduce axes of an array by the reduction of that name, in the dtype of the output or `options["dtype"]`."""
        raise NotImplementedError

    def generalized(self, method: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Call a method of a ufunc that is not plain elementwise; return NumPy arrays or scalars, for `from_host`."""
        raise NotImplementedError

    def compute(self, cls: type[V], name: str, inputs: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        """Return what a row of `devices.routines.ROUTINES` gives: new arrays of a class, one or a tuple of them.

        What a device has no way of its own for is computed on the host.
        """

        def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
            a: npt.NDArray[Any] = np.empty(shape, dtype)
            return a, a

        hosted = [self.to_host(x) if isinstance(x, native.View) else x for x in inputs]
        result = ROUTINES[name].compute(new, *hosted, *options)
        if isinstance(result, tuple):
            return tuple([self.from_host(cls, part) for part in result])
        return self.from_host(cls, result)

    # -- move data

    def assign(self, target: View, value: Any) -> None:
        """Write a value into an array, broadcast and cast as NumPy's assignment does."""
        raise NotImplementedError

    def to_host(self, x: View) -> npt.NDArray[Any]:
        """Return the elements for reading, as a NumPy array on the same memory or a copy, not to be kept for long."""
        raise NotImplementedError

    def from_host(self, cls: type[V], a: npt.NDArray[Any]) -> V:
        """Return a C-contiguous array of a class in new memory with the elements of a NumPy array."""
        raise NotImplementedError

    def receive(self, cls: type[V], x: View, source: Device) -> V:
        """Return a C-contiguous array of a class in new memory with the elements of an array on another device."""
        return self.from_host(cls, source.to_host(x))

    def arange(self, cls: type[V], start: Any, stop: Any, step: Any, dtype: np.dtype[Any] | None) -> V:
        """Return a new array of what `numpy.arange` gives, in the dtype that it chooses if that is None."""
        return self.from_host(cls, np.arange(start, stop, step, dtype=dtype))

    def nonzero(self, cls: type[V], x: View) -> tuple[V, ...]:
        """Return the positions of the elements that are not zero, an array for each dimension."""
        return tuple([self.from_host(cls, positions) for positions in self.generalized(np.nonzero, (x,), {})])

    # -- exchange: what streams ask for; a device that has none needs nothing of this

    def check_stream(self, stream: int | None) -> None:
        """Raise ValueError if a consumer of arrays on this device cannot have a stream of that number."""
        if stream not in (None, -1):
            msg = f"stream is {stream!r}, but device {self} has no streams: pass None, or -1"
            raise ValueError(msg)

    def export_on(self, x: View, stream: int | None) -> None:
        """Make a consumer's stream wait for what was begun with an array that it is given."""

    def working_on(self, stream: Any) -> AbstractContextManager[object]:
        """Return a context in which work on this device goes to a stream, given as such or by a consumer's number."""
        self.check_stream(stream)
        return nullcontext()

    def consumer_stream(self) -> int | None:
        """Return the stream that a producer is to be given, for what comes in to be ready on it; None if none."""
        return None

    def numba_type(self, x: View) -> Any:  # noqa: ARG002
        """Return the type that Numba is to take an array for, or raise the TypeError that says why it has none."""
        msg = f"Numba's functions take no arrays on {self}: move it first, x.to_device('cpu') for functions on the CPU"
        raise TypeError(msg)

    # -- single elements

    def gather(self, cls: type[V], x: View, key: Any) -> V:
        """Return ``x[key]`` in new memory, for a key with index arrays or masks."""
        raise NotImplementedError

    def scatter(self, x: View, key: Any, value: Any) -> None:
        """Write ``x[key] = value``, for a key with index arrays or masks."""
        raise NotImplementedError

    def at(self, ufunc: np.ufunc, x: Any, key: Any, values: tuple[Any, ...]) -> None:
        """Apply a ufunc in place at ``x[key]``, once for each time that a place is named."""
        raise NotImplementedError

    # -- memory: of the host, where a device does not say otherwise

    def memory_info(self) -> tuple[int, int, int, int, int, int]:
        """Return what `nbdlpack.MemoryInfo` is made of."""
        world, page = native.world, os.sysconf("SC_PAGE_SIZE")
        free, total = [page * os.sysconf(name) for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES")]
        return world.bytes, world.blocks, world.pinned, 0, free, total

    def release_cached_memory(self) -> None:
        """Give back what is kept for arrays to come."""

    # -- wait

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""
        raise NotImplementedError


def checked_stream(stream: object) -> int:
    """Return the argument `stream` of the standard, an integer.  Raises TypeError if it is none; a bool is none."""
    try:
        if not isinstance(stream, bool):
            return index(stream)  # type: ignore[arg-type]
    except TypeError:
        pass
    msg = f"stream must be None or an integer, got {stream!r}"
    raise TypeError(msg)


# -- which devices there are


class Kind(NamedTuple):
    """A kind of devices: a row of `nbdlpack.devices.KINDS`."""

    name: str
    type: DLDeviceType
    find: Callable[[int], Device]
    """Make the device of a number, or raise the DeviceError that says why it cannot be used."""
    several: bool = True
    """Whether devices of the kind are numbered in their names."""


kinds: Final[dict[str, Kind]] = {}
numba_types: Final[dict[int, Any]] = {}
"""Numba's types of arrays that were arguments of kernels before, by `View._kind`."""
_named: Final[dict[str, Device]] = {}
_placed: Final[dict[int, Device]] = {}
_finding: Final = threading.RLock()


def register(device: Device) -> None:
    """Make a device known by its names and its numbers, so that tensors on it are imported."""
    _named[str(device)] = _placed[device.place] = device
    kind, number = device.dlpack
    native.importable[kind] = native.STREAMED if device.streamed else 1
    native.device_tuples[device.place] = (DLDeviceType(kind), number)


def _find(kind: Kind, number: int) -> Device:
    with _finding:
        device = _placed.get(kind.type | number << 8)
        if device is None:
            device = kind.find(number)
            if device.place not in _placed:  # a device that another kind stands for, as the simulator's
                register(device)
    return device


def named(name: str | Device) -> Device:
    """Return the device of a name.  Raises ValueError if there is none, DeviceError if it cannot be used here."""
    if isinstance(name, Device):
        return name
    try:
        return _named[name]
    except (KeyError, TypeError):
        pass
    if not isinstance(name, str):
        msg = f"device is {name!r}, but must be a Device or its name as a str"
        raise TypeError(msg)
    word, colon, digits = name.partition(":")
    kind = kinds.get(word)
    if kind is None or (colon and not (kind.several and digits.isdecimal())):
        names = ", ".join([f"{kind.name}, {kind.name}:1" if kind.several else kind.name for kind in kinds.values()])
        msg = f"there is no device named {name!r}, only: {names}"
        raise ValueError(msg)
    device = _named[name] = _find(kind, int(digits or 0))
    return device


def numbered(number: tuple[int, int]) -> Device:
    """Return the device that DLPack gives a type and a number.  Raises DeviceError if it cannot be used here.

    Some libraries number the memory of a kind of which there is one: whatever the number, it is that.
    """
    found = _placed.get(number[0] | number[1] << 8)
    if found is None:
        for kind in kinds.values():
            if kind.type == number[0]:
                found = _find(kind, number[1] if kind.several else 0)
        found = found or _placed.get(number[0])
    if found is None or found.dlpack[0] != number[0]:
        msg = f"there is no device of DLPack's number {number} here"
        raise DeviceError(msg)
    return found


def placed(place: int) -> Device:
    """Return the device of a number that arrays have."""
    return _placed.get(place) or numbered((place & 255, place >> 8))
