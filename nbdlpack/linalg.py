"""Linear algebra: the extension of the array API standard.

Matrices are the last two axes of arrays, and leading axes are of stacks of them.  Products, norms, traces and diagonals
are computed on every device, decompositions and what is made of them on the cpu alone, by NumPy.  These take float32,
float64 and complex numbers; integers become float64.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from nbdlpack import dtypes, engine, layout
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray
from nbdlpack.functions.linear_algebra import matmul, matrix_transpose, tensordot, vecdot
from nbdlpack.functions.manipulation import stack

if TYPE_CHECKING:
    from nbdlpack.dtypes import DTypeLike
    from nbdlpack.functions.statistical import Axis

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class Eigen(NamedTuple):
    """What `eig` and `eigh` return."""

    eigenvalues: ndarray
    eigenvectors: ndarray


class QR(NamedTuple):
    """What `qr` returns."""

    Q: ndarray
    R: ndarray


class SLogDet(NamedTuple):
    """What `slogdet` returns."""

    sign: ndarray
    logabsdet: ndarray


class SVD(NamedTuple):
    """What `svd` returns."""

    U: ndarray
    S: ndarray
    Vh: ndarray


def _matrices(x: Any, name: str = "x") -> ndarray:
    """Return an argument that has matrices.  Raises ValueError if it has none."""
    found = asarray(x)
    if found.ndim < 2:
        msg = f"{name} has {found.ndim} dimensions, but must have at least two: its last two are those of matrices"
        raise ValueError(msg)
    return found


def _computed(x: Any, name: str = "x", *, vectors: bool = False) -> ndarray:
    """Return an argument that NumPy's decompositions take.  Raises TypeError if they do not."""
    found = asarray(x) if vectors else _matrices(x, name)
    if found.dtype in dtypes.EXTENDED or found.dtype == np.float16:
        msg = (
            f"{name} is of {found.dtype}, but linear algebra is computed in float32, float64, complex64 and "
            f"complex128: convert it, {name}.astype(nbdlpack.float32)"
        )
        raise TypeError(msg)
    return found


def _call(name: str, operands: tuple[Any, ...], *options: Any) -> Any:
    return engine.compute(ndarray, f"linalg.{name}", operands, options)


