"""The memory of GPUs: where it comes from, that it is given back when nobody uses it and not before, and all that ends.

Also of the host memory that GPUs reach, and of processes that are forked, or end.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import weakref

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance.capsules import peek
from nbdlpack.conformance.producers import Producer
from tests.cuda.tools import check, device_memory, on_device

pytestmark = [pytest.mark.usefixtures("cuda")]

A = np.arange(1000, dtype=np.float64)
HOST_MEMORY = ("cuda_host", "cuda_managed")
MEMORY = ("cuda", *HOST_MEMORY)
TYPES = {"cuda": 2, "cuda_host": 3, "cuda_managed": 13}


def host(x):
    return np.asarray(x.to_device("cpu"))


def memory_of(x):
    return x._memory()


def in_thread(function):
    found = []

    def run():
        try:
            found.append((function(), None))
        except BaseException as error:  # noqa: BLE001
            found.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = found[0]
    if error is not None:
        raise error
    return value


@pytest.fixture
def live(hostcuda):
    """How many allocations there are, when all that was let go of has been given back."""

    def count():
        gc.collect()
        for device in ("cuda", "cuda:1"):
            nd.synchronize(device)
        found = hostcuda.stats()
        return found["live"] + found["host_live"]

    return count


# ---- allocating ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [*MEMORY, "cuda:1", "cuda_host:1", "cuda_managed:1"])
class TestAllocating:
    def test_what_an_array_is(self, device):
        x = nd.zeros((3, 4), dtype="int16", device=device)
        kind, _, number = device.partition(":")
        assert x.device == device
        assert x.__dlpack_device__() == (TYPES[kind], int(number or 0))
        assert x.ptr % 256 == 0
        assert x.tolist() == [[0] * 4] * 3
        assert nd.Device(device) is x.device
        assert nd.Device(f"{kind}:{number or 0}") is x.device
        assert repr(nd.Device(device)) == f"Device({device!r})"

    def test_nothing_needs_no_memory(self, device, live):
        before = live()
        x, y = nd.empty((0, 3), device=device), nd.zeros((), device=device)[..., None][:0]
        assert x.shape == (0, 3)
        assert (x + 1).shape == (0, 3)
        assert x.copy().tolist() == y.tolist() == []
        assert x.to_device("cpu").shape == (0, 3)
        del y
        assert live() == before

    def test_it_is_given_back(self, device, live):
        before = live()
        for _ in range(3):
            x = nd.ones(1000, device=device)
            y = x.copy()
            y[0] = 5.0
            z = x[10:20]
            assert live() == before + 2
            del x, y
            assert live() == before + 1
            del z
            assert live() == before

    def test_a_lazy_copy_allocates_nothing(self, device, live):
        x = nd.ones(1000, device=device)
        before = live()
        y = x.copy()
        assert live() == before
        y += 1
        assert live() == before + 1
        assert (set(host(x)), set(host(y))) == ({1.0}, {2.0})

    def test_memory_info(self, device):
        gc.collect()
        before = nd.memory_info(device)
        x = nd.empty(1000, device=device)
        after = nd.memory_info(device)
        assert (after.bytes - before.bytes, after.blocks - before.blocks) == (8000, 1)
        assert 0 < after.free_bytes <= after.total_bytes
        other = nd.memory_info("cuda:1" if device != "cuda:1" else "cuda")
        assert other.bytes != after.bytes or other.bytes == 8000
        y = x.copy()
        assert nd.memory_info(device).bytes == after.bytes
        del x
        assert nd.memory_info(device).bytes == after.bytes
        del y
        assert nd.memory_info(device)[:2] == before[:2]


def test_memory_info_of_a_fresh_device_makes_no_difference():
    info = nd.memory_info("cuda")
    assert info.total_bytes >= info.free_bytes > 0
    assert nd.memory_info("cpu").total_bytes > 0


# ---- our own pool, or the one of all ---------------------------------------------------------------------------------


def test_our_pool_keeps_memory_until_it_is_told_not_to():
    x = nd.empty(1 << 20, device="cuda")
    del x
    nd.synchronize("cuda")
    assert nd.memory_info("cuda").cached_bytes >= 8 << 20
    free = nd.memory_info("cuda").free_bytes
    nd.release_cached_memory("cuda")
    after = nd.memory_info("cuda")
    assert after.cached_bytes < 8 << 20
    assert after.free_bytes > free


POOL = """
from cuda.bindings import driver as cu
import nbdlpack as nd

