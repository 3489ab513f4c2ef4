# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="misc"
"""Reductions, as methods, functions and NumPy's functions, against NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.devices import base
from tests.arrays import EXTENDED, LAYOUTS, NUMPY_DTYPES, assert_same, pair, same_outcome

NAMES = sorted(base.REDUCTIONS)
WITH_DTYPE = ["mean", "prod", "std", "sum", "var"]

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning", "ignore:Mean of empty:RuntimeWarning"
)


def axes(ndim, name):
    """Return None, each axis, and where several are allowed also pairs, and none."""
    single = [None, *range(-ndim, ndim), ndim + 1]
    return single if name.startswith("arg") else [*single, (), *itertools.combinations(range(ndim), 2), (0, 0)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_axes_of_each_layout(name, layout):
    x, a = pair(np.float64, layout)
    for axis in axes(a.ndim, name):
        for keepdims in (False, True):
            expected = lambda axis=axis, k=keepdims: getattr(np, name)(a, axis=axis, keepdims=k)
            same_outcome(lambda axis=axis, k=keepdims: getattr(x, name)(axis=axis, keepdims=k), expected)
            same_outcome(lambda axis=axis, k=keepdims: getattr(np, name)(x, axis=axis, keepdims=k), expected)
            same_outcome(lambda axis=axis, k=keepdims: getattr(nd, name)(x, axis=axis, keepdims=k), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES, ids=str)
def test_each_dtype(name, dtype):
    x, a = pair(dtype)
    for axis in (None, 0, 1):
        same_outcome(lambda axis=axis: getattr(x, name)(axis), lambda axis=axis: getattr(np, name)(a, axis))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", EXTENDED, ids=str)
def test_dtypes_that_are_not_numpys(name, dtype):
    """What sums up does so in float32, and the result is of the array's dtype."""
    x, a = pair(dtype)
    for axis in (None, 0, 1):
        if name in base.ACCUMULATING:
            expected = getattr(np, name)(a.astype(np.float32), axis).astype(dtype)
        else:
            expected = getattr(np, name)(a, axis)
        assert_same(getattr(x, name)(axis), expected)


def test_long_sums_of_short_floats():
    assert nd.ones(1000, nd.bfloat16).sum() == 1000
    assert nd.ones(1000, nd.float16).sum() == 1000
    assert nd.full(1000, 0.5, nd.float8_e5m2).mean() == 0.5


@pytest.mark.parametrize("name", WITH_DTYPE)
@pytest.mark.parametrize("to", [np.float32, np.float64, np.complex64, np.int16, nd.bfloat16])
def test_dtype(name, to):
    if name == "std" and to is np.int16:
        return  # NumPy takes the root in integers
    for dtype in (np.int32, np.float32, np.complex64):
        x, a = pair(dtype)
        same_outcome(lambda: getattr(x, name)(dtype=to), lambda: getattr(np, name)(a, dtype=to))
        same_outcome(lambda: getattr(np, name)(x, 0, dtype=to), lambda: getattr(np, name)(a, 0, dtype=to))


@pytest.mark.parametrize("name", NAMES)
def test_out(name):
    x, a = pair(np.float32)
    kind = getattr(np, name)(a, 0).dtype
    out = nd.empty(6, kind)
    y = out.copy()
    with nd.no_copies():
        assert getattr(x, name)(axis=0, out=out) is out
    assert_same(out, getattr(np, name)(a, axis=0))
    assert not nd.is_shared(y)
    assert getattr(np, name)(x, axis=0, out=out) is out
    theirs = np.empty(6, kind)
    assert getattr(x, name)(axis=0, out=theirs) is theirs
    assert_same(out, theirs)
    with pytest.raises(ValueError, match="read-only"):
        getattr(x, name)(axis=0, out=nd.readonly(out))
    with pytest.raises(ValueError, match="output|out|broadcast"):
        getattr(x, name)(axis=0, out=nd.empty(5, kind))


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "std", "var", "any", "all"])
def test_where_and_initial(name):
    x, a = pair(np.float64)
    mask = a > 2
    options = {"initial": 3.0} if name in ("sum", "prod", "min", "max") else {}
    for where in (mask, nd.array(mask)):
        same_outcome(
            lambda w=where: getattr(x, name)(axis=1, where=w, **options),
            lambda: getattr(np, name)(a, axis=1, where=mask, **options),
        )
        same_outcome(
            lambda w=where: getattr(np, name)(x, where=w, **options),
            lambda: getattr(np, name)(a, where=mask, **options),
        )


