"""Stage 1: one kernel, one copy, one export."""

from __future__ import annotations

import time

import numpy as np

import nbdlpack as nd
from benchmarks.gpu import main, needed

N = 1000


def expect(x: nd.ndarray, wanted: np.ndarray) -> None:
    """Raise AssertionError unless an array has these elements."""
    np.testing.assert_array_equal(np.asarray(x.to_device("cpu")), wanted)


def memory() -> str:
    """Move memory there and back."""
    a = np.arange(N, dtype=np.float32)
    x = nd.asarray(a, device="cuda")
    expect(x, a)
    expect(nd.zeros(N, dtype=nd.float32, device="cuda"), np.zeros(N, np.float32))
    return f"{x.device}, {nd.memory_info()}"


def kernel() -> str:
    """Run one kernel, and see what the first call of a process costs."""
    x = nd.arange(N, dtype=nd.float32, device="cuda")
    times = []
    for _ in range(3):
        began = time.perf_counter()
        y = x + 1
        nd.synchronize("cuda")
        times.append(time.perf_counter() - began)
    expect(y, np.arange(N, dtype=np.float32) + 1)
    return f"x + 1 takes {times[0] * 1e3:.1f} ms the first time in a process, {times[-1] * 1e6:.0f} µs then"


def copy() -> str:
    """Copy lazily, and write."""
    x = nd.arange(N, dtype=nd.float32, device="cuda")
    y = x.copy()
    shared = nd.is_shared(x)
    y[0] = 7
    expect(x, np.arange(N, dtype=np.float32))
    expect(y[:2], np.array([7, 1], np.float32))
    if not shared or nd.is_shared(x):
        msg = f"shared before the write: {shared}, after it: {nd.is_shared(x)}"
        raise AssertionError(msg)
    return ""


def export() -> str:
    """Export an array, and import it again."""
    x = nd.arange(N, dtype=nd.float32, device="cuda")
    y = nd.from_dlpack(x.__dlpack__(stream=1, max_version=(1, 3)))
    y += 1
    expect(x, np.arange(N, dtype=np.float32) + 1)
    return f"{x.__dlpack_device__()}, shared with the original: {nd.shares_memory(x, y)}"


def user_kernel() -> str:
    """Run a kernel as users write it."""
    needed("nbdlpack.kernels.numba_cuda", "numba-cuda")
    cuda = needed("numba.cuda", "numba-cuda")

    @cuda.jit
    def twice(x, y):  # noqa: ANN001, ANN202 - Numba's
        i = cuda.grid(1)
        if i < x.size:
            y[i] = 2 * x[i]

    x, y = nd.arange(N, dtype=nd.float32, device="cuda"), nd.empty(N, dtype=nd.float32, device="cuda")
    began = time.perf_counter()
    twice[(N + 127) // 128, 128](x, y)
    nd.synchronize("cuda")
    expect(y, 2 * np.arange(N, dtype=np.float32))
    return f"compiled and run in {time.perf_counter() - began:.2f} s"


CHECKS = {
    "memory": memory,
    "one kernel": kernel,
    "one copy": copy,
    "one export": export,
    "one kernel of a user's": user_kernel,
}

if __name__ == "__main__":
    main(CHECKS)
