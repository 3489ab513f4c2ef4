"""What is neither elementwise nor a reduction: how NumPy computes it, in one table.

A routine is given NumPy arrays for reading, and `new`, which makes its results: an array on the device, and the same as
a NumPy array for writing.  So what NumPy can compute into an array is computed into the result, and the rest is copied
there.  A device that has another way for a routine says so by its name in `Device.routines`.

To add a routine: a function here, a row in the table, and the public function that calls `nbdlpack.engine.compute`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from nbdlpack.dtypes import BOOL, EXTENDED, FLOAT16, FLOAT32, INT64, ROWS, UINT8, UINT64, canonical

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    New: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], tuple[Any, Array]]

_LARGE: Final = 1 << 13
"""From how many elements on it pays to prepare a computation that has its result in place."""


def kept(new: New, result: Any) -> Any:
    """Return an array with the elements of a result that NumPy has made in memory of its own."""
    a = result if type(result) is np.ndarray else np.asarray(result)
    dtype = a.dtype
    out, target = new(a.shape, dtype if dtype in ROWS else canonical(dtype))
    target[...] = a
    return out


def _wide(a: Any) -> Any:
    """Return an operand as NumPy computes with it: what is of no dtype of its own as float32, which loses nothing."""
    return a.astype(FLOAT32) if getattr(a, "dtype", None) in EXTENDED else a


# -- choosing elements


def where(new: New, condition: Any, x1: Any, x2: Any) -> Any:
    """Choose from two operands.

    Of many elements the bits are exchanged where the condition is true: no choice is made, so none can be foretold
    wrongly, and the result is in place.
    """
    if getattr(condition, "size", 1) >= _LARGE:
        dtype = canonical(np.result_type(x1, x2))
        if dtype.itemsize <= UINT64.itemsize:
            word = np.dtype(f"u{dtype.itemsize}")
            mask = condition if condition.dtype == BOOL else condition.astype(BOOL)
            first, second = [np.asarray(x, dtype).view(word) for x in (x1, x2)]
            out, target = new(np.broadcast_shapes(mask.shape, first.shape, second.shape), dtype)
            bits = target.view(word)
            np.bitwise_xor(first, second, out=bits)
            np.multiply(bits, mask.view(UINT8), out=bits)
            np.bitwise_xor(bits, second, out=bits)
            return out
    return kept(new, np.where(condition, x1, x2))


def take(new: New, a: Array, indices: Array, axis: int) -> Any:
    """Take the elements at indices along an axis."""
    n = a.shape[axis]
    if indices.dtype.kind == "u":
        indices = indices.astype(INT64)
    if n and a.size // n * indices.size >= _LARGE and indices.dtype == INT64 and indices.view(UINT64).max() < n:
        # NumPy's own check of indices makes a copy of the result.
        out, target = new(a.shape[:axis] + indices.shape + a.shape[axis + 1 :], a.dtype)
        a.take(indices, axis, target, "clip")
        return out
    return kept(new, a.take(indices, axis))


def repeat(new: New, a: Array, repeats: Any, axis: int | None) -> Any:
    """Repeat each element as often as an array says."""
    return kept(new, np.repeat(a, np.asarray(repeats).astype(INT64), axis))


def concat(new: New, *arguments: Any) -> Any:
    """Put arrays one after the other: along an axis, into a shape, in a dtype, which are the last arguments."""
    *arrays, axis, shape, dtype = arguments
    out, target = new(shape, dtype)
    np.concatenate(arrays, axis, target, casting="unsafe")
    return out


def count_nonzero(new: New, a: Array, axis: Any, keepdims: bool) -> Any:
    """Count what is not zero along axes."""
    # NumPy itself counts bools alone fast.
    return kept(new, np.count_nonzero(a if a.dtype == BOOL else a.astype(BOOL), axis, keepdims=keepdims))


# -- sorting and searching


def _reverse(a: Array, out: Array | None = None) -> Any:
    """Return values that are in the opposite order, of which the same function makes the ones there were."""
    return np.negative(a, out=out) if a.dtype.kind in "fc" else np.invert(a, out=out)


def _shows_stability(a: Array) -> bool:
    """Return whether values that are equal, or NaN, may differ: then it is seen whether they have changed places."""
    return a.dtype.kind in "fc" and bool((np.isnan(a) | ((a == 0) & np.signbit(a.real))).any())


def sort(new: New, a: Array, axis: int, descending: bool, stable: bool) -> Any:
    """Sort along an axis, in place in the result; NaN is last in both directions.

    NumPy's way for a long float16 that need not be stable gives a wrong order where there are NaNs, on processors with
    AVX-512 for 16-bit integers and none for float16 (seen in 2.4.6 and 2.5.5).
    """
    out, target = new(a.shape, a.dtype)
    # What is short is sorted stably in any case, and NumPy's other way is much faster for what is long.
    values = _wide(a)
    stable = stable and (a.size < _LARGE >> 5 or a.dtype.kind == "c" or _shows_stability(values))
    if a.dtype == FLOAT16 and not stable:
        values = a.astype(FLOAT32)
    wide = values is not a
    if not wide:
        values = target
        values[...] = a
    if descending:
        _reverse(values, values)
    values.sort(axis, "stable" if stable else None)
    if descending:
        _reverse(values, values)
    if wide:
        target[...] = values
    return out


def argsort(new: New, a: Array, axis: int, descending: bool, stable: bool) -> Any:
    """Return the positions that sort along an axis."""
    values = _wide(a)
    if descending:
        values = _reverse(values)
    return kept(new, values.argsort(axis, "stable" if stable else None))


def searchsorted(new: New, a: Array, values: Any, sorter: Any, side: Any) -> Any:
    """Return before which elements of a sorted array values belong."""
    a = _wide(a)
    if type(values) is float:
        values = np.asarray(values, np.result_type(a, values))
    sorter = None if sorter is None else sorter.astype(INT64, copy=False)
    return kept(new, np.searchsorted(a, _wide(values), side, sorter))


def isin(new: New, x1: Any, x2: Any, invert: bool) -> Any:
    """Return which elements are among others."""
    # NumPy sorts both, and not all ways in which it sorts a float16 are right: see `sort`.
    x1, x2 = [x.astype(FLOAT32) if getattr(x, "dtype", None) == FLOAT16 else _wide(x) for x in (x1, x2)]
    return kept(new, np.isin(x1, x2, invert=invert))


def unique(new: New, a: Array, positions: bool, inverse: bool, counts: bool) -> tuple[Any, ...]:
    """Return the values that differ, in order, and if asked for where each is first, which each one is, how many."""
    flat = a.ravel()
    keys = _wide(flat)
    order = keys.argsort(kind="stable")
    keys = keys[order]
    first = np.ones(keys.shape, BOOL)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    found = [kept(new, flat[order[first]])]
    if positions:
        found.append(kept(new, order[first]))
    if inverse:
        out, target = new(a.shape, INT64)
        target.reshape(-1)[order] = np.cumsum(first) - 1
        found.append(out)
    if counts:
        found.append(kept(new, np.diff(np.flatnonzero(first), append=keys.size)))
    return tuple(found)


# -- sums and products


def _cumulative(ufunc: np.ufunc) -> Callable[..., Any]:
    def routine(new: New, a: Array, axis: int, dtype: np.dtype[Any], include_initial: bool) -> Any:
        extra = int(include_initial)
        shape = (*a.shape[:axis], a.shape[axis] + extra, *a.shape[axis + 1 :])
        out, target = new(shape, dtype)
        before: tuple[Any, ...] = (slice(None),) * axis
        if extra:
            target[(*before, 0)] = ufunc.identity
        target = target[(*before, slice(extra, None))]
        if dtype in EXTENDED or a.dtype in EXTENDED:
            # Added up in a type as narrow as these, a sum stops growing as soon as it is large: a bfloat16 at 256.
            target[...] = ufunc.accumulate(a, axis, FLOAT32 if dtype in EXTENDED else dtype)
        else:
            ufunc.accumulate(a, axis, dtype, target)
        return out

    return routine


def _product(new: New, shape: tuple[int, ...], a: Array, b: Array, view: tuple[int, ...] | None = None) -> Any:
    """Return the matrix product of two arrays, computed as one of some shape."""
    dtype = a.dtype if a.dtype == b.dtype else canonical(np.result_type(a, b))
    out, target = new(shape, dtype)
    if dtype in EXTENDED:
        result = np.matmul(_wide(a), _wide(b))
        target[...] = result if view is None else result.reshape(shape)
    else:
        np.matmul(a, b, out=target if view is None else target.reshape(view))
    return out


def matmul(new: New, a: Any, b: Any) -> Any:
    """Return the matrix product."""
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim == b.ndim == 2:
        return _product(new, (a.shape[0], b.shape[1]), a, b)
    if not (a.ndim and b.ndim):
        return kept(new, np.matmul(a, b))  # raises
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    return _product(new, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + rows + columns, a, b)


def vecdot(new: New, a: Any, b: Any, axis: int = -1) -> Any:
    """Return the dot products of vectors along an axis."""
    dtype = np.result_type(a, b)
    product: Any = np.vecdot
    result = product(_wide(a), _wide(b), axis=axis)
    return kept(new, result if result.dtype == dtype else result.astype(dtype))


def tensordot(new: New, a: Any, b: Any, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """Return the sums of products over axes, as one product of two matrices."""
    a, b = np.asarray(a), np.asarray(b)
    left, right = [[i for i in range(x.ndim) if i not in gone] for x, gone in zip((a, b), axes, strict=True)]
    shapes = [a.shape[i] for i in left], [b.shape[i] for i in right]
    k = prod([a.shape[i] for i in axes[0]])
    m, n = [prod(shape) for shape in shapes]
    first = a.transpose([*left, *axes[0]]).reshape(m, k)
    second = b.transpose([*axes[1], *right]).reshape(k, n)
    return _product(new, (*shapes[0], *shapes[1]), first, second, (m, n))


# -- linear algebra and Fourier transforms


def _numpys(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the routine that is a function of NumPy's, with the same arguments."""

    def routine(new: New, *arguments: Any) -> Any:
        result = function(*arguments)
        return tuple([kept(new, part) for part in result]) if isinstance(result, tuple) else kept(new, result)

    return routine


