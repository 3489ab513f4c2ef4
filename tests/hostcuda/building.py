"""Building the driver, and loading it in the place of libcuda.so.1."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = "-O1 -fPIC -shared -fvisibility=hidden -frounding-math -w -Wl,-soname,libcuda.so.1 -Wl,--no-as-needed".split()
LIBRARIES = ["-lpthread", "-ldl", "-lm"]


class Unavailable(Exception):
    """The driver cannot be had here; the message says why."""


def cache_directory() -> Path:
    """Return the folder for what is built, which is made if it is not there."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "nbdlpack-tests")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_at_once(path: Path, write) -> None:
    """Have `write(temporary path)` make a file, which has its name only when it is whole, whoever else makes it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    write(temporary)
    temporary.replace(path)


def why_not() -> str | None:
    """Return why the driver cannot be used in this process, or None if it can, as far as that is known by now."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "hostcuda is for Linux on x86-64"
    if os.environ.get("NBDLPACK_TEST_GPU", "0") not in ("", "0"):
        return "NBDLPACK_TEST_GPU asks for a real GPU"
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        return "NUMBA_ENABLE_CUDASIM asks for Numba's simulator"
    try:
        found = importlib.util.find_spec("cuda.bindings")
    except ImportError:
        found = None
    if found is None:
        return "cuda-bindings is not installed"
    if not library_path().exists() and not shutil.which(os.environ.get("CC", "gcc")):
        return "hostcuda has to be built once, and there is no gcc"
    if "loaded" not in _state and "/libcuda.so" in Path("/proc/self/maps").read_text():
        return "another CUDA driver is loaded already"
    return None


@functools.cache
def library_path() -> Path:
    """Return where the driver is, or will be, once it is built."""
    sources = b"".join(path.read_bytes() for path in sorted((HERE / "driver").glob("*.c")))
    key = hashlib.sha256(sources + " ".join(FLAGS).encode()).hexdigest()[:16]
    return cache_directory() / f"driver-{key}" / "libcuda.so.1"


def build() -> Path:
    """Build the driver if it is not there, and return its path."""
    path = library_path()
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        command = [os.environ.get("CC", "gcc"), *FLAGS, str(HERE / "driver" / "libcuda.c"), *LIBRARIES, "-o"]
        try:
            write_at_once(
                path, lambda to: subprocess.run([*command, str(to)], check=True, capture_output=True, text=True)
            )
        except (OSError, subprocess.CalledProcessError) as error:
            msg = f"hostcuda could not be built: {getattr(error, 'stderr', '') or error}"
            raise Unavailable(msg) from error
    return path


class Tally(ctypes.Structure):
    """A linked list of counters by name."""


Tally._fields_ = [("name", ctypes.c_char_p), ("n", ctypes.c_uint64), ("next", ctypes.POINTER(Tally))]

_U64, _INT, _TEXT = ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p
FUNCTIONS = {
    "names": (_TEXT,),
    "stats": (ctypes.POINTER(_U64),),
    "last_error": (_TEXT,),
    "tally": (ctypes.POINTER(Tally), _INT),
    "reset_stats": (None,),
    "fail_alloc": (None, _U64, _U64),
    "clear_error": (None,),
    "drain": (None,),
    "libdevice": (None, _TEXT),
    "set": (_INT, _TEXT, _TEXT),
    "get": (_INT, _TEXT, _TEXT, _INT),
}
_state: dict[str, ctypes.CDLL] = {}


def load() -> ctypes.CDLL:
    """Load the driver: whatever asks for libcuda.so.1 from now on gets it."""
    if "loaded" not in _state:
        if reason := why_not():
            raise Unavailable(reason)
        library = ctypes.CDLL(str(build()), mode=ctypes.RTLD_GLOBAL)
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(library, f"hostcuda_{name}")
            function.restype, function.argtypes = result, arguments
        _state["loaded"] = library
    return _state["loaded"]


def loaded() -> ctypes.CDLL:
    """Return the driver that was loaded."""
    if "loaded" not in _state:
        msg = "hostcuda is not installed in this process: call tests.hostcuda.install()"
        raise Unavailable(msg)
    return _state["loaded"]