def attributes(pool):
    names = cu.CUmemPool_attribute
    return [int(cu.cuMemPoolGetAttribute(pool, name)[1]) for name in (
        names.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, names.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        names.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, names.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)]

def used(pool):
    return int(cu.cuMemPoolGetAttribute(pool, cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)[1])

nd.Device("cuda")
default = cu.cuDeviceGetMemPool(0)[1]
before = attributes(default), used(default)
x = nd.zeros(1000, device="cuda")
assert attributes(default) == before[0]
print(used(default) - before[1])
cu.cuCtxPushCurrent(cu.cuDevicePrimaryCtxRetain(0)[1])
pool = int(cu.cuPointerGetAttribute(cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, x.ptr)[1])
print(pool == int(default))
assert nd.memory_info("cuda").bytes == 8000
assert x.tolist()[:2] == [0, 0]
del x
nd.release_cached_memory("cuda")
assert attributes(default) == before[0]
assert nd.memory_info("cuda").bytes == 0
"""


@pytest.mark.parametrize(
    ("name", "expected"), [("", ["0", "False"]), ("own", ["0", "False"]), ("shared", ["8000", "True"])]
)
def test_whose_pool_it_is(hostcuda, name, expected):
    assert hostcuda.python("-c", POOL, NBDLPACK_POOL=name, HOSTCUDA_PTX="0").split() == expected


def test_a_pool_of_no_known_name(hostcuda):
    code = """
import nbdlpack as nd
try:
    nd.zeros(3, device="cuda")
except ValueError as error:
    print(error)
