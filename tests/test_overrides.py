"""NumPy's functions, called with arrays of ours."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import overrides
from tests.arrays import assert_same, pair, values


def numbers():
    return nd.array(values(np.float64)), values(np.float64)


# Calls with NumPy's arguments, by name and by place.
CALLS = {
    "sort": lambda x: np.sort(x),
    "sort axis": lambda x: np.sort(x, 0, "quicksort"),
    "sort flattened": lambda x: np.sort(x, axis=None),
    "sort stable": lambda x: np.sort(x, stable=True),
    "argsort": lambda x: np.argsort(x, kind="stable"),
    "argsort flattened": lambda x: np.argsort(x, None, kind="stable"),
    "where": lambda x: np.where(x > 2, x, 0),
    "where one": lambda x: np.where(x > 2),
    "take": lambda x: np.take(x, [0, -1], 1),
    "take flattened": lambda x: np.take(x, np.array([[0, 5]])),
    "take_along_axis": lambda x: np.take_along_axis(x, np.argsort(x, axis=0, kind="stable"), 0),
    "concatenate": lambda x: np.concatenate([x, x], 1),
    "concatenate dtype": lambda x: np.concatenate((x, np.zeros((1, 6))), axis=0, dtype=np.float32),
    "stack": lambda x: np.stack([x, x], axis=-1),
    "repeat": lambda x: np.repeat(x, 2, axis=1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "roll": lambda x: np.roll(x, 1, 0),
    "flip": lambda x: np.flip(x, 0),
    "expand_dims": lambda x: np.expand_dims(x, 0),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "unstack": lambda x: np.unstack(x),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 4, 6)),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, x[:1]),
    "meshgrid": lambda x: np.meshgrid(x[0], x[:, 0], indexing="ij"),
    "tril": lambda x: np.tril(x, -1),
    "triu": lambda x: np.triu(x, k=1),
    "zeros_like": lambda x: np.zeros_like(x, dtype=np.int8),
    "full_like": lambda x: np.full_like(x, 7, shape=(2,), subok=False),
    "ones_like": lambda x: np.ones_like(x),
    "copy": lambda x: np.copy(x, "F"),
    "astype": lambda x: np.astype(x, np.int32),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x, "right"),
    "count_nonzero": lambda x: np.count_nonzero(x, 0, keepdims=True),
    "isin": lambda x: np.isin(x, [1, 4], assume_unique=False, invert=True),
    "unique_all": lambda x: np.unique_all(x),
    "unique_inverse": lambda x: np.unique_inverse(x),
    "cumsum": lambda x: np.cumsum(x),
    "cumsum axis": lambda x: np.cumsum(x, 1),
    "cumprod": lambda x: np.cumprod(x, axis=0, dtype=np.complex64),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=0, include_initial=True),
    "diff": lambda x: np.diff(x, 2, 0),
    "diff ends": lambda x: np.diff(x, prepend=0, append=x),
    "matrix_transpose": lambda x: np.matrix_transpose(x),
    "tensordot": lambda x: np.tensordot(x, x, ([0, 1], [0, 1])),
    "linalg.matmul": lambda x: np.linalg.matmul(x, x.T),
    "linalg.trace": lambda x: np.linalg.trace(x, offset=1),
    "linalg.inv": lambda x: np.linalg.inv(x[:, :4] + 10 * np.eye(4)),
    "linalg.svd": lambda x: np.linalg.svd(x, full_matrices=False)[1],
    "linalg.eigh": lambda x: np.linalg.eigh(x[:, :4] + x[:, :4].T, UPLO="L")[0],
    "linalg.qr": lambda x: np.linalg.qr(x)[1],
    "linalg.pinv": lambda x: np.linalg.pinv(x),
    "linalg.vector_norm": lambda x: np.linalg.vector_norm(x, axis=1),
    "fft.fft": lambda x: np.fft.fft(x, 8),
    "fft.rfftn": lambda x: np.fft.rfftn(x, axes=(1,)),
    "fft.fftshift": lambda x: np.fft.fftshift(x, 1),
}


@pytest.mark.parametrize("case", CALLS)
def test_functions_that_we_have(case):
    """The result is an array of ours, the same as NumPy's; nothing is moved, and nothing copied that need not be."""
    x, a = numbers()
    y = x.copy()
    found, expected = CALLS[case](x), CALLS[case](a)
    assert nd.is_shared(y)
    parts, others = [r if isinstance(r, tuple) else (r,) for r in (found, expected)]
    for part, theirs in zip(parts, others, strict=True):
        assert type(part) is nd.ndarray
        assert part.dtype == theirs.dtype
        np.testing.assert_allclose(np.asarray(part), theirs, rtol=1e-9, atol=1e-9)


