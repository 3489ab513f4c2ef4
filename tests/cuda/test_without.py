"""What is missing on a machine is said in one sentence, with what to install; whatever does not need it, works.

Each test is a process of its own, in which something is kept from the library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import hostcuda

ROOT = Path(__file__).parents[2]
REAL = os.environ.get("NBDLPACK_TEST_GPU", "0") not in ("", "0")
"""Whether there is a GPU, and its driver: then nothing stands for one."""
DRIVER = REAL or Path("/proc/driver/nvidia").exists()

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
needs_no_driver = pytest.mark.skipif(DRIVER, reason="there is a driver on this machine")
needs_numba_cuda = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import numba_cuda, cuda.core"], capture_output=True).returncode != 0,
    reason="numba-cuda or cuda-core is not installed: pip install -e '.[hostcuda]'",
)

WITHOUT = """
import importlib.metadata, sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name in {modules}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def version(name, found=importlib.metadata.version):
    if name in {distributions}:
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)

sys.meta_path[:] = [Without(), *[f for f in sys.meta_path if type(f).__module__ not in {modules}]]
importlib.metadata.version = version
"""
"""Keeps modules, and what is said of them, from whatever is imported after it."""

NO_NUMBA_CUDA = WITHOUT.format(modules=["numba_cuda", "_numba_cuda_redirector"], distributions=["numba-cuda"])

ASK = """
import nbdlpack as nd

x = nd.arange(3, device="cpu")
assert (x + x).tolist() == [0, 2, 4]
assert nd.asarray([1.0]).device == "cpu"
nd.synchronize()
nd.memory_info()
for name in ("cuda", "cuda:1", "cuda_host", "cuda_managed"):
    try:
        nd.empty(3, device=name)
    except nd.errors.DeviceError as error:
        print(error)
assert (nd.from_dlpack(x) + 1).tolist() == [1, 2, 3]
"""
"""The cpu is there and the default; why the GPU is not is asked for by each of its memories."""

COMPUTE = """
import nbdlpack as nd

x = nd.zeros(3, dtype=nd.float32, device="cuda")
try:
    print("computed", (x + 1).tolist())
except nd.errors.DeviceError as error:
    print(error)
assert x.tolist() == [0, 0, 0]
"""


def child(tmp_path: Path, code: str, *, gpu: bool = False, **environment: str) -> str:
    """Run a program, with a GPU or what stands for one if it needs one; return what it prints."""
    if gpu and not REAL and (reason := hostcuda.why_not()):
        pytest.skip(reason)
    before = {name: value for name, value in os.environ.items() if not name.startswith(("NBDLPACK_", "HOSTCUDA_ASYNC"))}
    # Nothing that other processes have compiled, so that this one has to.
    own = {"PYTHONPATH": str(ROOT), "NBDLPACK_CACHE_DIR": str(tmp_path / "cache")}
    launcher = ["-m", "tests.hostcuda"] if gpu and not REAL else []
    done = subprocess.run(
        [sys.executable, *launcher, "-c", code],
        cwd=ROOT,
        env=before | own | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def sentence(text: str, *words: str) -> None:
    """Check that a text is one sentence, and has some words in it."""
    assert len(text.splitlines()) == 1, text
    assert not re.search(r"\. |\.$", text), f"more than one sentence, or a full stop: {text}"
    assert len(text) < 300, text
    for word in words:
        assert re.search(word, text), (word, text)


def same(text: str) -> str:
    """Return what was said four times, for each memory, as one: it does not depend on which was asked for."""
    lines = text.splitlines()
    assert len(lines) == 4, text
    assert len(set(lines)) == 1, text
    return lines[0]


# ---- no driver, or one that is broken --------------------------------------------------------------------------------


@needs_no_driver
def test_without_a_driver(tmp_path):
    sentence(same(child(tmp_path, ASK)), "no NVIDIA driver", "install", "device='cpu'")


NO_LIBRARY = """
import ctypes

class CDLL(ctypes.CDLL):
    def __init__(self, name, *args, **options):
        if name and "libcuda" in str(name):
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        super().__init__(name, *args, **options)

