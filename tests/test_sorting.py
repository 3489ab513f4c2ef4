"""Sorting and sets, where numbers are peculiar: equal ones, zeros with signs, NaNs, the ends of what dtypes hold."""

from __future__ import annotations

import numpy as np
import pytest

import nbdlpack as nd
from tests.arrays import DTYPES, NUMPY_DTYPES, assert_same, bits

FLOATS = [dtype for dtype in NUMPY_DTYPES if dtype.kind == "f"]
SIZES = [30, 1000, 5000]  # below and above what is sorted in another way


def peculiar(dtype, size):
    """Return numbers with zeros of both signs, infinities, and NaNs of both signs and with other bits."""
    rng = np.random.default_rng(size)
    some = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0, 2.5]
    a = np.array(some, dtype)[rng.integers(0, len(some), size)]
    words = a.view(f"u{dtype.itemsize}")
    words[np.isnan(a) & (rng.random(size) > 0.5)] |= 1
    return a


def expected_order(a, descending):
    """Return the positions that sort numbers: by value, NaN last, then by position."""
    sign = -1 if descending else 1
    return np.array(sorted(range(a.size), key=lambda i: (np.isnan(a[i]), 0 if np.isnan(a[i]) else sign * float(a[i]))))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("descending", [False, True])
def test_equal_numbers_keep_their_order_and_nan_is_last(dtype, size, descending):
    a = peculiar(dtype, size)
    x, order = nd.array(a), expected_order(a, descending)
    assert_same(nd.argsort(x, descending=descending), order)
    assert bits(nd.sort(x, descending=descending)) == bits(a[order])
    unstable = nd.sort(x, descending=descending, stable=False)
    np.testing.assert_array_equal(np.asarray(unstable), a[order])
    np.testing.assert_array_equal(a[np.asarray(nd.argsort(x, descending=descending, stable=False))], a[order])


