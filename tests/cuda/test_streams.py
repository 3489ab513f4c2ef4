"""Streams: whose they are, which is current, and that work on different ones is done in the order it was asked for.

In hostcuda's modes nothing is done before it is waited for, or in any order that the waits leave open.  So what is
computed here is wrong as soon as one wait is missing.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import threading

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance.capsules import exchange_api, peek
from nbdlpack.conformance.producers import Producer
from nbdlpack.devices.cuda import streams
from tests.arrays import Thing
from tests.cuda.tools import check, copy_to_host, device_memory, on_device, waits

pytestmark = [pytest.mark.usefixtures("cuda")]

A = np.arange(1000, dtype=np.float64)
ELSEWHERE = ("ours", "cuda.core", "numba", "handle", "per thread")
"""Whose the stream is that work is put into."""


class Foreign:
    """A stream of another library, made by the driver's own calls."""

    def __init__(self, flags: int = 1, index: int = 0) -> None:
        self.index = index
        with on_device(index) as cu:
            self.handle = int(check(cu.cuStreamCreate(flags)))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def destroy(self) -> None:
        with on_device(self.index) as cu:
            check(cu.cuStreamDestroy(self.handle))

    def __del__(self) -> None:
        if self.handle:
            self.destroy()


def stream(whose: str = "ours") -> nd.Stream:
    if whose == "ours":
        return nd.Stream("cuda")
    if whose == "cuda.core":
        from cuda.core import Device

        with on_device():
            Device(0).set_current()
            return nd.Stream.wrap(Device(0).create_stream())
    if whose == "numba":
        from numba import cuda

        return nd.Stream.wrap(cuda.stream())
    if whose == "handle":
        owner = Foreign()
        found = nd.Stream.from_handle(owner.handle)
        found._keep = owner
        return found
    return nd.Stream.from_handle(2, "cuda")


def host(x: nd.ndarray) -> np.ndarray:
    return np.asarray(x.to_device("cpu"))


def in_thread(function):
    """Call a function in a thread that has never called the driver, and return what it returns."""
    found = []

    def run():
        try:
            found.append(function())
        except BaseException as error:  # noqa: BLE001
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


# ---- objects ---------------------------------------------------------------------------------------------------------


class TestObjects:
    def test_a_new_stream(self):
        s = nd.Stream("cuda")
        assert s.device == "cuda"
        assert s.__cuda_stream__() == (0, s.handle)
        assert s.handle > 2
        assert s.done
        assert "Stream of cuda" in repr(s)
        with on_device() as cu:
            assert check(cu.cuStreamGetFlags(s.handle)) == 1, "it does not wait for the default stream"

    def test_two_streams(self):
        s, t = nd.Stream("cuda"), nd.Stream("cuda")
        assert s != t
        assert len({s, t, nd.Stream.from_handle(s.handle), nd.Stream.wrap(s)}) == 2

    @pytest.mark.parametrize(("asked", "given"), [(None, 0), (0, 0), (-2, -2), (-100, -5), (3, 0)])
    def test_priorities(self, asked, given, hostcuda):
        s = nd.Stream("cuda", priority=asked)
        with on_device() as cu:
            found = check(cu.cuStreamGetPriority(s.handle))
        assert found in (asked or 0, given), "the driver brings it into its range"

    def test_which_device(self):
        assert nd.Stream("cuda:1").device == "cuda:1"
        assert nd.Stream().device == "cuda", "the default device has no streams"
        with nd.device("cuda:1"):
            assert nd.Stream().device == "cuda:1"
            assert nd.current_stream().device == "cuda:1"
            assert nd.default_stream().device == "cuda:1"
        with pytest.raises(ValueError, match="device cpu has no streams"):
            nd.Stream("cpu")
        with pytest.raises(nd.errors.DeviceError, match=r"there is no cuda:7: this machine has 2 GPUs, up to cuda:1"):
            nd.Stream("cuda:7")

    @pytest.mark.parametrize("whose", ELSEWHERE)
    def test_there_is_one_object_for_a_stream(self, whose):
        s = stream(whose)
        assert nd.Stream.from_handle(s.handle) is s
        assert nd.Stream.wrap(s) is s
        assert s._owned is (whose == "ours")

    def test_what_was_wrapped_is_kept(self):
        owner = Foreign()
        s = nd.Stream.wrap(owner)
        gone = [Foreign.__del__]
        del owner
        gc.collect()
        assert s.done, "its handle is alive"
        assert gone

    def test_our_own_stream_comes_back(self):
        s = nd.Stream("cuda")
        from cuda.core import Device

        with on_device():
            Device(0).set_current()
            theirs = Device(0).create_stream(s)
        assert nd.Stream.wrap(theirs) is s
        assert s._owned

    def test_handles_of_default_streams(self):
        default = nd.default_stream("cuda")
        assert nd.Stream.from_handle(1, "cuda") is default
        assert nd.Stream.from_handle(0, "cuda") is default
        assert nd.default_stream("cuda:1") is not default
        assert nd.Stream.from_handle(1, "cuda:1") is nd.default_stream("cuda:1")
        assert default.handle == 1
        assert "default" in repr(default)
        with on_device(1):
            assert nd.Stream.from_handle(1) is nd.default_stream("cuda:1"), "that of the current context"
        here, there = nd.Stream.from_handle(2, "cuda"), in_thread(lambda: nd.Stream.from_handle(2, "cuda"))
        assert here is not there
        assert here.handle == there.handle == 2

    def test_a_stream_of_another_device(self):
        owner = Foreign(index=1)
        assert nd.Stream.wrap(owner).device == "cuda:1"
        with pytest.raises(ValueError, match="the stream is one of cuda:1, and not of cuda"):
            nd.Stream.from_handle(owner.handle, "cuda")

    def test_a_stream_of_another_context(self):
        with on_device() as cu:
            context = check(cu.cuCtxCreate(None, 0, 0)) if _needs_parameters(cu) else check(cu.cuCtxCreate(0, 0))
            handle = int(check(cu.cuStreamCreate(1)))
            check(cu.cuCtxPopCurrent())
            try:
                with pytest.raises(nd.errors.DeviceError, match="another context"):
                    nd.Stream.from_handle(handle)
            finally:
                check(cu.cuStreamDestroy(handle))
                check(cu.cuCtxDestroy(context))

    @pytest.mark.parametrize("value", [None, 3, "s", Thing()], ids=str)
    def test_what_is_no_stream(self, value):
        with pytest.raises(TypeError, match="__cuda_stream__"):
            nd.Stream.wrap(value)

    def test_they_are_not_pickled(self):
        for thing in (nd.Stream("cuda"), nd.Event()):
            with pytest.raises(TypeError, match="exists in its process alone"):
                pickle.dumps(thing)

    def test_a_stream_ends_with_its_last_reference_and_its_last_use(self, hostcuda):
        before = hostcuda.stats()["streams"]
        s = nd.Stream("cuda")
        with s:
            x = nd.zeros(3, device="cuda")
        del s
        nd.synchronize("cuda")
        assert hostcuda.stats()["streams"] == before + 1, "what was written on it has still to be waited for"
        x += 1
        nd.synchronize("cuda")
        assert hostcuda.stats()["streams"] == before

    def test_streams_that_have_read_are_forgotten(self, hostcuda):
        before = hostcuda.stats()["streams"]
        x = nd.zeros(10, device="cuda")
        for _ in range(100):
            with nd.Stream("cuda"):
                x + 1
        nd.synchronize("cuda")
        assert hostcuda.stats()["streams"] - before < 20
        x += 1

    def test_streams_that_still_read_are_not_forgotten(self, hostcuda):
        x = nd.asarray(A, device="cuda")
        found = []
        with hostcuda.option(**{"async": "lazy"}):
            for i in range(40):
                with nd.Stream("cuda"):
                    found.append(x * i)
            with nd.Stream("cuda") as writer:
                x[...] = -1.0
            writer.synchronize()
            for i, y in enumerate(found):
                np.testing.assert_array_equal(host(y), A * i)


