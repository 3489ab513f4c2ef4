"""The rules of memory, a class for each.

A block is one allocation.  A storage is what an array shares with its views, and it has a lease on a block; so has,
through it, every export.  A block with more than one lease is shared.

 1. `x.copy()` copies nothing where x is each byte of its storage once, in the order asked for: it is a new storage with
    a new lease on the block.  Otherwise it is a compact copy in that order.
 2. It never is lazy where someone else may write to the memory: imported memory, a live writable export, an address
    that was given away.
 3. Who writes, or exports for writing, must be alone on its block, and otherwise moves to a new one first; all views
    move together.  What overwrites everything does not copy what it overwrites.
 4. Reading never moves, copies or counts.
 5. An export keeps the lease, never the array.  A read-only one shows what is written until its storage moves, and from
    then on the bytes of that moment.
 6. Exports are counted until they are released.  A bare address has no release: the memory stays where it is for good.
 7. What was exported has a shape and strides of its own.
 8. Where memory runs out, everything is as it was.
 9. What is made of something read-only is read-only, except for copies.
10. The library's own memory that comes back is recognised: it is a view of the array that went out.
11. Two who write and one who copies never lose a write nor see half of one.
12. Operands that overlap the output behave as if they had been read first, as NumPy's do.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import hashlib
import io
import pickle
import sys
import threading
import weakref
from ctypes import PYFUNCTYPE, c_int, c_void_p, py_object
from typing import Any

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import native
from nbdlpack.dlpack import ReadOnlyTensorWrapper
from tests.memory.tools import (
    ESCAPED,
    FLAGS,
    FOREIGN,
    LEGACY,
    OWN,
    VERSIONED,
    address,
    delete,
    deleter,
    exchange_api,
    exports,
    leases,
    moves,
    numbers,
    optional,
    pointer,
    report,
    same_storage,
    settled,
    state,
    take,
    values,
)


def torch_import(x: Any) -> Any:
    return optional("torch").from_dlpack(x)


def tvm_import(x: Any) -> Any:
    return optional("tvm_ffi").from_dlpack(x)


# How an array can be exported for writing, and the same for reading.
WRITABLE_EXPORTS = {
    "a legacy capsule": lambda x: x.__dlpack__(),
    "a versioned capsule": lambda x: x.__dlpack__(max_version=(1, 0)),
    "a capsule, all keywords given": lambda x: x.__dlpack__(
        stream=None, max_version=(1, 3), dl_device=(1, 0), copy=False
    ),
    "to_dlpack": lambda x: nd.dlpack.to_dlpack(x),
    "numpy.from_dlpack": np.from_dlpack,
    "torch.from_dlpack": torch_import,
    "tvm_ffi.from_dlpack": tvm_import,
    "memoryview": memoryview,
    "numpy.asarray": np.asarray,
    "numpy.frombuffer": np.frombuffer,
    "x.data": lambda x: x.data,
}
READ_ONLY_EXPORTS = {
    "numpy.from_dlpack of a wrapper": lambda x: np.from_dlpack(ReadOnlyTensorWrapper(x)),
    "numpy.from_dlpack of readonly": lambda x: np.from_dlpack(nd.readonly(x)),
    "a capsule of readonly": lambda x: nd.readonly(x).__dlpack__(max_version=(1, 0)),
    "tvm_ffi.from_dlpack of a wrapper": lambda x: tvm_import(ReadOnlyTensorWrapper(x)),
    "memoryview of readonly": lambda x: memoryview(nd.readonly(x)),
    "numpy.asarray of readonly": lambda x: np.asarray(nd.readonly(x)),
}
ADDRESSES = {
    "ptr": lambda x: x.ptr,
    "__array_interface__": lambda x: x.__array_interface__["data"][0],
    "ctypes": lambda x: x.ctypes.data,
}


def each(table: dict[str, Any]) -> Any:
    return pytest.mark.parametrize("act", table.values(), ids=table)


def matrix(order: Any = "C") -> Any:
    return nd.array(np.arange(6.0).reshape(2, 3, order=order), order=order)


class TestRule01:
    """A copy of the whole of a storage, in its order, copies nothing."""

    # numpy.copy and copy.copy keep the layout, https://numpy.org/doc/stable/reference/generated/numpy.copy.html
    @each(
        {
            "x.copy": lambda x: x.copy(),
            "nd.copy": lambda x: nd.copy(x),
            "copy.copy": copy.copy,
            "copy.deepcopy": copy.deepcopy,
        }
    )
    def test_a_copy_shares_the_block_until_one_is_written_to(self, act):
        x = numbers()
        before = settled(), moves()
        y = act(x)
        assert (settled(), moves()) == before
        assert address(y) == address(x)
        assert leases(x) == leases(y) == 2
        assert not same_storage(x, y)
        y[0] = 9
        assert values(x) == [0, 1, 2, 3, 4, 5]
        assert values(y) == [9, 1, 2, 3, 4, 5]
        assert leases(x) == leases(y) == 1

    def test_either_may_be_written_to_first(self):
        x = numbers()
        y = x.copy()
        x[0] = 9
        assert (values(x)[0], values(y)[0]) == (9, 0)

    def test_copies_of_copies_and_their_deaths(self):
        x = numbers()
        many = [x.copy() for _ in range(3)]
        many += [y.copy() for y in many]
        assert leases(x) == 7
        home = address(x)
        del many
        assert leases(x) == 1
        x[0] = 1
        assert address(x) == home, "who is alone again does not move"

    def test_a_large_copy_takes_no_memory(self):
        x = nd.empty(1 << 30, dtype="u1")  # nobody touches it, so it needs no memory either
        before = settled().bytes
        y = x.copy()
        assert settled().bytes == before
        assert address(x) == address(y)

    @each(
        {
            "all of it in another shape": lambda x: x.reshape(3, 2),
            "all of it as another dtype": lambda x: x.view("i8"),
            "all of it as a slice": lambda x: x[:],
            "with new axes": lambda x: x[None, :, None],
        }
    )
    def test_views_of_everything_are_copied_lazily_too(self, act):
        v = act(matrix())
        assert address(v.copy()) == address(v)

    @pytest.mark.parametrize(
        ("order", "how", "lazy"),
        [
            ("C", "C", True),
            ("C", "F", False),
            ("C", "A", True),
            ("C", "K", True),
            ("F", "C", False),
            ("F", "F", True),
            ("F", "A", True),
            ("F", "K", True),
        ],
    )
    def test_the_order_asked_for(self, order, how, lazy):
        x = matrix(order)
        y = x.copy(how)
        assert (address(y) == address(x)) is lazy
        assert values(y) == values(x)
        expected = np.arange(6.0).reshape(2, 3, order=order).copy(how)
        assert y.strides == expected.strides

    def test_copy_and_deepcopy_keep_the_layout(self):
        x = numbers(24).reshape(2, 3, 4).transpose(1, 0, 2)
        for y in (copy.copy(x), copy.deepcopy(x), nd.copy(x), x.copy("K")):
            assert address(y) == address(x)
            assert y.strides == x.strides

    @each(
        {
            "a slice": lambda x: x[1:],
            "every other": lambda x: x[::2],
            "reversed": lambda x: x[::-1],
            "one element": lambda x: x[3],
            "nothing": lambda x: x[:0],
            "broadcast": lambda x: nd.broadcast_to(x, (2, 6)),
            "the real part": lambda x: x.astype("c16").real,
        }
    )
    def test_other_copies_are_compact_and_in_memory_of_their_own(self, act):
        v = act(numbers())
        y = v.copy()
        assert values(y) == values(v)
        assert y.flags.c_contiguous
        assert not nd.shares_memory(v, y)
        assert leases(y) == leases(v) == 1
        assert address(y) % 256 == 0

    def test_a_view_that_has_elements_twice_is_not_its_storage(self):
        x = numbers(4)
        twice = x._view(nd.ndarray, 0, x.dtype, 0, (2, 2), (1, 1))  # as many bytes as the storage, but not each of them
        y = twice.copy()
        assert address(y) != address(x)
        assert values(y) == [[0, 1], [1, 2]]


class TestRule02:
    """A copy is never lazy where the other side may write."""

    def test_imported_memory(self):
        a = np.arange(6.0)
        x = nd.from_dlpack(a)
        y = x.copy()
        assert state(x).flags & FOREIGN
        assert address(y) != address(x)
        a[0] = 9
        assert (values(x)[0], values(y)[0]) == (9, 0)

    def test_imported_from_torch(self):
        # https://github.com/pytorch/pytorch/issues/188554: a foreign write showed in lazy clones
        t = optional("torch").arange(6.0)
        x = nd.from_dlpack(t)
        y = x.copy()
        t[0] = 9
        assert (values(x)[0], values(y)[0]) == (9, 0)

    @each(WRITABLE_EXPORTS)
    def test_as_long_as_a_writable_export_lives(self, act):
        x = numbers()
        export = act(x)
        assert exports(x) == (1, 1)
        y = x.copy()
        assert address(y) != address(x)
        assert leases(x) == 1
        del export
        assert exports(x) == (0, 0)
        assert address(x.copy()) == address(x), "lazy again"

    def test_as_long_as_the_last_of_several_lives(self):
        x = numbers()
        several = [np.from_dlpack(x), memoryview(x), x.__dlpack__()]
        while several:
            assert address(x.copy()) != address(x)
            several.pop()
        assert address(x.copy()) == address(x)

    def test_what_the_consumer_writes_is_not_in_the_copy(self):
        x = numbers()
        n = np.from_dlpack(x)
        y = x.copy()
        n[0] = 9
        assert (values(x)[0], values(y)[0]) == (9, 0)

    def test_a_writable_export_of_a_view_counts_for_all(self):
        x = numbers()
        n = np.from_dlpack(x[2:])
        y = x.copy()
        n[0] = 9
        assert values(x) == [0, 1, 9, 3, 4, 5]
        assert values(y) == [0, 1, 2, 3, 4, 5]

    @each(READ_ONLY_EXPORTS)
    def test_a_read_only_export_is_no_hindrance(self, act):
        x = numbers()
        export = act(x)
        assert exports(x) == (1, 0)
        assert address(x.copy()) == address(x)
        del export

    @each(ADDRESSES)
    def test_an_address_is_for_ever(self, act):
        x = numbers()
        act(x)
        gc.collect()
        y = x.copy()
        assert address(y) != address(x)
        assert address(y.copy()) == address(y), "the copy's address is nobody's"


# What writes to an array of six, 0 to 5, and what is in it then.  Given is how much of it must be copied to move.
def _fill(x):
    x.fill(7)


def _set_all(x):
    x[...] = 7


def _set_all_by_slice(x):
    x[:] = [7] * 6


def _set(x):
    x[0] = 7


def _set_slice(x):
    x[1:3] = [7, 8]


def _set_mask(x):
    x[np.array([True, False] * 3)] = 7


def _set_indices(x):
    x[[0, 5]] = 7


def _set_view(x):
    x[1:][1:][0] = 7


def _add_in_place(x):
    x += 1


def _add_in_place_by_numpy(x):
    np.add(x, 1, out=x)


def _out(x):
    np.add(np.ones(6), np.ones(6), out=x)


def _out_of_ours(x):
    np.add(nd.ones(6), nd.ones(6), out=x)


def _out_of_a_part(x):
    np.multiply(x[:3], 10, out=x[3:])


def _out_of_a_reduction(x):
    nd.ones((2, 6)).sum(axis=0, out=x)


def _at(x):
    np.add.at(x, [0, 0], 1)


def _where(x):
    np.add(x, 10, out=x, where=np.array([True, False] * 3))


WRITES = {
    "x[0] =": (_set, [7, 1, 2, 3, 4, 5]),
    "x[1:3] =": (_set_slice, [0, 7, 8, 3, 4, 5]),
    "x[mask] =": (_set_mask, [7, 1, 7, 3, 7, 5]),
    "x[[0, 5]] =": (_set_indices, [7, 1, 2, 3, 4, 7]),
    "view[0] =": (_set_view, [0, 1, 7, 3, 4, 5]),
    "out= of a part": (_out_of_a_part, [0, 1, 2, 0, 10, 20]),
    "add.at": (_at, [2, 1, 2, 3, 4, 5]),
    "where=": (_where, [10, 1, 12, 3, 14, 5]),
}
OVERWRITES = {
    "fill": (_fill, [7] * 6),
    "x[...] =": (_set_all, [7] * 6),
    "x[:] =": (_set_all_by_slice, [7] * 6),
    "+=": (_add_in_place, [1, 2, 3, 4, 5, 6]),
    "numpy.add(x, 1, out=x)": (_add_in_place_by_numpy, [1, 2, 3, 4, 5, 6]),
    "out=": (_out, [2] * 6),
    "out= of ours": (_out_of_ours, [2] * 6),
    "out= of a reduction": (_out_of_a_reduction, [2] * 6),
}
EVERY_WRITE = {**WRITES, **OVERWRITES}
every_write = pytest.mark.parametrize(("write", "expected"), EVERY_WRITE.values(), ids=EVERY_WRITE)


class TestRule03:
    """Who writes is alone on its block, or moves first."""

    @every_write
    def test_a_write_to_shared_memory_moves_the_one_that_is_written_to(self, write, expected):
        x = numbers()
        y = x.copy()
        old = address(x)
        write(x)
        assert values(x) == expected
        assert values(y) == [0, 1, 2, 3, 4, 5]
        assert address(x) != old
        assert address(y) == old
        assert leases(x) == leases(y) == 1

    @every_write
    def test_who_is_alone_writes_in_place(self, write, expected):
        x = numbers()
        old = state(x), moves()
        write(x)
        assert values(x) == expected
        assert (state(x), moves()) == old

    @every_write
    def test_all_views_move_together(self, write, expected):
        x = numbers()
        views = [x[2:], x[::-1], x.reshape(2, 3), nd.readonly(x)]
        y = x.copy()
        write(x)
        for v in views:
            assert same_storage(v, x)
        assert values(views[0]) == expected[2:]
        assert values(views[1]) == expected[::-1]
        assert values(views[3]) == expected
        assert values(y) == [0, 1, 2, 3, 4, 5]

    @each(WRITABLE_EXPORTS)
    def test_a_writable_export_moves_too(self, act):
        x = numbers()
        y = x.copy()
        old = address(x)
        export = act(x)
        assert address(x) != old
        assert address(y) == old
        assert leases(x) == leases(y) == 1
        assert values(x) == values(y) == [0, 1, 2, 3, 4, 5]
        del export

    @each({**WRITABLE_EXPORTS, **ADDRESSES})
    def test_an_export_of_who_is_alone_moves_nothing(self, act):
        x = numbers()
        old = address(x), moves()
        export = act(x)
        assert (address(x), moves()) == old
        del export

    @each(ADDRESSES)
    def test_a_writable_address_is_one_of_memory_of_its_own(self, act):
        x = numbers()
        y = x.copy()
        old = address(x)
        assert act(x) == address(x) != old
        assert address(y) == old

    def test_a_write_after_the_export_is_seen_by_the_consumer(self):
        x = numbers()
        y = x.copy()
        n = np.from_dlpack(x)
        x[0] = 9
        assert n[0] == 9
        n[1] = 8
        assert values(x)[:2] == [9, 8]
        assert values(y)[:2] == [0, 1]

    def test_materialize(self):
        x = numbers()
        y = x.copy()
        assert nd.is_shared(x)
        assert nd.materialize(x) is x
        assert not nd.is_shared(x)
        assert address(x) != address(y)
        assert values(x) == values(y)

    @pytest.mark.parametrize(("write", "expected"), OVERWRITES.values(), ids=OVERWRITES)
    def test_what_is_overwritten_is_not_copied_first(self, write, expected):
        x = numbers()
        y = x.copy()
        before = moves()
        with nd.copy_log() as log, nd.no_copies():
            write(x)
        assert values(x) == expected
        assert moves() == before
        assert log == []
        assert leases(y) == 1

    @each(
        {
            "values of a wrong shape": lambda x: x.__setitem__(..., [1, 2, 3]),
            "values that are no numbers": lambda x: x.__setitem__(..., "many"),
            "a ufunc that raises": lambda x: np.add(x, "many", out=x),
            "a result that does not fit the dtype": lambda x: np.add(x, 1j, out=x),
            "a division that is an error": lambda x: np.divide(x, 0.0, out=x),
            "a reduction of another shape": lambda x: nd.ones((2, 5)).sum(axis=0, out=x),
        }
    )
    def test_an_overwrite_that_fails_changes_nothing(self, act):
        x = numbers()
        y = x.copy()
        before = state(x), state(y), settled()
        with np.errstate(all="raise"), pytest.raises((TypeError, ValueError, FloatingPointError, BufferError)):
            act(x)
        assert (state(x), state(y), settled()) == before
        assert values(x) == values(y) == [0, 1, 2, 3, 4, 5]

    def test_an_overwrite_reads_the_old_values(self):
        x = numbers()
        y = x.copy()
        x[...] = x[::-1]
        assert values(x) == [5, 4, 3, 2, 1, 0]
        assert values(y) == [0, 1, 2, 3, 4, 5]
        x[...] = y + x
        assert values(x) == [5] * 6

    def test_the_copys_consumer_does_not_see_the_moved_ones_writes(self):
        x = numbers()
        y = x.copy()
        r = np.from_dlpack(ReadOnlyTensorWrapper(y))
        _set_all(x)
        assert r.tolist() == values(y) == [0, 1, 2, 3, 4, 5]


def _save(x):
    file = io.BytesIO()
    file.write(x)
    return file.getvalue()


def _pickle_out_of_band(x):
    buffers: list[Any] = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(b) for b in buffers])


def _inspect(x):
    return nd.dlpack.inspect(x)


READS = {
    "repr": repr,
    "str": str,
    "format": lambda x: f"{x}",
    "len": len,
    "iteration": list,
    "in": lambda x: 3 in x,
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "bool": lambda x: bool(x[0]),
    "complex": lambda x: complex(x[0]),
    "bytes": bytes,
    "hashlib": lambda x: hashlib.sha256(x).digest(),
    "write to a file": _save,
    "pickle 2": lambda x: pickle.loads(pickle.dumps(x, protocol=2)),
    "pickle 5": lambda x: pickle.loads(pickle.dumps(x, protocol=5)),
    "pickle out of band": _pickle_out_of_band,
    "x + 1": lambda x: x + 1,
    "1 - x": lambda x: 1 - x,
    "x * x": lambda x: x * x,
    "x @ x": lambda x: x @ x,
    "-x": lambda x: -x,
    "x < x": lambda x: x < x,
    "numpy.add": lambda x: np.add(x, x),
    "numpy.add with NumPy's": lambda x: np.add(x, np.ones(6)),
    "numpy.add.reduce": np.add.reduce,
    "an operand of out=": lambda x: np.add(x, x, out=numbers()),
    "a value to assign": lambda x: nd.empty(6).__setitem__(..., x),
    "sum": lambda x: x.sum(),
    "argmax": lambda x: x.argmax(),
    "mean": lambda x: x.mean(),
    "any": lambda x: x.any(),
    "slicing": lambda x: (x[1:], x[::-1], x[..., None], x[2]),
    "a mask": lambda x: x[np.array([True, False] * 3)],
    "indices": lambda x: x[[0, 3]],
    "being a mask": lambda x: nd.arange(6)[x.astype(bool)],
    "reshape": lambda x: x.reshape(2, 3),
    "T": lambda x: x.T,
    "view": lambda x: x.view("i8"),
    "astype": lambda x: x.astype("f4"),
    "to_device": lambda x: x.to_device("cpu"),
    "copy": lambda x: x.copy(),
    "copy in a shape": lambda x: x.reshape(2, 3).copy("F"),
    "deepcopy": copy.deepcopy,
    "array": lambda x: nd.array(x),
    "asarray": lambda x: nd.asarray(x),
    "ascontiguousarray": lambda x: nd.ascontiguousarray(x[::2]),
    "broadcast_to": lambda x: nd.broadcast_to(x, (2, 6)),
    "attributes": lambda x: (x.shape, x.strides, x.dtype, x.size, x.nbytes, x.itemsize, x.ndim, x.device, x.flags),
    "flags in words": lambda x: repr(x.flags),
    "__dlpack_device__": lambda x: x.__dlpack_device__(),
    "__dlpack__(copy=True)": lambda x: (x.__dlpack__(copy=True), x.__dlpack__(copy=True, max_version=(1, 0))),
    "from_dlpack(copy=True)": lambda x: nd.from_dlpack(x, copy=True),
    "from_dlpack": nd.from_dlpack,
    "numpy.from_dlpack(copy=True)": lambda x: np.from_dlpack(x, copy=True),
    "a read-only address": lambda x: nd.readonly(x).ptr,
    "inspect": _inspect,
    "is_shared": nd.is_shared,
    "shares_memory": lambda x: nd.shares_memory(x, x[1:]),
    "readonly": nd.readonly,
    "weakref": weakref.ref,
    **READ_ONLY_EXPORTS,
}


class TestRule04:
    """Reading never moves, copies or counts."""

    @each(READS)
    def test_reading_what_is_shared(self, act):
        x = numbers()
        y = x.copy()
        before, moved = state(x), moves()
        with nd.no_copies() if act not in NAMED_COPIES else nd.copy_log():
            act(x)
        assert moves() == moved
        assert state(x) == before
        assert state(y).address == before.address
        assert values(x) == values(y) == [0, 1, 2, 3, 4, 5]
        assert not state(x).flags & ESCAPED

    @each(READS)
    def test_reading_what_is_read_only(self, act):
        r = nd.readonly(numbers())
        before, moved = state(r), moves()
        act(r)
        assert (state(r), moves()) == (before, moved)

    def test_a_buffer_of_bytes_alone_is_for_reading(self):
        # https://docs.python.org/3/c-api/buffer.html: PyBUF_SIMPLE asks for neither shape, strides, format nor WRITABLE
        x = numbers()
        y = x.copy()
        assert bytes(x) == hashed(x) == np.arange(6.0).tobytes()
        assert address(x) == address(y)


def hashed(x: Any) -> bytes:
    file = io.BytesIO()
    file.write(x)
    return file.getvalue()


# These make an array of another dtype or layout, which is a copy that the caller did not ask for by its name.
NAMED_COPIES = {READS[name] for name in ("astype", "ascontiguousarray", "being a mask")}


class TestRule05:
    """An export keeps the lease, never the array."""

    @each(READ_ONLY_EXPORTS)
    def test_a_read_only_export_copies_nothing(self, act):
        x = numbers()
        y = x.copy()
        before = settled(), moves(), address(x)
        export = act(x)
        assert (settled(), moves(), address(x)) == before
        assert leases(y) == 2
        del export

    def test_it_shows_later_writes_until_its_storage_moves(self):
        x = numbers()
        r = np.from_dlpack(ReadOnlyTensorWrapper(x))
        x[0] = 7
        assert r[0] == 7
        y = x.copy()
        x[0] = 8
        assert r[0] == 7, "x has moved away from it"
        assert (values(x)[0], values(y)[0]) == (8, 7)

    def test_it_keeps_the_bytes_of_that_moment(self):
        x = numbers()
        y = x.copy()
        r = np.from_dlpack(ReadOnlyTensorWrapper(x))
        x[0] = 1
        y[0] = 9
        assert r[0] == 0
        assert (values(x)[0], values(y)[0]) == (1, 9)
        assert not r.flags.writeable

    def test_it_outlives_the_copy_it_is_of(self):
        # torch's pins the tensor instead: https://github.com/pytorch/pytorch/issues/188554
        x = numbers()
        r = np.from_dlpack(nd.readonly(x.copy()))
        x[0] = 7
        assert r[0] == 0

    # numpy.asarray takes the buffer as well
    @each(
        {
            name: act
            for name, act in {**WRITABLE_EXPORTS, **READ_ONLY_EXPORTS}.items()
            if "dlpack" in name or "capsule" in name
        }
    )
    def test_the_array_dies_though_its_export_lives(self, act):
        before = settled()
        x = numbers()
        export = act(x)
        dead = weakref.ref(x)
        del x
        assert dead() is None
        now = settled()
        assert now.blocks == before.blocks + 1
        assert now.pinned == before.pinned + 48
        del export
        assert settled() == before

    def test_what_keeps_it_alive_is_intact(self):
        x = numbers(1000)
        export, r = np.from_dlpack(x), np.from_dlpack(nd.readonly(x))
        del x
        for _ in range(100):  # what takes its place, if it was freed
            nd.array(np.full(1000, -1.0))
        assert export.tolist() == list(range(1000))
        export[0] = 5
        assert r[0] == 5

    def test_a_buffer_keeps_the_array_as_python_requires(self):
        # https://docs.python.org/3/c-api/buffer.html#c.Py_buffer.obj
        x = numbers()
        m = memoryview(x)
        assert m.obj is x
        dead = weakref.ref(x)
        del x
        assert dead() is not None
        m.release()
        del m
        assert dead() is None

    def test_a_dead_copys_export_keeps_the_block_shared(self):
        x = numbers()
        y = x.copy()
        r = np.from_dlpack(nd.readonly(y))
        home = address(x)
        del y
        assert leases(x) == 2
        x[0] = 1
        assert address(x) != home
        assert r[0] == 0

    def test_an_export_ends_once(self):
        x = numbers()
        managed = [take(x), take(x, LEGACY), take(x[1:])]
        assert exports(x) == (3, 3)
        for i, name in enumerate((VERSIONED, LEGACY, VERSIONED)):
            delete(managed[i], name)
            assert exports(x) == (2 - i, 2 - i)

    def test_pinned_bytes_are_told(self):
        before = nd.memory_info()
        x = nd.zeros(1000)
        export = np.from_dlpack(x)
        assert nd.memory_info().pinned_bytes == before.pinned_bytes
        del x
        assert nd.memory_info().pinned_bytes == before.pinned_bytes + 8000
        h = nd.from_dlpack(export)
        assert nd.memory_info().pinned_bytes == before.pinned_bytes
        del h, export
        assert nd.memory_info()[:3] == before[:3]


def borrow(x: Any) -> int:
    """Return the address in the DLTensor that the exchange table lends of an array."""
    tensor = (ctypes.c_int64 * 6)()
    view = PYFUNCTYPE(c_int, py_object, c_void_p)(exchange_api(type(x)).view)
    assert view(x, ctypes.addressof(tensor)) == 0
    return tensor[0]


class TestRule06:
    """Exports are counted until they are released; an address has no release."""

    @each(WRITABLE_EXPORTS)
    def test_writable_exports_are_counted(self, act):
        x = numbers()
        several = [act(x) for _ in range(3)]
        assert exports(x) == (3, 3)
        several.pop()
        assert exports(x) == (2, 2)
        several.clear()
        assert exports(x) == (0, 0)

    @each(READ_ONLY_EXPORTS)
    def test_read_only_exports_are_counted(self, act):
        x = numbers()
        several = [act(x) for _ in range(3)]
        assert exports(x) == (3, 0)
        several.clear()
        assert exports(x) == (0, 0)

    @each(ADDRESSES)
    def test_memory_whose_address_is_known_stays(self, act):
        x = numbers()
        y = x.copy()
        known = act(x)
        gc.collect()
        assert state(x).flags & ESCAPED
        assert leases(x) == 1
        assert exports(x) == (0, 0)
        for use in (lambda: x.copy(), lambda: np.from_dlpack(x), lambda: _set(x), lambda: _set_all(x)):
            use()
            assert address(x) == known
        assert ctypes.c_double.from_address(known).value == 7
        assert values(y)[0] == 0

    def test_it_stays_also_where_an_export_that_came_home_shares_it(self):
        x = numbers()
        y = x.copy()
        r, last = np.from_dlpack(nd.readonly(x)), np.from_dlpack(nd.readonly(y))
        del last, y  # the lease that was exported last has ended, so r comes home by one of its own
        known = x.ptr
        h = nd.from_dlpack(r)
        assert leases(x) == 2
        x[0] = 7
        np.from_dlpack(x)[1] = 8
        x[2:].fill(9)
        assert address(x) == address(h) == x.ptr == known
        assert values(h) == values(x) == r.tolist() == [7, 8, 9, 9, 9, 9]

    def test_a_view_gives_away_all_of_it(self):
        x = numbers()
        assert x[2:].ptr == address(x) + 16
        assert state(x).flags & ESCAPED

    def test_a_read_only_address_copies_nothing_and_stays_valid(self):
        before = settled()
        x = numbers()
        y = x.copy()
        known = nd.readonly(x).ptr
        assert known == address(x) == address(y)
        assert not state(x).flags & ESCAPED
        x[0] = 7
        del y
        assert address(x) != known
        assert ctypes.c_double.from_address(known).value == 0, "as long as the storage lives, also after it moved"
        assert settled().blocks == before.blocks + 2
        del x
        assert settled() == before

    def test_a_read_only_address_is_kept_once(self):
        x = numbers()
        for _ in range(1000):
            nd.readonly(x).ptr
        assert exports(x) == (0, 0), "it is no export"
        x.copy()[0] = 1
        assert address(x.copy()) == address(x)

    def test_a_read_only_address_does_not_make_a_writer_move(self):
        x = numbers()
        known = nd.readonly(x).ptr
        x[0] = 7
        assert address(x) == known

    def test_the_borrowed_tensor_is_one_of_memory_of_its_own(self):
        # dltensor_from_py_object_no_sync: valid until control returns, so there is nothing to count
        x = numbers()
        y = x.copy()
        assert borrow(x) == address(x) != address(y)
        assert exports(x) == (0, 0)
        assert address(x.copy()) == address(x)
        assert borrow(x[2:]) == address(x) + 16

    def test_nothing_read_only_is_lent(self):
        with pytest.raises(BufferError, match="read-only"):
            borrow(nd.readonly(numbers()))
        wrapper = exchange_api(ReadOnlyTensorWrapper)
        assert wrapper.view is None


class TestRule07:
    """What was exported has a shape and strides of its own."""

    @pytest.mark.parametrize("name", [VERSIONED, LEGACY])
    def test_the_capsules_shape_is_not_the_arrays(self, name):
        x = nd.array(np.arange(6.0).reshape(2, 3))
        capsule = x.__dlpack__(max_version=(1, 0)) if name == VERSIONED else x.__dlpack__()
        managed = pointer(capsule, name)
        tensor = managed + (32 if name == VERSIONED else 0)
        shape = ctypes.POINTER(ctypes.c_int64).from_address(tensor + 24)
        strides = ctypes.POINTER(ctypes.c_int64).from_address(tensor + 32)
        assert (shape[:2], strides[:2]) == ([2, 3], [3, 1])
        x[...] = 1
        y = x.copy()
        x[0] = 2  # moves, and makes what describes x anew
        x.__dlpack__()
        del x, y
        others = [nd.empty((7, 8, 9)[:n]) for n in (1, 2, 3) for _ in range(50)]  # where x was
        assert (shape[:2], strides[:2]) == ([2, 3], [3, 1])
        del others

    def test_an_array_has_one_shape_for_life(self):
        x = numbers()
        for name, value in (("shape", (2, 3)), ("strides", (16,)), ("dtype", "f4")):
            with pytest.raises((AttributeError, TypeError)):
                setattr(x, name, value)
        assert x.shape == (6,)

    def test_views_of_many_dimensions_describe_themselves(self):
        x = nd.array(np.arange(256.0).reshape((2,) * 8))
        views = [x, x.T, x[..., 0], x[:, 1]]
        consumers = [np.from_dlpack(v) for v in views]
        expected = [(v.shape, v.strides, values(v)) for v in views]
        del views, x
        others = [nd.empty((3,) * n) for n in (6, 7, 8) for _ in range(50)]  # where they were
        del others
        assert [(n.shape, n.strides, n.tolist()) for n in consumers] == expected


OUT_OF_MEMORY = """
import json, resource, sys, threading
import numpy as np, nbdlpack as nd
from nbdlpack import native
from tests.memory.test_rules import STARVED
from tests.memory.tools import state

