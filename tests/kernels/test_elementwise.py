"""Ufuncs on a device that computes by kernels, against NumPy's, mended where the array API standard wants it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from nbdlpack import ufuncs
from nbdlpack.native import View
from tests import special_cases
from tests.arrays import LAYOUTS, values
from tests.kernels import harness

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
COMPUTED = [np.dtype(c) for c in "?bhilBHILefdFD"] + [BFLOAT16]
MANY = 40 if harness.SIMULATED else 5000

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def put(device, x):
    """Return an operand for a device: NumPy's arrays with dimensions as arrays there."""
    return device.view(x) if isinstance(x, np.ndarray) else x


def computed(ufunc, *inputs, **options):
    """Return what NumPy gives, mended."""
    result = ufunc(*inputs, **options)
    return ufuncs.COMPUTED[ufunc](*inputs, out=(result,), **options) if ufunc in ufuncs.COMPUTED else result


def compute(device, ufunc, *inputs, **options):
    """Return what a ufunc gives on a device, in an output of the dtype and shape of NumPy's."""
    result = computed(ufunc, *inputs, **options)
    out = device.empty(View, result.shape, result.dtype)
    device.elementwise(ufunc, tuple([put(device, x) for x in inputs]), (out,), options)
    return device.to_host(out), result


# -- values


def interesting(dtype):
    """Return values at which functions may go wrong, and some others."""
    rng = np.random.default_rng(7)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = [0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 100]
        wanted = [info.min, info.min + 1, info.max - 1, info.max, *small, *[-n for n in small[1:]]]
        some = rng.integers(info.min, info.max, 10, dtype, endpoint=True)
        return np.concatenate([np.array([n for n in wanted if info.min <= n <= info.max], dtype), some])
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        info = np.finfo(part)
        parts = [0.0, -0.0, 1, -1, 0.5, -2, 3e-3, 1.5, 20, -np.pi, 1e-30, -1e30, np.inf, -np.inf, np.nan]
        parts = np.array([*parts, info.max, info.tiny / 8], part)
        some = rng.normal(scale=4, size=(40, 2)).astype(part)
        pairs = np.array(list(itertools.product(parts, parts)), part)
        return np.concatenate([pairs, some]).view(dtype).reshape(-1)
    info = ml_dtypes.finfo(dtype)
    limits = [float(x) for x in (info.max, info.tiny, info.smallest_subnormal, info.eps)]
    plain = [0.0, 1, 0.5, 1.5, 2.5, 3, 7, 10, 100, 1e-3, 0.3, np.pi, 1e4, 2**20 + 0.5, 1 + limits[3], np.inf, np.nan]
    plain += [*limits, limits[1] * 0.75]
    some = np.concatenate([rng.normal(scale=4, size=10), rng.normal(scale=1000, size=10)])
    return np.concatenate([plain, np.negative(plain), some]).astype(dtype)


def operands(ufunc, dtype):
    """Return operands of a ufunc: all pairs of interesting values, or rather some of very many."""
    x = interesting(dtype)
    if ufunc.nin == 1:
        return (x,)
    pairs = np.array(list(itertools.product(range(len(x)), repeat=2)))
    pairs = np.random.default_rng(3).permutation(pairs)[:MANY]
    x, y = x[pairs[:, 0]], x[pairs[:, 1]]
    if ufunc is np.power and dtype.kind == "i":
        y = np.where(y < 0, ~y, y)
    return x, y


APPROXIMATE = {
    **dict.fromkeys("arccos arcsin arctan cosh exp expm1 log log10 log1p log2 logaddexp sinh".split(), 4),
    **dict.fromkeys("arccosh arcsinh arctan2 arctanh cos hypot power sin tan tanh".split(), 4),
}
"""Those whose results NumPy does not give to the last bit either, and how many units in the last place they may be off,
of a complex number's larger part."""
FINER = {**APPROXIMATE, "sqrt": 4, "expm1": 32, "power": 1000, "log1p": 8}
"""Those of complex numbers, in which NumPy's own errors are larger, so that they are compared to finer numbers'."""
COMPLEX_APPROXIMATE = FINER | {"absolute": 2, "sign": 4}
ZEROS = {"maximum", "minimum", "nextafter", "sign"}
"""Those of which NumPy's loops differ among themselves in the sign of a zero."""