def _needs_parameters(cu) -> bool:
    return cu.CUDA_VERSION >= 13000


# ---- the current stream ----------------------------------------------------------------------------------------------


class TestCurrent:
    def test_it_is_the_default_stream_at_first(self):
        assert nd.current_stream("cuda") is nd.default_stream("cuda")
        assert in_thread(lambda: nd.current_stream("cuda")) is nd.default_stream("cuda")

    def test_blocks_nest(self):
        s, t, default = nd.Stream("cuda"), nd.Stream("cuda"), nd.default_stream("cuda")
        with s as entered:
            assert entered is s
            assert nd.current_stream("cuda") is s
            with t:
                with s:
                    assert nd.current_stream("cuda") is s
                assert nd.current_stream("cuda") is t
            with pytest.raises(KeyError), t:
                raise KeyError
            assert nd.current_stream("cuda") is s
        assert nd.current_stream("cuda") is default

    def test_each_device_has_its_own(self):
        s, t = nd.Stream("cuda"), nd.Stream("cuda:1")
        with s, t:
            assert (nd.current_stream("cuda"), nd.current_stream("cuda:1")) == (s, t)
        with s:
            assert nd.current_stream("cuda:1") is nd.default_stream("cuda:1")

    def test_each_thread_has_its_own(self):
        s = nd.Stream("cuda")
        with s:
            assert in_thread(lambda: nd.current_stream("cuda")) is nd.default_stream("cuda")
            assert nd.current_stream("cuda") is s

    def test_a_threads_default_stream_is_that_of_the_thread_which_enters_it(self):
        s = nd.Stream.from_handle(2, "cuda")

        def there():
            with s:
                return nd.current_stream("cuda"), nd.Stream.from_handle(2, "cuda")

        entered, own = in_thread(there)
        assert entered is own
        assert entered is not s

    def test_the_exchange_table_is_told(self):
        api = exchange_api(nd.ndarray)
        ask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)(api.current_work_stream)

        def asked(index=0):
            out = ctypes.c_void_p()
            assert ask(2, index, ctypes.addressof(out)) == 0
            return out.value or 0

        s = nd.Stream("cuda:1")
        assert asked(1) == 0
        with s:
            assert (asked(0), asked(1), in_thread(lambda: asked(1))) == (0, s.handle, 0)
        assert asked(1) == 0

    def test_work_goes_into_it(self, hostcuda):
        s = nd.Stream("cuda")
        with hostcuda.option(**{"async": "lazy"}):
            with s:
                x = nd.zeros(3, device="cuda") + 1
            assert not s.done
            assert nd.default_stream("cuda").done
            s.synchronize()
            assert s.done
        assert host(x).tolist() == [1, 1, 1]


