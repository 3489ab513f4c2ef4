"""Kernels on a GPU: compiled when they are first launched, or had from the user's cache, and launched."""

from __future__ import annotations

import contextlib
import re
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nbdlpack.devices.cuda import driver, streams
from nbdlpack.devices.kernelled import Deferred
from nbdlpack.devices.kernelled.launching import BLOCK, blocks_for, exactly_passed, most_blocks, passed, ways
from nbdlpack.errors import DeviceError

if TYPE_CHECKING:
    from nbdlpack.devices.cuda.driver import GPU
    from nbdlpack.devices.kernelled.launching import Ways
    from nbdlpack.kernels.numba_cuda import Kernel

__all__ = ["counts", "launch"]

# Both need numba-cuda, and what needs no kernel does without.
_images, _numba_cuda = Deferred("nbdlpack.devices.cuda.images"), Deferred("nbdlpack.kernels.numba_cuda")


class _Ready(NamedTuple):
    """A kernel that can be launched on a GPU."""

    handle: Any
    ways: Ways
    most: int
    """How many blocks fill the GPU."""


class Counts:
    """How many kernels this process got ready."""

    compiled = 0
    cached = 0
    """Those that came from the user's cache."""


counts: Final = Counts()
_ready: Final[dict[tuple[int, Kernel], _Ready]] = {}
_preparing: Final = threading.RLock()


def launch(gpu: GPU, kernel: Kernel, threads: int, args: tuple[Any, ...]) -> None:
    """Launch a kernel on the current stream of a GPU, which is the thread's current one."""
    if threads <= 0:
        return
    found = _ready.get((gpu.index, kernel)) or _prepared(gpu, kernel)
    stream = streams.current(gpu)
    config = _config(blocks_for(threads, found.most))
    try:
        driver.core.launch(stream.core, config, found.handle, *passed(found.ways, args))
    except OverflowError:
        driver.core.launch(stream.core, config, found.handle, *exactly_passed(found.ways, args))


@lru_cache(1024)
def _config(blocks: int) -> Any:
    return driver.core.LaunchConfig(grid=blocks, block=BLOCK)


def _prepared(gpu: GPU, kernel: Kernel) -> _Ready:
    """Get a kernel ready, once."""
    with _preparing:
        found = _ready.get((gpu.index, kernel))
        if found is None:
            about = driver.core.Device(gpu.index)
            with streams.relaxed():
                handle = _loaded(gpu, kernel, architecture(about))
            most = most_blocks(about.properties.multiprocessor_count)
            found = _ready[gpu.index, kernel] = _Ready(handle, ways(kernel.signature), most)
    return found


def architecture(about: Any) -> str:
    """Return what GPUs have in common that run the same code, in words; and a name, for some are no real ones."""
    major, minor = about.compute_capability
    return f"{major}.{minor} {about.name}"


def _loaded(gpu: GPU, kernel: Kernel, target: str) -> Any:
    """Return a kernel, loaded for the current GPU."""
    key = _images.key_of(kernel, target)
    image = _images.find(key)
    if image is not None:
        with contextlib.suppress(Exception):  # whatever is wrong with it, it is as good as none
            handle = load(image)
            counts.cached += 1
            return handle
    try:
        handle, entry, code = _built(gpu, kernel)
    except Exception as error:
        msg = _explained(error)
        if msg is None:
            raise
        raise DeviceError(msg) from error
    counts.compiled += 1
    _images.keep(key, _images.Image(entry, code))
    return handle


def _built(gpu: GPU, kernel: Kernel) -> Any:
    """Compile and load a kernel, in a thread of its own.

    Numba keeps some of the errors that it has dealt with, until the next collection of garbage, and errors keep the
    frames that they came through, and these those of their callers: with all arrays that are named there.
    """
    found: list[Any] = []

    def work() -> None:
        try:
            with gpu.current(), streams.relaxed():
                found.append(_numba_cuda.build(kernel))
        except BaseException as error:  # noqa: BLE001 - it is raised below
            found.append(error)

    thread = threading.Thread(target=work)
    try:
        apart = not _numba_cuda.is_compiling()
        if apart:
            thread.start()
    except RuntimeError:  # the interpreter is ending
        apart = False
    if apart:
        thread.join()
    else:
        work()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def load(image: Any) -> Any:
    """Return the kernel of an image of the cache, loaded for the current GPU."""
    return driver.core.ObjectCode.from_cubin(image.code).get_kernel(image.entry)


# -- errors

_INSTALL: Final = (
    "pip install 'nbdlpack[cuda]' for CUDA 13, or 'nbdlpack[cuda12]' for CUDA 12, or set CUDA_HOME to a CUDA toolkit"
)
_MISSING: Final = (
    ("nvvm|libdevice", "libNVVM, with which Numba compiles kernels"),
    ("nvrtc", "NVRTC, which Numba asks for the kinds of GPU that there are"),
    ("nvjitlink", "nvJitLink, with which kernels are linked"),
)
"""The libraries that errors speak of, and what each is for."""
_NEWER: Final = r"UNSUPPORTED_PTX_VERSION|Unsupported \.version"


def _explained(error: BaseException | None) -> str | None:
    """Return what is to be done about an error of the compiler, in a sentence, or None if it is not known."""
    while error is not None:
        words = f"{type(error).__name__}: {error}"
        if re.search(_NEWER, words):
            return _newer()
        for library, what in _MISSING:
            if re.match(rf"\w*(NotFound|Support)Error:.*({library})", words, re.IGNORECASE | re.DOTALL):
                return f"{what}, is not found: {_INSTALL}"
        error = error.__cause__ or error.__context__
    return None


def _newer() -> str:
    version = driver.check(driver.cu.cuDriverGetVersion())
    major, minor = version // 1000, version % 1000 // 10
    package = "nvidia-nvvm" if major > 12 else f"nvidia-cuda-nvcc-cu{major}"
    return (
        "libNVVM is of a newer release of CUDA than what is to read its code, the driver (CUDA "
        f"{major}.{minor}) or nvJitLink: pip install '{package}=={major}.{minor}.*', or install a newer driver"
    )