def expected(ufunc, inputs):
    """Return NumPy's result, of a finer computation if there is one."""
    x = inputs[0]
    name = ufunc.__name__
    if x.dtype.kind == "c" and name in ("multiply", "square"):  # NumPy may fuse its products and sums
        y = inputs[-1]
        result = np.empty_like(x)
        result.real = x.real * y.real - x.imag * y.imag
        result.imag = x.real * y.imag + x.imag * y.real
        return result
    if x.dtype.kind == "c" and name in FINER:
        finer = [x.astype(np.complex128 if x.dtype == np.complex64 else np.clongdouble) for x in inputs]
        result = computed(ufunc, *finer)
        if name == "log1p":  # NumPy's adds one
            z = finer[0]
            near = np.abs(z) < 0.5
            result.real[near] = np.log1p(2 * z.real + np.abs(z) ** 2)[near] / 2
        return result.astype(x.dtype)
    return computed(ufunc, *inputs)


def left_out(name, inputs):
    """Return where the result is undefined: NumPy has no reason for its own."""
    x = inputs[0]
    if name == "reciprocal" and x.dtype.kind in "iu":
        return x == 0
    if x.dtype.kind != "c":
        return np.zeros(x.shape, bool)
    if name == "power":
        sizes = [np.abs(z) for z in inputs]
        return ~((sizes[0] < 1e10) & (sizes[0] > 1e-10) & (sizes[1] < 100))
    if name in ("sin", "sinh"):  # the sign of an infinity beside nan
        return ~np.isfinite(x.real) & ~np.isfinite(x.imag)
    return np.zeros(x.shape, bool)


def assert_close(found, a, ulps, *, zeros):
    """Check that results are within so many units in the last place, of the larger part of a complex number."""
    assert found.dtype == a.dtype
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(found, a)
        return
    parts = [(found.real, a.real), (found.imag, a.imag)] if a.dtype.kind == "c" else [(found, a)]
    kind = a.real.dtype
    info = ml_dtypes.finfo(kind)
    wide = [(f.astype(np.longdouble), e.astype(np.longdouble)) for f, e in parts]
    finite = [np.where(np.isfinite(e), np.abs(e), 0) for _, e in wide]
    tolerance = np.maximum(np.maximum.reduce(finite) * float(info.eps), float(info.smallest_subnormal)) * ulps
    for f, e in wide:
        bad = ~((f == e) | (np.isnan(f) & np.isnan(e)) | (np.abs(f - e) <= tolerance))
        if zeros:
            bad |= (e == 0) & (f == 0) & (np.signbit(f) != np.signbit(e))
        assert not bad.any(), (np.flatnonzero(bad)[:5], found[bad][:5], a[bad][:5])


def cases():
    """Return each function with each dtype that NumPy has a loop of it for.

    Of whole numbers, real and complex ones there is one each that is not slow, for each function another.
    """
    for i, row in enumerate(ufuncs.TABLE):
        kinds = {}
        for dtype in COMPUTED:
            try:
                loop = row.ufunc.resolve_dtypes((dtype,) * row.ufunc.nin + (None,))
            except TypeError:
                continue
            if loop[0] == dtype:
                kinds.setdefault({"b": "u", "i": "u", "V": "f"}.get(dtype.kind, dtype.kind), []).append(dtype)
        for several in kinds.values():
            for dtype in several:
                slow = not harness.SIMULATED and dtype != several[i % len(several)]
                marks = pytest.mark.slow if slow else ()
                yield pytest.param(row.ufunc, dtype, marks=marks, id=f"{row.name}-{dtype}")


