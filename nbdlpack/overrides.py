"""NumPy's functions that are ours where an array of ours is among the arguments: what `__array_function__` looks up.

``np.sort(x)`` of an array of ours is `nbdlpack.sort`: the result is an array of ours, on the device of the arrays, and
nothing is moved for it.  Arguments are matched by their names in NumPy's signature, the first ones by their places.

What has no row here, or is called with an argument that ours has not, such as `out`, is left to NumPy: that asks
methods of the array where it does so for other classes too, as ``np.sum(x)`` does, and elsewhere takes what is on the
cpu for a NumPy array, and gives one back.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from nbdlpack import array, fft, linalg
from nbdlpack.array import ndarray
from nbdlpack.functions import (
    creation,
    data_types,
    indexing,
    linear_algebra,
    manipulation,
    searching,
    sets,
    sorting,
    statistical,
    utility,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Any]

__all__ = ["call", "table"]

# -- where NumPy's functions do more than ours, or by themselves something else.  NotImplemented is left to NumPy.


def _flattening(function: Function, axis: int | None) -> Function:
    """Return a function with a default for the axis, that takes the flattened array if it is None."""

    def flattening(x: Any, *others: Any, axis: int | None = axis, **options: Any) -> Any:
        if axis is None:
            x, axis = manipulation.ravel(x), 0
        return function(x, *others, axis=axis, **options)

    return flattening


def _unless(leave: Callable[..., bool], function: Function) -> Function:
    """Return a function that leaves some arguments to NumPy."""
    return lambda *args, **options: NotImplemented if leave(*args, **options) else function(*args, **options)


def _where(condition: Any, *choices: Any) -> Any:
    return searching.where(condition, *choices) if choices else searching.nonzero(condition)


def _lacks_axes(_: Any, *, s: Any = None, axes: Any = None, **__: Any) -> bool:
    return s is not None and axes is None


def _pinv(x: Any, *, rtol: Any = 1e-15) -> Any:
    return linalg.pinv(x, rtol=rtol)


# -- the table

_SAME: Final[tuple[tuple[Any, Any, str], ...]] = (
    (np, creation, "empty_like full_like ones_like zeros_like"),
    (np, data_types, "astype can_cast result_type"),
    (np, linear_algebra, "matrix_transpose tensordot"),
    (np, manipulation, "broadcast_arrays broadcast_to concat copy expand_dims flip moveaxis ravel repeat roll stack"),
    (np, manipulation, "tile unstack"),
    (np, searching, "count_nonzero searchsorted"),
    (np, sets, "isin unique_all unique_counts unique_inverse unique_values"),
    (np, statistical, "cumulative_prod cumulative_sum"),
    (np, utility, "diff"),
    (np.linalg, linalg, "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank"),
    (np.linalg, linalg, "matrix_transpose outer slogdet solve svd svdvals tensordot trace vecdot vector_norm"),
)
"""Where NumPy has functions, where we have them, and the names of both."""
_IGNORED: Final = frozenset({"assume_unique", "kind", "subok"})
"""Arguments of NumPy's that say how something is done: ours is right for all of their values."""


class Row(NamedTuple):
    """A function of ours that stands for one of NumPy's."""

    function: Function
    parameters: inspect.Signature
    """NumPy's."""
    first: int
    """How many parameters, the first ones, are matched by their places."""
    names: frozenset[str]
    """The others, which are matched by their names."""


def _row(numpys: Function, ours: Function, like: Function | None = None) -> Row:
    """Return a row; `like` is the function of ours whose arguments it has, if these cannot be seen."""
    parameters = list(inspect.signature(like or ours).parameters.values())
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    first = max(sum([parameter.kind in by_place for parameter in parameters]), 1)
    names = frozenset([parameter.name for parameter in parameters[first:]])
    return Row(ours, inspect.signature(numpys), first, names)


@cache
def table() -> dict[Any, Row]:
    """Return NumPy's functions, and what stands for them.  It is made when it is first needed."""
    same = [(where, ours, name) for where, ours, names in _SAME for name in names.split()]
    same += [(np.fft, fft, name) for name in fft.__all__ if name.endswith(("fft", "shift"))]
    rows = {getattr(where, name): _row(getattr(where, name), getattr(ours, name)) for where, ours, name in same}
    flattened: tuple[tuple[Function, Function, int | None], ...] = (
        (np.argsort, sorting.argsort, -1),
        (np.cumprod, statistical.cumulative_prod, None),
        (np.cumsum, statistical.cumulative_sum, None),
        (np.sort, sorting.sort, -1),
        (np.take, indexing.take, None),
        (np.take_along_axis, indexing.take_along_axis, -1),
    )
    for numpys, ours, axis in flattened:
        rows[numpys] = _row(numpys, _flattening(ours, axis), ours)
    left: list[tuple[Function, Function, Callable[..., bool]]] = [
        (np.tril, creation.tril, lambda x, **_: np.ndim(x) < 2),
        (np.triu, creation.triu, lambda x, **_: np.ndim(x) < 2),
        (np.meshgrid, creation.meshgrid, lambda *xi, **_: any(np.ndim(x) > 1 for x in xi)),
        (np.linalg.qr, linalg.qr, lambda _, mode="reduced": mode not in ("reduced", "complete")),
    ]
    several = ("fftn", "ifftn", "rfftn", "irfftn")
    left += [(getattr(np.fft, name), getattr(fft, name), _lacks_axes) for name in several]
    for numpys, ours, leave in left:
        rows[numpys] = _row(numpys, _unless(leave, ours), ours)
    rows[np.linalg.pinv] = _row(np.linalg.pinv, _pinv)
    rows[np.where] = _row(np.where, _where, searching.where)
    return rows


# -- calls

_numpys: Final = np.empty(0).__array_function__
"""Calls what NumPy itself has for a function."""


def _matched(row: Row, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arguments of our function for those of NumPy's, or None if ours has not all of them."""
    if len(args) <= row.first and not options:
        return list(args), {}  # the usual call
    bound = row.parameters.bind(*args, **options)
    places: list[Any] = []
    named: dict[str, Any] = {}
    for i, (name, value) in enumerate(bound.arguments.items()):
        parameter = row.parameters.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            places += value
        elif i < row.first and i == len(places):
            places.append(value)
        elif name in row.names:
            named[name] = value
        elif name not in _IGNORED and value is not parameter.default:
            return None
    return places, named


def call(function: Any, types: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Do what `__array_function__` does; return NotImplemented if an argument is of a type that is not known here."""
    if not all(issubclass(kind, (ndarray, np.ndarray)) for kind in types):
        return NotImplemented
    row = table().get(function)
    if row is not None and all(kind is np.ndarray or issubclass(kind, ndarray) for kind in types):
        found = _matched(row, args, options)
        result = NotImplemented if found is None else row.function(*found[0], **found[1])
        if result is not NotImplemented:
            return result
    return _numpys(function, (), args, options)


array.above["functions"] = call
