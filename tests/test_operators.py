# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="arg-type, call-overload, comparison-overlap, misc, union-attr"
"""Operators and ufuncs, against NumPy's."""

from __future__ import annotations

import operator
import sys
import threading

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import ufuncs
from tests.arrays import DTYPES, EXTENDED, LAYOUTS, NUMPY_DTYPES, Thing, assert_same, bits, pair, same_outcome, values

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow,
    operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift,
]  # fmt: skip
UNARY = [operator.neg, operator.pos, operator.abs, operator.invert]
SCALARS = [True, 2, -1, 300, 2.5, 1j, np.float32(2), np.int8(2), np.float64(1), np.bool(True)]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_binary_of_one_dtype(op, dtype):
    x, a = pair(dtype)
    y, b = nd.array(values(dtype)[::-1]), values(dtype)[::-1].copy()
    for _ in range(2):  # the second time result types are known
        same_outcome(lambda: op(x, y), lambda: op(a, b))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_binary_of_each_layout(op, layout):
    x, a = pair(np.int32, layout)
    y, b = nd.ones(x.shape, np.int32), np.ones(a.shape, np.int32)
    same_outcome(lambda: op(x, y), lambda: op(a, b))
    same_outcome(lambda: op(y, x), lambda: op(b, a))


@pytest.mark.parametrize("dtype", NUMPY_DTYPES, ids=str)
@pytest.mark.parametrize("other", NUMPY_DTYPES, ids=str)
def test_promotion(dtype, other):
    x, a = pair(dtype)
    y, b = pair(other)
    for op in (operator.add, operator.truediv, operator.lt, operator.and_):
        same_outcome(lambda op=op: op(x, y), lambda op=op: op(a, b))
        same_outcome(lambda op=op: op(x, b), lambda op=op: op(a, b))
        same_outcome(lambda op=op: op(a, y), lambda op=op: op(a, b))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES, ids=str)
def test_scalars(op, dtype):
    """Python's are weak, as NEP 50 says."""
    x, a = pair(dtype)
    for scalar in SCALARS:
        same_outcome(lambda s=scalar: op(x, s), lambda s=scalar: op(a, s))
        same_outcome(lambda s=scalar: op(s, x), lambda s=scalar: op(s, a))


@pytest.mark.parametrize("dtype", EXTENDED, ids=str)
def test_scalars_with_dtypes_that_are_not_numpys(dtype):
    """Where NumPy takes a Python float for a float32, it is as weak here as with every other floating dtype."""
    x, a = pair(dtype)
    weak = dtype.type(2.5)
    assert_same(x + 2.5, a + weak)
    assert_same(2.5 * x, weak * a)
    assert_same(x < 2.5, a < weak)
    assert (x + 2.5).dtype == dtype
    for scalar in (True, 2, 1j, np.float32(2), np.float64(1)):
        same_outcome(lambda s=scalar: x * s, lambda s=scalar: a * s)


@pytest.mark.parametrize("other", NUMPY_DTYPES, ids=str)
@pytest.mark.parametrize("dtype", EXTENDED, ids=str)
def test_dtypes_that_are_not_numpys_with_others(dtype, other):
    x, a = pair(dtype)
    y, b = pair(other)
    same_outcome(lambda: x + y, lambda: a + b)
    same_outcome(lambda: x == y, lambda: a == b)


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_unary(op, layout):
    for dtype in DTYPES:
        x, a = pair(dtype, layout)
        same_outcome(lambda: op(x), lambda: op(a))


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_place(op, dtype):
    """Also of a lazy copy, of which the other side keeps what it was; and a refusal leaves all as it was."""
    for other in (nd.array(values(dtype)[0]), 2, True, 2.5):
        x, a = pair(dtype)
        y, z = x.copy(), x
        b = other._host(0) if isinstance(other, nd.ndarray) else other
        if type(other) is float and dtype in EXTENDED:
            b = dtype.type(2.5)
        same_outcome(lambda: op(x, other), lambda: op(a, b))
        assert bits(z) == bits(a)
        assert bits(y) == bits(values(dtype))


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
def test_in_place_of_each_layout(layout):
    x, a = pair(np.float32, layout)
    y = x.copy()
    address = x._state()[0]
    x += 1
    x *= x
    a += 1
    a *= a
    assert_same(x, a)
    if layout == "C":
        assert address != x._state()[0]
    assert_same(y, pair(np.float32, layout)[1])


