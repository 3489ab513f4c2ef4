"""Index arrays and masks.

A key is taken apart as NumPy does it.  What index arrays and masks select together becomes one table of places, which
the kernels look up: how many bytes each element, or each part of the array, is from the first.  Indices in host memory
are checked there, and their table is sent; those on the device are checked by the kernel that makes the table.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import prod
from operator import index as as_int
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from nbdlpack import layout
from nbdlpack.devices.kernelled import elementwise, moving
from nbdlpack.devices.kernelled.moving import Operand
from nbdlpack.dtypes import BOOL, INT64, UINT8, result_type
from nbdlpack.kernels import selection as kernels
from nbdlpack.kernels.elementwise import masked_copy_kernel
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from nbdlpack.devices.kernelled import KernelDevice
    from nbdlpack.layout import Shape, Steps

    V = TypeVar("V", bound=View)

# -- keys

_VALID = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) "
    "and integer or boolean arrays are valid indices"
)


def _part(device: KernelDevice, key: Any) -> Any:
    """Return a part of a key as None, a slice, an ellipsis, an int, a bool, or an array of integers or bools."""
    if key is None or key is Ellipsis or isinstance(key, (slice, bool)):
        return key
    if isinstance(key, (View, np.ndarray)):
        if key.dtype == BOOL and not key.ndim:
            return bool(device.to_host(key) if isinstance(key, View) else key)
        if key.dtype.kind not in "biu":
            msg = "arrays used as indices must be of integer (or boolean) type"
            raise IndexError(msg)
        return key
    if isinstance(key, np.bool):
        return bool(key)
    if isinstance(key, (list, tuple)):
        a = np.asarray(key)
        if a.size and a.dtype.kind not in "biu":
            raise IndexError(_VALID)
        return a if a.size else a.astype(INT64)
    try:
        return as_int(key)
    except TypeError:
        raise IndexError(_VALID) from None


def _parts(device: KernelDevice, key: Any, ndim: int) -> list[Any]:
    """Return the parts of a key, as many as an array with so many dimensions needs."""
    parts = [_part(device, part) for part in (key if isinstance(key, tuple) else (key,))]
    taken = sum([_dims(part) for part in parts])
    if taken > ndim:
        msg = f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed"
        raise IndexError(msg)
    ellipses = sum([part is Ellipsis for part in parts])
    if ellipses > 1:
        msg = "an index can only have a single ellipsis ('...')"
        raise IndexError(msg)
    return parts if ellipses else [*parts, Ellipsis]


def _dims(part: Any) -> int:
    """Return of how many dimensions a part of a key selects."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.ndim if _is_mask(part) else 1


def _is_mask(part: Any) -> bool:
    return isinstance(part, (View, np.ndarray)) and part.dtype == BOOL


class Index(NamedTuple):
    """What selects from one axis."""

    axis: int
    length: int
    step: int
    """In bytes."""
    values: View | np.ndarray[Any, Any]

    def check(self, a: Any) -> np.ndarray[Any, Any]:
        """Return indices counted from the front.  Raises IndexError if one is not in the axis."""
        a = a.astype(INT64)
        n = self.length
        bad = a[(a < -n) | (a >= n)]
        if bad.size:
            msg = f"index {bad[0]} is out of bounds for axis {self.axis} with size {n}"
            raise IndexError(msg)
        found: np.ndarray[Any, Any] = np.where(a < 0, a + n, a)
        return found


class Mask(NamedTuple):
    """What selects from several axes."""

    values: View
    steps: Steps


