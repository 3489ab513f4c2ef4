"""What an array is to Python, to NumPy and to those who ask for its memory."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import numpy as np

from nbdlpack import devices, dtypes, pickling, printing, storage
from nbdlpack.errors import DeviceError
from nbdlpack.flags import Flags
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DTypeLike


_numba_types: Final = devices.base.numba_types


class Protocols(View):
    """The part of an array that can be asked for its elements and its memory in other forms."""

    __slots__ = ()

    @property
    def device(self) -> Device:
        """The device the array is on."""
        return devices.of(self)

    @property
    def flags(self) -> Flags:
        """What kind of memory the array has."""
        return Flags(self)

    @property
    def data(self) -> memoryview:
        """The array's buffer, to be written to if the array can: a counted export."""
        return memoryview(self)  # type: ignore[arg-type]

    @property
    def ptr(self) -> int:
        """The address of the first element.

        The memory of an array that can be written to stays where it is from now on, and copies of it are not lazy.
        """
        return self._address()

    @property
    def ctypes(self) -> Any:
        """What `numpy.ndarray.ctypes` is: the address, shape and strides for ctypes.  As with `ptr`, memory stays."""
        a = self._host(2)
        self._address()
        return a.ctypes

    # -- elements

    def item(self, *args: Any) -> Any:
        """Return one element as a Python number: the only one, or that of a flat index or of one index a dimension."""
        return self._host_value().item(*args)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self._host_value().tolist()

    def _host_value(self) -> npt.NDArray[Any]:
        return devices.of(self).to_host(self)

    def __len__(self) -> int:
        if self.ndim == 0:
            msg = "len() of an array without dimensions: it has one element, x.item()"
            raise TypeError(msg)
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        if self.ndim == 0:
            msg = "iteration over an array without dimensions: it has one element, x.item()"
            raise TypeError(msg)
        return self._rows()

    def _rows(self) -> Iterator[Self]:
        (n, *rest), (step, *steps) = self.shape, self._steps
        cls, dtype, flags, shape, steps_ = type(self), self.dtype, self._flags, tuple(rest), tuple(steps)
        stride = step * dtype.itemsize
        for i in range(n):
            yield self._view(cls, i * stride, dtype, flags, shape, steps_)

    # -- NumPy's protocols

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:  # noqa: FBT001
        """Return a NumPy array on the same memory, to be written to if the array can; a copy if it must be.

        Parameters
        ----------
        dtype : dtype, optional
            Another one needs a copy.
        copy : bool or None
            True for a copy, False for none or a ValueError.
        """
        own = self.dtype
        new = own if dtype is None else np.dtype(dtype)
        if new == own and not copy:
            return self._host(2)
        if copy is False:
            msg = f"copy is False, but an array of {own} has to be copied to be had as {new}: pass copy=None"
            raise ValueError(msg)
        if copy is None and self.device is not devices.host:
            msg = (
                f"the array is on {self.device}, and no NumPy array is made of it unasked: use x.to_device('cpu'), or "
                "numpy.array(x), which asks for a copy"
            )
            raise BufferError(msg)
        words = "a NumPy array was made of the array" + ("" if new == own else f" as {new}")
        storage.copied(self.size * new.itemsize, str(self.device), str(devices.host), words, asked=bool(copy))
        return self._host_value().astype(new)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        dtype = self.dtype
        if dtype in dtypes.EXTENDED:
            msg = f"NumPy's array interface has no word for {dtype}: use numpy.asarray(x), which asks __array__"
            raise AttributeError(msg)
        if self.device is not devices.host:
            msg = f"NumPy's array interface is for host memory, and the array is on {self.device}: move it to the cpu"
            raise AttributeError(msg)
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        device, dtype = self.device, self.dtype
        if not device.streamed:
            msg = f"the CUDA array interface is for a GPU's memory, and the array is on {device}"
            raise AttributeError(msg)
        if dtype in dtypes.EXTENDED:
            msg = f"the CUDA array interface has no word for {dtype}: exchange it by DLPack"
            raise AttributeError(msg)
        # From here on the current stream waits for what was begun elsewhere, so that is the one to name.
        return {**self._interface(), "stream": device.consumer_stream()}

    def _interface(self) -> dict[str, Any]:
        """Return what both interfaces say: the bare address, and what is there."""
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": None if self._contiguous & 1 else self.strides,
            "data": (self._address(), bool(self._flags)),
        }

    @property
    def _numba_type_(self) -> Any:
        # What Numba asks for, twice, when the array is an argument of a compiled function or a kernel.
        try:
            return _numba_types[self._kind]
        except KeyError:
            pass
        try:
            return self.device.numba_type(self)
        except (TypeError, DeviceError) as error:
            # Numba then asks its `typeof`, which raises this error anew; one that is raised here is printed, or lost.
            raise AttributeError(str(error)) from None

    # -- Python's protocols

    def __bool__(self) -> bool:
        return bool(self._host_value())

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            msg = "only integer arrays without dimensions can be converted to an index"
            raise TypeError(msg)
        return index(self._host_value())

    def _scalar(self, kind: str) -> Any:
        if self.ndim:
            msg = f"only an array without dimensions can be converted to {kind}, and this has {self.ndim}: use x.item()"
            raise TypeError(msg)
        return self._host_value()

    def __bytes__(self) -> bytes:
        # Python would ask for the buffer as one who writes does.
        return self._host_value().tobytes()

    def tobytes(self, order: Any = "C") -> bytes:
        """Return the elements as bytes, in an order: C's, Fortran's, or 'A' for that which the array has."""
        return self._host_value().tobytes(order)

    def __repr__(self) -> str:
        return printing.to_repr(self)

    def __str__(self) -> str:
        return printing.to_str(self)

    def __format__(self, spec: str) -> str:
        return (
            format(self.item(), spec) if self.ndim == 0 else format(str(self), spec) if not spec else _no_format(spec)
        )

    def __copy__(self) -> Self:
        copied: Self = pickling.copied(self)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied: Self = pickling.copied(self, memo)
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return pickling.reduce(self, protocol)

    def __reduce__(self) -> tuple[Any, ...]:
        return pickling.reduce(self, 0)


def _no_format(spec: str) -> NoReturn:
    msg = f"format {spec!r} is for numbers, and an array with dimensions is none: use numpy.printoptions, or x.item()"
    raise TypeError(msg)