@pytest.mark.parametrize(("ufunc", "dtype"), list(cases()))
def test_values(standin, ufunc, dtype):
    inputs = operands(ufunc, dtype)
    name = ufunc.__name__
    a = expected(ufunc, inputs)
    out = standin.empty(View, a.shape, a.dtype)
    standin.elementwise(ufunc, tuple([standin.view(x) for x in inputs]), (out,), {})
    kept = ~left_out(name, inputs)
    allowed = COMPLEX_APPROXIMATE if dtype.kind == "c" else APPROXIMATE
    zeros = name not in ZEROS and not (dtype.kind == "c" and name in allowed)
    assert_close(standin.to_host(out)[kept], a[kept], allowed.get(name, 0), zeros=zeros)


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"])
def test_signs_of_zeros(standin, name):
    """On the cuts of complex functions, the sign of a zero says which side is meant."""
    parts = [0.0, -0.0, 0.5, -0.5, 2.0, -2.0]
    x = np.array([complex(*pair) for pair in itertools.product(parts, parts) if 0.0 in pair])
    found, a = compute(standin, getattr(np, name), x)
    for one, other in ((found.real, a.real), (found.imag, a.imag)):
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


@pytest.mark.parametrize("name", [*special_cases.UNARY, *special_cases.BINARY])
def test_special_cases(standin, name):
    cases = special_cases.UNARY[name] if name in special_cases.UNARY else special_cases.BINARY[name]
    found, _ = compute(standin, ufuncs.ROWS[name].ufunc, *[np.array(x) for x in list(zip(*cases, strict=True))[:-1]])
    for case, value in zip(cases, found.tolist(), strict=True):
        assert special_cases.is_same(value, case[-1]), (*case, value)


@pytest.mark.parametrize("ufunc", [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal])
def test_signed_with_unsigned(standin, ufunc):
    x = np.array([-1, 0, 1, 2**63 - 1, -(2**63)])
    y = np.array([2**64 - 1, 0, 1, 2**63 - 1, 2**63], np.uint64)
    for inputs in ((x[:, None], y), (y[:, None], x)):
        found, a = compute(standin, ufunc, *inputs)
        np.testing.assert_array_equal(found, a)


def test_negative_integer_powers(standin):
    x, y = np.array([-2, -1, 0, 1, 2, 5]), np.array([-1, -2])
    out = standin.empty(View, (2, 6), x.dtype)
    standin.elementwise(np.power, (standin.view(x), standin.view(y[:, None])), (out,), {})
    assert standin.to_host(out).tolist() == [[0, -1, 0, 1, 0, 0], [0, 1, 0, 1, 0, 0]]
    for exponent in (-1, np.int64(-3), y):
        with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed"):
            standin.elementwise(np.power, (standin.view(x[:2]), exponent), (standin.view(y),), {})


# -- operands


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", ["C", "negative", "F"])
def test_layouts(standin, layout, other):
    """Operands and output of each layout, and nothing but the output is written."""
    a = LAYOUTS[layout](values(np.float32))
    b, c = LAYOUTS[layout](values(np.float32) * 3), LAYOUTS[other](np.zeros((4, 6), np.float32))
    x, y = standin.view(a), standin.view(b)
    if c.shape != a.shape:
        c = np.zeros(a.shape[::-1], np.float32).T
    out = standin.view(c)
    before = standin.surroundings(out)
    standin.elementwise(np.subtract, (x, y), (out,), {})
    np.testing.assert_array_equal(standin.to_host(out), a - b)
    assert (standin.surroundings(out) == before).all()
    np.testing.assert_array_equal(standin.to_host(x), a)


@pytest.mark.parametrize(
    "shapes",
    [
        ((), ()),
        ((3,), ()),
        ((4, 1), (1, 5)),
        ((2, 3, 4), (3, 1)),
        ((5, 1, 3, 1), (1, 4, 1, 2)),
        ((2, 1, 2, 1, 3), (1, 3, 1, 2, 1)),
        ((2, 1, 2, 1, 2, 1, 2), (1, 2, 1, 3, 1, 2, 1)),
        ((0,), (1,)),
        ((3, 0, 2), (2,)),
        ((1, 1, 1), (1,)),
    ],
    ids=str,
)
def test_broadcasting(standin, shapes):
    x, y = [np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape) + 0.5 for shape in shapes]
    found, a = compute(standin, np.add, x, y)
    np.testing.assert_array_equal(found, a)
    if found.size == 0:
        assert not standin.calls


