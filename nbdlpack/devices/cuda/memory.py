"""The memory of GPUs: where it comes from, which streams use it, and when it is given back.

A block of memory has as its owner a `Memory`, which knows the block's uses: the last write, and the reads since.  What
reads waits for the last write, what writes for that and the reads; `Access` does so around what is put into a stream.

Memory that nobody has any more is not given back there and then: its destructor runs anywhere, so it calls no driver
but puts the memory into a queue of its GPU.  `drain` looks after the queue, when something is allocated, comes in, goes
out, is written or waited for.  Our own memory is freed on a stream that waits for all uses, on the GPU.  What belongs
to others is let go of when its uses are known to be done.  A consumer of exported memory may have begun what nobody
told us of, on streams that may be gone by now: there an event stands for all the work of the GPU's context.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from nbdlpack import native
from nbdlpack.devices.cuda import driver, streams
from nbdlpack.devices.cuda.driver import check
from nbdlpack.devices.cuda.streams import current, relaxed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from nbdlpack.devices.cuda import Streamed
    from nbdlpack.devices.cuda.driver import GPU
    from nbdlpack.devices.cuda.streams import Stream

__all__ = [
    "Access",
    "Ledger",
    "Memory",
    "Pooled",
    "adopt",
    "allocate",
    "arrived",
    "attempt_again",
    "callbacks",
    "choose_pool",
    "drain",
    "info",
    "leaving",
    "release_cached",
    "synchronize",
]

_MANY: Final = 16
"""So many streams may have read some memory before it is asked which of them are done."""
LIMIT: Final = 1 << 56
"""Bytes: more than any address space of today has."""
NO_MEMORY: Final[tuple[Any, Any]] = (2, None)
"""What the driver would return for as many."""


class Ledger:
    """What was allocated of a device's memory, and not given back yet."""

    __slots__ = ("blocks", "nbytes")

    def __init__(self) -> None:
        self.nbytes = self.blocks = 0


# -- what a block of memory has as its owner


class Memory:
    """Memory that a GPU can use, which belongs to others: to a tensor that came in, or to some object.

    Parameters
    ----------
    device : Streamed
        The device that it is memory of.
    address, nbytes : int
        Where it is.
    keep : object, optional
        What it belongs to, let go of in the end.
    """

    __slots__ = ("address", "device", "exported", "keep", "nbytes", "readers", "writer", "written")

    device: Streamed
    address: int
    nbytes: int
    keep: Any
    writer: Stream | None
    """The stream that was the last to write, with the work of the number `written`."""
    written: int
    readers: dict[Stream, int]
    """The streams that have read since, with the numbers of their work."""
    exported: bool
    """Whether a consumer may have begun something that is not known here."""

    def __init__(self, device: Streamed, address: int, nbytes: int, keep: Any = None) -> None:
        self.device, self.address, self.nbytes, self.keep = device, address, nbytes, keep
        self.writer, self.written, self.readers, self.exported = None, 0, {}, False

    def __del__(self) -> None:
        # It lives on in the queue, and is not finalised again.
        self.device.gpu.gone.append(self)

    def before_read(self, stream: Stream) -> None:
        """Let a stream wait for what it must not overtake if it reads."""
        writer = self.writer
        if writer is not None and writer is not stream:
            stream._wait_for(writer, self.written)

    def before_write(self, stream: Stream) -> None:
        """Let a stream wait for what it must not overtake if it writes."""
        self.before_read(stream)
        for reader, n in list(self.readers.items()):
            stream._wait_for(reader, n)

    def after_write(self, stream: Stream, n: int) -> None:
        """Enter a use that writes."""
        self.writer, self.written, self.readers = stream, n, {}

    def is_private(self) -> bool:
        """Return whether nothing but the last write is to be looked after."""
        return not (self.readers or self.exported)

    def uses(self) -> list[tuple[Stream, int]]:
        """Return the uses that are not known to be done."""
        found = [] if self.writer is None else [(self.writer, self.written)]
        found.extend(self.readers.items())
        return [(stream, n) for stream, n in found if n > stream._completed]

    def forget(self) -> None:
        """Forget the reads that are done, so that their streams can end."""
        with relaxed():
            for stream, n in list(self.readers.items()):
                if stream._has_done(n):
                    now = self.readers.pop(stream, 0)
                    if now > n:  # another thread has just read on it
                        self.readers[stream] = now

    def finish(self, *, writing: bool) -> None:
        """Wait, on the CPU, for what must be done before the CPU reads, or writes."""
        if self.writer is not None:
            self.writer._finish(self.written)
        for reader, n in list(self.readers.items()) if writing else ():
            reader._finish(n)

    def free(self, _: Stream) -> None:
        """Give the memory back, on a stream of ours on which all uses have been done."""
        self.keep = None


