"""Memory lives as long as someone has it and no longer, counted by blocks, leases and exports."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import native
from nbdlpack.conformance.header import IS_COPIED
from nbdlpack.conformance.producers import Tensor
from nbdlpack.dlpack import ReadOnlyTensorWrapper
from nbdlpack.native import memory
from tests.memory.native_threads import Mutex, Thread, threads
from tests.memory.tools import (
    LEGACY,
    VERSIONED,
    Producer,
    address,
    delete,
    exports,
    leases,
    numbers,
    optional,
    report,
    settled,
    state,
    succeeds,
    take,
    values,
    wait_for,
)

LEAK = 1 << 20
"""Bytes of resident memory by which a loop may grow: a thousandth of what a leak of one object each time would be."""


def leaks(n: int, timeout: float) -> dict[str, Any]:
    program = "import sys; from tests.memory import loops; loops.main(int(sys.argv[1]))"
    found = report(program, n, timeout=timeout, NBDLPACK_COUNT_BLOCKS="1")
    assert len(found) > 60
    return {name: outcome for name, outcome in found.items() if outcome["changed"] or outcome["rss"] > LEAK}


def exported_blocks() -> list[int]:
    """Return the table of exported blocks, by which memory is recognised when it comes home."""
    return native.world.table[: native.world.n]


def block_of(x: Any) -> int:
    return memory.Storage.from_address(state(x).storage).lease.contents.block


def test_exported_blocks_at_one_address_are_told_apart():
    """As copies are that come in from one place; whichever ends, the others stay in the table, and it does not."""
    before = exported_blocks()
    tensor = Tensor(np.arange(4.0), flags=IS_COPIED)
    arrays = [nd.from_dlpack(tensor.capsule()) for _ in range(6)]
    exports = [x.__dlpack__() for x in arrays]
    for i in (0, 0, 2, 1, 1, 0):
        left = [block_of(x) for x in arrays]
        assert sorted(left) == sorted(set(exported_blocks()) - set(before))
        del arrays[i], exports[i]
    assert exported_blocks() == before
    tensor.drop()
    assert tensor.deleted == 6


def test_memory_without_bytes_is_recognised_by_no_address(device):
    """On GPUs all of it is at the address 0."""
    before = exported_blocks()
    arrays = [nd.empty(0, device=device) for _ in range(3)]
    exports = [x.__dlpack__() for x in arrays]
    assert exported_blocks() == before
    del arrays, exports
    assert exported_blocks() == before


def test_loops_leave_no_trace():
    assert leaks(100_000, 600) == {}


@pytest.mark.slow
def test_a_million_loops_leave_no_trace():
    assert leaks(1_000_000, 3600) == {}


@pytest.mark.slow
def test_counts_stay_right_after_many_millions_of_exports():
    # More writable exports than the upper half of a 64-bit count has room for beside its bias, some of them live.
    x = nd.zeros(3)
    writer, reader = np.from_dlpack(x), np.from_dlpack(nd.readonly(x))
    for _ in range((1 << 24) + 100):
        x.__dlpack__()
    assert exports(x) == (2, 1)
    del writer, reader
    assert exports(x) == (0, 0)
    assert nd.is_shared(x.copy())


def test_loops_leave_no_trace_where_python_checks_its_memory():
    # https://docs.python.org/3/library/devmode.html: freed memory is overwritten, and its use found
    program = "import sys; from tests.memory import loops; loops.main(int(sys.argv[1]))"
    found = report(program, 300, NBDLPACK_COUNT_BLOCKS="1", PYTHONMALLOC="debug", MALLOC_PERTURB_="165")
    assert {name: outcome["changed"] for name, outcome in found.items() if outcome["changed"]} == {}


# ---- capsules --------------------------------------------------------------------------------------------------------


class TestCapsules:
    @pytest.mark.parametrize("versioned", [True, False])
    def test_unconsumed(self, versioned):
        # https://github.com/pytorch/pytorch/issues/9297: a capsule that nobody consumed was leaked
        x = numbers()
        before = settled()
        capsule = x.__dlpack__(max_version=(1, 0) if versioned else None)
        assert exports(x) == (1, 1)
        dead = weakref.ref(x)
        del x
        assert dead() is None
        assert settled().blocks == before.blocks
        del capsule
        assert settled().blocks == before.blocks - 1

    @pytest.mark.parametrize("versioned", [True, False])
    def test_consumed_and_dropped(self, versioned):
        # https://github.com/pytorch/pytorch/issues/9260: the capsule freed what a consumer had taken
        x = numbers()
        capsule = x.__dlpack__(max_version=(1, 0) if versioned else None)
        h = nd.from_dlpack(capsule)
        assert exports(x) == (0, 0), "it has come home"
        del capsule
        assert exports(x) == (0, 0)
        assert values(h) == values(x)

    @pytest.mark.parametrize("versioned", [True, False])
    def test_consumed_twice(self, versioned):
        x = numbers()
        capsule = x.__dlpack__(max_version=(1, 0) if versioned else None)
        nd.from_dlpack(capsule)
        for _ in range(3):
            with pytest.raises(ValueError, match="consumed"):
                nd.from_dlpack(capsule)
        assert exports(x) == (0, 0)

    def test_consumed_by_two(self):
        x = numbers()
        capsule = x.__dlpack__()
        t = optional("torch").from_dlpack(capsule)
        with pytest.raises(ValueError, match="consumed"):
            nd.from_dlpack(capsule)
        assert exports(x) == (1, 1)
        del t
        assert exports(x) == (0, 0)

    @pytest.mark.parametrize("versioned", [True, False])
    def test_an_imported_tensor_is_deleted_once_by_the_last_who_has_it(self, versioned):
        # https://github.com/cupy/cupy/issues/1445: it never was
        p = Producer(versioned=versioned)
        x = nd.from_dlpack(p)
        n = np.from_dlpack(nd.readonly(x))
        v = x[1:]
        del x
        assert p.deleted == []
        del v
        assert p.deleted == []
        del n
        nd.empty(1)  # a foreign deleter may need Python, so it waits for somebody with the GIL
        assert p.deleted == [ctypes.addressof(p.managed)]

    @pytest.mark.parametrize("versioned", [True, False])
    @pytest.mark.parametrize(
        "fields",
        [
            {"ndim": -1},
            {"ndim": 65},
            {"ndim": 1 << 30},
            {"shape": 0},
            {"data": 0},
            {"lanes": 2},
            {"bits": 4},
            {"code": 99},
            {"device_type": 99},
            {"device_type": -1},
            {"device_type": 10},
        ],
        ids=str,
    )
    def test_malformed(self, fields, versioned):
        p = Producer(versioned=versioned, **fields)
        for _ in range(2):
            capsule = p.capsule()
            with pytest.raises(BufferError):
                nd.from_dlpack(capsule)
            del capsule
        assert p.deleted == [], "a refused capsule is still its producer's"
        with pytest.raises(BufferError):
            nd.from_dlpack(p)
        assert p.deleted == []

    @pytest.mark.parametrize(("shape", "stride"), [(-1, 1), (1 << 62, 1), (4, 1 << 61), (4, -(1 << 63))])
    def test_a_malformed_shape(self, shape, stride):
        p = Producer()
        p.shape[0], p.strides[0] = shape, stride
        with pytest.raises(BufferError):
            nd.from_dlpack(p)
        assert p.deleted == []

    def test_another_major_version_is_not_looked_at(self):
        p = Producer(major=2, shape=1, strides=1, data=1, ndim=1 << 20)
        with pytest.raises(BufferError, match="version"):
            nd.from_dlpack(p)
        assert p.deleted == []

    @pytest.mark.parametrize("versioned", [True, False])
    def test_without_a_deleter(self, versioned):
        # https://github.com/dmlc/dlpack/issues/51
        p = Producer(versioned=versioned, deleter=0)
        assert values(nd.from_dlpack(p)) == [0, 1, 2, 3]

    def test_the_error_of_the_moment_survives_a_dying_capsule(self):
        # https://github.com/PaddlePaddle/Paddle/issues/50120: a capsule's destructor left an error of its own
        x = numbers()

        def fail(*arguments: object) -> None:
            raise AssertionError

        for make in (lambda: x.__dlpack__(), lambda: x.__dlpack__(max_version=(1, 0)), lambda: numbers().__dlpack__()):
            with pytest.raises(ZeroDivisionError):
                fail(make(), 1 / 0)

    def test_the_error_of_the_moment_survives_a_foreign_deleter(self):
        # An import that dies while an exception goes through: its deleter is Python, and may not see that exception.
        program = """