size = 1 << 27
x = nd.empty(size, dtype="u1"); x[...] = 3
y = x.copy()
views = [x[1:], nd.readonly(x), y]
# One round first, for what is imported or made at the first use.
small = nd.zeros(10, dtype="u1")
for act in STARVED.values():
    try: act(small.copy())
    except MemoryError: pass
del small
before = [state(v) for v in (x, y, *views)], native.world.blocks, native.world.bytes, native.world.moves
limits = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + size // 2, limits[1]))
outcome = {}
for name, act in STARVED.items():
    try:
        act(x)
    except MemoryError:
        outcome[name] = "MemoryError"
    except BaseException as error:
        outcome[name] = repr(error)
    else:
        outcome[name] = "no error"
    after = [state(v) for v in (x, y, *views)], native.world.blocks, native.world.bytes, native.world.moves
    if after != before:
        outcome[name] += f", but changed {before} to {after}"
resource.setrlimit(resource.RLIMIT_AS, limits)
assert x._host(0)[-1] == y._host(0)[-1] == 3
thread = threading.Thread(target=x.__setitem__, args=(0, 4), daemon=True)  # who failed holds no lock
thread.start()
thread.join(30)
assert not thread.is_alive()
assert (y._host(0)[0], x._host(0)[0]) == (3, 4) and state(x).leases == state(y).leases == 1
print(json.dumps(outcome))
"""


def _starved_iadd(x):
    x += 1


# What needs memory for as much as x is, which x shares with a lazy copy.
STARVED = {
    "x[0] =": _set,
    "x[...] =": _set_all,
    "x[...] = an array": lambda x: x.__setitem__(..., x[::-1]),
    "x[0:2] =": lambda x: x.__setitem__(slice(2), 7),
    "fill": _fill,
    "+=": _starved_iadd,
    "out=": lambda x: np.add(x, 1, out=x),
    "materialize": nd.materialize,
    "__dlpack__()": lambda x: x.__dlpack__(),
    "__dlpack__(max_version=)": lambda x: x.__dlpack__(max_version=(1, 0)),
    "__dlpack__(copy=True)": lambda x: x.__dlpack__(copy=True),
    "from_dlpack(copy=True)": lambda x: nd.from_dlpack(x, copy=True),
    "numpy.from_dlpack": np.from_dlpack,
    "the exchange table": lambda x: borrow(x),
    "memoryview": memoryview,
    "numpy.asarray": np.asarray,
    "ptr": lambda x: x.ptr,
    "__array_interface__": lambda x: x.__array_interface__,
    "copy of a part": lambda x: x[1:].copy(),
    "copy in another layout": lambda x: x.reshape(2, -1).copy("F"),
    "x + x": lambda x: x + x,
    "-x": lambda x: -x,
    "astype": lambda x: x.astype("f8"),
    "indices": lambda x: x[np.broadcast_to(np.arange(1), x.shape)],
    "empty": lambda x: nd.empty(x.size, dtype="u1"),
    "empty of everything": lambda x: nd.empty(1 << 60, dtype="f8"),
}


@pytest.fixture(scope="module")
def outcome():
    return report(OUT_OF_MEMORY)


class TestRule08:
    """Where memory runs out, everything is as it was."""

    @pytest.mark.skipif(sys.platform != "linux", reason="the limit and /proc are Linux's")
    @pytest.mark.parametrize("name", STARVED)
    def test_nothing_changes_under_a_limit(self, outcome, name):
        assert outcome[name] == "MemoryError"

    @pytest.mark.parametrize("shape", [1 << 60, (1 << 40, 1 << 40), (1 << 62, 4), ((1 << 63) - 1,) * 8])
    def test_sizes_beyond_all_memory(self, shape):
        before = settled()
        with pytest.raises((MemoryError, ValueError, OverflowError)):
            nd.empty(shape)
        assert settled() == before

    def test_who_may_not_move_stays(self):
        x = numbers()
        y = x.copy()
        before = state(x), state(y), settled(), moves()
        with nd.no_copies():
            for act in (_set, memoryview, lambda x: x.ptr, lambda x: x.__dlpack__(), np.asarray):
                with pytest.raises(nd.errors.CopyError if hasattr(nd, "errors") else RuntimeError):
                    act(x)
                assert (state(x), state(y), settled(), moves()) == before
        _set(x)
        assert leases(y) == 1


class TestRule09:
    """What is made of something read-only is read-only, except for copies."""

    @pytest.fixture(params=["readonly", "NumPy's", "broadcast", "imported from a wrapper"])
    def r(self, request):
        a = np.arange(6.0)
        if request.param == "NumPy's":
            a.flags.writeable = False
            return nd.from_dlpack(a)
        if request.param == "broadcast":
            return nd.broadcast_to(nd.ones(1), (6,))
        if request.param == "imported from a wrapper":
            return nd.from_dlpack(ReadOnlyTensorWrapper(nd.array(a)))
        return nd.readonly(nd.array(a))

    def test_it_refuses_every_write(self, r):
        before = values(r)
        for name, (write, _) in EVERY_WRITE.items():
            with pytest.raises(ValueError, match="read-only"):
                write(r)
            assert values(r) == before, name
        with pytest.raises(ValueError, match="read-only"):
            nd.materialize(r)

    def test_so_does_what_is_made_of_it(self, r):
        for v in (
            r[1:],
            r[::2],
            r[0],
            r.reshape(2, 3),
            r.T,
            r[None],
            r.view("i8"),
            nd.readonly(r),
            nd.asarray(r),
            nd.broadcast_to(r, (2, 6)),
            r.real,
            nd.from_dlpack(r),
        ):
            assert v._flags & native.READ_ONLY
            with pytest.raises(ValueError, match="read-only"):
                v[...] = 1

    def test_its_exports_say_so(self, r):
        capsule = r.__dlpack__(max_version=(1, 0))
        flags = ctypes.c_uint64.from_address(pointer(capsule, VERSIONED) + FLAGS).value
        assert flags == native.READ_ONLY
        assert not np.from_dlpack(r).flags.writeable
        assert not np.asarray(r).flags.writeable
        assert memoryview(r).readonly
        assert r.__array_interface__["data"][1] is True
        with pytest.raises(BufferError):
            r.__dlpack__()
        with pytest.raises((BufferError, ValueError, TypeError)):
            ctypes.c_char.from_buffer(r)

    def test_numpy_cannot_be_talked_into_writing(self, r):
        for n in (np.from_dlpack(r), np.asarray(r)):
            with pytest.raises(ValueError, match="WRITEABLE"):
                n.flags.writeable = True

    def test_a_copy_can_be_written_to(self, r):
        for c in (r.copy(), copy.copy(r), copy.deepcopy(r), nd.array(r), nd.from_dlpack(r, copy=True), r + 0):
            old = values(r)
            c[0] = 9
            assert values(c)[0] == 9
            assert values(r) == old
        flags = ctypes.c_uint64.from_address(pointer(r.__dlpack__(max_version=(1, 0), copy=True), VERSIONED) + FLAGS)
        assert flags.value == 2  # DLPACK_FLAG_BITMASK_IS_COPIED

    def test_readonly_is_a_view(self):
        x = numbers()
        r = nd.readonly(x)
        assert same_storage(r, x)
        x[0] = 7
        assert values(r)[0] == 7
        assert x._flags == 0

    def test_writing_to_the_array_it_is_of_leaves_its_copy(self):
        x = numbers()
        c = nd.readonly(x).copy()
        assert address(c) == address(x)
        x[0] = 7
        assert values(c)[0] == 0


class TestRule10:
    """The library's own memory that comes back is recognised."""

    @each(
        {
            "the array itself": lambda x: x,
            "numpy.from_dlpack": np.from_dlpack,
            "numpy.asarray": np.asarray,
            "a view by NumPy": lambda x: np.from_dlpack(x)[:],
            "a legacy capsule": lambda x: x.__dlpack__(),
            "a versioned capsule": lambda x: x.__dlpack__(max_version=(1, 0)),
            "numpy of a memoryview": lambda x: np.asarray(memoryview(x)),
            "torch": torch_import,
            "torch's NumPy": lambda x: torch_import(x).numpy(),
            "tvm-ffi": tvm_import,
        }
    )
    def test_it_is_a_view_of_what_went_out(self, act):
        x = numbers()
        h = nd.from_dlpack(act(x))
        assert same_storage(h, x)
        assert not h._flags
        assert not state(h).flags & FOREIGN
        h[0] = 9
        assert values(x)[0] == 9
        y = x.copy()
        x[0] = 1
        assert values(h)[0] == 1, "they move together"
        assert values(y)[0] == 9

    @each({"numpy.from_dlpack": np.from_dlpack, "torch": torch_import, "tvm-ffi": tvm_import})
    def test_the_consumers_export_ends_with_the_consumer(self, act):
        x = numbers()
        n = act(x)
        h = nd.from_dlpack(n)
        assert exports(x) == (1, 1)
        del n
        assert exports(x) == (0, 0)
        assert address(x.copy()) == address(h)

    def test_parts_and_other_layouts(self):
        x = nd.array(np.arange(24.0).reshape(4, 6))
        n = np.from_dlpack(x)
        for part in (n[1:], n[:, ::2], n.T, n[2, 3:], n[1:3, 4]):
            h = nd.from_dlpack(part)
            assert same_storage(h, x)
            assert address(h) == part.ctypes.data
            assert values(h) == part.tolist()
        back = nd.from_dlpack(n[::-1])
        assert same_storage(back, x)
        assert values(back) == n[::-1].tolist()

    def test_after_the_array_has_died_its_lease_is_taken_over(self):
        before = settled()
        x = numbers()
        n = np.from_dlpack(x)
        del x
        h = nd.from_dlpack(n)
        assert state(h).flags & (OWN | FOREIGN) == OWN
        assert leases(h) == 1
        assert exports(h) == (1, 1)
        h[0] = 7
        assert n[0] == 7
        assert address(h.copy()) != address(h), "n may write"
        del n
        assert address(h.copy()) == address(h)
        del h
        assert settled() == before

    def test_by_our_deleter_with_the_flag_it_was_exported_with(self):
        x = numbers()
        r = np.from_dlpack(nd.readonly(x))
        assert not nd.from_dlpack(x)._flags, "someone's read-only view is not this export"
        h = nd.from_dlpack(nd.readonly(x))
        assert h._flags & native.READ_ONLY
        assert same_storage(h, x)
        h = nd.from_dlpack(nd.readonly(x)._capsule(0, 0))  # a legacy capsule, which has no flags
        assert h._flags & native.READ_ONLY
        del r

    def test_by_address_read_only_where_a_read_only_export_lives(self):
        # a consumer that drops the flag on the way, as tvm-ffi does, must not make what was read-only writable
        x = numbers()
        n, r = np.from_dlpack(x), np.from_dlpack(nd.readonly(x))
        assert nd.from_dlpack(n)._flags & native.READ_ONLY
        del r
        assert not nd.from_dlpack(n)._flags

    @pytest.mark.parametrize("shared", [False, True])
    def test_what_tvm_ffi_launders_comes_home_read_only(self, shared):
        x = numbers()
        y = x.copy() if shared else None
        h = nd.from_dlpack(tvm_import(ReadOnlyTensorWrapper(x)))
        assert h._flags & native.READ_ONLY
        assert address(h) == address(x)
        with pytest.raises(ValueError, match="read-only"):
            h[0] = 1
        if y is not None:
            assert values(y)[0] == 0

    @pytest.mark.parametrize("kind", ["a copy made for us", "of a Python owner"])
    def test_lazily_copied_memory_of_others_comes_home_too(self, kind):
        # or a consumer that drops the flag on the way would let one of two copies write to both
        a = np.arange(6.0)
        if kind == "a copy made for us":
            x = nd.from_dlpack(a.__dlpack__(max_version=(1, 0), copy=True))
        else:
            x = nd.ndarray._wrap(a, a.ctypes.data, (1, 0), a.nbytes, 0, a.dtype, 0, a.shape, (1,))
        y = x.copy()
        assert address(y) == address(x)
        h = nd.from_dlpack(tvm_import(ReadOnlyTensorWrapper(x)))
        assert h._flags & native.READ_ONLY
        assert same_storage(h, x)
        del y
        assert same_storage(nd.from_dlpack(np.from_dlpack(x)), x)

    def test_by_address_read_only_where_the_block_is_shared(self):
        x = numbers()
        r = np.from_dlpack(nd.readonly(x))
        y = x.copy()
        h = nd.from_dlpack(r)
        assert h._flags & native.READ_ONLY
        assert same_storage(h, x)
        x[0] = 1
        assert (r[0], values(y)[0], values(h)[0]) == (0, 0, 1)

    def test_asarray_of_what_has_an_array_interface(self):
        x = numbers()
        n = np.from_dlpack(x)
        assert same_storage(nd.asarray(n), x)

    def test_a_copy_made_for_us_is_not_foreign(self):
        # DLPACK_FLAG_BITMASK_IS_COPIED, https://github.com/dmlc/dlpack/blob/v1.3/include/dlpack/dlpack.h
        a = np.arange(6.0)
        x = nd.from_dlpack(a.__dlpack__(max_version=(1, 0), copy=True))
        assert not state(x).flags & FOREIGN
        y = x.copy()
        assert address(y) == address(x)
        y[0] = 9
        assert values(x)[0] == 0

    def test_foreign_memory_is_not_taken_for_ours(self):
        x = numbers()
        n = np.from_dlpack(x)
        other = nd.from_dlpack(n.copy())
        assert state(other).flags & FOREIGN
        assert not same_storage(other, x)

    def test_memory_that_was_ours_and_is_someone_elses_now(self):
        for _ in range(50):
            x = nd.empty(1000)
            old = address(x)
            np.from_dlpack(x)
            del x
            a = np.empty(1000 + 32)
            if a.ctypes.data <= old < a.ctypes.data + a.nbytes:
                h = nd.from_dlpack(a)
                assert state(h).flags & FOREIGN
                a[...] = 1
                assert values(h) == a.tolist()

    def test_memory_of_the_exchange_tables_allocator(self):
        # managed_tensor_allocator, called without the GIL
        before = settled()
        api = exchange_api(nd.ndarray)
        shape = (ctypes.c_int64 * 2)(3, 4)
        prototype = (ctypes.c_int64 * 6)(0, 1, 2 | (2 | 64 << 8 | 1 << 16) << 32, ctypes.addressof(shape), 0, 0)
        managed, obj = c_void_p(), py_object()
        allocate = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)(api.allocate)
        to_object = PYFUNCTYPE(c_int, c_void_p, c_void_p)(api.import_)
        assert allocate(ctypes.addressof(prototype), ctypes.addressof(managed), None, None) == 0
        assert to_object(managed.value, ctypes.addressof(obj)) == 0
        x = obj.value
        ctypes.pythonapi.Py_DecRef(py_object(x))  # the reference that the function returned
        del obj
        assert (x.shape, x.dtype, leases(x), exports(x), address(x) % 256) == ((3, 4), np.float64, 1, (0, 0), 0)
        y = x.copy()
        assert address(x) == address(y)
        x[...] = 1
        del x, y
        assert settled() == before


