"""Functions that take arrays for sets of numbers.

Numbers are the same if they are equal: each NaN is a number of its own, and -0.0 is 0.0.  Where NumPy's functions of
other names differ in this, the standard is followed.  On a GPU these functions wait until it is known how many numbers
there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nbdlpack import engine
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: ndarray
    indices: ndarray
    inverse_indices: ndarray
    counts: ndarray


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: ndarray
    counts: ndarray


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: ndarray
    inverse_indices: ndarray


def _unique(x: Any, *, positions: bool = False, inverse: bool = False, counts: bool = False) -> tuple[ndarray, ...]:
    found: tuple[ndarray, ...] = engine.compute(ndarray, "unique", (asarray(x),), (positions, inverse, counts))
    return found


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> ndarray:
    """Return which elements of an array are among those of another one.

    Parameters
    ----------
    x1 : array_like
        The elements that are looked for.
    x2 : array_like
        The elements among which they are looked for.
    invert : bool
        True for the opposite.

    Returns
    -------
    ndarray
        New, of bool, in the shape of `x1`, on the same device.

    Raises
    ------
    DeviceError
        If the arrays are on different devices.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.isin(nd.arange(4), nd.array([3, 1]))
    array([False,  True, False,  True])
    """
    operands = engine.operand(x1), engine.operand(x2)
    result: ndarray = engine.compute(ndarray, "isin", operands, (bool(invert),))
    return result


def unique_all(x: Any, /) -> UniqueAll:
    """Return the numbers that differ, where each is first, which of them each element is, and how often each is there.

    Parameters
    ----------
    x : array_like
        The array; of several dimensions it is read in C order.

    Returns
    -------
    tuple of ndarray
        With names: `values`, the numbers in ascending order; `indices`, the position of the first of each in the
        flattened array; `inverse_indices`, in the shape of `x`, with ``values[inverse_indices] == x``; `counts`.  All
        are new, on the same device; positions and counts are of int64.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> found = nd.unique_all(nd.array([3, 1, 3]))
    >>> found.values, found.indices, found.inverse_indices, found.counts
    (array([1, 3]), array([1, 0]), array([1, 0, 1]), array([1, 2]))
    """
    return UniqueAll(*_unique(x, positions=True, inverse=True, counts=True))


def unique_counts(x: Any, /) -> UniqueCounts:
    """Return the numbers that differ, and how often each is there.

    Parameters
    ----------
    x : array_like
        The array.

    Returns
    -------
    tuple of ndarray
        With names: `values`, the numbers in ascending order, and `counts`, of int64.  Both are new, on the same device.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.unique_counts(nd.array([3, 1, 3])).counts
    array([1, 2])
    """
    return UniqueCounts(*_unique(x, counts=True))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Return the numbers that differ, and which of them each element is.

    Parameters
    ----------
    x : array_like
        The array.

    Returns
    -------
    tuple of ndarray
        With names: `values`, the numbers in ascending order, and `inverse_indices`, positions in these, of int64 in the
        shape of `x`.  Both are new, on the same device.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.unique_inverse(nd.array([[3, 1], [1, 1]])).inverse_indices
    array([[1, 0],
           [0, 0]])
    """
    return UniqueInverse(*_unique(x, inverse=True))


def unique_values(x: Any, /) -> ndarray:
    """Return the numbers that differ.

    Parameters
    ----------
    x : array_like
        The array.

    Returns
    -------
    ndarray
        One-dimensional, in ascending order; new, on the same device.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.unique_values(nd.array([3, 1, 3]))
    array([1, 3])
    """
    return _unique(x)[0]