ctypes.CDLL = CDLL
"""


@needs_numba_cuda
def test_without_a_driver_where_all_of_python_is_installed(tmp_path):
    sentence(same(child(tmp_path, NO_LIBRARY + ASK)), "no NVIDIA driver", "install", "device='cpu'")


BROKEN = r"""
#include <string.h>
int cuInit(unsigned flags) { return CODE; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 0; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "as a stub says"; return 0; }
int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, void *status) {
    *found = !strcmp(name, "cuInit") ? (void *)cuInit
        : !strcmp(name, "cuDriverGetVersion") ? (void *)cuDriverGetVersion
        : !strcmp(name, "cuDeviceGetCount") ? (void *)cuDeviceGetCount
        : !strcmp(name, "cuGetErrorString") ? (void *)cuGetErrorString : 0;
    return 0;
}
"""


@needs_gcc
@needs_numba_cuda
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (BROKEN.replace("CODE", "999"), "does not start.*CUDA_ERROR_UNKNOWN"),
        (BROKEN.replace("CODE", "3"), "does not start.*CUDA_ERROR_NOT_INITIALIZED"),
        (BROKEN.replace("CODE", "100"), "finds no GPU"),
        (BROKEN.replace("CODE", "0"), "finds no GPU"),
        ("int nothing;", "cannot be used"),
    ],
    ids=["unknown error", "not initialized", "no device", "no devices", "empty library"],
)
def test_with_a_broken_driver(tmp_path, source, words):
    (tmp_path / "libcuda.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1", "libcuda.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = child(tmp_path, ASK, LD_PRELOAD=str(tmp_path / "libcuda.so.1"))
    sentence(same(found), "NVIDIA driver", words, "device='cpu'")


@needs_numba_cuda
@pytest.mark.skipif(REAL, reason="the GPU is a real one")
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"HOSTCUDA_DEVICES": "0"}, "finds no GPU"),
        ({"HOSTCUDA_DRIVER_VERSION": "12040"}, "CUDA 12.4, too old.*install"),
    ],
    ids=["no GPU", "an old driver"],
)
def test_with_a_driver_that_is_of_no_use(tmp_path, option, words):
    sentence(same(child(tmp_path, ASK, gpu=True, **option)), words)


@needs_no_driver
def test_the_default_device_where_a_gpu_is_asked_for(tmp_path):
    code = """
import nbdlpack as nd
try:
    nd.zeros(3)
except nd.errors.DeviceError as error:
    print(error)
assert nd.zeros(3, device="cpu").tolist() == [0, 0, 0]
"""
    sentence(child(tmp_path, code, NBDLPACK_DEVICE="cuda"), "install")


# ---- no package ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("modules", [["cuda"], ["cuda.core"], ["cuda.bindings", "cuda.bindings.driver"]], ids=str)
def test_without_cuda_core(tmp_path, modules):
    code = WITHOUT.format(modules=modules, distributions=["cuda-core"]) + ASK
    sentence(same(child(tmp_path, code, gpu=modules != ["cuda"])), r"cuda-core", r"pip install 'nbdlpack\[cuda\]'")


MOVES = """
import gc
import numpy as np
import nbdlpack as nd

a = np.arange(12, dtype=np.float32).reshape(3, 4)
x = nd.asarray(a, device="cuda")
assert str(x.device) == "cuda"
back = lambda x: np.asarray(x.to_device("cpu"))
equal = np.testing.assert_array_equal

# make
equal(back(nd.zeros((2, 3), device="cuda")), np.zeros((2, 3)))
assert nd.empty((2, 3), dtype=nd.int8, device="cuda").shape == (2, 3)
assert nd.empty((0, 3), device="cuda").tolist() == []
equal(back(nd.arange(5, device="cuda")), np.arange(5))
equal(back(x), a)

# slice, and see
equal(back(x[1]), a[1])
equal(back(x[1:, ::2]), a[1:, ::2])
equal(back(x.T), a.T)
equal(back(x.reshape(4, 3)[::-1]), a.reshape(4, 3)[::-1])
assert x[2, 1].tolist() == 9.0 and float(x[2, 1]) == 9.0 and "11" in repr(x)

# copy, lazily, and write
y = x.copy()
assert nd.is_shared(x)
y[0] = nd.asarray(a[2], device="cuda")
assert not nd.is_shared(x)
equal(back(x), a)
equal(back(y), a[[2, 1, 2]])
z = nd.materialize(x.copy())
assert z.ptr != x.ptr
equal(back(z), a)

