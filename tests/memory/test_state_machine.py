"""Arrays, views, copies, exports, foreign writes and deaths in any order, against a model of plain NumPy copies.

The model says, without a word of the implementation, what each array and each export must show, how many leases a block
has and how many exports a lease; hypothesis looks for an order of events in which it is wrong, and makes it short.
"""

from __future__ import annotations

import copy
import gc
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import nbdlpack as nd
from nbdlpack.dlpack import ReadOnlyTensorWrapper
from tests.memory.tools import address, settled, state, values

N = 6
"""How many elements a block has."""
MANY = 10
"""How many arrays, and exports, there are at most."""


class Block:
    """An allocation: its bytes, who has it, and whether someone may write to it whom nobody counts."""

    def __init__(self, data: Any, *, ours: bool = True, exposed: bool = False) -> None:
        self.data = np.array(data, "f8")
        self.leases: set[Lease] = set()
        self.ours = ours  # nobody else writes to it, so that it is recognised by its address
        self.exposed = exposed  # imported, or its address was given away
        self.exported: Lease | None = None  # the last lease that was exported


class Lease:
    """A storage's claim on a block, which lives on in its exports."""

    def __init__(self, block: Block) -> None:
        self.block, self.held, self.readers, self.writers, self.kept = block, True, 0, 0, 0
        block.leases.add(self)

    def settle(self) -> None:
        if not (self.held or self.readers or self.writers or self.kept):
            self.block.leases.discard(self)
            if self.block.exported is self:
                self.block.exported = None


class Storage:
    """What arrays share."""

    def __init__(self, lease: Lease) -> None:
        self.lease, self.arrays = lease, 0
        self.kept: list[Lease] = []
        lease.held = True

    @property
    def block(self) -> Block:
        return self.lease.block

    def own(self) -> None:
        """Be the only one on the block, or stay where an address says that it is."""
        if len(self.block.leases) > 1 and not self.block.exposed:
            old = self.lease
            self.lease = Lease(Block(old.block.data))
            old.held = False
            old.settle()

    def drop(self) -> None:
        self.arrays -= 1
        if not self.arrays:
            self.lease.held = False
            self.lease.settle()
            for lease in self.kept:
                lease.kept -= 1
                lease.settle()


class Array:
    """An array, its storage, and which elements of the block it sees."""

    def __init__(self, x: Any, storage: Storage, places: Any) -> None:
        self.x, self.storage, self.places = x, storage, places
        storage.arrays += 1

    @property
    def readonly(self) -> bool:
        return bool(self.x._flags)

    @property
    def expected(self) -> Any:
        return self.storage.block.data[self.places]

    @property
    def is_all(self) -> bool:
        """Whether it is each element of the block once."""
        return np.array_equal(np.sort(self.places, axis=None), np.arange(self.storage.block.data.size))

    def write(self, values_: Any, places: Any = None) -> None:
        self.storage.block.data[self.places if places is None else places] = values_


class Export:
    """What a consumer has: something that NumPy can look at, or a capsule."""

    def __init__(self, what: Any, a: Array, *, writable: bool, holds: bool = False) -> None:
        self.what, self.lease, self.places, self.writable = what, a.storage.lease, a.places, writable
        self.storage = a.storage if holds else None  # a buffer keeps the array, and so the storage
        if self.storage:
            self.storage.arrays += 1
        if writable:
            self.lease.writers += 1
        else:
            self.lease.readers += 1
        self.lease.block.exported = self.lease

    @property
    def visible(self) -> bool:
        return isinstance(self.what, (np.ndarray, memoryview))

    def drop(self) -> None:
        if self.writable:
            self.lease.writers -= 1
        else:
            self.lease.readers -= 1
        self.lease.settle()
        if self.storage:
            self.storage.drop()


