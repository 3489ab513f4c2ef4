"""Pure arithmetic of shapes and strides.  No NumPy, no devices, no arrays.

Steps are strides in elements, signed, one for each axis.  Offsets are in elements unless said otherwise.
"""

from __future__ import annotations

from math import gcd, prod
from operator import index
from typing import TYPE_CHECKING, Literal, TypeAlias

from nbdlpack.errors import AxisError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Order: TypeAlias = Literal["C", "F", "A", "K"]

Shape: TypeAlias = tuple[int, ...]
Steps: TypeAlias = tuple[int, ...]

MAX_SIZE = 1 << 56
"""The most elements an array may show: their number of bytes, whatever the dtype, fits into a signed 64-bit integer."""


def as_shape(shape: int | Iterable[int]) -> Shape:
    """Return a shape as a tuple of non-negative integers.

    Raises
    ------
    TypeError
        If it is neither an integer nor a sequence of integers.
    ValueError
        If a length is negative.
    """
    result = as_integers(shape, "shape")
    for n in result:
        if n < 0:
            msg = f"shape is {shape!r}, but lengths must not be negative"
            raise ValueError(msg)
    return result


def as_integers(values: int | Iterable[int], name: str) -> tuple[int, ...]:
    """Return one integer, or the integers of a sequence of any kind, as a tuple; `name` is for the TypeError."""
    try:
        if not isinstance(values, (tuple, list)):
            try:
                return (index(values),)  # type: ignore[arg-type]
            except TypeError:
                pass
        return tuple([index(n) for n in values])  # type: ignore[union-attr]
    except TypeError:
        msg = f"{name} is {values!r}, but must be an integer or a sequence of integers"
        raise TypeError(msg) from None


def c_steps(shape: Shape) -> Steps:
    """Return the steps of a compact array whose last axis varies fastest."""
    steps = []
    step = 1
    for n in reversed(shape):
        steps.append(step)
        step *= n or 1
    return tuple(reversed(steps))


def f_steps(shape: Shape) -> Steps:
    """Return the steps of a compact array whose first axis varies fastest."""
    return tuple(reversed(c_steps(tuple(reversed(shape)))))


def k_steps(shape: Shape, steps: Steps) -> Steps:
    """Return the steps of a compact array whose axes vary in the same order as those of given steps.

    Axes with the same step keep their order.  Broadcast axes, whose step is 0, vary fastest, as in NumPy.
    """
    result = [0] * len(shape)
    step = 1
    for axis in sorted(range(len(shape)), key=lambda axis: (abs(steps[axis]), -axis)):
        result[axis] = step
        step *= shape[axis] or 1
    return tuple(result)


def k_axes(shape: Shape, steps: Steps) -> tuple[int, ...]:
    """Return the axes in the order in which NumPy reads them in order 'K', the slowest first.

    Axes whose step says nothing, since they are broadcast or of length one, stay between their neighbours.
    """
    size = [abs(step) if n != 1 else 0 for n, step in zip(shape, steps, strict=True)]
    fastest_first: list[int] = []
    for axis in reversed(range(len(shape))):
        place = len(fastest_first)
        for i in range(place - 1, -1, -1):
            other = size[fastest_first[i]]
            if size[axis] and other:
                if other <= size[axis]:
                    break
                place = i
        fastest_first.insert(place, axis)
    return tuple(reversed(fastest_first))


def compact_steps(shape: Shape, steps: Steps, order: str, contiguous: int) -> Steps:
    """Return the steps that a compact copy in some order has; `contiguous` is 1 if C-contiguous | 2 if F-contiguous."""
    if order == "C" or (order == "A" and contiguous != 2):
        return c_steps(shape)
    if order == "K":
        return k_steps(shape, steps)
    return f_steps(shape)


def is_laid_out(contiguous: int, order: str) -> bool:
    """Return whether an array has the layout that an order asks for; `contiguous` as in `compact_steps`."""
    return order == "K" or bool(contiguous & {"C": 1, "F": 2, "A": 3}[order])


def check_order(order: str, allowed: str = "CFAK") -> str:
    """Return an order in capitals, or raise the ValueError that says which are allowed."""
    letter = order.upper() if isinstance(order, str) else order
    if letter not in tuple(allowed):
        msg = f"order is {order!r}, but must be one of {', '.join(repr(c) for c in allowed)}"
        raise ValueError(msg)
    return letter


def bounds(shape: Shape, steps: Steps) -> tuple[int, int]:
    """Return the offsets of the lowest element and of the end of the highest; both 0 without elements."""
    low, high = 0, 1
    for n, step in zip(shape, steps, strict=True):
        if n == 0:
            return 0, 0
        if step < 0:
            low += (n - 1) * step
        else:
            high += (n - 1) * step
    return low, high