# ---- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ELSEWHERE)
class TestOrder:
    @pytest.mark.hostcuda_modes
    def test_a_read_waits_for_a_write(self, whose):
        s = stream(whose)
        x = nd.asarray(A, device="cuda")
        with s:
            x += 1
        y = x * 2
        np.testing.assert_array_equal(host(y), (A + 1) * 2)

    @pytest.mark.hostcuda_modes
    def test_a_read_of_the_host_waits_for_a_write(self, whose):
        x = nd.asarray(A, device="cuda")
        with stream(whose):
            x += 1
        np.testing.assert_array_equal(host(x), A + 1)

    @pytest.mark.hostcuda_modes
    def test_a_write_waits_for_a_read(self, whose):
        s = stream(whose)
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        with s:
            y = x * 2
        with nd.Stream("cuda") as writer:
            x[...] = -1.0
        writer.synchronize()
        np.testing.assert_array_equal(host(y), A * 2)

    @pytest.mark.hostcuda_modes
    def test_a_write_waits_for_two_reads(self, whose):
        s, t = stream(whose), nd.Stream("cuda")
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        with s:
            y = x * 2
        with t:
            z = x * 3
        with nd.Stream("cuda") as writer:
            x[...] = -1.0
        writer.synchronize()
        np.testing.assert_array_equal(host(z), A * 3)
        np.testing.assert_array_equal(host(y), A * 2)

    @pytest.mark.hostcuda_modes
    def test_a_write_waits_for_a_write(self, whose):
        s = stream(whose)
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        with s:
            x[...] = 1.0
        with nd.Stream("cuda") as t:
            x[...] = 2.0
        s.synchronize()
        t.synchronize()
        assert set(copy_to_host(x._state()[0], x.nbytes, t.handle).view(x.dtype)) == {2.0}

    @pytest.mark.hostcuda_modes
    def test_memory_is_used_elsewhere_only_once_it_is_allocated(self, whose):
        with stream(whose):
            x = nd.empty(A.shape, A.dtype, device="cuda")
        with nd.Stream("cuda"):
            x[...] = 5.0
        assert set(host(x)) == {5.0}

    @pytest.mark.hostcuda_modes
    def test_zeros_are_there(self, whose):
        with stream(whose):
            x = nd.zeros(1000, device="cuda")
        y = x + 1
        assert set(host(y)) == {1.0}

    @pytest.mark.hostcuda_modes
    def test_who_has_waited_once_waits_again(self, whose):
        s, t = stream(whose), nd.Stream("cuda")
        x = nd.asarray(A, device="cuda")
        for i in range(1, 4):
            with s:
                x += 1
            with t:
                y = x * 2
            np.testing.assert_array_equal(host(y), (A + i) * 2)

    @pytest.mark.hostcuda_modes
    def test_a_ring(self, whose):
        ring = [stream(whose), nd.Stream("cuda"), nd.default_stream("cuda"), nd.Stream("cuda")]
        x = nd.asarray(A, device="cuda")
        for i in range(12):
            with ring[i % 4]:
                x *= 2
                x -= i
        expected = A.copy()
        for i in range(12):
            expected = expected * 2 - i
        np.testing.assert_array_equal(host(x), expected)

    @pytest.mark.hostcuda_modes
    @pytest.mark.parametrize("all_of_it", [False, True])
    def test_the_last_owner_waits_for_the_copy_that_another_made(self, whose, all_of_it):
        s = stream(whose)
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        y = x.copy()
        with s:  # y moves: s reads the memory of both
            if all_of_it:
                y += 1
            else:
                y[0] = 5.0
        assert not nd.is_shared(x)
        with nd.Stream("cuda") as writer:
            x[...] = -1.0
        writer.synchronize()
        np.testing.assert_array_equal(host(y)[1:], A[1:] + all_of_it)

    @pytest.mark.hostcuda_modes("lazy", "reverse", "random:1")
    def test_from_another_thread(self, whose):
        s = stream(whose)
        x = nd.asarray(A, device="cuda")

        def there():
            with s:
                return x + 1

        y = in_thread(there)
        with nd.Stream("cuda"):
            x[...] = -1.0
        np.testing.assert_array_equal(host(y * 2), (A + 1) * 2)


