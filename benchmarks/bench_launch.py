"""What the CPU has to do for a launch, and what the first ones of a process cost.

Without a GPU, the driver of the tests stands for one.  It puts work aside, so that no kernel runs while it is timed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from typing import Any

import numpy as np

import nbdlpack as nd
from benchmarks.harness import Row
from nbdlpack.devices.cuda import driver

TITLE = "Launches on a GPU: what they cost the CPU, beside Numba's device arrays, and the first ones of a process"

WORDS = {
    "cuda": "start()",
    # arrays of ours, and Numba's
    "x": "array(cuda)",
    "y": "array(cuda)",
    "z": "array(cuda)",
    "w": "array(cuda)",
    "r": "nd.readonly(x)",
    "a": "cuda.to_device(np.zeros(100))",
    "b": "cuda.to_device(np.zeros(100))",
    "c": "cuda.to_device(np.zeros(100))",
    "d": "cuda.to_device(np.zeros(100))",
    # a kernel that does nothing with them
    "kernel": "four(cuda)",
    "gpu": "x.device",
    "wait": "settle",
}

NUMBAS = "kernel[1, 1](a, b, c, d)"


def _row(name: str, ours: str, target: float | None, peer: str = NUMBAS) -> Row:
    # The time of this thread, for all that is done here is to put work into a queue.
    return Row(name, ours, peer, target, "wait()", clock=time.thread_time)


LAUNCHES = [
    _row("kernel[1, 1](x, y, z, w)", "kernel[1, 1](x, y, z, w)", 0.6),
    _row("kernel[1, 1](r, r, r, x), read-only but for one", "kernel[1, 1](r, r, r, x)", None),
    _row("x + y into z, from the engine on", "gpu.elementwise(np.add, (x, y), (z,), {})", 0.35),
    _row("np.add(x, y, out=z)", "np.add(x, y, out=z)", None),
    _row("x + y", "x + y", None),
    _row("nd.empty(100)", "nd.empty(100, device='cuda')", 0.2, "cuda.device_array(100)"),
]

FIRST = """
import json, time
import nbdlpack as nd
x = nd.empty(1000, dtype="float32", device="cuda")
times = {}
for name, statement in {
    "first": "x.fill(1)", "second": "x + x", "warm": "x + x",
}.items():
    began = time.perf_counter()
    exec(statement)
    x.device.synchronize()
    times[name] = time.perf_counter() - began
print(json.dumps(times))
"""


def rows(largest: int) -> list[Row]:
    """Return the rows, the slow ones if much is asked for; none where there is no GPU, nor what stands for one."""
    if importlib.util.find_spec("numba_cuda") is None or not (_is_real() or shutil.which("gcc")):
        return []
    calls = [
        Row(f"{words}, {state}", f"first({state!r}, {name!r})", clock=spent, number=1)
        for name, words in {"first": "the first kernel of a process", "second": "another one"}.items()
        for state in ("compiled", "from the cache")
    ]
    again = Row("a kernel that was launched before", "first('from the cache', 'warm')", clock=spent, number=1)
    return [*LAUNCHES, *calls, again] if largest > 1 << 20 else LAUNCHES


@cache
def _is_real() -> bool:
    """Return whether there is a GPU."""
    return driver.missing() is None


@cache
def start() -> Any:
    """Return Numba's module, on a GPU or on what stands for one."""
    warnings.filterwarnings("ignore", "Grid size")
    if not _is_real():
        from tests import hostcuda  # noqa: PLC0415 - it is for machines without a GPU

        hostcuda.install()
        hostcuda.set("async", "lazy")
        hostcuda.set("poison", 0)
    from numba import cuda  # noqa: PLC0415 - not before it has a driver

    return cuda


def settle() -> None:
    """Do what was put aside."""
    nd.synchronize("cuda")


def array(_: Any) -> nd.ndarray:
    """Return a small array on the GPU."""
    return nd.asarray(np.zeros(100), device="cuda")


@cache
def four(cuda: Any) -> Any:
    """Return a kernel of four arguments that does nothing."""
    return cuda.jit(lambda a, b, c, d: None)  # noqa: ARG005


# -- what is measured in processes of their own, and told here

_spent: list[float] = []


def spent() -> float:
    """Return how many seconds `first` has told of."""
    return sum(_spent)


def first(state: str, name: str) -> None:
    """Spend the seconds that a launch took in a fresh process."""
    _spent.append(_processes()[state][name])


@cache
def _processes() -> dict[str, dict[str, float]]:
    """Return the times of two processes, of which the second finds what the first has compiled."""
    environment = dict(os.environ)
    if not _is_real():
        from tests import hostcuda  # noqa: PLC0415

        environment = hostcuda.environment()
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        environment["NBDLPACK_CACHE_DIR"] = directory
        for state in ("compiled", "from the cache"):
            command = [sys.executable, "-c", FIRST]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found[state] = json.loads(done.stdout)
    return found
