"""Linear algebra and Fourier transforms, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.devices.routines import ROUTINES
from tests.arrays import EXTENDED, assert_same, pair, same_outcome, values

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
RNG = np.random.default_rng(1)
PRECISE = [np.dtype(t) for t in "fdFD"]


def matrices(dtype, shape=(2, 3, 3)):
    """Return matrices that are not close to singular."""
    a = RNG.random(shape) + np.eye(shape[-2], shape[-1])
    return (a + 0.5j * RNG.random(shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def hermitian(a):
    return a @ np.conj(np.swapaxes(a, -1, -2))


def close(x, a):
    """Check an array against NumPy's, of a result that depends on the order in which it is computed."""
    assert type(x) is nd.ndarray
    a = np.asarray(a)
    assert (x.shape, x.dtype) == (a.shape, a.dtype)
    precision = 1e-4 if a.dtype.itemsize < (16 if a.dtype.kind == "c" else 8) else 1e-10
    np.testing.assert_allclose(np.asarray(x), a, rtol=precision, atol=precision)


# The calls that NumPy's functions of the same names take as they are.
CALLS: dict[str, list[Any]] = {
    "cholesky": [lambda xp, a, u=u: xp.linalg.cholesky(hermitian(a), upper=u) for u in (False, True)],
    "cross": [lambda xp, a: xp.linalg.cross(a, a[::-1]), lambda xp, a: xp.linalg.cross(a, a[:1] + 1, axis=-2)],
    "det": [lambda xp, a: xp.linalg.det(a)],
    "diagonal": [lambda xp, a, k=k: xp.linalg.diagonal(a, offset=k) for k in (-9, -1, 0, 1, 9)],
    "eigh": [lambda xp, a: xp.linalg.eigh(hermitian(a))],
    "eigvalsh": [lambda xp, a: xp.linalg.eigvalsh(hermitian(a))],
    "inv": [lambda xp, a: xp.linalg.inv(a)],
    "matmul": [lambda xp, a: xp.linalg.matmul(a, a)],
    "matrix_norm": [
        lambda xp, a, k=k: xp.linalg.matrix_norm(a, ord=k, keepdims=k == 1)
        for k in (1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc")
    ],
    "matrix_power": [lambda xp, a, n=n: xp.linalg.matrix_power(a, n) for n in (-2, 0, 1, 5)],
    "matrix_rank": [lambda xp, a: xp.linalg.matrix_rank(a), lambda xp, a: xp.linalg.matrix_rank(a, rtol=0.5)],
    "matrix_transpose": [lambda xp, a: xp.linalg.matrix_transpose(a)],
    "outer": [lambda xp, a: xp.linalg.outer(a.reshape(-1), a[0, 0])],
    "pinv": [lambda xp, a: xp.linalg.pinv(a * 1.0, rtol=None), lambda xp, a: xp.linalg.pinv(a, rtol=0.5)],
    "qr": [lambda xp, a, m=m: xp.linalg.qr(a[..., :2], mode=m) for m in ("reduced", "complete")],
    "slogdet": [lambda xp, a: xp.linalg.slogdet(a)],
    "solve": [lambda xp, a: xp.linalg.solve(a, a[0]), lambda xp, a: xp.linalg.solve(a, a[0, 0])],
    "svd": [lambda xp, a, f=f: xp.linalg.svd(a[..., :2], full_matrices=f) for f in (False, True)],
    "svdvals": [lambda xp, a: xp.linalg.svdvals(a)],
    "tensordot": [lambda xp, a: xp.linalg.tensordot(a, a[0], axes=1)],
    "trace": [lambda xp, a: xp.linalg.trace(a), lambda xp, a: xp.linalg.trace(a, offset=1, dtype=np.complex128)],
    "vecdot": [lambda xp, a: xp.linalg.vecdot(a, a)],
    "vector_norm": [
        lambda xp, a, k=k: xp.linalg.vector_norm(a, ord=k, axis=axis, keepdims=axis == 1)
        for k in (0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf)
        for axis in (None, 1, (0, 2))
    ],
    "eig": [],
    "eigvals": [],
}  # fmt: skip


def test_every_function_has_a_case():
    assert set(CALLS) == set(nd.linalg.__all__)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [*PRECISE, np.dtype(np.int32)], ids=str)
def test_every_function(name, dtype):
    a = matrices(dtype) if dtype.kind != "i" else np.array([[[2, 1, 0], [1, 3, 1], [0, 1, 4]]] * 2, dtype)
    for layout in (lambda a: a, lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1]):
        b = layout(a)
        x = nd.asarray(b)
        for call in CALLS[name]:
            expected, found = call(np, b), call(nd, x)
            if isinstance(expected, tuple):
                assert found._fields == getattr(expected, "_fields", found._fields)
                for part, theirs in zip(found, expected, strict=True):
                    close(part, theirs)
            else:
                close(found, expected)


