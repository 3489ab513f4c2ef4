"""Functions that Numba compiles for the CPU take our arrays and return them."""

from __future__ import annotations

import gc
import sys
import threading
from collections import namedtuple
from ctypes import CFUNCTYPE, c_int, c_uint, pythonapi

import numba
import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import TypingError
from numba.core.runtime import rtsys

import nbdlpack as nd
from nbdlpack import native
from nbdlpack.devices import base
from nbdlpack.devices import njit as ours
from nbdlpack.errors import CopyError
from tests.arrays import EXTENDED, LAYOUTS, NUMPY_DTYPES, assert_same, pair
from tests.memory.tools import FOREIGN, exports, leases, state
from tests.meta.test_import import ROOT, run
from tests.pretend import Pretend


@pytest.fixture(autouse=True)
def on_the_cpu():
    with nd.device("cpu"):
        yield


usleep = CFUNCTYPE(c_int, c_uint)(("usleep", pythonapi))
"""For compiled functions to wait in, without the GIL: a call of which the compiler does not know what it changes."""


@njit
def identity(x):
    return x


@njit
def copy_elements(target, source):
    for i in np.ndindex(source.shape):
        target[i] = source[i]


@njit
def set_first(x, value):
    x[0] = value


@njit
def total(x):
    s = 0.0
    for value in x.flat:
        s += value
    return s


# ---- what goes in ---------------------------------------------------------------------------------------------------


UNKNOWN = [np.dtype(np.float16), *EXTENDED]
"""Dtypes that Numba does not have on the CPU."""


@pytest.mark.parametrize("dtype", [dtype for dtype in NUMPY_DTYPES if dtype not in UNKNOWN], ids=str)
def test_every_dtype(dtype):
    x, a = pair(dtype)
    y = nd.empty_like(x)
    copy_elements(y, x)
    assert_same(y, a)
    assert_same(identity(x), a)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout):
    x, a = pair(np.float64, layout)
    y = nd.zeros(x.shape)
    copy_elements(y, x)
    assert_same(y, a)
    found = identity(x)
    assert_same(found, a)
    assert found.strides == x.strides
    assert found.flags.writeable == x.flags.writeable


@pytest.mark.parametrize("layout", LAYOUTS)
def test_types_are_those_of_numpys_arrays(layout):
    x, a = pair(np.int32, layout)
    found, expected = numba.typeof(x), numba.typeof(a)
    for name in ("dtype", "ndim", "layout", "mutable", "aligned"):
        assert getattr(found, name) == getattr(expected, name)
    assert found is numba.typeof(x)
    assert found != expected
    assert "nbdlpack" in str(found)


def test_many_dimensions():
    x = nd.arange(2.0).reshape((1,) * 30 + (2,) + (1,) * 10)
    assert identity(x).shape == x.shape


def test_arrays_in_tuples():
    @njit
    def second(pair):
        pair[0][0] = 7
        return pair[1]

    x, y = nd.zeros(2), nd.ones(3)
    assert_same(second((x, y)), np.ones(3))
    assert x.tolist() == [7, 0]
    assert exports(x) == exports(y) == (0, 0)


@pytest.mark.parametrize("dtype", UNKNOWN, ids=str)
def test_dtypes_that_numba_does_not_know(dtype):
    x = nd.zeros(3, dtype=dtype)
    for function in (identity, numba.typeof):
        with pytest.raises(TypeError, match=rf"{dtype}.*astype.*x\.view\('uint{8 * dtype.itemsize}'\)"):
            function(x)
    assert identity(x.view(f"uint{8 * dtype.itemsize}")).tolist() == [0, 0, 0]


@pytest.fixture
def elsewhere():
    device = Pretend()
    base.register(device)
    yield nd.zeros(3, device=device)
    del base._named["pretend"], base._placed[device.place]
    native.importable[device.dlpack[0]] = 0