# What selects the same elements of an array of ours and of one of NumPy's.
VIEWS = {
    "all": lambda z: z[...],
    "from 1": lambda z: z[1:],
    "from 4": lambda z: z[4:],
    "but the last": lambda z: z[:-1],
    "reversed": lambda z: z[::-1],
    "every other": lambda z: z[::2],
    "first": lambda z: z[0] if z.shape[0] else z,
    "nothing": lambda z: z[:0],
    "transposed": lambda z: z.T,
    "rows": lambda z: z.reshape(2, 3) if z.shape == (6,) and z.flags.c_contiguous else z,
    "flat": lambda z: z.reshape(-1) if z.flags.c_contiguous else z,
    "new axis": lambda z: z[None] if z.ndim < 4 else z,
}
WRITABLE: dict[str, tuple[Any, bool]] = {
    # how, and whether it keeps the array
    "numpy.from_dlpack": (np.from_dlpack, False),
    "capsule": (lambda x: x.__dlpack__(), False),
    "versioned capsule": (lambda x: x.__dlpack__(max_version=(1, 0)), False),
    "memoryview": (memoryview, True),
    "numpy.asarray": (np.asarray, True),
}
READ_ONLY: dict[str, tuple[Any, bool]] = {
    "numpy.from_dlpack of a wrapper": (lambda x: np.from_dlpack(ReadOnlyTensorWrapper(x)), False),
    "numpy.from_dlpack": (lambda x: np.from_dlpack(nd.readonly(x)), False),
    "capsule": (lambda x: nd.readonly(x).__dlpack__(max_version=(1, 0)), False),
    "memoryview": (lambda x: memoryview(nd.readonly(x)), True),
    "numpy.asarray": (lambda x: np.asarray(nd.readonly(x)), True),
}

number = st.integers(-99, 99)
pick = st.integers(0, MANY - 1)


