"""Products of matrices and tensors.  What else there is of linear algebra is in `nbdlpack.linalg`."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import engine, layout
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Any, x2: Any, /) -> ndarray:
    """Return the matrix product.  ``x1 @ x2`` does the same.

    Parameters
    ----------
    x1 : array_like
        Matrices in the last two axes, of shape (..., m, k); one dimension is a row.
    x2 : array_like
        Matrices of shape (..., k, n); one dimension is a column.

    Returns
    -------
    ndarray
        Of shape (..., m, n), the leading axes broadcast together, without the axes that a row or a column has not; of
        the dtype that both promote to.  New, on the same device.  Integers wrap around, bfloat16 and float8 numbers are
        added up as float32.

    Raises
    ------
    ValueError
        If one has no dimensions, or the shapes do not fit.
    TypeError
        If the dtypes have none in common.
    DeviceError
        If the arrays are on different devices.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.matmul(nd.array([[1, 2], [3, 4]]), nd.array([1, 1]))
    array([3, 7])
    """
    operands = (x1, x2) if type(x1) is ndarray is type(x2) else engine.promoted((x1, x2))
    result: ndarray = engine.compute(ndarray, "matmul", operands)
    return result


def matrix_transpose(x: Any, /) -> ndarray:
    """Return the array with its last two axes exchanged.

    Parameters
    ----------
    x : array_like
        An array of at least two dimensions.

    Returns
    -------
    ndarray
        A view: shares memory with `x`.

    Raises
    ------
    ValueError
        If it has fewer than two dimensions.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.matrix_transpose(nd.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    return asarray(x).mT


def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> ndarray:
    """Return the sums of products over axes of two arrays.

    Parameters
    ----------
    x1, x2 : array_like
        The arrays.
    axes : int or tuple of two sequences of int
        How many axes, the last of `x1` and the first of `x2`; or which axes of the one and, in the same order, which of
        the other.

    Returns
    -------
    ndarray
        With the axes of `x1` that are left and then those of `x2`, of the dtype that both promote to; new, on the same
        device.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If the lengths of the axes differ, or their numbers, or one is named twice.
    DeviceError
        If the arrays are on different devices.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.tensordot(nd.ones((2, 3, 4)), nd.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    found = [x if hasattr(x, "shape") else np.asarray(x) for x in engine.promoted((x1, x2))]
    first, second = [x.ndim for x in found]
    if isinstance(axes, (tuple, list)):
        names = ["axes[0]", "axes[1]"]
        given = [layout.as_integers(part, name) for part, name in zip(axes, names, strict=True)]
    else:
        n = index(axes)
        if not 0 <= n <= min(first, second):
            msg = f"axes is {n}, but must be from 0 to {min(first, second)}: the arrays have {first} and {second} axes"
            raise ValueError(msg)
        given = [tuple(range(first - n, first)), tuple(range(n))]
    ndims = first, second
    chosen = tuple([layout.normalize_axes(part, ndim, "axes") for part, ndim in zip(given, ndims, strict=True)])
    lengths = [tuple([x.shape[i] for i in part]) for x, part in zip(found, chosen, strict=True)]
    if lengths[0] != lengths[1]:
        msg = f"axes {given[0]} of x1 have lengths {lengths[0]}, but axes {given[1]} of x2 have {lengths[1]}"
        raise ValueError(msg)
    result: ndarray = engine.compute(ndarray, "tensordot", tuple(found), (chosen,))
    return result


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> ndarray:
    """Return the dot products of vectors along an axis: the sums of products, the first factor conjugate.

    Parameters
    ----------
    x1, x2 : array_like
        The vectors.
    axis : int
        Along which axis of each they are, counted from the end, -1 or less; the other axes are broadcast together.

    Returns
    -------
    ndarray
        The broadcast shape without the axis, in the dtype that both promote to; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If the lengths of the vectors differ, or the shapes cannot be broadcast together.
    DeviceError
        If the arrays are on different devices.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.vecdot(nd.array([1, 2j]), nd.array([3, 1j]))
    array(5.+0.j)
    """
    result: ndarray = engine.compute(ndarray, "vecdot", engine.promoted((x1, x2)), (axis,))
    return result