def _complex(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results are complex also where NumPy's are all real."""

    def convert(a: Any) -> Any:
        return a.astype(np.result_type(a, np.complex64), copy=False)

    def converting(a: Array) -> Any:
        result = function(a)
        return tuple([convert(part) for part in result]) if isinstance(result, tuple) else convert(result)

    return converting


def _tolerant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a matrix and a relative tolerance."""

    def computing(a: Array, rtol: Any) -> Any:
        a = a if a.dtype.kind in "fc" else a.astype(float)
        return function(a, rtol=rtol)

    return computing


def _matrix_rank(a: Array, *, rtol: Any) -> Any:
    return np.zeros(a.shape[:-2], INT64) if 0 in a.shape[-2:] else np.linalg.matrix_rank(a, rtol=rtol)


_LINALG: Final[dict[str, Callable[..., Any]]] = {
    "cholesky": lambda a, upper: np.linalg.cholesky(a, upper=upper),
    "det": np.linalg.det,
    "eig": _complex(np.linalg.eig),
    "eigh": np.linalg.eigh,
    "eigvals": _complex(np.linalg.eigvals),
    "eigvalsh": np.linalg.eigvalsh,
    "inv": np.linalg.inv,
    "matrix_power": np.linalg.matrix_power,
    "matrix_rank": _tolerant(_matrix_rank),
    "pinv": _tolerant(np.linalg.pinv),
    "qr": np.linalg.qr,
    "slogdet": np.linalg.slogdet,
    "solve": np.linalg.solve,
    "svd": np.linalg.svd,
    "svdvals": np.linalg.svdvals,
}
_FFT: Final[dict[str, tuple[Callable[[int], int], Callable[[int], int], str]]] = {
    "fft": (lambda m: m, lambda n: n, "c"),
    "ifft": (lambda m: m, lambda n: n, "c"),
    "rfft": (lambda m: m, lambda n: n // 2 + 1, "c"),
    "irfft": (lambda m: 2 * (m - 1), lambda n: n, "f"),
    "hfft": (lambda m: 2 * (m - 1), lambda n: n, "f"),
    "ihfft": (lambda m: m, lambda n: n // 2 + 1, "c"),
}
"""The transforms of one axis: the `n` that is meant if none is given, how long the result is for one, and its kind."""
_FFTN: Final = ("fftn", "ifftn", "rfftn", "irfftn")
_PRECISE: Final = frozenset("fdFD")
"""The letters of the dtypes whose transforms have the same precision."""


def _transform_several(name: str) -> Callable[..., Any]:
    """Return the routine that transforms several axes."""
    return lambda new, a, s, axes, norm: kept(new, getattr(np.fft, name)(a, s, axes, norm))


def _transform(name: str) -> Callable[..., Any]:
    """Return the routine that transforms one axis."""
    meant, length, kind = _FFT[name]

    def routine(new: New, a: Array, n: int | None, axis: int, norm: str) -> Any:
        function = getattr(np.fft, name)  # imports it, when it is first needed
        if a.dtype.char not in _PRECISE:
            return kept(new, function(a, n, axis, norm))
        size = length(meant(a.shape[axis]) if n is None else n)
        axis %= a.ndim
        bits = a.dtype.itemsize * (1 if a.dtype.kind == "c" else 2)
        dtype = canonical(f"{kind}{bits if kind == 'c' else bits // 2}")
        out, target = new((*a.shape[:axis], max(size, 0), *a.shape[axis + 1 :]), dtype)
        result = function(a, n, axis, norm, target)
        if result is not target:
            target[...] = result
        return out

    return routine


class Routine(NamedTuple):
    """One routine."""

    compute: Callable[..., Any]
    """Called with `new`, the operands and the options; returns an array or a tuple of arrays."""
    everywhere: bool = True
    """Whether a device that has no way of its own leaves it to the host; if not, it is an error there."""


ROUTINES: Final[dict[str, Routine]] = {
    "argsort": Routine(argsort),
    "concat": Routine(concat),
    "count_nonzero": Routine(count_nonzero),
    "cumulative_prod": Routine(_cumulative(np.multiply)),
    "cumulative_sum": Routine(_cumulative(np.add)),
    "isin": Routine(isin),
    "matmul": Routine(matmul),
    "repeat": Routine(repeat),
    "searchsorted": Routine(searchsorted),
    "sort": Routine(sort),
    "take": Routine(take),
    "tensordot": Routine(tensordot),
    "unique": Routine(unique),
    "vecdot": Routine(vecdot),
    "where": Routine(where),
}
ROUTINES.update({f"linalg.{name}": Routine(_numpys(f), everywhere=False) for name, f in _LINALG.items()})
ROUTINES.update({f"fft.{name}": Routine(_transform(name), everywhere=False) for name in _FFT})
ROUTINES.update({f"fft.{name}": Routine(_transform_several(name), everywhere=False) for name in _FFTN})