class Pooled(Memory):
    """Memory of the pool, which is freed in the order of a stream."""

    __slots__ = ()

    def free(self, stream: Stream) -> None:
        error = driver.cu.cuMemFreeAsync(self.address, stream._handle)[0]
        if error:
            driver.fail(error)
        ledger = self.device.ledger
        ledger.nbytes -= self.nbytes
        ledger.blocks -= 1


class Access:
    """A `with` block around what is put into a stream of a GPU, the current one if none is given, and uses memory.

    On entry the GPU is made current, and the stream waits for what it must not overtake.  On exit the uses are entered,
    also if it is by an error, for part of the work may have been put in.
    """

    __slots__ = ("_entered", "_given", "_gpu", "_reads", "_stream", "_writes")

    _stream: Stream

    def __init__(self, gpu: GPU, reads: Sequence[Memory], writes: Sequence[Memory], stream: Any = None) -> None:
        self._gpu, self._reads, self._writes, self._given = gpu, reads, writes, stream

    def __enter__(self) -> Stream:
        gpu = self._gpu
        self._entered = gpu.enter()
        try:
            self._stream = stream = current(gpu) if self._given is None else streams.given(gpu, self._given)
            if gpu.gone:
                drain(gpu)
            for memory in self._reads:
                if memory.writer is not stream:
                    memory.before_read(stream)
            for memory in self._writes:
                if memory.writer is not stream or memory.readers:
                    memory.before_write(stream)
        except BaseException:
            if self._entered:
                gpu.leave()
            raise
        return stream

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        stream = self._stream
        try:
            n = stream._submit()
            for memory in self._reads:
                readers = memory.readers
                readers[stream] = n
                if len(readers) >= _MANY:
                    memory.forget()
            for memory in self._writes:
                memory.writer, memory.written = stream, n
                if memory.readers:
                    memory.readers = {}
        finally:
            if self._entered:
                self._gpu.leave()


# -- allocating

_POOLS: Final = ("", "own", "shared")


def choose_pool(gpu: GPU) -> None:
    """Choose where the memory of a GPU comes from: what `gpu.take` allocates from, and `gpu.pool` if that is ours.

    A pool of our own keeps what was given back to it; a pool that others use as well is left as it is.
    """
    cu, name = driver.cu, os.environ.get("NBDLPACK_POOL", "")
    if name not in _POOLS:
        msg = (
            f"the environment variable NBDLPACK_POOL is {name!r}, but must be 'own', for a pool of nbdlpack's own, or "
            "'shared', for the current pool of the device"
        )
        raise ValueError(msg)
    if name == "shared":
        gpu.take = cu.cuMemAllocAsync
        return
    properties = cu.CUmemPoolProps()
    properties.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = gpu.index
    pool = check(cu.cuMemPoolCreate(properties))
    threshold = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    check(cu.cuMemPoolSetAttribute(pool, threshold, cu.cuuint64_t(2**64 - 1)))
    gpu.pool, gpu.take = pool, lambda nbytes, stream: cu.cuMemAllocFromPoolAsync(nbytes, pool, stream)