def test_arrays_that_are_elsewhere(elsewhere):
    for function in (identity, numba.typeof):
        with pytest.raises(TypeError, match=r"on pretend.*x\.to_device\('cpu'\)"):
            function(elsewhere)


def test_addresses_that_are_odd():
    a = np.zeros(17, np.uint8)[1:].view(np.float64)
    x = nd.asarray(a)
    with pytest.raises(TypeError, match=r"odd addresses.*x\.copy\(\)"):
        identity(x)
    assert exports(x) == (0, 0)
    assert identity(x.copy()).tolist() == [0, 0]


def test_memory_of_others():
    a = np.arange(4.0)
    x = nd.from_dlpack(a)
    set_first(x, 9)
    assert a[0] == 9
    y = identity(x)
    assert state(y).address == a.ctypes.data
    assert exports(x) == (0, 0)


def test_subclasses():
    class Mine(nd.ndarray):
        pass

    x = nd.arange(3.0)._view(Mine, 0, np.dtype("f8"), 0, (3,), (1,))
    assert type(x) is Mine
    assert type(identity(x)) is nd.ndarray


# ---- an argument is an export ---------------------------------------------------------------------------------------

seen: list[tuple[int, int]] = []


@njit
def look_at(x):
    with numba.objmode():
        looking()
    return x.size


def looking():
    seen.append(exports(watched[-1]))


watched: list[nd.ndarray] = []


def test_an_argument_is_exported_for_the_length_of_the_call():
    x = nd.arange(3.0)
    watched.append(x)
    look_at(x)
    look_at(nd.readonly(x))
    assert seen == [(1, 1), (1, 0)]
    assert exports(x) == (0, 0)
    watched.clear()
    seen.clear()


def test_an_argument_that_can_be_written_to_moves_away_from_lazy_copies():
    x = nd.arange(3.0)
    y = x.copy()
    with nd.copy_log() as log:
        set_first(x, 7)
    assert (x.tolist(), y.tolist()) == ([7, 1, 2], [0, 1, 2])
    assert len(log) == 1
    assert log[0].nbytes == 24
    assert leases(x) == leases(y) == 1


def test_nothing_moves_where_copies_are_forbidden():
    x = nd.arange(3.0)
    y = x.copy()
    before = state(x)
    with nd.no_copies(), pytest.raises(CopyError):
        set_first(x, 7)
    assert state(x) == before
    assert x.tolist() == y.tolist() == [0, 1, 2]
    with nd.no_copies():
        assert total(nd.readonly(x)) == 3


def test_a_read_only_argument_neither_moves_nor_copies():
    x = nd.arange(3.0)
    y = x.copy()
    before, moved = state(x), native.world.moves
    assert total(nd.readonly(x)) == 3
    assert (state(x), native.world.moves, leases(y)) == (before, moved, 2)


def test_writing_to_a_read_only_argument_is_an_error_of_types():
    x = nd.readonly(nd.arange(3.0))
    with pytest.raises(TypingError, match="readonly nbdlpack.ndarray"):
        set_first(x, 1)
    with pytest.raises(TypingError, match="readonly"):
        njit(lambda x: x[1:].fill(2))(x)
    assert x.tolist() == [0, 1, 2]


def test_what_comes_of_a_read_only_argument_is_read_only():
    x = nd.readonly(nd.ones((3, 3)))
    # Numba takes what the last of these returns for something to write to.
    for function in (lambda x: x, lambda x: x[1:], lambda x: np.asfortranarray(x.T)):
        found = njit(function)(x)
        assert not found.flags.writeable
        assert found._state()[6] == x._state()[6]
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 1