class TestRule11:
    """Two who write and one who copies never lose a write nor see half of one; more in test_threads.py."""

    @pytest.mark.parametrize("held", [True, False], ids=["an eager copy", "a lazy copy"])
    def test_a_copy_waits_for_the_end_of_a_write(self, held):
        x = numbers()
        inside, done, order = threading.Event(), threading.Event(), []

        def write():
            with nd.storage.writing(x):
                a = x._host(1)
                a[0] = 1
                if not held:
                    del a  # a writable export would be a reason for the copy to be eager
                inside.set()
                assert not done.wait(0.05)
                x._host(1)[-1] = 1
                order.append("written")

        thread = threading.Thread(target=write)
        thread.start()
        inside.wait()
        y = x.copy()
        order.append("copied")
        done.set()
        thread.join()
        assert order == ["written", "copied"]
        assert (values(y)[0], values(y)[-1]) == (1, 1)

    def test_a_write_waits_for_the_end_of_another_threads(self):
        x = numbers()
        y = x.copy()
        inside, order = threading.Event(), []

        def write():
            with nd.storage.writing(x):
                inside.set()
                threading.Event().wait(0.05)
                x._host(1)[0] = 1
                order.append("first")

        thread = threading.Thread(target=write)
        thread.start()
        inside.wait()
        x[1] = 2
        order.append("second")
        thread.join()
        assert order == ["first", "second"]
        assert values(x)[:2] == [1, 2]
        assert values(y)[:2] == [0, 1]

    @pytest.mark.parametrize("first", [nd.storage.writing, nd.storage.reading])
    @pytest.mark.parametrize("second", [nd.storage.writing, nd.storage.reading])
    def test_a_copy_and_a_write_wait_for_each_other(self, first, second):
        # Copies that are not lazy hold the storage while they read it.
        x = numbers()
        inside, order = threading.Event(), []

        def hold() -> None:
            with first(x):
                inside.set()
                threading.Event().wait(0.05)
                order.append("first")

        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait()
        with second(x):
            order.append("second")
        thread.join()
        assert order == ["first", "second"]

    def test_a_thread_may_write_again_inside_its_write(self):
        # as a signal handler or a finaliser does
        x = numbers()

        def write() -> None:
            with nd.storage.writing(x):
                x[0] = 1
                with nd.storage.writing(x):
                    x[1] = 2
                x[2] = 3

        for act in (write, lambda: x.__setitem__(3, 4)):
            thread = threading.Thread(target=act, daemon=True)
            thread.start()
            thread.join(20)
            assert not thread.is_alive(), "it waits for itself"
        assert values(x) == [1, 2, 3, 4, 4, 5]

    def test_the_end_of_an_export_waits_for_nobody(self):
        x = numbers()
        managed = take(x)
        inside, done = threading.Event(), threading.Event()

        def write():
            with nd.storage.writing(x):
                inside.set()
                done.wait()

        thread = threading.Thread(target=write)
        thread.start()
        inside.wait()
        delete(managed)
        assert exports(x) == (0, 0)
        done.set()
        thread.join()

    def test_reading_waits_for_nobody(self):
        x = numbers()
        inside, done = threading.Event(), threading.Event()

        def write():
            with nd.storage.writing(x):
                inside.set()
                done.wait()

        thread = threading.Thread(target=write)
        thread.start()
        inside.wait()
        assert repr(x[1:])
        assert nd.from_dlpack(nd.readonly(x))._flags
        assert float(x.sum()) == 15
        done.set()
        thread.join()

    def test_values_are_converted_before_the_write_begins(self):
        x = numbers()

        class Value:
            """What another thread writes while it is asked for."""

            def __array__(self, dtype=None, copy=None):
                thread = threading.Thread(target=lambda: x.__setitem__(5, 50))
                thread.start()
                thread.join(10)
                assert not thread.is_alive(), "the write had begun"
                return np.array(9.0)

        x[0] = Value()
        assert values(x) == [9, 1, 2, 3, 4, 50]
        x[...] = Value()
        assert values(x) == [9] * 6
        x[x > 0] = Value()
        x += np.asarray(Value())

    def test_a_deleter_needs_no_gil(self):
        x = numbers()
        managed = [take(x) for _ in range(100)]
        function = ctypes.CFUNCTYPE(None, c_void_p)(deleter(managed[0]))
        for m in managed:  # CFUNCTYPE calls it without the GIL, and so without a current thread state
            function(m)
        assert exports(x) == (0, 0)


