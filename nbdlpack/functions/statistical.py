"""Functions that reduce axes of arrays to one number each, and the sums and products on the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from nbdlpack import dtypes, engine, layout
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray

if TYPE_CHECKING:
    from nbdlpack.dtypes import DTypeLike

__all__ = ["cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]

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


def _cumulative(name: str, x: Any, axis: int | None, dtype: DTypeLike | None, *, include_initial: bool) -> ndarray:
    found = asarray(x)
    if axis is None:
        if found.ndim != 1:
            msg = f"axis must be given for an array of {found.ndim} dimensions: pass it, or nbdlpack.ravel(x)"
            raise ValueError(msg)
        axis = 0
    kind = engine.reduced_dtype(
        name.removeprefix("cumulative_"), found.dtype, None if dtype is None else dtypes.canonical(dtype)
    )
    options = layout.normalize_axis(axis, found.ndim), kind, bool(include_initial)
    result: ndarray = engine.compute(ndarray, name, (found,), options)
    return result


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> ndarray:
    """Return the sums of the first elements along an axis: of one, of two, and so on.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int, optional
        The axis.  It must be given if the array has not one dimension, where NumPy's `cumsum` takes the flattened
        array.
    dtype : dtype, optional
        The dtype to compute in, and of the result.
    include_initial : bool
        Whether the sum of no elements, 0, is put first.

    Returns
    -------
    ndarray
        In the shape of `x`, one longer along the axis with `include_initial`; of the dtype that `sum` has.  New, on the
        same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If `axis` is missing.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.cumulative_sum(nd.array([1, 2, 3]), include_initial=True)
    array([0, 1, 3, 6])
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial=include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> ndarray:
    """Return the products of the first elements along an axis: of one, of two, and so on.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int, optional
        The axis.  It must be given if the array has not one dimension, where NumPy's `cumprod` takes the flattened
        array.
    dtype : dtype, optional
        The dtype to compute in, and of the result.
    include_initial : bool
        Whether the product of no elements, 1, is put first.

    Returns
    -------
    ndarray
        In the shape of `x`, one longer along the axis with `include_initial`; of the dtype that `prod` has.  New, on
        the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If `axis` is missing.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.cumulative_prod(nd.array([2, 3, 4]))
    array([ 2,  6, 24])
    """
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial=include_initial)
