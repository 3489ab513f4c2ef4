"""What stands for others in the tests of streams: memory and work of the driver's own calls, ordered by nobody.

Pinned memory is what makes a copy wait its turn: one from or to pageable memory is done when the call returns.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import Any

import numpy as np


def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def check(result: Any) -> Any:
    assert not result[0], result[0]
    return result[1] if len(result) > 1 else None


@contextmanager
def on_device(index: int = 0):
    """Make a GPU current, and then what was so before."""
    cu = _driver()
    check(cu.cuCtxPushCurrent(check(cu.cuDevicePrimaryCtxRetain(index))))
    try:
        yield cu
    finally:
        check(cu.cuCtxPopCurrent())
        check(cu.cuDevicePrimaryCtxRelease(index))


class device_memory:
    """Memory that somebody else has allocated."""

    def __init__(self, nbytes: int, index: int = 0) -> None:
        self.index, self.nbytes = index, nbytes
        self.pinned: list[int] = []
        with on_device(index) as cu:
            self.address = int(check(cu.cuMemAlloc(nbytes)))

    def write_later(self, a: np.ndarray[Any, Any], handle: int) -> None:
        """Put a write of the elements of a NumPy array into a stream."""
        a = np.ascontiguousarray(a)
        with on_device(self.index) as cu:
            self.pinned.append(check(cu.cuMemHostAlloc(a.nbytes, 0)))
            ctypes.memmove(int(self.pinned[-1]), a.ctypes.data, a.nbytes)
            check(cu.cuMemcpyHtoDAsync(self.address, int(self.pinned[-1]), a.nbytes, handle))

    def write_now(self, a: np.ndarray[Any, Any]) -> None:
        """Write at once, by a stream that waits for no other."""
        with on_device(self.index) as cu:
            stream = check(cu.cuStreamCreate(1))
            check(cu.cuMemcpyHtoDAsync(self.address, a.ctypes.data, a.nbytes, stream))
            check(cu.cuStreamSynchronize(stream))
            check(cu.cuStreamDestroy(stream))

    def copy_later(self, address: int, nbytes: int, handle: int) -> None:
        """Put a copy from other memory into a stream."""
        with on_device(self.index) as cu:
            check(cu.cuMemcpyDtoDAsync(self.address, address, nbytes, handle))

    def let_wait(self, handle: int, behind: int) -> None:
        """Make a stream wait for what is in another."""
        with on_device(self.index) as cu:
            event = check(cu.cuEventCreate(2))
            check(cu.cuEventRecord(event, behind))
            check(cu.cuStreamWaitEvent(handle, event, 0))
            check(cu.cuEventDestroy(event))

    def read(self, handle: int) -> np.ndarray[Any, Any]:
        return copy_to_host(self.address, self.nbytes, handle, self.index)

    def __del__(self) -> None:
        with on_device(self.index) as cu:
            check(cu.cuCtxSynchronize())
            check(cu.cuMemFree(self.address))
            for pinned in self.pinned:
                check(cu.cuMemFreeHost(int(pinned)))


def copy_to_host(address: int, nbytes: int, handle: int, index: int = 0) -> np.ndarray[Any, Any]:
    """Return bytes of device memory, as they are when a stream has come to here."""
    out = np.empty(nbytes, np.uint8)
    with on_device(index) as cu:
        check(cu.cuMemcpyDtoHAsync(out.ctypes.data, address, nbytes, handle))
        check(cu.cuStreamSynchronize(handle))
    return out


def busy(x: Any) -> None:
    """Put some more work into the current stream that reads and writes an array, and leaves it as it is."""
    x += 1
    x -= 1


@contextmanager
def waits():
    """Return the waits for events that are put into streams inside the block, one entry each."""
    from tests import hostcuda

    found: list[str] = []
    before = hostcuda.stats(names=True)["calls"].get("cuStreamWaitEvent", 0)
    yield found
    after = hostcuda.stats(names=True)["calls"].get("cuStreamWaitEvent", 0)
    found.extend(["cuStreamWaitEvent"] * (after - before))
