"""How axes of an array are reduced by launches of kernels: which axis when, and by how many threads.

All of that depends on shapes and strides alone, and so do the bits of the results.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nbdlpack import layout
from nbdlpack.devices.base import SEARCHING
from nbdlpack.devices.kernelled.moving import is_aligned
from nbdlpack.kernels import reductions
from nbdlpack.kernels.reductions import DEVIATION, TEAM, TEAM_BITS
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbdlpack.devices.kernelled import KernelDevice
    from nbdlpack.layout import Shape, Steps

__all__ = ["fold"]

ALONE: Final = 32
"""How many elements one thread reduces alone, rather than several together."""
TEAMS: Final = 2048
"""How many teams of threads fill any GPU: so many there are to be, if chunks do not get too short by that."""
CHUNK: Final = 512
"""The least elements of a chunk, if there are several."""
MUCH: Final = 32
"""How many times less there must be after some axes have been reduced, for the others to be reduced after them."""
AGAIN: Final = {DEVIATION: "sum"}
"""What reduces results once more, where it is not the same again."""


def fold(
    device: KernelDevice, name: str, x: View, axes: tuple[int, ...], out: View, middle: View | None = None
) -> None:
    """Reduce axes of an array, which has elements, into a contiguous one without these axes.

    Axes that lie in memory as one are reduced as one.  If there are others, those that are closest come first, and the
    others after that; but if there is not much less after the first, all elements are copied to where they are close.

    Parameters
    ----------
    device : KernelDevice
        The device of the arrays.
    name : str
        One of `reductions.OPERATIONS`.
    x : View
        What is reduced, of a dtype that there is a kernel for.
    axes : tuple of int
        The axes.  A search is along one of them, or along all in C order.
    out : View
        Where the results go, of the dtype that the kernel gives.
    middle : View, optional
        What deviations are from, of the shape of `out`.
    """
    beside = None if middle is None else middle.strides
    found = plan(x.shape, x.strides, axes, out.strides, beside, ordered=name in SEARCHING)
    if isinstance(found, Work) and is_aligned(device, x):
        launch(device, name, found, x, out, middle)
    elif found and not isinstance(found, Work):
        fold_twice(device, name, x, found, axes, out, middle)
    else:
        kept = tuple([axis for axis in range(x.ndim) if axis not in axes])
        x = copied(device, x, (*kept, *axes))
        middle = None if middle is None else copied(device, middle, range(middle.ndim))
        fold(device, name, x, tuple(range(len(kept), x.ndim)), out, middle)


def fold_twice(
    device: KernelDevice,
    name: str,
    x: View,
    first: tuple[int, ...],
    axes: tuple[int, ...],
    out: View,
    middle: View | None,
) -> None:
    """Reduce some of the axes first, and then the others."""
    left = [axis for axis in range(x.ndim) if axis not in first]
    shape = pick(x.shape, left)
    if middle is not None:  # it is the same all along the axes that are left for later
        steps = iter(middle._steps)
        spread = tuple([0 if axis in axes else next(steps) for axis in left])
        middle = middle._view(View, 0, middle.dtype, middle._flags, shape, spread)
    part = device.empty(View, shape, out.dtype)
    fold(device, name, x, first, part, middle)
    fold(device, AGAIN.get(name, name), part, tuple([i for i, axis in enumerate(left) if axis in axes]), out)


def copied(device: KernelDevice, x: View, axes: Sequence[int]) -> View:
    """Return a contiguous copy with the axes in another order."""
    shape = pick(x.shape, axes)
    new = device.empty(View, shape, x.dtype)
    device.assign(new, x._view(View, 0, x.dtype, x._flags, shape, pick(x._steps, axes)))
    return new


def pick(values: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return the items for axes."""
    return tuple([values[axis] for axis in axes])


# -- plans


class Work(NamedTuple):
    """One axis to be reduced, for rows and columns of outputs, and how threads share that.  Steps are in bytes."""

    rows: int
    columns: int
    n: int
    """How many elements are reduced to one."""
    x_steps: Steps
    """From row to row, from column to column, and along the reduced axis."""
    out_steps: Steps
    """From row to row, and from column to column, of the output."""
    middle_steps: Steps
    side_by_side: bool
    """Whether neighbouring threads have neighbouring columns, since these are neighbours in memory."""
    bits: int
    """The logarithm of how many threads have an output together."""
    groups: int
    """How many teams it takes for all outputs."""
    length: int
    """How many elements a team reduces, of those for an output."""