class Key(NamedTuple):
    """A key, taken apart: what is left of an array, and what index arrays and masks select from the rest."""

    offset: int
    """In bytes."""
    shape: Shape
    """Of what is left."""
    steps: Steps
    where: int
    """Before which dimension of what is left that of the index arrays are."""
    indices: list[Index]
    masks: list[Mask]
    shapes: list[Shape]
    """Of what the index arrays are broadcast with."""

    def result(self, selected: Shape) -> Shape:
        """Return the shape of what is selected, from the shape that the index arrays have together."""
        return self.shape[: self.where] + selected + self.shape[self.where :]

    def among(self, selected: Sequence[int]) -> Steps:
        """Return the steps of an array that is indexed, with given ones along what the index arrays select."""
        return self.steps[: self.where] + tuple(selected) + self.steps[self.where :]

    def beside(self, selected: Sequence[int]) -> Steps:
        """Return the steps of something that has dimensions only along what the index arrays select."""
        return (0,) * self.where + tuple(selected) + (0,) * (len(self.shape) - self.where)


def parse(device: KernelDevice, x: View, key: Any) -> Key:
    """Take a key apart."""
    parts = _parts(device, key, x.ndim)
    offset, axis, where = 0, 0, -1
    left: list[tuple[int, int]] = []
    found = Key(0, (), (), 0, [], [], [])
    for part in parts:
        n, step = (x.shape[axis], x.strides[axis]) if axis < x.ndim else (0, 0)
        if part is None:
            left.append((1, 0))
        elif part is Ellipsis:
            rest = x.ndim - sum([_dims(other) for other in parts])
            left += zip(x.shape[axis : axis + rest], x.strides[axis : axis + rest], strict=True)
            axis += rest
        elif isinstance(part, slice):
            start, stop, stride = part.indices(n)
            length = len(range(start, stop, stride))
            left.append((length, step * stride if length > 1 else step))
            offset += start * step if length else 0
            axis += 1
        else:
            where = len(left) if where < 0 else where
            if isinstance(part, bool):
                found.shapes.append((int(part),))
            elif isinstance(part, int):
                if not -n <= part < n:
                    msg = f"index {part} is out of bounds for axis {axis} with size {n}"
                    raise IndexError(msg)
                offset += (part + n if part < 0 else part) * step
            elif _is_mask(part):
                _add_mask(found, x, axis, part)
            else:
                found.indices.append(Index(axis, n, step, part))
                found.shapes.append(part.shape)
            axis += _dims(part)
    advanced = [i for i, part in enumerate(parts) if not (part is None or part is Ellipsis or isinstance(part, slice))]
    if any(j != i + 1 for i, j in pairwise(advanced)):
        where = 0
    shape, steps = tuple([n for n, _ in left]), tuple([step for _, step in left])
    return found._replace(offset=offset, shape=shape, steps=steps, where=max(where, 0))


def _add_mask(found: Key, x: View, axis: int, part: Any) -> None:
    """Add a mask to a key: one in host memory as the positions of what is true in it."""
    shape = x.shape[axis : axis + part.ndim]
    for i, (n, m) in enumerate(zip(shape, part.shape, strict=True)):
        if n != m:
            msg = (
                f"boolean index did not match indexed array along axis {axis + i}; "
                f"size of axis is {n} but size of corresponding boolean axis is {m}"
            )
            raise IndexError(msg)
    steps = x.strides[axis : axis + part.ndim]
    if isinstance(part, View):
        found.masks.append(Mask(part, steps))
        return
    for i, positions in enumerate(np.nonzero(part)):
        found.indices.append(Index(axis + i, shape[i], steps[i], positions))
        found.shapes.append(positions.shape)


# -- places


class Places(NamedTuple):
    """What index arrays and masks select."""

    shape: Shape
    table: View
    bad: View | None
    """A byte that is not 0 if an index on the device was not in its axis, once that is known."""
    unique: bool
    """Whether no two places are the same."""


