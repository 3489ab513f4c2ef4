"""The cuda device of a process with NUMBA_ENABLE_CUDASIM=1: the same kernels, run by Numba's simulator.

Its memory is host memory, and so DLPack is told.  Nothing here is fast: each thread of a kernel is one of the system's.
"""

from __future__ import annotations

import ctypes
import importlib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import numpy as np

from nbdlpack import layout, native
from nbdlpack.devices.kernelled import Deferred, KernelDevice
from nbdlpack.devices.kernelled.launching import SIMULATED
from nbdlpack.errors import DeviceError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from nbdlpack.kernels.numba_cuda import Kernel
    from nbdlpack.native import View

    V = TypeVar("V", bound=View)

_numba_cuda: Final = Deferred("nbdlpack.kernels.numba_cuda")
_NUMBER: Final = 1
"""The number that arrays have of it among the kinds of host memory, of which 0 is the cpu."""


@final
class Simulator(KernelDevice):
    """The one GPU that Numba's simulator has."""

    __slots__ = ()

    kind = "cuda"

    def __new__(cls) -> Simulator:
        self = object.__new__(cls)
        self._name = "cuda"
        self._dlpack = (1, 0)  # kDLCPU
        return self

    @property
    def place(self) -> int:
        return self._dlpack[0] | _NUMBER << 8

    def empty(self, cls: type[V], shape: tuple[int, ...], dtype: np.dtype[Any], *, zeros: bool = False) -> V:
        new = cls._empty(shape, dtype, int(zeros))
        new._settle(_NUMBER)
        return new

    def launch(self, kernel: Kernel, threads: int, *args: Any) -> None:
        if threads > 0:
            _numba_cuda.simulate(kernel, *SIMULATED, args)

    def accessing(self, *_: Any) -> AbstractContextManager[Any]:
        return nullcontext()

    def upload(self, address: int, a: npt.NDArray[Any]) -> None:
        ctypes.memmove(address, a.ctypes.data, a.nbytes)

    def download(self, a: npt.NDArray[Any], address: int) -> None:
        ctypes.memmove(a.ctypes.data, address, a.nbytes)

    def copy_memory(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def current(self) -> Simulator:
        return self

    @staticmethod
    def argument(x: View) -> Any:
        a: npt.NDArray[Any] = np.empty(x.shape, x.dtype)
        if x.size:
            low, high = [end * x.itemsize for end in layout.bounds(x.shape, x._steps)]
            memory: Any = (ctypes.c_char * (high - low)).from_address(x._first + low)
            a = np.ndarray(x.shape, x.dtype, memory, -low, x.strides)
        a.flags.writeable = not x._flags & native.READ_ONLY
        return _numba_cuda.argument(a)

    def synchronize(self) -> None:
        """Do nothing: a launch returns when the kernel has run."""


_device: Final = Simulator()


def device(number: int) -> Simulator:
    """Return the device of a number."""
    if number:
        msg = f"there is no cuda:{number}: Numba's simulator, which NUMBA_ENABLE_CUDASIM=1 asks for, has one GPU"
        raise DeviceError(msg)
    # Here Numba asks arrays nothing before a launch, so this cannot wait until it does.
    importlib.import_module("nbdlpack.devices.kernelled.arguments")
    return _device
