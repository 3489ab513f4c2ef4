"""`copy_log` lists every copy of array data that was made; `no_copies` refuses those that nobody asked for by name."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import ctypes
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import native
from nbdlpack.errors import CopyError
from tests.memory.tools import address, leases, moves, numbers, optional, settled, state, values

HERE = __file__

SHARED = "an array that shares its memory with a lazy copy"


def _set(x):
    x[0] = 1


def _masked(x):
    x[np.array([True] * 6)] = 1


# What copies without being asked to by name: what is done to a shared array of six float64, how many bytes, and a word
# of the cause.
IMPLICIT = {
    "x[0] =": (_set, 48, "a write"),
    "x[mask] =": (_masked, 48, "a write"),
    "x[1:] =": (lambda x: x.__setitem__(slice(1, None), 1), 48, "a write"),
    "a view's": (lambda x: x[1:].fill(1), 48, "a write"),
    "out= with where=": (lambda x: np.add(x, 1, out=x, where=np.array([True, False] * 3)), 48, "a write"),
    "add.at": (lambda x: np.add.at(x, [0], 1), 48, "a write"),
    "__dlpack__": (lambda x: x.__dlpack__(), 48, "DLPack"),
    "numpy.from_dlpack": (np.from_dlpack, 48, "DLPack"),
    "torch.from_dlpack": (lambda x: optional("torch").from_dlpack(x), 48, "DLPack"),
    "tvm_ffi.from_dlpack": (lambda x: optional("tvm_ffi").from_dlpack(x), 48, "DLPack"),
    "memoryview": (memoryview, 48, "buffer"),
    "ptr": (lambda x: x.ptr, 48, "address"),
    "__array_interface__": (lambda x: x.__array_interface__, 48, "address"),
    "ctypes": (lambda x: x.ctypes, 48, "address"),
    "reshape": (lambda x: x.reshape(2, 3).T.reshape(6), 48, "reshape"),
    "ravel": (lambda x: x.reshape(2, 3).T.ravel(), 48, "reshape"),
    "ascontiguousarray": (lambda x: nd.ascontiguousarray(x.reshape(2, 3).T), 48, "order"),
    "__array__ of another dtype": (lambda x: x.__array__("f4"), 24, "NumPy"),
}

# What copies because it was asked to by name.
NAMED = {
    "materialize": (nd.materialize, 48, "materialize"),
    "copy of a part": (lambda x: x[1:].copy(), 40, "copy"),
    "copy in another layout": (lambda x: x.reshape(2, 3).copy("F"), 48, "copy"),
    "deepcopy of a part": (lambda x: copy.deepcopy(x[::2]), 24, "copy"),
    "nd.copy of a part": (lambda x: nd.copy(x[1:]), 40, "copy"),
    "array of a part": (lambda x: nd.array(x[1:]), 40, "copy"),
    "__dlpack__(copy=True)": (lambda x: x.__dlpack__(copy=True), 48, "copy=True"),
    "from_dlpack(copy=True)": (lambda x: nd.from_dlpack(x, copy=True), 48, "copy=True"),
    "numpy.from_dlpack(copy=True)": (lambda x: np.from_dlpack(x, copy=True), 48, "copy=True"),
    "reshape(copy=True)": (lambda x: x[1:5].reshape(2, 2, copy=True), 32, "copy"),
    "astype": (lambda x: x.astype("f4"), 24, "astype"),
    "__array__(copy=True)": (lambda x: x.__array__(copy=True), 48, "NumPy"),
}

# What copies no array data from one block to another.
NONE = {
    "a lazy copy": lambda x: x.copy(),
    "deepcopy": copy.deepcopy,
    "overwriting": lambda x: x.__setitem__(..., 1),
    "fill": lambda x: x.fill(1),
    "in place": lambda x: x.__iadd__(1),
    "out=": lambda x: np.add(np.ones(6), 1, out=x),
    "computing": lambda x: (x + x, x.sum(), x[[1, 2]], x[x > 2]),
    "views": lambda x: (x[1:], x.T, x.reshape(2, 3), x.view("i8"), x.real, nd.readonly(x)),
    "reading": lambda x: (repr(x), x.tolist(), bytes(x), float(x[0])),
    "read-only exports": lambda x: (np.from_dlpack(nd.readonly(x)), memoryview(nd.readonly(x)), nd.readonly(x).ptr),
    "making": lambda x: (nd.zeros(6), nd.arange(6), nd.ones_like(x)),
    "importing": lambda x: (nd.from_dlpack(np.arange(6.0)), nd.asarray(np.arange(6.0)), nd.from_dlpack(x)),
    "to_device": lambda x: x.to_device("cpu"),
    "asarray": lambda x: (nd.asarray(x), nd.ascontiguousarray(x)),
}


def listed(table: dict[str, Any]) -> Any:
    return pytest.mark.parametrize(("act", "nbytes", "cause"), table.values(), ids=table)


@listed({**IMPLICIT, **NAMED})
def test_each_copy_is_listed(act, nbytes, cause):
    x = numbers()
    y = x.copy()
    with nd.copy_log() as log:
        act(x)
    (entry,) = log
    assert (entry.nbytes, entry.source, entry.target) == (nbytes, "cpu", "cpu")
    assert cause in entry.cause
    assert entry.asked is ((act, nbytes, cause) in NAMED.values())
    file, _, line = entry.where.rpartition(":")
    assert file == HERE or "torch" in file, "the user's line, or that of another library that asked"
    assert int(line) > 1
    assert str(nbytes) in str(entry)
    assert entry.cause in str(entry)
    assert values(y) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("act", NONE.values(), ids=NONE)
def test_what_copies_nothing_is_not_listed(act):
    x = numbers()
    y = x.copy()
    with nd.copy_log() as log, nd.no_copies():
        act(x)
    assert log == []
    del y


@listed(IMPLICIT)
def test_no_copies_refuses(act, nbytes, cause):
    x = numbers()
    y = x.copy()
    before = state(x), state(y), settled(), moves()
    with nd.no_copies(), pytest.raises(CopyError, match=f"{nbytes} bytes") as caught:
        act(x)
    assert cause in str(caught.value)
    del caught
    assert (state(x), state(y), settled(), moves()) == before
    act(x)


@listed(NAMED)
def test_no_copies_lets_pass_what_was_asked_for_by_name(act, nbytes, cause):
    x = numbers()
    y = x.copy()
    with nd.no_copies(), nd.copy_log() as log:
        act(x)
    assert len(log) == 1
    del y


def test_copies_of_memory_that_others_may_write_to_are_eager_and_listed():
    x = nd.from_dlpack(np.arange(6.0))
    y = numbers()
    n = np.from_dlpack(y)
    with nd.copy_log() as log, nd.no_copies():
        x.copy()
        y.copy()
    assert [entry.nbytes for entry in log] == [48, 48]
    assert all(entry.asked for entry in log)
    del n


def test_who_is_alone_copies_nothing():
    x = numbers()
    with nd.copy_log() as log, nd.no_copies():
        for act, _, _ in list(IMPLICIT.values())[:6]:
            act(x)
    assert log == []


def test_the_line_is_the_users():
    x = numbers()
    y = x.copy()
    with nd.copy_log() as log:
        line = sys._getframe().f_lineno + 1
        x[0] = 1
        x.reshape(2, 3).T.reshape(6)
    assert [entry.where for entry in log] == [f"{HERE}:{line}", f"{HERE}:{line + 1}"]
    del y


def test_a_package_whose_name_begins_alike_is_the_users():
    file = f"{nd.__path__[0]}_tools/write.py"
    x = numbers()
    y = x.copy()
    with nd.copy_log() as log:
        exec(compile("x[0] = 1", file, "exec"), {"x": x})
    assert log[0].where == f"{file}:1"
    del y


def test_logs_nest():
    x, y, z = numbers(), numbers(), numbers()
    keep = x.copy(), y.copy(), z.copy()
    with nd.copy_log() as outer:
        _set(x)
        with nd.copy_log() as inner:
            _set(y)
        _set(z)
    assert (len(outer), len(inner)) == (3, 1)
    assert inner[0] == outer[1]
    del keep


def test_a_log_can_be_read_afterwards_and_grows_no_more():
    x = numbers()
    y = x.copy()
    with nd.copy_log() as log:
        pass
    _set(x)
    assert log == []
    del y


def test_a_log_can_be_entered_again():
    scope = nd.copy_log()
    x, y = numbers(), numbers()
    keep = x.copy(), y.copy()
    with scope as log:
        _set(x)
    with scope as log:
        _set(y)
    assert len(log) == 2
    with scope, scope:
        pass
    assert native.world.watchers == 0
    del keep


def test_after_an_error_nobody_watches():
    x = numbers()
    y = x.copy()
    with pytest.raises(ZeroDivisionError), nd.copy_log() as log, nd.no_copies():
        raise ZeroDivisionError
    assert native.world.watchers == 0
    _set(x)
    assert log == []
    del y


def test_no_copies_in_a_log_is_not_listed():
    x = numbers()
    y = x.copy()
    with nd.copy_log() as log:
        with nd.no_copies(), pytest.raises(CopyError):
            _set(x)
        assert log == []
        _set(x)
    assert len(log) == 1
    del y


def test_a_log_in_no_copies_does_not_permit():
    x = numbers()
    y = x.copy()
    with nd.no_copies(), nd.copy_log() as log, pytest.raises(CopyError):
        _set(x)
    assert log == []
    del y


def test_other_threads_are_not_listened_to():
    x, y = numbers(), numbers()
    keep = x.copy(), y.copy()
    with nd.copy_log() as log, nd.no_copies():
        thread = threading.Thread(target=contextvars.Context().run, args=(_set, x))
        thread.start()
        thread.join()
    assert leases(x) == 1, "it was not refused"
    assert log == []
    del keep


def test_other_contexts_are_not_listened_to():
    x = numbers()
    y = x.copy()
    elsewhere = contextvars.copy_context()
    with nd.copy_log() as log, nd.no_copies():
        elsewhere.run(_set, x)
    assert log == []
    assert leases(y) == 1


def test_tasks_have_logs_of_their_own():
    # https://docs.python.org/3/library/contextvars.html: each task runs in a copy of the context
    async def work(n: int) -> int:
        arrays = [numbers() for _ in range(n)]
        with nd.copy_log() as log:
            for x in arrays:
                y = x.copy()
                await asyncio.sleep(0)
                _set(x)
                await asyncio.sleep(0)
                assert leases(y) == 1
        return len(log)

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(work(n) for n in range(6)))

    assert asyncio.run(all_of_them()) == list(range(6))
    assert native.world.watchers == 0


def test_no_copies_in_one_thread_does_not_hinder_another():
    x = numbers()
    started, finished = threading.Event(), threading.Event()

    def strict() -> None:
        with nd.no_copies():
            started.set()
            finished.wait()

    thread = threading.Thread(target=strict)
    thread.start()
    started.wait()
    y = x.copy()
    _set(x)
    assert leases(y) == 1
    finished.set()
    thread.join()


def test_a_refused_write_leaves_the_storage_unlocked():
    x = numbers()
    y = x.copy()
    with nd.no_copies():
        for _ in range(3):
            with pytest.raises(CopyError):
                _set(x)
    thread = threading.Thread(target=_set, args=(x,))
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert (values(x)[0], values(y)[0]) == (1, 0)


def test_refused_exports_by_other_libraries_name_the_cause():
    x = numbers()
    y = x.copy()
    with nd.no_copies():
        with pytest.raises(CopyError, match="DLPack"):
            np.from_dlpack(x)
        with pytest.raises(CopyError, match="DLPack"):
            optional("tvm_ffi").from_dlpack(x)
        with pytest.raises(CopyError, match="DLPack"):
            optional("torch").from_dlpack(x)
    assert address(x) == address(y)


def test_stats_count_what_was_saved_and_what_was_not():
    before = nd.copy_stats()
    x = nd.zeros(1000)
    y, z = x.copy(), x.copy()
    x[0] = 1
    y[...] = 1
    after = nd.copy_stats()
    assert after.lazy_copies - before.lazy_copies == 2
    assert after.lazy_bytes - before.lazy_bytes == 16000
    assert after.moves - before.moves == 1
    assert after.moved_bytes - before.moved_bytes == 8000
    del z


def test_pickling_out_of_band_copies_nothing():
    # https://peps.python.org/pep-0574/: buffers are passed beside the pickle
    x = numbers()
    buffers: list[pickle.PickleBuffer] = []
    y = x.copy()
    with nd.no_copies(), nd.copy_log() as log:
        data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert log == []
    assert len(data) < 1000
    assert ctypes.string_at(address(x), 48) == bytes(buffers[0])
    del y


def _inside(scope):
    with scope:
        yield


def test_generators_may_leave_in_another_order():
    x = numbers()
    y = x.copy()
    outer, inner = _inside(nd.no_copies()), _inside(nd.copy_log())
    next(outer)
    next(inner)
    outer.close()
    inner.close()
    with nd.copy_log() as log:
        _set(y)
    assert len(log) == 1
    assert native.world.watchers == 0


def test_a_generator_may_leave_in_another_context():
    x = numbers()
    generator, context = _inside(nd.no_copies()), contextvars.copy_context()
    context.run(next, generator)
    generator.close()

    def write():
        y = x.copy()
        with nd.copy_log() as log:
            _set(y)
        return len(log)

    assert context.run(write) == 1
    assert native.world.watchers == 0
