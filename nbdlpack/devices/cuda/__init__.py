"""The cuda devices: GPUs, with memory and streams by the CUDA driver, and kernels by numba-cuda.

    driver          whether there is one, starting it, contexts
    streams         streams, events, in what order work is done
    memory          where memory comes from, who uses it, when it is given back
    hostmemory      the devices of host memory that GPUs reach
    compiling       kernels: compiled, cached, launched
    images          the user's cache of compiled kernels

Making, copying, slicing and exchanging arrays needs cuda.core alone; what needs a kernel needs numba-cuda.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, final

from nbdlpack import layout, native
from nbdlpack.devices import base
from nbdlpack.devices.base import checked_stream
from nbdlpack.devices.cuda import driver, memory, streams
from nbdlpack.devices.cuda.driver import check
from nbdlpack.devices.cuda.memory import Access
from nbdlpack.devices.kernelled import Deferred, KernelDevice, take_part
from nbdlpack.native.device_types import LEGACY_STREAM, DLDeviceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from nbdlpack.devices import Device
    from nbdlpack.devices.cuda.driver import GPU
    from nbdlpack.devices.cuda.memory import Ledger, Memory
    from nbdlpack.devices.cuda.streams import Stream
    from nbdlpack.kernels.numba_cuda import Kernel
    from nbdlpack.native import View

    V = TypeVar("V", bound=View)

__all__ = ["CUDA", "Streamed", "device"]

_compiling, _moving = Deferred(f"{__name__}.compiling"), Deferred("nbdlpack.devices.kernelled.moving")
_OURS: Final = native.OWN | native.DEVICE


class Streamed(base.Device):
    """A device whose memory GPUs use in streams: what all of them have in common."""

    __slots__ = ("gpu", "ledger")

    streamed = True
    dlpack_type: ClassVar[DLDeviceType]

    gpu: GPU
    """The GPU whose memory it is, or who gives it back."""
    ledger: Ledger

    def __new__(cls, number: int) -> Self:
        self = object.__new__(cls)
        self.gpu, self.ledger = driver.gpu(number), memory.Ledger()
        self._name = f"{self.kind}:{number}" if number else self.kind
        self._dlpack = (self.dlpack_type, number)
        _connect()
        return self

    def allocate(self, nbytes: int, *, zeros: bool = False) -> Memory:
        """Return new memory, for use on the current stream.  The GPU is current."""
        raise NotImplementedError

    def copy_block(self, target: Memory, to: int, source: Memory, of: int, nbytes: int) -> None:
        """Copy the bytes of a block to another one on this device."""
        raise NotImplementedError

    def empty(self, cls: type[V], shape: tuple[int, ...], dtype: np.dtype[Any], *, zeros: bool = False) -> V:
        gpu, nbytes = self.gpu, prod(shape) * dtype.itemsize
        if nbytes <= 0 and any(n < 0 for n in shape):
            msg = "negative dimensions are not allowed"
            raise ValueError(msg)
        entered = gpu.enter()
        try:
            if gpu.gone or gpu.waiting:
                memory.drain(gpu, owners=cls is not native.View)  # those are made while storages are locked
            new = self.allocate(nbytes, zeros=zeros)
        finally:
            if entered:
                gpu.leave()
        steps = layout.c_steps(shape)
        return cls._wrap(new, new.address, self._dlpack, nbytes, _OURS, dtype, 0, shape, steps)

    def synchronize(self) -> None:
        memory.synchronize(self.gpu)

    def memory_info(self) -> tuple[int, int, int, int, int, int]:
        return memory.info(self)

    def release_cached_memory(self) -> None:
        memory.release_cached(self.gpu)

    # -- exchange: while these are called, the GPU is current, but for those that `Device` has as well

    def adopt(self, address: int, keep: object) -> Memory:
        """Return the owner of memory of others that has come in; `arrived` is to be told what they have begun."""
        return memory.adopt(self, address, keep)

    def arrived(self, owner: Memory, stream: int) -> None:
        """Make memory that has come in ready on the current stream, not only on that of its producer."""
        memory.arrived(owner, stream)

    def hand_out(self, owner: Memory, stream: Stream, *, writing: bool) -> None:
        """Make memory ready for a consumer on a stream, and know of the consumer."""
        memory.leaving(owner, stream, writing=writing)

    def check_stream(self, stream: int | None) -> None:
        if stream is not None and not -1 <= stream < 1 << 64:
            msg = f"stream is {stream}, but must be a stream's handle, 1 or 2 for the default streams, -1 or None"
            raise ValueError(msg)
        if stream == 0:
            msg = (
                "stream is 0, which may mean several streams: pass 1 for the legacy default stream, or 2 for the "
                "thread's own default stream"
            )
            raise ValueError(msg)

    def export_on(self, x: View, stream: int | None) -> None:
        gpu, owner = self.gpu, x._memory()
        with gpu.current():
            if stream == -1:
                owner.exported = True
            else:
                consumer = streams.of_handle(gpu, LEGACY_STREAM if stream is None else stream)
                self.hand_out(owner, consumer, writing=not x._flags & native.READ_ONLY)

    def working_on(self, stream: Any) -> AbstractContextManager[object]:
        with self.gpu.current():
            if hasattr(stream, "__cuda_stream__"):
                return streams.given(self.gpu, stream)
            number = -1 if stream is None else checked_stream(stream)
            self.check_stream(number)
            return nullcontext() if number == -1 else streams.of_handle(self.gpu, number)

    def consumer_stream(self) -> int | None:
        return streams.current(self.gpu).handle


@final
class CUDA(Streamed, KernelDevice):
    """A GPU."""

    __slots__ = ()

    kind = "cuda"
    dlpack_type = DLDeviceType.kDLCUDA

    def __new__(cls, number: int) -> Self:
        self = super().__new__(cls, number)
        memory.choose_pool(self.gpu)
        return self

    # -- memory

    allocate = memory.allocate

    def upload(self, address: int, a: npt.NDArray[Any]) -> None:
        stream, source = streams.current(self.gpu), a.ctypes.data
        stream._refuse_capture("what is in host memory cannot be copied while a stream is captured")
        check(driver.cu.cuMemcpyHtoDAsync(address, source, a.nbytes, stream._handle))
        if _is_registered(source):
            stream.synchronize()  # else the driver has taken the bytes by now

    def download(self, a: npt.NDArray[Any], address: int) -> None:
        stream = streams.current(self.gpu)
        stream._refuse_capture("values cannot be read while a stream is captured")
        check(driver.cu.cuMemcpyDtoHAsync(a.ctypes.data, address, a.nbytes, stream._handle))
        stream.synchronize()

    def copy_memory(self, target: int, source: int, nbytes: int) -> None:
        """Let the driver copy bytes on this GPU, on the current stream, within `accessing`."""
        check(driver.cu.cuMemcpyDtoDAsync(target, source, nbytes, streams.current(self.gpu)._handle))

    def copy_block(self, target: Memory, to: int, source: Memory, of: int, nbytes: int) -> None:
        with Access(self.gpu, (source,), (target,)):
            _moving.copy_bytes(self, to, of, nbytes)

    def receive(self, cls: type[V], x: View, source: Device) -> V:
        if not isinstance(source, Streamed):
            return self.from_host(cls, source.to_host(x))
        x = compact(x, source)
        new = self.empty(cls, x.shape, x.dtype)
        if not x.size:
            return new
        with self.accessing((x,), (new,)):
            to, of, stream = self.address(new), x._state()[0], streams.current(self.gpu)
            if isinstance(source, CUDA):
                contexts = self.gpu.context, source.gpu.context
                check(driver.cu.cuMemcpyPeerAsync(to, contexts[0], of, contexts[1], x.nbytes, stream._handle))
            else:
                check(driver.cu.cuMemcpyAsync(to, of, x.nbytes, stream._handle))
        if not isinstance(source, CUDA) and _is_written_by_others(x):
            stream.synchronize()
        return new

    # -- kernels

    def launch(self, kernel: Kernel, threads: int, *args: Any) -> None:
        _compiling.launch(self.gpu, kernel, threads, args)

    def accessing(
        self, reads: Sequence[View], writes: Sequence[View], stream: Any = None
    ) -> AbstractContextManager[Any]:
        return Access(self.gpu, [x._memory() for x in reads], [x._memory() for x in writes], stream)

    def current(self) -> CUDA:
        error, number = driver.cu.cuCtxGetDevice()
        return base.numbered((self.dlpack_type, 0 if error else int(number)))  # type: ignore[return-value]

    argument = staticmethod(native.View._parameters)  # type: ignore[assignment]


def _is_written_by_others(x: View) -> bool:
    """Return whether someone on the CPU may write to an array unseen, as by a NumPy array on its memory."""
    _, flags, _, _, writable, *_ = x._state()
    return bool(writable or flags & (native.FOREIGN | native.ESCAPED))


def compact(x: View, device: Device) -> View:
    """Return an array, or a C-contiguous copy of it on its device."""
    if x._contiguous & 1:
        return x
    new = device.empty(native.View, x.shape, x.dtype)
    device.assign(new, x)
    return new


def _is_registered(address: int) -> bool:
    """Return whether the driver knows host memory, so that copies from it may be under way when a call returns."""
    kind = driver.cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    return not driver.cu.cuPointerGetAttribute(kind, address)[0]


def device(number: int) -> CUDA:
    """Make the device of a number.  Raises DeviceError if it cannot be used here."""
    found = CUDA(number)
    take_part()
    return found


# -- what compiled functions leave to Python


def _of(kind: int, number: int) -> Streamed:
    found = base.numbered((kind, number))
    assert isinstance(found, Streamed)
    return found


def _allocate(kind: int, number: int, nbytes: int) -> tuple[Memory, int]:
    found = _of(kind, number)
    with found.gpu.current():
        memory.drain(found.gpu)  # a storage is being moved, and locked
        new = found.allocate(nbytes)
    return new, new.address


def _copy(target: Memory, to: int, source: Memory, of: int, nbytes: int) -> None:
    target.device.copy_block(target, to, source, of, nbytes)


def _adopt(kind: int, number: int, address: int, keep: object) -> Memory:
    found = _of(kind, number)
    with found.gpu.current():
        return found.adopt(address, keep)


def _imported(owner: Memory, stream: int) -> None:
    with owner.device.gpu.current():
        owner.device.arrived(owner, stream)


def _exporting(owner: Memory) -> None:
    gpu = owner.device.gpu
    with gpu.current():
        owner.device.hand_out(owner, streams.current(gpu), writing=True)


@cache
def _connect() -> None:
    watch = native.watch
    watch.allocate, watch.copy, watch.adopt = _allocate, _copy, _adopt
    watch.imported, watch.exporting = _imported, _exporting
