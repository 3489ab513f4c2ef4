"""Memory, seen from outside: what is at an address, how much there is, and who frees it on which thread."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import resource
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack.conformance.header import CPU
from nbdlpack.conformance.registry import NotApplicable, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import SimpleNamespace

    import numpy.typing as npt

    from nbdlpack.conformance.producers import Producer
    from nbdlpack.conformance.subject import Subject

__all__ = [
    "aligned",
    "at",
    "churn",
    "growth",
    "guarded_page",
    "imported",
    "in_threads",
    "on_native_threads",
    "overwrite",
    "some",
]

ALIGNMENT: Final = 256
"""What every library takes without a copy, in bytes."""
ROUNDS: Final = 3
FAR: Final = 1 << 30
"""More bytes than any array of the checks has."""


def aligned(a: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return a copy of an array in memory that no library finds badly aligned."""
    a = np.asarray(a)
    room = np.empty(a.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    own = room[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    own[...] = a
    return own


def guarded_page() -> npt.NDArray[Any]:
    """Return a page of memory between two that must not be touched; NotApplicable if there is no such thing."""
    protect = getattr(ctypes.CDLL(None), "mprotect", None)
    size = mmap.PAGESIZE
    pages = np.frombuffer(mmap.mmap(-1, 3 * size), np.uint8)
    for page in (pages[:size], pages[2 * size :]):
        if protect is None or protect(ctypes.c_void_p(page.ctypes.data), ctypes.c_size_t(size), 0):
            msg = "memory cannot be protected here"
            raise NotApplicable(msg)
    return pages[size : 2 * size]


def some(lib: Subject, n: int = 16) -> tuple[Any, npt.NDArray[Any]]:
    """Return an array of the library 0, 1, 2 ..., of a dtype that it has, and its values."""
    for dtype in (np.float64, np.int8):
        a = np.arange(n).astype(dtype)
        with contextlib.suppress(NotApplicable):
            return lib.array(a), a
    msg = f"{lib.name} makes no arrays of one dimension"
    raise NotApplicable(msg)


def imported(lib: Subject, **fields: Any) -> tuple[Producer, Any]:
    """Return a test producer of 0, 1 ... 15 and the library's array on its memory; NotApplicable if that is a copy."""
    p = lib.producer(aligned(np.arange(16.0)), **fields)
    x = lib.take_or_refuse(p)
    lib.adapter.settle()
    if p.deleted:
        msg = f"{lib.name} copies what it imports"
        raise NotApplicable(msg)
    return p, x


def at(fields: SimpleNamespace, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """Return the array that an exported tensor describes, on that very memory.

    Fails if its strides lead so far that nothing of it can be looked at.
    """
    if fields.device != CPU:
        msg = f"memory of the device {fields.device} cannot be looked at from here"
        raise NotApplicable(msg)
    dtype, shape = np.dtype(dtype), fields.shape or ()
    if 0 in shape:
        return np.empty(shape, dtype)
    compact = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    strides = [n * dtype.itemsize for n in fields.strides or compact]
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    before, after = -sum(n for n in reach if n < 0), sum(n for n in reach if n > 0)
    expect(fields.address, f"data is NULL, but there are {math.prod(shape)} elements")
    expect(before + after < FAR, f"the strides {fields.strides} of shape {shape} lead outside of the array's memory")
    memory = (ctypes.c_uint8 * (before + after + dtype.itemsize)).from_address(fields.address - before)
    return np.ndarray(shape, dtype, memory, before, strides)


def overwrite(fields: SimpleNamespace, value: float, dtype: npt.DTypeLike = np.float64) -> None:
    """Write to every element of an exported tensor, as its consumer may."""
    at(fields, dtype)[...] = value


def churn(lib: Subject, like: npt.NDArray[Any], times: int = 8) -> None:
    """Make and drop arrays of the library, so that memory that is free is used for something else."""
    for _ in range(3):
        made = [lib.array(np.full_like(like, -1)) for _ in range(times)]
        made.clear()
        lib.adapter.settle()


def resident() -> int:
    """Return how many bytes of memory the process has, or the most that it had where that is all that is known."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def growth(lib: Subject, cycle: Callable[[], object], times: int) -> float:
    """Return by how many bytes the process grows each time that something is done, at the least of some rounds.

    What is leaked is leaked in every round; what is only kept for later is not.
    """

    def measure(n: int) -> int:
        before = resident()
        for _ in range(n):
            cycle()
        lib.adapter.settle()
        return resident() - before

    measure(times)
    return min(measure(times) for _ in range(ROUNDS)) / times


def on_native_threads(calls: Sequence[tuple[int, int]]) -> None:
    """Call C functions, of one argument each, on threads that Python has never seen, and wait without the GIL."""
    libc = ctypes.CDLL(None)
    libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
    libc.pthread_join.argtypes = [ctypes.c_void_p] * 2
    threads = (ctypes.c_void_p * len(calls))()
    for i, (function, argument) in enumerate(calls):
        failed = libc.pthread_create(
            ctypes.byref(threads, i * ctypes.sizeof(ctypes.c_void_p)), None, function, argument
        )
        if failed:
            msg = f"no thread could be started: {os.strerror(failed)}"
            raise RuntimeError(msg)
    for thread in threads:
        libc.pthread_join(thread, None)


def in_threads(work: Callable[[int], object], n: int = 4) -> None:
    """Call a function with 0, 1, 2 ... on threads that run at once and switch often; raise the first error of any."""
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001 (it is raised where the threads were started)
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]
