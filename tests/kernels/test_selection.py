# mypy: disable-error-code="no-untyped-def"
"""Index arrays and masks on a device that computes by kernels, against NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nbdlpack.devices.kernelled import selecting
from nbdlpack.native import View
from tests import hostcuda
from tests.arrays import LAYOUTS, values
from tests.kernels import harness
from tests.kernels.test_copies import WORDS, check, numbered
from tests.test_indexing import ADVANCED

LARGE = 300 if harness.SIMULATED else 100_000
INDEX = [np.dtype(kind) for kind in "bhilBHIL"]

KEYS = ADVANCED | {
    "array, ellipsis, array": (np.array([0, 1]), ..., np.array([1, 0])),
    "int first": (0, np.array([1, 0])),
    "int last": (np.array([1, 0]), 0),
    "newaxis between": (np.array([0, 1]), None, np.array([1, 0])),
    "newaxis before": (None, np.array([0, 1])),
    "negative step": (slice(None, None, -1), np.array([1, 0])),
    "slice of nothing": (slice(3, 3), np.array([1, 0])),
    "bool in front": (True, np.array([1, 0])),
    "false in front": (False, np.array([1, 0])),
    "false and out of bounds": (False, np.array([99])),
    "bool apart": (True, slice(None), np.array([1, 0])),
    "mask last": (slice(None), np.array([True, False])),
    "mask, ellipsis": (np.array([True, False]), ...),
    "mask and array": (np.array([True, False]), np.array([0])),
    "mask and arrays": (np.array([True, True]), np.array([[0, 1], [1, 1]])),
    "two masks": (np.array([True, True]), np.array([False, True])),
    "mask of nothing": np.zeros((4, 6), bool),
    "wrong axis of mask": np.ones((4, 5), bool),
    "mask too deep": np.ones((4, 6, 2, 2), bool),
    "mismatch": (np.array([0, 1]), np.array([0, 1, 1])),
    "below": np.array([-99, 0]),
    "second out of bounds": (np.array([0, 0]), np.array([1, 99])),
    "empty and out of bounds": (np.array([99]), np.zeros(0, np.int64)),
    "empty and int out of bounds": (99, np.zeros(0, np.int64)),
    "int out of bounds": (99, np.array([0])),
    "0-d array": (np.array(1), np.array([0, 1])),
    "three": (np.array([0, 1]), np.array([0, 1]), np.array([0, 1])),
    "too many": (np.array([0]),) * 5,
    "mask makes too many": (np.ones((4, 6), bool), np.array([0]), np.array([0]), np.array([0])),
    "nested": [[0, 1], [1, 1]],
    "text in a list": ["a"],
    "text beside": ("a", np.array([0])),
    "two ellipses": (..., np.array([0]), ...),
    "objects": np.array([0, None]),
}


def ours(device, key):
    """Return a key with its NumPy arrays as arrays on the device."""
    if isinstance(key, tuple):
        return tuple([ours(device, part) for part in key])
    if isinstance(key, np.ndarray) and key.dtype.kind in "biuf":
        return device.from_host(View, key)
    return key


def outcome(device, call, expected, *, shown=None):
    """Check that a call gives what NumPy's does, or raises an error of the same kind."""
    try:
        a = expected()
    except Exception as error:  # noqa: BLE001 - whatever it is
        kind, text = type(error), str(error)
        with pytest.raises(kind) as info:
            call()
        if "out of bounds" in text or "boolean index" in text or "too many" in text:
            assert str(info.value) == text
        return
    check(device, call() if shown is None else shown(call()), a)