class TestWaits:
    """Waits that there must not be: they cost time, and order what was to be done at the same time."""

    def test_none_on_one_stream(self):
        with nd.Stream("cuda"):
            x = nd.zeros(100, device="cuda")
            with waits() as found:
                y = x + 1
                x += y
                del y
                x *= 2
        assert found == []

    def test_none_of_reads_for_reads(self):
        x = nd.zeros(100, device="cuda")
        s, t = nd.Stream("cuda"), nd.Stream("cuda")
        with s:
            x + 1
        with t:
            x + 1
        with waits() as found, s:
            x + 1
        assert found == []

    def test_one_for_each_stream_that_was_not_waited_for(self):
        s = nd.Stream("cuda")
        x, y = nd.zeros(100, device="cuda"), nd.zeros(100, device="cuda")
        with waits() as found, s:
            x + y
            y + x
        assert len(found) == 1
        x += 1
        with waits() as found, s:
            x + y
        assert len(found) == 1

    @pytest.mark.parametrize("whose", ["ours", "cuda.core"])
    def test_none_for_what_is_known_to_be_done(self, whose):
        s = stream(whose)
        with s:
            x = nd.zeros(100, device="cuda")
        s.synchronize()
        with waits() as found:
            x + 1
        assert found == []
        with s:
            x += 1
        assert s.done
        with waits() as found:
            x + 1
        assert found == []

    def test_none_after_the_device_was_waited_for(self):
        with nd.Stream("cuda"):
            x = nd.zeros(100, device="cuda")
        nd.synchronize("cuda")
        with waits() as found:
            x + 1
        assert found == []

    def test_none_after_an_event_or_a_stream_was_waited_for(self):
        s, t = nd.Stream("cuda"), nd.Stream("cuda")
        with s:
            x = nd.zeros(100, device="cuda")
        t.wait(s)
        with waits() as found, t:
            x + 1
        assert found == []
        with s:
            x += 1
        t.wait(s.record())
        with waits() as found, t:
            x + 1
        assert found == []

    def test_many_streams_are_forgotten_but_not_their_work(self, hostcuda):
        x = nd.asarray(A, device="cuda")
        with hostcuda.option(**{"async": "reverse"}):
            for _ in range(150):
                with nd.Stream("cuda"):
                    x += 1
                y = x * 1
            np.testing.assert_array_equal(host(y), A + 150)
        assert len(nd.default_stream("cuda")._waited) <= 64


# ---- streams that are not ours ---------------------------------------------------------------------------------------


class TestForeign:
    @pytest.mark.hostcuda_modes("sync", "lazy", "reverse", "random:1")
    @pytest.mark.parametrize("reuse", [False, True])
    def test_one_that_is_destroyed_is_never_touched_again(self, reuse, hostcuda):
        with hostcuda.option(reuse_streams=reuse):
            x, y = nd.asarray(A, device="cuda"), nd.asarray(A, device="cuda")
            owner = Foreign()
            with nd.Stream.from_handle(owner.handle):
                x += 1
                y + 1
            owner.destroy()
            owner.handle = 0
            others = [nd.Stream("cuda") for _ in range(3)]  # one of which may have its handle
            with others[-1]:
                y[...] = 3.0
                x *= 2
            np.testing.assert_array_equal(host(x), (A + 1) * 2)
            assert set(host(y)) == {3.0}
            del x, y
            nd.synchronize("cuda")

    @pytest.mark.hostcuda_modes("sync", "lazy", "reverse", "random:1")
    def test_one_with_the_handle_of_another_is_not_taken_for_it(self, hostcuda):
        with hostcuda.option(reuse_streams=True):
            x = nd.asarray(A, device="cuda")
            first = Foreign()
            s = nd.Stream.from_handle(first.handle)
            with s:
                x += 1
            first.destroy()
            second = Foreign()
            same = first.handle == second.handle
            first.handle = 0
            t = nd.Stream.from_handle(second.handle)
            assert same, "or this shows nothing"
            assert t is not s
            with t:
                x *= 2
            np.testing.assert_array_equal(host(x), (A + 1) * 2)

    @pytest.mark.hostcuda_modes("sync", "lazy", "random:1")
    def test_memory_that_was_allocated_there_is_freed_elsewhere(self):
        owner = Foreign()
        with nd.Stream.from_handle(owner.handle):
            x = nd.zeros(1000, device="cuda")
        del x
        owner.destroy()
        owner.handle = 0
        y = nd.ones(1000, device="cuda")
        assert set(host(y)) == {1.0}

    def test_work_of_another_thread_on_its_default_stream_is_waited_for(self, hostcuda):
        x = nd.asarray(A, device="cuda")

        def there():
            nonlocal x
            with nd.Stream.from_handle(2, "cuda"):
                x += 1

        with hostcuda.option(**{"async": "lazy"}):
            nd.synchronize("cuda")
            in_thread(there)  # the thread is gone, and its stream perhaps too
            np.testing.assert_array_equal(host(x), A + 1)


# ---- what comes in ---------------------------------------------------------------------------------------------------


class Given(Producer):
    """Memory of others, or of ours that is given back: made ready, in time, on the stream that is asked for."""

    def __init__(self, memory, stream, capsule=None):
        super().__init__(np.empty(1000), address=memory.address, device=(2, 0))
        self.memory, self.stream, self.given = memory, stream, capsule

    def __dlpack__(self, *, stream=None, **options):
        self.memory.let_wait(1 if stream is None else stream, self.stream.handle)
        return super().__dlpack__(**options) if self.given is None else self.given


class Address:
    """What `device_memory` is, for memory of ours."""

    def __init__(self, capsule, address=None) -> None:
        self.address, self.index, self.pinned = address or peek(capsule).address, 0, []

    write_later, let_wait = device_memory.write_later, device_memory.let_wait

    def __del__(self) -> None:
        with on_device() as cu:
            check(cu.cuCtxSynchronize())
            for pinned in self.pinned:
                check(cu.cuMemFreeHost(int(pinned)))