def test_degrees_of_freedom():
    x, a = pair(np.float64)
    assert_same(x.var(ddof=1), a.var(ddof=1))
    assert_same(np.std(x, axis=0, ddof=1), np.std(a, axis=0, ddof=1))
    assert_same(nd.std(x, axis=0, correction=1), np.std(a, axis=0, ddof=1))


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
def test_nothing_to_choose_from(name):
    with pytest.raises(ValueError, match="zero-size|empty sequence"):
        getattr(nd.zeros((0, 3)), name)()


def test_nan_and_first_of_several():
    x = nd.array([1.0, np.nan, np.nan])
    assert np.isnan(float(x.min()))
    assert int(x.argmax()) == 1
    assert int(nd.array([2, 5, 5]).argmax()) == 1


def test_axis_must_be_there():
    x = nd.zeros((2, 3))
    with pytest.raises(nd.errors.AxisError, match="axis 2 is out of bounds for array of dimension 2"):
        x.sum(2)
    with pytest.raises(TypeError):
        x.argmax((0, 1))
    with pytest.raises(TypeError):
        x.sum("0")


def test_results_are_arrays_without_dimensions():
    x = nd.arange(4)
    assert type(x.sum()) is nd.ndarray
    assert x.sum().shape == ()
    assert float(x.mean()) == 1.5
    assert x.sum()._state()[0] % 256 == 0


@pytest.mark.parametrize("name", ["sum", "mean", "std", "max"])
def test_output_that_overlaps_the_array_is_written_last(name):
    for shared in (False, True):
        a = np.arange(9.0).reshape(3, 3)[::-1].copy()
        x = nd.array(a)
        y = x.copy() if shared else None
        getattr(x, name)(axis=0, out=x[1])
        expected = a.copy()
        expected[1] = getattr(a, name)(axis=0)
        assert_same(x, expected)
        assert y is None or y.tolist() == a.tolist()


def test_a_mean_of_halves_does_not_overflow():
    x, a = nd.full(4, 60000, np.float16), np.full(4, 60000, np.float16)
    assert_same(x.mean(), a.mean())
    assert_same(x.reshape(2, 2).mean(0), a.reshape(2, 2).mean(0))
    assert_same(np.mean(x), np.mean(a))


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "any", "all", "argmin", "argmax"])
def test_an_array_without_dimensions_has_an_axis(name):
    for axis in (0, -1):
        assert_same(getattr(nd.array(5), name)(axis), getattr(np.array(5), name)(axis))
    with pytest.raises(nd.errors.AxisError):
        getattr(nd.array(5), name)(1)


@pytest.mark.parametrize("name", ["std", "var"])
def test_a_mean_that_is_known(name):
    x, a = nd.array([[1.0, 2], [3, 5]]), np.array([[1.0, 2], [3, 5]])
    assert_same(getattr(x, name)(0, mean=nd.ones((1, 2))), getattr(a, name)(0, mean=np.ones((1, 2))))
    assert_same(getattr(np, name)(x, axis=0, mean=nd.ones((1, 2))), getattr(np, name)(a, axis=0, mean=np.ones((1, 2))))


@pytest.mark.parametrize("out", ["a", [0.0], (nd.zeros(()),)], ids=repr)
def test_out_is_an_array(out):
    with pytest.raises(TypeError, match="but must be an array"):
        nd.ones(3).sum(out=out)