def test_copies_made_meanwhile_are_not_lazy():
    @njit(nogil=True)
    def wait(x, flags):
        flags[0] = 1
        while flags[1] == 0:
            usleep(100)
        x[0] = 7

    x, flags = nd.arange(3.0), np.zeros(2)
    thread = threading.Thread(target=wait, args=(x, flags))
    thread.start()
    while not flags[0]:
        usleep(100)
    y, counts = x.copy(), exports(x)
    flags[1] = 1
    thread.join()
    assert counts == (1, 1)
    assert (x.tolist(), y.tolist()) == ([7, 1, 2], [0, 1, 2])
    assert leases(x) == 1
    assert leases(x.copy()) == 2, "and are so again afterwards"


def test_one_array_as_two_arguments():
    x = nd.arange(3.0)
    y = x.copy()
    copy_elements(x, x[::-1])
    assert (x.tolist(), y.tolist()) == ([2, 1, 2], [0, 1, 2])
    assert exports(x) == (0, 0)


def test_an_array_and_its_lazy_copy_as_two_arguments():
    x = nd.arange(3.0)
    y = x.copy()
    x[0] = 5
    z = x.copy()
    copy_elements(z, x)
    copy_elements(y, z)
    assert x.tolist() == y.tolist() == z.tolist() == [5, 1, 2]
    assert leases(x) == leases(y) == leases(z) == 1


def test_the_array_is_not_kept():
    x = nd.arange(3.0)
    n = sys.getrefcount(x)
    set_first(x, 1)
    total(x)
    assert sys.getrefcount(x) == n


# ---- what comes out -------------------------------------------------------------------------------------------------


def test_a_returned_argument_is_a_view_of_it():
    x = nd.arange(3.0)
    y = identity(x)
    assert state(y) == state(x)
    assert exports(x) == (0, 0)
    y[0] = 9
    assert x[0] == 9
    z = y.copy()
    assert leases(z) == 2, "the copy is lazy"


@njit
def views(x):
    return x[1:], x[::-2], x.T, x.reshape(2, 3)[:, 1], x.view(np.int64)


def test_returned_views():
    x, a = nd.arange(6.0), np.arange(6.0)
    for found, expected in zip(views(x), views(a), strict=True):
        assert_same(found, expected)
        assert found.strides == expected.strides
        assert found._state()[6] == x._state()[6]
    assert exports(x) == (0, 0)


def test_real_and_imaginary_parts():
    x = nd.array([1 + 2j, 3 + 4j])
    real, imag = njit(lambda x: (x.real, x.imag))(x)
    assert (real.tolist(), imag.tolist()) == ([1, 3], [2, 4])
    imag[0] = 7
    assert x[0] == 1 + 7j


def test_views_outlive_the_argument():
    gc.collect()
    before = native.world.bytes
    y = njit(lambda x: x[1:])(nd.arange(1000.0))
    gc.collect()
    assert y[0] == 1
    assert y.sum() == 499500
    assert native.world.bytes > before
    del y
    assert native.world.bytes == before


def allocated():
    stats = rtsys.get_allocation_stats()
    return stats.mi_alloc - stats.mi_free


@pytest.fixture
def counted():
    """Numba's counts of its references to memory."""
    from numba.core.runtime import _nrt_python as runtime

    if not runtime.memsys_stats_enabled():
        runtime.memsys_enable_stats()
    return allocated


@njit
def fresh(x):
    a = np.empty(x.shape)
    a[:] = 2
    return a


def test_a_fresh_array_is_ours_over_numbas_memory(counted):
    x = nd.zeros((2, 3))
    fresh(x)
    before = counted()
    y = fresh(x)
    assert_same(y, np.full((2, 3), 2.0))
    assert y.flags.writeable
    assert not state(y).flags
    assert (leases(y), exports(y)) == (1, (0, 0))
    z = y.copy()
    assert leases(z) == 2, "nobody else can write to it"
    z[0, 0] = 1
    assert y[0, 0] == 2
    assert counted() == before + 1
    w = y[1:]
    del y
    assert w.tolist() == [[2, 2, 2]]
    del w
    assert counted() == before