@pytest.mark.parametrize("ufunc", [np.add, np.negative])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 100, MANY])
def test_any_grid(standin, monkeypatch, ufunc, n):
    """The right result for any number of blocks and threads, with several elements a thread in flight or not."""
    x = np.arange(n, dtype=np.int32)
    for grid in (None,) if harness.SIMULATED else ((1, 1), (1, 32), (3, 7), (2, 1024)):
        if grid is not None:
            monkeypatch.setattr(standin, "grid", grid)
        for y in (x, np.array([x, x[::-1], x]).T[::-1]):
            found, a = compute(standin, ufunc, *[y] * ufunc.nin)
            np.testing.assert_array_equal(found, a)


@pytest.mark.parametrize(
    "value",
    [True, 2, -3, 2.5, 1 + 2j, np.float32(1.5), np.int8(3), np.float64(np.nan), np.array(4), np.array([5.0])],
    ids=repr,
)
@pytest.mark.parametrize("dtype", ["i1", "f2", "D", "?"])
def test_scalars(standin, value, dtype):
    """Python's and NumPy's scalars, on either side, are arguments of the launch, and need no memory."""
    x = values(dtype)
    y = standin.view(x)
    for inputs, given in (((x, value), (y, value)), ((value, x), (value, y))):
        a = np.multiply(*inputs)
        out = standin.empty(View, a.shape, a.dtype)
        standin.calls.clear()
        standin.elementwise(np.multiply, given, (out,), {})
        assert len(standin.calls) == 1 + (a.dtype != x.dtype)  # a cast, perhaps, and the product
        assert_close(standin.to_host(out), a, 1 if a.dtype.kind == "c" else 0, zeros=True)


def test_scalars_alone(standin):
    for ufunc, inputs in ((np.add, (1, 2)), (np.add, (1, 2.5)), (np.logical_and, (True, 3)), (np.sqrt, (2,))):
        found, a = compute(standin, ufunc, *inputs)
        assert (found, found.dtype) == (a, a.dtype)


def test_a_float_is_rounded_to_the_dtype_first(standin):
    x = np.ones(3, np.float16)
    found, a = compute(standin, np.add, x, 0.00049)
    np.testing.assert_array_equal(found, a)


def test_python_ints_that_do_not_fit(standin):
    x = np.array([0, 5, 255], np.uint8)
    y = standin.view(x)
    for ufunc, big in itertools.product((np.equal, np.not_equal, np.less, np.greater_equal), (-1, 256, 10**30)):
        for inputs in ((x, big), (big, x)):
            found, a = compute(standin, ufunc, *inputs)
            np.testing.assert_array_equal(found, a)
    with pytest.raises(OverflowError, match="out of bounds for uint8"):
        standin.elementwise(np.add, (y, 256), (y,), {})


def test_numpy_arrays(standin):
    x, y = values(np.float64), values(np.int32)
    out = standin.empty(View, (4, 6), np.dtype(np.float64))
    standin.elementwise(np.add, (standin.view(x), y.T.copy().T), (out,), {})
    np.testing.assert_array_equal(standin.to_host(out), x + y)


@pytest.mark.parametrize(("one", "other"), [("i1", "f4"), ("u8", "i8"), ("?", "e"), ("f4", "D"), ("i4", "u2")])
def test_mixed_dtypes(standin, one, other):
    x, y = values(one), values(other)[::-1]
    found, a = compute(standin, np.add, x, y)
    assert found.dtype == a.dtype
    np.testing.assert_array_equal(found, a)


# -- outputs and options


@pytest.mark.parametrize("dtype", ["f4", "i8", "D"])
def test_output_of_another_dtype(standin, dtype):
    x = values(np.int32)
    out = standin.view(np.zeros((6, 4), dtype).T)
    standin.elementwise(np.add, (standin.view(x), 1), (out,), {"casting": "unsafe"})
    np.testing.assert_array_equal(standin.to_host(out), (x + 1).astype(dtype))


