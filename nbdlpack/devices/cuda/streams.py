"""Streams, events, the current stream, and in what order work of several streams is done.

Work that is put into a stream is numbered, from 1 on: a *use* of memory is a stream and the number of the work that
used it.  `Stream.wait_for` orders a stream behind a use of another, on the GPU; most of the time there is nothing to
do, because the work is known to be done, or was waited for before.

A stream of ours, or the default stream, may be touched at any time: who waits for it records an event at its end then.
A stream that is someone else's may be gone by then, and its handle be another's.  So an event is recorded right after
each piece of work that is put into it, and later only that event is touched.

A stream is known by its GPU and the driver's number of it (cuStreamGetId), never by its handle: there is one `Stream`
for each, so that they can be compared by identity.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from itertools import count
from operator import index
from typing import TYPE_CHECKING, Any, Final, Self, final

from nbdlpack import devices, native
from nbdlpack.devices.cuda import driver
from nbdlpack.devices.cuda.driver import check
from nbdlpack.errors import DeviceError
from nbdlpack.native.device_types import LEGACY_STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from nbdlpack.devices import Device
    from nbdlpack.devices.cuda.driver import GPU

__all__ = ["Event", "Stream", "create", "current", "given", "gpu_of", "legacy", "of_handle", "relaxed", "set_current"]

PER_THREAD: Final = 2
"""The handle of a thread's own default stream."""
_NON_BLOCKING: Final = 1

_ordering: Final = threading.RLock()
"""Held while the events of streams are recorded and looked at; nothing is waited for meanwhile."""
_serials: Final = count(1)
_MANY: Final = 64
_ACTIVE: Final = 1


class _Local(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}  # by the GPU's number
        self.before: list[tuple[GPU, Stream, Stream]] = []  # what the `with` blocks that are open will bring back


_local: Final = _Local()


def current(gpu: GPU) -> Stream:
    """Return the stream of a GPU that this thread's work is put into."""
    return _local.streams.get(gpu.index) or gpu.default or legacy(gpu)


def set_current(gpu: GPU, stream: Stream) -> None:
    """Make a stream the current one of this thread on a GPU."""
    _local.streams[gpu.index] = stream
    native.set_current_stream(gpu.index, 0 if stream is gpu.default else stream._number)