def test_two_results_over_one_memory_are_never_copied_lazily(counted):
    @njit
    def both(x):
        a = np.zeros(x.size)
        return a, a[1:]

    both(nd.zeros(3))
    before = counted()
    y, z = both(nd.zeros(3))
    assert state(y).flags == FOREIGN
    copied = y.copy()
    z[0] = 7
    assert (y.tolist(), copied.tolist()) == ([0, 7, 0], [0, 0, 0])
    assert nd.shares_memory(y, z)
    del y
    assert z.tolist() == [7, 0]
    del z
    assert counted() == before


def test_expressions_are_ours():
    x, a = nd.arange(4.0), np.arange(4.0)
    for function in (lambda x: x + 1, lambda x: np.sqrt(x) * x, lambda x: x > 1, lambda x: x.copy()):
        compiled = njit(function)
        assert_same(compiled(x), compiled(a))
        assert type(compiled(a)) is np.ndarray


def test_results_in_tuples():
    Pair = namedtuple("Pair", "first second")

    @njit
    def f(x):
        return Pair(x, (np.zeros(2), 3))

    found = f(nd.arange(2.0))
    assert type(found) is Pair
    assert_same(found.first, np.arange(2.0))
    assert_same(found.second[0], np.zeros(2))


def test_results_that_may_be_none():
    @njit
    def f(x):
        if x[0] > 0:
            return x
        return None

    assert f(nd.zeros(2)) is None
    assert_same(f(nd.ones(2)), np.ones(2))


def test_results_of_one_kind_or_another():
    @njit
    def f(x, fresh):
        y = x
        if fresh:
            y = np.zeros(2)
        return y

    x = nd.ones(2)
    assert_same(f(x, False), np.ones(2))
    assert_same(f(x, True), np.zeros(2))
    assert exports(x) == (0, 0)


def test_functions_that_get_numpys_arrays_return_numpys():
    a = np.arange(3.0)
    assert identity(a) is a
    assert type(fresh(a)) is np.ndarray


def test_numpys_arrays_beside_ours_come_back_as_they_were():
    @njit
    def f(x, a):
        return x, a, a[1:], a + x

    x, a = nd.zeros(3), np.arange(3.0)
    found = f(x, a)
    assert [type(y) for y in found] == [nd.ndarray, np.ndarray, np.ndarray, nd.ndarray]
    assert found[1] is a
    assert np.shares_memory(found[2], a)


seconds = np.dtype("M8[s]")


def test_dtypes_that_ours_cannot_have_are_numpys():
    x = nd.zeros(2, dtype=nd.int64)
    found = njit(lambda x: x.view(seconds))(x)
    assert type(found) is np.ndarray
    assert found.dtype == np.dtype("M8[s]")
    assert exports(x) == (1, 1), "it is an export as long as it lives"
    found[0] = np.datetime64(5, "s")
    assert x[0] == 5
    del found
    assert exports(x) == (0, 0)


# ---- lifetimes ------------------------------------------------------------------------------------------------------


def test_an_exception_ends_the_export():
    @njit
    def f(x, y):
        z = x[1:]
        z[0] = 5
        if y[0] == 0:
            raise ValueError("zero")
        return z

    x, y = nd.zeros(3), nd.zeros(2)
    for _ in range(3):
        with pytest.raises(ValueError, match="zero"):
            f(x, y)
    assert x.tolist() == [0, 5, 0]
    assert exports(x) == exports(y) == (0, 0)


def test_an_argument_that_is_refused_ends_the_exports_of_those_before():
    @njit
    def f(x, y):
        return x.size + y.size

    x, y = nd.zeros(3), nd.asarray(np.zeros(17, np.uint8)[1:].view(np.float64))
    f(x, x)
    with pytest.raises(TypeError, match="odd"):
        f(x, y)
    assert exports(x) == (0, 0)