@pytest.mark.parametrize("size", SIZES)
def test_zeros_with_signs_alone_keep_their_order(size):
    a = np.where(np.random.default_rng(0).random(size) > 0.5, 0.0, -0.0)
    for x in (nd.array(a), nd.array(a + 0j), nd.array(a, np.float32)):
        assert bits(nd.sort(x)) == bits(nd.sort(x, descending=True)) == bits(x)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.kind in "iub"], ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_integers_to_the_ends_of_what_they_hold(dtype, size):
    a = np.frombuffer(np.random.default_rng(0).bytes(size * dtype.itemsize), np.uint8).view(
        dtype if dtype.kind != "b" else "u1"
    )
    a = a > 99 if dtype.kind == "b" else a.copy()
    if dtype.kind != "b":
        a[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = nd.array(a)
    assert_same(nd.sort(x), np.sort(a))
    assert_same(nd.sort(x, descending=True), np.sort(a)[::-1])
    assert_same(nd.argsort(x, descending=True), (a.size - 1 - np.argsort(a[::-1], kind="stable"))[::-1])


def test_complex_numbers_are_in_numpys_order():
    a = np.array([1 + 2j, 1 - 2j, np.nan, complex(1, np.nan), -1, 0j, complex(np.nan, 1)])
    assert_same(nd.sort(nd.array(a)), np.sort(a, kind="stable"))
    assert nd.sort(nd.array(a[[0, 1, 4, 5]]), descending=True).tolist() == [1 + 2j, 1 - 2j, 0, -1]


def test_many_short_rows_and_other_axes():
    a = np.random.default_rng(0).integers(0, 9, (50, 7, 30)).astype(np.float32)
    x = nd.array(a)
    for axis in (0, 1, 2, -1):
        assert_same(nd.sort(x, axis=axis), np.sort(a, axis, kind="stable"))
        assert_same(nd.sort(x.T, axis=axis, descending=True), -np.sort(-a.T, axis, kind="stable"))
        assert_same(nd.take_along_axis(x, nd.argsort(x, axis=axis), axis=axis), np.sort(a, axis, kind="stable"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sorting_nothing(dtype):
    for shape in ((0,), (2, 0), (0, 3)):
        x = nd.zeros(shape, dtype)
        for descending in (False, True):
            assert nd.sort(x, descending=descending).shape == shape
            assert nd.argsort(x, axis=0, descending=descending).dtype == np.int64
    with pytest.raises(nd.errors.AxisError):
        nd.sort(nd.zeros((), dtype))


def test_the_array_is_left_as_it_is():
    x = nd.array([3, 1, 2])
    y = x.copy()
    nd.sort(x)
    assert x.tolist() == [3, 1, 2]
    assert nd.is_shared(y)


# -- searching in what is sorted


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_searchsorted_has_the_order_of_sort(dtype):
    a = np.sort(np.array([-np.inf, -1, -0.0, 0.0, 0.0, 1, np.inf, np.nan, np.nan], dtype))
    for side in ("left", "right"):
        assert_same(nd.searchsorted(nd.array(a), nd.array(a[::-1]), side=side), np.searchsorted(a, a[::-1], side))
    assert nd.searchsorted(nd.array(a), -0.0).tolist() == 2
    assert nd.searchsorted(nd.array(a), 0.0, side="right").tolist() == 5
    assert nd.searchsorted(nd.array(a), float("nan")).tolist() == 7


def test_searchsorted_takes_a_number_for_what_the_array_is_of():
    x = nd.array([0.0, 0.1, 0.2], np.float32)
    assert nd.searchsorted(x, 0.1, side="right") == 2, "0.1 as a float64 is less"
    assert nd.searchsorted(x, 0.1).shape == ()
    assert nd.searchsorted(nd.array([1, 2, 3], np.uint8), 2.5) == 2
    assert nd.searchsorted(nd.array([1, 2, 3], np.uint8), 300) == 3
    assert nd.searchsorted(nd.array([1, 2, 3], np.uint8), -1) == 0


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.int64])
def test_searchsorted_by_a_sorter(kind):
    x = nd.array([30, 10, 20])
    assert nd.searchsorted(x, nd.array([[10], [25]]), sorter=nd.array([1, 2, 0], kind)).tolist() == [[0], [2]]
    assert nd.searchsorted(x, 10, side="right", sorter=[1, 2, 0]) == 1


# -- sets


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_each_nan_is_a_number_of_its_own_and_zeros_are_equal(dtype):
    x = nd.array([np.nan, 0.0, -0.0, np.nan, 1.0, 0.0], dtype)
    found = nd.unique_all(x)
    assert [str(n) for n in found.values.tolist()] == ["0.0", "1.0", "nan", "nan"]
    assert found.indices.tolist() == [1, 4, 0, 3]
    assert found.inverse_indices.tolist() == [2, 0, 0, 3, 1, 0]
    assert found.counts.tolist() == [3, 1, 1, 1]
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    assert bits(nd.unique_values(x)) == bits(nd.unique_counts(x).values) == bits(nd.unique_inverse(x)[0])
    assert nd.isin(x, x).tolist() == [False, True, True, False, True, True]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_many_numbers_are_found_among_many(dtype):
    a, b = peculiar(dtype, 5000), np.arange(5000).astype(dtype)
    expected = np.isin(a.astype(float), np.unique(b.astype(float)))
    assert_same(nd.isin(nd.array(a), nd.array(b)), expected)
    assert_same(nd.isin(nd.array(b), nd.array(a)), np.isin(b.astype(float), [0, 1, 2.5]) | np.isinf(b))


def test_each_complex_number_with_a_nan_is_one_of_its_own():
    nan = float("nan")
    x = nd.array([complex(nan, 0), complex(nan, 0), complex(0, nan), 1, complex(-0.0, 0), 0])
    assert nd.unique_counts(x).counts.tolist() == [2, 1, 1, 1, 1]


def test_shapes_of_sets():
    x = nd.array([[3, 1], [1, 3]])
    for y in (x, x.T, x[::-1]):
        values, at = nd.unique_inverse(y)
        assert values.shape == (2,)
        assert at.shape == (2, 2)
        assert nd.take(values, at, axis=0).tolist() == y.tolist()
    assert nd.unique_inverse(nd.array(7)).inverse_indices.shape == ()
    assert [part.shape for part in nd.unique_all(nd.zeros((0, 3)))] == [(0,), (0,), (0, 3), (0,)]


def test_isin():
    x = nd.array([[1, 2], [3, 4]], np.int8)
    assert_same(nd.isin(x, nd.array([2, 400])), np.array([[False, True], [False, False]]))
    assert_same(nd.isin(x, [1, 4], invert=True), np.array([[False, True], [True, False]]))
    assert_same(nd.isin(3, x), np.array(True))
    assert_same(nd.isin(x, 300), np.zeros((2, 2), bool))