@lru_cache(1024)
def plan(
    shape: Shape, strides: Steps, axes: tuple[int, ...], out: Steps, middle: Steps | None, *, ordered: bool
) -> Work | tuple[int, ...]:
    """Return how axes can be reduced together, or which of them first, or none if all would have to be copied before.

    Parameters
    ----------
    shape, strides : tuple of int
        Of what is reduced, strides in bytes.
    axes : tuple of int
        What is reduced.
    out, middle : tuple of int
        The strides of the output, and of the means if there are any.
    ordered : bool
        Whether elements must be visited in C order.
    """
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    first = axes if ordered else closest(shape, strides, axes)
    if len(first) < len(axes):
        return first if prod(pick(shape, first)) >= MUCH else ()
    operands = [pick(strides, kept), out, *([] if middle is None else [middle])]
    outer, steps = layout.coalesced(pick(shape, kept), operands)
    inner, (along,) = layout.coalesced(pick(shape, axes), [pick(strides, axes)], ordered=ordered)
    if len(outer) > 2 or len(inner) > 1:
        return ()
    rows, columns = (1, 1, *outer)[-2:]
    (row, column), out_steps, middle_steps = [(0, 0, *s)[-2:] for s in [*steps, ()][:3]]
    return shared(rows, columns, prod(inner), (row, column, sum(along)), out_steps, middle_steps)


def closest(shape: Shape, strides: Steps, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return those of some axes that lie in memory as one with the elements that are closest to each other."""
    # An axis along which there is always the same element comes last: when that is reduced, there is not less to read.
    order = sorted(axes, key=lambda axis: (shape[axis] != 1, strides[axis] == 0, abs(strides[axis])))
    found, span = [], 0
    for axis in order:
        n, step = shape[axis], strides[axis]
        if n != 1 and span not in (0, step):
            break
        found.append(axis)
        span = span if n == 1 else n * step
    return tuple(found)


def shared(rows: int, columns: int, n: int, x_steps: Steps, out_steps: Steps, middle_steps: Steps) -> Work:
    """Return how threads share the reduction of an axis."""
    side_by_side = columns > 1 and abs(x_steps[1]) < abs(x_steps[2])
    bits = 0 if n <= ALONE else min((n // 8).bit_length() - 1, TEAM_BITS)
    if side_by_side:
        # Threads side by side read whole sectors of 32 bytes or, where there are teams enough, whole lines of 128.
        together = min(columns, 32 if columns >= TEAMS * 4 else 8)
        bits = min(bits, TEAM_BITS - (together - 1).bit_length())
    lanes = 1 << bits
    groups = -(-rows * columns // (TEAM >> bits))
    chunks = max(min(-(-TEAMS // groups), n // max(CHUNK, 16 * lanes)), 1)
    length = -(-n // (chunks * lanes)) * lanes  # a multiple of the lanes, so that no chunk is much shorter
    return Work(rows, columns, n, x_steps, out_steps, middle_steps, side_by_side, bits, groups, length)


# -- launches


def launch(device: KernelDevice, name: str, work: Work, x: View, out: View, middle: View | None) -> None:
    """Launch what reduces an axis: once, or a second time for the results of its chunks."""
    chunks, outputs = -(-work.n // work.length), work.rows * work.columns
    beside = () if middle is None else (middle,)
    if chunks == 1:
        with device.accessing((x, *beside), (out,)):
            _launch(device, name, work, (x, out, middle, None))
        return
    searching = name in SEARCHING
    part = device.empty(View, (chunks, outputs), out.dtype)
    values = device.empty(View, (chunks, outputs), x.dtype) if searching else None
    source = part if values is None else values
    steps, part_steps = [(work.columns * size, size, outputs * size) for size in (source.itemsize, part.itemsize)]
    again = shared(work.rows, work.columns, chunks, steps, work.out_steps, (0, 0))._replace(length=chunks)
    first = work._replace(out_steps=part_steps, middle_steps=steps if searching else work.middle_steps)
    with device.accessing((x, *beside), (out, part, *(() if values is None else (values,)))):
        _launch(device, name, first, (x, part, values if searching else middle, None))
        _launch(device, AGAIN.get(name, name), again, (source, out, None, part if searching else None))


def _launch(device: KernelDevice, name: str, work: Work, operands: tuple[Any, ...]) -> None:
    """Launch a kernel of `reductions.reduction` on its four arrays, of which some are None."""
    x, out = operands[:2]
    device.launch(
        reductions.reduction(name, x.dtype, out.dtype),
        work.groups * -(-work.n // work.length) * TEAM,
        *[0 if y is None else device.address(y) for y in operands],
        work.rows,
        work.columns,
        work.n,
        work.length,
        work.x_steps,
        (*work.out_steps, 0)[:3],
        (*work.middle_steps, 0)[:3],
        work.bits,
        int(work.side_by_side),
    )
