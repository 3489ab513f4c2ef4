"""The CUDA driver: whether there is one, starting it, and the context of each GPU.

Nothing of CUDA is imported before `start`, and `missing` makes no call to the driver: a process may ask it and still
fork.  Once started, a child that is forked can never use CUDA: there `refuse` raises in place of every operation.

No destructor in this package calls the driver.  What a GPU has to be given back, it is given by `GPU.gone`, a queue
that lives for ever: see `nbdlpack.devices.cuda.memory`.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import importlib.util
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NoReturn
from weakref import WeakValueDictionary

from nbdlpack.errors import DeviceError

if TYPE_CHECKING:
    from types import TracebackType

    from nbdlpack.devices.cuda.memory import Memory
    from nbdlpack.devices.cuda.streams import Stream

__all__ = [
    "GPU",
    "NO_TIMING",
    "check",
    "count",
    "fail",
    "gpu",
    "is_forked",
    "is_gone",
    "missing",
    "ordinal",
    "refuse",
    "refuse_capture",
    "start",
    "words",
]

cu: Any = None
"""`cuda.bindings.driver`, once started."""
core: Any = None
"""`cuda.core`, once started."""
NO_TIMING: Final = 2
"""The flag of events that say only whether something is done."""


class _State:
    """What this process has done with the driver."""

    count = 0
    """How many GPUs there are; 0 before the driver is started."""
    forked = False
    """Whether it was forked after that."""
    ending = False
    """Whether the interpreter is about to end."""


_state: Final = _State()
_gpus: Final[dict[int, GPU]] = {}
_starting: Final = threading.RLock()

_INSTALL: Final = "pip install 'nbdlpack[cuda]' for CUDA 13, or 'nbdlpack[cuda12]' for CUDA 12"


# -- whether there is a driver


def missing() -> str | None:
    """Return what is missing for CUDA, as a sentence, or None; the driver itself is not called."""
    try:
        found = importlib.util.find_spec("cuda.core")
    except ImportError:
        found = None
    if found is None:
        return f"a GPU is used through the package cuda-core, which is not installed: {_INSTALL}"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver on this machine (no libcuda.so.1): install one, or use device='cpu'"
    return None


def start() -> None:
    """Start the driver, once.

    Raises
    ------
    DeviceError
        If there is none, if it finds no GPU or cannot be started: in one sentence, with what to do.
    """
    if _state.forked:
        refuse()
    with _starting:
        if _state.count:
            return
        found = missing()
        if found is not None:
            raise DeviceError(found)
        _import()
        _state.count = _started()
        atexit.register(_end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child)


def _import() -> None:
    global cu, core
    try:
        core, cu = importlib.import_module("cuda.core"), importlib.import_module("cuda.bindings.driver")
    except Exception as error:
        msg = f"the package cuda-core is installed, but cannot be imported ({error}): {_INSTALL}"
        raise DeviceError(msg) from error


def _started() -> int:
    """Initialise the driver and return how many GPUs there are."""
    try:
        result = cu.cuInit(0)
        if not result[0]:
            version, wanted = check(cu.cuDriverGetVersion()), cu.CUDA_VERSION
            if version // 1000 < wanted // 1000:
                msg = (
                    f"the NVIDIA driver is one of CUDA {_dotted(version)}, too old for the package cuda-bindings, "
                    f"which is for CUDA {_dotted(wanted)}: install a newer driver, or {_INSTALL}"
                )
                raise DeviceError(msg)
            result = cu.cuDeviceGetCount()
    except RuntimeError as error:
        if isinstance(error, DeviceError):
            raise
        msg = f"the NVIDIA driver (libcuda.so.1) cannot be used ({error}): install it anew, or use device='cpu'"
        raise DeviceError(msg) from error
    if result[0] == cu.CUresult.CUDA_ERROR_NO_DEVICE or (not result[0] and result[1] == 0):
        msg = "the NVIDIA driver finds no GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use device='cpu'"
        raise DeviceError(msg)
    if result[0]:
        msg = f"the NVIDIA driver does not start, it says {words(result[0])}: look at nvidia-smi, or use device='cpu'"
        raise DeviceError(msg)
    found: int = result[1]
    return found


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _in_child() -> None:
    _state.forked = True


def _end() -> None:
    _state.ending = True


def is_forked() -> bool:
    """Return whether this process was forked after the driver had been started."""
    return _state.forked


def is_gone() -> bool:
    """Return whether nothing may be given back any more: in a forked child, and when the interpreter ends."""
    return _state.forked or _state.ending


def refuse() -> NoReturn:
    """Raise the error of a forked child."""
    msg = (
        "CUDA cannot be used in a process that was forked after CUDA had been started: start it by the method 'spawn', "
        "as multiprocessing.set_start_method('spawn') says"
    )
    raise DeviceError(msg)


# -- calls


def words(error: Any) -> str:
    """Return what an error of the driver is called, and what the driver says about it."""
    return f"{error.name} ({check(cu.cuGetErrorString(error)).decode()})"


def check(result: tuple[Any, ...]) -> Any:
    """Return what a call to the driver returned besides its error code, or raise."""
    if result[0]:
        fail(result[0])
    return result[1] if len(result) > 1 else None


def fail(error: Any) -> NoReturn:
    """Raise an error of the driver."""
    if error.name.startswith("CUDA_ERROR_STREAM_CAPTURE"):
        refuse_capture(f"the driver says {words(error)}")
    msg = f"the CUDA driver says {words(error)}"
    raise DeviceError(msg)


def refuse_capture(why: str) -> NoReturn:
    """Raise the error of what cannot be done while a stream is captured."""
    msg = (
        f"{why}: before a stream is captured, allocate what is needed, give arrays memory of their own by "
        "nd.materialize(x), and synchronize"
    )
    raise RuntimeError(msg)


# -- GPUs


def _immortal(queue: deque[Any]) -> deque[Any]:
    """Keep a queue, and what is in it, for as long as the process lives: also when the interpreter has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(queue))
    return queue


