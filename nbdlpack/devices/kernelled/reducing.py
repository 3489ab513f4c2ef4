"""Reductions: what NumPy's are made of, for kernels.

A mean is a sum and a division; a variance is a mean, a sum of squared distances from it, and a division.  What a mask
leaves out is replaced by what changes no result, and an initial value is added last.  Errors are NumPy's, of a sample.

Integers are added up in 64 bits and float16 and bfloat16 in float32, and the results are converted once, at the end.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from nbdlpack import dtypes, layout
from nbdlpack.devices.base import NARROW, REDUCTIONS, SEARCHING
from nbdlpack.devices.kernelled import hosted, moving
from nbdlpack.devices.kernelled.folding import fold
from nbdlpack.kernels.access import ACCESS, COMPUTED_IN
from nbdlpack.kernels.reductions import DEVIATION, VARIANTS, distance, wide
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbdlpack.devices.kernelled import KernelDevice
    from nbdlpack.dtypes import DType

UFUNCS: Final = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
}
IDENTITIES: Final = {"sum": 0, "prod": 1, "any": False, "all": True}
LOGICAL: Final = {"sum": "any", "max": "any", "any": "any", "prod": "all", "min": "all", "all": "all"}
"""What the reductions in bool are."""
AVERAGES: Final = frozenset({"mean", "std", "var"})
UNSAFE: Final = {"casting": "unsafe"}


class Task(NamedTuple):
    """A reduction that is asked for."""

    device: KernelDevice
    name: str
    x: View
    axes: tuple[int, ...]
    out: View
    """Without the reduced axes."""
    options: Mapping[str, Any]

    @property
    def dtype(self) -> DType:
        """The dtype that NumPy accumulates in."""
        return accumulator(self.name, self.x.dtype, self.out.dtype, self.options.get("dtype"))


def reduce(
    device: KernelDevice, name: str, x: View, out: Any, axes: tuple[int, ...], options: Mapping[str, Any]
) -> None:
    """Reduce axes of an array into an output, as `nbdlpack.devices.base.Device.reduce` says."""
    keepdims, asked = bool(options.get("keepdims", False)), options.get("dtype")
    shape = layout.reduced_shape(x.shape, axes, keepdims=keepdims)
    if out.shape != shape:
        msg = f"out has shape {out.shape}, but {name} of shape {x.shape} along axes {axes} gives an output of {shape}"
        raise ValueError(msg)
    for dtype in (x.dtype, asked or x.dtype):
        if dtype not in ACCESS:
            msg = (
                f"{name} in {dtype} cannot be computed on {device}, only in {', '.join(map(str, ACCESS))}: "
                "convert the array first, x.astype('float32'), or move it, x.to_device('cpu')"
            )
            raise TypeError(msg)
    check(name, x.dtype, out.dtype, asked)
    if isinstance(out, np.ndarray):
        new = device.empty(View, shape, out.dtype)
        reduce(device, name, x, new, axes, options)
        out[...] = device.to_host(new)
    elif x.size == 0:
        device.assign(out, of_nothing(device, name, x, axes, options))
    else:
        result = without(out, axes) if keepdims else out
        WAYS.get(name, plain)(Task(device, name, x, axes, result, options))


def without(x: View, axes: tuple[int, ...]) -> View:
    """Return an array without axes, which are of length one."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape, steps = tuple([x.shape[axis] for axis in kept]), tuple([x._steps[axis] for axis in kept])
    view: View = x._view(View, 0, x.dtype, x._flags, shape, steps)
    return view


# -- what NumPy says


@cache
def check(name: str, dtype: DType, wanted: DType, asked: DType | None) -> None:
    """Raise what NumPy does if an array of a dtype cannot be reduced to an output of another."""
    if dtype not in NARROW.get(name, ()):
        options = {} if asked is None else {"dtype": asked}
        REDUCTIONS[name](np.ones(1, dtype), 0, out=np.empty((), wanted), **options)


@cache
def accumulator(name: str, dtype: DType, wanted: DType, asked: DType | None) -> DType:
    """Return the dtype in which NumPy reduces an array of a dtype to an output of another."""
    if asked is not None:
        return asked
    if name in AVERAGES and dtype.kind in "biu":
        return dtypes.FLOAT64
    ufunc = UFUNCS.get(name, np.add)
    return dtypes.canonical(ufunc.resolve_dtypes((wanted, dtype, None), casting="unsafe", reduction=True)[1])