def _cached(gpu: GPU) -> int:
    """Return how many bytes a pool of our own has that nobody uses."""
    if gpu.pool is None:
        return 0
    names = driver.cu.CUmemPool_attribute
    reserved, used = (
        int(check(driver.cu.cuMemPoolGetAttribute(gpu.pool, name)))
        for name in (names.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, names.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
    )
    return reserved - used


def allocate(device: Streamed, nbytes: int, *, zeros: bool = False) -> Memory:
    """Return new memory of a GPU's pool, that may be used on the current stream.  The GPU is current.

    Raises
    ------
    MemoryError
        If there is not enough, also after what is not needed was given back.
    RuntimeError
        If the current stream is being captured.
    """
    gpu = device.gpu
    stream = current(gpu)
    if stream is not gpu.default:
        stream._refuse_capture("memory cannot be allocated while a stream is captured")
    if nbytes == 0:
        return Memory(device, 0, 0)
    error, address = gpu.take(nbytes, stream._handle) if nbytes < LIMIT else NO_MEMORY
    if error:
        address = attempt_again(device, nbytes, error, lambda: gpu.take(nbytes, stream._handle))
    memory = Pooled(device, int(address), nbytes)
    ledger = device.ledger
    ledger.nbytes += nbytes
    ledger.blocks += 1
    memory.writer, memory.written = stream, stream._submit()
    if zeros:
        check(driver.cu.cuMemsetD8Async(memory.address, 0, nbytes, stream._handle))
        memory.written = stream._submit()
    return memory


callbacks: Final[list[list[Callable[[int], object]]]] = []
"""What users want to be called with the bytes that are wanted, before an allocation fails; each in its own list."""


def attempt_again(device: Streamed, nbytes: int, error: Any, attempt: Callable[[], Any]) -> Any:
    """Return the address that an allocation gives which has failed once, after giving back all that nobody needs.

    The GPU is current.
    """
    if nbytes >= LIMIT:
        msg = "an array of more bytes than a machine can have could not be allocated: look at its shape"
        raise MemoryError(msg)
    no_memory = driver.cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    if error != no_memory:
        driver.fail(error)
    gc.collect()
    if streams.is_captured(device.gpu):
        _no_memory(device, nbytes)  # to wait for all work would break the capture, whoever's it is
    release_cached(device.gpu)
    if callbacks:
        for (callback,) in tuple(callbacks):
            if callback(nbytes) is True:
                break
        release_cached(device.gpu)  # what they have freed
    error, address = attempt()
    if error == no_memory:
        _no_memory(device, nbytes)
    check((error,))
    return address


def _no_memory(device: Streamed, nbytes: int) -> NoReturn:
    free, total = _free_and_total()
    msg = (
        f"an array of {nbytes} bytes could not be allocated on {device}: of {total} bytes that cuda:{device.gpu.index} "
        f"has, {free} are free; nbdlpack's arrays on {device} have {device.ledger.nbytes}"
    )
    raise MemoryError(msg)


def _free_and_total() -> tuple[int, int]:
    result = driver.cu.cuMemGetInfo()
    check(result)
    return int(result[1]), int(result[2])


# -- what comes in and goes out


def adopt(device: Streamed, address: int, keep: object) -> Memory:
    """Return the owner of memory of others, of which nobody has begun to do anything yet.  The GPU is current.

    Raises
    ------
    BufferError
        If the address is not one of the GPU.
    """
    gpu = device.gpu
    drain(gpu, owners=True)
    if address:
        index = driver.ordinal(address)
        if index != gpu.index:
            there = "memory that the driver does not know" if index is None else f"memory of cuda:{index}"
            msg = f"the tensor is said to be on {device}, but its address {address:#x} is in {there}"
            raise BufferError(msg)
    return Memory(device, address, 0, keep)


def arrived(memory: Memory, handle: int) -> None:
    """Enter what a producer has begun with memory that came in on its stream, which is alive.  The GPU is current.

    Memory of ours that comes home has uses, with which the producer's stream need not be ordered.
    """
    gpu = memory.device.gpu
    stream, source = current(gpu), streams.of_handle(gpu, handle)
    memory.before_write(stream)
    if source is not stream:
        stream._wait_for(source, source._submit())
    memory.after_write(stream, stream._submit())


def leaving(memory: Memory, stream: Stream, *, writing: bool) -> None:
    """Make memory ready for a consumer on a stream, and know of the consumer.  The GPU is current."""
    drain(memory.device.gpu)
    if writing:
        memory.before_write(stream)
    else:
        memory.before_read(stream)
    memory.exported = True


# -- giving back


class _Everything:
    """An event over all the work of a GPU's context at one time, or a count of `synchronize` where there are none."""

    __slots__ = ("_done", "_gpu", "_synchronized", "event")

    def __init__(self, gpu: GPU) -> None:
        self._gpu, self._synchronized, self._done = gpu, gpu.synchronized, False
        self.event: Any = None
        self.event = gpu.new_event()
        try:
            error = driver.cu.cuCtxRecordEvent(gpu.context, self.event)[0]
        except (AttributeError, RuntimeError):  # drivers before 12.5 have no such function
            error = driver.cu.CUresult.CUDA_ERROR_NOT_SUPPORTED
        if error:
            gpu.spare_events.append(self.event)
            self.event = None
            if error != driver.cu.CUresult.CUDA_ERROR_NOT_SUPPORTED:
                driver.fail(error)

    def __del__(self) -> None:
        if self.event is not None:
            self._gpu.spare_events.append(self.event)

    def done(self) -> bool:
        """Return whether it is done, without waiting."""
        if not self._done:
            if self._gpu.synchronized > self._synchronized:
                self._done = True
            elif self.event is not None:
                error = driver.cu.cuEventQuery(self.event)[0]
                if error != driver.cu.CUresult.CUDA_ERROR_NOT_READY:
                    check((error,))
                    self._done = True
        return self._done


class _Waiting(NamedTuple):
    """Memory that nobody has any more, and what is still to be done before it is given back."""

    memory: Memory
    everything: _Everything | None

    def done(self) -> bool:
        """Return whether all is done, without waiting."""
        if self.everything is not None and not self.everything.done():
            return False
        return all(stream._has_done(n) for stream, n in self.memory.uses())


def drain(gpu: GPU, *, owners: bool = False, thoroughly: bool = False) -> None:
    """Give back what nobody has any more.  The GPU is current.

    Parameters
    ----------
    gpu : GPU
        Whose memory.
    owners : bool, optional
        Whether memory of others is let go of as well, where its uses are done.  That may run their code, so no lock of
        ours may be held.
    thoroughly : bool, optional
        Whether all of that is looked at, and not just some that has waited longest.
    """
    if not (gpu.gone or gpu.waiting or gpu.handles) or driver.is_gone():
        return
    stream = current(gpu)
    if stream is not gpu.default and stream._capture():
        return
    if gpu.gone:
        _free_gone(gpu)
    if owners and (gpu.waiting or gpu.handles):
        with relaxed():
            _let_go(gpu, len(gpu.waiting) if thoroughly else _AT_ONCE)


_AT_ONCE: Final = 4


def _free_gone(gpu: GPU) -> None:
    """Free our own memory on streams, after all uses; what else there is has to wait until its uses are done."""
    exported = []
    while gpu.gone:
        try:
            memory = gpu.gone.popleft()
        except IndexError:  # another thread drains as well
            break
        try:
            writer = memory.writer
            if writer is not None and writer is gpu.default and type(memory) is Pooled and memory.is_private():
                memory.free(writer)  # as most is
            elif memory.exported:
                exported.append(memory)
            elif type(memory) is Pooled:
                memory.free(_ordered_stream(gpu, memory))
            elif memory.keep is not None or memory.address:
                gpu.waiting.append(_Waiting(memory, None))
        except BaseException:
            gpu.gone.append(memory)
            raise
    if exported and streams.is_captured(gpu):
        gpu.gone.extend(exported)  # an event over all work would break the capture, whoever's it is
    elif exported:
        _free_exported(gpu, exported)


def _ordered_stream(gpu: GPU, memory: Memory) -> Stream:
    """Return a stream of ours on which all uses of some memory have been done.

    It is the only one that has used the memory, if that is ours, or else the background: no other stream of a user is
    to wait for what he did not put into it.
    """
    only = memory.writer
    if memory.readers:
        users = {stream for stream, _ in memory.uses()}
        only = users.pop() if len(users) == 1 else None if users else only
    if only is not None and (only is gpu.default or (only._owned and only._gpu is gpu and not only._capture())):
        return only
    stream = background(gpu)
    for user, n in memory.uses():
        stream._wait_for(user, n)
    return stream


def background(gpu: GPU) -> Stream:
    """Return a stream on which nothing is done but waiting for others and freeing.  The GPU is current."""
    if gpu.background is None:
        gpu.background = streams.create(gpu, 0)
    return gpu.background


def _free_exported(gpu: GPU, memories: list[Memory]) -> None:
    try:
        everything = _Everything(gpu)
    except BaseException:
        gpu.gone.extend(memories)
        raise
    stream = background(gpu) if everything.event is not None else None
    if stream is not None:
        check(driver.cu.cuStreamWaitEvent(stream._handle, everything.event, 0))
    for memory in memories:
        if stream is not None and type(memory) is Pooled:
            for user, n in memory.uses():
                stream._wait_for(user, n)
            memory.free(stream)
        else:
            gpu.waiting.append(_Waiting(memory, everything))


def _let_go(gpu: GPU, most: int) -> None:
    """Give back what is not used any more of what waits, which is asked for up to a number of times."""
    for _ in range(min(most, len(gpu.waiting))):
        try:
            waiting = gpu.waiting.popleft()
        except IndexError:
            break
        try:
            done = waiting.done()
        except BaseException:
            gpu.waiting.append(waiting)
            raise
        if done:
            waiting.memory.free(streams.legacy(gpu))
        else:
            gpu.waiting.append(waiting)
    while gpu.handles:
        try:
            name, handle = gpu.handles.popleft()
        except IndexError:
            break
        check(getattr(driver.cu, name)(handle))


# -- all of a GPU


def synchronize(gpu: GPU) -> None:
    """Wait, on the CPU, until a GPU has done all that was put into its streams, and give back what nobody has."""
    with gpu.current():
        current(gpu)._refuse_capture("a GPU cannot be waited for while a stream is captured")
        submitted = [(stream, stream._submitted) for stream in list(gpu.streams.values())]
        check(driver.cu.cuCtxSynchronize())
        gpu.synchronized += 1
        for stream, n in submitted:
            stream._complete(n)
        drain(gpu, owners=True, thoroughly=True)


def release_cached(gpu: GPU) -> None:
    """Give the driver back all that is not in use: memory, events, streams."""
    synchronize(gpu)
    gpu.background = None
    with gpu.current():
        for stream in list(gpu.streams.values()):
            stream._rest()
        events, gpu.spare_events = gpu.spare_events, []
        for event in events:
            check(driver.cu.cuEventDestroy(event))
        synchronize(gpu)  # what was freed above
        if gpu.pool is not None:
            check(driver.cu.cuMemPoolTrimTo(gpu.pool, 0))


def info(device: Streamed) -> tuple[int, int, int, int, int, int]:
    """Return how much memory of a device there is, as `Device.memory_info` does."""
    gpu, ledger = device.gpu, device.ledger
    with gpu.current():
        drain(gpu, owners=True)
        free, total = _free_and_total()
        cached = _cached(gpu)
    kind, number = device.dlpack
    return ledger.nbytes, ledger.blocks, native.pinned_at[kind << 6 | number], cached, free, total
