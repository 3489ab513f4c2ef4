"""Stage 0: what is installed, whether libNVVM's code suits the driver, and what the later stages are to be given."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import FACT, call, in_words, main, needed, say

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICE, NO_GPU, REMEDY = "device", "no GPU", "remedy"
"""What the facts are called: the GPU, that there is none, and the environment that the later stages are to be given."""
DISTRIBUTIONS = """
    numpy ml_dtypes numba llvmlite numba-cuda cuda-core cuda-bindings cuda-pathfinder torch jax jaxlib cupy-cuda13x
    cupy-cuda12x nvidia-nvvm nvidia-cuda-nvcc-cu12 nvidia-cuda-nvrtc nvidia-cuda-nvrtc-cu12 nvidia-nvjitlink
    nvidia-nvjitlink-cu12 pytest pytest-xdist hypothesis
""".split()
LIBRARIES = ("nvvm", "nvrtc", "nvJitLink")
NOT_FOUND = "not found"
INSTALL = "pip install 'nbdlpack[cuda]'"

IR = b"""
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-\
v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
define void @nothing() {
  ret void
}
!nvvmir.version = !{!0}
!0 = !{i32 2, i32 0}
"""
"""A function for libNVVM that does nothing."""


def versions() -> str:
    """Return what is installed."""
    found = {"Python": platform.python_version(), "system": platform.platform()}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return ", ".join(f"{name} {version}" for name, version in found.items())


def gpu() -> str:
    """Return what GPUs there are, and of which CUDA the driver is."""
    try:
        found, version = gpus()
    except Exception:
        say(NO_GPU, FACT)
        raise
    say(DEVICE, FACT, found)
    return f"{found}; the driver is of CUDA {version // 1000}.{version % 1000 // 10}"


def gpus() -> tuple[str, int]:
    """Return the GPUs in words, and the driver's version."""
    driver = needed("cuda.bindings.driver", INSTALL)
    call(driver.cuInit, 0)
    found = []
    for number in range(call(driver.cuDeviceGetCount)):
        device = call(driver.cuDeviceGet, number)
        name = call(driver.cuDeviceGetName, 100, device).partition(b"\0")[0].decode()
        kind = driver.CUdevice_attribute
        names = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MULTIPROCESSOR_COUNT")
        major, minor, processors = (
            call(driver.cuDeviceGetAttribute, getattr(kind, f"CU_DEVICE_ATTRIBUTE_{name}"), device) for name in names
        )
        memory = call(driver.cuDeviceTotalMem, device) / (1 << 30)
        found.append(f"{name}, sm_{major}{minor}, {processors} multiprocessors, {memory:.0f} GiB")
    return "; ".join(found), call(driver.cuDriverGetVersion)


def imports() -> str:
    """Import the library, and see that nothing of CUDA comes with it."""
    before, began = set(sys.modules), time.perf_counter()
    nd = importlib.import_module("nbdlpack")
    seconds = time.perf_counter() - began
    heavy = sorted({"numba", "cuda.core", "cuda.bindings.driver", "torch"} & sys.modules.keys() - before)
    return (
        f"nbdlpack {nd.__version__} in {seconds:.2f} s, from {Path(nd.__file__).parent}; with it: {heavy or 'nothing'}"
    )


def numba_cuda() -> str:
    """Import numba-cuda by way of the library, which sees to what it lacks."""
    began = time.perf_counter()
    np = importlib.import_module("numpy")
    found = importlib.import_module("nbdlpack.kernels.numba_cuda")
    text = f"{found.cuda.implementation}, imported in {time.perf_counter() - began:.2f} s"
    if not hasattr(np, "row_stack"):
        text += f"; NumPy {np.__version__} has no row_stack, which nbdlpack gave it for the import"
    return text


# -- libNVVM


def probe() -> dict[str, Any]:
    """Let the libNVVM that this process finds compile a function, and the driver and the linker take it."""
    nvvm = importlib.import_module("cuda.bindings.nvvm")
    driver = importlib.import_module("cuda.bindings.driver")
    pathfinder = importlib.import_module("cuda.pathfinder")
    found: dict[str, Any] = {name: _path(pathfinder, name) for name in LIBRARIES}
    program = nvvm.create_program()
    nvvm.add_module_to_program(program, IR, len(IR), "nothing")
    nvvm.compile_program(program, 1, ["-arch=compute_75"])
    code = bytearray(nvvm.get_compiled_result_size(program))
    nvvm.get_compiled_result(program, code)
    ptx = bytes(code).rstrip(b"\0")
    found["ptx"] = ptx.partition(b".version ")[2].split()[0].decode()
    try:
        call(driver.cuInit, 0)
        call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, 0))
        found["driver"] = call(driver.cuDriverGetVersion)
        call(driver.cuModuleLoadData, ptx + b"\0")
    except Exception as error:  # noqa: BLE001 - all that matters is whether it works
        found["refused"] = f"the driver: {in_words(error)}"
    else:
        try:
            _link(ptx)
        except ImportError as error:
            found["linker"] = f"the driver's ({error})"
        except Exception as error:  # noqa: BLE001
            found["refused"] = f"the linker: {in_words(error)}"
    return found


