"""Stage 5: kernels of every family under NVIDIA's compute-sanitizer, for bad accesses and for races.

Run by itself, ``python -m benchmarks.gpu.sanitizer kernels``, this is the program that it watches.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.gpu import Absent, main, quick

TOOL = "compute-sanitizer"
PATIENCE = 40


def tool() -> str:
    """Return the path of the tool."""
    found = shutil.which(TOOL) or next(
        (str(path) for path in sorted(Path("/usr/local").glob(f"cuda*/bin/{TOOL}"), reverse=True)), None
    )
    if found is None:
        msg = f"not installed: {TOOL}"
        raise Absent(msg)
    return found


def watched(name: str, *options: str) -> str:
    """Run the kernels under one of its tools; return what it sums up."""
    command = [
        tool(),
        "--tool",
        name,
        "--error-exitcode",
        "9",
        *options,
        sys.executable,
        "-m",
        "benchmarks.gpu.sanitizer",
        "kernels",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    print(done.stdout[-20000:], done.stderr[-20000:], sep="\n", flush=True)
    lines = [line.strip("= ") for line in done.stdout.splitlines() if line.startswith("=====")]
    summary = next((line for line in reversed(lines) if "SUMMARY" in line), "; ".join(lines[-3:]))
    if done.returncode:
        errors = [line for line in lines if line and "SUMMARY" not in line and "SANITIZER" not in line]
        msg = f"exit status {done.returncode}: {summary}; {' / '.join(errors[:4])}"
        raise AssertionError(msg)
    return summary


def memcheck() -> str:
    """Look for bad accesses."""
    return watched("memcheck", "--leak-check", "no")


def racecheck() -> str:
    """Look for races in shared memory."""
    return watched("racecheck")


def kernels() -> None:
    """Run a kernel of each family, on arrays whose sizes are no multiples of anything."""
    import nbdlpack as nd  # noqa: PLC0415 - not in the process that starts the tool

    n, m = (67, 45) if quick() else (1031, 517)
    a = np.linspace(-3, 3, n * m, dtype=np.float32).reshape(n, m)
    x = nd.asarray(a, device="cuda")
    results = {
        "add": (x + 1.5, a + np.float32(1.5)),
        "broadcast": (x * x[:1], a * a[:1]),
        "transpose": (nd.ascontiguousarray(x.T), np.ascontiguousarray(a.T)),
        "reversed": (x[::-2, 1::3] + 0, a[::-2, 1::3]),
        "cast": (x.astype(nd.float16), a.astype(np.float16)),
        "bytes": (x.astype(nd.int8)[:, 1:] + 0, a.astype(np.int8)[:, 1:]),
        "sum": (x.astype(nd.int32).sum(axis=0), a.astype(np.int32).sum(axis=0)),
        "max": (x.max(), a.max()),
        "argmin": (x.argmin(axis=1), a.argmin(axis=1)),
        "gather": (x[nd.asarray([5, 0, 5, -1], device="cuda")], a[[5, 0, 5, -1]]),
        "mask": (x[x > 0], a[a > 0]),
        "arange": (nd.arange(n, device="cuda"), np.arange(n)),
    }
    y = x.copy()
    y[3:, ::2] = 0
    b = a.copy()
    b[3:, ::2] = 0
    results["fill"] = y, b
    for name, (found, wanted) in results.items():
        np.testing.assert_array_equal(np.asarray(found.to_device("cpu")), wanted, err_msg=name)


if __name__ == "__main__":
    if sys.argv[1:] == ["kernels"]:
        kernels()
    else:
        main({"memcheck": memcheck, "racecheck": racecheck})