SLICES = [
    slice(None),
    slice(1, None),
    slice(None, -1),
    slice(None, None, -1),
    slice(None, None, 2),
    slice(1, None, 2),
    slice(-2, None, -1),
    slice(2, 6),
    slice(0, 4),
    slice(4, None),
    slice(5, 1, -1),
]


class TestRule12:
    """Operands that overlap the output behave as if they had been read first.

    https://numpy.org/doc/stable/reference/ufuncs.html: "operations where ufunc input and output operands have memory
    overlap are defined to be the same as for equivalent operations where there is no memory overlap".
    """

    @pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
    @pytest.mark.parametrize("n", [8, 1000])
    def test_slices_of_one_array(self, n, shared):
        for out in SLICES:
            for operand in SLICES:
                a = np.arange(float(n))
                size = min(a[out].size, a[operand].size)
                if not size:
                    continue
                for act in (
                    lambda z, o, i: np.add(z[i][:size], 100, out=z[o][:size]),
                    lambda z, o, i: np.subtract(z[o][:size], z[i][:size], out=z[o][:size]),
                    lambda z, o, i: z[o][:size].__setitem__(..., z[i][:size]),
                    lambda z, o, i: z[o][:size].__iadd__(z[i][:size]),
                    lambda z, o, i: np.add.accumulate(z[i][:size], out=z[o][:size]),
                ):
                    a, x = np.arange(float(n)), numbers(n)
                    keep = x.copy() if shared else None
                    act(a, out, operand)
                    act(x, out, operand)
                    assert values(x) == a.tolist(), (out, operand)
                    if keep is not None:
                        assert values(keep) == list(range(n))

    @pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
    @each(
        {
            "x[...] = x.T": lambda z: z.__setitem__(..., z.T),
            "x += x.T": lambda z: z.__iadd__(z.T),
            "x[:] = x[::-1]": lambda z: z.__setitem__(slice(None), z[::-1]),
            "x[1:] = x[:-1]": lambda z: z.__setitem__(slice(1, None), z[:-1]),
            "x[...] = x[0]": lambda z: z.__setitem__(..., z[1]),
            "x -= x[0]": lambda z: z.__isub__(z[0]),
            "x -= x[:, 1:2]": lambda z: z.__isub__(z[:, 1:2]),
            "x[0] = x[:, 0]": lambda z: z.__setitem__(0, z[:, 0]),
            "x[[0, 1]] = x[[1, 0]]": lambda z: z.__setitem__([0, 1], z[[1, 0]]),
            "x[[1, 2, 3]] = x[:3]": lambda z: z.__setitem__([1, 2, 3], z[:3]),
            "x[mask] = x[~mask]": lambda z: z.__setitem__(np.eye(4) > 0, z[1]),
            "out= in another layout": lambda z: np.multiply(z, z.T, out=z.T),
            "x @= x": lambda z: z.__imatmul__(z),
            "matmul, out=": lambda z: np.matmul(z, z.T, out=z),
            "a reduction into a row": lambda z: z.sum(axis=0, out=z[0]),
            "a reduction into a column": lambda z: z.max(axis=1, out=z[:, 1]),
            "divmod, two outputs": lambda z: np.divmod(z[1], z[2] + 1, out=(z[2], z[1])),
            "where=": lambda z: np.add(z, z.T, out=z, where=z > z.T),
        }
    )
    def test_matrices(self, act, shared):
        a = np.arange(16.0).reshape(4, 4)
        x = nd.array(a)
        keep = x.copy() if shared else None
        act(a)
        act(x)
        assert values(x) == a.tolist()
        if keep is not None:
            assert values(keep) == np.arange(16.0).reshape(4, 4).tolist()

    def test_bytes_seen_as_another_dtype(self):
        a = np.arange(8, dtype="i4")
        x = nd.array(a)
        a.view("i2")[1:9] = a.view("i2")[:8]
        x.view("i2")[1:9] = x.view("i2")[:8]
        assert values(x) == a.tolist()

    def test_an_export_as_the_operand(self):
        a = np.arange(8.0)
        x: Any = nd.array(a)
        a[1:] = a[:-1]
        x[1:] = np.from_dlpack(x)[:-1]
        assert values(x) == a.tolist()
        np.add(np.from_dlpack(x)[::-1], x, out=x)
        assert values(x) == (a[::-1] + a).tolist()