def _path(pathfinder: Any, name: str) -> str:
    try:
        return str(pathfinder.load_nvidia_dynamic_lib(name).abs_path)
    except Exception as error:  # noqa: BLE001 - of a class of its own in each release
        return f"{NOT_FOUND} ({type(error).__name__})"


def _link(ptx: bytes) -> None:
    """Link as numba-cuda does: by nvJitLink where it is installed."""
    linker = importlib.import_module("cuda.bindings.nvjitlink")
    try:
        linker.version()
    except Exception as error:  # noqa: BLE001 - of a class of its own in each release
        raise ImportError(type(error).__name__) from None
    handle = linker.create(1, ["-arch=sm_75"])
    try:
        linker.add_data(handle, linker.InputType.PTX, ptx, len(ptx), "nothing")
        linker.complete(handle)
    finally:
        linker.destroy(handle)


def toolkits() -> Iterator[Path]:
    """Yield the folders of CUDA toolkits on this machine that have a libNVVM, each once."""
    places = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    if compiler := shutil.which("nvcc"):
        places.append(Path(compiler).resolve().parents[1])
    places += [Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    seen = set()
    for place in places:
        if library(place) and (place := place.resolve()) not in seen:
            seen.add(place)
            yield place


def library(toolkit: Path) -> Path | None:
    """Return a toolkit's libNVVM, if it has one."""
    found = [
        path for folder in ("nvvm/lib64", "nvvm/lib", "lib64", "lib") for path in toolkit.glob(f"{folder}/libnvvm.so.4")
    ]
    return found[0].resolve() if found else None


def attempt(environment: dict[str, str]) -> dict[str, Any]:
    """Run `probe` in a process of its own, since a process has one libNVVM."""
    command = [sys.executable, "-m", "benchmarks.gpu.start", "probe"]
    try:
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, timeout=20, check=False
        )
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]
    except (IndexError, ValueError, subprocess.TimeoutExpired) as error:
        return {"refused": f"the probe ended early: {in_words(error)}"}


def remedy() -> str:
    """Choose the libNVVM of the later stages, and say what they are to be given for it.

    The first that the driver and the linker take the code of is it, but one beside which there is NVRTC, without which
    numba-cuda does not compile, comes before one without.
    """
    needed("cuda.bindings.nvvm", INSTALL)
    tried, usable = [], []
    for environment in ({}, *({"LD_PRELOAD": str(library(place)), "CUDA_HOME": str(place)} for place in toolkits())):
        found = attempt(environment)
        which = f"{found.get('nvvm', 'libNVVM')} with PTX {found.get('ptx', '?')}"
        if "refused" in found:
            tried.append(f"{which} is refused by {found['refused']}")
            continue
        usable.append((which, environment, found))
        if not found["nvrtc"].startswith(NOT_FOUND):
            break
        tried.append(f"there is no NVRTC beside {which}")
    if not usable:
        cure = f"{INSTALL}, or set CUDA_HOME to a toolkit that is not newer than the driver"
        msg = f"{'; '.join(tried)}. No other libNVVM was found: {cure}"
        raise RuntimeError(msg)
    which, environment, found = next((one for one in usable if not one[2]["nvrtc"].startswith(NOT_FOUND)), usable[0])
    say(REMEDY, FACT, environment=environment)
    given = f"by {environment}" if environment else "as it is"
    others = [f"{name}: {found[name]}" for name in (*LIBRARIES[1:], "linker") if name in found]
    return "; ".join([*dict.fromkeys(tried), f"chosen: {which}, {given}", *others])


CHECKS = {
    "versions": versions,
    "GPU and driver": gpu,
    "libNVVM": remedy,
    "import nbdlpack": imports,
    "import numba-cuda": numba_cuda,
}

if __name__ == "__main__":
    if sys.argv[1:] == ["probe"]:
        try:
            answer = probe()
        except Exception as error:  # noqa: BLE001 - the one who asked decides
            answer = {"refused": in_words(error)}
        print(json.dumps(answer))
    else:
        main(CHECKS)