def test_dtype_and_casting(standin):
    x = np.array([1.75, 2.25, -3.5])
    for options in ({"dtype": np.float32}, {"dtype": np.int64, "casting": "unsafe"}):
        found, a = compute(standin, np.add, x, 0.5, **options)
        assert found.dtype == a.dtype
        np.testing.assert_array_equal(found, a)
    y = standin.view(np.arange(3))
    for inputs, options in (((y, 0.5), {}), ((y, 1), {"casting": "no", "dtype": np.int32})):
        with pytest.raises(TypeError) as found:
            standin.elementwise(np.add, inputs, (y,), options)
        with pytest.raises(TypeError) as wanted:
            np.add(np.arange(3), inputs[1], out=np.arange(3), **options)
        assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("layout", ["C", "F", "strided", "negative", "3-d"])
def test_in_place(standin, layout):
    a = LAYOUTS[layout](values(np.float64))
    x = standin.view(a)
    standin.calls.clear()
    standin.elementwise(np.multiply, (x, x), (x,), {})
    assert len(standin.calls) == 1
    np.testing.assert_array_equal(standin.to_host(x), a * a)
    standin.elementwise(np.add, (x, 1), (x,), {})
    np.testing.assert_array_equal(standin.to_host(x), a * a + 1)


@pytest.mark.parametrize(
    "views",
    [
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None), slice(None, None, -1)),
        (slice(None, 10), slice(None, None, 2)),
    ],
    ids=str,
)
def test_overlap(standin, views):
    """What overlaps the output is as if it had been read first."""
    a = np.arange(20.0)
    x = standin.view(a)
    starts = [range(20)[view] for view in views]
    out, y = [x._view(View, r.start * 8, x.dtype, 0, (len(r),), (r.step,)) for r in starts]
    a[views[0]] = a[views[1]] * 2 + a[views[0]]
    between = standin.empty(View, y.shape, y.dtype)
    standin.elementwise(np.multiply, (y, 2.0), (between,), {})
    standin.elementwise(np.add, (between, out), (out,), {})
    np.testing.assert_array_equal(standin.to_host(x), a)
    standin.elementwise(np.negative, (y,), (out,), {})
    a[views[0]] = -a[views[1]]
    np.testing.assert_array_equal(standin.to_host(x), a)


def test_overlap_of_other_itemsizes(standin):
    a = np.arange(8.0)
    x = standin.view(a)
    narrow = x._view(View, 0, np.dtype(np.float32), 0, (8,), (1,))
    standin.elementwise(np.less, (x, 4.0), (x._view(View, 0, np.dtype(bool), 0, (8,), (1,)),), {})
    assert standin.to_host(x).view(bool)[:8].tolist() == [True] * 4 + [False] * 4
    y = standin.view(a)
    narrow = y._view(View, 0, np.dtype(np.float32), 0, (8,), (1,))
    standin.elementwise(np.add, (y, 1.0), (narrow,), {"casting": "same_kind"})
    assert standin.to_host(narrow).tolist() == (a + 1).tolist()


@pytest.mark.parametrize("residue", range(8))
@pytest.mark.parametrize("dtype", ["f8", "F", "i2"])
def test_alignment(standin, residue, dtype):
    """Operands and outputs at any address."""
    a = values(dtype)
    for shifts in itertools.product((0, residue), repeat=2):
        x, out = standin.view(a, shifts[0]), standin.view(np.zeros_like(a), shifts[1])
        standin.elementwise(np.add, (x, x), (out,), {})
        np.testing.assert_array_equal(standin.to_host(out), a + a)


@pytest.mark.parametrize("dtype", ["f8", "i1", "D", "f2"])
@pytest.mark.parametrize("layout", ["C", "negative", "3-d"])
def test_where(standin, dtype, layout):
    """Only what the mask selects is written; the mask is broadcast."""
    x = LAYOUTS[layout](values(dtype))
    for mask in (x.real > 2, (x.real > 2)[..., :1], np.array(True), np.array(False)):
        a = np.full(x.shape, 9, dtype)
        out = standin.view(a)
        standin.elementwise(np.add, (standin.view(x), 1), (out,), {"where": put(standin, mask) if mask.ndim else mask})
        np.add(x, 1, out=a, where=mask)
        np.testing.assert_array_equal(standin.to_host(out), a)
    b = np.full(x.shape, 9, np.complex128)
    out = standin.view(b)
    standin.elementwise(np.add, (standin.view(x), 1), (out,), {"where": x.real > 2})  # from the host, cast
    np.add(x, 1, out=b, where=x.real > 2)
    np.testing.assert_array_equal(standin.to_host(out), b)


