"""Copies, casts and fills.

What only moves is moved by words of 1 to 16 bytes, whatever the dtype; the caller chooses the widest word that fits
all addresses, strides and lengths.  What changes its dtype is loaded, converted and stored by elements.

Kernels for one dimension take one length, and a step for each operand; the others take four lengths, and four steps
for each.  Steps are in bytes.  Each thread has `IN_FLIGHT` loads under way before it stores, because a store that may
alias is what the compiler moves no load across.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from nbdlpack.kernels.access import ACCESS, WORDS, element, float64_to_odd_float32, indices
from nbdlpack.kernels.libm import product
from nbdlpack.kernels.numba_cuda import Kernel, cuda, device_function, types

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "IN_FLIGHT",
    "MAX_DIMS",
    "TILE",
    "arange",
    "cast",
    "converter",
    "copy",
    "fill",
    "joined",
    "transpose",
]

MAX_DIMS: Final = 4
IN_FLIGHT: Final = 4
"""How many elements a thread loads before it stores them, so that the latency of memory is waited for once."""
TILE: Final = 32
"""Rows and columns of what a block of a transpose has in shared memory."""
LAST: Final = TILE * TILE - 1

address, size, steps = types.uint64, types.int64, types.UniTuple(types.int64, MAX_DIMS)
byte: Final = WORDS[1]


# -- copies


@cache
def copy(word: int, form: str) -> Kernel:
    """Return what copies words.

    Parameters
    ----------
    word : int
        The bytes of a word.
    form : {'contiguous', '1-d', '4-d'}
        What the kernel takes: (target, source, head, words, tail), where head and tail are so many bytes before and
        after the words that lie at multiples of their size; (target, source, n, target's step, source's); or
        (target, source, n, shape, target's steps, source's).
    """
    return _moving(f"copy {form} of {word} byte words", WORDS[word], WORDS[word], None, form)


@cache
def cast(source: np.dtype[Any], target: np.dtype[Any], form: str) -> Kernel:
    """Return what copies elements of a dtype to another; `form` is '1-d' or '4-d', as for `copy`."""
    name = f"cast {source} to {target} {form}"
    return _moving(name, ACCESS[source], ACCESS[target], converter(source, target), form)


def _moving(name: str, given: Any, wanted: Any, convert: Any, form: str) -> Kernel:
    load, store, word = given.load, wanted.store, given.itemsize
    load_byte, store_byte = byte.load, byte.store
    if convert is None:

        @device_function
        def convert(x):
            return x

    def contiguous(target, source, head, words, tail):
        first = cuda.grid(1)
        threads = cuda.gridsize(1)
        k = first
        while k < head:
            store_byte(target + types.uint64(k), load_byte(source + types.uint64(k)))
            k += threads
        a = source + types.uint64(head)
        b = target + types.uint64(head)
        apart = types.uint64(threads * word)
        k = first
        while k + 3 * threads < words:
            i = types.uint64(k * word)
            x0 = load(a + i)
            x1 = load(a + i + apart)
            x2 = load(a + i + apart + apart)
            x3 = load(a + i + apart + apart + apart)
            store(b + i, x0)
            store(b + i + apart, x1)
            store(b + i + apart + apart, x2)
            store(b + i + apart + apart + apart, x3)
            k += 4 * threads
        while k < words:
            i = types.uint64(k * word)
            store(b + i, load(a + i))
            k += threads
        a += types.uint64(words * word)
        b += types.uint64(words * word)
        k = first
        while k < tail:
            store_byte(b + types.uint64(k), load_byte(a + types.uint64(k)))
            k += threads

    def in_one_dimension(target, source, n, target_step, source_step):
        k = cuda.grid(1)
        threads = cuda.gridsize(1)
        to = types.uint64(threads * target_step)
        of = types.uint64(threads * source_step)
        while k + 3 * threads < n:
            a = source + types.uint64(k * source_step)
            b = target + types.uint64(k * target_step)
            x0 = load(a)
            x1 = load(a + of)
            x2 = load(a + of + of)
            x3 = load(a + of + of + of)
            store(b, convert(x0))
            store(b + to, convert(x1))
            store(b + to + to, convert(x2))
            store(b + to + to + to, convert(x3))
            k += 4 * threads
        while k < n:
            store(target + types.uint64(k * target_step), convert(load(source + types.uint64(k * source_step))))
            k += threads

    def in_four_dimensions(target, source, n, shape, target_steps, source_steps):
        k = cuda.grid(1)
        threads = cuda.gridsize(1)
        while k + 3 * threads < n:
            i0 = indices(k, shape)
            i1 = indices(k + threads, shape)
            i2 = indices(k + 2 * threads, shape)
            i3 = indices(k + 3 * threads, shape)
            x0 = load(element(source, i0, source_steps))
            x1 = load(element(source, i1, source_steps))
            x2 = load(element(source, i2, source_steps))
            x3 = load(element(source, i3, source_steps))
            store(element(target, i0, target_steps), convert(x0))
            store(element(target, i1, target_steps), convert(x1))
            store(element(target, i2, target_steps), convert(x2))
            store(element(target, i3, target_steps), convert(x3))
            k += 4 * threads
        while k < n:
            i = indices(k, shape)
            store(element(target, i, target_steps), convert(load(element(source, i, source_steps))))
            k += threads

    function, parameters = {
        "contiguous": (contiguous, (size, size, size)),
        "1-d": (in_one_dimension, (size, size, size)),
        "4-d": (in_four_dimensions, (size, steps, steps, steps)),
    }[form]
    return Kernel(name, function, (address, address, *parameters))


@cache
def transpose(word: int) -> Kernel:
    """Return what copies words to where another axis is the contiguous one, by way of shared memory.

    Of a batch of matrices.  Both the loads and the stores of neighbouring threads are neighbours.  The kernel takes
    (target, source, batch, rows, columns, target's step of a matrix, of a row, source's step of a matrix, of a column):
    columns are neighbours in the target, rows in the source.
    """
    load, store, kind = WORDS[word].load, WORDS[word].store, WORDS[word].type
    pitch = TILE + 1  # so that a column is not in one bank of shared memory

    @device_function
    def inside(k, last_i, last_j, source_column):
        return types.uint64(min(k % TILE, last_i) * word + min(k // TILE, last_j) * source_column)

    def transposed(target, source, batch, rows, columns, target_matrix, target_row, source_matrix, source_column):
        tile = cuda.shared.array((TILE, pitch), kind)
        down = (rows + TILE - 1) // TILE
        across = (columns + TILE - 1) // TILE
        t = types.int64(cuda.blockIdx.x)
        while t < batch * down * across:
            matrix = t // (down * across)
            row = (t // across) % down * TILE
            column = t % across * TILE
            a = source + types.uint64(matrix * source_matrix + row * word + column * source_column)
            b = target + types.uint64(matrix * target_matrix + row * target_row + column * word)
            last_i = rows - row - 1
            last_j = columns - column - 1
            k = types.int64(cuda.threadIdx.x)
            threads = types.int64(cuda.blockDim.x)
            while k <= LAST:
                # What is outside has what is at the edge, so that no load has a condition to wait for.
                k1 = min(k + threads, LAST)
                k2 = min(k1 + threads, LAST)
                k3 = min(k2 + threads, LAST)
                x0 = load(a + inside(k, last_i, last_j, source_column))
                x1 = load(a + inside(k1, last_i, last_j, source_column))
                x2 = load(a + inside(k2, last_i, last_j, source_column))
                x3 = load(a + inside(k3, last_i, last_j, source_column))
                tile[k // TILE, k % TILE] = x0
                tile[k1 // TILE, k1 % TILE] = x1
                tile[k2 // TILE, k2 % TILE] = x2
                tile[k3 // TILE, k3 % TILE] = x3
                k += 4 * threads
            cuda.syncthreads()
            k = types.int64(cuda.threadIdx.x)
            while k <= LAST:
                i = k // TILE
                j = k % TILE
                if i <= last_i and j <= last_j:
                    store(b + types.uint64(i * target_row + j * word), tile[j, i])
                k += threads
            cuda.syncthreads()
            t += cuda.gridDim.x

    return Kernel(f"transpose of {word} byte words", transposed, (address, address) + (size,) * 7)


# -- casts: what NumPy gives

_BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)


@cache
def converter(source: np.dtype[Any], target: np.dtype[Any]) -> Callable[[Any], Any]:
    """Return what converts a loaded value of a dtype to one that can be stored as another.

    The results are NumPy's.  A complex number loses its imaginary part.  Integers wrap around.  A float becomes the
    integer next to it towards zero, by way of int64, so that -1.0 is 255 as a uint8; from what is no number, or larger
    than int64 has (or uint64, if that is the target), comes anything, as in NumPy, where it depends on the machine.
    Floats are rounded once; only those that become bfloat16 are rounded to float32 first, as ml_dtypes does.
    """
    given = source.kind if source != _BFLOAT16 else "f"
    wanted = target.kind if target != _BFLOAT16 else "f"
    kind = ACCESS[target].type

    if given == "c" and wanted not in "cb":
        half = converter(np.dtype(f"f{source.itemsize // 2}"), target)

        def convert(x):
            return half(x.real)

    elif wanted == "b":
        zero = ACCESS[source].type(0) if given != "c" else 0

        def convert(x):
            return x != zero

    elif wanted == "c":
        part = types.float32 if target.itemsize == 8 else types.float64
        if given == "c":

            def convert(x):
                return complex(part(x.real), part(x.imag))

        else:
            none = np.float32(0) if target.itemsize == 8 else np.float64(0)

            def convert(x):
                return complex(part(x), none)

    elif given == "f" and target == np.uint64:

        def convert(x):
            return types.uint64(types.int64(x)) if x < 0 else types.uint64(x)

    elif given == "f" and wanted in "iu":

        def convert(x):
            return kind(types.int64(x))

    elif source == np.float64 and target == np.float16:
        return float64_to_odd_float32

    else:

        def convert(x):
            return kind(x)

    return device_function(convert)


# -- fills


@cache
def joined(word: int) -> Any:
    """Return what makes a word of the lower and the upper eight bytes of sixteen."""
    kind = WORDS[word].type

    def join(low, high):
        return kind(low)

    def join_all(low, high):
        shift = types.uint64(32)
        return types.uint32(low), types.uint32(low >> shift), types.uint32(high), types.uint32(high >> shift)

    return device_function(join if word < 16 else join_all)


@cache
def fill(word: int, form: str) -> Kernel:
    """Return what stores one word everywhere, given as the lower and the upper eight bytes of sixteen.

    Parameters
    ----------
    word : int
        The bytes of a word.
    form : {'contiguous', '1-d', '4-d'}
        What the kernel takes: (target, head, words, tail, low, high) with words of 16 bytes, of which the last are the
        head and the first the tail; (target, n, step, low, high); or (target, n, shape, steps, low, high).
    """
    store, store_byte = WORDS[word].store, byte.store
    join = joined(word)

    @device_function
    def byte_of(low, high, k):
        half = low if k < 8 else high
        return types.uint8(half >> types.uint64(8 * (k % 8)))

    def contiguous(target, head, words, tail, low, high):
        first = cuda.grid(1)
        threads = cuda.gridsize(1)
        k = first
        while k < head:
            store_byte(target + types.uint64(k), byte_of(low, high, word - head + k))
            k += threads
        b = target + types.uint64(head)
        value = join(low, high)
        k = first
        while k < words:
            store(b + types.uint64(k * word), value)
            k += threads
        k = first
        while k < tail:
            store_byte(b + types.uint64(words * word + k), byte_of(low, high, k))
            k += threads

    def in_one_dimension(target, n, step, low, high):
        value = join(low, high)
        k = cuda.grid(1)
        while k < n:
            store(target + types.uint64(k * step), value)
            k += cuda.gridsize(1)

    def in_four_dimensions(target, n, shape, along, low, high):
        value = join(low, high)
        k = cuda.grid(1)
        while k < n:
            store(element(target, indices(k, shape), along), value)
            k += cuda.gridsize(1)

    function, parameters = {
        "contiguous": (contiguous, (size, size, size)),
        "1-d": (in_one_dimension, (size, size)),
        "4-d": (in_four_dimensions, (size, steps, steps)),
    }[form]
    return Kernel(f"fill {form} of {word} byte words", function, (address, *parameters, types.uint64, types.uint64))


@cache
def arange(dtype: np.dtype[Any]) -> Kernel:
    """Return what stores ``start + k * delta`` as the k-th element.

    The kernel takes (target, n, start, delta).  Product and sum are both rounded, as NumPy's are, and not fused.
    """
    itemsize, _, kind, _, store = ACCESS[dtype]
    number = kind.underlying_float if dtype.kind == "c" else kind

    if isinstance(number, types.Float):

        @device_function
        def along(start, delta, k):
            return start + product(number(k), delta)

    else:

        @device_function
        def along(start, delta, k):
            return number(start + number(k) * delta)

    if dtype.kind == "c":

        def numbers(target, n, start, delta):
            k = cuda.grid(1)
            while k < n:
                x = complex(along(start.real, delta.real, k), along(start.imag, delta.imag, k))
                store(target + types.uint64(k * itemsize), x)
                k += cuda.gridsize(1)

    else:

        def numbers(target, n, start, delta):
            k = cuda.grid(1)
            while k < n:
                store(target + types.uint64(k * itemsize), along(start, delta, k))
                k += cuda.gridsize(1)

    return Kernel(f"arange {dtype}", numbers, (address, size, kind, kind))
