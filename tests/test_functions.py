"""What is neither elementwise nor a reduction, against NumPy: functions, dtypes and layouts, from a table."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import dtypes
from nbdlpack.devices.routines import ROUTINES
from nbdlpack.functions import (
    creation,
    indexing,
    linear_algebra,
    manipulation,
    searching,
    sets,
    sorting,
    statistical,
    utility,
)
from tests.arrays import DTYPES, EXTENDED, LAYOUTS, assert_same, bits, pair, same_outcome, values

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")


def indices(xp, x, n=None):
    """Return some positions along the last axis, from both ends."""
    n = n if n is not None else x.shape[-1]
    return xp.asarray((np.arange(7) * 3) % max(n, 1) - (np.arange(7) % 2) * n)


def unsigned(xp, numbers):
    """Return integers of uint64, for which NumPy, unlike the standard, has no use here."""
    return xp.asarray(np.asarray(numbers, np.uint64 if xp is nd else np.int64))


def wide(a):
    """Return what NumPy is to compute with: float32 for dtypes that are not its own."""
    return a.astype(np.float32) if a.dtype in EXTENDED else a


def like(a, *results):
    """Return results that were computed of `wide(a)` as they are of `a`."""
    return tuple([r.astype(a.dtype) if a.dtype in EXTENDED and r.dtype == np.float32 else r for r in results])


def _sorted(xp, a, **options):
    return xp.sort(a, **options) if xp is nd else like(a, np.sort(wide(a), options.get("axis", -1), kind="stable"))[0]


def _argsorted(xp, a, **options):
    return xp.argsort(a, **options) if xp is nd else np.argsort(wide(a), options.get("axis", -1), kind="stable")


def _reversed(xp, a, name):
    """Descending: what was before among equals still is."""
    if xp is nd:
        return getattr(nd, name)(a, descending=True)
    order = a.shape[-1] - 1 - np.flip(np.argsort(wide(np.flip(a, -1)), -1, kind="stable"), -1)
    return order if name == "argsort" else np.take_along_axis(a, order, -1)


def _cumulative(xp, a, name, **options):
    if xp is nd or a.dtype not in EXTENDED:
        return getattr(xp, name)(a, **options)
    return getattr(np, name)(wide(a), **options).astype(options.get("dtype", a.dtype))


def _unique(xp, a, name):
    if xp is nd:
        found = getattr(nd, name)(a)
        return tuple(found) if isinstance(found, tuple) else found
    names = {"all": "index inverse counts", "counts": "counts", "inverse": "inverse", "values": ""}[name[7:]]
    found = np.unique(wide(a), **{f"return_{n}": True for n in names.split()}, equal_nan=False)
    if not isinstance(found, tuple):
        return like(a, found)[0]
    return like(a, *found)


def _product(xp, x, function):
    if xp is nd or x.dtype not in EXTENDED:
        return function(xp, x)
    return function(np, wide(x)).astype(x.dtype)


def _where_not(xp, x):
    return xp.where(x != x, x, x[::-1] if x.ndim else x)


# For each function of these sections what is called: with the namespace and an array of it.
CASES: dict[str, list[Any]] = {
    "meshgrid": [
        lambda xp, x: xp.meshgrid(x.reshape(-1)[:3], x.reshape(-1)[:4]),
        lambda xp, x: xp.meshgrid(x.reshape(-1)[:3], x.reshape(-1)[:2], x.reshape(-1)[:1], indexing="ij"),
        lambda xp, x: xp.meshgrid(x.reshape(-1)[:3]),
    ],
    "tril": [lambda xp, x, k=k: xp.tril(matrix(x), k=k) for k in (-9, -1, 0, 1, 9)],
    "triu": [lambda xp, x, k=k: xp.triu(matrix(x), k=k) for k in (-9, -1, 0, 1, 9)],
    "take": [
        lambda xp, x: xp.take(x, indices(xp, x), axis=-1),
        lambda xp, x: xp.take(x, indices(xp, x, x.shape[0]), axis=0),
        lambda xp, x: xp.take(x, xp.asarray([[0, -1], [1, 1]]), axis=-1),
        lambda xp, x: xp.take(x.reshape(-1), unsigned(xp, [0, 1])),
        lambda xp, x: xp.take(x, xp.asarray([99]), axis=0),
    ],
    "take_along_axis": [
        lambda xp, x: xp.take_along_axis(x, xp.asarray(np.argsort(np.ones(x.shape))), axis=-1),
        lambda xp, x: xp.take_along_axis(x, xp.asarray(np.full((1,) * x.ndim, -1)), axis=0),
    ],
    "matmul": [
        lambda xp, x: _product(xp, x, lambda xp, x: xp.matmul(x, x.T)),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.matmul(x, x.reshape(-1)[: x.shape[-1]])),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.matmul(x.reshape(-1)[: x.shape[0]], x)),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.matmul(x[None], x.mT[:, None] if x.ndim == 3 else x.T)),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.matmul(x, x)),
    ],
    "matrix_transpose": [lambda xp, x: xp.matrix_transpose(x)],
    "tensordot": [
        lambda xp, x: _product(xp, x, lambda xp, x: xp.tensordot(x, x.T, axes=1)),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.tensordot(x, x, axes=0)),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.tensordot(x, x, axes=([-1, 0], [-1, 0]))),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.tensordot(x, x, axes=([0], [0, 1]))),
    ],
    "vecdot": [
        lambda xp, x: _product(xp, x, lambda xp, x: xp.vecdot(x, x)),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.vecdot(x, x[:1], axis=-1)),
        lambda xp, x: _product(xp, x, lambda xp, x: xp.vecdot(x, x, axis=-2)),
    ],
    "broadcast_arrays": [lambda xp, x: xp.broadcast_arrays(x, x[..., :1])],
    "broadcast_to": [lambda xp, x: xp.broadcast_to(x, (2, *x.shape))],
    "concat": [
        lambda xp, x: xp.concat([x, x[:1], x]),
        lambda xp, x: xp.concat([x, x], axis=-1),
        lambda xp, x: xp.concat([x, x[:1]], axis=None),
        lambda xp, x: xp.concat([x, xp.astype(x, np.complex128)]),
        lambda xp, x: xp.concat([x, x[0]]),
        lambda xp, x: xp.concat([x, x[..., 0]], axis=-1),
    ],
    "copy": [lambda xp, x: xp.copy(x)],
    "expand_dims": [lambda xp, x: xp.expand_dims(x, axis=-1)],
    "flip": [lambda xp, x: xp.flip(x), lambda xp, x: xp.flip(x, axis=0)],
    "moveaxis": [lambda xp, x: xp.moveaxis(x, 0, -1)],
    "permute_dims": [lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1])],
    "ravel": [lambda xp, x: xp.ravel(x)],
    "repeat": [
        lambda xp, x: xp.repeat(x, 3),
        lambda xp, x: xp.repeat(x, 2, axis=0),
        lambda xp, x: xp.repeat(x, 0, axis=-1),
        lambda xp, x: xp.repeat(x, xp.asarray(np.arange(x.shape[-1])), axis=-1),
        lambda xp, x: xp.repeat(x, unsigned(xp, np.full(x.size, 2))),
    ],
    "reshape": [lambda xp, x: xp.reshape(x, (-1, 1))],
    "roll": [
        lambda xp, x: xp.roll(x, 2),
        lambda xp, x: xp.roll(x, -1, axis=0),
        lambda xp, x: xp.roll(x, (1, 5), axis=(0, -1)),
        lambda xp, x: xp.roll(x, 1, axis=(0, 1)),
        lambda xp, x: xp.roll(x, (1, 2), axis=0),
        lambda xp, x: xp.roll(x, (1, 2, 3), axis=(0, 1)),
    ],
    "squeeze": [lambda xp, x: xp.squeeze(x[..., None], axis=-1)],
    "stack": [lambda xp, x: xp.stack([x, x]), lambda xp, x: xp.stack([x, x], axis=-1)],
    "swapaxes": [lambda xp, x: xp.swapaxes(x, 0, -1)],
    "tile": [
        lambda xp, x: xp.tile(x, 2),
        lambda xp, x: xp.tile(x, (2, 1, 3)),
        lambda xp, x: xp.tile(x, ()),
        lambda xp, x: xp.tile(x, (0, 2)),
        lambda xp, x: xp.tile(x, (-1,)),
    ],
    "transpose": [lambda xp, x: xp.transpose(x)],
    "unstack": [lambda xp, x: xp.unstack(x), lambda xp, x: xp.unstack(x, axis=-1)],
    "argmax": [lambda xp, x: xp.argmax(x, axis=0)],
    "argmin": [lambda xp, x: xp.argmin(x, axis=0)],
    "count_nonzero": [
        lambda xp, x: xp.count_nonzero(x),
        lambda xp, x: xp.count_nonzero(x, axis=0),
        lambda xp, x: xp.count_nonzero(x, axis=tuple(range(x.ndim)), keepdims=True),
    ],
    "nonzero": [lambda xp, x: xp.nonzero(x)],
    "searchsorted": [
        lambda xp, x, side=side: xp.searchsorted(_sorted(xp, x.reshape(-1)), x, side=side) for side in ("left", "right")
    ]
    + [lambda xp, x: xp.searchsorted(x.reshape(-1), x, sorter=_argsorted(xp, x.reshape(-1)))],
    "where": [
        lambda xp, x: xp.where(x == x[..., :1], x, x[::-1]),
        lambda xp, x: xp.where(x, x, x[:1]),
        lambda xp, x: xp.where(x == x, 1, x),
        lambda xp, x: xp.where(x[..., :1] != x, x, xp.asarray(np.complex64(2))),
        lambda xp, x: xp.where(x, x, xp.ones((17, 19))),
    ],
    "isin": [
        lambda xp, x: xp.isin(x, x[..., :1]),
        lambda xp, x: xp.isin(x, x.reshape(-1)[:2], invert=True),
        lambda xp, x: xp.isin(x if xp is nd else wide(x), 1),
        lambda xp, x: xp.isin(1, x if xp is nd else wide(x)),
    ],
    **{
        name: [lambda xp, x, name=name: _unique(xp, x, name)]
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values")
    },
    "argsort": [
        lambda xp, x: _argsorted(xp, x),
        lambda xp, x: _argsorted(xp, x, axis=0),
        lambda xp, x: _reversed(xp, x, "argsort"),
    ],
    "sort": [
        lambda xp, x: _sorted(xp, x),
        lambda xp, x: _sorted(xp, x, axis=0),
        lambda xp, x: _sorted(xp, x, stable=False),
        lambda xp, x: _reversed(xp, x, "sort"),
    ],
    **{
        name: [
            lambda xp, x, name=name: _cumulative(xp, x, name, axis=0),
            lambda xp, x, name=name: _cumulative(xp, x, name, axis=-1, include_initial=True),
            lambda xp, x, name=name: _cumulative(xp, x, name, axis=-1, dtype=np.complex128),
            lambda xp, x, name=name: _cumulative(xp, x, name, axis=9),
        ]
        for name in ("cumulative_prod", "cumulative_sum")
    },
    "all": [lambda xp, x: xp.all(x, axis=0)],
    "any": [lambda xp, x: xp.any(x, axis=0)],
    "diff": [
        lambda xp, x: xp.diff(x),
        lambda xp, x: xp.diff(x, axis=0, n=2),
        lambda xp, x: xp.diff(x, axis=0, prepend=x[:1], append=x),
        lambda xp, x: xp.diff(x, n=9),
        lambda xp, x: xp.diff(x, n=-1),
    ],
}
# Reductions have tests of their own; these take and give no arrays.
ELSEWHERE = {"broadcast_shapes", "max", "mean", "min", "prod", "std", "sum", "var"}
VIEWS = set(
    "broadcast_arrays broadcast_to expand_dims flip matrix_transpose moveaxis permute_dims squeeze swapaxes transpose "
    "unstack".split()
)
MAY_BE_VIEWS = {"ravel", "reshape"}


def matrix(x):
    """Return an array of at least two dimensions: of fewer, ours refuses what NumPy makes a matrix of."""
    return x if x.ndim > 1 else x.reshape(-1, 1)


def arrays_of(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def test_every_function_has_a_case():
    sections = (creation, indexing, linear_algebra, manipulation, searching, sets, sorting, statistical, utility)
    public = {name for section in sections for name in section.__all__} - ELSEWHERE
    made = {name for name in creation.__all__ if name not in ("meshgrid", "tril", "triu")}
    assert set(CASES) == public - made


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_function_on_every_dtype_and_layout(name, dtype):
    for layout in LAYOUTS:
        x, a = pair(dtype, layout)
        for case in CASES[name]:
            if a.ndim == 0 and name not in ("count_nonzero", "tile", "unique_values"):
                continue  # where NumPy takes a scalar for a vector, the standard says nothing
            expected = _quiet(lambda case=case, a=a: case(np, a))
            same_outcome(lambda case=case, x=x: case(nd, x), lambda e=expected: _given(e))


def _quiet(function: Any) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = function()
        except Exception as error:  # noqa: BLE001 - to be expected of ours as well
            return error
    return tuple(found) if isinstance(found, (tuple, list)) else found


def _given(found: Any) -> Any:
    if isinstance(found, Exception):
        raise found
    return found


LARGE = (3, 70, 113)  # several blocks of whatever is computed in blocks, and from where on routines prepare


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "dtype", [np.dtype(t) for t in ("?", "u1", "i2", "f4", "c8")] + [np.dtype(nd.bfloat16)], ids=str
)
def test_every_function_on_many_elements(name, dtype):
    a = values(dtype, LARGE)
    for layout in (lambda a: a, lambda a: a[::-1, ::2].T):
        x, b = layout(nd.array(a)), layout(a)
        for case in CASES[name]:
            if name in ("matmul", "tensordot", "vecdot", "meshgrid", "cumulative_prod", "cumulative_sum"):
                x, b = x[:, :5, :3], b[:, :5, :3]  # sums of many depend on the order
            same_outcome(lambda case=case, x=x: case(nd, x), lambda case=case, b=b: _quiet_or_raise(case, b))


def _quiet_or_raise(case: Any, a: Any) -> Any:
    return _given(_quiet(lambda: case(np, a)))


@pytest.mark.parametrize("name", CASES)
def test_functions_only_read(name):
    """A lazy copy stays one, nothing is copied unasked, and results share memory where they are to alone."""
    x, _ = pair(np.float32, "offset")
    whole = nd.array(values(np.float32))
    for x in (whole, whole[1:, 2:5]):
        y = whole.copy()
        for case in CASES[name]:
            before = whole._state()
            try:
                found = arrays_of(case(nd, x))
            except (IndexError, TypeError, ValueError):
                continue
            assert whole._state()[:1] == before[:1]
            assert nd.is_shared(y)
            for result in found:
                shares = nd.shares_memory(result, whole)
                if name in VIEWS:
                    assert shares
                elif name not in MAY_BE_VIEWS and name != "copy":
                    assert not shares
                    assert not result.size or result._state()[0] % 256 == 0, "in our own, aligned memory"
                    assert result.flags.writeable
        assert bits(y) == bits(values(np.float32))


@pytest.mark.parametrize("name", sorted(set(CASES) - {"copy", "ravel", "reshape", "concat"}))
def test_nothing_is_copied_unasked(name):
    x, _ = pair(np.float32)
    with nd.no_copies():
        for case in CASES[name]:
            try:
                case(nd, x)
            except (IndexError, TypeError, ValueError):
                continue


# -- on devices


@pytest.mark.parametrize("name", sorted(set(CASES) - {"copy", "ravel", "reshape"}))
def test_every_function_on_every_device(device, name):
    """The result is there, and is NumPy's; what the device leaves to the host is in the log."""
    for dtype in (np.float32, np.int32):
        a = values(dtype)
        x = nd.array(a)
        for case in CASES[name]:
            expected = _quiet(lambda case=case: case(np, a))
            with nd.copy_log() as log:
                if isinstance(expected, Exception):
                    with pytest.raises((IndexError, TypeError, ValueError)):
                        case(nd, x)
                    continue
                found = arrays_of(case(nd, x))
            for result, theirs in zip(found, arrays_of(expected), strict=True):
                assert result.device == device
                assert result.dtype == theirs.dtype
                np.testing.assert_allclose(result.to_device("cpu"), theirs, rtol=1e-6)
            left = {copy.cause.partition(" ")[0] for copy in log if "is computed on the host" in copy.cause}
            assert not left & device.routines
            assert device.hosted or not left or name in ROUTINES or name.startswith("unique_")


