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

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import numpy as np

from nbdlpack import dtypes, native

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
    >>> nd.Device("tape")
    Traceback (most recent call last):
    ...
    ValueError: there is no device named 'tape', only: cpu
    """

    __slots__ = ("_dlpack", "_name")

    kind: ClassVar[str]
    """The device's name without a number."""

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

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"Device({self._name!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Device):
            return self._dlpack == other._dlpack and self.kind == other.kind
        return self._name == other if isinstance(other, str) else NotImplemented

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

    # -- wait

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""
        raise NotImplementedError


_named: dict[str, Device] = {}
_numbered: dict[tuple[int, int], Device] = {}


def register(device: Device) -> None:
    """Make a device known by its names and by DLPack's numbers, so that tensors on it are imported."""
    _named[str(device)] = device
    _numbered[device.dlpack] = device
    native.importable[device.dlpack[0]] = 1


def named(name: str | Device) -> Device:
    """Return the device of a name.  Raises ValueError if there is none."""
    if isinstance(name, Device):
        return name
    try:
        return _named[name]
    except (KeyError, TypeError):
        pass
    if not isinstance(name, str):
        msg = f"device is {name!r}, but must be a Device or its name as a str"
        raise TypeError(msg)
    msg = f"there is no device named {name!r}, only: {', '.join(_named)}"
    raise ValueError(msg)


def numbered(number: tuple[int, int]) -> Device:
    """Return the device that DLPack gives a type and a number.

    Some libraries number the memory of a kind of which there is one: whatever the number, it is that.
    """
    return _numbered.get(number) or _numbered[number[0], 0]