from tests.memory.tools import Producer
import nbdlpack as nd
p = Producer()
def never(*arguments): raise AssertionError
for i in range(3):
    try:
        never(nd.from_dlpack(p), 1 / 0)
    except ZeroDivisionError:
        print(len(p.deleted))
"""
        assert succeeds(program).split() == ["1", "2", "3"]

    def test_a_deleter_that_raises(self):
        program = """
import ctypes, sys
from tests.memory.tools import Producer
import nbdlpack as nd
def deleter(managed): raise KeyError(managed)
keep = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)
said = []
sys.unraisablehook = lambda what: said.append(what.exc_type)
x = nd.from_dlpack(Producer(deleter=ctypes.cast(keep, ctypes.c_void_p).value))
del x
assert said == [KeyError], said
"""
        succeeds(program)


# ---- deleters anywhere -----------------------------------------------------------------------------------------------


class Owner:
    """A Python object that owns memory."""

    def __init__(self, n: int = 4) -> None:
        self.a = np.arange(float(n))

    def array(self, foreign: int = 1) -> Any:
        a = self.a
        return nd.ndarray._wrap(self, a.ctypes.data, (1, 0), a.nbytes, foreign, a.dtype, 0, a.shape, (1,))


def own() -> tuple[Any, Any]:
    return numbers(4), None


def of_an_owner() -> tuple[Any, Any]:
    owner = Owner()
    return owner.array(), weakref.ref(owner)


def of_numpy() -> tuple[Any, Any]:
    a = np.arange(4.0)
    return nd.from_dlpack(a), weakref.ref(a)


KINDS = pytest.mark.parametrize("make", [own, of_an_owner, of_numpy])


class TestThreadsThatPythonNeverSaw:
    @KINDS
    @pytest.mark.parametrize("name", [VERSIONED])
    def test_they_call_deleters(self, make, name):
        # https://github.com/numpy/numpy/issues/22507: the deleter ran Python without the GIL
        x, _ = make()
        managed = [take(x, name) for _ in range(1000)]
        assert exports(x) == (1000, 1000)
        Thread(managed).join()
        assert exports(x) == (0, 0)
        assert leases(x) == 1

    @KINDS
    def test_they_drop_the_last_that_keeps_memory(self, make):
        before = settled()
        x, owner = make()
        managed = take(x)
        del x
        assert owner is None or owner() is not None
        thread = Thread([managed])
        thread.join()
        if owner is None:
            assert native.world.blocks == before.blocks, "our own memory is freed there and then"
        else:
            assert wait_for(lambda: owner() is None), "by a pending call of the main thread"
        assert settled() == before

    @KINDS
    def test_one_of_them_holds_a_mutex_that_the_thread_with_the_gil_waits_for(self, make):
        before = settled()
        x, owner = make()
        managed = [take(x) for _ in range(50)]
        del x
        mutex = Mutex()
        thread = Thread(managed, mutex, delay=30_000)
        thread.wait_until_ready()
        with mutex:  # which is a deadlock if a deleter asks for the GIL
            pass
        thread.join()
        if owner is None:
            assert native.world.blocks == before.blocks
        else:
            assert wait_for(lambda: owner() is None)
        assert settled() == before

    @KINDS
    @pytest.mark.parametrize("n", [5000, pytest.param(100_000, marks=pytest.mark.slow)])
    def test_many_drop_while_this_one_exports_copies_and_moves(self, make, n):
        x, _ = make()
        managed = [[take(x) for _ in range(n)] for _ in range(4)]
        assert exports(x) == (4 * n, 4 * n)
        with threads(*managed):
            for _ in range(n // 10):
                c = x.copy()
                c[0] = 1
                capsule = x.__dlpack__()
                r = nd.readonly(x).__dlpack__(max_version=(1, 0))
                nd.from_dlpack(np.from_dlpack(x))
                del c, capsule, r
        assert exports(x) == (0, 0)
        assert leases(x) == 1

    def test_many_drop_at_once(self):
        # often enough that two of them really count down at the same moment, on a busy machine too
        x = numbers(4)
        for _ in range(12):
            with threads(*[[take(x) for _ in range(20_000)] for _ in range(4)]):
                pass
            assert exports(x) == (0, 0)
        assert leases(x) == 1

    @KINDS
    @pytest.mark.parametrize("n", [500, pytest.param(20_000, marks=pytest.mark.slow)])
    def test_many_drop_the_last_of_many_arrays(self, make, n):
        before = settled()
        owners, managed, x, q = [], [], None, None
        for _ in range(4):
            batch = []
            for _ in range(n):
                x, owner = make()
                batch.append(take(x))
                owners.append(owner)
            managed.append(batch)
        x = None
        with threads(*managed):
            for _ in range(n // 5):  # the table of exported blocks, and the list of what waits, are in use here too
                q = numbers(4)
                assert nd.from_dlpack(np.from_dlpack(q))._state()[6] == q._state()[6]
        q = None
        assert settled() == before
        assert not any(owner() for owner in owners if owner)

    def test_copies_on_one_block_end_on_four_threads(self):
        x = numbers(4)
        clones = [[x.copy() for _ in range(500)] for _ in range(4)]
        managed = [[take(nd.readonly(c)) for c in batch] for batch in clones]
        assert leases(x) == 2001
        with threads(*managed):
            for i in range(500):
                for batch in clones:
                    batch[i] = None
        assert settled()
        assert leases(x) == 1

    def test_home_coming_against_the_end_of_the_export(self):
        for _ in range(200):
            x = numbers(4)
            managed = [take(nd.readonly(x)) for _ in range(50)]
            n = np.from_dlpack(x)
            with threads(managed):
                for _ in range(20):
                    h = nd.from_dlpack(n)
                    assert state(h).storage == state(x).storage
            assert not nd.from_dlpack(n)._flags
            assert exports(x) == (1, 1)
            del n
            assert exports(x) == (0, 0)

    def test_a_python_thread_ends_what_another_made(self):
        x = numbers()
        hold = [np.from_dlpack(x), x.__dlpack__(), memoryview(x)]
        thread = threading.Thread(target=hold.clear)
        thread.start()
        thread.join()
        assert exports(x) == (0, 0)

    def test_memory_waits_for_python_and_no_longer(self):
        # What a deleter could not release still counts as a lease, so that a write drains it before it looks.
        owner = Owner(8)
        x = owner.array(foreign=0)
        y = x.copy()
        managed = take(nd.readonly(y))
        del y
        home = address(x)

        def work() -> None:  # in a thread for which Python has no pending calls
            threading.Event().wait(0.05)  # until the main thread, which has them, waits for this one
            delete(managed)
            x[0] = 1

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert address(x) == home
        assert leases(x) == 1

    def test_torch_in_threads_without_the_gil(self):
        torch = optional("torch")
        before = settled()
        for _ in range(50):
            t = torch.from_dlpack(nd.ones(1000))
            total = (t * 2).sum()
            del t
            assert total == 2000
        assert settled() == before


# ---- fork ------------------------------------------------------------------------------------------------------------

FORK = """
import os, sys, warnings
import numpy as np, nbdlpack as nd
from tests.memory.tools import state, values, exports, leases
warnings.simplefilter("ignore")
x = nd.array(np.arange(6.0)); y = x.copy(); f = nd.from_dlpack(np.arange(3.0))
n, capsule = np.from_dlpack(nd.readonly(y)), f.__dlpack__()
child = os.fork()
if child == 0:
    x[0] = 1
    f[0] = 2
    assert values(y)[0] == n[0] == 0 and leases(y) == 1
    del n, capsule
    assert exports(y) == (0, 0)
    z = nd.from_dlpack(np.from_dlpack(x))
    z[1] = 5
    assert values(x)[:2] == [1, 5]
    if sys.argv[1] == "_exit":
        os._exit(7)
    sys.exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
