"""Cycles through the owners of memory are collected, and not while an export needs them.

https://docs.python.org/3/c-api/gcsupport.html: an object shows the collector the references that it has, each once.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.dlpack import ReadOnlyTensorWrapper
from tests.memory.tools import address, delete, exports, leases, numbers, report, settled, take, values


class Owner:
    """A Python object that owns the memory of arrays, and can have attributes that refer to these."""

    x: Any
    y: Any
    h: Any
    views: list[Any]
    clones: list[Any]
    capsule: Any

    def __init__(self, n: int = 8) -> None:
        self.memory = np.arange(float(n))

    def array(self, *, foreign: bool = False) -> Any:
        a = self.memory
        return nd.ndarray._wrap(self, a.ctypes.data, (1, 0), a.nbytes, int(foreign), a.dtype, 0, a.shape, (1,))


@pytest.fixture(autouse=True)
def collector():
    """Leave it to the tests when the collector runs."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def collected(*dead: Any) -> bool:
    """Return whether a collection leaves none of these alive."""
    gc.collect()
    return all(ref() is None for ref in dead)


def test_an_owner_and_its_array():
    o = Owner()
    o.x = o.array()
    dead, x = weakref.ref(o), weakref.ref(o.x)
    del o
    assert dead() is not None, "nothing but the collector can free it"
    assert collected(dead, x)


def test_an_owner_lives_as_long_as_its_array():
    o = Owner()
    x = o.array()
    dead = weakref.ref(o)
    del o
    assert not collected(dead)
    assert values(x)[7] == 7
    del x
    assert dead() is None


@pytest.mark.parametrize("foreign", [False, True])
def test_views_and_what_was_exported_once(foreign):
    o = Owner()
    o.x = o.array(foreign=foreign)
    o.views = [o.x[1:], o.x[::2], nd.readonly(o.x), o.x.reshape(2, 4)]
    o.x.__dlpack__()
    np.from_dlpack(o.x)
    dead = weakref.ref(o)
    del o
    assert collected(dead)


def test_several_clones_on_one_block():
    before = settled()
    o = Owner()
    x = o.array()
    o.clones = [x.copy() for _ in range(4)] + [x]
    assert leases(x) == 5
    o.views = [c[1:] for c in o.clones]
    dead = weakref.ref(o)
    hold = np.from_dlpack(nd.readonly(o.clones[2]))
    del o, x
    assert not collected(dead), "an export of one clone keeps the owner"
    assert hold[3] == 3
    del hold
    assert collected(dead)
    assert settled() == before


def test_clones_some_of_which_have_moved():
    o = Owner()
    x = o.array()
    o.clones = [x.copy() for _ in range(5)]
    for c in o.clones[:3]:
        c[0] = 5
    assert leases(x) == 3
    dead = weakref.ref(o)
    del o
    assert not collected(dead), "x is not in the cycle"
    assert values(x)[0] == 0
    del x, c
    assert collected(dead)


def test_the_last_clone_in_the_cycle_has_moved():
    o = Owner()
    o.x = o.array()
    y = o.x.copy()
    o.x[0] = 1
    dead = weakref.ref(o)
    del o
    assert not collected(dead)
    assert values(y)[0] == 0
    del y
    assert collected(dead)


def test_an_overwritten_array_lets_go_of_the_owner():
    o = Owner()
    x = o.array()
    y = x.copy()
    dead = weakref.ref(o)
    x[...] = 1
    del o, y
    assert dead() is None
    assert values(x) == [1] * 8


@pytest.mark.parametrize(
    "export",
    [
        lambda x: x.__dlpack__(),
        lambda x: x.__dlpack__(max_version=(1, 0)),
        np.from_dlpack,
        lambda x: np.from_dlpack(ReadOnlyTensorWrapper(x)),
        memoryview,
        np.asarray,
    ],
)
def test_an_export_outside_the_cycle_keeps_it(export):
    o = Owner()
    o.x = o.array()
    e = export(o.x)
    dead = weakref.ref(o)
    del o
    assert not collected(dead)
    assert not collected(dead)
    del e
    assert collected(dead)


