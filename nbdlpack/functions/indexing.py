"""Functions that take elements at positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdlpack import devices, dtypes, engine, layout
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray

__all__ = ["take", "take_along_axis"]


def _positions(indices: Any) -> Any:
    """Return positions that were given, as an operand of integers; an empty sequence is one of those."""
    found = indices if isinstance(indices, ndarray) else np.asarray(engine.operand(indices))
    if found.dtype.kind not in "iu":
        if found.size == 0 and isinstance(indices, (list, tuple)):
            return found.astype(dtypes.INT64)
        msg = f"indices have dtype {found.dtype}, but must be integers: use x[mask] for a mask"
        raise TypeError(msg)
    return found


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> ndarray:
    """Return the elements at positions along an axis.

    Parameters
    ----------
    x : array_like
        The array.
    indices : array_like of int
        The positions; negative ones count from the end.  The standard has one dimension, here it may be any number, as
        in NumPy.
    axis : int, optional
        The axis.  It must be given if the array has not one dimension, as the standard has it, where NumPy takes from
        the flattened array.

    Returns
    -------
    ndarray
        The shape of `x` with that of `indices` in place of the axis; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    IndexError
        If a position is out of bounds.
    TypeError
        If `indices` are no integers.
    ValueError
        If `axis` is missing.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.take(nd.array([[1, 2, 3], [4, 5, 6]]), nd.array([2, 0]), axis=1)
    array([[3, 1],
           [6, 4]])
    """
    found = x if type(x) is ndarray else asarray(x)
    if axis is None:
        if found.ndim != 1:
            msg = f"axis must be given for an array of {found.ndim} dimensions: pass it, or take from nbdlpack.ravel(x)"
            raise ValueError(msg)
        axis = 0
    else:
        axis = layout.normalize_axis(axis, found.ndim)
    result: ndarray = engine.compute(ndarray, "take", (found, _positions(indices)), (axis,))
    return result


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> ndarray:
    """Return the elements at positions along an axis that are others in each row.

    It fits what `argsort` and, with ``keepdims=True``, `argmax` return.

    Parameters
    ----------
    x : array_like
        The array.
    indices : array_like of int
        The positions, with as many dimensions as `x`; negative ones count from the end.
    axis : int
        The axis; along the others `x` and `indices` are broadcast together.

    Returns
    -------
    ndarray
        The shape of both broadcast together, with the length of `indices` along the axis; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    IndexError
        If a position is out of bounds.
    TypeError
        If `indices` are no integers.
    ValueError
        If the numbers of dimensions differ, or the shapes cannot be broadcast together.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.array([[3, 1, 2], [4, 6, 5]])
    >>> nd.take_along_axis(x, nd.argsort(x), axis=1)
    array([[1, 2, 3],
           [4, 5, 6]])
    """
    found, positions = asarray(x), _positions(indices)
    ndim = found.ndim
    axis = layout.normalize_axis(axis, ndim)
    if positions.ndim != ndim:
        msg = f"indices have {positions.ndim} dimensions, but must have as many as x, {ndim}"
        raise ValueError(msg)
    lengths = [(a[:axis] + a[axis + 1 :]) for a in (found.shape, positions.shape)]
    layout.broadcast_shapes(*lengths)
    device = devices.of(found)
    key: list[Any] = []
    for i, n in enumerate(found.shape):
        steps = tuple([int(i == j) for j in range(ndim)])
        along = None if i == axis else device.arange(ndarray, 0, n, 1, dtypes.INT64)
        key.append(positions if along is None else along._restepped((1,) * i + (n,) + (1,) * (ndim - 1 - i), steps))
    return engine.gather(found, tuple(key), ndarray)
