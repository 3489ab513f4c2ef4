"""hostcuda allocates as CUDA does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hostcuda.tools import call, refused


def test_failing_allocations(drv, hostcuda, stream):
    s, pool = stream(), call("cuDeviceGetDefaultMemPool", 0)
    allocating = {
        "cuMemAlloc": (64,),
        "cuMemAllocAsync": (64, s),
        "cuMemAllocFromPoolAsync": (64, pool, s),
        "cuMemHostAlloc": (64, 0),
        "cuMemAllocManaged": (64, 1),
    }
    for name, args in allocating.items():
        free = "cuMemFreeHost" if "Host" in name else "cuMemFree"
        hostcuda.fail_alloc(2, 2)
        kept = [call(name, *args)]
        refused("OUT_OF_MEMORY", name, *args)
        refused("OUT_OF_MEMORY", name, *args)
        kept.append(call(name, *args))
        hostcuda.fail_alloc(1, count=0)
        for _ in range(5):
            refused("OUT_OF_MEMORY", name, *args)
        hostcuda.clear_fail_alloc()
        kept.append(call(name, *args))
        for p in kept:
            call(free, p)
    with pytest.raises(ValueError, match="counts from 1"):
        hostcuda.fail_alloc(0)


@pytest.fixture
def pool(drv):
    """A pool of the first device that keeps what it has."""
    properties = drv.CUmemPoolProps()
    properties.allocType = drv.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type, properties.location.id = drv.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    pool = call("cuMemPoolCreate", properties)
    yield pool
    drv.cuMemPoolDestroy(pool)


@pytest.mark.hostcuda_modes("sync", "lazy")
def test_pools_keep_memory(hostcuda_modes, drv, hostcuda, pool, stream):
    names, s, mib, every = drv.CUmemPool_attribute, stream(), 1 << 20, call("cuMemGetInfo")[0]
    taken = lambda: (every - call("cuMemGetInfo")[0]) // mib
    get = lambda name: int(call("cuMemPoolGetAttribute", pool, getattr(names, f"CU_MEMPOOL_ATTR_{name}")))
    set = lambda name, n: ("cuMemPoolSetAttribute", pool, getattr(names, f"CU_MEMPOOL_ATTR_{name}"), drv.cuuint64_t(n))
    allocate = lambda n: call("cuMemAllocFromPoolAsync", n, pool, s)
    assert (get("RELEASE_THRESHOLD"), get("REUSE_FOLLOW_EVENT_DEPENDENCIES")) == (0, 1)
    call(*set("RELEASE_THRESHOLD", 1 << 63))
    with hostcuda.option(poison=0):
        p, q = allocate(100 * mib), allocate(1)
        assert taken() == 102
        assert (get("RESERVED_MEM_CURRENT"), get("USED_MEM_CURRENT")) == (102 * mib, 100 * mib + 1)
        call("cuMemFreeAsync", p, s)
        call("cuMemPoolTrimTo", pool, 0)
        assert taken() == (102 if hostcuda_modes == "lazy" else 2)  # trimming does not wait for the free
        call("cuMemFreeAsync", allocate(100 * mib), s)
        call("cuStreamSynchronize", s)
        assert taken() == 102  # which is below the threshold
        refused("OUT_OF_MEMORY", "cuMemAlloc", every - 50 * mib)
        call("cuMemFreeAsync", allocate(60 * mib), s)  # out of what the pool has
        call("cuStreamSynchronize", s)
        assert taken() == 102
        call("cuMemPoolTrimTo", pool, 10 * mib)
        assert taken() == 10
        call("cuMemFree", call("cuMemAlloc", every - 50 * mib))
        refused("OUT_OF_MEMORY", "cuMemAllocFromPoolAsync", every, pool, s)
    call(*set("RELEASE_THRESHOLD", 0))
    call("cuMemFreeAsync", q, s)
    call("cuCtxSynchronize")
    assert (taken(), get("USED_MEM_CURRENT")) == (0, 0)
    assert get("USED_MEM_HIGH") > 100 * mib
    call(*set("USED_MEM_HIGH", 0))
    assert get("USED_MEM_HIGH") == 0
    refused("INVALID_VALUE", *set("USED_MEM_CURRENT", 0))


def test_destroying_the_current_pool_brings_the_default_one_back(drv, pool):
    default = call("cuDeviceGetDefaultMemPool", 0)
    assert int(call("cuDeviceGetMemPool", 0)) == int(default)
    call("cuDeviceSetMemPool", 0, pool)
    assert int(call("cuDeviceGetMemPool", 0)) == int(pool)
    call("cuMemPoolDestroy", pool)
    assert int(call("cuDeviceGetMemPool", 0)) == int(default)
    refused("INVALID_VALUE", "cuMemPoolTrimTo", pool, 0)
    refused("INVALID_VALUE", "cuMemPoolDestroy", default)


def test_pools_of_two_devices(drv, stream):
    if call("cuDeviceGetCount") < 2:
        pytest.skip("HOSTCUDA_DEVICES is less than 2")
    contexts = [call("cuDevicePrimaryCtxRetain", d) for d in (0, 1)]
    pools = [call("cuDeviceGetDefaultMemPool", d) for d in (0, 1)]
    ordinal = drv.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    for current in (0, 1):
        call("cuCtxSetCurrent", contexts[current])
        for owner in (0, 1):
            for s in (0, 1, 2):
                p = call("cuMemAllocFromPoolAsync", 4096, pools[owner], s)
                assert call("cuPointerGetAttribute", ordinal, p) == owner
                call("cuMemFreeAsync", p, s)
                call("cuCtxSynchronize")


def test_pointer_attributes(drv, memory, pinned):
    names = drv.CUpointer_attribute
    wanted = [
        names.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, names.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        names.CU_POINTER_ATTRIBUTE_IS_MANAGED, names.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        names.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    ]  # fmt: skip
    managed, unknown = int(call("cuMemAllocManaged", 64, 1)), np.zeros(8)
    p, x = memory(64), pinned(16)
    for address, kind, device, is_managed in (
        (p, 2, 0, False), (x.ctypes.data, 1, 0, False), (managed, 2, 0, True), (unknown.ctypes.data, 0, -2, False),
    ):  # fmt: skip
        known = device == 0
        found = call("cuPointerGetAttributes", len(wanted), wanted, address + 8 * known)
        assert [int(v) for v in found] == [kind, device, is_managed, 64 * known, address * known]
    refused("INVALID_VALUE", "cuPointerGetAttribute", wanted[0], unknown.ctypes.data)
    refused("INVALID_VALUE", "cuPointerGetAttribute", names.CU_POINTER_ATTRIBUTE_HOST_POINTER, p)
    base, size = call("cuMemGetAddressRange", p + 8)
    assert (int(base), int(size)) == (p, 64)
    call("cuMemFree", managed)