def _places(device: KernelDevice, key: Key) -> Places:
    """Return what a key selects.  Blocks if a mask on the device is part of it."""
    counted = [(mask, _positions(device, mask.values)) for mask in key.masks]
    shape = _together([*key.shapes, *[positions.shape for _, positions in counted]])
    table = device.empty(View, shape, INT64, zeros=True)
    if not table.size:
        return Places(shape, table, None, unique=True)
    if len(counted) == 1 and not key.indices:
        mask, positions = counted[0]
        _spread(device, table, positions, mask.values.shape, mask.steps)
        return Places(shape, table, None, unique=True)
    known = [index for index in key.indices if not isinstance(index.values, View)]
    asked = [index for index in key.indices if isinstance(index.values, View)]
    if known:
        places = np.zeros(shape, INT64)
        for index in known:
            places += index.check(index.values) * index.step
        device.assign(table, places)
    for mask, positions in counted:
        asked += _coordinates(device, mask, positions)
    bad = device.empty(View, (1,), UINT8, zeros=True) if asked else None
    for index in asked:
        _look_up(device, table, index, bad)
    return Places(shape, table, bad, unique=False)


def _together(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that index arrays have together."""
    try:
        return layout.broadcast_shapes(*shapes)
    except ValueError:
        listed = " ".join([str(shape).replace(" ", "") for shape in shapes])
        msg = f"shape mismatch: indexing arrays could not be broadcast together with shapes {listed}"
        raise IndexError(msg) from None


def _look_up(device: KernelDevice, table: View, index: Index, bad: Any) -> None:
    """Add to places what the indices on the device are along one axis."""
    values: Any = index.values
    if values.dtype != INT64:
        values = device.empty(View, values.shape, INT64)
        device.assign(values, index.values)
    with device.accessing((values,), (table, bad)):
        operands = moving.operand(device, table), moving.operand(device, values, table.shape)
        visit = moving.visited(table.shape, operands)
        moving.launch(device, kernels.look_up, visit, index.length, index.step, device.address(bad), in_flight=1)


def _check(device: KernelDevice, key: Key, places: Places) -> None:
    """Raise IndexError if an index on the device was not in its axis.  Blocks if there were any."""
    if places.bad is not None and device.to_host(places.bad)[0]:
        for index in key.indices:
            if isinstance(index.values, View):
                index.check(device.to_host(index.values))
        msg = "an index was out of bounds, and has been changed since"  # by another stream or thread
        raise IndexError(msg)


def _spread(device: KernelDevice, table: View, positions: View, shape: Shape, steps: Steps) -> None:
    """Add to places what positions in C order in an array of some shape and steps are."""
    shape, (steps,) = layout.coalesced(shape, [steps], ordered=True)
    inner = 1
    while shape:
        part, along = shape[-4:], steps[-4:]
        missing, span = 4 - len(part), prod(part)
        with device.accessing((positions,), (table,)):
            addresses, n = (device.address(table), device.address(positions)), positions.size
            lengths, strides = (1,) * missing + part, (0,) * missing + along
            device.launch(kernels.spread(), n, *addresses, n, inner, span, lengths, strides)
        shape, steps, inner = shape[:-4], steps[:-4], inner * span


def _coordinates(device: KernelDevice, mask: Mask, positions: View) -> list[Index]:
    """Return index arrays for the axes of a mask."""
    found = []
    for i, coordinates in enumerate(_unravelled(device, View, positions, mask.values.shape)):
        found.append(Index(0, mask.values.shape[i], mask.steps[i], coordinates))
    return found


def _unravelled(device: KernelDevice, cls: type[V], positions: View, shape: Shape) -> list[V]:
    """Return positions along each axis, from positions in C order."""
    found = []
    for i in range(len(shape)):
        coordinates = device.empty(cls, positions.shape, INT64, zeros=True)
        if coordinates.size:
            steps = tuple([int(i == axis) for axis in range(len(shape))])
            _spread(device, coordinates, positions, shape, steps)
        found.append(coordinates)
    return found


# -- masks


def _positions(device: KernelDevice, mask: View) -> View:
    """Return the positions in C order of what is true in a mask.  Blocks for their number."""
    n = mask.size
    if not n:
        return device.empty(View, (0,), INT64)
    if not mask._contiguous & 1 or device.address(mask) % moving.WIDEST:
        mask = moving.compact(device, mask)
    chunks = -(-n // kernels.MASKED)
    counts = device.empty(View, (chunks,), INT64)
    with device.accessing((mask,), (counts,)):
        device.launch(kernels.count(), chunks, device.address(counts), device.address(mask), n)
    found = device.empty(View, (int(device.to_host(_accumulate(device, counts))[0]),), INT64)
    if found.size:
        with device.accessing((counts, mask), (found,)):
            addresses = [device.address(x) for x in (found, counts, mask)]
            device.launch(kernels.positions(), chunks, *addresses, n)
    return found


def _accumulate(device: KernelDevice, numbers: View, *, inclusive: bool = False) -> View:
    """Make each number the sum of those before it, or of those and itself; return the sum of all."""
    dtype = numbers.dtype
    levels = [numbers]
    while len(levels) == 1 or levels[-1].size > 1:
        below = levels[-1]
        n = below.size
        sums = device.empty(View, (-(-n // kernels.CHUNK),), dtype)
        with device.accessing((below,), (sums,)):
            device.launch(kernels.totals(dtype), sums.size, device.address(sums), device.address(below), n)
        levels.append(sums)
    total, above = levels.pop(), None
    while levels:
        below = levels.pop()
        kernel, n = kernels.running(dtype, inclusive and not levels), below.size
        with device.accessing(() if above is None else (above,), (below,)):
            address, before = device.address(below), 0 if above is None else device.address(above)
            device.launch(kernel, -(-n // kernels.CHUNK), address, address, n, before)
        above = below
    return total


def nonzero(device: KernelDevice, cls: type[V], x: View) -> tuple[V, ...]:
    """Return the positions of the elements that are not zero, an array for each dimension.  Blocks for their number."""
    if not x.ndim:
        msg = "nonzero of an array without dimensions: make it one with one, x.reshape(1).nonzero()"
        raise ValueError(msg)
    mask = x
    if x.dtype != BOOL:
        mask = device.empty(View, x.shape, BOOL)
        device.assign(mask, x)
    return tuple(_unravelled(device, cls, _positions(device, mask), x.shape))


# -- reading and writing


def gather(device: KernelDevice, cls: type[V], x: View, key: Any) -> V:
    """Return ``x[key]`` in new memory.  Blocks for indices and masks on the device."""
    found = parse(device, x, key)
    places = _places(device, found)
    new = device.empty(cls, found.result(places.shape), x.dtype)
    if new.size and x.size:
        along = found.beside(places.table.strides)
        with device.accessing((x, places.table), (new,)):
            source = Operand(device.address(x) + found.offset, found.among((0,) * len(places.shape)))
            moved, table = (moving.operand(device, new), source), Operand(device.address(places.table), along)
            word, visit = moving.by_words(new.shape, x.itemsize, moved, (table,), _steps(found))
            moving.launch(device, partial(kernels.gather, word), visit, in_flight=1)
    _check(device, found, places)
    return new


def take(device: KernelDevice, cls: type[V], x: View, indices: Any, axis: int) -> V:
    """Return the elements at indices along an axis, in new memory.  Blocks for indices on the device."""
    return gather(device, cls, x, (slice(None),) * axis + (indices,))


def concat(device: KernelDevice, cls: type[V], *arguments: Any) -> V:
    """Return arrays put one after the other, in new memory: along an axis, in a shape and dtype, the last arguments."""
    *arrays, axis, shape, dtype = arguments
    new = device.empty(cls, shape, dtype)
    where, start = axis or 0, 0
    for x in arrays:
        if axis is None:
            x = moving.compact(device, x) if not x._contiguous & 1 else x
            x = x._view(View, 0, x.dtype, 0, (x.size,), (1,))
        if x.size:
            offset = start * new.strides[where]
            device.assign(new._view(View, offset, dtype, 0, x.shape, new._steps), x)
        start += x.shape[where]
    return new


def count_nonzero(device: KernelDevice, cls: type[V], x: View, axis: Any, keepdims: bool) -> V:
    """Return how many elements are not zero along axes."""
    axes = layout.normalize_axes(axis, x.ndim)
    if x.dtype != BOOL:
        mask = device.empty(View, x.shape, BOOL)
        device.assign(mask, x)
        x = mask
    new = device.empty(cls, layout.reduced_shape(x.shape, axes, keepdims=keepdims), INT64)
    device.reduce("sum", x, new, axes, {"keepdims": keepdims, "dtype": INT64})
    return new


def where(device: KernelDevice, cls: type[V], condition: Any, x1: Any, x2: Any) -> V:
    """Return the elements of one operand where a condition is true, and those of another elsewhere, in new memory."""
    operands = [x if isinstance(x, View) else np.asarray(x) for x in (condition, x1, x2)]
    kinds = [getattr(x, "dtype", x) for x in (x1, x2)]
    dtype, shape = result_type(*kinds), layout.broadcast_shapes(*[x.shape for x in operands])
    new = device.empty(cls, shape, dtype)
    mask = device.empty(View, operands[0].shape, BOOL)
    device.assign(mask, operands[0])
    if new.size:
        device.assign(new, x2)
        elementwise.assign_masked(device, new, x1, mask)
    return new


def _steps(key: Key) -> list[int]:
    """Return what places are sums of multiples of."""
    return [index.step for index in key.indices] + [step for mask in key.masks for step in mask.steps]


def scatter(device: KernelDevice, x: View, key: Any, value: Any) -> None:
    """Write ``x[key] = value``; of several values for one element, the last in C order.

    Blocks for indices on the device, and for masks there if it matters how much they select.
    """
    found = parse(device, x, key)
    if not isinstance(value, View):
        value = np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value, x.dtype)
        value = value.astype(x.dtype, copy=False)
    lone = len(found.masks) == 1 and not found.indices and all(shape == (1,) for shape in found.shapes)
    whole = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if value.ndim > 1 and _is_mask(whole) and whole.ndim == x.ndim:
        msg = f"what is assigned to all elements that a mask selects must have 0 or 1 dimensions, not {value.ndim}"
        raise TypeError(msg)
    if lone and value.size == 1 and not isinstance(value, View) and device.address(x) % x.itemsize == 0:
        _fill_masked(device, x, found, value)
        return
    if not isinstance(value, View):
        value = device.from_host(View, value)
    if lone and _is_same(value, found):
        _write_masked(device, x, found, value)
    else:
        _write(device, x, found, value)


def _is_same(value: View, key: Key) -> bool:
    """Return whether a value has the same for all that a single mask selects."""
    behind = len(key.shape) - key.where  # how many dimensions come after that of the mask
    return value.ndim <= behind or value.shape[-1 - behind] == 1


def _fitted(device: KernelDevice, x: View, value: View, shape: Shape) -> tuple[View, Steps]:
    """Return a value in the dtype of an array that it does not overlap, and its strides for a shape."""
    extra = max(value.ndim - len(shape), 0)
    try:
        strides: Steps | None = layout.broadcast_steps(value.shape[extra:], value.strides[extra:], shape)
    except ValueError:
        strides = None
    if strides is None or prod(value.shape[:extra]) != 1:
        listed = [str(one).replace(" ", "") for one in (value.shape, shape)]
        msg = "shape mismatch: value array of shape {} could not be broadcast to indexing result of shape {}"
        raise ValueError(msg.format(*listed))
    if value.dtype != x.dtype:
        cast = device.empty(View, value.shape, x.dtype)
        device.assign(cast, value)
        value = cast
    elif moving.overlap(device, x, value):
        value = moving.compact(device, value)
    return value, layout.broadcast_steps(value.shape[extra:], value.strides[extra:], shape)


def _fill_masked(device: KernelDevice, x: View, key: Key, a: npt.NDArray[Any]) -> None:
    """Write one element to all that a mask selects, however much that is."""
    shape, mask = _apart(device, x, key)
    if 0 in shape:
        return
    with device.accessing((mask,), (x,)):
        target, other = _masked(device, x, key, mask)
        word, visit = moving.by_words(shape, x.itemsize, (target,), (other,))
        sixteen = moving.halves(moving.pattern(a))
        moving.launch(device, partial(kernels.masked_fill, word), visit, *sixteen, in_flight=1)


def _write_masked(device: KernelDevice, x: View, key: Key, value: View) -> None:
    """Write the same to all that a mask selects, however much that is."""
    value, strides = _fitted(device, x, value, key.result((1,)))
    shape, mask = _apart(device, x, key)
    if 0 in shape:
        return
    strides = strides[: key.where] + (0,) * mask.ndim + strides[key.where + 1 :]
    with device.accessing((value, mask), (x,)):
        target, other = _masked(device, x, key, mask)
        moved = target, Operand(device.address(value), strides)
        word, visit = moving.by_words(shape, x.itemsize, moved, (other,))
        moving.launch(device, partial(masked_copy_kernel, word), visit, in_flight=1)


def _apart(device: KernelDevice, x: View, key: Key) -> tuple[Shape, View]:
    """Return the shape of what a single mask selects from, and the mask, which does not overlap the array."""
    mask = key.masks[0].values
    return key.result(mask.shape), moving.compact(device, mask) if moving.overlap(device, x, mask) else mask


def _masked(device: KernelDevice, x: View, key: Key, mask: View) -> tuple[Operand, Operand]:
    """Return what a single mask selects from, and the mask, both of one shape."""
    target = Operand(device.address(x) + key.offset, key.among(key.masks[0].steps))
    return target, Operand(device.address(mask), key.beside(mask.strides))


def _write(device: KernelDevice, x: View, key: Key, value: View) -> None:
    """Write to places."""
    places = _places(device, key)
    shape = key.result(places.shape)
    value, strides = _fitted(device, x, value, shape)
    if 0 not in shape and x.size:
        selected = range(key.where, key.where + len(places.shape))
        if not places.unique and any(shape[axis] > 1 and strides[axis] for axis in selected):
            _keep_last(device, places.table)
        # Neighbours in the array are to be written by neighbouring threads.
        steps, target = _steps(key), key.among((0,) * len(places.shape))
        apart = min([abs(step) for step in steps], default=0)
        order = sorted(range(len(shape)), key=lambda axis: -(apart if axis in selected else abs(target[axis])))
        shape, target, strides, table = [
            tuple([numbers[axis] for axis in order])
            for numbers in (shape, target, strides, key.beside(places.table.strides))
        ]
        bad = () if places.bad is None else (places.bad,)
        with device.accessing((value, places.table, *bad), (x,)):
            moved = Operand(device.address(x) + key.offset, target), Operand(device.address(value), strides)
            others = (Operand(device.address(places.table), table),)
            word, visit = moving.by_words(shape, x.itemsize, moved, others, steps, ordered=True)
            flag = device.address(bad[0]) if bad else 0
            moving.launch(device, partial(kernels.scatter, word), visit, flag, in_flight=1)
    _check(device, key, places)


def _keep_last(device: KernelDevice, table: View) -> None:
    """Leave out places that come once more."""
    n = table.size
    slots = 2 << n.bit_length()  # at least twice as many
    taken = device.empty(View, (slots, 2), INT64, zeros=True)
    with device.accessing((), (taken, table)):
        args = (device.address(taken), slots - 1, device.address(table), n)
        device.launch(kernels.claim(), n, *args)
        device.launch(kernels.keep_last(), n, *args)