class TestGoingOut:
    @pytest.mark.hostcuda_modes
    @pytest.mark.parametrize("way", ["dlpack", "address", "interface"])
    def test_who_is_given_memory_may_write_to_it_at_once(self, way):
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        with nd.Stream("cuda"):
            y = x * 2
        there = Foreign() if way == "dlpack" else nd.Stream("cuda")
        if way == "dlpack":
            out = Address(x.__dlpack__(stream=there.handle, max_version=(1, 0)))
        else:
            with there:
                if way == "interface":
                    assert x.__cuda_array_interface__["stream"] == there.handle
                out = Address(x.__dlpack__(stream=-1, max_version=(1, 0)), x.ptr)
        out.write_later(np.full_like(A, -1), there.handle)
        with on_device() as cu:
            check(cu.cuStreamSynchronize(there.handle))
        np.testing.assert_array_equal(host(y), A * 2)

    @pytest.mark.hostcuda_modes("lazy", "reverse")
    def test_who_only_reads_it_does_not_wait_for_others_that_do(self):
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        with nd.Stream("cuda"):
            x * 2
        there = Foreign()
        with waits() as found:
            nd.readonly(x).__dlpack__(stream=there.handle, max_version=(1, 0))
        assert found == []


class TestComingIn:
    @pytest.mark.hostcuda_modes
    def test_memory_of_others_is_ready_on_all_our_streams(self):
        s = nd.Stream("cuda")
        p = Given(written_later(s), s)
        x = nd.from_dlpack(p)
        with nd.Stream("cuda") as reader:
            y = x * 2
        reader.synchronize()
        np.testing.assert_array_equal(host(y), A * 2)

    @pytest.mark.hostcuda_modes
    @pytest.mark.parametrize("asked", [False, True])
    def test_memory_of_ours_is_ready_on_all_our_streams(self, asked):
        x = nd.zeros(1000, device="cuda")
        s = nd.Stream("cuda")
        capsule = x.__dlpack__(stream=s.handle, max_version=(1, 0))
        there = Address(capsule)
        there.write_later(A, s.handle)
        if not asked:
            there.let_wait(1, s.handle)  # as is right for a capsule that the user is given
        z = nd.from_dlpack(Given(there, s, capsule) if asked else capsule)
        assert nd.shares_memory(x, z)
        with nd.Stream("cuda") as reader:
            y = z * 2
        reader.synchronize()
        np.testing.assert_array_equal(host(y), A * 2)

    @pytest.mark.hostcuda_modes
    def test_what_is_ready_on_the_default_stream_is_ready_on_the_current_one(self):
        s = nd.Stream("cuda")
        p = Given(written_later(s), s)
        capsule = p.__dlpack__(max_version=(1, 0))
        with nd.Stream("cuda") as here:
            x = nd.from_dlpack(capsule)
            y = x * 2
        here.synchronize()
        np.testing.assert_array_equal(host(y), A * 2)

    @pytest.mark.hostcuda_modes
    def test_memory_of_ours_that_comes_home_is_still_in_use(self):
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        with nd.Stream("cuda"):
            y = x * 2
        z = nd.from_dlpack(x.__dlpack__(stream=-1, max_version=(1, 0)))
        with nd.Stream("cuda") as writer:
            z[...] = -1.0
        writer.synchronize()
        np.testing.assert_array_equal(host(y), A * 2)


# ---- waiting, and events ---------------------------------------------------------------------------------------------


def written_later(s):
    """Return memory that is written on a stream of ours by someone who tells nobody."""
    memory = device_memory(A.nbytes)
    memory.write_now(np.zeros_like(A))
    memory.write_later(A, s.handle)
    return memory


class TestWaiting:
    @pytest.mark.hostcuda_modes
    def test_for_a_stream(self):
        s, t = nd.Stream("cuda"), nd.Stream("cuda")
        memory = written_later(s)
        t.wait(s)
        np.testing.assert_array_equal(memory.read(t.handle).view(A.dtype), A)

    @pytest.mark.hostcuda_modes
    def test_for_a_stream_of_others(self):
        owner, t = Foreign(), nd.Stream("cuda")
        memory = written_later(owner)
        t.wait(owner)
        np.testing.assert_array_equal(memory.read(t.handle).view(A.dtype), A)

    @pytest.mark.hostcuda_modes
    def test_for_an_event(self):
        s, t = nd.Stream("cuda"), nd.Stream("cuda")
        memory = written_later(s)
        event = s.record()
        t.wait(event)
        np.testing.assert_array_equal(memory.read(t.handle).view(A.dtype), A)
        assert event.done

    @pytest.mark.hostcuda_modes
    def test_on_the_host(self):
        s = nd.Stream("cuda")
        memory, other = written_later(s), nd.Stream("cuda")
        event = nd.Event().record(s)
        event.synchronize()
        assert event.done
        np.testing.assert_array_equal(memory.read(other.handle).view(A.dtype), A)
        second = written_later(s)
        s.synchronize()
        np.testing.assert_array_equal(second.read(other.handle).view(A.dtype), A)

    @pytest.mark.hostcuda_modes
    def test_for_all_of_a_device(self):
        s, t = nd.Stream("cuda"), Foreign()
        memory, other = written_later(s), written_later(t)
        nd.synchronize("cuda")
        reader = nd.Stream("cuda")
        np.testing.assert_array_equal(memory.read(reader.handle).view(A.dtype), A)
        np.testing.assert_array_equal(other.read(reader.handle).view(A.dtype), A)


