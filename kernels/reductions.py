"""Reductions, of one axis or a part of it, by teams of threads.

A team has `TEAM` lanes.  It shares them between a power of two of outputs, so that each output has as many lanes, and
each lane takes every so many-th element of a chunk of the reduced axis.  Then halves of the team are combined until
there is one result for each output, and where an output has several chunks, a second launch reduces their results.
Which lane takes what depends on the shape and the strides alone, and not on the grid or the block: threads go on to
further lanes, and blocks to further teams.  So the same bits come from every run.

What is carried along is a pair: a value, and for argmin and argmax the position where it was found.  In other
reductions all positions are 0, and the compiler removes them from the loops.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from nbdlpack import dtypes
from nbdlpack.kernels.access import ACCESS, COMPUTED_IN
from nbdlpack.kernels.copies import converter
from nbdlpack.kernels.numba_cuda import Kernel, cuda, device_function, types
from nbdlpack.kernels.scalars import complex_greater, complex_less, scalar_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DEVIATION", "OPERATIONS", "TEAM", "TEAM_BITS", "VARIANTS", "distance", "reduction", "wide"]

TEAM_BITS: Final = 8
TEAM: Final = 1 << TEAM_BITS
"""The lanes of a team, whose results are in shared memory together."""
RUN: Final = 128
"""How many elements a lane adds up before it adds their sum to that of others: errors stay small in long sums.

With the eight sums that a run has, it makes short sums the same as NumPy's, bit for bit.
"""

address, size, triple = types.uint64, types.int64, types.UniTuple(types.int64, 3)


# -- what becomes of two values and their positions


@cache
def _by(ufunc: str, dtype: np.dtype[Any]) -> Any:
    """Return what combines by a scalar function."""
    function = scalar_function(ufunc, dtype)

    @device_function
    def combine(x, i, y, j):
        return function(x, y), i

    return combine


@device_function
def less(x, y):
    return x < y


@device_function
def greater(x, y):
    return x > y


_BEFORE: Final = {"least": (less, complex_less), "greatest": (greater, complex_greater)}


@cache
def _choosing(end: str, dtype: np.dtype[Any]) -> Any:
    """Return what chooses the least or the greatest: nan if there is one, and of equal ones that which comes first."""
    before = _BEFORE[end][dtype.kind == "c"]

    @device_function
    def combine(x, i, y, j):
        better = x == x and (y != y or before(y, x))
        even = x == y or (x != x and y != y)
        return (y, j) if better or (even and j < i) else (x, i)

    return combine


class Operation(NamedTuple):
    """What a reduction does."""

    combine: Callable[[np.dtype[Any]], Any]
    """For a dtype, the function of a value, its position, another value, and that one's position."""
    identity: int | None = None
    """What changes no value; None if no value makes a difference when it is taken twice."""
    searching: bool = False
    """Whether positions are wanted, and not values."""


DEVIATION: Final = "deviation"
OPERATIONS: Final = {
    "sum": Operation(partial(_by, "add"), 0),
    "prod": Operation(partial(_by, "multiply"), 1),
    "any": Operation(partial(_by, "logical_or")),
    "all": Operation(partial(_by, "logical_and")),
    "min": Operation(partial(_choosing, "least")),
    "max": Operation(partial(_choosing, "greatest")),
    "argmin": Operation(partial(_choosing, "least"), searching=True),
    "argmax": Operation(partial(_choosing, "greatest"), searching=True),
    DEVIATION: Operation(partial(_by, "add"), 0),
}
"""The reductions that kernels do.  A deviation is the sum of the squares of the distances from a mean."""