def test_an_export_inside_the_cycle_is_a_root():
    # as one of NumPy's arrays is: a capsule does not show the collector what it keeps
    o = Owner()
    o.x = o.array()
    o.capsule = o.x.__dlpack__()
    dead = weakref.ref(o)
    del o
    assert not collected(dead)
    again = dead()
    assert again is not None
    del again.capsule, again
    assert collected(dead)


def test_an_owner_outlives_its_arrays_by_an_export():
    o = Owner()
    x = o.array()
    dead = weakref.ref(o)
    managed = take(x)
    del o, x
    assert not collected(dead)
    delete(managed)
    nd.empty(1)
    assert dead() is None


def test_an_export_that_ends_outside_of_python_lets_the_cycle_go():
    o = Owner()
    o.x = o.array()
    dead = weakref.ref(o)
    managed = take(o.x)
    del o
    assert not collected(dead)
    delete(managed)
    assert collected(dead)


def test_a_lease_that_a_new_storage_takes_over_shows_the_owner():
    o = Owner()
    x = o.array()
    capsule = x.__dlpack__()
    del x
    o.h = nd.from_dlpack(capsule)
    del capsule
    assert exports(o.h) == (0, 0)
    dead = weakref.ref(o)
    del o
    assert collected(dead)


def test_a_subclass_with_a_dict_in_a_cycle():
    class Sub(nd.ndarray):
        pass

    before = settled()
    x = numbers().view(Sub)
    x.me = x
    x.others = [x[1:], x.copy(), np.from_dlpack(nd.readonly(x))]
    dead = weakref.ref(x)
    del x
    assert collected(dead)
    assert settled() == before


def test_arrays_of_memory_of_their_own_hold_nothing():
    x = numbers()
    assert gc.get_referents(x) in ([nd.ndarray], [])
    assert gc.get_referents(x[1:]) in ([nd.ndarray], [])
    o = Owner()
    y = o.array()
    shown = gc.get_referents(y)
    assert any(o in gc.get_referents(k) for k in shown), "through the keeper of the lease"


def test_an_owner_is_shown_once_for_all_arrays_of_a_lease():
    o = Owner()
    x = o.array()
    views = [x[i:] for i in range(5)]
    keepers = {id(k) for v in (x, *views) for k in gc.get_referents(v) if not isinstance(k, type)}
    assert len(keepers) == 1


def test_an_owner_whose_finaliser_uses_its_array():
    seen = []

    class Curious(Owner):
        def __del__(self) -> None:
            seen.append(values(self.x[6:]))
            self.x[0] = 9
            seen.append(np.from_dlpack(self.x)[0])

    o = Curious()
    o.x = o.array()
    o.y = o.x.copy()
    dead = weakref.ref(o)
    del o
    assert collected(dead)
    assert seen == [[6, 7], 9]


def test_an_owner_that_is_resurrected():
    saved = []

    class Lazarus(Owner):
        def __del__(self) -> None:
            saved.append(self)

    o = Lazarus()
    o.x = o.array()
    home = address(o.x)
    del o
    gc.collect()
    (o,) = saved
    saved.clear()
    assert address(o.x) == home
    assert values(o.x)[7] == 7
    dead = weakref.ref(o)
    del o
    assert collected(dead)


def test_a_chain_of_owners_as_long_as_the_stack_is_not():
    program = """
import numpy as np, nbdlpack as nd, json
a = np.zeros(1)
def over(owner): return nd.ndarray._wrap(owner, a.ctypes.data, (1, 0), 8, 1, a.dtype, 0, (1,), (1,))
class Link:
    __slots__ = ("x",)
for kind in range(2):
    x = None
    for i in range(100_000):
        if kind:
            link = Link(); link.x = x; x = over(link)
        else:
            x = over(x)
    link = None
    del x
print(json.dumps("ended"))
"""
    assert report(program, NBDLPACK_COUNT_BLOCKS="1") == "ended"