# exchange
w = nd.from_dlpack(x)
assert nd.shares_memory(w, x) and w.ptr == x.ptr
v = nd.from_dlpack(x.__dlpack__(stream=1, max_version=(1, 3)))
v[1] = nd.asarray(a[0], device="cuda")
equal(back(x), a[[0, 0, 2]])
assert x.__dlpack_device__() == (2, 0)
equal(back(nd.from_dlpack(nd.dlpack.ReadOnlyTensorWrapper(x))), a[[0, 0, 2]])
host = np.from_dlpack(nd.from_dlpack(x, device="cpu"))
equal(host, a[[0, 0, 2]])
assert x.__cuda_array_interface__["shape"] == (3, 4)
nd.synchronize("cuda")

# compute
try:
    x + 1
except nd.errors.DeviceError as error:
    print(error)
else:
    raise AssertionError("computed")
equal(back(x), a[[0, 0, 2]])
assert (nd.asarray([1, 2], device="cpu") + 1).tolist() == [2, 3]
"""


@needs_numba_cuda
@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (NO_NUMBA_CUDA, "^numba-cuda is not installed"),
        (
            WITHOUT.format(modules=["numba.cuda"], distributions=[]),
            r"numba-cuda [\d.]+ is installed, but cannot be imported",
        ),
        (WITHOUT.format(modules=["numba.cuda.np.arrayobj"], distributions=[]), "cannot be imported"),
    ],
    ids=["not installed", "not importable", "broken"],
)
def test_without_numba_cuda_memory_works_and_kernels_say_what_is_missing(tmp_path, keep, words):
    sentence(child(tmp_path, keep + MOVES, gpu=True), words, r"pip install 'nbdlpack\[cuda\]'")


RELEASE = """
import importlib.metadata

def version(name, found=importlib.metadata.version):
    return "{release}" if name == "numba-cuda" else found(name)

importlib.metadata.version = version
"""


@needs_numba_cuda
@pytest.mark.parametrize("release", ["0.23.0", "0.31.0"])
def test_with_another_release_of_numba_cuda(tmp_path, release):
    found = child(tmp_path, RELEASE.format(release=release) + COMPUTE, gpu=True)
    sentence(found, f"numba-cuda {release} is installed", "not supported", r"pip install 'nbdlpack\[cuda\]'")


@needs_numba_cuda
def test_with_a_private_name_gone(tmp_path):
    code = """
import numba.cuda.args
del numba.cuda.args.ArgHint
"""
    found = child(tmp_path, code + COMPUTE, gpu=True)
    sentence(found, r"numba-cuda [\d.]+ is installed, but not as expected", r"pip install 'nbdlpack\[cuda\]'")


# ---- no compiler, or none that is allowed ----------------------------------------------------------------------------

NO_LIBRARY_OF_NVIDIA = """
import numba.cuda
from numba.cuda.cudadrv import nvvm
from numba.cuda.cudadrv.error import NvvmSupportError
from numba.cuda.codegen import CUDACodeLibrary

def refuse(*args, **options):
    raise {error}

{name} = refuse
"""
"""Stands for what numba-cuda meets where a library of NVIDIA's is missing."""


@needs_numba_cuda
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("nvvm.NVVM.__new__", "NvvmSupportError('libNVVM is not available')", "^libNVVM.*not found"),
        (
            "CUDACodeLibrary.get_cubin",
            """__import__("cuda.pathfinder").pathfinder.DynamicLibNotFoundError('Failure finding "libnvrtc.so.13"')""",
            "^NVRTC.*not found",
        ),
        (
            "CUDACodeLibrary.get_cubin",
            "RuntimeError('ptxas application ptx input, line 9; fatal: Unsupported .version 9.5')",
            "^libNVVM is of a newer release.*pip install",
        ),
    ],
    ids=["libNVVM", "NVRTC", "a newer libNVVM"],
)
def test_without_libraries_of_nvidia(tmp_path, name, error, words):
    found = child(tmp_path, NO_LIBRARY_OF_NVIDIA.format(name=name, error=error) + COMPUTE, gpu=True)
    sentence(found, words, "install")


@needs_numba_cuda
def test_numba_that_is_told_not_to_use_cuda(tmp_path):
    sentence(child(tmp_path, COMPUTE, gpu=True, NUMBA_DISABLE_CUDA="1"), "NUMBA_DISABLE_CUDA")


@needs_numba_cuda
def test_the_simulator_needs_no_driver(tmp_path):
    assert child(tmp_path, COMPUTE, NUMBA_ENABLE_CUDASIM="1") == "computed [1.0, 1.0, 1.0]"