def test_in_place_keeps_the_object_and_its_views():
    x = nd.zeros(4)
    same, part = x, x[1:]
    x += 1
    part *= 5
    assert x is same
    assert x.tolist() == [1, 5, 5, 5]


def test_in_place_refuses():
    x = nd.readonly(nd.arange(3))
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        x += 1
    y = nd.arange(3)
    with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output from dtype"):
        y += 1.5
    with pytest.raises(ValueError, match="non-broadcastable output operand"):
        y += nd.ones((2, 3), nd.int64)
    with pytest.raises(ValueError, match="could not be broadcast"):
        y += nd.ones(2, nd.int64)
    assert y.tolist() == [0, 1, 2]


def test_overlapping_operands_are_read_first():
    for shared in (False, True):
        x, a = nd.arange(8), np.arange(8)
        y = x.copy() if shared else None
        x[1:] += x[:-1]
        a[1:] += a[:-1].copy()
        assert_same(x, a)
        np.add(x[::-1], x, out=x)
        a = a[::-1] + a
        assert_same(x, a)
        assert y is None or y.tolist() == list(range(8))


def test_matmul_and_divmod():
    for dtype in (np.float32, np.int64, np.complex64):
        a, b = values(dtype, (3, 4)), values(dtype, (4, 2))
        x, y = nd.array(a), nd.array(b)
        same_outcome(lambda: x @ y, lambda: a @ b)
        same_outcome(lambda: x @ b, lambda: a @ b)
        same_outcome(lambda: a @ y, lambda: a @ b)
        same_outcome(lambda: x[0] @ y[:, 0], lambda: a[0] @ b[:, 0])
        same_outcome(lambda: y @ y, lambda: b @ b)
        same_outcome(lambda: divmod(x, 2), lambda: divmod(a, 2))
        same_outcome(lambda: divmod(5, x), lambda: divmod(5, a))
    x, a = nd.ones((2, 2)), np.ones((2, 2))
    y = x.copy()
    x @= nd.ones((2, 2))
    a @= np.ones((2, 2))
    assert_same(x, a)
    assert_same(y, np.ones((2, 2)))


def test_sequences_are_operands():
    x = nd.arange(3)
    assert_same(operator.add(x, [1, 2, 3]), np.array([1, 3, 5]))
    assert_same((1, 2, 3) - x, (1, 2, 3) - np.arange(3))


@pytest.mark.parametrize("other", [None, "text", Thing(), {}, {1}], ids=repr)
def test_unknown_types_are_refused(other):
    x = nd.arange(3)
    for op in (operator.add, operator.mul, operator.lt, operator.matmul, operator.iadd):
        with pytest.raises(TypeError, match="not supported between|unsupported operand|converted to an index"):
            op(x, other)
    if other is None or isinstance(other, str):
        assert_same(x == other, np.arange(3) == other)
        assert_same(x != other, np.arange(3) != other)
    else:
        assert (x == other) is False
        assert (x != other) is True
    assert other not in x


@pytest.mark.parametrize(
    "other", [["a", "b", "c"], np.array(["a", "b", "c"]), np.str_("a"), b"a", [["a"], ["b"]]], ids=repr
)
def test_text_is_equal_to_no_number(other):
    x, a = nd.arange(3), np.arange(3)
    assert_same(x == other, a == other)
    assert_same(x != other, a != other)
    with pytest.raises(TypeError):
        operator.lt(x, other)


class Absorbing:
    """An operand that does all operations itself."""

    __array_ufunc__ = None

    def __radd__(self, other):
        return "absorbed"

    __rmul__ = __rmatmul__ = __rsub__ = __radd__