def test_dtypes_that_operations_have():
    assert np.result_type(nd.ones(2, np.int8), 1) == np.int8
    assert np.result_type(nd.ones(2, nd.bfloat16), 1.5) == nd.bfloat16


def test_the_result_is_on_the_device(cuda):
    x = nd.array(values(np.float32), device=cuda)
    for found in (np.where(x > 2, x, 0), np.concatenate([x, x]), np.zeros_like(x), np.tile(x, 2), np.sort(x)):
        assert found.device == cuda
    with pytest.raises(BufferError, match="to_device"):
        np.median(x)


# -- what is left to NumPy

LEFT = {
    "median": lambda x: np.median(x),
    "percentile": lambda x: np.percentile(x, 30, axis=0),
    "dot": lambda x: np.dot(x, x.T),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "histogram": lambda x: np.histogram(x, 3)[0],
    "unique": lambda x: np.unique(x, return_counts=True)[1],
    "norm": lambda x: np.linalg.norm(x),
    "eigvals": lambda x: np.linalg.eigvals(x[:, :4] @ x[:, :4].T),
    "trace": lambda x: np.trace(x),
    "pad": lambda x: np.pad(x, 1),
    "interp": lambda x: np.interp(x[0], [0, 9], [1, 2]),
    "array_equal": lambda x: np.array_equal(x, x),
    "allclose": lambda x: np.allclose(x, x),
    "shares_memory": lambda x: np.shares_memory(x, x[1:]),
    "apply_along_axis": lambda x: np.apply_along_axis(sorted, 0, x),
    "insert": lambda x: np.insert(x, 0, 1),
    "take mode": lambda x: np.take(x, [99], mode="clip"),
    "sort order": lambda x: np.linalg.svd(x, compute_uv=False),
    "qr mode": lambda x: np.linalg.qr(x, mode="r"),
    "tril 1-d": lambda x: np.tril(x[0]),
    "meshgrid 2-d": lambda x: np.meshgrid(x, x)[0],
    "meshgrid sparse": lambda x: np.meshgrid(x[0], x[1], sparse=True)[0],
    "out": lambda x: np.cumsum(x, 0, out=np.empty(x.shape)),
    "casting": lambda x: np.concatenate([x, x], casting="unsafe"),
    "array2string": lambda x: np.array2string(x),
    "ndim": lambda x: np.ndim(x),
    "shape": lambda x: np.shape(x),
}


@pytest.mark.parametrize("case", LEFT)
def test_functions_that_we_have_not(case):
    """They take an array on the cpu for NumPy's, as they do without our say."""
    x, a = numbers()
    found, expected = LEFT[case](x), LEFT[case](a)
    np.testing.assert_array_equal(found, expected)
    assert not isinstance(found, nd.ndarray)


def test_methods_are_asked_as_before():
    x, a = numbers()
    for name in ("sum", "mean", "std", "max", "argmin", "any", "ravel", "round", "transpose", "squeeze"):
        assert_same(getattr(np, name)(x), getattr(np, name)(a))
    assert_same(np.clip(x, 1, 2), np.clip(a, 1, 2))
    assert_same(np.reshape(x, (6, 4)), np.reshape(a, (6, 4)))


def test_mistakes_are_numpys():
    x, _ = numbers()
    with pytest.raises(TypeError, match="shift"):
        np.roll(x)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        np.sort(x, downwards=True)


class Foreign:
    """An array of another library."""

    def __array_function__(self, function, types, args, options):
        return NotImplemented if nd.ndarray in types and not options else "foreign"


def test_other_libraries_have_their_say():
    x, _ = numbers()
    with pytest.raises(TypeError, match="no implementation found"):
        np.concatenate([x, Foreign()])
    assert np.concatenate([x, Foreign()], axis=0) == "foreign"
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    assert np.concatenate([x[0], masked]).shape == (8,)


def test_every_row_of_the_table_can_be_called():
    """Ours has for each argument of NumPy's that it does not know a way back to NumPy."""
    for numpys, row in overrides.table().items():
        assert callable(row.function), numpys
        names = list(row.parameters.parameters)
        assert names == list(inspect.signature(numpys).parameters)
        assert row.first >= 1


@pytest.mark.parametrize("layout", ["strided", "broadcast", "0-d", "empty"])
def test_layouts(layout):
    x, a = pair(np.float32, layout)
    assert_same(np.concatenate([x, x], None), np.concatenate([a, a], None))
    assert_same(np.where(x > 1, x, 0), np.where(a > 1, a, 0))
    assert_same(np.cumsum(x), np.cumsum(a))