def test_eigenvalues_are_complex():
    for dtype in PRECISE:
        a = matrices(dtype)
        values, vectors = nd.linalg.eig(nd.array(a))
        kind = np.result_type(dtype, np.complex64)
        assert values.dtype == vectors.dtype == nd.linalg.eigvals(nd.array(a)).dtype == kind
        close(nd.asarray(a.astype(kind)) @ vectors, np.asarray(vectors) * np.asarray(values)[..., None, :])
    assert nd.linalg.eig(nd.eye(2))._fields == ("eigenvalues", "eigenvectors")


def test_diagonals_are_views():
    x, a = pair(np.float64, "3-d")
    d = nd.linalg.diagonal(x, offset=-1)
    assert nd.shares_memory(d, x)
    assert_same(d, np.linalg.diagonal(a, offset=-1))
    d[...] = 0
    assert np.linalg.diagonal(x._host(0), offset=-1).tolist() == d.tolist()
    assert nd.linalg.diagonal(nd.readonly(x)).flags.writeable is False


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3), (0, 2, 2)])
def test_of_nothing(shape):
    x = nd.zeros(shape)
    assert nd.linalg.matrix_rank(x).tolist() == np.zeros(shape[:-2]).tolist()
    assert nd.linalg.pinv(x).shape == (*shape[:-2], shape[-1], shape[-2])
    assert nd.linalg.matrix_norm(x).shape == shape[:-2]
    assert nd.linalg.matrix_norm(x, ord=1).tolist() == nd.linalg.matrix_norm(x, ord=2).tolist()
    assert nd.linalg.vector_norm(x) == nd.linalg.vector_norm(x, ord=np.inf) == 0
    assert nd.linalg.trace(x).tolist() == np.zeros(shape[:-2]).tolist()


def test_tolerances_are_for_each_matrix():
    x = nd.array([np.diag([1.0, 0.1]), np.diag([1.0, 0.1])])
    for rtol in (nd.array([0.5, 0.01]), np.array([0.5, 0.01]), [0.5, 0.01]):
        assert nd.linalg.matrix_rank(x, rtol=rtol).tolist() == [1, 2]
        assert nd.linalg.pinv(x, rtol=rtol)[:, 1, 1].tolist() == [0, 10]


@pytest.mark.parametrize("name", [name.removeprefix("linalg.") for name in ROUTINES if name.startswith("linalg.")])
def test_of_what_is_not_computed(name):
    arguments = {"solve": lambda x: (x, x), "matrix_power": lambda x: (x, 2)}.get(name, lambda x: (x,))
    function = getattr(nd.linalg, name)
    for dtype in [np.dtype(np.float16), *EXTENDED[:2]]:
        with pytest.raises(TypeError, match="but linear algebra is computed in float32"):
            function(*arguments(nd.ones((2, 2), dtype)))
    with pytest.raises(ValueError, match="1 dimensions, but must have at least two"):
        function(*arguments(nd.ones(2)))


@pytest.mark.parametrize("name", sorted(name for name, row in ROUTINES.items() if not row.everywhere))
def test_what_gpus_do_not_compute_names_the_way(cuda, name):
    section, _, word = name.partition(".")
    x = nd.ones((2, 2), device=cuda)
    arguments = {"solve": (x, x), "matrix_power": (x, 2)}.get(word, (x,))
    with pytest.raises(
        nd.errors.DeviceError, match=rf"nbdlpack\.{name} is computed on the cpu alone.*to_device\('cpu'\)"
    ):
        getattr(getattr(nd, section), word)(*arguments)


@pytest.mark.parametrize(
    "name", "cross diagonal matmul matrix_norm matrix_transpose outer tensordot trace vecdot vector_norm".split()
)
def test_what_every_device_computes(device, name):
    a = matrices(np.float32)
    for call in CALLS[name]:
        if name == "matrix_norm" and not device.hosted and call.__defaults__[-1] in (2, -2, "nuc"):
            with pytest.raises(nd.errors.DeviceError, match="svdvals is computed on the cpu alone"):
                call(nd, nd.array(a))
            continue
        found = call(nd, nd.array(a))
        assert found.device == device
        close(found.to_device("cpu"), call(np, a))


