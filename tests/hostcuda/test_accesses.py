"""hostcuda sees what kernels and host code may not touch."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tests.hostcuda as host
from tests.hostcuda.tools import call, contents, fault, refused, touch, touch_now, view

pytestmark = [pytest.mark.hostcuda_nocheck("faults", "overruns"), pytest.mark.filterwarnings("ignore:Grid size")]


@pytest.fixture(autouse=True)
def needed(cuda):
    """The kernels are compiled by Numba."""


# ------------------------------------------------------------------------------------------------------------- kernels
@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_misaligned_accesses_are_errors(memory, hostcuda, size):
    p = memory(256)
    for offset in range(32):
        if offset % size == 0:
            touch_now(size, p + offset)
        else:
            with fault("MISALIGNED_ADDRESS", "kernel tests.hostcuda.tools", f"{size} bytes", f"{offset} bytes past"):
                touch_now(size, p + offset)
    with hostcuda.option(check_align=0):
        touch_now(size, p + 1)


def test_accesses_to_what_is_not_there_are_errors(memory):
    p = memory(200)
    touch_now(4, p + 196)
    with fault("ILLEGAL_ADDRESS", "256 bytes past the start of allocation", "of 200 bytes"):
        touch_now(4, p + 256)
    q = int(call("cuMemAlloc", 64))
    call("cuMemFree", q)
    with fault("ILLEGAL_ADDRESS", "already freed"):
        touch_now(4, q)
    with fault("ILLEGAL_ADDRESS", "never allocated"):
        touch_now(4, q + (1 << 30))
    with fault("ILLEGAL_ADDRESS", "not device memory"):
        touch_now(4, 0)


def test_accesses_to_host_memory_are_errors_unless_cuda_knows_it(cuda, hostcuda):
    x = np.zeros(4)
    with fault("ILLEGAL_ADDRESS", "not device memory"):
        touch_now(4, x.ctypes.data)
    with hostcuda.option(check_args=0):
        touch_now(4, x.ctypes.data)
    call("cuMemHostRegister", x.ctypes.data, x.nbytes, 0)
    touch_now(8, x.ctypes.data)
    call("cuMemHostUnregister", x.ctypes.data)


@pytest.mark.parametrize("past", [0, 10, 199])
def test_writing_past_the_end_is_seen_when_the_memory_is_freed(cuda, hostcuda, past):
    @cuda.jit
    def fill(a, v):
        a[cuda.grid(1)] = v

    before = hostcuda.stats()["overruns"]
    p = int(call("cuMemAlloc", 56))  # rounded up to 256
    fill[1, 56 + past](view(p, 256, "u1"), 1)
    call("cuCtxSynchronize")
    call("cuMemFree", p)
    assert hostcuda.stats()["overruns"] == before + (past > 0)
    assert not past or "the byte 56 bytes from its start was overwritten" in hostcuda.last_error()


def test_memory_of_the_other_device_needs_peer_access(drv):
    if call("cuDeviceGetCount") < 2:
        pytest.skip("HOSTCUDA_DEVICES is less than 2")
    first, second = call("cuCtxGetCurrent"), call("cuDevicePrimaryCtxRetain", 1)
    call("cuCtxSetCurrent", second)
    p, pool = int(call("cuMemAlloc", 64)), call("cuDeviceGetDefaultMemPool", 1)
    q = int(call("cuMemAllocFromPoolAsync", 64, pool, 0))
    call("cuCtxSynchronize")
    call("cuCtxSetCurrent", first)
    assert call("cuDeviceCanAccessPeer", 0, 1) == 1
    assert call("cuDeviceGetP2PAttribute", drv.CUdevice_P2PAttribute(2), 0, 1) == 1  # access
    with fault("ILLEGAL_ADDRESS", "of device 1, from device 0"):
        touch_now(4, p)
    call("cuCtxEnablePeerAccess", second, 0)
    refused("PEER_ACCESS_ALREADY_ENABLED", "cuCtxEnablePeerAccess", second, 0)
    touch_now(4, p)
    with fault("ILLEGAL_ADDRESS", "of device 1, from device 0"):  # that is not for memory of pools
        touch_now(4, q)
    access = drv.CUmemAccessDesc()
    access.location.type, access.location.id = drv.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    access.flags = drv.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    call("cuMemPoolSetAccess", pool, [access], 1)
    touch_now(4, q)
    access.flags = drv.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_NONE
    call("cuMemPoolSetAccess", pool, [access], 1)
    call("cuCtxDisablePeerAccess", second)
    refused("PEER_ACCESS_NOT_ENABLED", "cuCtxDisablePeerAccess", second)
    with fault("ILLEGAL_ADDRESS", "of device 1, from device 0"):
        touch_now(4, p)
    for address in (p, q):
        call("cuMemFree", address)


def test_copies_between_devices_need_no_peer_access(memory):
    if call("cuDeviceGetCount") < 2:
        pytest.skip("HOSTCUDA_DEVICES is less than 2")
    first, second = call("cuCtxGetCurrent"), call("cuDevicePrimaryCtxRetain", 1)
    mine, data = memory(64), np.arange(16, dtype="f4")
    call("cuCtxSetCurrent", second)
    other = int(call("cuMemAlloc", 64))
    call("cuCtxSetCurrent", first)
    call("cuMemcpyHtoD", mine, data.ctypes.data, 64)
    refused("INVALID_VALUE", "cuMemcpyPeerAsync", other, first, mine, second, 64, 0)  # the other way round
    before = host.stats()["p2p"]
    call("cuMemcpyPeerAsync", other, second, mine, first, 64, 0)
    assert (contents(other, 16) == data).all()
    assert host.stats()["p2p"] == before + 1
    call("cuMemFree", other)


# ----------------------------------------------------------------------------------------------------------- host code
TOUCHING = """
import ctypes, os
import tests.hostcuda as hostcuda
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
p = int(driver.cuMemAlloc(64)[1])
driver.cuMemsetD8(p, 1, 64)
look = lambda: print(ctypes.c_ubyte.from_address(p).value, flush=True)
with hostcuda.option(protect=0):
    look()
