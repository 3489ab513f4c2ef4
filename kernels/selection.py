"""Index arrays and masks: tables of places, what is moved to and from them, and positions of what is true.

A place is how many bytes an element is from the first one.  What an index array selects is a table of places, in
int64, one for each element of the index, which `gather` and `scatter` look up; a place `NOWHERE` is passed over.

Nothing here waits for another thread.  What is found by several blocks together takes several launches: counts are
added up by chunks (`totals`), the sums of chunks in the same way, and on the way back each chunk runs on from the sum
of those before it (`running`).
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Final

import numpy as np

from nbdlpack.kernels.access import ACCESS, WORDS, element, indices
from nbdlpack.kernels.copies import joined
from nbdlpack.kernels.numba_cuda import SIMULATED, Kernel, cuda, device_function, intrinsic, types

__all__ = [
    "CHUNK",
    "MASKED",
    "claim",
    "count",
    "gather",
    "keep_last",
    "look_up",
    "masked_fill",
    "positions",
    "running",
    "scatter",
    "spread",
    "totals",
]

NOWHERE: Final = -(1 << 63)
CHUNK: Final = 32
"""How many numbers one thread adds up."""
MASKED: Final = 64
"""Of how many elements of a mask one thread counts what is true: four times sixteen."""

address, size, steps = types.uint64, types.int64, types.UniTuple(types.int64, 4)
place: Final = ACCESS[np.dtype(np.int64)]
load_place, store_place = place.load, place.store
load_byte, store_byte = WORDS[1].load, WORDS[1].store
load_sixteen = WORDS[16].load


# -- what several threads do to one number at a time

if SIMULATED:
    _alone: Final = threading.Lock()

    def compare_and_swap(address, expected, value):
        with _alone:
            found = load_place(address)
            if found == expected:
                store_place(address, value)
            return found

    def at_least(address, value):
        with _alone:
            store_place(address, max(load_place(address), value))

else:
    from llvmlite import ir

    def _pointer(builder: Any, address: Any) -> Any:
        return builder.inttoptr(address, ir.PointerType(ir.IntType(64), addrspace=1))

    @intrinsic
    def compare_and_swap(typingctx, address, expected, value):
        """Store a number at an address if the expected one is there; return what was there."""

        def codegen(context, builder, signature, args):
            pair = builder.cmpxchg(_pointer(builder, args[0]), args[1], args[2], "monotonic", "monotonic")
            return builder.extract_value(pair, 0)

        return types.int64(types.uint64, types.int64, types.int64), codegen

    @intrinsic
    def at_least(typingctx, address, value):
        """Store a number at an address if a smaller one is there."""

        def codegen(context, builder, signature, args):
            builder.atomic_rmw("max", _pointer(builder, args[0]), args[1], "monotonic")
            return context.get_dummy_value()

        return types.void(types.uint64, types.int64), codegen


# -- from indices to places


@cache
def look_up(form: str) -> Kernel:
    """Return what adds to places what an index along one axis stands for.

    The kernel takes (table, index, n, steps, or n, shape, steps; length of the axis, its step, bad): index is int64,
    counted from the end if it is negative.  An index that is not in the axis writes 1 to `bad`, and adds nothing.
    """

    @device_function
    def add(table, index, length, step, bad):
        i = load_place(index)
        if i < 0:
            i += length
        if 0 <= i < length:
            store_place(table, load_place(table) + i * step)
        else:
            store_byte(bad, 1)

    def in_one_dimension(table, index, n, table_step, index_step, length, step, bad):
        k = types.int64(cuda.grid(1))
        while k < n:
            add(table + types.uint64(k * table_step), index + types.uint64(k * index_step), length, step, bad)
            k += types.int64(cuda.gridsize(1))

    def in_four_dimensions(table, index, n, shape, table_steps, index_steps, length, step, bad):
        k = types.int64(cuda.grid(1))
        while k < n:
            i = indices(k, shape)
            add(element(table, i, table_steps), element(index, i, index_steps), length, step, bad)
            k += types.int64(cuda.gridsize(1))

    function = {"1-d": in_one_dimension, "4-d": in_four_dimensions}[form]
    parameters = (size, size, size) if form == "1-d" else (size, steps, steps, steps)
    return Kernel(f"look up {form}", function, (address, address, *parameters, size, size, address))


@cache
def spread() -> Kernel:
    """Return what adds to places what positions in an array stand for, along four of its dimensions.

    The kernel takes (table, positions, n, inner, span, shape, steps): a position is counted in C order, `inner` is the
    number of elements of the dimensions after the four, and `span` that of the four.
    """

    def spread(table, positions, n, inner, span, shape, along):
        k = types.int64(cuda.grid(1))
        while k < n:
            i = types.uint64(k * 8)
            position = types.uint64(load_place(positions + i)) // types.uint64(inner) % types.uint64(span)
            at = element(types.uint64(load_place(table + i)), indices(position, shape), along)
            store_place(table + i, types.int64(at))
            k += types.int64(cuda.gridsize(1))

    return Kernel("spread", spread, (address, address, size, size, size, steps, steps))


# -- which of several indices of the same place is the last one: a hash table of places and positions


@device_function
def slot(slots, key, mask, probe):
    """Return the address of the slot that is looked at as the so manieth for a key."""
    mixed = ((key >> 31) ^ key) & 0x7FFFFFFF
    h = (mixed * 0x2545F491) >> 15
    return slots + types.uint64(((h + probe) & mask) * 16)


@cache
def claim() -> Kernel:
    """Return what enters places with the last position that each of them has.

    The kernel takes (slots, mask, table, n).  There are mask + 1 slots, a power of two and more than places, of a key
    and a position, 0 at first.
    """

    def claim(slots, mask, table, n):
        k = types.int64(cuda.grid(1))
        while k < n:
            key = load_place(table + types.uint64(k * 8)) * 2 + 1  # which is never 0
            probe = 0
            at = slot(slots, key, mask, probe)
            found = compare_and_swap(at, types.int64(0), key)
            while found != 0 and found != key:
                probe += 1
                at = slot(slots, key, mask, probe)
                found = compare_and_swap(at, types.int64(0), key)
            at_least(at + types.uint64(8), k + 1)
            k += types.int64(cuda.gridsize(1))

    return Kernel("claim", claim, (address, size, address, size))


@cache
def keep_last() -> Kernel:
    """Return what makes all positions of a place `NOWHERE` but the last; it takes what `claim` has taken before."""

    def keep_last(slots, mask, table, n):
        k = types.int64(cuda.grid(1))
        while k < n:
            at = table + types.uint64(k * 8)
            key = load_place(at) * 2 + 1
            probe = 0
            while load_place(slot(slots, key, mask, probe)) != key:
                probe += 1
            if load_place(slot(slots, key, mask, probe) + types.uint64(8)) != k + 1:
                store_place(at, NOWHERE)
            k += types.int64(cuda.gridsize(1))

    return Kernel("keep last", keep_last, (address, size, address, size))


# -- moving to and from places


@cache
def gather(word: int, form: str) -> Kernel:
    """Return what copies words from places.

    The kernel takes (target, source, table, n and a step for each, or n, shape and steps for each).
    """
    load, store = WORDS[word].load, WORDS[word].store

    def in_one_dimension(target, source, table, n, target_step, source_step, table_step):
        k = types.int64(cuda.grid(1))
        while k < n:
            at = load_place(table + types.uint64(k * table_step)) + k * source_step
            store(target + types.uint64(k * target_step), load(source + types.uint64(at)))
            k += types.int64(cuda.gridsize(1))

    def in_four_dimensions(target, source, table, n, shape, target_steps, source_steps, table_steps):
        k = types.int64(cuda.grid(1))
        threads = types.int64(cuda.gridsize(1))
        while k < n:
            i = indices(k, shape)
            at = types.uint64(load_place(element(table, i, table_steps)))
            store(element(target, i, target_steps), load(element(source + at, i, source_steps)))
            k += threads

    function = {"1-d": in_one_dimension, "4-d": in_four_dimensions}[form]
    return Kernel(f"gather {form} of {word} byte words", function, _of_three(form))


@cache
def scatter(word: int, form: str) -> Kernel:
    """Return what copies words to places, unless an index was bad.

    The kernel takes (target, source, table, n and a step for each, or n, shape and steps for each; bad), where `bad` is
    an address, or 0 if there is none.
    """
    load, store = WORDS[word].load, WORDS[word].store

    def in_one_dimension(target, source, table, n, target_step, source_step, table_step, bad):
        k = types.int64(cuda.grid(1))
        if bad != 0 and load_byte(bad) != 0:
            k = n
        while k < n:
            at = load_place(table + types.uint64(k * table_step))
            if at != NOWHERE:
                store(target + types.uint64(at + k * target_step), load(source + types.uint64(k * source_step)))
            k += types.int64(cuda.gridsize(1))

    def in_four_dimensions(target, source, table, n, shape, target_steps, source_steps, table_steps, bad):
        k = types.int64(cuda.grid(1))
        if bad != 0 and load_byte(bad) != 0:
            k = n
        while k < n:
            i = indices(k, shape)
            at = load_place(element(table, i, table_steps))
            if at != NOWHERE:
                store(element(target + types.uint64(at), i, target_steps), load(element(source, i, source_steps)))
            k += types.int64(cuda.gridsize(1))

    function = {"1-d": in_one_dimension, "4-d": in_four_dimensions}[form]
    return Kernel(f"scatter {form} of {word} byte words", function, (*_of_three(form), address))


@cache
def masked_fill(word: int, form: str) -> Kernel:
    """Return what stores one word where a mask is true.

    The kernel takes (target, mask, n and a step for each, or n, shape and steps for each; low, high), as `copies.fill`.
    """
    store, join = WORDS[word].store, joined(word)

    def in_one_dimension(target, mask, n, target_step, mask_step, low, high):
        value = join(low, high)
        k = types.int64(cuda.grid(1))
        while k < n:
            if load_byte(mask + types.uint64(k * mask_step)) != 0:
                store(target + types.uint64(k * target_step), value)
            k += types.int64(cuda.gridsize(1))

    def in_four_dimensions(target, mask, n, shape, target_steps, mask_steps, low, high):
        value = join(low, high)
        k = types.int64(cuda.grid(1))
        while k < n:
            i = indices(k, shape)
            if load_byte(element(mask, i, mask_steps)) != 0:
                store(element(target, i, target_steps), value)
            k += types.int64(cuda.gridsize(1))

    function = {"1-d": in_one_dimension, "4-d": in_four_dimensions}[form]
    parameters = (size, size, size) if form == "1-d" else (size, steps, steps, steps)
    name = f"masked fill {form} of {word} byte words"
    return Kernel(name, function, (address, address, *parameters, types.uint64, types.uint64))


def _of_three(form: str) -> tuple[Any, ...]:
    kind = size if form == "1-d" else steps
    return (address,) * 3 + ((size,) if form == "1-d" else (size, steps)) + (kind,) * 3


# -- masks: of bytes, one after the other from a multiple of 16 on


@device_function
def true_bytes(word):
    """Return a word whose bytes are 0x80 where those of another are not 0, and 0 elsewhere."""
    low = types.uint32(0x7F7F7F7F)
    return types.uint32((((word & low) + low) | word) & types.uint32(0x80808080))


@device_function
def ones(four):
    """Return how many of sixteen bytes are not 0."""
    a = cuda.popc(true_bytes(four[0])) + cuda.popc(true_bytes(four[1]))
    return a + cuda.popc(true_bytes(four[2])) + cuda.popc(true_bytes(four[3]))


@cache
def count() -> Kernel:
    """Return what counts what is true in each `MASKED` elements of a mask; it takes (counts, mask, n)."""

    def count(counts, mask, n):
        chunk = types.int64(cuda.grid(1))
        while chunk * MASKED < n:
            k = chunk * MASKED
            total = types.int64(0)
            if k + MASKED <= n:
                a = mask + types.uint64(k)
                x0 = load_sixteen(a)
                x1 = load_sixteen(a + types.uint64(16))
                x2 = load_sixteen(a + types.uint64(32))
                x3 = load_sixteen(a + types.uint64(48))
                total += ones(x0) + ones(x1) + ones(x2) + ones(x3)
            else:
                while k < n:
                    total += load_byte(mask + types.uint64(k)) != 0
                    k += 1
            store_place(counts + types.uint64(chunk * 8), total)
            chunk += types.int64(cuda.gridsize(1))

    return Kernel("count", count, (address, address, size))


@cache
def positions() -> Kernel:
    """Return what writes the positions of what is true in a mask.

    The kernel takes (positions, before, mask, n), where `before` are the numbers of what is true before each chunk.
    """

    def positions(target, before, mask, n):
        chunk = types.int64(cuda.grid(1))
        while chunk * MASKED < n:
            at = target + types.uint64(load_place(before + types.uint64(chunk * 8)) * 8)
            k = chunk * MASKED
            end = min(k + MASKED, n)
            while k + 16 <= end:
                for word in load_sixteen(mask + types.uint64(k)):
                    rest = true_bytes(word)
                    while rest:
                        i = cuda.ffs(rest) - 1
                        store_place(at, k + i // 8)
                        at += types.uint64(8)
                        rest &= rest - types.uint32(1)
                    k += 4
            while k < end:
                if load_byte(mask + types.uint64(k)) != 0:
                    store_place(at, k)
                    at += types.uint64(8)
                k += 1
            chunk += types.int64(cuda.gridsize(1))

    return Kernel("positions", positions, (address, address, address, size))


# -- sums of all that is before


@cache
def totals(dtype: np.dtype[Any]) -> Kernel:
    """Return what adds up each `CHUNK` numbers; it takes (sums, numbers, n)."""
    itemsize, _, kind, load, store = ACCESS[dtype]

    def totals(sums, numbers, n):
        chunk = types.int64(cuda.grid(1))
        while chunk * CHUNK < n:
            k = chunk * CHUNK
            end = min(k + CHUNK, n)
            total = kind(0)
            while k < end:
                total = kind(total + load(numbers + types.uint64(k * itemsize)))
                k += 1
            store(sums + types.uint64(chunk * itemsize), total)
            chunk += types.int64(cuda.gridsize(1))

    return Kernel(f"totals {dtype}", totals, (address, address, size))


@cache
def running(dtype: np.dtype[Any], inclusive: bool) -> Kernel:  # noqa: FBT001
    """Return what writes for each number the sum of those before it, or of those and itself.

    The kernel takes (target, numbers, n, before), where `before` are the sums of all before each chunk of `CHUNK`, or
    is 0 if there is only one chunk.  The target may be the numbers themselves.
    """
    itemsize, _, kind, load, store = ACCESS[dtype]

    def running(target, numbers, n, before):
        chunk = types.int64(cuda.grid(1))
        while chunk * CHUNK < n:
            k = chunk * CHUNK
            end = min(k + CHUNK, n)
            total = load(before + types.uint64(chunk * itemsize)) if before != 0 else kind(0)
            while k < end:
                i = types.uint64(k * itemsize)
                following = kind(total + load(numbers + i))
                store(target + i, following if inclusive else total)
                total = following
                k += 1
            chunk += types.int64(cuda.gridsize(1))

    name = f"running {dtype} {'inclusive' if inclusive else 'exclusive'}"
    return Kernel(name, running, (address, address, size, address))