# -- axes


def normalize_axis(axis: int, ndim: int) -> int:
    """Return an axis counted from the front.  Raises `AxisError` if there is no such axis."""
    axis = index(axis)
    if not -ndim <= axis < ndim:
        raise AxisError(axis, ndim)
    return axis + ndim if axis < 0 else axis


def normalize_axes(axes: int | Sequence[int] | None, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """Return several axes counted from the front, in the order given; all if None.

    Raises
    ------
    AxisError
        If one does not exist.
    ValueError
        If one is named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, (tuple, list)):
        return (normalize_axis(axes, ndim),)  # type: ignore[arg-type]
    result = tuple([normalize_axis(axis, ndim) for axis in axes])
    if len(set(result)) != len(result):
        msg = f"{name} is {axes!r}, but must not name an axis twice (the array has {ndim} dimensions)"
        raise ValueError(msg)
    return result


def reduced_shape(shape: Shape, axes: tuple[int, ...], *, keepdims: bool) -> Shape:
    """Return the shape that is left when axes are reduced away, or to length one."""
    if keepdims:
        return tuple([1 if axis in axes else n for axis, n in enumerate(shape)])
    return tuple([n for axis, n in enumerate(shape) if axis not in axes])


# -- broadcasting


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the shape that several shapes have in common.  Raises ValueError if they have none."""
    ndim = max([len(shape) for shape in shapes], default=0)
    result = [1] * ndim
    for shape in shapes:
        for axis, n in enumerate(shape, ndim - len(shape)):
            if n != 1 and n != result[axis]:
                if result[axis] != 1:
                    listed = " ".join(str(s).replace(" ", "") for s in shapes)
                    msg = f"operands could not be broadcast together with shapes {listed}"
                    raise ValueError(msg)
                result[axis] = n
    return tuple(result)


def broadcast_steps(shape: Shape, steps: Steps, target: Shape) -> Steps:
    """Return the steps that make an array look as if it had a larger shape.  Raises ValueError if it cannot."""
    extra = len(target) - len(shape)
    if extra < 0 or any(n != 1 and n != m for n, m in zip(shape, target[extra:], strict=True)):
        msg = f"an array of shape {shape} cannot be broadcast to shape {target}"
        raise ValueError(msg)
    if prod(target) > MAX_SIZE:
        msg = f"an array of shape {target} would have more elements than can be counted"
        raise ValueError(msg)
    return (0,) * extra + tuple(
        [step if n == m else 0 for n, m, step in zip(shape, target[extra:], steps, strict=True)]
    )


def check_fits(shape: Shape, target: Shape) -> None:
    """Raise ValueError if a value of a shape cannot be assigned to something of another; NumPy drops leading ones."""
    extra = max(len(shape) - len(target), 0)
    kept = shape[extra:]
    fits = all(n == 1 for n in shape[:extra]) and all(
        n in (1, m) for n, m in zip(kept, target[len(target) - len(kept) :], strict=True)
    )
    if not fits:
        msg = f"could not broadcast input array from shape {shape} into shape {target}"
        raise ValueError(msg)


# -- reshaping


def resolve_shape(shape: Sequence[int], size: int, old: Shape) -> Shape:
    """Return a new shape of as many elements, with the one length that may be -1 filled in."""
    known = [n for n in shape if n != -1]
    unknown = len(shape) - len(known)
    if unknown > 1:
        msg = f"shape is {tuple(shape)}, but only one length may be -1"
        raise ValueError(msg)
    if any(n < 0 for n in known):
        msg = f"shape is {tuple(shape)}, but lengths must not be negative, except for one that may be -1"
        raise ValueError(msg)
    rest = prod(known)
    if size != rest if not unknown else rest == 0 or size % rest:
        msg = f"cannot reshape array of size {size} and shape {old} into shape {tuple(shape)}"
        raise ValueError(msg)
    return tuple([size // rest if n == -1 else n for n in shape])


def reshape_steps(shape: Shape, steps: Steps, target: Shape, order: str) -> Steps | None:
    """Return the steps that show the same memory in another shape of as many elements, or None if none do."""
    if order == "F":
        backwards = reshape_steps(shape[::-1], steps[::-1], target[::-1], "C")
        return None if backwards is None else backwards[::-1]
    if 0 in shape:
        return c_steps(target)
    old = [(n, step) for n, step in zip(shape, steps, strict=True) if n != 1]
    result: list[int] = []
    i = 0
    j = 0
    while j < len(target):
        if target[j] == 1:
            result.append(0)  # given a step below: an axis of length one may have any
            j += 1
            continue
        # Take as many old axes and as many new ones as it needs for both to have the same number of elements.
        first_old, first_new = i, j
        count, wanted = old[i][0], target[j]
        while count != wanted:
            if count < wanted:
                i += 1
                count *= old[i][0]
            else:
                j += 1
                wanted *= target[j]
        if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(first_old, i)):
            return None
        step = old[i][1]
        group = []
        for n in reversed(target[first_new : j + 1]):
            group.append(step)
            step *= n
        result.extend(reversed(group))
        i += 1
        j += 1
    return _with_unit_axes(target, result)


def _with_unit_axes(shape: Shape, steps: list[int]) -> Steps:
    """Return steps where axes of length one have the step that they would have in a compact array."""
    following = 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            steps[axis] = following
        following = steps[axis] * shape[axis]
    return tuple(steps)


def view_steps(
    shape: Shape, steps: Steps, itemsize: int, new_itemsize: int, contiguous: int
) -> tuple[Shape, Steps] | None:
    """Return shape and steps of the same memory seen with items of another size, or None if it cannot be.

    The last axis takes up the change, as in NumPy: it must be contiguous, and its bytes a multiple of the new items.
    """
    if itemsize == new_itemsize:
        return shape, steps
    if not shape:
        return None
    length, remainder = divmod(shape[-1] * itemsize, new_itemsize)
    if remainder or (steps[-1] != 1 and shape[-1] != 1 and not contiguous & 1):
        return None
    new_shape = (*shape[:-1], length)
    if 0 in new_shape:
        return new_shape, c_steps(new_shape)
    result = []
    for step in steps[:-1]:
        new, remainder = divmod(step * itemsize, new_itemsize)
        if remainder:
            return None
        result.append(new)
    return new_shape, (*result, 1)


# -- iterating


def coalesced(shape: Shape, several: Sequence[Steps], *, ordered: bool = False) -> tuple[Shape, list[Steps]]:
    """Return as few dimensions as several operands of one shape can be visited by, and the operands' steps along them.

    Axes of length one are dropped, and neighbours along which all operands go on evenly become one.  Steps may be of
    any unit.

    Parameters
    ----------
    shape : tuple of int
        The shape.
    several : sequence of tuples of int
        The steps of each operand along each axis.
    ordered : bool
        Whether elements must be visited in C order.  If not, the axes along which the first operand has its smallest
        steps come last, and of those with the same ones those of the second operand.

    Returns
    -------
    tuple of int
        The lengths, none of them 1; ``()`` for a single element, ``(0,)`` for none.
    list of tuples of int
        For each operand its steps.
    """
    # Each axis is its length and the operands' steps along it.
    axes = [axis for axis in zip(shape, *several, strict=True) if axis[0] != 1]
    if 0 in shape:
        return (0,), [(0,) for _ in several]
    if not ordered and len(axes) > 1:
        axes.sort(key=lambda axis: [-abs(step) for step in axis[1:]])
    merged = axes[:1]
    for axis in axes[1:]:
        n, steps = axis[0], axis[1:]
        if merged[-1][1:] == tuple([step * n for step in steps]):
            merged[-1] = (merged[-1][0] * n, *steps)
        else:
            merged.append(axis)
    if not merged:
        return (), [() for _ in several]
    lengths, *result = zip(*merged, strict=True)
    return lengths, result


def overlap(first: tuple[int, Shape, Steps, int], second: tuple[int, Shape, Steps, int]) -> bool:
    """Return whether two arrays may share bytes.

    Each is given by the address of its first element, its shape, its strides in bytes, and its itemsize.  The answer is
    exact for arrays that are apart, and for those that are interleaved evenly, as every second element is with those
    between, or the left half of a matrix with the right one; for others it is yes.
    """
    if 0 in first[1] or 0 in second[1]:
        return False
    (low, end, run, steps), (other_low, other_end, other_run, other_steps) = _runs(*first), _runs(*second)
    if end <= other_low or other_end <= low:
        return False
    period = gcd(*steps, *other_steps)
    if period == 0:
        return True
    distance = (other_low - low) % period
    return distance < run or period - distance < other_run


def _runs(address: int, shape: Shape, strides: Steps, itemsize: int) -> tuple[int, int, int, list[int]]:
    """Return where an array's bytes begin and end, how many are in a row, and the strides between such runs."""
    low, high = bounds(shape, strides)
    run = itemsize
    steps: list[int] = []
    for step, n in sorted([(abs(step), n) for n, step in zip(shape, strides, strict=True) if n > 1 and step]):
        if step == run and not steps:
            run *= n
        else:
            steps.append(step)
    return address + low, address + high - 1 + itemsize, run, steps