class TestEvents:
    def test_what_is_not_recorded(self):
        event = nd.Event(timing=True)
        assert event.done
        assert "not recorded" in repr(event)
        event.synchronize()
        nd.Stream("cuda").wait(event)
        with pytest.raises(RuntimeError, match="never recorded"):
            event.elapsed_time(event)

    def test_times(self):
        s = nd.Stream("cuda")
        start, end = nd.Event(timing=True).record(s), nd.Event(timing=True)
        with s:
            nd.zeros(1000, device="cuda")
        s.record(end)
        assert 0 <= start.elapsed_time(end) < 60_000
        assert end - start == start.elapsed_time(end)
        assert start.done
        assert end.done

    def test_times_wait(self, hostcuda):
        with hostcuda.option(**{"async": "lazy"}):
            s = nd.Stream("cuda")
            start = s.record(nd.Event(timing=True))
            end = s.record(nd.Event(timing=True))
            assert end - start >= 0

    def test_times_that_there_are_not(self):
        s = nd.Stream("cuda")
        plain, timed = s.record(), s.record(nd.Event(timing=True))
        for a, b in ((plain, timed), (timed, plain)):
            with pytest.raises(ValueError, match="timing=True"):
                a.elapsed_time(b)
        there = nd.Stream("cuda:1").record(nd.Event(timing=True))
        with pytest.raises(ValueError, match="different devices"):
            timed.elapsed_time(there)
        with pytest.raises(TypeError):
            timed - 3
        with pytest.raises(ValueError, match="recorded on cuda:0 before"):
            timed.record(nd.Stream("cuda:1"))

    def test_one_stands_for_the_last_record(self, hostcuda):
        with hostcuda.option(**{"async": "lazy"}):
            s = nd.Stream("cuda")
            event = s.record()
            event.synchronize()
            written_later(s)
            assert event.record(s) is event
            assert not event.done

    def test_they_end(self, hostcuda):
        before = hostcuda.stats()["events"]
        events = [nd.Stream("cuda").record() for _ in range(10)]
        assert hostcuda.stats()["events"] == before + 10
        del events
        nd.synchronize("cuda")
        assert hostcuda.stats()["events"] <= before


# ---- several devices -------------------------------------------------------------------------------------------------


def current_device():
    from cuda.bindings import driver as cu

    error, device = cu.cuCtxGetDevice()
    return None if error else int(device)


class TestDevices:
    @pytest.mark.hostcuda_modes("sync", "lazy", "reverse", "random:1", "random:2")
    def test_each_operation_with_the_other_device_current(self):
        gc.collect()
        before = nd.memory_info("cuda").bytes
        with on_device(1):
            x = nd.asarray(A, device="cuda")
            assert current_device() == 1
            with nd.Stream("cuda"):
                y = x + 1
            y *= 2
            assert current_device() == 1
            np.testing.assert_array_equal(host(y), (A + 1) * 2)
            z = y.copy()
            z[0] = 5
            assert float(z[0]) == 5
            assert nd.from_dlpack(z).device == "cuda"
            del x, y, z
            nd.synchronize("cuda")
            nd.release_cached_memory("cuda")
            assert nd.memory_info("cuda").bytes == before
            s = nd.Stream("cuda")
            s.wait(s.record())
            s.wait(nd.Stream("cuda:1"))
            s.synchronize()
            assert s.done
            assert current_device() == 1

    def test_a_thread_without_a_context_stays_so(self):
        def work():
            before = current_device()
            x = nd.asarray(A, device="cuda:1")
            with nd.Stream("cuda:1"):
                x += 1
            found = host(x)
            nd.synchronize("cuda:1")
            return before, current_device(), found

        before, after, found = in_thread(work)
        assert before is after is None
        np.testing.assert_array_equal(found, A + 1)

    @pytest.mark.hostcuda_modes
    def test_a_copy_between_devices_waits_on_both(self):
        s, t = nd.Stream("cuda"), nd.Stream("cuda:1")
        x = nd.asarray(A, device="cuda")
        with s:
            x += 1
        with t:
            y = x.to_device("cuda:1")
        with nd.Stream("cuda"):
            x[...] = -1.0  # waits for the copy
        y += 1  # on the default stream there
        np.testing.assert_array_equal(host(y), A + 2)
        assert set(host(x)) == {-1.0}

    @pytest.mark.hostcuda_modes("sync", "lazy", "reverse")
    def test_the_source_of_a_copy_between_devices_lives_until_it_is_done(self):
        x = nd.asarray(A, device="cuda")
        nd.synchronize("cuda")
        with nd.Stream("cuda:1"):
            y = x.to_device("cuda:1")
        del x
        for _ in range(3):
            z = nd.full(A.shape, -1.0, device="cuda")
            nd.synchronize("cuda")
        np.testing.assert_array_equal(host(y), A)
        del z

    def test_between_devices_only_peer_copies(self, hostcuda):
        x = nd.asarray(A.reshape(10, 100), device="cuda").T
        before = hostcuda.stats()
        y = x.to_device("cuda:1")
        after = hostcuda.stats()
        assert (after["p2p"] - before["p2p"], after["d2h"] - before["d2h"]) == (1, 0)
        np.testing.assert_array_equal(host(y), A.reshape(10, 100).T)
        assert nd.zeros((0, 3), device="cuda").to_device("cuda:1").shape == (0, 3)

    def test_a_stream_of_the_other_device_is_refused(self):
        x = nd.zeros(3, device="cuda")
        with pytest.raises(ValueError, match="cuda:1, and cannot be used with cuda:0"):
            x.to_device("cpu", stream=nd.Stream("cuda:1"))


# ---- capture ---------------------------------------------------------------------------------------------------------