assert values(x)[0] == values(y)[0] == n[0] == 0 and values(f)[0] == 0
assert leases(x) == 2 and exports(y) == (1, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("how", ["_exit", "exit"])
def test_fork(how):
    succeeds(FORK, how)


FORK_AMID_A_WRITE = """
import os, signal, threading, warnings
import nbdlpack as nd
warnings.simplefilter("ignore")
x, y = nd.zeros(6), nd.zeros(6)
begun, done = threading.Event(), threading.Event()

def write():
    hold = x._begin_write(0)
    begun.set()
    done.wait()
    x._end_write(hold)

thread = threading.Thread(target=write)
thread.start()
begun.wait()
own = y._begin_write(0)
child = os.fork()
if child == 0:
    signal.alarm(20)
    for _ in range(2):
        x[0] = 1
    y[0] = 1
    y._end_write(own)
    for z in (x, y):
        writer = threading.Thread(target=z.fill, args=(2,))
        writer.start()
        writer.join()
    os._exit(7)
_, status = os.waitpid(child, 0)
done.set()
thread.join()
y._end_write(own)
assert os.waitstatus_to_exitcode(status) == 7, status
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_another_thread_writes():
    succeeds(FORK_AMID_A_WRITE, timeout=60)


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is not installed")
def test_several_libraries_on_one_block():
    torch, tvm_ffi = optional("torch"), optional("tvm_ffi")
    before = settled()
    x = numbers()
    chain = [np.from_dlpack(x), torch.from_dlpack(x), tvm_ffi.from_dlpack(x), memoryview(x)]
    chain.append(torch.from_dlpack(chain[0]))
    chain.append(np.from_dlpack(chain[2]))
    chain.append(nd.from_dlpack(chain[4]))
    del x
    chain[1][0] = 7
    assert {float(np.asarray(m)[0]) for m in (*chain[:2], *chain[3:6])} == {7.0}
    while chain:
        del chain[0]
        gc.collect(0)
    assert settled() == before


def test_a_wrapper_holds_the_object_not_the_memory():
    # it exports anew at each request, so what it shows moves with the array
    x = numbers()
    w = ReadOnlyTensorWrapper(x)
    y = x.copy()
    x[0] = 7
    assert np.from_dlpack(w)[0] == 7
    assert values(y)[0] == 0


@pytest.mark.parametrize("name", [VERSIONED, LEGACY])
def test_the_deleter_is_called_without_the_gil(name):
    x = numbers()
    for _ in range(1000):
        delete(take(x, name), name)
    assert exports(x) == (0, 0)
    assert sys.getrefcount(x) == 2
