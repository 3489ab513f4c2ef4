"""The part of a device that computes by kernels: the same for a GPU and for Numba's simulator of one.

`KernelDevice` fulfils the contract of `nbdlpack.devices.base` by the modules beside this one, which say what is to be
launched.  A subclass has the memory and does the launching: the methods of `KernelDevice` that raise
NotImplementedError, and `empty` and `synchronize`.

    launching       how many threads, and arguments as a launch takes them
    elementwise     ufuncs
    reducing        reductions
    moving          assignment, casts, and the way from and to the host
    selecting       index arrays and masks
    hosted          what is left to NumPy, on copies in host memory
    arguments       arrays as arguments of the users' own kernels

Each is imported when it is first used, because most need numba-cuda: what needs no kernel works without it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from nbdlpack.devices.base import Device
from nbdlpack.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    import numpy.typing as npt

    from nbdlpack.kernels.numba_cuda import Kernel
    from nbdlpack.native import View

    V = TypeVar("V", bound=View)

__all__ = ["Deferred", "KernelDevice", "take_part"]


class Deferred:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._name), name)
        setattr(self, name, found)  # the next time this is not called
        if "numba.cuda" in sys.modules:
            take_part()
        return found


_elementwise, _reducing = Deferred(f"{__name__}.elementwise"), Deferred(f"{__name__}.reducing")
_moving, _selecting = Deferred(f"{__name__}.moving"), Deferred(f"{__name__}.selecting")
_hosted, _arguments = Deferred(f"{__name__}.hosted"), Deferred(f"{__name__}.arguments")


def take_part() -> None:
    """Let the users' own kernels take arrays: at once if there may be any, else when `numba.cuda` is imported.

    So a process that has no kernels of its own does not import Numba, and one that has them finds our arrays known,
    whichever of the two it begins with.
    """
    if "numba.cuda" in sys.modules:
        ours = sys.modules.get("nbdlpack.kernels.numba_cuda")
        if ours is not None and not hasattr(ours, "accept"):
            return  # it is just importing that; `Deferred` comes back
        with contextlib.suppress(DeviceError):  # numba-cuda is not as it should be: it will be told where it is needed
            importlib.import_module(f"{__name__}.arguments")
    elif _awaited not in sys.meta_path:
        sys.meta_path.insert(0, _awaited)


class _Awaited:
    """Finds `numba.cuda` as others do, and comes back to `take_part` when it has been imported."""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name != "numba.cuda":
            return None
        sys.meta_path.remove(_awaited)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def then_take_part(module: Any) -> None:
                execute(module)
                take_part()

            spec.loader.exec_module = then_take_part  # type: ignore[method-assign]
        return spec


_awaited: Any = _Awaited()


class KernelDevice(Device):
    """A device that computes by launching kernels on memory of which it knows the addresses."""

    __slots__ = ()

    routines = frozenset({"concat", "count_nonzero", "take", "where"})

    # -- what a subclass has, besides `empty` and `synchronize`

    def launch(self, kernel: Kernel, threads: int, *args: Any) -> None:
        """Launch a kernel on the current stream, with about as many threads as there are things to do.

        Arguments are Python ints, tuples of them, and Python or NumPy scalars; they are converted to what the kernel's
        signature says.  With no threads nothing is launched.
        """
        raise NotImplementedError

    def accessing(
        self, reads: Sequence[View], writes: Sequence[View], stream: Any = None
    ) -> AbstractContextManager[Any]:
        """Return a context for launches that read some arrays and write others.

        On entry the device is made current, and the stream of the launches waits for work on other streams that
        conflicts.  On exit, also by an error, what was launched is entered in the use tables of the memory.  The stream
        is the current one, or another, of any library, that has `__cuda_stream__`.
        """
        raise NotImplementedError

    def address(self, x: View) -> int:
        """Return the address of an array's first element, valid within `accessing`."""
        return x._first

    def upload(self, address: int, a: npt.NDArray[Any]) -> None:
        """Copy the bytes of a C-contiguous NumPy array to an address, on the current stream.

        The array may be changed as soon as the call returns.
        """
        raise NotImplementedError

    def download(self, a: npt.NDArray[Any], address: int) -> None:
        """Copy bytes from an address into a C-contiguous NumPy array, and wait until they are there."""
        raise NotImplementedError

    def copy_memory(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes from one address to another without a kernel, on the current stream, within `accessing`."""
        raise NotImplementedError

    def current(self) -> KernelDevice:
        """Return the device of this kind on which this thread's own kernels, those of the user, run."""
        raise NotImplementedError

    @staticmethod
    def argument(x: View) -> Any:
        """Return what stands for an array in a launch of a user's kernel, as `numba_cuda.accept` says.

        It is asked for within `accessing`.
        """
        raise NotImplementedError

    # -- compute

    def elementwise(
        self, ufunc: np.ufunc, inputs: tuple[Any, ...], outputs: tuple[Any, ...], options: Mapping[str, Any]
    ) -> None:
        _elementwise.apply(self, ufunc, inputs, outputs, options)

    def reduce(self, name: str, x: View, out: Any, axes: tuple[int, ...], options: Mapping[str, Any]) -> None:
        _reducing.reduce(self, name, x, out, axes, options)

    def generalized(self, method: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        return _hosted.generalized(self, method, inputs, options)

    def compute(self, cls: type[V], name: str, inputs: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        if name in self.routines:
            return getattr(_selecting, name)(self, cls, *inputs, *options)
        return super().compute(cls, name, inputs, options)

    # -- move data

    def assign(self, target: View, value: Any) -> None:
        _moving.assign(self, target, value)

    def to_host(self, x: View) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = _moving.to_host(self, x)
        return found

    def from_host(self, cls: type[V], a: npt.NDArray[Any]) -> V:
        new: V = _moving.from_host(self, cls, a)
        return new

    def arange(self, cls: type[V], start: Any, stop: Any, step: Any, dtype: np.dtype[Any] | None) -> V:
        new: V = _moving.arange(self, cls, start, stop, step, dtype)
        return new

    def nonzero(self, cls: type[V], x: View) -> tuple[V, ...]:
        found: tuple[V, ...] = _selecting.nonzero(self, cls, x)
        return found

    def numba_type(self, x: View) -> Any:
        return _arguments.kernel_type(x)

    # -- single elements

    def gather(self, cls: type[V], x: View, key: Any) -> V:
        new: V = _selecting.gather(self, cls, x, key)
        return new

    def scatter(self, x: View, key: Any, value: Any) -> None:
        _selecting.scatter(self, x, key, value)

    def at(self, ufunc: np.ufunc, x: Any, key: Any, values: tuple[Any, ...]) -> None:
        _hosted.at(self, ufunc, x, key, values)