if os.fork():
    print(os.waitstatus_to_exitcode(os.wait()[1]))
else:
    print(driver.cuCtxSynchronize()[0].name, flush=True)
    look()
"""


def test_host_code_cannot_touch_device_memory_nor_call_the_driver_after_a_fork(cuda):
    assert host.python("-c", TOUCHING) == "1\nCUDA_ERROR_NOT_INITIALIZED\n-11\n"


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_host_memory_cannot_be_touched_while_queued_work_uses_it(hostcuda, stream, memory, kind):
    s, d = stream(), memory(64)
    address = int(call("cuMemAllocManaged", 64, 1) if kind == "managed" else call("cuMemHostAlloc", 64, 0))
    x = np.frombuffer((ctypes.c_char * 64).from_address(address), "f4")
    faults = lambda: hostcuda.stats()["faults"] - before
    x[:] = 1
    with hostcuda.option(**{"async": "lazy"}):
        before = hostcuda.stats()["faults"]
        call("cuMemcpyAsync", d, address, 64, s)  # reads it
        assert x[0] == 1
        assert faults() == 0
        x[0] = 2
        assert faults() == 1
        assert "while work in a stream that reads it is pending" in hostcuda.last_error()
        call("cuStreamSynchronize", s)
        x[:] = 3
        assert contents(d, 1) == 2  # what was written too early
        call("cuMemcpyAsync", address, d, 64, s)  # writes it
        assert x[1] == 3
        assert faults() == 2
        assert "may write" in hostcuda.last_error()
        call("cuStreamSynchronize", s)
        assert x[1] == 1
        assert faults() == 2
    call("cuMemFree" if kind == "managed" else "cuMemFreeHost", address)


def test_host_memory_that_a_kernel_was_given_counts_as_used(hostcuda, pinned):
    x = pinned(4)
    x[:] = 0
    touch_now(4, x.ctypes.data)
    with hostcuda.option(**{"async": "lazy"}):
        before = hostcuda.stats()["faults"]
        touch(4, x.ctypes.data)
        assert x[0] == 0
        assert hostcuda.stats()["faults"] == before + 1
        call("cuCtxSynchronize")
