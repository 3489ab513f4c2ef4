"""Functions that show or place the elements of arrays in another shape."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import devices, dtypes, engine, layout, native
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbdlpack.dtypes import DTypeLike
    from nbdlpack.layout import Order

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "copy",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "unstack",
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


def reshape(x: Any, /, shape: int | Sequence[int], order: Order = "C", *, copy: bool | None = None) -> ndarray:
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


def expand_dims(x: Any, /, axis: int | Sequence[int]) -> ndarray:
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
    shape, steps = found.shape, list(found._steps)
    offset = 0
    for i in layout.normalize_axes(axis, len(shape)):
        offset += (shape[i] - 1) * steps[i]
        steps[i] *= -1
    part: ndarray = found._view(
        type(found), offset * found.itemsize if found.size else 0, found.dtype, found._flags, shape, tuple(steps)
    )
    return part


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


def broadcast_shapes(*shapes: int | Iterable[int]) -> tuple[int, ...]:
    """Return the shape that arrays of several shapes are broadcast to.

    Parameters
    ----------
    *shapes : tuple of int
        The shapes.

    Returns
    -------
    tuple of int
        The shape that they have in common; ``()`` for none.

    Raises
    ------
    ValueError
        If they have none in common, or a length is negative.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return layout.broadcast_shapes(*[layout.as_shape(shape) for shape in shapes])


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


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


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
    parts = [x if type(x) is ndarray else asarray(x) for x in arrays]
    if not parts:
        msg = "arrays is empty, but there must be at least one to be concatenated"
        raise ValueError(msg)
    first, kind, alike, length = parts[0].shape, parts[0].dtype, True, 0
    if axis is not None:
        axis = layout.normalize_axis(axis, len(first))
    for x in parts:
        alike = alike and x.dtype is kind
        if axis is None:
            length += x.size
            continue
        shape = x.shape
        if shape != first and (len(shape) != len(first) or _without(shape, axis) != _without(first, axis)):
            msg = f"arrays have shapes {first} and {shape}, but may differ along axis {axis} alone"
            raise ValueError(msg)
        length += shape[axis]
    if dtype is not None:
        kind = dtypes.canonical(dtype)
        for x in parts:
            if not np.can_cast(x.dtype, kind, "same_kind"):
                msg = f"dtype is {kind}, but an array of {x.dtype} cannot be cast to that according to 'same_kind'"
                raise TypeError(msg)
    elif not alike:
        kind = dtypes.result_type(*[x.dtype for x in parts])
    shape = (length,) if axis is None else (*first[:axis], length, *first[axis + 1 :])
    result: ndarray = engine.compute(ndarray, "concat", tuple(parts), (axis, shape, kind))
    return result


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
    if parts:
        (shape,) = shapes
        axis = layout.normalize_axis(axis, len(shape) + 1)
        parts = [
            x._restepped((*shape[:axis], 1, *shape[axis:]), (*x._steps[:axis], 0, *x._steps[axis:])) for x in parts
        ]
    return concat(parts, axis=axis, dtype=dtype)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[ndarray, ...]:
    """Return the parts that an array is made of along an axis.

    Parameters
    ----------
    x : array_like
        The array.
    axis : int
        The axis.

    Returns
    -------
    tuple of ndarray
        Views without the axis, as many as its length: they share memory with `x`.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.unstack(nd.array([[1, 2], [3, 4]]), axis=1)
    (array([1, 3]), array([2, 4]))
    """
    found = asarray(x)
    axis = layout.normalize_axis(axis, found.ndim)
    return tuple(found if axis == 0 else moveaxis(found, axis, 0))