class captured:
    """Take down what is put into a stream as a graph, which can be launched."""

    def __init__(self, s: nd.Stream, mode: str = "GLOBAL") -> None:
        self.stream, self.mode = s, mode

    def __enter__(self):
        with on_device() as cu:
            mode = getattr(cu.CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{self.mode}")
            check(cu.cuStreamBeginCapture(self.stream.handle, mode))
        self.stream.__enter__()
        return self

    def __exit__(self, *exc_info):
        self.stream.__exit__(*exc_info)
        with on_device() as cu:
            self.graph = check(cu.cuStreamEndCapture(self.stream.handle))

    def launch(self, s: nd.Stream) -> None:
        with on_device() as cu:
            executable = check(cu.cuGraphInstantiate(self.graph, 0))
            check(cu.cuGraphLaunch(executable, s.handle))
            check(cu.cuGraphExecDestroy(executable))

    def __del__(self):
        with on_device() as cu:
            check(cu.cuGraphDestroy(self.graph))


@pytest.fixture
def ready():
    """Arrays whose memory is theirs alone and known to be ready, and the kernels that the tests use."""
    x, y = nd.asarray(A, device="cuda"), nd.zeros(1000, device="cuda")
    nd.add(x, x, out=y)
    nd.multiply(x, x, out=y)
    y[...] = 0.0
    nd.synchronize("cuda")
    return x, y


@pytest.mark.parametrize("mode", ["GLOBAL", "THREAD_LOCAL", "RELAXED"])
class TestCapture:
    @pytest.mark.parametrize("whose", ["ours", "cuda.core"])
    @pytest.mark.hostcuda_modes("sync", "lazy", "reverse")
    def test_it_is_replayed(self, mode, whose, ready):
        x, y = ready
        s = stream(whose)
        with captured(s, mode) as graph:
            nd.add(x, x, out=y)
            nd.multiply(y, y, out=y)
        s.synchronize()
        assert set(host(y)) == {0.0}, "nothing is done while it is taken down"
        for _ in range(2):
            y[...] = 7.0
            s.wait(nd.default_stream("cuda"))
            graph.launch(s)
            s.synchronize()
            np.testing.assert_array_equal(host(y), (2 * A) ** 2)

    @pytest.mark.hostcuda_modes("sync", "lazy")
    def test_two_streams_in_one(self, mode, ready):
        x, y = ready
        s, t = nd.Stream("cuda"), nd.Stream("cuda")
        with captured(s, mode) as graph:
            nd.add(x, x, out=y)
            t.wait(s)
            with t:
                nd.multiply(y, y, out=y)  # waits for s within the capture
            nd.add(y, x, out=y)
        graph.launch(s)
        s.synchronize()
        np.testing.assert_array_equal(host(y), (2 * A) ** 2 + A)
        with waits() as found, t:
            y + x
        assert not found, "what was captured is not work that t could wait for"

    def test_to_wait_in_a_capture_is_not_to_have_waited(self, mode, ready, hostcuda):
        x, y = ready
        z = nd.zeros(1000, device="cuda")
        s, t = nd.Stream("cuda"), nd.Stream("cuda")
        nd.synchronize("cuda")
        with hostcuda.option(**{"async": "lazy"}):
            with s:
                nd.add(x, x, out=y)
            with captured(s, mode):
                t.wait(s)
                s.wait(t)
            with t:
                nd.add(y, x, out=z)
            t.synchronize()
            np.testing.assert_array_equal(host(z), 3 * A)

    def test_what_allocates_is_refused(self, mode, ready):
        x, y = ready
        s = nd.Stream("cuda")
        with captured(s, mode) as graph:
            for operation in (
                lambda: x + 1,
                lambda: nd.zeros(3, device="cuda"),
                lambda: nd.empty(3, device="cuda_host"),
                lambda: x.to_device("cuda_host"),
            ):
                with pytest.raises(RuntimeError, match=r"allocate.*materialize"):
                    operation()
            nd.add(x, x, out=y)
        graph.launch(s)
        s.synchronize()
        np.testing.assert_array_equal(host(y), 2 * A)

    def test_what_splits_is_refused(self, mode, ready):
        x, _ = ready
        y = x.copy()
        s = nd.Stream("cuda")
        with captured(s, mode):
            with pytest.raises(RuntimeError, match="materialize"):
                y += 1
            assert nd.is_shared(x)
        nd.materialize(y)
        with captured(s, mode) as graph:
            nd.add(y, y, out=y)
        graph.launch(s)
        s.synchronize()
        np.testing.assert_array_equal(host(y), 2 * A)

    def test_what_waits_is_refused(self, mode, ready, hostcuda):
        x, y = ready
        s = nd.Stream("cuda")
        with captured(s, mode) as graph:
            for operation in (
                lambda: host(x),
                lambda: float(x[0]),
                lambda: nd.synchronize("cuda"),
                s.synchronize,
                lambda: nd.release_cached_memory("cuda"),
                lambda: y.__setitem__(..., np.zeros(1000)),
            ):
                with pytest.raises(RuntimeError, match=r"captured.*synchronize"):
                    operation()
            nd.add(x, x, out=y)
        graph.launch(s)
        s.synchronize()
        np.testing.assert_array_equal(host(y), 2 * A)

    def test_what_waits_for_work_outside_is_refused(self, mode, ready, hostcuda):
        x, y = ready
        s, other = nd.Stream("cuda"), nd.Stream("cuda")
        with hostcuda.option(**{"async": "lazy"}):
            with other:
                x *= 2
                x *= 2
                x *= 2
            with captured(s, mode), pytest.raises(RuntimeError, match="synchronize"):
                nd.add(x, x, out=y)
            other.synchronize()
            with captured(s, mode) as graph:
                nd.add(x, x, out=y)
            graph.launch(s)
            s.synchronize()
        np.testing.assert_array_equal(host(y), 16 * A)

    def test_work_outside_that_is_done_is_not_waited_for(self, mode, ready):
        x, y = ready
        s, other = nd.Stream("cuda"), nd.Stream("cuda")
        with other:
            x *= 2
        with captured(s, mode) as graph:
            nd.add(x, x, out=y)
        graph.launch(s)
        s.synchronize()
        np.testing.assert_array_equal(host(y), 4 * A)

    def test_work_outside_does_not_wait_for_a_capture(self, mode, ready):
        x, y = ready
        s = nd.Stream("cuda")
        with captured(s, mode) as graph:
            nd.add(x, x, out=y)
            with nd.Stream("cuda"), pytest.raises(RuntimeError, match="captured"):
                nd.add(x, y, out=x)
        graph.launch(s)
        s.synchronize()
        np.testing.assert_array_equal(host(y), 2 * A)

    def test_what_nobody_has_is_given_back_after_it(self, mode, ready, hostcuda):
        x, y = ready
        s, z = nd.Stream("cuda"), nd.zeros(1000, device="cuda")
        nd.synchronize("cuda")
        before = hostcuda.stats()["live"]
        with captured(s, mode):
            del z
            nd.add(x, x, out=y)
            gc.collect()
            assert hostcuda.stats()["live"] == before
        nd.synchronize("cuda")
        assert hostcuda.stats()["live"] == before - 1

    def test_another_threads_capture_is_not_broken(self, mode, ready):
        # In the global mode no thread may allocate, or ask what is done, by the ordinary calls.
        x, y = ready
        s = nd.Stream("cuda")

        def there():
            nd.zeros(10, device="cuda").__dlpack__()  # what was exported is given back behind all work
            z = nd.zeros(1000, device="cuda") + 1
            found = host(z)
            w = nd.asarray(found, device="cuda_host")
            return found + host(w)

        with captured(s, mode) as graph:
            nd.add(x, x, out=y)
            if mode != "GLOBAL":
                assert set(in_thread(there)) == {2.0}
        graph.launch(s)
        s.synchronize()
        np.testing.assert_array_equal(host(y), 2 * A)


def test_a_lack_of_memory_breaks_no_capture(hostcuda, cuda):
    s, x = nd.Stream(cuda), nd.zeros(3, device=cuda)
    found = []

    def there():
        hostcuda.fail_alloc(1, 0)
        try:
            nd.zeros(1000, device=cuda)
        except MemoryError as error:
            found.append(str(error))
        hostcuda.clear_fail_alloc()

    with captured(s, "RELAXED") as graph:
        nd.add(x, 1, out=x)
        in_thread(there)
    assert len(found) == 1
    graph.launch(s)
    s.synchronize()
    assert x.tolist() == [1, 1, 1]


def test_an_invalidated_capture_is_said_to_be_one(hostcuda):
    s = nd.Stream("cuda")
    with on_device() as cu:
        check(cu.cuStreamBeginCapture(s.handle, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        cu.cuStreamSynchronize(s.handle)  # which breaks it
        with s, pytest.raises(RuntimeError, match="captured"):
            nd.zeros(3, device="cuda")
        cu.cuStreamEndCapture(s.handle)


# ---- streams in the arguments of others ------------------------------------------------------------------------------


class TestElsewhere:
    @pytest.mark.hostcuda_modes("lazy", "reverse")
    @pytest.mark.parametrize("whose", ELSEWHERE)
    def test_to_device(self, whose):
        s = stream(whose)
        x = nd.asarray(A, device="cuda")
        with nd.Stream("cuda"):
            x += 1
        found = x.to_device("cpu", stream=s)
        np.testing.assert_array_equal(found, A + 1)
        there = x.to_device("cuda:1", stream=nd.Stream("cuda:1"))
        np.testing.assert_array_equal(host(there), A + 1)
        back = nd.asarray(A, device="cpu").to_device("cuda", stream=s)
        np.testing.assert_array_equal(host(back + 0), A)

    def test_to_device_by_a_handle(self):
        s = nd.Stream("cuda")
        x = nd.asarray(A, device="cuda")
        for number in (1, 2, -1, s.handle):
            np.testing.assert_array_equal(x.to_device("cpu", stream=number), A)
        with pytest.raises(ValueError, match="stream is 0"):
            x.to_device("cpu", stream=0)

    def test_the_stream_of_cuda_core(self):
        from cuda.core import Device

        s = nd.Stream("cuda")
        assert int(s.core.handle) == s.handle
        assert s.core is s.core
        with on_device():
            Device(0).set_current()
            assert Device(0).create_stream(s).handle == s.core.handle


# ---- availability ----------------------------------------------------------------------------------------------------


def test_what_is_available():
    assert [nd.is_available(name) for name in ("cpu", "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda_host")] == [
        True,
        True,
        True,
        True,
        False,
        True,
    ]
    assert nd.is_available()
    with pytest.raises(ValueError, match="no device named"):
        nd.is_available("tape")


def test_streams_module_lists_what_it_has():
    assert all(hasattr(streams, name) for name in streams.__all__)
