"""Host memory that GPUs reach: pinned, the device "cuda_host", and managed, "cuda_managed".

What is computed on such arrays is computed by NumPy, at once.  Before the CPU reads or writes it waits for what GPUs
have still to do with the memory; copies from and to a GPU are put into a stream, and do not wait.  Users' kernels take
such arrays as they take those of a GPU.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, final

import numpy as np

from nbdlpack import devices, layout
from nbdlpack.devices.cuda import CUDA, Streamed, compact, driver, memory, streams
from nbdlpack.devices.cuda.driver import check
from nbdlpack.devices.cuda.memory import Access, Memory
from nbdlpack.devices.routines import ROUTINES
from nbdlpack.native import View
from nbdlpack.native.device_types import DLDeviceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from nbdlpack.devices import Device
    from nbdlpack.devices.cuda.streams import Stream

    V = TypeVar("V", bound=View)

__all__ = ["HostMemory", "Managed", "Pinned", "device"]

_numpy: Final = devices.host


class Hosted(Memory):
    """Our own host memory, which is freed when it is known that no GPU uses it."""

    __slots__ = ()

    device: HostMemory

    def free(self, _: Stream) -> None:
        check(getattr(driver.cu, self.device.deallocator)(self.address))
        self.device.ledger.nbytes -= self.nbytes
        self.device.ledger.blocks -= 1


def look(value: Any, *, writing: bool = False) -> Any:
    """Return an operand, or a tuple of them, as NumPy takes it: a View as a NumPy array on its memory."""
    if isinstance(value, tuple):
        return tuple([look(item, writing=writing) for item in value])
    if not isinstance(value, View):
        return value
    found: Any = devices.of(value)
    found.wait(value._memory(), writing=writing)
    a: npt.NDArray[Any] = np.empty(value.shape, value.dtype)
    if value.size:
        low, high = [end * value.itemsize for end in layout.bounds(value.shape, value._steps)]
        there: Any = (ctypes.c_char * (high - low)).from_address(value._state()[0] + low)
        a = np.ndarray(value.shape, value.dtype, there, -low, value.strides)
    a.flags.writeable = writing
    return a


class HostMemory(Streamed):
    """Host memory that a GPU has made reachable for all of them."""

    __slots__ = ()

    hosted = True

    allocator: ClassVar[tuple[str, int]]
    """The driver's function that allocates it, and its flags."""
    deallocator: ClassVar[str]

    # -- memory

    def allocate(self, nbytes: int, *, zeros: bool = False) -> Memory:
        streams.current(self.gpu)._refuse_capture("memory cannot be allocated while a stream is captured")
        if nbytes == 0:
            return Memory(self, 0, 0)
        name, flags = self.allocator

        def attempt() -> Any:
            with streams.relaxed():
                return getattr(driver.cu, name)(nbytes, flags)

        error, address = attempt() if nbytes < memory.LIMIT else memory.NO_MEMORY
        if error:
            address = memory.attempt_again(self, nbytes, error, attempt)
        new = Hosted(self, int(address), nbytes)
        self.ledger.nbytes += nbytes
        self.ledger.blocks += 1
        if zeros:
            ctypes.memset(new.address, 0, nbytes)
        return new

    def wait(self, owner: Memory, *, writing: bool) -> None:
        """Wait for what must be done before the CPU reads, or writes."""
        owner.finish(writing=writing)

    def copy_block(self, target: Memory, to: int, source: Memory, of: int, nbytes: int) -> None:
        self.wait(source, writing=False)
        self.wait(target, writing=True)
        ctypes.memmove(to, of, nbytes)

    def hand_out(self, owner: Memory, stream: Stream, *, writing: bool) -> None:  # noqa: ARG002
        self.wait(owner, writing=writing)  # the consumer may be one on the CPU
        owner.exported = True

    # -- compute

    def elementwise(
        self, ufunc: np.ufunc, inputs: tuple[Any, ...], outputs: tuple[Any, ...], options: Mapping[str, Any]
    ) -> None:
        _numpy.elementwise(ufunc, look(inputs), look(outputs, writing=True), _options(options))

    def reduce(self, name: str, x: View, out: Any, axes: tuple[int, ...], options: Mapping[str, Any]) -> None:
        _numpy.reduce(name, look(x), look(out, writing=True), axes, _options(options))

    def generalized(self, method: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        return _numpy.generalized(method, look(inputs), _options(options))

    def compute(self, cls: type[V], name: str, inputs: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[V, npt.NDArray[Any]]:
            x = self.empty(cls, shape, dtype)
            return x, look(x, writing=True)

        return ROUTINES[name].compute(new, *look(inputs), *options)

    # -- move data

    def assign(self, target: View, value: Any) -> None:
        value = look(value)
        look(target, writing=True)[...] = value

    def to_host(self, x: View) -> npt.NDArray[Any]:
        a: npt.NDArray[Any] = look(x)
        return a

    def from_host(self, cls: type[V], a: npt.NDArray[Any]) -> V:
        new = self.empty(cls, a.shape, a.dtype)
        look(new, writing=True)[...] = a
        return new

    def receive(self, cls: type[V], x: View, source: Device) -> V:
        if not isinstance(source, CUDA):
            return self.from_host(cls, source.to_host(x))
        x = compact(x, source)
        new = self.empty(cls, x.shape, x.dtype)
        if x.size:
            with Access(source.gpu, (x._memory(),), (new._memory(),)) as stream:
                check(driver.cu.cuMemcpyAsync(new._state()[0], x._state()[0], x.nbytes, stream._handle))
        return new

    # -- single elements

    def gather(self, cls: type[V], x: View, key: Any) -> V:
        return self.from_host(cls, np.asarray(look(x)[look(key)]))

    def scatter(self, x: View, key: Any, value: Any) -> None:
        key, value = look(key), look(value)
        look(x, writing=True)[key] = value

    def at(self, ufunc: np.ufunc, x: Any, key: Any, values: tuple[Any, ...]) -> None:
        key, values = look(key), look(values)
        _numpy.at(ufunc, look(x, writing=True), key, values)


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: look(value, writing=name == "out") for name, value in options.items()}


@final
class Pinned(HostMemory):
    """Host memory that is always where it is, so that copies from and to a GPU are fast and need not be waited for."""

    __slots__ = ()

    kind = "cuda_host"
    dlpack_type = DLDeviceType.kDLCUDAHost
    allocator = ("cuMemHostAlloc", 1)  # for all contexts
    deallocator = "cuMemFreeHost"

    def consumer_stream(self) -> int | None:
        return None

    def adopt(self, address: int, keep: object) -> Memory:
        memory.drain(self.gpu, owners=True)
        return Memory(self, address, 0, keep)

    def arrived(self, owner: Memory, stream: int) -> None:
        """Do nothing: host memory is ready for the CPU when it is given away."""


@final
class Managed(HostMemory):
    """Memory that is moved between the CPU and GPUs as they need it."""

    __slots__ = ()

    kind = "cuda_managed"
    dlpack_type = DLDeviceType.kDLCUDAManaged
    allocator = ("cuMemAllocManaged", 1)  # for all streams
    deallocator = "cuMemFree"

    def wait(self, owner: Memory, *, writing: bool) -> None:
        if _can_share(self.gpu.index):
            owner.finish(writing=writing)
        else:
            memory.synchronize(self.gpu)  # the CPU may touch no managed memory while the GPU does anything


_sharing: Final[dict[int, bool]] = {}


def _can_share(index: int) -> bool:
    """Return whether the CPU may use managed memory while a GPU uses other."""
    found = _sharing.get(index)
    if found is None:
        name = driver.cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
        found = _sharing[index] = bool(check(driver.cu.cuDeviceGetAttribute(name, index)))
    return found


_KINDS: Final[dict[str, type[HostMemory]]] = {kind.kind: kind for kind in (Pinned, Managed)}


def device(name: str, number: int) -> HostMemory:
    """Make the device of a kind's name and the number of its GPU.  Raises DeviceError if it cannot be used here."""
    return _KINDS[name](number)
