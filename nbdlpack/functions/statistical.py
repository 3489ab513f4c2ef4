"""Functions that reduce axes of arrays to one number each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from nbdlpack.functions.conversion import asarray

if TYPE_CHECKING:
    from nbdlpack.array import ndarray
    from nbdlpack.dtypes import DTypeLike

__all__ = ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var"]

Axis: TypeAlias = "int | tuple[int, ...] | None"


def sum(
    x: Any, /, *, axis: Axis = None, dtype: DTypeLike | None = None, out: Any = None, keepdims: bool = False
) -> ndarray:
    """Return the sum of the elements.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Which axes to reduce; all if not given.
    dtype : dtype, optional
        The dtype to compute in, and of the result.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array on the same device, of a dtype as wide as NumPy's sum; without dimensions if all axes
        are reduced.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.
    TypeError
        If `out` is not an array.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.sum(nd.ones((2, 3)), axis=0)
    array([2., 2., 2.])
    """
    return asarray(x).sum(axis, dtype, out, keepdims)


def prod(
    x: Any, /, *, axis: Axis = None, dtype: DTypeLike | None = None, out: Any = None, keepdims: bool = False
) -> ndarray:
    """Return the product of the elements.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Which axes to reduce; all if not given.
    dtype : dtype, optional
        The dtype to compute in, and of the result.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array on the same device, of a dtype as wide as NumPy's product; without dimensions if all axes
        are reduced.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.
    TypeError
        If `out` is not an array.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.prod(nd.arange(1, 5))
    array(24)
    """
    return asarray(x).prod(axis, dtype, out, keepdims)


def min(x: Any, /, *, axis: Axis = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """Return the least element.

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
        `out`, or a new array of the same dtype on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    ValueError
        If there is nothing to choose from.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.min(nd.arange(4).reshape(2, 2), axis=1)
    array([0, 2])
    """
    return asarray(x).min(axis, out, keepdims)


def max(x: Any, /, *, axis: Axis = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """Return the greatest element.

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
        `out`, or a new array of the same dtype on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    ValueError
        If there is nothing to choose from.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.max(nd.arange(4).reshape(2, 2), axis=1)
    array([1, 3])
    """
    return asarray(x).max(axis, out, keepdims)


def mean(
    x: Any, /, *, axis: Axis = None, dtype: DTypeLike | None = None, out: Any = None, keepdims: bool = False
) -> ndarray:
    """Return the mean of the elements.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Which axes to reduce; all if not given.
    dtype : dtype, optional
        The dtype to compute in, and of the result.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array, floating, on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.
    TypeError
        If `out` is not an array.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.mean(nd.arange(4))
    array(1.5)
    """
    return asarray(x).mean(axis, dtype, out, keepdims)


def std(
    x: Any,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    correction: float = 0.0,
    out: Any = None,
    keepdims: bool = False,
) -> ndarray:
    """Return the standard deviation of the elements.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Which axes to reduce; all if not given.
    dtype : dtype, optional
        The dtype to compute in, and of the result.
    correction : float
        What is subtracted from the number of elements that is divided by.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array, floating, on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.
    TypeError
        If `out` is not an array.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.std(nd.arange(4.0), correction=1) ** 2
    array(1.66666667)
    """
    return asarray(x).std(axis, dtype, out, correction, keepdims)


def var(
    x: Any,
    /,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    correction: float = 0.0,
    out: Any = None,
    keepdims: bool = False,
) -> ndarray:
    """Return the variance of the elements.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Which axes to reduce; all if not given.
    dtype : dtype, optional
        The dtype to compute in, and of the result.
    correction : float
        What is subtracted from the number of elements that is divided by.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool
        Whether reduced axes stay, with length one.

    Returns
    -------
    ndarray
        `out`, or a new array, floating, on the same device; without dimensions if all axes are reduced.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.
    TypeError
        If `out` is not an array.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.var(nd.arange(4.0))
    array(1.25)
    """
    return asarray(x).var(axis, dtype, out, correction, keepdims)


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