def test_recursion():
    @njit
    def f(x, n):
        if n == 0:
            return 0.0
        return x[0] + f(x[1:], n - 1)

    x = nd.arange(5.0)
    assert f(x, 5) == 10
    assert exports(x) == (0, 0)


def test_calls_from_python_inside_of_a_call():
    @njit
    def inner(x):
        x[0] += 1
        return x

    @njit
    def outer(x):
        with numba.objmode():
            again()
        return x

    def again():
        y = inner(x)
        assert exports(x) == (1, 1)
        y[1] = 5

    globals()["again"] = again
    x = nd.zeros(3)
    outer(x)
    assert x.tolist() == [1, 5, 0]
    assert exports(x) == (0, 0)
    del globals()["again"]


def test_lists_of_numbas_keep_the_export():
    @njit
    def fill(values):
        for x in values:
            x[0] = 4

    x = nd.zeros(3)
    values = numba.typed.List([x, nd.zeros(3)])
    assert exports(x) == (1, 1)
    y = x.copy()
    fill(values)
    assert (x[0], y[0]) == (4, 0), "the copy was not lazy"
    first = njit(lambda values, x: values[0])(values, x)
    assert first._state()[6] == x._state()[6]
    address = state(x).address
    del x, first
    z = values[0]
    assert (type(z), state(z).address, z[0]) == (nd.ndarray, address, 4)
    assert exports(z) == (1, 1)
    del values
    gc.collect()
    assert exports(z) == (0, 0)
    z[0] = 1


def test_attributes_of_numbas_classes_keep_the_export():
    @numba.experimental.jitclass([("a", types.float64[:])])
    class Keeper:
        def __init__(self, a):
            self.a = a

    x = nd.zeros(3)
    keeper = Keeper(x)
    assert exports(x) == (1, 1)
    a = keeper.a
    a[0] = 3
    assert (type(a), x[0]) == (np.ndarray, 3)
    del keeper, a
    gc.collect()
    assert exports(x) == (0, 0)


def test_nothing_is_left_behind(counted):
    x = nd.arange(6.0)

    def calls():
        for _ in range(500):
            identity(x)
            views(nd.readonly(x))
            y = x.copy()
            fresh(y)
            set_first(y, 1)
        del y
        gc.collect()
        return native.world.blocks, native.world.bytes, counted()

    assert calls() == calls()
    assert (leases(x), exports(x)) == (1, (0, 0))


def test_threads():
    @njit(nogil=True)
    def add(x, y, n):
        for _ in range(n):
            for i in range(x.size):
                x[i] += y[i]
        return x[:1]

    add(nd.zeros(1000), nd.readonly(nd.ones(1000)), 1)
    shared = nd.readonly(nd.ones(1000))
    arrays = [nd.zeros(1000) for _ in range(4)]

    def work(x):
        for _ in range(200):
            view, copied = add(x, shared, 10), x.copy()
            assert view[0] == copied[0]

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [x[0].item() for x in arrays] == [2000] * 4
    assert {x.sum().item() for x in arrays} == {2000 * 1000}
    assert exports(shared) == (0, 0)
    assert all(exports(x) == (0, 0) and leases(x) == 1 for x in arrays)


