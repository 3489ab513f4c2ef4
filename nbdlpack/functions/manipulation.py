"""Functions that show or place the elements of arrays in another shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import dtypes, engine, layout, native
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbdlpack.dtypes import DTypeLike
    from nbdlpack.layout import Order

__all__ = [
    "astype",
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "copy",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "squeeze",
    "stack",
    "swapaxes",
    "transpose",
]


def copy(x: Any, order: Order = "K") -> ndarray:
    """Return a copy of an array: lazily, without copying, where it is all of its memory.

    Parameters
    ----------
    x : array_like
        The array.
    order : {'C', 'F', 'A', 'K'}
        The layout of the copy, see `ndarray.copy`; that of the array if not given.

    Returns
    -------
    ndarray
        Of the same class, dtype and shape, writable.  Memory is shared until either is written to.

    Raises
    ------
    ValueError
        If there is no such order.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.zeros(2)
    >>> y = nd.copy(x)
    >>> y[0] = 1
    >>> x, y
    (array([0., 0.]), array([1., 0.]))
    """
    return asarray(x).copy(order)


def astype(x: Any, dtype: DTypeLike, /, *, copy: bool = True, device: Any = None) -> ndarray:
    """Return an array converted to a dtype.

    Parameters
    ----------
    x : array_like
        The array.
    dtype : dtype
        The new type.
    copy : bool
        False returns the array itself if it has the dtype.
    device : Device or str, optional
        The device of the result.

    Returns
    -------
    ndarray
        In new memory, in the layout of `x`.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If the device does not exist.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.astype(nd.arange(3), nd.float32)
    array([0., 1., 2.], dtype=float32)
    """
    return asarray(x).astype(dtype, copy=copy, device=device)


def reshape(x: Any, shape: int | Sequence[int], order: Order = "C", *, copy: bool | None = None) -> ndarray:
    """Return the elements in another shape.

    Parameters
    ----------
    x : array_like
        The array.
    shape : int or sequence of int
        The new lengths; one may be -1 and is found.
    order : {'C', 'F', 'A'}
        The order in which elements are read and placed.
    copy : bool or None
        True for a copy; None for one only if no view can show the shape; False for none, or a ValueError.

    Returns
    -------
    ndarray
        Shares memory with `x` if a view could show the shape and `copy` is not True.

    Raises
    ------
    ValueError
        If the number of elements differs, or `copy` is False and a copy is needed.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.reshape(nd.arange(4), (2, -1))
    array([[0, 1],
           [2, 3]])
    """
    return asarray(x).reshape(shape, order=order, copy=copy)


def ravel(x: Any, order: Order = "C") -> ndarray:
    """Return the elements in one dimension.

    Parameters
    ----------
    x : array_like
        The array.
    order : {'C', 'F', 'A', 'K'}
        The order in which elements are read; 'K' as they lie in memory.

    Returns
    -------
    ndarray
        Shares memory with `x` if a view could show it.

    Raises
    ------
    ValueError
        If there is no such order.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.ravel(nd.eye(2))
    array([1., 0., 0., 1.])
    """
    return asarray(x).ravel(order)


def permute_dims(x: Any, /, axes: Sequence[int]) -> ndarray:
    """Return the array with its axes in another order.

    Parameters
    ----------
    x : array_like
        The array.
    axes : sequence of int
        Each axis once.

    Returns
    -------
    ndarray
        A view: shares memory with `x`.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If an axis is missing or named twice.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.permute_dims(nd.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return asarray(x).transpose(tuple(axes))


def transpose(x: Any, axes: Sequence[int] | None = None) -> ndarray:
    """Return the array with its axes in another order, reversed if none is given.

    Parameters
    ----------
    x : array_like
        The array.
    axes : sequence of int, optional
        Each axis once.

    Returns
    -------
    ndarray
        A view: shares memory with `x`.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If an axis is missing or named twice.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.transpose(nd.zeros((2, 3))).shape
    (3, 2)
    """
    return asarray(x).T if axes is None else asarray(x).transpose(tuple(axes))


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


def swapaxes(x: Any, axis1: int, axis2: int) -> ndarray:
    """Return the array with two axes exchanged.

    Parameters
    ----------
    x : array_like
        The array.
    axis1, axis2 : int
        The axes.

    Returns
    -------
    ndarray
        A view: shares memory with `x`.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.swapaxes(nd.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return asarray(x).swapaxes(axis1, axis2)


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int], /) -> ndarray:
    """Return the array with some axes moved to other places, and the others in their order.

    Parameters
    ----------
    x : array_like
        The array.
    source, destination : int or sequence of int
        Where the axes are, and where they go.

    Returns
    -------
    ndarray
        A view: shares memory with `x`.

    Raises
    ------
    ValueError
        If they are not as many, or one is named twice.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.moveaxis(nd.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    found = asarray(x)
    old = layout.normalize_axes(source, found.ndim, "source")
    new = layout.normalize_axes(destination, found.ndim, "destination")
    if len(old) != len(new):
        msg = f"source names {len(old)} axes and destination {len(new)}, but they must be as many"
        raise ValueError(msg)
    order = [axis for axis in range(found.ndim) if axis not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return found.transpose(order)


def expand_dims(x: Any, /, axis: int | Sequence[int] = 0) -> ndarray:
    """Return the array with axes of length one put in.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or sequence of int
        Where they are in the result.

    Returns
    -------
    ndarray
        A view: shares memory with `x`.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.expand_dims(nd.zeros(3), axis=(0, 2)).shape
    (1, 3, 1)
    """
    found = asarray(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    places = layout.normalize_axes(axis, found.ndim + count)
    rest = iter(zip(found.shape, found._steps, strict=True))
    dims = [(1, 0) if i in places else next(rest) for i in range(found.ndim + count)]
    return found._restepped(tuple([n for n, _ in dims]), tuple([step for _, step in dims]))


def squeeze(x: Any, /, axis: int | tuple[int, ...] | None = None) -> ndarray:
    """Return the array without axes of length one.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or tuple of int, optional
        Which ones; all of length one if not given.

    Returns
    -------
    ndarray
        A view: shares memory with `x`.

    Raises
    ------
    ValueError
        If one is not of length one.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.squeeze(nd.zeros((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    return asarray(x).squeeze(axis)


def flip(x: Any, /, axis: int | Sequence[int] | None = None) -> ndarray:
    """Return the array with the order along axes reversed.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int or sequence of int, optional
        Which ones; all if not given.

    Returns
    -------
    ndarray
        A view with negative strides: shares memory with `x`.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If one is named twice.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.flip(nd.arange(3))
    array([2, 1, 0])
    """
    found = asarray(x)
    axes = layout.normalize_axes(axis, found.ndim)
    return found[tuple([slice(None, None, -1 if i in axes else None) for i in range(found.ndim)])]


def broadcast_to(x: Any, /, shape: int | Iterable[int]) -> ndarray:
    """Return the array as if it had a larger shape, its elements repeated along axes of length one.

    Parameters
    ----------
    x : array_like
        The array.
    shape : int or sequence of int
        The larger shape.

    Returns
    -------
    ndarray
        A read-only view: shares memory with `x`, and repeated elements with each other.

    Raises
    ------
    ValueError
        If it does not fit the shape.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.broadcast_to(nd.arange(2), (3, 2))
    array([[0, 1],
           [0, 1],
           [0, 1]])
    """
    found = asarray(x)
    target = layout.as_shape(shape)
    steps = layout.broadcast_steps(found.shape, found._steps, target)
    return found._restepped(target, steps, found._flags | native.READ_ONLY)


def broadcast_arrays(*arrays: Any) -> tuple[ndarray, ...]:
    """Return arrays broadcast to the shape that they have in common.

    Parameters
    ----------
    *arrays : array_like
        The arrays.

    Returns
    -------
    tuple of ndarray
        Read-only views: each shares memory with its argument.

    Raises
    ------
    ValueError
        If they have no shape in common.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> [x.shape for x in nd.broadcast_arrays(nd.zeros(3), nd.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """
    found = [asarray(x) for x in arrays]
    shape = layout.broadcast_shapes(*[x.shape for x in found])
    return tuple([broadcast_to(x, shape) for x in found])


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0, dtype: DTypeLike | None = None) -> ndarray:
    """Return arrays put one after the other along an axis.

    Parameters
    ----------
    arrays : sequence of array_like
        Arrays of the same shape but for the axis.
    axis : int or None
        The axis; None puts all elements of all into one dimension.
    dtype : dtype, optional
        That which all promote to if not given.

    Returns
    -------
    ndarray
        In C order, in new memory.

    Raises
    ------
    ValueError
        If there is no array, or the shapes do not fit.
    TypeError
        If an array cannot be cast to `dtype`, in the sense of NumPy's ``casting='same_kind'``.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.concat([nd.zeros(1), nd.ones(2)])
    array([0., 1., 1.])
    """
    parts = [asarray(x) for x in arrays]
    if not parts:
        msg = "arrays is empty, but there must be at least one to be concatenated"
        raise ValueError(msg)
    if axis is None:
        parts, axis = [x.ravel() for x in parts], 0
    first = parts[0].shape
    axis = layout.normalize_axis(axis, len(first))
    for x in parts:
        if x.ndim != len(first) or x.shape[:axis] + x.shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            msg = f"arrays have shapes {first} and {x.shape}, but may differ along axis {axis} alone"
            raise ValueError(msg)
    kind = dtypes.result_type(*[x.dtype for x in parts]) if dtype is None else dtypes.canonical(dtype)
    for x in parts:
        if not np.can_cast(x.dtype, kind, "same_kind"):
            msg = f"dtype is {kind}, but an array of {x.dtype} cannot be cast to that according to 'same_kind'"
            raise TypeError(msg)
    shape = (*first[:axis], sum([x.shape[axis] for x in parts]), *first[axis + 1 :])
    device = engine.common_device(parts)
    new = device.empty(ndarray, shape, kind)
    start = 0
    for x in parts:
        stop = start + x.shape[axis]
        engine.assign_part(new, new[(slice(None),) * axis + (slice(start, stop),)], x)
        start = stop
    return new


def stack(arrays: Sequence[Any], /, *, axis: int = 0, dtype: DTypeLike | None = None) -> ndarray:
    """Return arrays of one shape put beside each other along a new axis.

    Parameters
    ----------
    arrays : sequence of array_like
        The arrays.
    axis : int
        The new axis in the result.
    dtype : dtype, optional
        That which all promote to if not given.

    Returns
    -------
    ndarray
        In C order, in new memory.

    Raises
    ------
    ValueError
        If there is no array, or the shapes differ.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.stack([nd.zeros(2), nd.ones(2)])
    array([[0., 0.],
           [1., 1.]])
    """
    parts = [asarray(x) for x in arrays]
    shapes = {x.shape for x in parts}
    if len(shapes) > 1:
        msg = f"arrays have the shapes {sorted(shapes)}, but must have one"
        raise ValueError(msg)
    return concat([expand_dims(x, axis) for x in parts], axis=axis, dtype=dtype)