"""
    said = hostcuda.python("-c", code, NBDLPACK_POOL="mine")
    assert "NBDLPACK_POOL is 'mine', but must be 'own'" in said
    assert "'shared'" in said


# ---- out of memory ---------------------------------------------------------------------------------------------------


@pytest.fixture
def half(hostcuda):
    """More than half of the memory that there is, which is not filled with a pattern: that would take long."""
    with hostcuda.option(poison=0):
        yield nd.memory_info("cuda").free_bytes * 6 // 10


class TestOutOfMemory:
    @pytest.mark.parametrize("device", MEMORY)
    def test_a_second_try_succeeds(self, device, hostcuda):
        hostcuda.fail_alloc(1)
        x = nd.ones(1000, device=device)
        assert set(host(x)) == {1.0}

    @pytest.mark.parametrize("device", MEMORY)
    def test_what_the_error_says(self, device, hostcuda):
        hostcuda.fail_alloc(1, 0)
        with pytest.raises(MemoryError, match=rf"8000 bytes could not be allocated on {device}: of \d+ bytes .* free"):
            nd.empty(1000, device=device)
        hostcuda.clear_fail_alloc()
        assert nd.ones(3, device=device).tolist() == [1, 1, 1]

    @pytest.mark.parametrize("device", MEMORY)
    @pytest.mark.parametrize("n", [1 << 57, 1 << 62])
    def test_more_than_there_is_anywhere(self, device, n):
        with pytest.raises((MemoryError, ValueError)):
            nd.empty(n, dtype="int8", device=device)

    def test_more_than_the_device_has(self):
        with pytest.raises(MemoryError, match="17179869184"):
            nd.empty(1 << 40, dtype="int8", device="cuda")

    def test_what_nobody_has_is_given_back_first(self, half):
        for _ in range(3):
            x = nd.empty(half, dtype="int8", device="cuda")
            x[0] = 1
            del x

    def test_what_only_a_cycle_has_is_given_back_first(self, half):
        class Node:
            pass

        gc.disable()
        try:
            for _ in range(2):
                node = Node()
                node.self, node.x = node, nd.empty(half, dtype="int8", device="cuda")
                del node
        finally:
            gc.enable()

    @pytest.mark.hostcuda_modes("lazy", "random:1")
    def test_what_is_still_in_use_is_waited_for(self, half):
        for _ in range(2):
            with nd.Stream("cuda"):
                x = nd.empty(half, dtype="int8", device="cuda")
            with nd.Stream("cuda"):
                x[:1000] = 1
            del x

    def test_callbacks(self, hostcuda):
        calls = []
        first = nd.add_memory_callback(lambda nbytes: calls.append(("first", nbytes)))
        second = nd.add_memory_callback(lambda nbytes: calls.append(("second", nbytes)) or True)
        third = nd.add_memory_callback(lambda nbytes: calls.append(("third", nbytes)))
        hostcuda.fail_alloc(1)
        nd.empty(100, device="cuda")
        assert calls == [("first", 800), ("second", 800)], "until one says that it has freed something"
        calls.clear()
        second()
        second()
        hostcuda.fail_alloc(1, 0)
        with pytest.raises(MemoryError):
            nd.empty(100, device="cuda")
        assert [name for name, _ in calls] == ["first", "third"]
        hostcuda.clear_fail_alloc()
        first()
        third()
        calls.clear()
        hostcuda.fail_alloc(1)
        nd.empty(100, device="cuda")
        assert calls == []
        with pytest.raises(TypeError, match="must be a function"):
            nd.add_memory_callback(3)

    def test_a_callback_that_frees(self, half):
        cache = [nd.empty(half, dtype="int8", device="cuda")]
        remove = nd.add_memory_callback(lambda nbytes: cache.clear())
        try:
            x = nd.empty(half, dtype="int8", device="cuda")
        finally:
            remove()
        assert not cache
        x[0] = 1

    def test_an_error_of_a_callback_is_raised(self, hostcuda):
        remove = nd.add_memory_callback(lambda nbytes: 1 // 0)
        hostcuda.fail_alloc(1)
        try:
            with pytest.raises(ZeroDivisionError):
                nd.empty(100, device="cuda")
        finally:
            remove()

    def test_a_failed_move_changes_nothing(self, hostcuda, live):
        x = nd.asarray(A, device="cuda")
        y = x.copy()
        before = live()
        hostcuda.fail_alloc(1, 0)
        with pytest.raises(MemoryError):
            y += 1
        hostcuda.clear_fail_alloc()
        assert live() == before
        assert nd.is_shared(x)
        y += 1
        np.testing.assert_array_equal(host(x), A)
        np.testing.assert_array_equal(host(y), A + 1)


# ---- given back when nobody uses it, and not before ------------------------------------------------------------------


def overwrite(device="cuda", n=4):
    """Take memory of the same size and write to it: what was freed too early is not what it was any more."""
    for _ in range(n):
        nd.full(A.shape, -1.0, device=device)


class TestGivingBack:
    @pytest.mark.hostcuda_modes
    def test_after_a_reader_on_another_stream(self):
        s = nd.Stream("cuda")
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        with s:
            y = x * 2
        del x
        overwrite()
        np.testing.assert_array_equal(host(y), A * 2)

    @pytest.mark.hostcuda_modes
    def test_after_several_readers(self):
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        found = []
        for i in range(3):
            with nd.Stream("cuda"):
                found.append(x * i)
        del x
        overwrite()
        for i, y in enumerate(found):
            np.testing.assert_array_equal(host(y), A * i)

    @pytest.mark.hostcuda_modes
    def test_after_a_writer_on_another_stream(self):
        x = nd.empty(A.shape, A.dtype, device="cuda")
        with nd.Stream("cuda"):
            x[...] = 1.0
        del x
        y = nd.full(A.shape, 2.0, device="cuda")
        nd.synchronize("cuda")
        assert set(host(y)) == {2.0}

    @pytest.mark.hostcuda_modes
    def test_after_a_consumer_that_nobody_told_of(self):
        # A consumer that was given the array may have begun to read it on any stream.
        x = nd.asarray(A, device="cuda")
        consumer, out = nd.Stream("cuda"), device_memory(A.nbytes)
        capsule = x.__dlpack__(stream=consumer.handle)
        nd.synchronize("cuda")
        unknown = nd.Stream("cuda")
        out.copy_later(peek(capsule).address, A.nbytes, unknown.handle)
        del x, capsule
        overwrite()
        np.testing.assert_array_equal(out.read(unknown.handle).view(A.dtype), A)

    @pytest.mark.hostcuda_modes
    def test_after_a_consumer_and_a_copy_to_another_device(self):
        x = nd.asarray(A, device="cuda")
        x.__dlpack__(stream=1)
        nd.synchronize("cuda")
        with nd.Stream("cuda:1"):
            y = x.to_device("cuda:1")
        del x
        overwrite()
        np.testing.assert_array_equal(host(y), A)

    @pytest.mark.hostcuda_modes
    def test_after_who_was_given_the_address(self):
        x = nd.asarray(A, device="cuda")
        stream, out = nd.Stream("cuda"), device_memory(A.nbytes)
        address = x.ptr
        nd.synchronize("cuda")
        out.copy_later(address, A.nbytes, stream.handle)
        del x
        overwrite()
        np.testing.assert_array_equal(out.read(stream.handle).view(A.dtype), A)

    def test_the_streams_of_users_do_not_wait_for_others(self, hostcuda):
        """What frees memory waits on a stream where nothing else is done."""
        with hostcuda.option(**{"async": "lazy"}):
            s, t = nd.Stream("cuda"), nd.Stream("cuda")
            x = nd.asarray(A, device="cuda")
            nd.synchronize("cuda")
            with s:
                y = x * 2
            with t:
                z = x * 3
            del x
            w = nd.ones(10, device="cuda")  # frees x
            nd.default_stream("cuda").synchronize()
            assert not s.done
            assert not t.done
            del y, z, w

    def test_on_a_driver_that_knows_no_events_of_contexts(self, hostcuda, monkeypatch, live):
        """Before 12.5 what was exported is kept until all of the GPU was waited for."""
        from nbdlpack.devices.cuda import driver

        class Old:
            def __getattr__(self, name):
                if name == "cuCtxRecordEvent":
                    return lambda *_: (driver_was.CUresult.CUDA_ERROR_NOT_SUPPORTED,)
                return getattr(driver_was, name)

        before = live()
        driver_was = driver.cu
        monkeypatch.setattr(driver, "cu", Old())
        x = nd.asarray(A, device="cuda")
        x.__dlpack__(stream=1)
        del x
        for _ in range(3):
            nd.ones(1000, device="cuda")
        assert hostcuda.stats()["live"] >= 2, "it is not freed"
        assert live() == before

    def test_memory_of_others_is_let_go_of_when_it_is_not_used_any_more(self, hostcuda):
        class Owner:
            pass

        with hostcuda.option(**{"async": "lazy"}):
            memory = device_memory(A.nbytes)
            memory.write_now(A)
            interface = {"shape": A.shape, "typestr": "<f8", "data": (memory.address, False), "version": 3}
            owner = Owner()
            owner.__cuda_array_interface__ = interface
            cls = type("Producer", (), {"__cuda_array_interface__": property(lambda self: interface)})
            owner = cls()
            gone = weakref.ref(owner)
            x = nd.asarray(owner)
            s = nd.Stream("cuda")
            with s:
                y = x * 2
                x * 3
            del owner, x
            nd.empty(1, device="cuda")
            assert gone() is not None, "s has not read it yet"
            s.synchronize()
            nd.empty(1, device="cuda")
            assert gone() is None
            np.testing.assert_array_equal(host(y), A * 2)

    def test_a_stream_that_never_rests_keeps_nothing_for_ever(self, hostcuda):
        cls = type("Producer", (), {"__cuda_array_interface__": property(lambda self: self.interface)})
        memory = device_memory(A.nbytes)
        memory.write_now(A)
        owner = cls()
        owner.interface = {"shape": A.shape, "typestr": "<f8", "data": (memory.address, False), "version": 3}
        gone = weakref.ref(owner)
        s, y = nd.Stream("cuda"), nd.zeros(1000, device="cuda")
        with hostcuda.option(**{"async": "lazy"}), s:
            x = nd.asarray(owner)
            x + y
            del owner, x
            for _ in range(200):
                y += 1
                nd.empty(1, device="cuda")
                if gone() is None:
                    break
            assert gone() is None


# ---- where the last reference is dropped -----------------------------------------------------------------------------


class TestLastReferences:
    @pytest.mark.parametrize("device", MEMORY)
    def test_in_a_thread_without_a_context(self, device, live):
        before = live()
        box = [nd.ones(1000, device=device)]
        in_thread(box.clear)
        assert live() == before

    @pytest.mark.parametrize("device", MEMORY)
    def test_with_the_other_device_current(self, device, live):
        before = live()
        x = nd.ones(1000, device=device)
        with on_device(1):
            del x
            nd.zeros(1, device=device)
            nd.zeros(1, device="cuda:1")
        assert live() == before

    @pytest.mark.parametrize("device", MEMORY)
    def test_in_a_host_callback(self, device, live, hostcuda):
        """There the driver refuses every call."""
        before = live()
        box = [nd.ones(1000, device=device), nd.Stream("cuda"), nd.Stream("cuda").record()]
        calls = []

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def callback(_):
            box.clear()
            calls.append(1)

        with on_device() as cu:
            s = nd.Stream("cuda")
            check(cu.cuLaunchHostFunc(s.handle, cu.CUhostFn(ctypes.cast(callback, ctypes.c_void_p).value), 0))
            s.synchronize()
        assert calls == [1]
        assert live() == before
        assert "PERMITTED" not in hostcuda.last_error()

    @pytest.mark.parametrize("device", MEMORY)
    def test_from_many_threads(self, device, live):
        before = live()
        x = nd.ones(1000, device=device)

        def work(x):
            for _ in range(20):
                y = x.copy()
                y[0] = 2
                del y

        threads = [threading.Thread(target=work, args=(x,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(host(x)) == {1.0}
        del x, threads, thread
        assert live() == before

    @pytest.mark.parametrize("device", MEMORY)
    def test_by_the_garbage_collector(self, device, live):
        before = live()
        for _ in range(3):
            cycle = [nd.ones(1000, device=device), nd.Stream("cuda")]
            cycle.append(cycle)
            del cycle
        assert live() == before


# ---- host memory that GPUs reach -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", HOST_MEMORY)
class TestHostMemory:
    def test_numpy_computes(self, device):
        a = np.arange(12, dtype=np.float32).reshape(3, 4)
        x = nd.asarray(a, device=device)
        assert x.device == device
        for function in (
            lambda x: x + 1,
            lambda x: x[::2, 1:] * x[1, 1:],
            lambda x: x.sum(axis=0),
            lambda x: x.max(),
            lambda x: x.T.copy(),
            lambda x: x[[0, 2]],
            lambda x: x[x > 3],
            lambda x: x.astype("int8"),
        ):
            found = function(x)
            assert found.device == device
            np.testing.assert_array_equal(host(found), function(a))
        x[0, 1:] = 7
        x[x > 9] = 0
        x[[1]] += 1
        np.add.at(x, (slice(None), 0), 2)
        a[0, 1:] = 7
        a[a > 9] = 0
        a[[1]] += 1
        np.add.at(a, (slice(None), 0), 2)
        np.testing.assert_array_equal(host(x), a)
        assert float(x[0, 0]) == a[0, 0]
        assert np.add.reduce(x, axis=1).tolist() == np.add.reduce(a, axis=1).tolist()

    def test_numpy_and_others_see_it(self, device):
        x = nd.asarray(A, device=device)
        a = np.from_dlpack(x)
        assert np.shares_memory(a, np.from_dlpack(x))
        x[0] = 5
        assert a[0] == 5
        assert nd.from_dlpack(x).device == device
        assert x.ptr == a.ctypes.data

    @pytest.mark.hostcuda_modes
    def test_copies_there_and_back(self, device):
        x = nd.asarray(A, device="cuda")
        with nd.Stream("cuda"):
            x += 1
        y = x.to_device(device)
        np.testing.assert_array_equal(host(y), A + 1)
        y *= 2
        z = y.to_device("cuda")
        np.testing.assert_array_equal(host(z), (A + 1) * 2)
        w = y.to_device("cuda:1").to_device(device)
        np.testing.assert_array_equal(host(w), (A + 1) * 2)

    def test_copies_do_not_wait(self, device, hostcuda):
        x = nd.asarray(A, device="cuda")
        y = nd.asarray(A, device=device)
        nd.synchronize("cuda")
        before = hostcuda.stats()
        z, w = x.to_device(device), y.to_device("cuda")
        after = hostcuda.stats()
        assert after["syncs"] == before["syncs"]
        del z, w

    @pytest.mark.hostcuda_modes
    def test_reading_waits_for_a_copy_into_it(self, device):
        x = nd.asarray(A, device="cuda")
        with nd.Stream("cuda"):
            y = x.to_device(device)
        assert float(y[999]) == 999
        np.testing.assert_array_equal(np.from_dlpack(y), A)

    @pytest.mark.hostcuda_modes
    def test_numpy_is_given_what_is_there(self, device):
        x = nd.asarray(A, device="cuda")
        with nd.Stream("cuda"):
            y = x.to_device(device)
        np.testing.assert_array_equal(np.from_dlpack(y), A)

    @pytest.mark.hostcuda_modes
    def test_writing_waits_for_a_copy_out_of_it(self, device):
        x = nd.asarray(A, device=device)
        with nd.Stream("cuda"):
            y = x.to_device("cuda")
        x[...] = -1.0
        np.testing.assert_array_equal(host(y), A)

    @pytest.mark.hostcuda_modes
    def test_a_move_waits_for_a_copy_into_it(self, device):
        x = nd.asarray(A, device="cuda")
        with nd.Stream("cuda"):
            y = x.to_device(device)
        z = y.copy()
        z[0] = 5.0
        assert host(y)[0] == 0
        np.testing.assert_array_equal(host(z)[1:], A[1:])

    @pytest.mark.hostcuda_modes
    def test_the_source_lives_until_it_is_copied(self, device, live):
        before = live()
        x = nd.asarray(A, device=device)
        with nd.Stream("cuda"):
            y = x.to_device("cuda")
        del x
        for _ in range(3):
            nd.full(A.shape, -1.0, device=device)
        np.testing.assert_array_equal(host(y), A)
        del y
        assert live() == before

    @pytest.mark.hostcuda_modes
    def test_the_target_lives_until_it_is_copied(self, device, live, hostcuda):
        before = live()
        x = nd.asarray(A, device="cuda")
        with nd.Stream("cuda"):
            x.to_device(device)
        for _ in range(3):
            y = nd.full(A.shape, -1.0, device=device)
        nd.synchronize("cuda")
        assert set(host(y)) == {-1.0}
        del x, y
        assert live() == before

    @pytest.mark.hostcuda_modes("lazy")
    def test_it_is_kept_for_a_consumer_that_was_given_it(self, device):
        gc.collect()
        nd.synchronize("cuda")
        before = nd.memory_info(device).bytes
        x = nd.asarray(A, device=device)
        capsule = x.__dlpack__(max_version=(1, 0))
        stream, out = nd.Stream("cuda"), device_memory(A.nbytes)
        with on_device() as cu:
            check(cu.cuMemcpyHtoDAsync(out.address, peek(capsule).address, A.nbytes, stream.handle))
        del x, capsule
        assert nd.memory_info(device).bytes == before + A.nbytes
        np.testing.assert_array_equal(out.read(stream.handle).view(A.dtype), A)
        nd.synchronize("cuda")
        assert nd.memory_info(device).bytes == before

    def test_it_comes_in(self, device):
        a = A.copy()
        if device == "cuda_host":
            p = Producer(a, device=(TYPES[device], 0))
            x = nd.from_dlpack(p)
            assert x._state()[0] == a.ctypes.data
        else:
            with on_device() as cu:
                address = int(check(cu.cuMemAllocManaged(A.nbytes, 1)))
            ctypes.memmove(address, a.ctypes.data, a.nbytes)
            p = Producer(np.empty_like(a), address=address, device=(TYPES[device], 0))
            x = nd.from_dlpack(p)
        assert x.device == device
        np.testing.assert_array_equal(host(x), A)
        y = x.to_device("cuda")
        del x
        nd.synchronize("cuda")
        assert p.deleted == 1
        np.testing.assert_array_equal(host(y), A)
        if device != "cuda_host":
            with on_device() as cu:
                check(cu.cuMemFree(address))

    def test_operands_of_other_devices_are_refused(self, device):
        x = nd.zeros(3, device=device)
        with pytest.raises(nd.errors.DeviceError):
            x + nd.zeros(3, device="cuda")


def test_managed_memory_of_a_gpu_that_cannot_share_it(monkeypatch, hostcuda):
    from nbdlpack.devices.cuda import hostmemory

    monkeypatch.setitem(hostmemory._sharing, 0, False)
    with hostcuda.option(**{"async": "lazy"}):
        x = nd.zeros(1000, device="cuda_managed")
        with nd.Stream("cuda") as s:
            nd.zeros(1000, device="cuda") + 1
        assert not s.done
        x + 1
        assert s.done


@pytest.mark.hostcuda_modes
def test_what_is_uploaded_may_be_overwritten(hostcuda):
    """Also if it is in pinned memory, from which the driver copies later."""
    a = np.from_dlpack(nd.asarray(A, device="cuda_host"))
    x = nd.asarray(a, device="cuda", copy=True)
    y = nd.empty(A.shape, A.dtype, device="cuda")
    y[...] = a
    a[...] = -1.0
    np.testing.assert_array_equal(host(x), A)
    np.testing.assert_array_equal(host(y), A)


@pytest.mark.hostcuda_modes
def test_what_is_downloaded_is_there():
    """Also if it goes to pinned memory."""
    out = np.from_dlpack(nd.zeros(1000, device="cuda_host"))
    x = nd.asarray(A, device="cuda") + 1
    with x.device.accessing((x,), ()):
        x.device.download(out, x._state()[0])
    np.testing.assert_array_equal(out, A + 1)


# ---- fork, and the end of the process --------------------------------------------------------------------------------

FORKED = """
import gc, os, sys
import numpy as np
import nbdlpack as nd
from tests import hostcuda