@contextmanager
def relaxed() -> Iterator[None]:
    """Let this thread ask for what is done without breaking captures of streams, which may be under way anywhere."""
    mode = check(
        driver.cu.cuThreadExchangeStreamCaptureMode(driver.cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    )
    try:
        yield
    finally:
        check(driver.cu.cuThreadExchangeStreamCaptureMode(mode))


# -- streams


@final
class Stream:
    """A queue of work on a GPU: what is put into one stream is done in order, beside what other streams have.

    A stream that is made here does not wait for the default stream, nor the other way round.  Whatever is done with
    arrays is ordered by the library, on the GPU and only where it must be: work waits for what other streams have still
    to do with the same memory.  So streams are only chosen, by a ``with`` block: in it, this thread's work on the
    stream's GPU is put into it.

    Streams are compared by identity: there is one object for each stream of a GPU, whoever made it.  A stream that was
    made here is destroyed when nobody has it any more and no array needs it.

    Parameters
    ----------
    device : Device or str, optional
        The GPU; if not given, the default device if that is a GPU, else "cuda".
    priority : int, optional
        Lower numbers come first; 0 if not given.  The driver moves it into the range that the GPU has.

    Raises
    ------
    DeviceError
        If the device is not there.
    ValueError
        If the device has no streams.

    See Also
    --------
    Stream.wrap : a stream of another library.
    Stream.from_handle : a stream by its handle.
    current_stream, default_stream

    Examples
    --------
    >>> import nbdlpack as nd
    >>> if nd.is_available("cuda"):
    ...     stream = nd.Stream()
    ...     with stream:
    ...         x = nd.zeros(3, device="cuda") + 1
    ...     y = x * 2  # on the default stream, which waits for the other one
    ...     stream.synchronize()
    """

    __slots__ = (
        "__weakref__",
        "_captured",
        "_completed",
        "_core",
        "_edge",
        "_edged",
        "_gpu",
        "_handle",
        "_keep",
        "_mark",
        "_marked",
        "_number",
        "_owned",
        "_serial",
        "_submitted",
        "_waited",
    )

    _gpu: GPU
    _handle: Any  # as the driver's bindings take it,
    _number: int  # and as an integer
    _owned: bool  # ours, or a default stream: it may be touched at any time
    _keep: object  # what it belongs to, if that is not us
    _serial: int  # no two have the same, whereas ids and addresses come again
    _core: Any
    # Numbers of work: how far it was put in, and is known to be done.
    _submitted: int
    _completed: int
    # An event at the end of what was put in up to a number, and one that the CPU waits for.
    _edge: Any
    _edged: int
    _mark: Any
    _marked: int
    _captured: tuple[int, Any]  # the capture that takes down a stream which is not ours, and its end there
    _waited: dict[int, int]  # how far other streams were waited for, by their serials

    def __new__(cls, device: Device | str | None = None, *, priority: int | None = None) -> Stream:
        return create(gpu_of(device), index(priority or 0))

    @classmethod
    def wrap(cls, stream: Any, /) -> Stream:
        """Return a stream of another library as one of ours.

        It is kept alive as long as the result is.  Nothing is done with it but what is asked for: to put work into it,
        to record events right after that, and what the methods say.

        Parameters
        ----------
        stream : object
            One with the method ``__cuda_stream__``, as streams of cuda.core, Numba and CuPy have it, or a `Stream`.

        Returns
        -------
        Stream
            The one object of that stream; `stream` itself if it is a `Stream`.

        Raises
        ------
        TypeError
            If it is none.
        DeviceError
            If there is no GPU, or the stream is one of another context than its device's primary one.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     stream = nd.Stream()
        ...     assert nd.Stream.wrap(stream.core) is stream  # a stream of cuda.core
        """
        if isinstance(stream, Stream):
            return stream
        return cls.from_handle(_handle_of(stream))._kept_by(stream)

    @classmethod
    def from_handle(cls, handle: int, device: Device | str | None = None) -> Stream:
        """Return the stream that has a handle, a ``CUstream`` as an integer; who owns it must keep it alive.

        Parameters
        ----------
        handle : int
            The handle, or 1 for the default stream of the device, or 2 for the thread's own default stream there.
        device : Device or str, optional
            The GPU, for the default streams.  If it is not given, the GPU whose context is current, or else the one
            that `Stream` takes.

        Returns
        -------
        Stream
            The one object of that stream.

        Raises
        ------
        TypeError
            If the handle is no integer.
        ValueError
            If the device has no streams, or the stream is one of another GPU than `device`.
        DeviceError
            If the device is not there, or the stream is one of another context than its device's primary one.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     stream = nd.Stream()
        ...     assert nd.Stream.from_handle(stream.handle) is stream
        ...     assert nd.Stream.from_handle(1, "cuda") is nd.default_stream("cuda")
        """
        driver.start()
        number = index(handle)
        wanted = None if device is None else gpu_of(device)
        gpu = _home(number, wanted)
        if wanted is not None and gpu is not wanted:
            msg = f"the stream is one of cuda:{gpu.index}, and not of {device}"
            raise ValueError(msg)
        with gpu.current():
            return of_handle(gpu, number)

    def __del__(self) -> None:
        # No call to the driver: it may be any thread, and any time.
        gpu = self._gpu
        gpu.spare_events.extend([event for event in (self._edge, self._mark, self._captured[1]) if event is not None])
        if self._owned and self._number != LEGACY_STREAM:
            gpu.handles.append(("cuStreamDestroy", self._handle))

    def __repr__(self) -> str:
        name = {LEGACY_STREAM: "the default stream", PER_THREAD: "a thread's default stream"}.get(self._number)
        return f"<Stream of {self.device}: {name or hex(self._number)}>"

    def __reduce__(self) -> Any:
        msg = "a stream exists in its process alone: it cannot be pickled or copied"
        raise TypeError(msg)

    @property
    def device(self) -> Device:
        """The GPU.

        Returns
        -------
        Device
            The device whose work the stream takes.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     assert nd.Stream("cuda").device == "cuda"
        """
        return devices.named(f"cuda:{self._gpu.index}")

    @property
    def handle(self) -> int:
        """The driver's handle of the stream.

        Returns
        -------
        int
            A ``CUstream`` as an integer; 1 for the default stream, 2 for a thread's own default stream.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     assert nd.default_stream().handle == 1
        """
        return self._number

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol and the handle, for other libraries.

        Returns
        -------
        tuple of int
            The version, 0, and the handle.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     assert nd.default_stream().__cuda_stream__() == (0, 1)
        """
        return 0, self._number

    # -- the current stream

    def __enter__(self) -> Self:
        gpu = self._gpu
        if driver.is_forked():
            driver.refuse()
        mine = self._here()
        _local.before.append((gpu, current(gpu), mine))
        set_current(gpu, mine)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        # Generators end in any order, and in other threads too.
        before, mine = _local.before, self._here()
        entered = [i for i, (_, _, stream) in enumerate(before) if stream is mine]
        if not entered:
            return
        gpu, previous, _ = before.pop(entered[-1])
        for i in range(entered[-1], len(before)):
            if before[i][0] is gpu:  # it is for that block to bring back what was current before this one
                before[i] = (gpu, previous, before[i][2])
                return
        set_current(gpu, previous)

    # -- waiting

    @property
    def done(self) -> bool:
        """Whether all that was put into the stream is done; does not wait.

        Returns
        -------
        bool
            True if nothing is left to do.

        Raises
        ------
        RuntimeError
            If the stream is being captured, or another one in a way that forbids to ask; that breaks the capture.
        DeviceError
            If the driver reports an error, which may be one of earlier work.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     stream = nd.Stream()
        ...     stream.synchronize()
        ...     assert stream.done
        """
        here = self._here()
        n = here._submitted
        with here._gpu.current():
            error = driver.cu.cuStreamQuery(here._handle)[0]
        if error == driver.cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check((error,))
        here._complete(n)
        return True

    def synchronize(self) -> None:
        """Wait, on the CPU, until all that was put into the stream is done.

        Raises
        ------
        RuntimeError
            If the stream is being captured, or another one in a way that forbids to wait; the latter breaks that
            capture.
        DeviceError
            If the driver reports an error, which may be one of earlier work.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     with nd.Stream() as stream:
        ...         x = nd.zeros(3, device="cuda") + 1
        ...     stream.synchronize()
        """
        here = self._here()
        n = here._submitted
        with here._gpu.current():
            here._refuse_capture("a stream that is captured cannot be waited for")
            check(driver.cu.cuStreamSynchronize(here._handle))
        here._complete(n)

    def wait(self, other: Event | Any, /) -> None:
        """Let what is put into this stream from now on wait, on the GPU, for an event or another stream.

        The CPU does not wait.  An event that was never recorded is not waited for.

        Parameters
        ----------
        other : Event, Stream or object
            An event, or a stream as `wrap` takes it, for what was put into that until now.  It may be of another GPU.

        Raises
        ------
        TypeError
            If it is neither.
        RuntimeError
            If this stream is being captured, and what it would wait for is not in that capture; that breaks it.
        DeviceError
            If the other stream is one of another context than its device's primary one.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     first, second = nd.Stream(), nd.Stream()
        ...     second.wait(first)
        ...     second.wait(first.record())
        """
        here = self._here()
        if isinstance(other, Event):
            other._let_wait(here)
            return
        source = Stream.wrap(other)._here()
        with here._gpu.current(), _ordering:
            n = source._submitted
            event = source._recorded(None)
            here._wait_event(event, source, n)
            source._gpu.spare_events.append(event)

    def record(self, event: Event | None = None) -> Event:
        """Record an event at the end of what was put into the stream, and return it.

        Parameters
        ----------
        event : Event, optional
            What is recorded, instead of what it stood for before; a new event, without timing, if not given.

        Returns
        -------
        Event
            `event`, or the new one.

        Raises
        ------
        ValueError
            If the event was recorded before, on another GPU.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     event = nd.Stream().record()
        ...     event.synchronize()
        """
        return (Event() if event is None else event).record(self)

    # -- for the rest of the library.  Where a GPU is said to be current, that is the stream's own.

    @property
    def core(self) -> Any:
        """The stream as a `cuda.core.Stream`, which does not own it.

        Returns
        -------
        cuda.core.Stream
            The same object each time.  Keep this stream as long as it is used.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     stream = nd.Stream()
        ...     assert int(stream.core.handle) == stream.handle
        """
        if self._core is None:
            self._core = driver.core.Stream.from_handle(self._number)
        return self._core

    def _kept_by(self, owner: object) -> Stream:
        """Keep what a stream belongs to, if that is not us."""
        if not self._owned:
            self._keep = owner
        return self

    def _here(self) -> Stream:
        """Return this stream, or what its handle stands for in this thread."""
        if self._number != PER_THREAD:
            return self
        with self._gpu.current():
            return of_handle(self._gpu, PER_THREAD)

    def _capture(self) -> int:
        """Return the driver's number of the capture that takes down the stream's work, or 0.  The GPU is current.

        The default stream cannot be captured, and to ask it breaks the captures of others.
        """
        if self._number == LEGACY_STREAM or not check(driver.cu.cuStreamIsCapturing(self._handle)):
            return 0
        result = driver.cu.cuStreamGetCaptureInfo(self._handle)
        return int(result[2]) if not result[0] and result[1] == _ACTIVE else -1

    def _refuse_capture(self, why: str) -> None:
        """Raise RuntimeError if the stream is being captured.  The GPU is current."""
        if self._number != LEGACY_STREAM and self._capture():
            driver.refuse_capture(why)

    def _complete(self, n: int) -> None:
        if n > self._completed:
            self._completed = n

    def _submit(self) -> int:
        """Count work that has been put into the stream, and return its number.  The GPU is current."""
        self._submitted = n = self._submitted + 1
        if not self._owned:
            with _ordering:
                self._take_down()
        return n

    def _take_down(self) -> None:
        """Record an event right after work that was put into a stream which is not ours."""
        event = self._captured[1]
        now = self._capture()
        if now:
            # What is captured is not done now, and this event cannot be waited for from outside of the capture.
            self._captured = (now, self._recorded(event))
            return
        if event is not None:
            self._gpu.spare_events.append(event)
            self._captured = (0, None)
        self._record()

    def _recorded(self, event: Any) -> Any:
        """Record an event at the end of the stream, a new one if it is None, and return it."""
        gpu = self._gpu
        with gpu.current():
            if event is None:
                event = gpu.new_event()
            check(driver.cu.cuEventRecord(event, self._handle))
        return event

    def _record(self) -> None:
        """Record the event that stands for all that was put into the stream until now."""
        n = self._submitted
        self._edge = self._recorded(self._edge)
        self._edged = n

    def _wait_event(self, event: Any, source: Stream, n: int) -> None:
        """Wait for an event that stands for work of another stream up to a number."""
        with self._gpu.current():
            check(driver.cu.cuStreamWaitEvent(self._handle, event, 0))
            if source is not self and not self._capture():
                self._note(source, n)

    def _note(self, other: Stream, n: int) -> None:
        """Know that another stream was waited for, up to a number."""
        if len(self._waited) >= _MANY:
            self._waited.clear()  # what is forgotten is waited for again
        self._waited[other._serial] = max(n, self._waited.get(other._serial, 0))

    def _wait_for(self, other: Stream, n: int) -> None:
        """Order what is put into this stream from now on behind work of another one.  The GPU is current."""
        if other is not self and other._completed < n and self._waited.get(other._serial, 0) < n:
            self._order_behind(other, n)

    def _order_behind(self, other: Stream, n: int) -> None:
        with _ordering:
            mine = self._capture()
            theirs = other._capture() if other._owned else mine and other._captured[0]
            if mine and mine == theirs:
                self._wait_within(other)
            elif mine:
                with relaxed():
                    if not other._has_done(n):
                        driver.refuse_capture(f"{self} is being captured, and would have to wait for other work")
            elif theirs:
                driver.refuse_capture(f"{other} is being captured, so {self} cannot wait for what it did before")
            else:
                self._wait_until(other, n)

    def _wait_until(self, other: Stream, n: int) -> None:
        """Wait for another stream where neither is captured."""
        if other._owned and other._edged < n:
            other._record()
        event = other._mark if other._edge is None else other._edge
        if event is not None:  # else all that is not done was captured
            check(driver.cu.cuStreamWaitEvent(self._handle, event, 0))
        self._note(other, other._edged if other._owned else other._submitted)

    def _wait_within(self, other: Stream) -> None:
        """Wait for another stream in a capture that has taken down both."""
        event = other._recorded(None) if other._owned else other._captured[1]
        check(driver.cu.cuStreamWaitEvent(self._handle, event, 0))
        if other._owned:
            self._gpu.spare_events.append(event)

    def _has_done(self, n: int) -> bool:
        """Return whether work is done, without waiting.

        What is asked for is a mark, an event that is not recorded anew before it is reached: a stream that always has
        more to do would never be done with it.
        """
        with _ordering:
            while self._completed < n:
                if self._mark is None:
                    if self._owned and self._edged < n:
                        with self._gpu.current():
                            if self._capture():
                                return False
                        self._record()
                    self._marked = self._edged if self._owned else self._submitted
                    self._mark, self._edge = self._edge, None
                if self._mark is not None:
                    error = driver.cu.cuEventQuery(self._mark)[0]
                    if error == driver.cu.CUresult.CUDA_ERROR_NOT_READY:
                        return False
                    check((error,))
                    self._gpu.spare_events.append(self._mark)
                    self._mark = None
                self._complete(self._marked)
        return True

    def _finish(self, n: int) -> None:
        """Wait, on the CPU, until work is done."""
        if self._completed >= n:
            return
        gpu = self._gpu
        with gpu.current():
            if current(gpu)._capture():
                with relaxed():
                    if not self._has_done(n):
                        driver.refuse_capture("a stream is being captured, and the CPU would have to wait")
                return
            with _ordering:
                if self._owned and self._edged < n:
                    self._refuse_capture("a stream that is captured cannot be waited for")
                    self._record()
                event = self._mark if self._edge is None else self._edge
                reached = self._edged if self._owned else self._submitted
            error = 0 if event is None else driver.cu.cuEventSynchronize(event)[0]
            if error and self._completed < n:  # else another thread knew that it is done, and has let go of the event
                driver.fail(error)
        self._complete(reached)

    def _rest(self) -> None:
        """Let go of the events of a stream that has nothing to do."""
        with _ordering:
            if self._completed >= self._submitted:
                self._gpu.spare_events.extend([event for event in (self._edge, self._mark) if event is not None])
                self._edge = self._mark = None


def _make(gpu: GPU, handle: Any, *, owned: bool) -> Stream:
    """Return the object of a stream that has none yet.  The GPU is current."""
    self = object.__new__(Stream)
    self._gpu, self._handle, self._number, self._owned = gpu, handle, int(handle), owned
    self._keep, self._serial, self._core = None, next(_serials), None
    self._submitted = self._completed = self._edged = self._marked = 0
    self._edge = self._mark = None
    self._captured, self._waited = (0, None), {}
    gpu.streams[check(driver.cu.cuStreamGetId(handle))] = self
    return self


def create(gpu: GPU, priority: int) -> Stream:
    """Return a new stream."""
    with gpu.current():
        return _make(gpu, check(driver.cu.cuStreamCreateWithPriority(_NON_BLOCKING, priority)), owned=True)


def legacy(gpu: GPU) -> Stream:
    """Return the default stream of a GPU."""
    with gpu.current(), _ordering:
        if gpu.default is None:
            gpu.default = _make(gpu, driver.cu.CUstream(LEGACY_STREAM), owned=True)
        return gpu.default


def is_captured(gpu: GPU) -> bool:
    """Return whether a stream of ours is being captured, in any thread.  The GPU is current."""
    return any(s._owned and s._number != LEGACY_STREAM and s._capture() for s in list(gpu.streams.values()))


def of_handle(gpu: GPU, handle: int) -> Stream:
    """Return the stream of a handle that is alive.  The GPU is current, and the stream's own."""
    default = gpu.default or legacy(gpu)
    if handle == LEGACY_STREAM:
        return default
    number = check(driver.cu.cuStreamGetId(handle))
    with _ordering:
        found = gpu.streams.get(number)
        if found is None:
            home = _home(handle, gpu)
            if home is not gpu:
                msg = f"the stream is one of cuda:{home.index}, but must be one of cuda:{gpu.index}, where the array is"
                raise ValueError(msg)
            # Handle 0 is the default stream, or the thread's own: that is for the driver's bindings to say.
            found = _make(gpu, driver.cu.CUstream(handle or PER_THREAD), owned=False)
        return found


def _handle_of(stream: Any) -> int:
    """Return the handle of a stream of any library."""
    try:
        protocol = stream.__cuda_stream__
    except AttributeError:
        msg = (
            f"stream is a {type(stream).__name__}, which has no __cuda_stream__ method: if it has a handle, as streams "
            "of torch have (s.cuda_stream), use nd.Stream.from_handle()"
        )
        raise TypeError(msg) from None
    _, handle = protocol() if callable(protocol) else protocol
    return int(handle)


def given(gpu: GPU, stream: Any) -> Stream:
    """Return a stream of a GPU, for this thread, that is given as an object of any library.  The GPU is current."""
    if isinstance(stream, Stream):
        if stream._gpu is not gpu:
            msg = f"the stream is one of cuda:{stream._gpu.index}, and cannot be used with cuda:{gpu.index}"
            raise ValueError(msg)
        return stream._here()
    return of_handle(gpu, _handle_of(stream))._kept_by(stream)


def _home(handle: int, wanted: GPU | None) -> GPU:
    """Return the GPU that a stream belongs to."""
    cu = driver.cu
    error, device = cu.cuCtxGetDevice()
    here = gpu_of(None) if error else driver.gpu(int(device))
    if handle <= PER_THREAD:
        return wanted or here
    with here.current():  # some context has to be
        context = check(cu.cuStreamGetCtx(handle)[:2])
        check(cu.cuCtxPushCurrent(context))
        try:
            gpu = driver.gpu(int(check(cu.cuCtxGetDevice())))
        finally:
            check(cu.cuCtxPopCurrent())
    if context != gpu.context:
        msg = "the stream is one of another context than its device's primary one, which is the one used here"
        raise DeviceError(msg)
    return gpu


def gpu_of(device: Device | str | None) -> GPU:
    """Return the GPU that a user names, or the default one."""
    found = devices.default(device)
    if device is None and not hasattr(found, "gpu"):
        found = devices.named("cuda")
    gpu: GPU | None = getattr(found, "gpu", None)
    if gpu is None:
        msg = f"device {found} has no streams"
        raise ValueError(msg)
    return gpu


# -- events


@final
class Event:
    """A point in the work of a stream, to wait for or to measure time with.

    Parameters
    ----------
    timing : bool, optional
        Whether `elapsed_time` can be asked for; False makes waiting cheaper.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> if nd.is_available("cuda"):
    ...     stream = nd.Stream()
    ...     start = nd.Event(timing=True).record(stream)
    ...     with stream:
    ...         x = nd.zeros(1000, device="cuda")
    ...     end = nd.Event(timing=True).record(stream)
    ...     milliseconds = start.elapsed_time(end)
    """

    __slots__ = ("_gpu", "_handle", "_n", "_stream", "_timing")

    def __init__(self, *, timing: bool = False) -> None:
        self._timing = bool(timing)
        self._gpu: GPU | None = None  # an event belongs to the GPU of the first stream that it is recorded on
        self._handle: Any = None
        self._stream: Stream | None = None
        self._n = 0  # what of the stream's work it stands for

    def __del__(self) -> None:
        gpu = getattr(self, "_gpu", None)  # there is none if it was not made with the right arguments
        if gpu is not None:
            gpu.handles.append(("cuEventDestroy", self._handle))

    def __repr__(self) -> str:
        return f"<Event: {'not recorded' if self._stream is None else f'of {self._stream}'}>"

    def __reduce__(self) -> Any:
        msg = "an event exists in its process alone: it cannot be pickled or copied"
        raise TypeError(msg)

    def record(self, stream: Any = None) -> Self:
        """Let the event stand for all that was put into a stream until now; return the event.

        Parameters
        ----------
        stream : Stream or object, optional
            A stream as `Stream.wrap` takes it; the current stream of the default GPU if not given.

        Returns
        -------
        Event
            The event itself.

        Raises
        ------
        TypeError
            If `stream` is none.
        ValueError
            If it was recorded before, on another GPU.
        DeviceError
            If there is no GPU, or the stream is one of another context than its device's primary one.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     event = nd.Event().record()
        ...     nd.Stream().wait(event)
        """
        found = current(gpu_of(None)) if stream is None else Stream.wrap(stream)
        found = found._here()
        gpu = found._gpu
        if self._gpu is not None and gpu is not self._gpu:
            msg = f"the event was recorded on cuda:{self._gpu.index} before, and cannot be on cuda:{gpu.index}"
            raise ValueError(msg)
        with gpu.current():
            if self._gpu is None:
                self._handle = check(driver.cu.cuEventCreate(0 if self._timing else driver.NO_TIMING))
                self._gpu = gpu
            n = 0 if found._capture() else found._submitted
            check(driver.cu.cuEventRecord(self._handle, found._handle))
        self._stream, self._n = found, n
        return self

    def _recorded(self) -> GPU:
        if self._gpu is None or self._stream is None:
            msg = "the event was never recorded: use event.record(stream) or stream.record(event)"
            raise RuntimeError(msg)
        return self._gpu

    def _let_wait(self, stream: Stream) -> None:
        """Let what is put into a stream from now on wait for the event."""
        if self._stream is None:
            return
        stream._wait_event(self._handle, self._stream, self._n)

    @property
    def done(self) -> bool:
        """Whether what the event stands for is done; does not wait.

        Returns
        -------
        bool
            True if it is done, or if the event was never recorded.

        Raises
        ------
        RuntimeError
            If the event was recorded in a capture, or a stream is being captured in a way that forbids to ask; that
            breaks the capture.
        DeviceError
            If the driver reports an error, which may be one of earlier work.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> nd.Event().done
        True
        >>> if nd.is_available("cuda"):
        ...     event = nd.Stream().record()
        ...     event.synchronize()
        ...     assert event.done
        """
        if self._gpu is None or self._stream is None:
            return True
        with self._gpu.current():
            error = driver.cu.cuEventQuery(self._handle)[0]
        if error == driver.cu.CUresult.CUDA_ERROR_NOT_READY:
            return False
        check((error,))
        self._stream._complete(self._n)
        return True

    def synchronize(self) -> None:
        """Wait, on the CPU, until what the event stands for is done; not at all if it was never recorded.

        Raises
        ------
        RuntimeError
            If the event was recorded in a capture, or a stream is being captured in a way that forbids to wait; that
            breaks the capture.
        DeviceError
            If the driver reports an error, which may be one of earlier work.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     with nd.Stream() as stream:
        ...         x = nd.zeros(3, device="cuda")
        ...     stream.record().synchronize()
        """
        if self._gpu is None or self._stream is None:
            return
        with self._gpu.current():
            check(driver.cu.cuEventSynchronize(self._handle))
        self._stream._complete(self._n)

    def elapsed_time(self, end: Event, /) -> float:
        """Return the time from this event to a later one; waits, on the CPU, until both are reached.

        Parameters
        ----------
        end : Event
            The later event.

        Returns
        -------
        float
            The time in milliseconds.

        Raises
        ------
        RuntimeError
            If one was never recorded, or what `synchronize` raises.
        ValueError
            If one is without timing, or they are on different GPUs.
        DeviceError
            If the driver reports an error, which may be one of earlier work.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     with nd.Stream() as stream:
        ...         start = nd.Event(timing=True).record(stream)
        ...         x = nd.zeros(1000, device="cuda")
        ...         end = nd.Event(timing=True).record(stream)
        ...     milliseconds = start.elapsed_time(end)
        """
        gpu = self._recorded()
        if end._recorded() is not gpu:
            msg = "the two events are on different devices, whose clocks cannot be compared"
            raise ValueError(msg)
        if not (self._timing and end._timing):
            msg = "time is measured between events that were made with timing=True"
            raise ValueError(msg)
        self.synchronize()
        end.synchronize()
        with gpu.current():
            return float(check(driver.cu.cuEventElapsedTime(self._handle, end._handle)))

    def __sub__(self, start: Event, /) -> float:
        """Return the time from another event to this one, as `elapsed_time` does.

        Parameters
        ----------
        start : Event
            The earlier event.

        Returns
        -------
        float
            The time in milliseconds.

        Raises
        ------
        TypeError
            If `start` is no event.
        RuntimeError, ValueError, DeviceError
            As `elapsed_time`.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> if nd.is_available("cuda"):
        ...     stream = nd.Stream()
        ...     start = nd.Event(timing=True).record(stream)
        ...     milliseconds = nd.Event(timing=True).record(stream) - start
        """
        return start.elapsed_time(self) if isinstance(start, Event) else NotImplemented