ERRORS = {
    "cross": (lambda: nd.linalg.cross(nd.ones(2), nd.ones(3)), ValueError, "x1 has length 2 along axis -1, but must"),
    "cross broadcast": (lambda: nd.linalg.cross(nd.ones(3), nd.ones((2, 1))), ValueError, "x2 has length 1"),
    "outer": (lambda: nd.linalg.outer(nd.ones(2), nd.ones((2, 2))), ValueError, "x2 has 2 dimensions, but must"),
    "matrix_norm": (lambda: nd.linalg.matrix_norm(nd.eye(2), ord=3), ValueError, "ord is 3, but must be one of 'fro'"),
    "vector_norm": (lambda: nd.linalg.vector_norm(nd.eye(2), ord="fro"), TypeError, "ord is 'fro', but must be"),
    "qr": (lambda: nd.linalg.qr(nd.eye(2), mode="r"), ValueError, "mode is 'r', but must be 'reduced' or 'complete'"),
    "inv": (lambda: nd.linalg.inv(nd.zeros((2, 2))), np.linalg.LinAlgError, "Singular matrix"),
    "det": (lambda: nd.linalg.det(nd.zeros((2, 3))), np.linalg.LinAlgError, "must be square"),
    "matrix_power": (lambda: nd.linalg.matrix_power(nd.eye(2), 0.5), TypeError, "integer"),
    "norm": (lambda: nd.fft.fft(nd.ones(3), norm="none"), ValueError, "Invalid norm value none"),
    "n": (lambda: nd.fft.fft(nd.ones(3), n=0), ValueError, "Invalid number of FFT data points"),
    "axis": (lambda: nd.fft.fft(nd.ones(3), axis=1), nd.errors.AxisError, "axis 1 is out of bounds"),
    "s": (lambda: nd.fft.fftn(nd.ones((3, 3)), s=(2, 2)), ValueError, "and axes is None: name the axes"),
    "rfft": (lambda: nd.fft.rfft(nd.ones(3, nd.complex64)), TypeError, r"but rfft\(\) transforms real numbers"),
    "bfloat16": (lambda: nd.fft.fft(nd.ones(3, nd.bfloat16)), TypeError, "of which there are no transforms"),
    "fftfreq": (lambda: nd.fft.fftfreq(0), ValueError, "n is 0, but must be at least one"),
    "fftfreq dtype": (lambda: nd.fft.fftfreq(3, dtype=int), TypeError, "dtype is int64, but frequencies"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_is_wrong(case):
    call, kind, words = ERRORS[case]
    with pytest.raises(kind, match=words):
        call()


# -- Fourier transforms

ONE_AXIS = "fft ifft rfft irfft hfft ihfft".split()
SEVERAL = "fftn ifftn rfftn irfftn".split()


@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize("dtype", [*PRECISE, *[np.dtype(t) for t in "ie?"]], ids=str)
def test_transforms_of_one_axis(name, dtype):
    if dtype.kind == "c" and name in ("rfft", "ihfft"):
        return
    function, numpys = getattr(nd.fft, name), getattr(np.fft, name)
    a = values(dtype)
    x = nd.array(a)
    for b, y in ((a, x), (a[::-1, ::2], x[::-1, ::2])):
        for options in ({}, {"n": 5}, {"n": 9, "axis": 0}, {"norm": "ortho"}, {"norm": "forward", "axis": -2}):
            found = function(y, **options)
            assert_same(found, numpys(b, **options))
            assert found._state()[0] % 256 == 0


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("dtype", PRECISE, ids=str)
def test_transforms_of_several_axes(name, dtype):
    if dtype.kind == "c" and name == "rfftn":
        return
    function, numpys = getattr(nd.fft, name), getattr(np.fft, name)
    a = values(dtype, (3, 4, 5))
    x = nd.array(a)
    for options in (
        {},
        {"axes": (0, 2)},
        {"s": (2, 7), "axes": (-1, 0)},
        {"axes": [1], "norm": "ortho"},
        {"s": (-1,), "axes": (1,)},
    ):
        assert_same(function(x, **options), numpys(a, **options))


def test_transforms_of_nothing_raise():
    for name in ONE_AXIS:
        same_outcome(
            lambda name=name: getattr(nd.fft, name)(nd.ones(0)), lambda name=name: getattr(np.fft, name)(np.ones(0))
        )
        same_outcome(
            lambda name=name: getattr(nd.fft, name)(nd.ones((0, 3))),
            lambda name=name: getattr(np.fft, name)(np.ones((0, 3))),
        )


def test_frequencies(device):
    for n in (1, 4, 5):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(nd.fft, name)(n, d=0.5)
            assert found.device == device
            assert_same(found.to_device("cpu"), getattr(np.fft, name)(n, 0.5))
            single = getattr(nd.fft, name)(n, dtype=nd.float32, device="cpu")
            assert_same(single, getattr(np.fft, name)(n).astype(np.float32))


def test_shifts(device):
    a = values(np.float32, (4, 5))
    x = nd.array(a)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, -1, (1,), [0, 1]):
            found = getattr(nd.fft, name)(x, axes=axes)
            assert found.device == device
            assert_same(found.to_device("cpu"), getattr(np.fft, name)(a, axes))
    assert_same(nd.fft.ifftshift(nd.fft.fftshift(x)).to_device("cpu"), a)