x, y = nd.zeros(1000, device="cuda"), nd.ones(10, device="cuda_host")
s, e = nd.Stream("cuda"), nd.Stream("cuda").record()
foreign = nd.Stream.from_handle(2, "cuda")
z = x.copy()
c = nd.ones(3, device="cpu")
calls = hostcuda.stats(names=True)["calls"]
pid = os.fork()
if pid == 0:
    try:
        for operation in (
            lambda: nd.zeros(3, device="cuda"),
            lambda: nd.zeros(3, device="cuda:1"),
            lambda: nd.zeros(3, device="cuda_host"),
            lambda: x + 1,
            lambda: x.tolist(),
            lambda: x.__dlpack__(),
            lambda: x.ptr,
            lambda: z.fill(1),
            lambda: y + 1,
            lambda: nd.asarray(c, device="cuda"),
            lambda: nd.Stream("cuda"),
            lambda: s.synchronize(),
            lambda: s.done,
            lambda: e.synchronize(),
            lambda: e.done,
            lambda: s.__enter__(),
            lambda: nd.Event().record(s),
            lambda: nd.synchronize("cuda"),
            lambda: nd.memory_info("cuda"),
            lambda: nd.release_cached_memory("cuda"),
        ):
            try:
                operation()
            except RuntimeError as error:
                assert "'spawn'" in str(error), error
            else:
                raise AssertionError("no error")
        assert (c + 1).tolist() == [2, 2, 2]
        del x, y, z, s, e, foreign
        gc.collect()
        assert nd.memory_info("cpu").blocks
        assert hostcuda.stats(names=True)["calls"] == calls, "the child called the driver"
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)  # with all that Python does at its end
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert x.tolist()[:2] == z.tolist()[:2] == [0, 0]
assert y.tolist()[0] == 1
print("done")
"""


def test_a_forked_child_uses_no_gpu(hostcuda):
    assert (
        hostcuda.python("-c", FORKED, HOSTCUDA_DEVICES="2", HOSTCUDA_PTX="0", NBDLPACK_DEVICE="cpu").strip() == "done"
    )


def test_a_child_forked_before_the_driver_starts_may_use_it(hostcuda):
    code = """
