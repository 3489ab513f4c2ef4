"""Functions that test whether elements are true, and the differences of neighbours."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import dtypes, engine, layout
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray
from nbdlpack.functions.manipulation import broadcast_to, concat

if TYPE_CHECKING:
    from nbdlpack.functions.statistical import Axis

__all__ = ["all", "any", "diff"]


def all(x: Any, /, *, axis: Axis = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """Return whether all elements are true.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Which axes to reduce; all if not given.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array of bool on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.all(nd.eye(2))
    array(False)
    """
    return asarray(x).all(axis, out, keepdims)


def any(x: Any, /, *, axis: Axis = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """Return whether any element is true.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Which axes to reduce; all if not given.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array of bool on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.any(nd.eye(2), axis=0)
    array([ True,  True])
    """
    return asarray(x).any(axis, out, keepdims)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> ndarray:
    """Return the differences of neighbours along an axis.

    Parameters
    ----------
    x : array_like
        An array of at least one dimension.
    axis : int
        The axis.
    n : int
        How many times differences are taken, of the differences again.
    prepend, append : array_like, optional
        What is put before and behind `x` first: of its shape but for the axis, or a number.

    Returns
    -------
    ndarray
        Shorter by `n` along the axis, of the dtype that differences have (of bool whether neighbours differ); new, on
        the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If `n` is negative, or the shapes do not fit.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.diff(nd.array([1, 4, 9]), prepend=0)
    array([1, 3, 5])
    """
    found = asarray(x)
    axis, n = layout.normalize_axis(axis, found.ndim), index(n)
    if n < 0:
        msg = f"n is {n}, but must not be negative"
        raise ValueError(msg)
    ends = [None if end is None else _end(end, found, axis) for end in (prepend, append)]
    parts = [part for part in (ends[0], found, ends[1]) if part is not None]
    found = concat(parts, axis=axis) if len(parts) > 1 else found
    for _ in range(n):
        ufunc = np.not_equal if found.dtype == dtypes.BOOL else np.subtract
        length = found.shape[axis]
        neighbours = found._slice(axis, min(1, length), length), found._slice(axis, 0, length - 1)
        found = engine.elementwise(ndarray, ufunc, neighbours)
    return found if n else found.copy()


def _end(value: Any, x: ndarray, axis: int) -> ndarray:
    """Return what is put at an end of an array: a number as an array of length one."""
    found = asarray(value, device=None if isinstance(value, ndarray) else x.device)
    return found if found.ndim else broadcast_to(found, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
