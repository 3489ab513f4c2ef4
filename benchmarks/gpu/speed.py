"""Stage 4: how fast it is, beside the device's own copy, CuPy and torch.

What the GPU does is timed by events of the driver on the default stream, where all three libraries work; what the CPU
does by its clock.  The libraries take turns, and what is said is the median.
"""

from __future__ import annotations

import contextlib
import timeit
from functools import cache, partial
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import nbdlpack as nd
from benchmarks.gpu import FAILED, LIBRARIES, MEASURED, Absent, call, context, here, in_words, main, needed, quick, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Statement = Callable[[], object]

LARGE, SMALL = (1 << 17 if quick() else 1 << 28), 1 << 12
"""Sizes of arrays in bytes; the large ones do not fit into any cache."""
ROUNDS, LATENCY_ROUNDS = (3, 3) if quick() else (15, 15)
SECONDS = 0.0005 if quick() else 0.005
"""How long one timing of the latency should take."""
A = np.float32(1.5)

BYTES = {
    "copy": 2,
    "fill": 1,
    "transpose": 2,
    "a*x + y": 3,
    "a*x + y by a kernel of the user's": 3,
    "sum": 1,
    "cast to float16": 1.5,
}
"""The operations, and how many bytes each has to move for one byte of an array of float32."""


# -- what is timed.  Each library gives statements by operation, and what each leaves, for `wanted`.