# -- which there are


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which sums and products in a dtype are computed."""
    return np.dtype(f"{dtype.kind}8") if dtype.kind in "iu" else COMPUTED_IN[dtype]


def distance(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the distance of two floating-point numbers of a dtype, real or complex."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else COMPUTED_IN[dtype]


def _variants() -> Iterator[tuple[str, np.dtype[Any], np.dtype[Any]]]:
    single, double = dtypes.FLOAT32, dtypes.FLOAT64
    for source in COMPUTED_IN:
        kind = source.kind
        for name in ("any", "all"):
            yield name, source, dtypes.BOOL
        for name in ("argmin", "argmax"):
            yield name, source, dtypes.INT64
        if kind != "b":
            yield "min", source, source
            yield "max", source, source
        for name in ("sum", "prod"):
            yield name, source, dtypes.INT64 if kind == "b" else wide(source)
        if kind in "biu" or source == single:
            yield "sum", source, double
        yield DEVIATION, source, double if kind in "biu" else distance(source)


VARIANTS: Final = frozenset(_variants())
"""The reductions, and of what they are to what: operation, dtype of the elements, dtype of the results."""


# -- the kernel


@cache
def _element(searching: bool, deviating: bool, source: np.dtype[Any], target: np.dtype[Any]) -> Any:  # noqa: FBT001
    """Return the function that gives a lane its k-th element, as the reduction is to have it, and its position."""
    load = ACCESS[source].load

    if searching:

        @device_function
        def element(first, step, k, position, apart, mean):
            return load(first + types.uint64(k * step)), position + k * apart

    elif deviating and source.kind == "c":

        @device_function
        def element(first, step, k, position, apart, mean):
            far = load(first + types.uint64(k * step)) - mean
            return far.real * far.real + far.imag * far.imag, types.int64(0)

    elif deviating:
        convert = converter(source, target)

        @device_function
        def element(first, step, k, position, apart, mean):
            far = convert(load(first + types.uint64(k * step))) - mean
            return far * far, types.int64(0)

    else:
        convert = converter(source, target)

        @device_function
        def element(first, step, k, position, apart, mean):
            return convert(load(first + types.uint64(k * step))), types.int64(0)

    return element


def _along(element: Any, combine: Any, kind: Any, identity: int | None) -> Any:
    """Return the function that takes one lane's elements of a chunk into a value and its position."""

    @device_function
    def along(first, step, count, start, mean, lane, bits):
        lanes = 1 << bits
        k = types.int64(0)
        value, place = element(first, step, k, start, lanes, mean)
        if identity is not None:
            value = kind(identity)
        # Loops of a fixed length are unrolled, and these arrays become registers: eight loads are under way at a time.
        values = cuda.local.array(8, kind)
        places = cuda.local.array(8, types.int64)
        first += types.uint64(lane * step)
        step *= lanes
        count = (count - lane + lanes - 1) >> bits
        start += lane
        while k + 8 <= count:
            end = min(k + RUN, count) - 7
            for i in range(8):
                values[i], places[i] = element(first, step, k + i, start, lanes, mean)
            k += 8
            while k < end:
                for i in range(8):
                    x, j = element(first, step, k + i, start, lanes, mean)
                    values[i], places[i] = combine(values[i], places[i], x, j)
                k += 8
            for i in range(0, 8, 2):
                values[i], places[i] = combine(values[i], places[i], values[i + 1], places[i + 1])
            for i in range(0, 8, 4):
                values[i], places[i] = combine(values[i], places[i], values[i + 2], places[i + 2])
            x, j = combine(values[0], places[0], values[4], places[4])
            value, place = combine(value, place, x, j)
        while k < count:
            x, j = element(first, step, k, start, lanes, mean)
            value, place = combine(value, place, x, j)
            k += 1
        return value, place

    return along