# -- on every device


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> ndarray:
    """Return the cross products of vectors of three numbers.

    Parameters
    ----------
    x1, x2 : array_like
        The vectors.
    axis : int
        Along which axis of each they are, counted from the end, -1 or less; the other axes are broadcast together.

    Returns
    -------
    ndarray
        The vectors along the same axis, in the dtype that both promote to; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If the length of an axis is not 3, or the shapes cannot be broadcast together.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.cross(nd.array([1, 0, 0]), nd.array([0, 1, 0]))
    array([0, 0, 1])
    """
    parts = []
    for name, x in (("x1", asarray(x1)), ("x2", asarray(x2))):
        place = layout.normalize_axis(axis, x.ndim)
        if x.shape[place] != 3:
            msg = f"{name} has length {x.shape[place]} along axis {axis}, but must have 3 for a cross product"
            raise ValueError(msg)
        parts.append([x[(slice(None),) * place + (i,)] for i in range(3)])
    a, b = parts
    return stack([a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> ndarray:
    """Return the diagonals of matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., m, n).
    offset : int
        How far the diagonal is above the main one.

    Returns
    -------
    ndarray
        The diagonals along the last axis.  A view, that can be written to if the array can, unlike NumPy's: shares
        memory with `x`.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.diagonal(nd.array([[1, 2, 3], [4, 5, 6]]), offset=1)
    array([2, 6])
    """
    found, offset = _matrices(x), index(offset)
    m, n = found.shape[-2:]
    part = found._slice(found.ndim - 2, min(max(-offset, 0), m), m)._slice(found.ndim - 1, min(max(offset, 0), n), n)
    (*shape, m, n), (*steps, row, column) = part.shape, part._steps
    return part._restepped((*shape, min(m, n)), (*steps, row + column))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro") -> ndarray:
    """Return the norms of matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., m, n).
    keepdims : bool
        Whether their axes stay, with length one.
    ord : {'fro', 'nuc', 1, 2, inf, -1, -2, -inf}
        'fro', or None: the root of the sum of squares.  1 and inf: the greatest sum of a column's or a row's absolute
        values; 2: the greatest singular value; negative ones: the least.  'nuc': the sum of the singular values.
        Singular values are computed on the cpu alone.

    Returns
    -------
    ndarray
        Of shape (...), in a real floating dtype; new, on the same device.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions, or there is no such norm.
    DeviceError
        If singular values are needed, and the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.matrix_norm(nd.array([[3.0, 0.0], [0.0, 4.0]]))
    array(5.)
    """
    found = _floating(_matrices(x))
    if ord is None or ord == "fro":
        return _root(_squares(found).sum((-2, -1), keepdims=keepdims))
    if ord in _SUMS:
        axis, greatest = _SUMS[ord]
        sums = abs(found).sum(axis, keepdims=True)
        norms = sums.max((-2, -1), initial=0) if greatest else sums.min((-2, -1))
    elif ord in _SINGULAR:
        reduction = _SINGULAR[ord]
        norms = getattr(svdvals(found), reduction)(-1, **({"initial": 0} if reduction == "max" else {}))
    else:
        msg = f"ord is {ord!r}, but must be one of 'fro', 'nuc', {', '.join(map(str, _SUMS))}, 2, -2"
        raise ValueError(msg)
    return norms.reshape((*norms.shape, 1, 1)) if keepdims else norms


_SUMS: dict[Any, tuple[int, bool]] = {1: (-2, True), -1: (-2, False), np.inf: (-1, True), -np.inf: (-1, False)}
"""Norms that are sums of absolute values: along which axis, and whether the greatest counts or the least."""
_SINGULAR: dict[Any, str] = {2: "max", -2: "min", "nuc": "sum"}
"""Norms that are made of singular values, and how."""


def _floating(x: ndarray) -> ndarray:
    """Return an array in a floating dtype."""
    return x if x.dtype not in dtypes.KINDS["integral"] | dtypes.KINDS["bool"] else x.astype(dtypes.FLOAT64)


def _squares(x: ndarray) -> Any:
    """Return the squares of absolute values."""
    return np.square(x.real) + np.square(x.imag) if x.dtype.kind == "c" else np.square(x)


def _root(x: Any) -> ndarray:
    result: ndarray = np.sqrt(x)
    return result


def vector_norm(x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> ndarray:
    """Return the norms of vectors.

    Parameters
    ----------
    x : array_like
        The vectors.
    axis : int or tuple of int, optional
        Along which axes they are; all elements are one vector if not given.
    keepdims : bool
        Whether these axes stay, with length one.
    ord : float
        The p of the p-norm, ``sum(abs(x) ** p) ** (1 / p)``; inf for the greatest absolute value, -inf for the least, 0
        for the number of elements that are not zero.

    Returns
    -------
    ndarray
        In a real floating dtype; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If the least of no elements is asked for.
    TypeError
        If `ord` is no number.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.vector_norm(nd.array([3.0, 4.0])), nd.linalg.vector_norm(nd.array([3.0, 4.0]), ord=1)
    (array(5.), array(7.))
    """
    found = _floating(asarray(x))
    if not isinstance(ord, (int, float, np.integer, np.floating)):
        msg = f"ord is {ord!r}, but must be a number"
        raise TypeError(msg)
    if ord == 2:
        return _root(_squares(found).sum(axis, keepdims=keepdims))
    sizes = abs(found)
    if ord == np.inf:
        return sizes.max(axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return sizes.min(axis, keepdims=keepdims)
    if ord == 0:
        return (sizes != 0).sum(axis, sizes.dtype, keepdims=keepdims)
    if ord == 1:
        return sizes.sum(axis, keepdims=keepdims)
    power = float(ord)
    norms: ndarray = (sizes**power).sum(axis, keepdims=keepdims) ** (1 / power)
    return norms


def outer(x1: Any, x2: Any, /) -> ndarray:
    """Return the products of each number of a vector with each of another one.

    Parameters
    ----------
    x1, x2 : array_like
        The vectors: one-dimensional arrays, of lengths m and n.

    Returns
    -------
    ndarray
        Of shape (m, n), in the dtype that both promote to; new, on the same device.

    Raises
    ------
    ValueError
        If an array has not one dimension, where NumPy would flatten it.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.outer(nd.array([1, 2]), nd.array([3, 4]))
    array([[3, 4],
           [6, 8]])
    """
    a, b = asarray(x1), asarray(x2)
    for name, x in (("x1", a), ("x2", b)):
        if x.ndim != 1:
            msg = f"{name} has {x.ndim} dimensions, but must have one: pass nbdlpack.ravel({name})"
            raise ValueError(msg)
    result: ndarray = engine.elementwise(ndarray, np.multiply, (a._restepped((a.size, 1), (*a._steps, 0)), b))
    return result


def trace(x: Any, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> ndarray:
    """Return the sums of the diagonals of matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., m, n).
    offset : int
        How far the diagonal is above the main one.
    dtype : dtype, optional
        The dtype to compute in, and of the result.

    Returns
    -------
    ndarray
        Of shape (...), in the dtype that `nbdlpack.sum` has; new, on the same device.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.trace(nd.array([[1, 2], [3, 4]]))
    array(5)
    """
    return diagonal(x, offset=offset).sum(-1, dtype)


# -- on the cpu alone


def cholesky(x: Any, /, *, upper: bool = False) -> ndarray:
    """Return the Cholesky factors of positive-definite matrices.

    Parameters
    ----------
    x : array_like
        Symmetric or Hermitian matrices, of shape (..., n, n), of which only one triangle is read.
    upper : bool
        Whether the factor is the upper triangle, and the conjugate transpose comes first in the product.

    Returns
    -------
    ndarray
        The lower triangles L with ``L @ conj(L.mT) == x``, or the upper ones; new.

    Raises
    ------
    ValueError
        If the matrices are not square; a `numpy.linalg.LinAlgError`, also if they are not positive-definite.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.cholesky(nd.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    result: ndarray = _call("cholesky", (_computed(x),), bool(upper))
    return result


def det(x: Any, /) -> ndarray:
    """Return the determinants of square matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., n, n).

    Returns
    -------
    ndarray
        Of shape (...), in the floating dtype of `x`; new.

    Raises
    ------
    ValueError
        If the matrices are not square.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.det(nd.array([[2.0, 0.0], [0.0, 3.0]]))
    array(6.)
    """
    result: ndarray = _call("det", (_computed(x),))
    return result


def eig(x: Any, /) -> Eigen:
    """Return the eigenvalues and eigenvectors of square matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., n, n).

    Returns
    -------
    tuple of ndarray
        With names: `eigenvalues`, of shape (..., n), and `eigenvectors`, the columns of matrices of shape (..., n, n).
        Both are new and, as the standard has it, complex also where NumPy's are real.

    Raises
    ------
    ValueError
        If the matrices are not square, or have elements that are not finite.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.eig(nd.array([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    array([2.+0.j, 3.+0.j])
    """
    return Eigen(*_call("eig", (_computed(x),)))


def eigh(x: Any, /) -> Eigen:
    """Return the eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., n, n), of which the lower triangle is read.

    Returns
    -------
    tuple of ndarray
        With names: `eigenvalues`, of shape (..., n), real and in ascending order, and `eigenvectors`, the columns of
        orthogonal matrices of shape (..., n, n).  Both are new.

    Raises
    ------
    ValueError
        If the matrices are not square.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.eigh(nd.array([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    array([2., 3.])
    """
    return Eigen(*_call("eigh", (_computed(x),)))


def eigvals(x: Any, /) -> ndarray:
    """Return the eigenvalues of square matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., n, n).

    Returns
    -------
    ndarray
        Of shape (..., n), new and, as the standard has it, complex also where NumPy's are real.

    Raises
    ------
    ValueError
        If the matrices are not square, or have elements that are not finite.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.eigvals(nd.array([[2.0, 0.0], [0.0, 3.0]]))
    array([2.+0.j, 3.+0.j])
    """
    result: ndarray = _call("eigvals", (_computed(x),))
    return result


def eigvalsh(x: Any, /) -> ndarray:
    """Return the eigenvalues of symmetric or Hermitian matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., n, n), of which the lower triangle is read.

    Returns
    -------
    ndarray
        Of shape (..., n), real, in ascending order; new.

    Raises
    ------
    ValueError
        If the matrices are not square.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.eigvalsh(nd.array([[2.0, 0.0], [0.0, 3.0]]))
    array([2., 3.])
    """
    result: ndarray = _call("eigvalsh", (_computed(x),))
    return result


def inv(x: Any, /) -> ndarray:
    """Return the inverses of square matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., n, n).

    Returns
    -------
    ndarray
        Of the same shape, in the floating dtype of `x`; new.

    Raises
    ------
    ValueError
        If the matrices are not square; a `numpy.linalg.LinAlgError`, also if one has no inverse.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.inv(nd.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    result: ndarray = _call("inv", (_computed(x),))
    return result


def matrix_power(x: Any, n: int, /) -> ndarray:
    """Return square matrices to an integer power.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., n, n).
    n : int
        The power; a negative one is that of the inverse.

    Returns
    -------
    ndarray
        Of the same shape and dtype, for a negative power in a floating one; new.

    Raises
    ------
    ValueError
        If the matrices are not square, or one has no inverse and needs it.
    TypeError
        If the dtype is none that it is computed in, or `n` is no integer.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.matrix_power(nd.array([[1.0, 1.0], [0.0, 1.0]]), 3)
    array([[1., 3.],
           [0., 1.]])
    """
    result: ndarray = _call("matrix_power", (_computed(x),), index(n))
    return result


def matrix_rank(x: Any, /, *, rtol: Any = None) -> ndarray:
    """Return the ranks of matrices: how many singular values are not zero.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., m, n).
    rtol : float or array_like, optional
        Up to what part of the greatest one a singular value is taken for zero; ``max(m, n) * eps`` if not given.

    Returns
    -------
    ndarray
        Of shape (...), of int64; new.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.matrix_rank(nd.ones((3, 3)))
    array(1)
    """
    result: ndarray = _call("matrix_rank", (_computed(x), None if rtol is None else engine.operand(rtol)))
    return result


def pinv(x: Any, /, *, rtol: Any = None) -> ndarray:
    """Return the pseudo-inverses of matrices, those of Moore and Penrose.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., m, n).
    rtol : float or array_like, optional
        Up to what part of the greatest one a singular value is taken for zero; ``max(m, n) * eps`` if not given, as the
        standard has it.

    Returns
    -------
    ndarray
        Of shape (..., n, m), in the floating dtype of `x`; new.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.pinv(nd.array([[2.0, 0.0], [0.0, 0.0]]))
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    result: ndarray = _call("pinv", (_computed(x), None if rtol is None else engine.operand(rtol)))
    return result


def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """Return the QR decompositions of matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., m, n).
    mode : {'reduced', 'complete'}
        How many columns Q has: as many as the shorter side of a matrix, or m.

    Returns
    -------
    tuple of ndarray
        With names: `Q`, whose columns are orthogonal and of length one, and `R`, upper triangles, with ``Q @ R == x``.
        Both are new.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions, or there is no such mode.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> found = nd.linalg.qr(nd.ones((3, 2)))
    >>> found.Q.shape, found.R.shape
    ((3, 2), (2, 2))
    """
    if mode not in ("reduced", "complete"):
        msg = f"mode is {mode!r}, but must be 'reduced' or 'complete'"
        raise ValueError(msg)
    return QR(*_call("qr", (_computed(x),), mode))


def slogdet(x: Any, /) -> SLogDet:
    """Return the signs of determinants, and the logarithms of their absolute values.

    Parameters
    ----------
    x : array_like
        The square matrices, of shape (..., n, n).

    Returns
    -------
    tuple of ndarray
        With names: `sign`, of shape (...), and `logabsdet`, real, with ``det(x) == sign * exp(logabsdet)``.  Both are
        new.

    Raises
    ------
    ValueError
        If the matrices are not square.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.slogdet(nd.array([[-1.0, 0.0], [0.0, 1.0]])).sign
    array(-1.)
    """
    return SLogDet(*_call("slogdet", (_computed(x),)))


def solve(x1: Any, x2: Any, /) -> ndarray:
    """Return the solutions x of the equations ``x1 @ x == x2``.

    Parameters
    ----------
    x1 : array_like
        The square matrices of coefficients, of shape (..., n, n).
    x2 : array_like
        The right sides: of shape (n,), or the columns of matrices of shape (..., n, k).

    Returns
    -------
    ndarray
        Of shape (..., n) or (..., n, k), the leading axes broadcast together; new.

    Raises
    ------
    ValueError
        If the shapes do not fit; a `numpy.linalg.LinAlgError`, also if there is not exactly one solution.
    TypeError
        If a dtype is none that it is computed in.
    DeviceError
        If the arrays are not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.solve(nd.array([[2.0, 0.0], [0.0, 4.0]]), nd.array([1.0, 1.0]))
    array([0.5 , 0.25])
    """
    result: ndarray = _call("solve", (_computed(x1, "x1"), _computed(x2, "x2", vectors=True)))
    return result


def svd(x: Any, /, *, full_matrices: bool = True) -> SVD:
    """Return the singular value decompositions of matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., m, n).
    full_matrices : bool
        Whether `U` and `Vh` are square, or have as many columns and rows as there are singular values.

    Returns
    -------
    tuple of ndarray
        With names: `U`, whose columns are orthogonal and of length one; `S`, the singular values, real and in
        descending order, of shape (..., min(m, n)); `Vh`, whose rows are orthogonal; with ``x == (U * S) @ Vh`` for
        ``full_matrices=False``.  All are new.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.svd(nd.array([[3.0, 0.0], [0.0, 4.0]])).S
    array([4., 3.])
    """
    return SVD(*_call("svd", (_computed(x),), bool(full_matrices)))


def svdvals(x: Any, /) -> ndarray:
    """Return the singular values of matrices.

    Parameters
    ----------
    x : array_like
        The matrices, of shape (..., m, n).

    Returns
    -------
    ndarray
        Of shape (..., min(m, n)), real, in descending order; new.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions.
    TypeError
        If the dtype is none that it is computed in.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linalg.svdvals(nd.array([[3.0, 0.0], [0.0, 4.0]]))
    array([4., 3.])
    """
    result: ndarray = _call("svdvals", (_computed(x),))
    return result