# -- with elements that come several times, or elsewhere


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> ndarray:
    """Return an array in which each element comes several times, one after the other.

    Parameters
    ----------
    x : array_like
        The array.
    repeats : int or array_like of int
        How many times, the same for all or one number for each along the axis.  On a GPU an array of them makes this
        wait until it is known how long the result is.
    axis : int, optional
        The axis; the elements in C order in one dimension if not given.

    Returns
    -------
    ndarray
        New, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    TypeError
        If `repeats` are no integers.
    ValueError
        If one is negative, or there are not as many as elements along the axis.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.repeat(nd.array([1, 2]), 2), nd.repeat(nd.array([1, 2]), nd.array([0, 3]))
    (array([1, 1, 2, 2]), array([2, 2, 2]))
    """
    found = asarray(x)
    if axis is not None:
        axis = layout.normalize_axis(axis, found.ndim)
    times = engine.operand(repeats)
    if getattr(times, "ndim", 0):
        if times.dtype.kind not in "iu":
            msg = f"repeats have dtype {times.dtype}, but must be integers"
            raise TypeError(msg)
        result: ndarray = engine.compute(ndarray, "repeat", (found, times), (axis,))
        return result
    n = index(times)
    if n < 0:
        msg = f"repeats is {n}, but must not be negative"
        raise ValueError(msg)
    shape, steps = found.shape, found._steps
    after = len(shape) if axis is None else axis + 1
    once = found._restepped((*shape[:after], 1, *shape[after:]), (*steps[:after], 0, *steps[after:]))
    spread = engine.spread(ndarray, once, (*shape[:after], n, *shape[after:]))
    if axis is None:
        return spread._restepped((spread.size,), (1,))
    final = (*shape[:axis], shape[axis] * n, *shape[after:])
    return spread._restepped(final, layout.c_steps(final))


def tile(x: Any, repetitions: int | Sequence[int], /) -> ndarray:
    """Return an array put beside itself several times along each axis.

    Parameters
    ----------
    x : array_like
        The array.
    repetitions : int or sequence of int
        How many times along each of the last axes; axes of length one are put in front if `x` has fewer.

    Returns
    -------
    ndarray
        In C order; new, on the same device.

    Raises
    ------
    TypeError
        If `repetitions` are no integers.
    ValueError
        If one is negative.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.tile(nd.array([1, 2]), (2, 2))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    found = asarray(x)
    times = layout.as_integers(repetitions, "repetitions")
    if any(n < 0 for n in times):
        msg = f"repetitions are {times}, but must not be negative"
        raise ValueError(msg)
    ndim = max(found.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    extra = ndim - found.ndim
    shape, steps = (1,) * extra + found.shape, (0,) * extra + found._steps
    pairs = [n for both in zip(times, shape, strict=True) for n in both]
    once = found._restepped(tuple([n for m in shape for n in (1, m)]), tuple([n for step in steps for n in (0, step)]))
    final = tuple([n * m for n, m in zip(times, shape, strict=True)])
    return engine.spread(ndarray, once, tuple(pairs))._restepped(final, layout.c_steps(final))


def roll(x: Any, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> ndarray:
    """Return an array whose elements are moved along axes; what leaves at one end comes in at the other.

    Parameters
    ----------
    x : array_like
        The array.
    shift : int or sequence of int
        By how many places, towards larger positions; one for all axes, or one for each.
    axis : int or sequence of int, optional
        The axes; if not given, the array is moved as if it had one dimension.

    Returns
    -------
    ndarray
        In C order; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If there are not as many shifts as axes.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.roll(nd.arange(5), 2)
    array([3, 4, 0, 1, 2])
    """
    found = asarray(x)
    shifts = layout.as_integers(shift, "shift")
    if axis is None:
        flat = found if found._contiguous & 1 else engine.spread(ndarray, found, found.shape)
        rolled = roll(flat._restepped((flat.size,), (1,)), sum(shifts), axis=0)
        return rolled._restepped(found.shape, layout.c_steps(found.shape))
    axes = [layout.normalize_axis(i, found.ndim) for i in layout.as_integers(axis, "axis")]
    if len(shifts) == 1:
        shifts *= len(axes)
    elif len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        msg = f"shift has {len(shifts)} numbers and axis {len(axes)}, but there must be one shift, or as many as axes"
        raise ValueError(msg)
    total = dict.fromkeys(axes, 0)
    for i, n in zip(axes, shifts, strict=True):
        total[i] += n
    device = devices.of(found)
    new = device.empty(ndarray, found.shape, found.dtype)
    parts = [(new, found)]
    for i, shifted in total.items():
        n = found.shape[i]
        moved = shifted % n if n else 0
        if moved:  # what is behind the place that comes first, and what is before it
            k = n - moved
            parts = [
                pair
                for target, source in parts
                for pair in (
                    (target._slice(i, moved, n), source._slice(i, 0, k)),
                    (target._slice(i, 0, moved), source._slice(i, k, n)),
                )
            ]
    for target, source in parts:
        device.assign(target, source)
    return new
