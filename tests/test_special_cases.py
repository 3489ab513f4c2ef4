"""What elementwise functions give at infinities, NaNs and zeros: what the array API standard says, not always NumPy."""

from __future__ import annotations

import operator
import warnings
from math import inf, nan

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import ufuncs
from tests.arrays import assert_same, same_outcome
from tests.special_cases import BINARY, UNARY, is_same

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

MENDED = [row for row in ufuncs.TABLE if row.mend is not None]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    cases = UNARY[name]
    found = getattr(nd, name)(nd.array([z for z, _ in cases], dtype=dtype))
    for (z, wanted), value in zip(cases, found.tolist(), strict=True):
        assert is_same(value, wanted), (name, z, value)
        single = getattr(nd, name)(nd.array(z, dtype=dtype))
        assert is_same(single.item(), wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, nd.bfloat16])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    x, y = [nd.array([case[i] for case in BINARY[name]]).astype(dtype) for i in (0, 1)]
    found = getattr(nd, name)(x, y)
    assert found.dtype == dtype
    for case, value in zip(BINARY[name], found.tolist(), strict=True):
        assert is_same(value, case[2]), (*case, value)


OPERATORS = {"floor_divide": (operator.floordiv, operator.ifloordiv), "pow": (operator.pow, operator.ipow)}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    """Each way to write it gives the same: with arrays or numbers on either side, the first time or later, in place."""
    plain, in_place = OPERATORS[name]
    for a, b, wanted in BINARY[name]:
        x, y = nd.array([1.0, a]), nd.array([1.0, b])
        for _ in range(2):
            for found in (plain(x, y), plain(x, b), plain(a, y), plain(x, np.asarray(y)), plain(np.asarray(x), y)):
                assert is_same(found[-1].item(), wanted), (a, b, found)
            changed, kept = x.copy(), x.copy()
            for other in (y, b):
                assert is_same(in_place(changed, other)[-1].item(), wanted)
                changed = nd.array([1.0, a])
            assert is_same(in_place(kept[::-1], y[::-1])[0].item(), wanted)


def test_divmod():
    x = nd.array([1.0, -1.0, inf, -inf, nan, 7.0, -0.0])
    for y in (x[:, None], 2.0, -inf, nd.array(inf)):
        for both in (divmod(x, y), np.divmod(x, y), np.divmod(x, y, out=(nd.empty_like(x + y), None))):
            assert_same(both[0], np.asarray(x // y))
            assert_same(both[1], np.asarray(x % y))


@pytest.mark.parametrize("row", MENDED, ids=lambda row: row.name)
def test_a_mend_leaves_the_rest_to_numpy(row):
    """Its values, errors and warnings, beside mended values too, and the options."""
    kind = np.complex128 if row.mend.kinds == "c" else np.float64
    plain = np.array([1.5, 2.0, -3.25, 0.125], kind)
    special = {"expm1": complex(inf, nan), "sign": complex(inf, nan), "tan": complex(1, inf), "tanh": complex(inf, 3)}
    mixed = plain.copy()
    mixed[1] = special.get(row.name, inf)
    others = (plain[::-1].copy(),) * (row.ufunc.nin - 1)
    function = getattr(nd, row.name)
    for a in (plain, mixed):
        expected = row.ufunc(a, *others)
        found = function(nd.array(a), *others)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        rest = [0, 2, 3]
        assert_same(found[rest], expected[rest])
        mask, out = np.array([False, True, False, True]), nd.full(4, 9, dtype=kind)
        function(nd.array(a), *others, where=mask, out=out)
        assert_same(out, np.where(mask, np.asarray(found), 9))
        narrow = np.complex64 if row.mend.kinds == "c" else np.float32
        assert_same(function(nd.array(a), *others, dtype=narrow)[rest], row.ufunc(a, *others, dtype=narrow)[rest])
        x = nd.array(a)
        assert_same(row.ufunc(x, *others, out=x), np.asarray(found))
        y = nd.array(np.repeat(a, 2))
        row.ufunc(y[::2], *others, out=y[3:7])  # overlapping
        assert_same(y[3:7], np.asarray(found))
    same_outcome(
        lambda: row.ufunc(nd.array(mixed), *others, out=nd.empty(4, "i4")),
        lambda: row.ufunc(mixed, *others, out=np.empty(4, "i4")),
    )
    same_outcome(
        lambda: function(nd.array(mixed)[:, None], *others, out=nd.empty(2)),
        lambda: row.ufunc(mixed[:, None], *others, out=np.empty(2)),
    )
    integers = np.array([1, -2, 3])
    same_outcome(
        lambda: function(nd.array(integers), *[3] * len(others)), lambda: row.ufunc(integers, *[3] * len(others))
    )


def test_what_is_mended_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (nd.array([inf, 1.0]) // 2).tolist() == [inf, 0.0]
        assert nd.expm1(nd.array(complex(inf, 0.0))).item() == complex(inf, 0.0)
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in floor_divide"):
        _ = nd.array([inf, 1.0]) // 0.0
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        _ = nd.array([inf, 1.0]) // 0.0


def test_a_mend_is_for_the_dtype_of_the_computation():
    """What is real is not mended as complex numbers are, whatever the output is."""
    out = nd.empty(2, nd.complex128)
    nd.expm1(nd.array([-0.0, 1.0]), out=out)
    assert is_same(out[0].item(), complex(-0.0, 0.0))
    assert nd.floor_divide(nd.array([1e300]), 1.0, dtype=nd.float32).item() == inf
    assert nd.floor_divide(nd.array([5, -5]), inf).tolist() == [0.0, -0.0]
    assert nd.floor_divide(nd.array([5, -5]), 2, out=nd.empty(2)).tolist() == [2.0, -3.0]
    assert (nd.array([7], nd.uint8) // 2).dtype == nd.uint8