# -- reading


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_gather(standin, key, layout):
    a = LAYOUTS[layout](numbered((4, 6), np.float32))
    x = standin.view(a)
    for k in (key, ours(standin, key)):
        outcome(standin, lambda k=k: standin.gather(View, x, k), lambda: a[key])


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_every_word(standin, dtype):
    for shape in ((9, 5), (9, 8), (9, 4, 2)):
        a = numbered(shape, dtype)
        for residue, view in itertools.product((0, 8, 1), (lambda a: a, lambda a: a[::-1], lambda a: a[:, 1:])):
            b = view(a)
            x, mask = standin.view(b, residue), np.arange(b.size).reshape(b.shape) % 3 == 0
            for key in (
                np.array([3, 1, 1, 8]),
                (slice(None), np.array([0, 2, 1])),
                mask,
                (np.array([1, 2]), np.array([2, 0])),
            ):
                there = ours(standin, key)
                check(standin, standin.gather(View, x, there), b[key])
                y, c = standin.view(b, residue), b.copy()
                value = c[key] + dtype.type(1)
                standin.scatter(y, there, value)
                c[key] = value
                check(standin, y, c)


@pytest.mark.parametrize("dtype", INDEX, ids=str)
def test_every_dtype_of_indices(standin, dtype):
    a, x = numbered((10, 3), np.float32), standin.view(numbered((10, 3), np.float32))
    k = np.array([[1, 9, 0], [3, 3, 2]]).astype(dtype)
    for key in (k, k.T, k[::-1, ::2]):
        check(standin, standin.gather(View, x, standin.view(key)), a[key])
    if dtype.kind == "i":
        check(standin, standin.gather(View, x, standin.view(-k - 1)), a[-k - 1])
    with pytest.raises(IndexError, match="index 10 is out of bounds for axis 0 with size 10"):
        standin.gather(View, x, standin.view(np.array([3, 10, 11], dtype)))


