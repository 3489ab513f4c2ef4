# mypy: disable-error-code="no-untyped-def"
"""Reductions on a device that computes by kernels, against NumPy's."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from nbdlpack import dtypes, layout
from nbdlpack.devices.base import ACCUMULATING, REDUCTIONS, SEARCHING
from nbdlpack.kernels import reductions
from nbdlpack.native import View
from tests.arrays import LAYOUTS, values
from tests.kernels import harness

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SHORT = (BFLOAT16, np.dtype(np.float16))
COMPUTED = [*map(np.dtype, "?bhilBHILefdFD"), BFLOAT16]
QUICK = [np.dtype(np.float32)] if harness.SIMULATED else [*map(np.dtype, "?bfD"), BFLOAT16]
SOME = [pytest.param(d, marks=() if d in QUICK else pytest.mark.slow, id=str(d)) for d in COMPUTED]
"""All dtypes; those that are tested quickly have, between them, a kernel of each kind."""
PLAIN = [name for name in REDUCTIONS if name not in SEARCHING]
BIG = not harness.SIMULATED

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")


def axes_of(axis, ndim):
    return (
        tuple(range(ndim))
        if axis is None
        else tuple([a % ndim for a in (axis if isinstance(axis, tuple) else (axis,))])
    )


def on_device(device, name, x, axis=None, out=None, **options):
    """Reduce an array on a device, into an output like that which the engine makes."""
    axes = axes_of(axis, x.ndim)
    if out is None:
        asked = {"dtype": options["dtype"]} if "dtype" in options else {}
        kind = dtypes.canonical(REDUCTIONS[name](np.ones(1, x.dtype), **asked).dtype)
        out = device.empty(View, layout.reduced_shape(x.shape, axes, keepdims=options.get("keepdims", False)), kind)
    device.reduce(name, x, out, axes, options)
    return device.to_host(out)


def numpys(name, a, axis=None, **options):
    """Return NumPy's reduction; of short floats that of float32."""
    if a.dtype in SHORT and name in ACCUMULATING and "dtype" not in options:
        return np.asarray(getattr(np, name)(a.astype(np.float32), axis, **options)).astype(a.dtype)
    return np.asarray(getattr(np, name)(a, axis, **options))


def close(found, expected, n=1):
    """Check that results are the same, but for what comes of adding up in another order."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    wider = np.complex128 if expected.dtype.kind == "c" else np.float64
    rounding = (
        float(ml_dtypes.finfo(expected.dtype).eps) if expected.dtype.kind != "c" else np.finfo(expected.dtype).eps
    )
    np.testing.assert_allclose(found.astype(wider), expected.astype(wider), rtol=rounding * (2 + 2 * math.log2(n)))


def same(found, expected):
    """Check that results are the same."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.astype("D"), expected.astype("D"))


def outcome(device, name, x, a, axis=None, **options):
    """Check that a device gives what NumPy gives, or raises an error of the same kind."""
    with np.errstate(all="ignore"):
        try:
            expected = numpys(name, a, axis, **options)
        except (ValueError, TypeError, OverflowError) as error:
            kind = next(k for k in (TypeError, ValueError, OverflowError) if isinstance(error, k))
            with pytest.raises(kind, match=r"\w"):
                on_device(device, name, x, axis, **put(device, options))
            return
    found = on_device(device, name, x, axis, **put(device, options))
    if name in ("sum", "prod", "mean", "std", "var"):
        close(found, expected, max(a.size, 1))
    else:
        same(found, expected)


def put(device, options):
    return {key: device.view(value) if isinstance(value, np.ndarray) else value for key, value in options.items()}


def all_axes(name, ndim):
    if name in SEARCHING:
        return [None, *range(ndim)]
    return [None, (), *range(ndim), *itertools.combinations(range(ndim), 2)]


# -- values


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", SOME)
def test_each_dtype_layout_and_axis(standin, name, dtype):
    for form in LAYOUTS.values():
        a = form(values(dtype))
        x = standin.view(a)
        for axis in all_axes(name, a.ndim):
            outcome(standin, name, x, a, axis)


@pytest.mark.parametrize("name", ["sum", "max", "argmin", "var"])
def test_axes_may_stay(standin, name):
    for form in LAYOUTS.values():
        a = form(values(np.float32))
        for axis in all_axes(name, a.ndim):
            outcome(standin, name, standin.view(a), a, axis, keepdims=True)


def numbers(shape, dtype, seed=1):
    """Return numbers whose sums are exact, in disorder."""
    rng = np.random.default_rng(seed)
    low = -100 if np.dtype(dtype).kind in "if" else 0
    return rng.integers(low, 100, shape).astype(dtype)


