"""Functions that make arrays of a shape, or of numbers at even distances."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nbdlpack import devices, dtypes, engine, layout, storage
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray, from_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DTypeLike
    from nbdlpack.layout import Order

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

# -- of a shape


def empty(shape: int | Iterable[int], dtype: DTypeLike | None = None, *, device: Device | str | None = None) -> ndarray:
    """Return a new array whose elements are anything.

    Parameters
    ----------
    shape : int or sequence of int
        The lengths of the axes.
    dtype : dtype, optional
        float64 if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        In C order, in new memory, aligned to 256 bytes.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If a length is negative, or the device does not exist.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.empty((2, 3), nd.float32).shape
    (2, 3)
    """
    dims = (shape,) if type(shape) is int else layout.as_shape(shape)
    kind = dtypes.FLOAT64 if dtype is None else dtypes.canonical(dtype)
    where = devices.default(device)
    return ndarray._empty(dims, kind, 0) if where is devices.host else where.empty(ndarray, dims, kind)


def zeros(shape: int | Iterable[int], dtype: DTypeLike | None = None, *, device: Device | str | None = None) -> ndarray:
    """Return a new array of zeros.  A large one costs no time until it is touched.

    Parameters
    ----------
    shape : int or sequence of int
        The lengths of the axes.
    dtype : dtype, optional
        float64 if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        In C order, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If a length is negative, or the device does not exist.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.zeros(3)
    array([0., 0., 0.])
    """
    kind = dtypes.FLOAT64 if dtype is None else dtypes.canonical(dtype)
    return devices.default(device).empty(ndarray, layout.as_shape(shape), kind, zeros=True)


def ones(shape: int | Iterable[int], dtype: DTypeLike | None = None, *, device: Device | str | None = None) -> ndarray:
    """Return a new array of ones.

    Parameters
    ----------
    shape : int or sequence of int
        The lengths of the axes.
    dtype : dtype, optional
        float64 if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        In C order, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If a length is negative, or the device does not exist.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.ones((1, 2), nd.bfloat16)
    array([[1, 1]], dtype=bfloat16)
    """
    return full(shape, 1, dtypes.FLOAT64 if dtype is None else dtype, device=device)


def full(
    shape: int | Iterable[int],
    fill_value: Any,
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> ndarray:
    """Return a new array with all elements set to a value.

    Parameters
    ----------
    shape : int or sequence of int
        The lengths of the axes.
    fill_value : scalar or array
        The value, broadcast to the shape.
    dtype : dtype, optional
        That of the value if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        In C order, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If a length is negative, the value does not fit the shape, or the device does not exist.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.full(2, 7)
    array([7, 7])
    """
    value = engine.operand(fill_value)
    if dtype is None:
        dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    new = empty(shape, dtype, device=device)
    engine.assign(new, value)
    return new


# -- like another


def _like(
    x: Any, dtype: DTypeLike | None, order: Order, shape: Any, device: Device | str | None, *, zeros: bool = False
) -> ndarray:
    model = asarray(x)
    kind = model.dtype if dtype is None else dtypes.canonical(dtype)
    where = model.device if device is None else devices.named(device)
    letter = layout.check_order(order)
    if shape is not None:
        new = layout.as_shape(shape)
        keep = letter == "K" and len(new) == model.ndim
        steps = layout.compact_steps(new, model._steps, letter if letter != "K" or keep else "C", model._contiguous)
    else:
        new, steps = model.shape, layout.compact_steps(model.shape, model._steps, letter, model._contiguous)
    if zeros and steps == layout.c_steps(new):
        return where.empty(type(model), new, kind, zeros=True)
    result = storage.allocate(type(model), where, new, kind, steps)
    if zeros:
        result.fill(0)
    return result


def empty_like(
    x: Any,
    /,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    shape: int | Iterable[int] | None = None,
    *,
    device: Device | str | None = None,
) -> ndarray:
    """Return a new array of the shape, dtype, layout and device of another, whose elements are anything.

    Parameters
    ----------
    x : array_like
        The other one.
    dtype : dtype, optional
        In place of its dtype.
    order : {'C', 'F', 'A', 'K'}
        The layout: C's, Fortran's, 'A' Fortran's if it is contiguous so alone, 'K' as near to its own as can be.
    shape : int or sequence of int, optional
        In place of its shape.
    device : Device or str, optional
        In place of its device.

    Returns
    -------
    ndarray
        Of the class of `x`, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If an argument has a value that it cannot have.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.empty_like(nd.zeros((2, 3), nd.int8)).dtype
    dtype('int8')
    """
    return _like(x, dtype, order, shape, device)


def zeros_like(
    x: Any,
    /,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    shape: int | Iterable[int] | None = None,
    *,
    device: Device | str | None = None,
) -> ndarray:
    """Return a new array of zeros, of the shape, dtype, layout and device of another.

    Parameters
    ----------
    x : array_like
        The other one.
    dtype, order, shape, device
        In place of its own, see `empty_like`.

    Returns
    -------
    ndarray
        Of the class of `x`, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If an argument has a value that it cannot have.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.zeros_like(nd.arange(3))
    array([0, 0, 0])
    """
    return _like(x, dtype, order, shape, device, zeros=True)


def ones_like(
    x: Any,
    /,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    shape: int | Iterable[int] | None = None,
    *,
    device: Device | str | None = None,
) -> ndarray:
    """Return a new array of ones, of the shape, dtype, layout and device of another.

    Parameters
    ----------
    x : array_like
        The other one.
    dtype, order, shape, device
        In place of its own, see `empty_like`.

    Returns
    -------
    ndarray
        Of the class of `x`, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If an argument has a value that it cannot have.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.ones_like(nd.arange(3))
    array([1, 1, 1])
    """
    return full_like(x, 1, dtype, order, shape, device=device)


def full_like(
    x: Any,
    /,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    shape: int | Iterable[int] | None = None,
    *,
    device: Device | str | None = None,
) -> ndarray:
    """Return a new array of one value, of the shape, dtype, layout and device of another.

    Parameters
    ----------
    x : array_like
        The other one.
    fill_value : scalar or array
        The value, broadcast to the shape and converted to the dtype.
    dtype, order, shape, device
        In place of its own, see `empty_like`.

    Returns
    -------
    ndarray
        Of the class of `x`, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If an argument has a value that it cannot have, or the value does not fit the shape.
    MemoryError
        If there is not enough memory.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.full_like(nd.arange(3), 2)
    array([2, 2, 2])
    """
    new = _like(x, dtype, order, shape, device)
    engine.assign(new, fill_value)
    return new


# -- of numbers


def arange(
    start: Any = None,
    stop: Any = None,
    step: Any = 1,
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> ndarray:
    """Return numbers at even distances, from a start up to but not including a stop.

    Parameters
    ----------
    start : number, optional
        The first number, 0 if not given; if `stop` is not given, the stop.
    stop : number, optional
        The end.
    step : number
        The distance.
    dtype : dtype, optional
        That of the numbers if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        One-dimensional, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If the device does not exist.
    ZeroDivisionError
        If the step is 0.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.arange(3), nd.arange(1, 2, 0.25)
    (array([0, 1, 2]), array([1.  , 1.25, 1.5 , 1.75]))
    """
    kind = None if dtype is None else dtypes.canonical(dtype)
    if stop is None:
        start, stop = None, start
        if stop is None:
            msg = "start and stop are both None, but arange() needs a stop"
            raise TypeError(msg)
    start = 0 if start is None else start
    start, stop, step = [engine.hosted(n) for n in (start, stop, step)]
    return devices.default(device).arange(ndarray, start, stop, step, kind)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,  # noqa: FBT001, FBT002 - NumPy's signature
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> ndarray:
    """Return a number of numbers at even distances between two.

    Parameters
    ----------
    start, stop : number or array
        The first and the last.
    num : int
        How many.
    endpoint : bool
        Whether `stop` is the last of them, or the one that would follow.
    dtype : dtype, optional
        A floating dtype if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        The numbers along the first axis, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If `num` is negative, or the device does not exist.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.linspace(0, 1, 5)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    kind = None if dtype is None else dtypes.canonical(dtype)
    a = np.linspace(engine.hosted(start), engine.hosted(stop), num, endpoint, dtype=kind)  # type: ignore[call-overload]
    return from_host(a, device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: Device | str | None = None,
) -> ndarray:
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_cols : int, optional
        The number of columns, as many if not given.
    k : int
        How far the diagonal is above the main one.
    dtype : dtype, optional
        float64 if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        In C order, in new memory.

    Raises
    ------
    TypeError
        If an array cannot have the dtype.
    ValueError
        If a length is negative, or the device does not exist.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.eye(2, dtype=nd.int8)
    array([[1, 0],
           [0, 1]], dtype=int8)
    """
    columns = n_rows if n_cols is None else n_cols
    new = zeros((n_rows, columns), dtype, device=device)
    length = min(n_rows, columns - k) if k >= 0 else min(n_rows + k, columns)
    if length > 0:
        offset = k if k >= 0 else -k * columns
        diagonal = new._view(ndarray, offset * new.itemsize, new.dtype, 0, (length,), (columns + 1,))
        engine.assign_part(new, diagonal, 1)
    return new


# -- of other arrays


def meshgrid(*arrays: Any, indexing: Literal["xy", "ij"] = "xy") -> tuple[ndarray, ...]:
    """Return the coordinates of the points of a grid, from the coordinates along its axes.

    Parameters
    ----------
    *arrays : array_like
        The coordinates along each axis, one-dimensional.
    indexing : {'xy', 'ij'}
        Whether the first two axes are exchanged, as those of a picture are, or in the order of the arguments.

    Returns
    -------
    tuple of ndarray
        For each argument an array with as many dimensions as there are arguments, of its dtype; new, on its device.

    Raises
    ------
    ValueError
        If an array has more than one dimension, or there is no such indexing.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.meshgrid(nd.array([1, 2, 3]), nd.array([4, 5]))
    (array([[1, 2, 3],
           [1, 2, 3]]), array([[4, 4, 4],
           [5, 5, 5]]))
    """
    if indexing not in ("xy", "ij"):
        msg = f"indexing is {indexing!r}, but must be 'xy' or 'ij'"
        raise ValueError(msg)
    found = [asarray(x) for x in arrays]
    for x in found:
        if x.ndim > 1:
            msg = f"an array has {x.ndim} dimensions, but must have one: pass nbdlpack.ravel(x)"
            raise ValueError(msg)
    places = list(range(len(found)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    shape = [1] * len(found)
    for x, place in zip(found, places, strict=True):
        shape[place] = x.size
    grid, result = tuple(shape), []
    for x, place in zip(found, places, strict=True):
        dims = tuple([n if i == place else 1 for i, n in enumerate(grid)])
        steps = tuple([(x._steps or (0,))[0] if i == place else 0 for i in range(len(grid))])
        result.append(engine.spread(ndarray, x._restepped(dims, steps), grid))
    return tuple(result)


def _triangle(x: Any, k: int, *, lower: bool) -> ndarray:
    """Return an array with zeros beside a diagonal."""
    found = asarray(x)
    if found.ndim < 2:
        msg = f"x has {found.ndim} dimensions, but must have at least two: its last two are those of matrices"
        raise ValueError(msg)
    rows, columns = found.shape[-2:]
    first = index(k) if lower else index(k) - 1
    device = devices.of(found)
    i = device.arange(ndarray, 0, rows, 1, dtypes.INT64)._restepped((rows, 1), (1, 0))
    below = engine.elementwise(
        ndarray, np.greater_equal, (i, device.arange(ndarray, -first, columns - first, 1, dtypes.INT64))
    )
    zero = np.zeros((), found.dtype)
    result: ndarray = engine.compute(ndarray, "where", (below, found, zero) if lower else (below, zero, found))
    return result


def tril(x: Any, /, *, k: int = 0) -> ndarray:
    """Return the lower triangles of matrices, with zeros above.

    Parameters
    ----------
    x : array_like
        Matrices in the last two axes.
    k : int
        How far the last diagonal that is kept is above the main one.

    Returns
    -------
    ndarray
        Of the same shape and dtype; new, on the same device.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.tril(nd.ones((2, 3)))
    array([[1., 0., 0.],
           [1., 1., 0.]])
    """
    return _triangle(x, k, lower=True)


def triu(x: Any, /, *, k: int = 0) -> ndarray:
    """Return the upper triangles of matrices, with zeros below.

    Parameters
    ----------
    x : array_like
        Matrices in the last two axes.
    k : int
        How far the first diagonal that is kept is above the main one.

    Returns
    -------
    ndarray
        Of the same shape and dtype; new, on the same device.

    Raises
    ------
    ValueError
        If the array has fewer than two dimensions.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.triu(nd.ones((2, 3)), k=1)
    array([[0., 1., 1.],
           [0., 0., 1.]])
    """
    return _triangle(x, k, lower=False)