class Owner:
    """A Python object that owns memory that nobody else writes to."""

    def __init__(self, data: Any) -> None:
        self.data = data


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.before = settled()
        self.arrays: list[Array] = []
        self.exports: list[Export] = []
        self.foreign: list[tuple[Any, Block]] = []

    # -- what there is

    def an_array(self, i: int) -> Array:
        return self.arrays[i % len(self.arrays)]

    def an_export(self, i: int) -> Export:
        return self.exports[i % len(self.exports)]

    room = precondition(lambda self: len(self.arrays) < MANY)
    room_for_exports = precondition(lambda self: self.arrays and len(self.exports) < MANY)
    some = precondition(lambda self: self.arrays)
    some_with_room = precondition(lambda self: 0 < len(self.arrays) < MANY)
    some_exports = precondition(lambda self: self.exports)

    # -- birth

    @room
    @rule(start=number)
    def new(self, start):
        data = np.arange(start, start + N, dtype="f8")
        self.arrays.append(Array(nd.array(data), Storage(Lease(Block(data))), np.arange(N)))

    @room
    @rule(start=number)
    def imported(self, start):
        data = np.arange(start, start + N, dtype="f8")
        block = Block(data, ours=False, exposed=True)
        self.foreign.append((data, block))
        self.arrays.append(Array(nd.from_dlpack(data), Storage(Lease(block)), np.arange(N)))

    @room
    @rule(start=number)
    def imported_copy(self, start):
        data = np.arange(start, start + N, dtype="f8")
        x = nd.from_dlpack(data.__dlpack__(max_version=(1, 0), copy=True))
        self.arrays.append(Array(x, Storage(Lease(Block(data))), np.arange(N)))

    @room
    @rule(start=number)
    def owned(self, start):
        o = Owner(np.arange(start, start + N, dtype="f8"))
        a = o.data
        x = nd.ndarray._wrap(o, a.ctypes.data, (1, 0), a.nbytes, 0, a.dtype, 0, a.shape, (1,))
        self.arrays.append(Array(x, Storage(Lease(Block(a))), np.arange(N)))

    @some_with_room
    @rule(i=pick, how=st.sampled_from(list(VIEWS)))
    def view(self, i, how):
        a = self.an_array(i)
        if a.places.ndim or how in ("all", "new axis"):
            # Both are asked of the array: for its places NumPy might copy where the array shows a view.
            self.arrays.append(Array(VIEWS[how](a.x), a.storage, VIEWS[how](a.places)))

    @some_with_room
    @rule(i=pick)
    def readonly(self, i):
        a = self.an_array(i)
        self.arrays.append(Array(nd.readonly(a.x), a.storage, a.places))

    @some_with_room
    @rule(i=pick, how=st.sampled_from([lambda x: x.copy(), lambda x: x.copy("K"), copy.deepcopy]))
    def copied(self, i, how):
        a = self.an_array(i)
        c = how(a.x)
        assert not c._flags
        lease = a.storage.lease
        may_be_lazy = a.is_all and not lease.block.exposed and not lease.writers
        lazy = address(c) == address(a.x) and c.size > 0
        assert not lazy or may_be_lazy
        assert (
            lazy or not may_be_lazy or not a.x.flags.c_contiguous or not c.size
        )  # of nothing there is nothing to share
        if lazy:
            self.arrays.append(Array(c, Storage(Lease(lease.block)), a.places))
        else:
            # In memory of its own, where its elements lie one after the other in some order.
            order = np.arange(c.size).reshape(c.shape)
            if c.size and not c.flags.c_contiguous:
                order = np.lib.stride_tricks.as_strided(np.arange(c.size), c.shape, c.strides)
            block = Block(np.zeros(c.size))
            block.data[order] = a.expected
            self.arrays.append(Array(c, Storage(Lease(block)), order))

    # -- writes

    def writable(self, i: int) -> Array | None:
        a = self.an_array(i)
        return None if a.readonly or not a.places.size else a

    @some
    @rule(i=pick, v=number)
    def write_first(self, i, v):
        a = self.writable(i)
        if a:
            key = (0,) * a.places.ndim
            a.x[key] = v
            a.storage.own()
            a.write(v, a.places[key])

    @some
    @rule(i=pick, v=number)
    def overwrite(self, i, v):
        a = self.writable(i)
        if a:
            a.x[...] = v
            a.storage.own()
            a.write(v)

    @some
    @rule(i=pick, v=number)
    def add_in_place(self, i, v):
        a = self.writable(i)
        if a:
            np.add(a.x, v, out=a.x)
            a.storage.own()
            a.write(a.expected + v)

    @some
    @rule(i=pick, j=pick)
    def take_the_values_of_another(self, i, j):
        a, b = self.writable(i), self.an_array(j)
        if a and a.places.shape == b.places.shape:
            expected = b.expected.copy()
            a.x[...] = b.x
            a.storage.own()
            a.write(expected)

    @some
    @rule(i=pick)
    def overwrite_in_vain(self, i):
        a = self.writable(i)
        if a and a.is_all:
            with pytest.raises(ValueError, match="broadcast"):
                a.x[...] = np.arange(7.0)

    @some
    @rule(i=pick)
    def write_to_what_is_read_only(self, i):
        a = self.an_array(i)
        if a.readonly:
            with pytest.raises(ValueError, match="read-only"):
                a.x[...] = 0

    @some
    @rule(i=pick)
    def materialize(self, i):
        a = self.writable(i)
        if a:
            nd.materialize(a.x)
            a.storage.own()

    # -- exports

    @room_for_exports
    @rule(i=pick, how=st.sampled_from(list(WRITABLE)))
    def export(self, i, how):
        a = self.an_array(i)
        act, holds = WRITABLE[how]
        if a.readonly or (any(s < 0 for s in a.x.strides) and not holds):
            return
        what = act(a.x)
        a.storage.own()
        self.exports.append(Export(what, a, writable=True, holds=holds))

    @room_for_exports
    @rule(i=pick, how=st.sampled_from(list(READ_ONLY)))
    def export_read_only(self, i, how):
        a = self.an_array(i)
        act, holds = READ_ONLY[how]
        if any(s < 0 for s in a.x.strides) and not holds:
            return
        self.exports.append(Export(act(a.x), a, writable=False, holds=holds))

    @some_exports
    @rule(i=pick, v=number)
    def foreign_write(self, i, v):
        e = self.an_export(i)
        if e.visible and e.places.size:  # where there is nothing NumPy has memory of its own
            n = np.asarray(e.what)
            assert n.flags.writeable == e.writable
            if e.writable:
                n[...] = v
                e.lease.block.data[e.places] = v

    @precondition(lambda self: self.foreign)
    @rule(i=pick, v=number)
    def write_by_the_producer(self, i, v):
        data, block = self.foreign[i % len(self.foreign)]
        data[1] = v
        block.data[1] = v

    @some
    @rule(i=pick)
    def address_given_away(self, i):
        a = self.an_array(i)
        given = a.x.ptr
        if a.readonly:
            lease = a.storage.lease
            if lease not in a.storage.kept and not lease.block.exposed:
                a.storage.kept.append(lease)
                lease.kept += 1
        else:
            a.storage.own()
            a.storage.block.exposed = True
        assert given == address(a.x)

    # -- home

    @precondition(lambda self: self.exports and len(self.arrays) < MANY)
    @rule(i=pick)
    def home(self, i):
        e = self.an_export(i)
        if not isinstance(e.what, np.ndarray) and e.visible:
            return  # a memoryview speaks no DLPack
        block = e.lease.block
        lease: Lease | None = e.lease
        if e.visible:
            if not block.ours or not e.places.size or isinstance(e.what.base, memoryview):
                return
            lease = block.exported
            read_only = (
                not e.writable or len(block.leases) > 1 or bool(lease is not None and (lease.readers or lease.kept))
            )
            h = nd.from_dlpack(e.what)
            if lease is None:
                read_only = True
        else:
            read_only = not e.writable
            h = nd.from_dlpack(e.what)
        if lease is None:
            lease = Lease(block)
        assert bool(h._flags) == read_only
        joined = next((a.storage for a in self.arrays if a.storage.lease is lease), None)
        if joined is None:
            joined = next((x.storage for x in self.exports if x.storage and x.storage.lease is lease), None)
        self.arrays.append(Array(h, joined or Storage(lease), e.places))
        if not e.visible:
            self.exports.remove(e)  # the capsule was consumed
            e.drop()

    # -- deaths

    @some
    @rule(i=pick)
    def array_dies(self, i):
        self.arrays.pop(i % len(self.arrays)).storage.drop()

    @some_exports
    @rule(i=pick)
    def export_dies(self, i):
        self.exports.pop(i % len(self.exports)).drop()

    # -- what must be so

    @invariant()
    def everything_shows_what_it_must(self):
        for a in self.arrays:
            assert values(a.x) == a.expected.tolist()
            s, lease = state(a.x), a.storage.lease
            assert s.leases == len(a.storage.block.leases)
            # An address that another storage has given away, before it moved on, is as good as an export.
            given = lease.kept - (lease in a.storage.kept)
            assert (s.exports, s.writable) == (lease.readers + lease.writers + given, lease.writers)
            assert nd.is_shared(a.x) == (len(a.storage.block.leases) > 1)
        for e in self.exports:
            if e.visible:
                assert np.asarray(e.what).tolist() == e.lease.block.data[e.places].tolist()
        for data, block in self.foreign:
            assert data.tolist() == block.data.tolist()

    @invariant()
    def arrays_of_one_storage_and_no_others_are_views_of_each_other(self):
        by_model = [id(a.storage) for a in self.arrays]
        by_state = [state(a.x).storage for a in self.arrays]
        assert len(set(zip(by_model, by_state, strict=True))) == len(set(by_model)) == len(set(by_state))

    def teardown(self):
        while self.exports:
            self.exports.pop().drop()
        while self.arrays:
            self.arrays.pop().storage.drop()
        self.foreign.clear()
        if sys.exc_info()[0] is not None:
            return  # the error that is on its way holds arrays
        if settled() != self.before:
            gc.collect()
        assert settled() == self.before


def search(examples: int, steps: int, *, derandomize: bool) -> None:
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=derandomize,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(Machine, settings=how)


def test_no_order_of_events_shows_another_value():
    search(250, 40, derandomize=True)


@pytest.mark.slow
def test_no_order_of_many_events_shows_another_value():
    search(5000, 80, derandomize=False)