def test_threads_with_one_array_and_copies_of_it():
    @njit(nogil=True)
    def write(x, value):
        x[:] = value
        return x

    x = nd.zeros(5000)
    write(x, 0)
    torn = []

    def copier():
        for _ in range(300):
            y = x.copy()
            z = y.copy()
            if y[0] == 77:
                torn.append("y")
            z[0] = 77
            write(y, 77.0)

    def writer(value):
        for _ in range(300):
            write(x, value)

    threads = [threading.Thread(target=copier), *[threading.Thread(target=writer, args=(v,)) for v in (1.0, 2.0)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    assert set(x.tolist()) <= {0.0, 1.0, 2.0}
    assert (leases(x), exports(x)) == (1, (0, 0))


# ---- in a function --------------------------------------------------------------------------------------------------


def test_functions_called_with_what_is_made_of_an_argument_are_those_of_numpys_arrays():
    @njit
    def inner(x):
        return x.sum()

    @njit
    def outer(x):
        return inner(x[1:])

    assert outer(nd.arange(4.0)) == 6
    assert inner.signatures == [(types.float64[::1],)]


def test_functions_with_signatures_for_numpys_arrays_take_arguments_in_compiled_code():
    @njit(types.float64(types.float64[:]))
    def inner(x):
        return x.sum()

    @njit
    def outer(x):
        return inner(x)

    assert outer(nd.arange(4.0)) == 6
    with pytest.raises(TypeError, match=r"No matching definition.*nbdlpack\.ndarray"):
        inner(nd.arange(4.0))
    assert inner(np.arange(4.0)) == 6


def test_signatures():
    @njit((numba.typeof(nd.zeros(4)[::2]),))
    def f(x):
        return x[:1]

    assert_same(f(nd.arange(4.0)), np.zeros(1))
    with pytest.raises(TypeError, match=r"for nbdlpack\.ndarray, not for ndarray.*asarray"):
        f(np.arange(4.0))
    with pytest.raises(TypeError, match="No matching definition"):
        f(nd.readonly(nd.arange(4.0)))
    with pytest.raises(TypeError, match="No matching definition"):
        f(nd.arange(4))


def test_parallel_loops():
    @njit(parallel=True)
    def f(x, y):
        for i in numba.prange(x.shape[0]):
            x[i] = y[i] * 2 + 1
        return x + y

    x, y = nd.zeros(1000), nd.arange(1000.0)
    assert_same(f(x, y), np.arange(1000.0) * 3 + 1)
    assert exports(x) == exports(y) == (0, 0)


constant = nd.arange(3.0, device="cpu")


def test_global_arrays_are_constants_as_numpys_are():
    f = njit(lambda x: x + constant)
    assert f(nd.ones(3)).tolist() == [1, 2, 3]
    constant[0] = 9
    assert f(nd.ones(3)).tolist() == [1, 2, 3]
    with pytest.raises(TypingError, match="readonly"):
        njit(lambda: constant.fill(1))()


# ---- how Numba finds us ---------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import nbdlpack as nd, numba
assert "nbdlpack.devices.njit" not in sys.modules
x = nd.arange(3.0, device="cpu")
f = numba.njit(lambda x: x[1:])
print(type(f(x)).__module__, f(x), x._state()[3:5], f.signatures)
"""


def test_numba_finds_us_by_itself():
    assert run(PROGRAM) == "nbdlpack.array [1. 2.] (0, 0) [(nbdlpack.ndarray(float64, 1d, C),)]\n"


def test_numba_finds_us_where_nothing_is_installed():
    without = "import importlib.metadata as m; m.entry_points = lambda **_: m.EntryPoints()\n"
    assert run(without + PROGRAM) == run(PROGRAM)


CACHED = """
import sys
import numpy as np, nbdlpack as nd, numba

@numba.njit(cache=True)
def f(x):
    x[0] += 1
    return x[1:], np.zeros(2)

x = nd.arange(3.0, device="cpu")
y, z = f(x)
print(type(y).__module__, x, y, z, x._state()[3:5], sum(f.stats.cache_hits.values()))
"""


def test_compiled_functions_are_kept_in_files(tmp_path):
    (tmp_path / "program.py").write_text(CACHED)
    places = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    outputs = [run("import runpy; runpy.run_path('program.py')", cwd=tmp_path, **places) for _ in range(2)]
    assert outputs == [f"nbdlpack.array [1. 1. 2.] [1. 2.] [0. 0.] (0, 0) {hits}\n" for hits in (0, 1)]
    assert any((tmp_path / "cache").rglob("*.nbc"))


def test_registering_again_is_harmless():
    ours.register()
    assert total(nd.ones(3)) == 3