import os, sys
import nbdlpack as nd
nd.zeros(3, device="cpu")
pid = os.fork()
assert nd.zeros(3, device="cuda").tolist() == [0, 0, 0]
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    print("done")
"""
    assert hostcuda.python("-c", code).strip() == "done"


ENDING = """
import atexit, sys, threading
import numpy as np
import nbdlpack as nd
from tests import hostcuda

@atexit.register
def late():  # runs after the library's own, which was registered later
    box.clear()
    nd.empty(3, device="cuda")
    print("late", hostcuda.stats(names=True)["calls"].get("cuMemFreeAsync", 0) == frees)

class Box(list):
    pass

box = Box([nd.ones(1000, device="cuda"), nd.ones(10, device="cuda_host"), nd.Stream("cuda")])
box += [box[2].record(), nd.zeros(1000, device="cuda")]
box.append(nd.from_dlpack(box[0]))
capsule = box[0].__dlpack__(stream=1)
nd.synchronize("cuda")
frees = hostcuda.stats(names=True)["calls"].get("cuMemFreeAsync", 0)
sys.kept = nd.ones(10, device="cuda")  # lives until the interpreter takes itself apart
cycle = [nd.zeros(3, device="cuda")]
cycle.append(cycle)
print("end")
"""


def test_nothing_is_freed_when_the_interpreter_ends(hostcuda):
    assert hostcuda.python("-c", ENDING, HOSTCUDA_ASYNC="lazy").split() == ["end", "late", "True"]


FOREIGN = """
import ctypes, os, sys
import numpy as np
import nbdlpack as nd
from tests.cuda.tools import device_memory
from nbdlpack.conformance.capsules import new_capsule
from nbdlpack.conformance.header import DLManagedTensorVersioned, VERSIONED
from nbdlpack.conformance.producers import Tensor