SIZES = [1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000]
LARGE = [2047, 2048, 4096, 8191, 8192, 8193, 65537, 1000000]


@pytest.mark.parametrize("n", SIZES[::5] if harness.SIMULATED else SIZES + LARGE)
def test_each_size(standin, n):
    for dtype in (np.int8, np.float32) if BIG else (np.float32,):
        a = numbers(n, dtype)
        for name in ("sum", "min", "argmax") if BIG else ("sum", "argmax"):
            outcome(standin, name, standin.view(a), a)
            outcome(standin, name, standin.view(a[::-1]), a[::-1])
    if n > 8192:
        # Chunks are reduced first, and then what comes out of them.
        assert [call[0] for call in standin.calls[-2:]] == ["argmax float32 to int64"] * 2


SHAPES = [(1, 70), (70, 1), (3, 100), (100, 3), (40, 33), (5, 6, 40), (2, 3, 4, 5)]
MANY = [(3, 20000), (20000, 3), (300, 500), (7, 40, 900), (9000, 40), (2, 5, 3, 4, 6, 7)]


@pytest.mark.parametrize("shape", SHAPES[2:4] if harness.SIMULATED else SHAPES + MANY, ids=str)
def test_each_shape(standin, shape):
    a = numbers(shape, np.float32)
    for b in (a, a.T, a[::-1, ::2]):
        x = standin.view(b)
        for axis in all_axes("sum", b.ndim):
            outcome(standin, "sum", x, b, axis)
        for axis in [None, *range(b.ndim)]:
            outcome(standin, "argmin", x, b, axis)
    outcome(standin, "var", standin.view(a), a, -1)


@pytest.mark.skipif(harness.SIMULATED, reason="the simulator is too slow for a million elements")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.float16])
def test_long_sums_are_as_exact_as_pairwise_ones(standin, dtype):
    rng = np.random.default_rng(5)
    n = 1_000_000
    a = rng.random(n).astype(dtype) if dtype != np.float16 else (rng.random(n) / 64).astype(dtype)
    computed = np.float32 if dtype == np.float16 else dtype
    exact = math.fsum(a.real.astype(np.float64).tolist())
    for b, form in ((a, 0), (a.reshape(1000, 1000), 1), (a.reshape(1000, 1000).T, 2)):
        axis = None if form == 0 else 0
        parts = on_device(standin, "sum", standin.view(b), axis, dtype=np.dtype(computed))
        found = math.fsum(np.atleast_1d(parts.real).astype(np.float64).tolist())
        assert abs(found - exact) <= 4 * np.finfo(computed).eps * exact, (form, found, exact)
    ones = np.full(n, 0.1, np.float32)
    assert abs(float(on_device(standin, "mean", standin.view(ones))) - float(np.float32(0.1))) < 2e-8


@pytest.mark.skipif(harness.SIMULATED, reason="the simulator has one grid and block size, and its own order")
@pytest.mark.parametrize("shape", [(50000,), (30, 1000), (1000, 30), (100, 3)], ids=str)
def test_the_bits_are_the_same_for_any_grid_block_and_order(standin, shape):
    a = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    found = {name: [] for name in ("sum", "var", "argmax")}
    try:
        for standin.grid, order in zip(
            [(1, 1), (1, 64), (3, 100), (200, 256), (5, 1024), None, None],
            ["forward", "reverse", "forward", "random:3", "reverse", "random:7", "forward"],
            strict=True,
        ):
            for axis in (0, -1):
                with harness.option(order=order):
                    for name, results in found.items():
                        results.append(on_device(standin, name, standin.view(a), axis).tobytes())
    finally:
        standin.grid = None
    for results in found.values():
        assert len(set(results[::2])) == len(set(results[1::2])) == 1


# -- values that are no numbers, and equal ones


