"""Arrays as arguments of the users' own kernels: ``kernel[grid, block, stream](x, 2.0, y)``.

Numba asks an array for its type, `kernel_type`, and compiles a kernel for the types that it meets.  Around each launch
stands a `Launch`: from before the arguments are looked at until the kernel is in its stream, writers of their storages
wait.  So what is launched is what was looked at, whatever other threads do.

* An array whose parameter can be written to becomes the sole owner of its memory first, as by any other write.
* `nbdlpack.readonly(x)` has a type of its own, to which a kernel cannot write: it moves nothing and splits nothing.
* An array that is not where the kernel is to run is an error before anything has been done.
"""

from __future__ import annotations

import sys
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from nbdlpack import devices, native
from nbdlpack.devices import base
from nbdlpack.devices.kernelled import KernelDevice
from nbdlpack.errors import DeviceError
from nbdlpack.kernels import numba_cuda
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from nbdlpack.devices import Device

__all__ = ["Launch", "kernel_type"]

_LAYOUTS: Final = ("A", "C", "F", "C")
"""Numba's names of layouts, by `View._contiguous`."""


def kernel_type(x: View) -> Any:
    """Return Numba's type of an array, and keep it where arrays look for it.

    Raises
    ------
    TypeError
        If Numba has no such elements.
    """
    dtype, readonly = x.dtype, bool(x._flags & native.READ_ONLY)
    found = numba_cuda.array_type(dtype, x.ndim, _LAYOUTS[x._contiguous], readonly=readonly)
    if found is None:
        word = f"uint{8 * dtype.itemsize}"
        msg = f"Numba's kernels know no {dtype}: pass the array's bits, x.view({word!r}), and take them apart"
        raise TypeError(msg)
    return base.numba_types.setdefault(x._kind, found)


class Launch:
    """A context around one launch with arrays; it gives what returns the parameters that stand for an array.

    Parameters
    ----------
    found : list of tuple
        The arrays, each with Numba's type of the parameter, or None in the simulator.
    stream : object
        The stream of the launch, or None.
    """

    __slots__ = ("_access", "_found", "_held", "_stream")

    def __init__(self, found: list[tuple[View, Any]], stream: Any) -> None:
        self._found, self._stream = found, stream
        self._held: list[tuple[View, Any]] = []
        self._access: AbstractContextManager[Any] | None = None

    def __enter__(self) -> tuple[Callable[[View], Any], int]:
        device = _launched_on()
        place = id(device)
        arrays: list[tuple[int, bool, View]] = []
        for x, wanted in self._found:
            try:
                written = _written[place, x._kind, id(wanted)][0]
            except KeyError:
                written = _check(device, x, wanted)
            arrays.append((x._storage, written, x))
        if len(arrays) > 1:
            arrays.sort(key=_by_storage)  # an order that all threads agree on
        held, reads, writes = self._held, [], []
        try:
            for _, written, x in arrays:
                # Other writers wait from here on; who may write himself becomes the sole owner.
                if written:
                    held.append((x, x._begin_write(native.FOR_WRITE)))
                    writes.append(x)
                else:
                    held.append((x, x._begin_read()))
                    reads.append(x)
            access = device.accessing(reads, writes, self._stream)
            access.__enter__()
            self._access = access
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return device.argument, device.index

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        access, self._access = self._access, None
        try:
            if access is not None:
                access.__exit__(kind, error, tb)
        finally:
            held = self._held
            while held:
                x, hold = held.pop()
                x._end_write(hold)


_by_storage: Final = itemgetter(0)
_written: Final[dict[tuple[int, int, int], tuple[bool, Any]]] = {}
"""Whether an array may be written to that is passed to a device, by `View._kind`, for a parameter of a type.

Devices live for ever; the type is kept beside the answer, so that no other has its id.
"""


def _check(device: KernelDevice, x: View, wanted: Any) -> bool:
    """Return whether an array may be written to in a launch, or raise the error that says why it cannot be passed."""
    here = devices.of(x)
    if here is not device and here.kind not in _REACHED:
        raise DeviceError(_elsewhere(here, device))
    if wanted is None:
        written = not x._flags & native.READ_ONLY
    else:
        kind = kernel_type(x)
        if not numba_cuda.fits(kind, x._contiguous, wanted):
            msg = f"an array is of Numba's type {kind}, but the kernel was compiled for {wanted}"
            raise TypeError(msg)
        written = wanted.mutable
    _written[id(device), x._kind, id(wanted)] = written, wanted
    return written


_REACHED: Final = frozenset({"cuda_host", "cuda_managed"})
"""The kinds of memory that every GPU reaches."""


@cache
def _current() -> Callable[[], KernelDevice]:
    gpu: Any = devices.named("cuda")
    found: Callable[[], KernelDevice] = gpu.current
    return found


def _launched_on() -> KernelDevice:
    """Return the device on which this thread's kernels run."""
    return _current()()


def _elsewhere(here: Device, device: KernelDevice) -> str:
    other = f", or launch inside `with numba.cuda.gpus[{here.index}]:`" if here.kind == device.kind else ""
    return (
        f"an array on {here} was passed to a kernel that is launched on {device}: "
        f"move it there first, x.to_device({str(device)!r}){other}"
    )


def _kind_of(x: View) -> Any:
    """Return Numba's type of an array that a kernel is given, or raise the error that says why it cannot be."""
    here = devices.of(x)
    if here.kind not in _REACHED and not isinstance(here, KernelDevice):
        raise DeviceError(_elsewhere(here, _launched_on()))
    return kernel_type(x)


numba_cuda.accept(View, _kind_of, Launch)