@device_function
def quotient(a, b):
    """Return a // b of numbers that are not negative; the compiler makes it one of 32 bits where that will do."""
    return types.int64(types.uint64(a) // types.uint64(b))


@device_function
def offset(output, columns, third, steps):
    """Return how many bytes away something of an output is, by steps of a row, of a column and of something else."""
    row = quotient(output, columns)
    return types.uint64(row * steps[0] + (output - row * columns) * steps[1] + third * steps[2])


@device_function
def seat(t, bits, side_by_side):
    """Return which lane of which output a team's lane is."""
    if side_by_side:
        return t >> (TEAM_BITS - bits), t & ((TEAM >> bits) - 1)
    return t & ((1 << bits) - 1), t >> bits


def reduction(name: str, source: np.dtype[Any], target: np.dtype[Any]) -> Kernel:
    """Return what reduces an axis of elements of a dtype to results of another, one of `VARIANTS`.

    The kernel takes, with steps in bytes,

    * the addresses of the elements and of the results; of the means that deviations are from, or, for a search, of
      where the values go that are found, if it is not 0; and of positions to give in place of those that are found, if
      it is not 0, which lie like the elements;
    * the rows and columns of outputs, the number of elements for each of them, and how many of these are a chunk;
    * of the elements the steps of a row, of a column, and along the reduced axis; of the results, and again of what is
      third among the addresses, those of a row, of a column and of a chunk;
    * the logarithm of how many lanes an output has; and whether neighbouring lanes have neighbouring columns, or else
      elements that are neighbours along the reduced axis.
    """
    if (name in ("any", "all") and source.kind in "bi") or (name in ("argmin", "argmax") and source.kind == "b"):
        source = np.dtype(f"u{source.itemsize}")  # the same bits give the same
    return _reduction(name, source, target)


@cache
def _reduction(name: str, source: np.dtype[Any], target: np.dtype[Any]) -> Kernel:
    operation, deviating = OPERATIONS[name], name == DEVIATION
    searching = operation.searching
    dtype = source if searching else target
    kind, itemsize = ACCESS[dtype].type, source.itemsize
    combine = operation.combine(dtype)
    along = _along(_element(searching, deviating, source, target), combine, kind, operation.identity)
    store, store_value, load_position = ACCESS[target].store, ACCESS[source].store, ACCESS[dtypes.INT64].load
    load_mean = ACCESS[source if source.kind == "c" else target].load

    def reduce(x, out, aside, positions, rows, columns, n, length, x_steps, out_steps, aside_steps, bits, side_by_side):
        values = cuda.shared.array(TEAM, kind)
        places = cuda.shared.array(TEAM, types.int64)
        wide = TEAM >> bits
        outputs = rows * columns
        groups = quotient(outputs + wide - 1, wide)
        teams = groups * quotient(n + length - 1, length)
        threads = types.int64(cuda.blockDim.x)
        team = types.int64(cuda.blockIdx.x)
        while team < teams:
            chunk = quotient(team, groups)
            output = (team - chunk * groups) * wide
            start = chunk * length
            t = types.int64(cuda.threadIdx.x)
            while t < TEAM:
                lane, o = seat(t, bits, side_by_side)
                if output + o < outputs:
                    first = x + offset(output + o, columns, start, x_steps)
                    mean = types.int64(0)
                    if deviating:
                        mean = load_mean(aside + offset(output + o, columns, chunk, aside_steps))
                    value, place = along(first, x_steps[2], min(length, n - start), start, mean, lane, bits)
                    values[lane * wide + o] = value
                    places[lane * wide + o] = place
                t += threads
            cuda.syncthreads()
            half = TEAM >> 1
            while half >= wide:
                t = types.int64(cuda.threadIdx.x)
                while t < half:
                    values[t], places[t] = combine(values[t], places[t], values[t + half], places[t + half])
                    t += threads
                cuda.syncthreads()
                half >>= 1
            t = types.int64(cuda.threadIdx.x)
            while t < min(wide, outputs - output):
                to = out + offset(output + t, columns, chunk, out_steps)
                if searching:
                    place = places[t]
                    if aside:
                        store_value(aside + offset(output + t, columns, chunk, aside_steps), values[t])
                    if positions:
                        of = offset(output + t, columns, place, x_steps)
                        place = load_position(positions + of // types.uint64(itemsize) * types.uint64(8))
                    store(to, place)
                else:
                    store(to, values[t])
                t += threads
            cuda.syncthreads()
            team += types.int64(cuda.gridDim.x)

    parameters = (address,) * 4 + (size,) * 4 + (triple,) * 3 + (size,) * 2
    return Kernel(f"{name} {source} to {target}", reduce, parameters)