def test_where_the_mask_is_the_output(standin):
    a = np.array([True, False, True, False])
    x = standin.view(a)
    y = standin.view(np.zeros(4, bool))
    standin.elementwise(np.logical_not, (x,), (x,), {"where": x})
    assert not standin.to_host(x).any()
    standin.elementwise(np.add, (y, True), (y,), {"where": False})
    assert not standin.to_host(y).any()
    with pytest.raises(TypeError, match="according to the rule 'safe'"):
        standin.elementwise(np.add, (y, True), (y,), {"where": standin.view(np.arange(4))})


def test_divmod(standin):
    x, y = np.array([7, -7, 7, -7, 5]), np.array([3, 3, -3, -3, 0])
    outs = standin.view(np.zeros(5, int)), standin.view(x)
    standin.elementwise(np.divmod, (outs[1], standin.view(y)), outs, {})  # the second output is the first operand
    for out, a in zip(outs, np.divmod(x, y), strict=True):
        np.testing.assert_array_equal(standin.to_host(out), a)
    standin.elementwise(np.divmod, (outs[0], 2), outs[::-1], {"where": standin.view(y > 0)})
    assert standin.to_host(outs[1])[:2].tolist() == [1, -2]


# -- what there is not


def test_no_kernel(standin):
    x = standin.view(np.arange(3.0))
    for ufunc, outputs in ((np.fmax, (x,)), (np.modf, (x, x))):
        with pytest.raises(TypeError, match=r"no kernel for the ufunc '(fmax|modf)'.*x\.to_device\('cpu'\)"):
            standin.elementwise(ufunc, (x,) * ufunc.nin, outputs, {})
    y = standin.view(np.zeros(3, ml_dtypes.float8_e5m2))
    with pytest.raises(TypeError, match=r"does not compute 'add' in float8_e5m2, but in bool, .*x\.to_device\('cpu'\)"):
        standin.elementwise(np.add, (y, y), (y,), {})
    with pytest.raises(TypeError, match="not supported for the input types"):
        standin.elementwise(np.invert, (x,), (x,), {})


@pytest.mark.parametrize(
    ("one", "other", "out", "where"),
    [
        ((2, 3), (), (3,), None),
        ((2,), (3,), (3,), None),
        ((0,), (2,), (0,), None),
        ((3,), (), (1,), None),
        ((), (), (3,), (2, 3)),
        ((3,), (), (3,), (2,)),
    ],
)
def test_shapes_that_do_not_fit(standin, one, other, out, where):
    """The errors are NumPy's."""
    a = [np.zeros(shape) for shape in (one, other, out)]
    x = [standin.view(each) for each in a]
    options = {} if where is None else {"where": np.zeros(where, bool)}
    with pytest.raises(ValueError, match="broadcast") as found:
        standin.elementwise(np.add, tuple(x[:2]), (x[2],), options)
    with pytest.raises(ValueError, match="broadcast") as wanted:
        np.add(*a[:2], out=a[2], **options)
    assert str(found.value).split()[:4] == str(wanted.value).split()[:4]


def test_bfloat16(standin):
    """Its results are those of ml_dtypes' own loops."""
    x = interesting(BFLOAT16)
    for ufunc in (np.add, np.multiply, np.subtract, np.divide):
        found, a = compute(standin, ufunc, x[:, None], x)
        assert_close(found, a, 0, zeros=True)


@pytest.mark.skipif(harness.SIMULATED, reason="this is the simulator")
def test_in_the_simulator():
    """All of this holds in Numba's simulator, which runs the scalar functions as Python."""
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]