@pytest.mark.parametrize("dtype", ["f", *[pytest.param(kind, marks=pytest.mark.slow) for kind in "eD"]])
def test_nan_is_least_and_greatest(standin, dtype):
    for n in (3, 100, 9000) if BIG else (3, 40):
        a = numbers(n, dtype)
        a[[n // 2, n - 1]] = np.nan if dtype != "D" else complex(1, np.nan)
        x = standin.view(a)
        for name in ("min", "max"):
            assert np.isnan(on_device(standin, name, x)), n
        for name in ("argmin", "argmax", "any", "all"):
            same(on_device(standin, name, x), numpys(name, a))


def test_complex_numbers_are_ordered_by_their_real_parts_first(standin):
    a = np.array([1 + 2j, 1 + 1j, 2 - 5j, 0 + 9j, 0 + 8j, 2 - 4j] * 7)
    for name in ("min", "max", "argmin", "argmax"):
        same(on_device(standin, name, standin.view(a)), numpys(name, a))


def test_the_first_of_several_is_found(standin):
    for n in (5, 100, 9000) if BIG else (5, 100):
        a = np.zeros((3, n), np.int8)
        for name in ("argmin", "argmax"):
            for axis in (None, 0, 1):
                assert not on_device(standin, name, standin.view(a), axis).any()
        a[:, n // 3 :: n // 3] = 1
        for axis in (None, 0, 1):
            same(on_device(standin, "argmax", standin.view(a), axis), numpys("argmax", a, axis))
    negative = np.array([0.0, -0.0, 1, 1], np.float32)
    assert on_device(standin, "argmin", standin.view(negative)) == 0


def test_integers_wrap_around(standin):
    a = np.full(40, 2**62, np.int64)
    outcome(standin, "sum", standin.view(a), a)
    outcome(standin, "prod", standin.view(a[:3]), a[:3])
    b = np.full(40, 100, np.int8)
    outcome(standin, "sum", standin.view(b), b)
    outcome(standin, "sum", standin.view(b), b, dtype=np.dtype(np.int8))
    outcome(standin, "sum", standin.view(b), b, dtype=np.dtype(np.uint16))


def test_a_constant_array_has_no_variance(standin):
    a = np.full((3, 50), 0.1, np.float32)
    for axis in (0, 1):
        assert not on_device(standin, "var", standin.view(a), axis).any()


# -- options


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("kinds", ["f", pytest.param("i?Fe", marks=pytest.mark.slow)])
def test_a_mask_and_an_initial_value(standin, name, kinds):
    takes_initial = name in ("sum", "prod", "min", "max")
    for dtype in kinds:
        a = values(dtype)
        x = standin.view(a)
        mask = (np.arange(24).reshape(4, 6) % 3 != 1) & (np.arange(4) != 2)[:, None]
        for where in (mask, mask[:1], mask[:, :1], np.False_, mask[0, 0]):
            for axis in (None, 0, (0, 1)):
                outcome(standin, name, x, a, axis, where=where)
                if takes_initial:
                    outcome(standin, name, x, a, axis, where=where, initial=3)
        if takes_initial:
            outcome(standin, name, x, a, 0, initial=np.array(2, dtype))
            outcome(standin, name, x, a, 0, initial=None)
            with pytest.raises(ValueError, match="initial has 1 dimensions, but must be a scalar"):
                on_device(standin, name, x, 0, initial=standin.view(np.ones(1)))
            outcome(standin, name, standin.view(a[:0]), a[:0], 0, initial=3)
        outcome(standin, name, x, a, 0, where=np.ones(6))
        outcome(standin, name, x, a, 0, where=np.ones((2, 4, 6), bool))


@pytest.mark.parametrize("name", sorted(ACCUMULATING))
@pytest.mark.parametrize(
    "to", ["f", *[pytest.param(kind, marks=pytest.mark.slow) for kind in ["d", "F", "h", "e", "?", BFLOAT16]]]
)
def test_the_dtype_that_is_asked_for(standin, name, to):
    to = np.dtype(to)
    if to.kind in "biu" and name == "std":
        return  # NumPy takes the root in integers
    for dtype in "bf?" if to == np.float32 else "ifFb?":
        a = values(dtype)
        for axis in (None, 0):
            x = standin.view(a)
            if to in SHORT:
                expected = numpys(name, a.astype(np.float32) if a.dtype.kind != "c" else a.real, axis).astype(to)
                found = on_device(standin, name, x, axis, dtype=to)
                if a.dtype.kind != "c":
                    close(found, expected, a.size)
            else:
                outcome(standin, name, x, a, axis, dtype=to)


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("kinds", ["fbD" if BIG else "f", pytest.param("iFe", marks=pytest.mark.slow)])
def test_degrees_of_freedom_and_a_mean_that_is_known(standin, name, kinds):
    for dtype in kinds:
        a = values(dtype)
        x = standin.view(a)
        for ddof in (1, 0.5, 3.0, 24, 30):
            outcome(standin, name, x, a, None, ddof=ddof)
        for axis, mean in ((0, np.ones((1, 6))), (1, np.ones((4, 1))), (None, np.array(2)), (0, np.full((4, 6), 3))):
            mean = mean.astype(numpys("mean", a).dtype)
            outcome(standin, name, x, a, axis, mean=mean)
            outcome(standin, name, x, a, axis, mean=mean, where=np.arange(24).reshape(4, 6) % 2 == 0)
        outcome(standin, name, x, a, 1, ddof=1, where=np.arange(24).reshape(4, 6) > 7)


# -- nothing, and single elements


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_nothing(standin, name):
    for dtype in ("d", "b", "?"):
        for shape in ((0,), (0, 3), (3, 0), (0, 0)):
            a = np.zeros(shape, dtype)
            for axis in all_axes(name, a.ndim):
                outcome(standin, name, standin.view(a), a, axis)
                outcome(standin, name, standin.view(a), a, axis, keepdims=True)
    assert not standin.calls or all(call[0].startswith(("fill", "copy")) for call in standin.calls)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_an_array_without_dimensions(standin, name):
    a = np.array(5, np.float32)
    outcome(standin, name, standin.view(a), a)


# -- outputs


@pytest.mark.parametrize("name", REDUCTIONS)
def test_outputs_of_other_dtypes_and_layouts(standin, name):
    a = values(np.float32)
    x = standin.view(a)
    for dtype in "fdilFe" if BIG else "fd":
        for b in (np.zeros(6, dtype), np.zeros(12, dtype)[::2], np.zeros(6, dtype)[::-1]):
            try:
                REDUCTIONS[name](a, 0, out=b)
            except TypeError:
                with pytest.raises(TypeError, match="cast|Cannot"):
                    standin.reduce(name, x, standin.view(b), (0,), {})
                continue
            out = standin.view(b)
            before = standin.surroundings(out)
            standin.reduce(name, x, out, (0,), {})
            close(standin.to_host(out), b, 24)
            assert (standin.surroundings(out) == before).all()
            theirs = np.zeros_like(b)
            standin.reduce(name, x, theirs, (0,), {})
            close(theirs, b, 24)


def test_an_output_must_have_the_shape_of_the_result(standin):
    x = standin.view(np.ones((4, 6), np.float32))
    for shape in ((5,), (1, 6), (), (6, 1)):
        with pytest.raises(ValueError, match=r"out has shape .*, but sum of shape \(4, 6\) along axes \(0,\)"):
            standin.reduce("sum", x, standin.view(np.ones(shape, np.float32)), (0,), {})


@pytest.mark.parametrize("name", ["sum", "max", "mean", "std"])
def test_an_output_that_overlaps_is_written_last(standin, name):
    a = np.arange(36, dtype=np.float32).reshape(6, 6)
    for axis, part in ((0, 0), (0, 3), (1, (slice(None), 2)), (None, (2, 2))):
        x = standin.view(a)
        index = part if isinstance(part, tuple) else (part,)
        at = a[index] if isinstance(a[index], np.ndarray) else a[2:3, 2:3].reshape(())
        offset = at.__array_interface__["data"][0] - a.__array_interface__["data"][0]
        out = x._view(View, offset, x.dtype, 0, at.shape, tuple([s // 4 for s in at.strides]))
        expected = a.copy()
        expected[part] = numpys(name, a, axis)
        standin.reduce(name, x, out, axes_of(axis, 2), {})
        np.testing.assert_allclose(standin.to_host(x), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e4m3fn)], ids=str)
def test_dtypes_without_kernels_are_refused(standin, dtype):
    x = standin.view(np.ones(3, dtype))
    with pytest.raises(TypeError, match=rf"sum in {dtype} cannot be computed on standin, only in .*astype.*to_device"):
        standin.reduce("sum", x, standin.view(np.ones((), dtype)), (0,), {})


@pytest.mark.parametrize("residue", [1, 2, 4, 6])
def test_elements_at_any_address(standin, residue):
    for dtype in "fhD" if BIG else "f":
        a = values(dtype)
        outcome(standin, "sum", standin.view(a, residue), a, 0)
        out = standin.view(np.zeros(6, a.dtype), residue)
        if dtype != "h":
            standin.reduce("sum", standin.view(a), out, (0,), {})
            close(standin.to_host(out), numpys("sum", a, 0), 4)


# -- how much is launched


@pytest.mark.parametrize(
    ("name", "shape", "axis", "launches"),
    [
        ("sum", (100,), None, 1),
        ("sum", (100, 100), 0, 1),
        ("sum", (9000,), None, 2),
        ("mean", (100,), None, 2),
        ("var", (100,), None, 4),
        ("argmax", (9000,), None, 2),
        ("sum", (8, 3, 10, 10), (0, 2, 3), 2),
    ],
)
def test_launches(standin, name, shape, axis, launches):
    """Nothing is copied that can be read where it is."""
    x = standin.view(np.ones(shape, np.float32))
    standin.calls.clear()
    on_device(standin, name, x, axis)
    assert len(standin.calls) == launches, standin.calls


def test_there_is_one_kernel_for_each_variant():
    kernels = {reductions.reduction(*variant) for variant in reductions.VARIANTS}
    assert len({kernel.name for kernel in kernels}) == len(kernels) > 100