class Overriding:
    """An operand that does all ufuncs itself."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return ufunc.__name__, method


def test_other_libraries_have_their_say():
    x = nd.arange(3)
    assert x + Absorbing() == "absorbed"
    assert x @ Absorbing() == "absorbed"
    with pytest.raises(TypeError, match="does not support ufuncs"):
        x -= Absorbing()  # as in NumPy: a name that stands for an array does not become something else
    assert x + Overriding() == ("add", "__call__")
    assert Overriding().__array_ufunc__(np.add, "__call__") == ("add", "__call__")
    assert np.multiply(x, Overriding()) == ("multiply", "__call__")
    masked = np.ma.masked_array([1, 2, 3], [False, True, False])
    assert isinstance(masked + 0, np.ma.MaskedArray)
    for result in (x + masked, masked + x):
        assert result.mask.tolist() == [False, True, False]


# -- ufuncs


@pytest.mark.parametrize("row", [row for row in ufuncs.TABLE if row.operator], ids=lambda row: row.name)
def test_the_operator_of_a_function_does_the_same(row):
    x1, x2 = nd.array([5, -3]), nd.array([2, 3])
    function = getattr(nd, row.name)
    expected = function(x1) if row.ufunc.nin == 1 else function(x1, x2)
    assert_same(eval(row.operator, {"x": x1, "x1": x1, "x2": x2, "abs": abs}), np.asarray(expected))


@pytest.mark.parametrize("row", ufuncs.TABLE, ids=lambda row: row.name)
def test_every_function_on_every_dtype(row):
    function = getattr(nd, row.name)
    for dtype in DTYPES:
        x, a = pair(dtype)
        args, others = ((x,), (a,)) if row.ufunc.nin == 1 else ((x, x[::-1]), (a, a[::-1]))
        same_outcome(lambda: function(*args), lambda: row.ufunc(*others))
        same_outcome(lambda: row.ufunc(*args), lambda: row.ufunc(*others))


def test_out():
    x, a = nd.arange(4.0), np.arange(4.0)
    out = nd.empty(4)
    assert np.add(x, 1, out=out) is out
    assert_same(out, a + 1)
    assert nd.add(x, 2, out=out) is out
    assert_same(out, a + 2)
    theirs = np.empty(4)
    assert np.multiply(x, x, out=theirs) is theirs
    assert theirs.tolist() == [0, 1, 4, 9]
    assert np.multiply(a, a, out=out) is out
    assert out.tolist() == [0, 1, 4, 9]
    assert np.sqrt(out, out) is out
    wide = nd.empty((2, 4))
    assert_same(np.add(x, 1, out=wide), np.broadcast_to(a + 1, (2, 4)))
    with pytest.raises(ValueError, match="non-broadcastable output|could not be broadcast"):
        np.add(x, 1, out=nd.empty(3))
    with pytest.raises(ValueError, match="read-only"):
        np.add(x, 1, out=nd.readonly(x))
    with pytest.raises(TypeError, match="Cannot cast"):
        np.add(x, 1, out=nd.empty(4, int))


def test_out_of_a_shared_array_takes_fresh_memory():
    x = nd.arange(4.0)
    y = x.copy()
    with nd.no_copies():
        np.add(x, 1, out=x)
    assert (x.tolist(), y.tolist()) == ([1, 2, 3, 4], [0, 1, 2, 3])


def test_where():
    x, a = nd.arange(4), np.arange(4)
    for mask in (a > 1, nd.array(a > 1), [False, False, True, True]):
        out, expected = nd.zeros(4, int), np.zeros(4, int)
        y = out.copy()
        assert_same(np.add(x, 10, out=out, where=mask), np.add(a, 10, out=expected, where=np.asarray(mask)))
        assert y.tolist() == [0] * 4
        assert_same(nd.add(x, 10, out=out, where=mask), expected)
    assert np.add(x, 10, where=nd.array(a > 1))[2:].tolist() == [12, 13]


def test_options():
    x, a = nd.arange(4), np.arange(4)
    assert_same(np.add(x, x, dtype=np.float32), np.add(a, a, dtype=np.float32))
    assert_same(nd.add(x, x, dtype=nd.float32), np.add(a, a, dtype=np.float32))
    assert_same(np.add(x, x, signature="ff->f"), np.add(a, a, signature="ff->f"))
    assert_same(np.add(x, x, dtype=np.int8, casting="unsafe"), np.add(a, a, dtype=np.int8, casting="unsafe"))
    assert_same(np.add(x, x, order="F"), a + a)
    with pytest.raises(TypeError, match="Cannot cast"):
        np.add(x, x, dtype=np.int8, casting="safe")


def test_several_outputs():
    x, a = nd.array([1.5, -2.25]), np.array([1.5, -2.25])
    same_outcome(lambda: np.modf(x), lambda: np.modf(a))
    same_outcome(lambda: np.frexp(x), lambda: np.frexp(a))
    same_outcome(lambda: np.divmod(x, 1), lambda: np.divmod(a, 1))
    out = nd.empty(2)
    fraction, whole = np.modf(x, out=(None, out))
    assert whole is out
    assert_same(whole, np.modf(a)[1])
    assert_same(fraction, np.modf(a)[0])
    both = nd.empty((2, 2))
    y = both.copy()
    both[...] = 0
    np.modf(x, both[0], both[1])
    assert_same(both, np.stack(np.modf(a)))
    assert y.shape == (2, 2)


def test_methods():
    x, a = pair(np.int32)
    assert_same(np.add.reduce(x), np.add.reduce(a))
    assert_same(np.add.reduce(x, axis=(0, 1)), np.add.reduce(a, axis=(0, 1)))
    assert_same(np.maximum.accumulate(x, 1), np.maximum.accumulate(a, 1))
    assert_same(np.add.reduceat(x, [0, 2]), np.add.reduceat(a, [0, 2]))
    assert_same(np.subtract.outer(x, x), np.subtract.outer(a, a))
    assert_same(np.vecdot(x, x), np.vecdot(a, a))
    out = nd.empty(6, int)
    assert np.add.reduce(x, out=out) is out
    assert_same(out, np.add.reduce(a, out=np.empty(6, int)))
    assert np.add.accumulate(x, out=x) is x
    assert_same(x, np.add.accumulate(a, out=a.copy()))


def test_at():
    x, a = nd.zeros(4), np.zeros(4)
    y = x.copy()
    np.add.at(x, [0, 0, 2], 1)
    np.add.at(x, nd.array([1, 1]), nd.array([2.0, 3.0]))
    np.negative.at(x, [0])
    np.add.at(a, [0, 0, 2], 1)
    np.add.at(a, [1, 1], [2.0, 3.0])
    np.negative.at(a, [0])
    assert_same(x, a)
    assert y.tolist() == [0] * 4
    with pytest.raises(ValueError, match="read-only"):
        np.add.at(nd.readonly(x), [0], 1)


def test_division_warns_as_numpy_does():
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        nd.ones(2) / nd.zeros(2)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        nd.ones(2) / nd.zeros(2)


def test_threads_lose_no_write():
    """Two that add in place and one that makes and checks copies, which move the array each time."""
    x = nd.zeros(1000)
    torn = []

    def add():
        for _ in range(300):
            np.add(x, 1, out=x)
            x.__iadd__(1)
            x[...] = x

    def copy():
        for _ in range(300):
            values = set(x.copy().tolist())
            if len(values) != 1:
                torn.append(values)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=target) for target in (add, add, copy)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not torn
    assert set(x.tolist()) == {1200.0}


def test_results_are_aligned_and_own():
    for result in (
        nd.ones(3) + 1,
        np.sin(nd.ones(3)),
        nd.ones((2, 2)) @ nd.ones((2, 2)),
        np.add.reduce(nd.ones((3, 3))),
    ):
        assert result._state()[0] % 256 == 0
        assert result.flags.owndata


# -- where NumPy is particular


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    "value", [1.5, 300, 1j, [1, 2], nd.ones(2), nd.ones((2, 3)), np.ones((2, 3)), None, "a"], ids=repr
)
def test_what_fails_in_place_changes_nothing(op, whole, value):
    x = nd.arange(1, 4, dtype=np.uint8)
    clone = x.copy()
    before = x._state()
    try:
        op(x if whole else x[:3][::-1], value)
    except (TypeError, ValueError, OverflowError):
        assert x._state() == before
        assert nd.is_shared(clone)
        assert x.tolist() == [1, 2, 3]
    assert clone.tolist() == [1, 2, 3]


def test_what_fails_into_an_output_changes_nothing():
    x, mask = nd.arange(3), nd.array([True, False, True])
    clone = x.copy()
    before = x._state()
    for fails in (
        lambda: np.add(x, 1.5, out=x),
        lambda: np.add(x, 1.5, out=x, where=mask),
        lambda: np.add(x, [1, 2], out=x, where=mask),
        lambda: np.add(nd.ones((2, 3)), 1, out=x),
        lambda: np.divmod(x, 2.5, out=(x, x)),
    ):
        with pytest.raises((TypeError, ValueError)):
            fails()
        assert x._state() == before
    assert clone.tolist() == [0, 1, 2]


def test_matmul_in_place_keeps_the_shape():
    x, a = nd.array([[1.0, 2], [3, 4]]), np.array([[1.0, 2], [3, 4]])
    x @= x[::-1]
    a @= a[::-1]
    assert_same(x, a)
    y = nd.ones(2)
    with pytest.raises(ValueError, match="in place gives shape"):
        y @= nd.ones(2)
    z = nd.ones((2, 2), np.int8)
    with pytest.raises(TypeError, match="same_kind"):
        z @= nd.ones((2, 2))


def test_at_takes_any_key_and_any_array():
    for key in (slice(1, None), [0, 0], nd.array([0, 0]), (nd.array([0, 0]),), ..., 1, [True, False, True]):
        x, a = nd.arange(3), np.arange(3)
        numpys = tuple([k._host(0) if isinstance(k, nd.ndarray) else k for k in key]) if isinstance(key, tuple) else key
        np.add.at(x, key, 5)
        np.add.at(a, numpys._host(0) if isinstance(numpys, nd.ndarray) else numpys, 5)
        assert_same(x, a)
    b = np.arange(3)
    np.add.at(b, nd.array([0, 0]), nd.array([1, 2]))
    assert b.tolist() == [3, 1, 2]


def test_casting_is_asked_of_numpy():
    x, a = nd.array([1.5, 2]), np.array([1.5, 2])
    assert_same(np.add(x, 1, dtype="i4", casting="unsafe"), np.add(a, 1, dtype="i4", casting="unsafe"))
    with pytest.raises(TypeError):
        np.add(x, 1, dtype="i4")
    with pytest.raises(TypeError):
        np.add(x, 1, dtype="f4", casting="no")


def test_ranges_are_operands():
    x, a = nd.arange(3), np.arange(3)
    assert_same(x + range(3), a + range(3))
    assert_same(range(3) - x, range(3) - a)
    assert_same(x < range(3), a < range(3))


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "i8", "u8", "f4", bool], ids=str)
@pytest.mark.parametrize(
    "limits", [(-1, 300), (0, 300), (300, None), (None, -1), (2, 3), (None, None), (0.5, 2.5)], ids=repr
)
def test_clip_beyond_what_the_dtype_holds(dtype, limits):
    x, a = nd.array([0, 1, 5], dtype), np.array([0, 1, 5], dtype)
    same_outcome(lambda: x.clip(*limits), lambda: a.clip(*limits))
    same_outcome(lambda: np.clip(x, *limits), lambda: np.clip(a, *limits))


@pytest.mark.parametrize("dtype", [dtype for dtype in NUMPY_DTYPES if dtype.kind != "b"], ids=str)
@pytest.mark.parametrize("decimals", [0, 1, 3, -1, -2])
def test_round(dtype, decimals):
    x, a = nd.array([0.5, 1.5, 12.345, 25, 35]).astype(dtype), np.array([0.5, 1.5, 12.345, 25, 35]).astype(dtype)
    same_outcome(lambda: x.round(decimals), lambda: a.round(decimals))
    same_outcome(lambda: np.round(x, decimals), lambda: np.round(a, decimals))
    out = nd.zeros_like(x)
    assert x.round(decimals, out) is out
    assert_same(out, a.round(decimals))  # also where NumPy, for integers and negative decimals, refuses an out


def test_nonzero():
    x, a = nd.array([[0, 1], [2, 0]]), np.array([[0, 1], [2, 0]])
    same_outcome(x.nonzero, a.nonzero)
    same_outcome(lambda: np.nonzero(x), lambda: np.nonzero(a))