@cache
def difference(dtype: DType, other: DType) -> DType:
    """Return the dtype of a difference of numbers of two dtypes."""
    return dtypes.canonical(np.subtract.resolve_dtypes((dtype, other, None))[2])


def of_nothing(device: KernelDevice, name: str, x: View, axes: tuple[int, ...], options: Mapping[str, Any]) -> Any:
    """Return the reduction of no elements, or raise what NumPy does."""
    shape = tuple([n if axis in axes else min(n, 1) for axis, n in enumerate(x.shape)])
    given = {key: hosted.read(device, value) for key, value in options.items() if key not in ("where", "mean")}
    if x.dtype in NARROW.get(name, ()):
        given.setdefault("dtype", dtypes.FLOAT32)
    axis = axes if name not in SEARCHING else axes[0] if len(axes) == 1 else None
    return np.asarray(REDUCTIONS[name](np.empty(shape, x.dtype), axis, **given))


# -- the reductions: the output is written by the last step, when there is no more that could fail


def plain(task: Task) -> None:
    """Reduce by a ufunc."""
    device, name, x, dtype = task.device, task.name, task.x, task.dtype
    initial, where = task.options.get("initial"), task.options.get("where")
    if initial is not None:
        if np.ndim(initial):
            msg = f"initial has {np.ndim(initial)} dimensions, but must be a scalar"
            raise ValueError(msg)
        initial = converted(device, initial, dtype)
    if where is not None:
        if initial is None and ("initial" in task.options or name not in IDENTITIES):
            mask = np.ones(1, getattr(where, "dtype", None) or np.asarray(where).dtype)
            UFUNCS[name].reduce(np.ones(1), initial=None, where=mask)  # raises what NumPy says
        if name not in IDENTITIES:
            x = converted(device, x, dtype)
        x = selected(device, x, where, IDENTITIES.get(name, initial))
    found = accumulated(task, name, x, dtype, direct=initial is None)
    if initial is not None:
        device.elementwise(UFUNCS[name], (found, initial), (task.out,), UNSAFE)
    elif found is not task.out:
        device.assign(task.out, found)


def accumulated(task: Task, name: str, x: View, dtype: DType, *, direct: bool) -> View:
    """Return an array reduced by a ufunc, in a dtype that holds all that a given one does.

    If `direct`, that is the output itself if it can be.
    """
    device = task.device
    if dtype == dtypes.BOOL:
        name, result = LOGICAL[name], dtype
    else:
        result = dtype if name in ("min", "max") else wide(dtype)
    # Integers may become wider ones as they are loaded: when the result is converted, it is the same.
    same = dtype in (x.dtype, result) or (dtype.kind in "iu" and x.dtype.kind in "biu")
    if not same or (name, x.dtype, result) not in VARIANTS:
        x = converted(device, x, dtype)
    found = task.out if direct and is_target(task, result) else device.empty(View, task.out.shape, result)
    fold(device, name, x, task.axes, found)
    return found


def search(task: Task) -> None:
    """Find the least or the greatest."""
    device, out, direct = task.device, task.out, is_target(task, dtypes.INT64)
    found = out if direct else device.empty(View, out.shape, dtypes.INT64)
    fold(device, task.name, task.x, task.axes, found)
    if not direct:
        device.assign(out, found)


def mean(task: Task) -> None:
    """Sum, and divide."""
    device, x, dtype, where = task.device, task.x, task.dtype, task.options.get("where")
    if where is not None:
        x = selected(device, x, where, 0)
    total = accumulated(task, "sum", x, dtype, direct=False)
    if dtype.kind in "biu":
        total = converted(device, total, dtype)
    divide(device, total, count(task), task.out)


def divide(device: KernelDevice, x: View, y: Any, out: View) -> None:
    """Divide by integers, as NumPy does: in float64, unless the result is the same."""
    if not isinstance(y, View) and x.dtype.kind == "f" and x.dtype.type(y) == y:
        y = x.dtype.type(y)
    device.elementwise(np.true_divide, (x, y), (out,), UNSAFE)


def count(task: Task) -> Any:
    """Return how many elements are reduced to each result: a number, or an array if a mask chooses them."""
    device, shape, where = task.device, task.x.shape, task.options.get("where")
    if where is None:
        return np.int64(prod([shape[axis] for axis in task.axes]))
    chosen = device.empty(View, shape, dtypes.BOOL)
    device.assign(chosen, where)
    number = device.empty(View, task.out.shape, dtypes.INT64)
    fold(device, "sum", chosen, task.axes, number)
    return number