nd.zeros(1, device="cuda")
memory = device_memory(8000)
memory.write_now(np.ones(1000))

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def delete(_):
    os.write(1, b"deleted\\n")

t = Tensor(np.empty(1000), address=memory.address, device=(2, 0))
address = t.managed(True)
DLManagedTensorVersioned.from_address(address).deleter = ctypes.cast(delete, ctypes.c_void_p).value
x = nd.from_dlpack(new_capsule(address, VERSIONED))
with nd.Stream("cuda") as s:
    y = x + 1
del x
assert not s.done
sys.kept = y, s
ctypes.pythonapi.Py_IncRef(ctypes.py_object((memory, t, delete)))  # these are others', and not to end at all
print("end", flush=True)
"""


def test_no_foreign_deleter_is_called_when_the_interpreter_ends(hostcuda):
    """What it would give away may still be in use."""
    assert hostcuda.python("-c", FOREIGN, HOSTCUDA_ASYNC="lazy", HOSTCUDA_PTX="0").split() == ["end"]


def test_the_library_imports_nothing_of_cuda():
    code = """
import sys
import nbdlpack as nd
nd.Stream, nd.Event, nd.current_stream
nd.zeros(3, device="cpu") + 1
found = [name for name in sys.modules if name.partition(".")[0] in ("cuda", "numba")]
assert not found, found
"""
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"NBDLPACK_DEVICE": "cpu"})
