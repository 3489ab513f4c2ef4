"""What a key in brackets selects.

Basic keys (integers, slices, ``...`` and ``newaxis``) are arithmetic of shapes and steps, and select a view.  All other
keys, those with index arrays, lists or masks, are advanced: they are left to the device, and select a copy.
"""

from __future__ import annotations

from operator import index
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import engine
from nbdlpack.native import View

if TYPE_CHECKING:
    from nbdlpack.layout import Shape, Steps


def basic(key: Any, shape: Shape, steps: Steps) -> tuple[int, Shape, Steps] | None:
    """Return the offset in elements, the shape and the steps that a basic key selects; None if it is advanced.

    Raises
    ------
    IndexError
        If it has too many indices, or one that is out of bounds.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if not all(_is_basic(k) for k in keys):
        return None
    taken = sum([k is not None and k is not Ellipsis for k in keys])
    if taken > len(shape):
        raise IndexError(_too_many(len(shape), taken))
    if sum([k is Ellipsis for k in keys]) > 1:
        msg = "an index can only have a single ellipsis ('...')"
        raise IndexError(msg)
    rest = len(shape) - taken
    offset, axis = 0, 0
    new_shape: list[int] = []
    new_steps: list[int] = []
    for k in keys:
        if k is None:
            new_shape.append(1)
            new_steps.append(0)
        elif k is Ellipsis:
            new_shape += shape[axis : axis + rest]
            new_steps += steps[axis : axis + rest]
            axis += rest
        else:
            n, step = shape[axis], steps[axis]
            if isinstance(k, slice):
                start, stop, stride = k.indices(n)
                length = len(range(start, stop, stride))
                new_shape.append(length)
                new_steps.append(step * stride if length > 1 else step)  # which may be too long for any memory
                offset += start * step if length else 0
            else:
                offset += position(k, n, axis) * step
            axis += 1
    new_shape += shape[axis:]
    new_steps += steps[axis:]
    # A selection of nothing begins where the array does, since what is behind the end is someone else's memory.
    return 0 if 0 in new_shape else offset, tuple(new_shape), tuple(new_steps)


def _is_basic(key: Any) -> bool:
    kind = type(key)
    if kind is int or kind is slice or key is None or kind is EllipsisType:
        return True
    if kind is bool or isinstance(key, (list, tuple, np.bool)):
        return False
    if isinstance(key, (View, np.ndarray)):
        return key.ndim == 0 and key.dtype.kind in "iu"
    return hasattr(kind, "__index__") or isinstance(key, slice)


def position(key: Any, n: int, axis: int) -> int:
    """Return an index into an axis of length `n`, counted from the front."""
    k = index(key)
    if not -n <= k < n:
        msg = f"index {k} is out of bounds for axis {axis} with size {n}"
        raise IndexError(msg)
    return k + n if k < 0 else k


def _too_many(ndim: int, taken: int) -> str:
    return f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed"


def get(x: View, key: Any, cls: type[Any]) -> Any:
    """Return ``x[key]``: of the array's class if it is a view, else of the class given."""
    found = basic(key, x.shape, x._steps)
    if found is None:
        return engine.gather(x, _advanced(key), cls)
    offset, shape, steps = found
    return x._view(type(x), offset * x.itemsize, x.dtype, x._flags, shape, steps)


def put(x: View, key: Any, value: Any) -> None:
    """Write ``x[key] = value``."""
    if key is Ellipsis or (type(key) is slice and key.start is key.stop is key.step is None and x.ndim):
        engine.assign(x, value)
        return
    found = basic(key, x.shape, x._steps)
    if found is None:
        engine.scatter(x, _advanced(key), value)
        return
    offset, shape, steps = found
    if not shape and (type(key) is int or not (isinstance(key, tuple) and Ellipsis in key)):
        value = engine.element(value)
    engine.assign_part(x, x._view(View, offset * x.itemsize, x.dtype, x._flags, shape, steps), value)


def _advanced(key: Any) -> Any:
    """Return a key in which nested sequences hold no arrays of ours."""
    if isinstance(key, tuple):
        return tuple([engine.hosted(k) if isinstance(k, (list, tuple)) else k for k in key])
    return engine.hosted(key) if isinstance(key, (list, tuple)) else key
