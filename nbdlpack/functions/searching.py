"""Functions that find elements: the largest, those that are not zero, those that a condition chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from nbdlpack import dtypes, engine, layout
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray

if TYPE_CHECKING:
    from nbdlpack.functions.statistical import Axis

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"]


def argmax(x: Any, /, *, axis: int | None = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """Return the position of the greatest element, the first of several.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int, optional
        Along which axis to look; in the flattened array if not given.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array of int64 on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    ValueError
        If there is nothing to choose from.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.argmax(nd.array([3, 1, 2]))
    array(0)
    """
    return asarray(x).argmax(axis, out, keepdims=keepdims)


def argmin(x: Any, /, *, axis: int | None = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """Return the position of the least element, the first of several.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int, optional
        Along which axis to look; in the flattened array if not given.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array of int64 on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    ValueError
        If there is nothing to choose from.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.argmin(nd.array([3, 1, 2]))
    array(1)
    """
    return asarray(x).argmin(axis, out, keepdims=keepdims)


def count_nonzero(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> ndarray:
    """Return how many elements are not zero.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Along which axes to count; all if not given.
    keepdims : bool
        Whether these axes stay, with length one.

    Returns
    -------
    ndarray
        A new array of int64 on the same device; without dimensions if all axes are counted along.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.count_nonzero(nd.eye(3), axis=0)
    array([1, 1, 1])
    """
    found = asarray(x)
    if axis is not None:  # NumPy takes an array without dimensions for one with one
        axis = layout.normalize_axes(axis, found.ndim) if found.ndim or axis not in (0, -1) else None
    result: ndarray = engine.compute(ndarray, "count_nonzero", (found,), (axis, bool(keepdims)))
    return result


def nonzero(x: Any, /) -> tuple[ndarray, ...]:
    """Return the positions of the elements that are not zero.

    On a GPU this waits until it is known how many there are.

    Parameters
    ----------
    x : array_like
        An array of at least one dimension.

    Returns
    -------
    tuple of ndarray
        An index array of int64 for each dimension, new, on the same device; positions are in C order.

    Raises
    ------
    ValueError
        If the array has no dimensions.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.nonzero(nd.array([[0, 1], [2, 0]]))
    (array([0, 1]), array([1, 0]))
    """
    return asarray(x).nonzero()


def searchsorted(x1: Any, x2: Any, /, *, side: Literal["left", "right"] = "left", sorter: Any = None) -> ndarray:
    """Return before which elements of a sorted array values would be put for it to stay sorted.

    Parameters
    ----------
    x1 : array_like
        A one-dimensional array in ascending order, or, if `sorter` is given, in any.  NaN is greater than all numbers,
        as in `sort`.
    x2 : array_like
        The values.
    side : {'left', 'right'}
        Before the first of the elements that are equal to a value, or after the last.
    sorter : array_like of int, optional
        The positions that sort `x1`, as from `argsort`.

    Returns
    -------
    ndarray
        Positions of int64 in the shape of `x2`; new, on the same device.

    Raises
    ------
    ValueError
        If `x1` has not one dimension, `sorter` has another shape, or there is no such side.
    TypeError
        If `sorter` has no integer dtype.
    DeviceError
        If the arrays are on different devices.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.searchsorted(nd.array([1, 3, 5]), nd.array([0, 3, 6]), side="right")
    array([0, 2, 3])
    """
    found = asarray(x1)
    if found.ndim != 1:
        msg = f"x1 has {found.ndim} dimensions, but must have one: pass a row of it, or nbdlpack.ravel(x1)"
        raise ValueError(msg)
    if side not in ("left", "right"):
        msg = f"side is {side!r}, but must be 'left' or 'right'"
        raise ValueError(msg)
    if sorter is not None:
        sorter = engine.operand(sorter)
        if sorter.dtype.kind not in "iu":
            msg = f"sorter has dtype {sorter.dtype}, but must have an integer one, as from nbdlpack.argsort(x1)"
            raise TypeError(msg)
        if sorter.shape != found.shape:
            msg = f"sorter has shape {sorter.shape}, but must have that of x1, {found.shape}"
            raise ValueError(msg)
    result: ndarray = engine.compute(ndarray, "searchsorted", (found, engine.operand(x2), sorter), (side,))
    return result


def _fitting(value: Any, other: Any) -> Any:
    """Return a Python integer as one of the dtype that it meets, so that it is refused if that does not hold it."""
    return (
        other.dtype.type(value) if type(value) is int and getattr(other, "dtype", dtypes.BOOL).kind in "iu" else value
    )


def where(condition: Any, x1: Any, x2: Any, /) -> ndarray:
    """Return elements of one array where a condition is true, and those of another one elsewhere.

    Parameters
    ----------
    condition : array_like of bool
        The condition; of other dtypes what is not zero is true.
    x1, x2 : array_like
        What is chosen from: arrays, or numbers.

    Returns
    -------
    ndarray
        Of the shape that all three are broadcast to, and the dtype that `x1` and `x2` promote to; new, on the same
        device.

    Raises
    ------
    ValueError
        If the shapes cannot be broadcast together.
    TypeError
        If the dtypes have none in common.
    OverflowError
        If a Python integer is beyond what the dtype of the array holds, where NumPy's function changes the number.
    DeviceError
        If the arrays are on different devices.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.array([-1.0, 2.0])
    >>> nd.where(x > 0, x, 0)
    array([0., 2.])
    """
    if type(x1) is not ndarray or type(x2) is not ndarray:
        first, second = engine.promoted((x1, x2))
        x1, x2 = _fitting(first, second), _fitting(second, first)
    if type(condition) is not ndarray:
        condition = engine.operand(condition)
    result: ndarray = engine.compute(ndarray, "where", (condition, x1, x2))
    return result
