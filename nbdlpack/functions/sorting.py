"""Functions that sort.

Elements that are equal keep their order, also in descending order; -0.0 is equal to 0.0, and every NaN comes last, in
both directions.  Complex numbers are sorted by their real parts, then by the imaginary ones, as NumPy does.
"""

from __future__ import annotations

from typing import Any

from nbdlpack import engine, layout
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray

__all__ = ["argsort", "sort"]


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ndarray:
    """Return the positions that sort an array along an axis.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int
        The axis.
    descending : bool
        Whether the largest comes first.  NaN is last also then.
    stable : bool
        Whether equal elements keep their order; False may be faster.

    Returns
    -------
    ndarray
        Positions along the axis, of int64 in the shape of `x`; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.argsort(nd.array([2, 3, 1, 3]), descending=True)
    array([1, 3, 0, 2])
    """
    found = x if type(x) is ndarray else asarray(x)
    options = layout.normalize_axis(axis, found.ndim), descending, stable
    result: ndarray = engine.compute(ndarray, "argsort", (found,), options)
    return result


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ndarray:
    """Return an array sorted along an axis.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int
        The axis.
    descending : bool
        Whether the largest comes first.  NaN is last also then.
    stable : bool
        Whether equal elements keep their order, as can be seen of 0.0 and -0.0.

    Returns
    -------
    ndarray
        In C order; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.sort(nd.array([[3, 1, 2], [4, 6, 5]]), descending=True)
    array([[3, 2, 1],
           [6, 5, 4]])
    """
    found = x if type(x) is ndarray else asarray(x)
    options = layout.normalize_axis(axis, found.ndim), descending, stable
    result: ndarray = engine.compute(ndarray, "sort", (found,), options)
    return result