def test_operands_on_two_devices_are_refused(cuda):
    x, y = nd.ones(3, device="cpu"), nd.ones(3, device=cuda)
    for call in (
        lambda: nd.where(x > 0, x, y),
        lambda: nd.isin(x, y),
        lambda: nd.searchsorted(x, y),
        lambda: nd.take(x, nd.zeros(1, int, device=cuda)),
        lambda: nd.matmul(x, y),
        lambda: nd.concat([x, y]),
        lambda: nd.tensordot(x, y, axes=1),
    ):
        with pytest.raises(nd.errors.DeviceError, match="the operands are on devices"):
            call()


def test_arrays_of_the_host_arrive(cuda):
    x = nd.arange(3.0, device=cuda)
    with nd.copy_log() as log:
        assert nd.where(np.array([True, False, True]), x, np.zeros(3)).tolist() == [0, 0, 2]
    assert sum("an operand in host memory" in copy.cause for copy in log) == 2


# -- errors

ERRORS = {
    "take without axis": (lambda x: nd.take(x, [0]), ValueError, "axis must be given for an array of 2 dimensions"),
    "take a mask": (lambda x: nd.take(x, x > 0, axis=0), TypeError, "indices have dtype bool, but must be integers"),
    "take beyond": (lambda x: nd.take(x, [9], axis=0), IndexError, "out of bounds"),
    "take_along_axis": (lambda x: nd.take_along_axis(x, [0]), ValueError, "indices have 1 dimensions, but must have"),
    "cumulative_sum": (nd.cumulative_sum, ValueError, "axis must be given for an array of 2 dimensions"),
    "searchsorted 2-d": (lambda x: nd.searchsorted(x, x), ValueError, "x1 has 2 dimensions, but must have one"),
    "searchsorted side": (lambda x: nd.searchsorted(x[0], 1, side="up"), ValueError, "side is 'up', but must be"),
    "searchsorted sorter": (lambda x: nd.searchsorted(x[0], 1, sorter=x[0]), TypeError, "sorter has dtype float64"),
    "searchsorted shape": (lambda x: nd.searchsorted(x[0], 1, sorter=[0]), ValueError, r"sorter has shape \(1,\)"),
    "meshgrid indexing": (lambda x: nd.meshgrid(x[0], indexing="ji"), ValueError, "indexing is 'ji', but must be"),
    "meshgrid 2-d": (nd.meshgrid, ValueError, "an array has 2 dimensions, but must have one"),
    "tril 1-d": (lambda x: nd.tril(x[0]), ValueError, "x has 1 dimensions, but must have at least two"),
    "repeat": (lambda x: nd.repeat(x, [0.5]), TypeError, "repeats have dtype float64, but must be integers"),
    "repeat negative": (lambda x: nd.repeat(x, -1), ValueError, "repeats is -1, but must not be negative"),
    "tile": (lambda x: nd.tile(x, "2"), TypeError, "repetitions is '2', but must be an integer or a sequence"),
    "roll": (lambda x: nd.roll(x, (1, 2, 3), axis=(0, 1)), ValueError, "shift has 3 numbers and axis 2"),
    "tensordot":
    (lambda x: nd.tensordot(x, x, axes=1), ValueError, r"axes \(1,\) of x1 have lengths \(3,\), but axes \(0,\) of x2"),
    "tensordot axes": (lambda x: nd.tensordot(x, x, axes=3), ValueError, "axes is 3, but must be from 0 to 2"),
    "tensordot twice": (lambda x: nd.tensordot(x, x, axes=([0, 0], [0, 1])), ValueError, "must not name an axis twice"),
    "matmul": (lambda x: nd.matmul(x, x), ValueError, "mismatch in its core dimension"),
    "matmul 0-d": (lambda x: nd.matmul(x, 1.0), ValueError, "does not have enough dimensions"),
    "concat": (lambda _: nd.concat([]), ValueError, "arrays is empty"),
    "stack": (lambda x: nd.stack([x, x[0]]), ValueError, "arrays have the shapes"),
    "unstack": (lambda x: nd.unstack(x, axis=2), nd.errors.AxisError, "axis 2 is out of bounds"),
    "diff": (lambda x: nd.diff(x, n=-1), ValueError, "n is -1, but must not be negative"),
    "where": (lambda x: nd.where(x, x, "text"), TypeError, "an array can have only one of|no common|promoted|DType"),
    "sort": (lambda x: nd.sort(x, axis=5), nd.errors.AxisError, "axis 5 is out of bounds"),
    "broadcast_shapes": (lambda _: nd.broadcast_shapes((2,), (3,)), ValueError, "could not be broadcast together"),
    "expand_dims": (lambda x: nd.expand_dims(x), TypeError, "axis"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_is_wrong(case):
    call, kind, words = ERRORS[case]
    with pytest.raises(kind, match=words):
        call(nd.ones((2, 3)))


# -- single functions


def test_broadcast_shapes():
    assert nd.broadcast_shapes() == ()
    assert nd.broadcast_shapes((3, 1), 4, (1, 1)) == (3, 4)


def test_meshgrids_of_nothing_and_of_numbers():
    assert nd.meshgrid() == ()
    assert [x.shape for x in nd.meshgrid(nd.array(1.0), nd.ones(2))] == [(2, 1), (2, 1)]


@pytest.mark.parametrize("size", [3, 20000])
def test_where_takes_numbers_for_what_the_array_is_of(size):
    for dtype in DTYPES:
        x = nd.ones(size, dtype)
        kinds = [False] + [1] * (dtype.kind != "b") + [2.5] * (dtype in dtypes.KINDS["real floating"])
        for number in kinds:
            found = nd.where(nd.arange(size) % 2 == 0, x, number)
            assert found.dtype == dtype
            assert bits(found[1:2]) == bits(np.full(1, number, dtype))
            assert_same(nd.where(nd.arange(size) % 2 == 1, number, x), np.asarray(found))
    assert nd.where(nd.ones(size, bool), 1, 2.5).dtype == nd.float64
    with pytest.raises(OverflowError):
        nd.where(nd.ones(size, bool), nd.ones(size, np.int8), 300)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_where_of_many_elements_chooses_the_very_bits(dtype):
    a = np.frombuffer(np.random.default_rng(0).bytes(20000 * dtype.itemsize), dtype)
    if dtype == np.bool:
        a = a.view(np.uint8) > 99
    x, mask = nd.array(a), np.arange(a.size) % 3 == 0
    for condition in (mask, mask.astype(np.float32), mask[:, None][:, ::-1].reshape(-1)):
        assert_same(nd.where(nd.array(condition), x, x[::-1]), np.where(condition, a, a[::-1]))
    assert_same(nd.where(nd.array(mask[:, None]), x[:1], x[1:3]), np.where(mask[:, None], a[:1], a[1:3]))


def test_take_of_many_elements():
    a = np.arange(30000.0).reshape(100, 300)
    x, at = nd.array(a), np.random.default_rng(0).integers(-100, 100, 500)
    assert_same(nd.take(x, at, axis=0), a.take(at, 0))
    assert_same(nd.take(x, abs(at) % 100, axis=1), a.take(abs(at) % 100, 1))
    assert_same(
        nd.take(x[:, ::-2], nd.array(abs(at) % 100).reshape(5, 100), axis=1),
        a[:, ::-2].take(abs(at).reshape(5, 100) % 100, 1),
    )
    for wrong in (100, -101):
        with pytest.raises(IndexError, match="out of bounds"):
            nd.take(x, [*at, wrong], axis=0)


def test_repeats_of_an_array():
    x = nd.arange(4)
    assert nd.repeat(x, nd.array([2])).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert nd.repeat(x, nd.array(2)).tolist() == nd.repeat(x, 2).tolist()
    with pytest.raises(ValueError, match="broadcast"):
        nd.repeat(x, nd.array([1, 2]))
    with pytest.raises(ValueError, match="negative"):
        nd.repeat(x, nd.array([1, 2, 3, -1]))


def test_differences_begin_and_end_with_numbers():
    x, a = nd.array([[1, 4], [9, 16]]), np.array([[1, 4], [9, 16]])
    assert_same(nd.diff(x, axis=0, prepend=1, append=nd.array(2)), np.diff(a, axis=0, prepend=1, append=2))
    assert_same(nd.diff(x, n=0), a)
    assert not nd.shares_memory(nd.diff(x[:, ::-1], n=0), x)


def test_cumulative_dtypes_are_those_of_sums():
    for dtype in DTYPES:
        x = nd.ones(3, dtype)
        assert nd.cumulative_sum(x).dtype == x.sum().dtype
        assert nd.cumulative_prod(x, include_initial=True).dtype == x.prod().dtype
    assert nd.cumulative_sum(nd.ones(300, nd.bfloat16))[-1] == 300, "a bfloat16 stops at 256"
    assert nd.cumulative_sum(nd.ones(3), dtype=nd.bfloat16).dtype == nd.bfloat16
    assert nd.cumulative_sum(nd.array([1.7, 1.7]), dtype=int).tolist() == [1, 2]


def test_products_of_dtypes_that_are_not_numpys():
    """The result is of the dtype, as of other operations, where NumPy gives float32."""
    for dtype in EXTENDED:
        x = nd.ones((2, 2), dtype)
        for found in (x @ x, nd.matmul(x, x), nd.tensordot(x, x, axes=1), nd.vecdot(x, x), np.matmul(x, x)):
            assert found.dtype == dtype
            assert float(found.reshape(-1)[0]) == 2
    assert float(nd.vecdot(nd.ones(1000, nd.bfloat16), nd.ones(1000, nd.bfloat16))) == 1000
    assert (nd.ones((2, 2), nd.bfloat16) @ nd.ones((2, 2), nd.float32)).dtype == nd.float32


def test_real_imag_and_round():
    z = nd.array([1.5 + 2.5j, -0.5 - 1.5j])
    assert nd.shares_memory(nd.real(z), z)
    assert nd.shares_memory(nd.imag(z), z)
    assert nd.real(z).dtype == nd.imag(nd.astype(z, nd.complex64)).dtype.type(0).astype(nd.float64).dtype
    assert_same(nd.round(z), np.round(np.asarray(z)))
    assert_same(nd.round(nd.array([1.26, 2.5]), 1), np.array([1.3, 2.5]))
    assert_same(nd.round(nd.array([3, 4])), np.array([3, 4]))
    assert nd.imag(nd.ones(2)).tolist() == [0, 0]


@pytest.mark.parametrize("where", ["cuda_host", "cuda_managed"])
def test_host_memory_that_gpus_reach(cuda, where):
    """NumPy computes there, and the results are there."""
    a = values(np.float32)
    x = nd.array(a, device=where)
    with nd.copy_log() as log:
        for name in ("sort", "where", "tril", "concat", "matmul", "unique_all", "cumulative_sum", "searchsorted"):
            for case in CASES[name][:1]:
                for found, theirs in zip(arrays_of(case(nd, x)), arrays_of(case(np, a)), strict=True):
                    assert found.device == where
                    assert_same(nd.array(found, device="cpu"), theirs)
        assert nd.fft.fft(x).device == nd.linalg.svdvals(x).device == where
    assert not [copy for copy in log if "is computed on the host" in copy.cause]