@cache
def host(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two matrices that are worked on."""
    rows = 1 << (size.bit_length() - 1) // 2 - 1
    a = np.random.default_rng(1).random((2, rows, size // 4 // rows), dtype=np.float32)
    return a[0], a[1]


def wanted(operation: str, size: int, some: slice) -> np.ndarray:
    """Return some rows of what an operation is to leave."""
    x, y = host(size)
    if operation == "sum":
        return x.sum(dtype=np.float64)  # type: ignore[no-any-return]
    x, y = (x.T if operation == "transpose" else x)[some], y[some]
    if operation == "fill":
        return np.full_like(x, A)
    if operation.startswith("a*x"):
        return A * x + y
    return x.astype(np.float16) if operation.startswith("cast") else x


Case = dict[str, tuple["Statement", "Callable[[], np.ndarray]"]]


def of_nbdlpack(size: int) -> Case:
    """Return our statements."""
    x, y = [nd.asarray(a, device="cuda") for a in host(size)]
    out, half, turned = (
        nd.empty(x.shape, dtype=nd.float32, device="cuda"),
        nd.empty(x.shape, dtype=nd.float16, device="cuda"),
        nd.empty(x.shape[::-1], dtype=nd.float32, device="cuda"),
    )
    total = nd.empty((), dtype=nd.float32, device="cuda")

    def see(z: nd.ndarray) -> Callable[[], np.ndarray]:
        return lambda: np.asarray(z.to_device("cpu"))

    def axpy() -> None:
        nd.multiply(x, A, out=out)
        nd.add(out, y, out=out)

    case: Case = {
        "copy": (lambda: out.__setitem__(..., x), see(out)),
        "fill": (lambda: out.fill(A), see(out)),
        "transpose": (lambda: turned.__setitem__(..., x.T), see(turned)),
        "a*x + y": (axpy, see(out)),
        "sum": (lambda: nd.sum(x, out=total), see(total)),
        "cast to float16": (lambda: half.__setitem__(..., x), see(half)),
    }
    kernel, blocks = user_kernel(x.size)
    flat = x.reshape(-1), y.reshape(-1), out.reshape(-1)
    case["a*x + y by a kernel of the user's"] = lambda: kernel[blocks, 256](A, *flat), see(out)
    return case


def user_kernel(n: int) -> tuple[Any, int]:
    """Return ``a*x + y`` as one writes it with Numba, and for how many blocks."""
    needed("nbdlpack.kernels.numba_cuda", "numba-cuda")
    cuda = needed("numba.cuda", "numba-cuda")

    @cuda.jit
    def axpy(a, x, y, out):  # noqa: ANN001, ANN202 - Numba's
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            out[i] = a * x[i] + y[i]

    return axpy, min((n + 255) // 256, 8192)


def of_cupy(size: int) -> Case:
    """Return CuPy's statements."""
    cp = here("cupy", "is_available")
    x, y = [cp.asarray(a) for a in host(size)]
    out, half, turned, total = (
        cp.empty_like(x),
        cp.empty(x.shape, cp.float16),
        cp.empty(x.shape[::-1], x.dtype),
        cp.empty((), x.dtype),
    )
    fused = cp.ElementwiseKernel("float32 a, float32 x, float32 y", "float32 z", "z = a * x + y", "axpy")

    def see(z: Any) -> Callable[[], np.ndarray]:
        return lambda: cp.asnumpy(z)

    def axpy() -> None:
        cp.multiply(x, A, out=out)
        cp.add(out, y, out=out)

    return {
        "copy": (lambda: cp.copyto(out, x), see(out)),
        "fill": (lambda: out.fill(A), see(out)),
        "transpose": (lambda: cp.copyto(turned, x.T), see(turned)),
        "a*x + y": (axpy, see(out)),
        "a*x + y by a kernel of the user's": (lambda: fused(A, x, y, out), see(out)),
        "sum": (lambda: cp.sum(x, out=total), see(total)),
        "cast to float16": (lambda: cp.copyto(half, x, casting="unsafe"), see(half)),
    }


def of_torch(size: int) -> Case:
    """Return torch's statements."""
    torch = here("torch", "cuda.is_available")
    x, y = [torch.as_tensor(a, device="cuda") for a in host(size)]
    out, half, turned = (
        torch.empty_like(x),
        torch.empty_like(x, dtype=torch.float16),
        torch.empty_like(x.T.contiguous()),
    )
    total = torch.empty((), device="cuda")
    a = float(A)

    def see(z: Any) -> Callable[[], np.ndarray]:
        return lambda: z.cpu().numpy()

    def axpy() -> None:
        torch.mul(x, a, out=out)
        torch.add(out, y, out=out)

    return {
        "copy": (lambda: out.copy_(x), see(out)),
        "fill": (lambda: out.fill_(a), see(out)),
        "transpose": (lambda: turned.copy_(x.T), see(turned)),
        "a*x + y": (axpy, see(out)),
        "a*x + y by a kernel of the user's": (lambda: torch.add(y, x, alpha=a, out=out), see(out)),
        "sum": (lambda: torch.sum(x, (0, 1), out=total), see(total)),
        "cast to float16": (lambda: half.copy_(x), see(half)),
    }


CASES = dict(zip(LIBRARIES, (of_nbdlpack, of_cupy, of_torch), strict=True))


def found(make: Mapping[str, Callable[..., Any]], *args: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what each library gives, and why others do not."""
    given, missing = {}, {}
    for name, function in make.items():
        try:
            given[name] = function(*args)
        except Absent as absent:
            missing[name] = "not installed" if str(absent).startswith("not installed") else str(absent)
        except Exception as error:  # noqa: BLE001 - the other libraries are of interest all the same
            missing[name] = f"{FAILED}: {in_words(error)}"
            if name == LIBRARIES[0]:
                say(f"statements of {name}", FAILED, in_words(error))
    return given, missing


# -- by the GPU's clock


class Clock:
    """Times work of the default stream by two events."""

    def __init__(self) -> None:
        self.driver = context()
        self.events = [call(self.driver.cuEventCreate, 0) for _ in range(2)]

    def time(self, statement: Statement, calls: int) -> float:
        """Return the seconds that a call takes, of so many in a row."""
        context()  # whatever the statement before has made current
        start, end = self.events
        call(self.driver.cuEventRecord, start, 0)
        for _ in range(calls):
            statement()
        context()
        call(self.driver.cuEventRecord, end, 0)
        call(self.driver.cuEventSynchronize, end)
        return float(call(self.driver.cuEventElapsedTime, start, end)) / 1000 / calls


def own_copy(size: int) -> tuple[Statement, Callable[[], None]]:
    """Return the driver's copy of so many bytes, and what frees its memory."""
    driver = context()
    source, target = call(driver.cuMemAlloc, size), call(driver.cuMemAlloc, size)
    call(driver.cuMemsetD32, source, 0x3F9D70A4, size // 4)

    def free() -> None:
        call(driver.cuMemFree, source)
        call(driver.cuMemFree, target)

    return lambda: call(driver.cuMemcpyDtoDAsync, target, source, size, 0), free


def right(operation: str, size: int, value: np.ndarray) -> None:
    """Raise AssertionError unless an operation has left what it is to leave; of many rows, some are looked at."""
    some = slice(None, None, max(1, size >> 22))
    # A GPU rounds a*x + y once, where NumPy rounds twice.
    close = 1e-4 if operation == "sum" else 1e-6 if operation.startswith("a*x") else 0
    value = value[some] if value.ndim else value
    np.testing.assert_allclose(value, wanted(operation, size, some), rtol=close, atol=close and 1e-6)


def bandwidth(size: int, calls: int, title: str) -> str:
    """Time the operations on arrays of a size."""
    clock = Clock()
    copy, free = own_copy(size)
    clock.time(copy, 1 if quick() else 1000)  # by then the GPU's own clocks are up
    rate = 2 * size / median([clock.time(copy, calls) for _ in range(ROUNDS)])
    large = size == LARGE
    cases, missing = found(CASES, size)
    for operation, factor in BYTES.items():
        times: dict[str, list[float]] = {}
        said: dict[str, Any] = dict(missing)
        for name, case in cases.items():
            try:
                statement, see = case[operation]
                statement()
                right(operation, size, see())
                times[name] = []
            except Exception as error:  # noqa: BLE001
                said[name] = f"{FAILED}: {in_words(error)}"
                if name == LIBRARIES[0]:
                    say(f"{operation}, {title}", FAILED, in_words(error))
        for _ in range(ROUNDS):
            for name, several in times.items():
                several.append(clock.time(cases[name][operation][0], calls))
        said |= {name: median(several) for name, several in times.items()}
        moved = {"bytes": factor * size, "rate": rate} if large else {}
        say(operation, MEASURED, table=title, times=said, **moved)
    own = 2 * size / rate
    free()
    return f"cuMemcpyDtoDAsync takes {own * 1e6:.1f} µs: {rate / 1e9:.3g} GB/s, read and written"


# -- by the CPU's clock


class Library(NamedTuple):
    """What costs the CPU time."""

    zeros: Statement
    empty: Statement
    take: Callable[[Any], Any]
    """Its `from_dlpack`."""


def library(name: str) -> Library:
    """Return a library's functions; raise Absent if it is not here."""
    if name == "CuPy":
        cp = here("cupy", "is_available")
        return Library(lambda: cp.zeros(1000, cp.float32), lambda: cp.empty(1000, cp.float32), cp.from_dlpack)
    if name == "torch":
        torch = here("torch", "cuda.is_available")
        zeros, empty = (lambda: torch.zeros(1000, device="cuda")), (lambda: torch.empty(1000, device="cuda"))
        return Library(zeros, empty, torch.from_dlpack)
    return Library(
        lambda: nd.zeros(1000, dtype=nd.float32, device="cuda"),
        lambda: nd.empty(1000, dtype=nd.float32, device="cuda"),
        nd.from_dlpack,
    )


def calls(name: str) -> dict[str, Statement]:
    """Return what is timed of a library."""
    own = library(name)
    x = own.zeros()
    statements: dict[str, Statement] = {
        "empty(1000)": own.empty,
        "x.__dlpack__(stream=1)": lambda: x.__dlpack__(stream=1),
        "x + x": lambda: x + x,
    }
    for other in LIBRARIES:
        with contextlib.suppress(Absent):
            statements[f"from_dlpack(array of {other})"] = partial(own.take, library(other).zeros())
    return statements


def latency() -> str:
    """Time calls, whose price is that of the CPU."""
    given, missing = found({name: partial(calls, name) for name in LIBRARIES})
    timers: dict[str, dict[str, tuple[timeit.Timer, int]]] = {}
    said: dict[str, dict[str, Any]] = {}
    for name, statements in given.items():
        for what, statement in statements.items():
            said.setdefault(what, dict(missing))
            timer = timeit.Timer(statement)
            try:
                timer.timeit(3)
                once = timer.timeit(10) / 10
            except Exception as error:  # noqa: BLE001
                said[what][name] = f"{FAILED}: {in_words(error)}"
                if name == LIBRARIES[0]:
                    say(f"{what}, of one call", FAILED, in_words(error))
            else:
                timers.setdefault(what, {})[name] = timer, max(1, int(SECONDS / max(once, 1e-8)))
    for what, row in said.items():
        times: dict[str, list[float]] = {name: [] for name in timers.get(what, {})}
        for _ in range(LATENCY_ROUNDS):
            for name, (timer, number) in timers.get(what, {}).items():
                times[name].append(timer.timeit(number) / number)
            nd.synchronize("cuda")
        say(what, MEASURED, table="One call, by the CPU's clock", times=row | {n: median(t) for n, t in times.items()})
    return f"medians of {LATENCY_ROUNDS} timings"


def in_words_of(size: int) -> str:
    """Return a size."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


CHECKS = {
    "latency": latency,
    f"arrays of {in_words_of(LARGE)}": lambda: bandwidth(
        LARGE, 1 if quick() else 3, f"Arrays of {in_words_of(LARGE)}, of the rate of cuMemcpyDtoDAsync"
    ),
    f"arrays of {in_words_of(SMALL)}": lambda: bandwidth(
        SMALL, 2 if quick() else 200, f"Arrays of {in_words_of(SMALL)}, one call of many in a row"
    ),
}

if __name__ == "__main__":
    main(CHECKS)