def variance(task: Task) -> None:
    """Sum the squares of the distances from the mean, and divide; take the root if that is asked for."""
    device, x, axes, dtype, options = task.device, task.x, task.axes, task.dtype, task.options
    given, where = options.get("mean"), options.get("where")
    kind = difference(x.dtype, getattr(given, "dtype", dtype))
    if dtype.kind in "biu" or (kind.kind == "c" and dtype.kind != "c"):
        on_host(task)
        return
    kind = COMPUTED_IN[kind]
    middle = device.empty(View, layout.reduced_shape(x.shape, axes, keepdims=True), kind)
    inner = without(middle, axes)
    if given is None:
        chosen = {"dtype": dtype} if where is None else {"dtype": dtype, "where": where}
        mean(task._replace(out=inner, options=chosen))
        given = middle
    if where is not None or not fits(np.shape(given), middle.shape):
        far = device.empty(View, x.shape, kind)
        device.elementwise(np.subtract, (x, given), (far,), UNSAFE)
        x, given = far if where is None else selected(device, far, where, 0), 0
    if given is not middle:
        device.assign(middle, given)
    if (DEVIATION, x.dtype, distance(kind)) not in VARIANTS:
        x = converted(device, x, kind)
    total = device.empty(View, task.out.shape, distance(kind))
    fold(device, DEVIATION, x, axes, total, inner)
    if task.name == "var":
        divide(device, total, degrees(task), task.out)
    else:
        divide(device, total, degrees(task), total)
        device.elementwise(np.sqrt, (total,), (task.out,), UNSAFE)


def degrees(task: Task) -> Any:
    """Return the degrees of freedom, not below zero: a number, or an array if a mask chooses elements."""
    device, number, ddof = task.device, count(task), task.options.get("ddof", 0)
    if not isinstance(number, View):
        return np.maximum(number - ddof, 0)
    found = device.empty(View, number.shape, dtypes.FLOAT64)
    device.elementwise(np.subtract, (number, ddof), (found,), UNSAFE)
    device.elementwise(np.maximum, (found, 0), (found,), UNSAFE)
    return found


def on_host(task: Task) -> None:
    """Take NumPy's result where it is by ways that nobody would choose: in integers, or with parts dropped."""
    device = task.device
    options = {key: hosted.read(device, value) for key, value in task.options.items() if key != "keepdims"}
    device.assign(task.out, np.asarray(REDUCTIONS[task.name](device.to_host(task.x), task.axes, **options)))


WAYS: Final[dict[str, Callable[[Task], None]]] = {
    "mean": mean,
    "var": variance,
    "std": variance,
    "argmin": search,
    "argmax": search,
}
"""How those are computed that are not just a ufunc's."""


# -- operands


def converted(device: KernelDevice, value: Any, dtype: DType) -> Any:
    """Return a value in a dtype: an array in new memory unless it is of it already, or a scalar."""
    if not isinstance(value, View):
        scalar = np.empty((), dtype)
        scalar[...] = value
        return scalar[()]
    if value.dtype == dtype:
        return value
    new = device.empty(View, value.shape, dtype)
    device.assign(new, value)
    return new


def selected(device: KernelDevice, x: View, where: Any, filling: Any) -> View:
    """Return a copy of an array with something else in place of what a mask does not choose."""
    new = device.empty(View, x.shape, x.dtype)
    device.assign(new, filling)
    if x.dtype == dtypes.BOOL:
        device.elementwise(np.logical_or, (x, x), (new,), {"where": where})
    else:
        device.elementwise(np.positive, (x,), (new,), {"where": where})
    return new


def is_target(task: Task, dtype: DType) -> bool:
    """Return whether results of a dtype can be written into the output by a kernel."""
    device, out = task.device, task.out
    return (
        out.dtype == dtype
        and bool(out._contiguous & 1)
        and moving.is_aligned(device, out)
        and not moving.overlap(device, out, task.x)
    )


def fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether an array of a shape can be broadcast to another."""
    missing = len(wanted) - len(shape)
    return missing >= 0 and all(n in (1, m) for n, m in zip(shape, wanted[missing:], strict=True))