@settings(max_examples=60 if harness.SIMULATED else 200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_key(standin, data):
    """Index arrays, masks, slices, integers, new axes and ellipses in any order, here and there, read and written."""
    shape = data.draw(hnp.array_shapes(max_dims=4, max_side=4))
    a = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    parts, axis = [], 0
    together = data.draw(hnp.array_shapes(max_dims=2, max_side=3))
    while axis < len(shape) and len(parts) < 6:
        kind = data.draw(st.sampled_from(["array", "mask", "slice", "int", "new", "dots", "bool", "end"]))
        n = shape[axis]
        if kind == "array":
            some = data.draw(st.sampled_from([together, together[-1:], (1,), ()]))
            parts.append(data.draw(hnp.arrays(np.int64, some, elements=st.integers(-n, n - 1))))
        elif kind == "mask":
            dims = data.draw(st.integers(1, len(shape) - axis))
            parts.append(data.draw(hnp.arrays(bool, shape[axis : axis + dims])))
            axis += dims - 1
        elif kind == "slice":
            parts.append(data.draw(st.slices(n)))
        elif kind == "int":
            parts.append(data.draw(st.integers(-n, n - 1)))
        elif kind == "bool":
            parts.append(data.draw(st.booleans()))
        elif kind == "new":
            parts.append(None)
        elif kind == "dots":
            if Ellipsis in [part for part in parts if part is Ellipsis]:
                continue
            parts.append(...)
        else:
            break
        axis += kind not in ("new", "dots", "bool")
    key = tuple(parts)
    x = standin.view(a)
    there = tuple(
        [standin.from_host(View, k) if isinstance(k, np.ndarray) and data.draw(st.booleans()) else k for k in key]
    )
    outcome(standin, lambda: standin.gather(View, x, there), lambda: np.asarray(a[key]))
    try:
        value = a[key] * 3 + 1000
    except IndexError:
        return
    if data.draw(st.booleans()):
        value = value[..., :1] if value.ndim else value
    value = value if data.draw(st.booleans()) else np.int16(7)
    there_value = standin.from_host(View, value) if data.draw(st.booleans()) else value
    b = a.copy()
    b[key] = value
    standin.scatter(x, there, there_value)
    check(standin, x, b)


def test_many_dimensions(standin):
    a = numbered((2, 3, 2, 3, 2, 3), np.int32)
    for view in (a, a.transpose(5, 2, 0, 4, 1, 3), a[::-1, ::2, :, ::-1, :, ::2]):
        x, mask = standin.view(view), view % 3 == 0
        i = np.array([1, 0, 1, 1])
        for key in ((slice(None), i), (i, slice(None), slice(None), i), mask, (slice(None), mask[0]), (..., i)):
            there = ours(standin, key)
            check(standin, standin.gather(View, x, there), view[key])
            y, b = standin.view(view), view.copy()
            standin.scatter(y, there, -b[key])
            b[key] = -b[key]
            check(standin, y, b)


@pytest.mark.parametrize("order", ["forward", "reverse", "random:3"])
def test_large(standin, order):
    n = LARGE
    rng = np.random.default_rng(1)
    a, k, m = rng.random(n).astype(np.float32), rng.integers(-n, n, 2 * n), rng.random(n) < 0.3
    x = standin.view(a)
    with harness.option(order=order):
        check(standin, standin.gather(View, x, standin.from_host(View, k)), a[k])
        check(standin, standin.gather(View, x, standin.from_host(View, m)), a[m])
        for part, of in (([slice(1, None)], m[1:]), ([slice(None, None, -2)], m[::-2])):
            check(standin, standin.gather(View, standin.view(a[part[0]]), standin.view(of)), a[part[0]][of])
        (found,) = standin.nonzero(View, standin.from_host(View, m))
        check(standin, found, np.nonzero(m)[0])


# -- writing


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_scatter(standin, key, layout):
    for k in (key, ours(standin, key)):
        for some in (
            lambda v: np.float32(77),
            lambda v: v * 2 + 1000,
            lambda v: v[..., :1] + 500,
            lambda v: v[..., 0] * 3,
        ):
            a = LAYOUTS[layout](numbered((4, 6), np.float32))
            x = standin.view(a)
            around = standin.surroundings(x)
            before = a.copy()
            try:
                value = some(a[key])
            except IndexError:
                value = np.float32(3)

            def assigned(a=a, value=value):
                a[key] = value
                return a

            def written(x=x, k=k, value=value):
                standin.scatter(x, k, value if value.ndim == 0 else standin.from_host(View, value))
                return x

            outcome(standin, written, assigned)
            check(standin, x, a)
            assert (standin.surroundings(x) == around).all()
            if layout == "empty" or "out of bounds" in str(key):
                assert (a == before).all()


def test_nothing_is_written_if_an_index_is_bad(standin):
    a = numbered((5, 4), np.int32)
    x = standin.view(a)
    for k in ([0, 1, 5], [-6, 1, 2], [0, 99, 2]):
        for value in (np.int32(0), numbered((3, 4), np.int32), numbered((3, 4), np.float64)):
            bad = next(i for i in k if not -5 <= i < 5)
            with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 5"):
                standin.scatter(x, standin.from_host(View, np.array(k)), value)
            with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 5"):
                standin.scatter(x, k, value)
    check(standin, x, a)
    with pytest.raises(ValueError, match=r"shape mismatch: value array of shape \(3,\) could not be broadcast"):
        standin.scatter(x, standin.from_host(View, np.array([0, 1])), np.ones(3, np.int32))
    check(standin, x, a)


@pytest.mark.parametrize("order", ["forward", "reverse", "random:1", "random:2"])
def test_the_last_of_several_wins(standin, order):
    rng = np.random.default_rng(4)
    n = LARGE // 10
    with harness.option(order=order):
        for shape, places in (((50,), 50), ((7, 3), 7), ((1000,), 5), ((3,), 1)):
            k = rng.integers(0, places, n)
            value = numbered((n, *shape[1:]), np.int32)
            for key, there in (
                (k, standin.from_host(View, k)),
                (k - places, standin.from_host(View, k - places)),
                (k, k),
            ):
                a = np.zeros(shape, np.int32)
                for view in (lambda a: a, lambda a: a[::-1]):
                    b = view(a.copy())
                    x = standin.view(b)
                    standin.scatter(x, there, value)
                    b[key] = value
                    check(standin, x, b)
        a, x = np.zeros((6, 5), np.uint8), standin.view(np.zeros((6, 5), np.uint8)[::-1, ::-1])
        i, j = rng.integers(0, 6, (2, n // 2)), rng.integers(0, 5, (2, n // 2))
        value = rng.integers(0, 255, (2, n // 2)).astype(np.uint8)
        standin.scatter(x, (standin.from_host(View, i), j), value)
        a[i, j] = value
        check(standin, x, a)


def test_winners_are_not_looked_for_in_vain(standin):
    x = standin.view(np.zeros(20, np.float32))
    k, m = standin.from_host(View, np.array([1, 1, 2])), standin.from_host(View, np.arange(20) < 3)
    standin.calls.clear()
    standin.scatter(x, k, 3)
    standin.scatter(x, k, np.ones(1))
    standin.scatter(x, m, np.ones(3))
    assert not [name for name, *_ in standin.calls if name in ("claim", "keep last")]
    standin.scatter(x, k, np.ones(3))
    assert [name for name, *_ in standin.calls if name in ("claim", "keep last")] == ["claim", "keep last"]


def test_overlap_reads_first(standin):
    a = np.array([3, 0, 2, 1, 5, 4])
    x = standin.view(a)
    standin.scatter(x, x, x)
    b = a.copy()
    b[a] = a.copy()
    check(standin, x, b)
    x, y = standin.view(a), a.copy()
    standin.scatter(x, x, x._view(View, 5 * 8, a.dtype, 0, (6,), (-1,)))
    y[a] = a[::-1].copy()
    check(standin, x, y)
    m = np.array([True, False, True, True])
    x = standin.view(m)
    standin.scatter(x, x, False)
    check(standin, x, np.zeros(4, bool))
    x = standin.view(m)
    standin.scatter(x, x._view(View, 3, m.dtype, 0, (4,), (-1,)), x._view(View, 1, m.dtype, 0, (1,), (1,)))
    b = m.copy()
    b[m[::-1].copy()] = m[1]
    check(standin, x, b)


@pytest.mark.parametrize("value", [5, 2.5, True, [1.0], np.float64(3), np.ones((1, 1)), 1 + 2j], ids=repr)
@pytest.mark.parametrize("kind", [np.int8, np.float32, np.complex64], ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_values_are_converted(standin, kind, value):
    for key in (np.array([1, 0]), np.array([True, False, True])):
        a = np.zeros((3, 2), kind)
        x = standin.view(a)
        try:
            a[key] = value
        except TypeError:
            with pytest.raises(TypeError):
                standin.scatter(x, ours(standin, key), value)
        else:
            standin.scatter(x, ours(standin, key), value)
        check(standin, x, a)


# -- masks


def test_masks_of_one_value(standin):
    """What is the same for all that a mask selects is written without knowing how much that is."""
    a = numbered((6, 5, 4), np.float32)
    m, rows, columns = a % 3 == 0, np.arange(6) % 2 == 0, np.arange(4) > 1
    rest = np.arange(20, dtype=np.float32).reshape(5, 4)
    for view in (lambda a: a, lambda a: a[::-1], lambda a: a.transpose(0, 2, 1), lambda a: a[..., ::-1]):
        for key, value in (
            (view(m), np.float32(3)),
            (view(m), np.float32([4])),
            (rows, np.float32(5)),
            (rows, view(rest[None])[0]),
            (rows, view(rest[None])[0][:1]),
            ((rows, slice(1, 3)), np.float32(2)),
            ((rows, None, ...), np.float32(2)),
            ((2, view(m)[0]), np.float32(9)),
            ((True, view(m)), np.float32(9)),
        ):
            b = view(a.copy())
            x = standin.view(b)
            standin.calls.clear()
            standin.scatter(x, ours(standin, key), value)
            b[key] = value
            check(standin, x, b)
            assert not [name for name, *_ in standin.calls if name == "count"]
    b = a.copy()
    x = standin.view(b)
    standin.scatter(x, (slice(None), slice(None), standin.from_host(View, columns)), rest[:, :1])
    b[:, :, columns] = rest[:, :1]
    check(standin, x, b)
    with pytest.raises(ValueError, match="could not be broadcast to indexing result"):
        standin.scatter(x, standin.from_host(View, rows), np.ones(3, np.float32))
    with pytest.raises(TypeError, match="0 or 1 dimensions"):
        standin.scatter(x, standin.from_host(View, m), np.ones((2, 3), np.float32))


@pytest.mark.parametrize("n", [0, 1, 15, 16, 63, 64, 65, 129, 64 * 32, 64 * 32 + 1, LARGE])
def test_positions(standin, n):
    for seed, share in enumerate((0.0, 0.1, 0.9, 1.0)):
        m = np.random.default_rng(seed).random(n) < share
        found = selecting._positions(standin, standin.from_host(View, m))
        check(standin, found, np.nonzero(m)[0])
    odd = (np.arange(n) % 3).astype(np.uint8) * 100
    x = standin.from_host(View, odd)
    mask = x._view(View, 0, np.dtype(bool), 0, (n,), (1,))
    check(standin, selecting._positions(standin, mask), np.nonzero(odd)[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["?", "i4", "f4", "f2", "c8"])
def test_nonzero(standin, layout, kind):
    a = LAYOUTS[layout](values(np.int8) % 3).astype(kind)
    x = standin.view(LAYOUTS[layout]((values(np.int8) % 3).astype(kind)))
    a = LAYOUTS[layout]((values(np.int8) % 3).astype(kind))
    if not a.ndim:
        with pytest.raises(ValueError, match=r"x\.reshape\(1\)"):
            standin.nonzero(View, x)
        return
    for found, expected in zip(standin.nonzero(View, x), np.nonzero(a), strict=True):
        check(standin, found, expected)


@pytest.mark.parametrize("kind", ["i8", "f4", "f8", "c16", "i1"])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 32 * 32 + 1, LARGE // 2])
def test_sums_of_all_that_is_before(standin, kind, n):
    a = (np.arange(n) % 7).astype(kind)
    for inclusive in (False, True):
        x = standin.from_host(View, a)
        total = selecting._accumulate(standin, x, inclusive=inclusive)
        sums = np.cumsum(a, dtype=kind)
        check(standin, x, sums if inclusive else np.concatenate([np.zeros(1, kind), sums[:-1]]))
        check(standin, total, sums[-1:])


@pytest.mark.skipif(harness.SIMULATED or not hostcuda.installed(), reason="nothing counts what waits")
def test_what_waits(standin):
    """Only what needs a value: the number that a mask selects, and whether an index on the device is in its axis."""
    a = values(np.float32)
    x, m, i = standin.view(a), standin.from_host(View, a > 2), standin.from_host(View, np.array([1, 0]))
    value = standin.from_host(View, np.ones(1, np.float32))
    count = int((a > 2).sum())
    calls = {
        "list": (lambda: standin.gather(View, x, [0, 1]), 0),
        "NumPy mask": (lambda: standin.gather(View, x, a > 2), 0),
        "write to a list": (lambda: standin.scatter(x, ([0, 1], [1, 1]), np.ones(2)), 0),
        "scalar to a mask": (lambda: standin.scatter(x, m, 0), 0),
        "element to a mask": (lambda: standin.scatter(x, m, value), 0),
        "indices": (lambda: standin.gather(View, x, i), 1),
        "write to indices": (lambda: standin.scatter(x, i, 3), 1),
        "mask": (lambda: standin.gather(View, x, m), 1),
        "write to a mask": (lambda: standin.scatter(x, m, np.ones(count)), 1),
        "nonzero": (lambda: standin.nonzero(View, x), 1),
    }
    for name, (call, expected) in calls.items():
        standin.synchronize()
        hostcuda.reset_stats()
        call()
        assert hostcuda.stats()["syncs"] == expected, name
        assert hostcuda.stats()["d2h"] == expected, name