class GPU:
    """One GPU: its context, and what the modules beside this one know of it."""

    __slots__ = (
        "background",
        "context",
        "default",
        "gone",
        "handles",
        "index",
        "pool",
        "spare_events",
        "streams",
        "synchronized",
        "take",
        "waiting",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.context = check(cu.cuDevicePrimaryCtxRetain(check(cu.cuDeviceGet(index))))
        self.streams: WeakValueDictionary[int, Stream] = WeakValueDictionary()  # by the driver's numbers
        self.default: Stream | None = None  # the legacy default stream, once asked for
        self.background: Stream | None = None  # where memory is freed that more than one stream has used
        self.spare_events: list[Any] = []
        # What nobody has any more, for `memory.drain`: destructors, which run anywhere and at any time, put it there.
        self.gone: deque[Memory] = _immortal(deque())
        self.handles: deque[tuple[str, Any]] = _immortal(deque())  # of streams and events, and what destroys them
        self.waiting: deque[Any] = _immortal(deque())  # memory that nobody has, but the GPU still uses
        self.pool: Any = None  # a pool of our own, if memory comes from one
        self.take: Any = None  # what allocates
        self.synchronized = 0  # how often all of the GPU's work was waited for

    def __repr__(self) -> str:
        return f"GPU({self.index})"

    def new_event(self) -> Any:
        """Return an event without timing that nobody uses.  The context is current."""
        return self.spare_events.pop() if self.spare_events else check(cu.cuEventCreate(NO_TIMING))

    def enter(self) -> bool:
        """Make the context the thread's current one; return whether it was not, so that `leave` is to follow."""
        if _state.forked:
            refuse()
        if cu.cuCtxGetCurrent()[1] == self.context:
            return False
        check(cu.cuCtxPushCurrent(self.context))
        return True

    def leave(self) -> None:
        """Make current again what was so before `enter`."""
        check(cu.cuCtxPopCurrent())

    def current(self) -> Current:
        """Return a context in which this GPU is the thread's current one."""
        return Current(self)


class Current:
    """A `with` block in which a GPU is the thread's current one; what was current before is so again after it."""

    __slots__ = ("_entered", "_gpu")

    def __init__(self, gpu: GPU) -> None:
        self._gpu = gpu

    def __enter__(self) -> None:
        self._entered = self._gpu.enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._entered:
            self._gpu.leave()


def count() -> int:
    """Return how many GPUs there are.  Raises DeviceError if there is no driver, or none of them."""
    start()
    return _state.count


def gpu(index: int) -> GPU:
    """Return the GPU of a number.  Raises DeviceError if it is not there."""
    try:
        return _gpus[index]
    except KeyError:
        pass
    n = count()
    if not 0 <= index < n:
        there = "one GPU, cuda:0" if n == 1 else f"{n} GPUs, up to cuda:{n - 1}"
        msg = f"there is no cuda:{index}: this machine has {there}"
        raise DeviceError(msg)
    with _starting:
        if index not in _gpus:
            _gpus[index] = GPU(index)
        return _gpus[index]


def ordinal(address: int) -> int | None:
    """Return the number of the GPU that has the memory at an address, or None if the driver knows no such memory.

    Some GPU is current: the driver wants to have one.
    """
    error, found = cu.cuPointerGetAttribute(cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
    return None if error or found < 0 else int(found)


def owner_of(address: int) -> GPU:
    """Return the GPU that has the memory at an address.  Raises BufferError if the driver knows no such memory."""
    start()
    with gpu(0).current():
        found = ordinal(address)
    if found is None:
        msg = f"the address {address:#x} is not one of a GPU's memory, as far as the CUDA driver knows"
        raise BufferError(msg)
    return gpu(found)
