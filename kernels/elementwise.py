"""Kernels that apply a scalar function to each element of their operands.

An operand is an address, and a step or four steps in bytes; if its address is 0 it is a value instead, the same for all
elements, which the kernel is given as an argument: a Python number needs no memory.  One such kernel takes

    in one dimension        target, operands; n; the target's step, the operands' steps; the operands' values
    in four                 target, operands; n, shape; the target's steps, the operands' steps; the operands' values

What there is little to compute of is done several elements at a time, whose loads are all under way before the first
of them is waited for.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from nbdlpack.dtypes import BOOL
from nbdlpack.kernels.access import ACCESS, WORDS, Access, indices, offset
from nbdlpack.kernels.numba_cuda import Kernel, cuda, device_function, types
from nbdlpack.kernels.scalars import HEAVY, loaded_as, scalar_function

if TYPE_CHECKING:
    import numpy as np

__all__ = ["elementwise_kernel", "masked_copy_kernel"]

_STEPS: Final = types.UniTuple(types.int64, 4)


def _signature(arrays: int, form: str) -> tuple[Any, ...]:
    """Return the types of the parameters of a kernel of so many arrays, before the values."""
    addresses = (types.uint64,) * arrays
    if form == "1-d":
        return addresses + (types.int64,) * (1 + arrays)
    return (*addresses, types.int64, *(_STEPS,) * (1 + arrays))


# What kernels have in common is in functions that are compiled once for all of them: how long a kernel takes to compile
# goes with the length of its text.


@cache
def _fetch(load: Any) -> Any:
    """Return what gives the k-th element of an operand, or the operand if it is a value."""

    @device_function
    def fetch(x, k, step, value):
        return load(x + types.uint64(k * step)) if x != 0 else value

    return fetch


@cache
def _put(store: Any) -> Any:
    """Return what stores the k-th element."""

    @device_function
    def put(target, k, step, value):
        store(target + types.uint64(k * step), value)

    return put


def _map(f: Any, operands: tuple[Access, ...], store: Any, *, heavy: bool) -> dict[str, Any]:
    """Return the kernels of a function of one operand."""
    fetch, put = _fetch(operands[0].load), _put(store)

    def in_one_dimension(target, x, n, to, x_step, x_value):
        k = types.int64(cuda.grid(1))
        threads = types.int64(cuda.gridsize(1))
        if not heavy:
            while k + 3 * threads < n:
                k1 = k + threads
                k2 = k1 + threads
                k3 = k2 + threads
                x0 = fetch(x, k, x_step, x_value)
                x1 = fetch(x, k1, x_step, x_value)
                x2 = fetch(x, k2, x_step, x_value)
                x3 = fetch(x, k3, x_step, x_value)
                put(target, k, to, f(x0))
                put(target, k1, to, f(x1))
                put(target, k2, to, f(x2))
                put(target, k3, to, f(x3))
                k = k3 + threads
        while k < n:
            put(target, k, to, f(fetch(x, k, x_step, x_value)))
            k += threads

    def in_four_dimensions(target, x, n, shape, to, x_steps, x_value):
        k = types.int64(cuda.grid(1))
        while k < n:
            index = indices(k, shape)
            put(target, 1, offset(index, to), f(fetch(x, 1, offset(index, x_steps), x_value)))
            k += types.int64(cuda.gridsize(1))

    return {"1-d": in_one_dimension, "4-d": in_four_dimensions}


def _zip(f: Any, operands: tuple[Access, ...], store: Any, *, heavy: bool) -> dict[str, Any]:
    """Return the kernels of a function of two operands."""
    fetch_x, fetch_y, put = _fetch(operands[0].load), _fetch(operands[1].load), _put(store)

    def in_one_dimension(target, x, y, n, to, x_step, y_step, x_value, y_value):
        k = types.int64(cuda.grid(1))
        threads = types.int64(cuda.gridsize(1))
        if not heavy:
            while k + 3 * threads < n:
                k1 = k + threads
                k2 = k1 + threads
                k3 = k2 + threads
                x0, y0 = fetch_x(x, k, x_step, x_value), fetch_y(y, k, y_step, y_value)
                x1, y1 = fetch_x(x, k1, x_step, x_value), fetch_y(y, k1, y_step, y_value)
                x2, y2 = fetch_x(x, k2, x_step, x_value), fetch_y(y, k2, y_step, y_value)
                x3, y3 = fetch_x(x, k3, x_step, x_value), fetch_y(y, k3, y_step, y_value)
                put(target, k, to, f(x0, y0))
                put(target, k1, to, f(x1, y1))
                put(target, k2, to, f(x2, y2))
                put(target, k3, to, f(x3, y3))
                k = k3 + threads
        while k < n:
            put(target, k, to, f(fetch_x(x, k, x_step, x_value), fetch_y(y, k, y_step, y_value)))
            k += threads

    def in_four_dimensions(target, x, y, n, shape, to, x_steps, y_steps, x_value, y_value):
        k = types.int64(cuda.grid(1))
        while k < n:
            index = indices(k, shape)
            x0 = fetch_x(x, 1, offset(index, x_steps), x_value)
            y0 = fetch_y(y, 1, offset(index, y_steps), y_value)
            put(target, 1, offset(index, to), f(x0, y0))
            k += types.int64(cuda.gridsize(1))

    return {"1-d": in_one_dimension, "4-d": in_four_dimensions}


@cache
def elementwise_kernel(name: str, loop: tuple[np.dtype[Any], ...], form: str) -> Kernel:
    """Return what applies one of `scalars.TABLE`.

    Parameters
    ----------
    name : str
        The name of NumPy's ufunc.
    loop : tuple of dtype
        The dtypes of the operands and of the result.
    form : {'1-d', '4-d'}
        What the kernel takes, as the module's docstring says; values have the type that the operand is computed in.

    Raises
    ------
    KeyError
        If there is no such function of such operands.
    """
    *given, result = loop
    function = scalar_function(name, *given)
    accesses = tuple([ACCESS[loaded_as(name, dtype)] for dtype in given])
    lift = _map if len(given) == 1 else _zip
    kernels = lift(function, accesses, ACCESS[loaded_as(name, result)].store, heavy=name in HEAVY)
    signature = _signature(len(loop), form) + tuple([access.type for access in accesses])
    return Kernel(f"{name}({', '.join(map(str, given))}) to {result} {form}", kernels[form], signature)


@cache
def masked_copy_kernel(word: int, form: str) -> Kernel:
    """Return what copies the words for which a mask is true; it takes target, source and mask, and no values."""
    load, store, load_mask = WORDS[word].load, WORDS[word].store, ACCESS[BOOL].load

    def in_one_dimension(target, x, mask, n, to, x_step, mask_step):
        k = types.int64(cuda.grid(1))
        while k < n:
            if load_mask(mask + types.uint64(k * mask_step)):
                store(target + types.uint64(k * to), load(x + types.uint64(k * x_step)))
            k += types.int64(cuda.gridsize(1))

    def in_four_dimensions(target, x, mask, n, shape, to, x_steps, mask_steps):
        k = types.int64(cuda.grid(1))
        while k < n:
            index = indices(k, shape)
            if load_mask(mask + types.uint64(offset(index, mask_steps))):
                x0 = load(x + types.uint64(offset(index, x_steps)))
                store(target + types.uint64(offset(index, to)), x0)
            k += types.int64(cuda.gridsize(1))

    kernels = {"1-d": in_one_dimension, "4-d": in_four_dimensions}
    return Kernel(f"masked copy {form} of {word} byte words", kernels[form], _signature(3, form))
