"""What a launch is: how many threads it has, and its arguments as C values."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Way = Callable[[Any], tuple[Any, ...]]
    Ways = tuple[tuple[int, Way], ...]

BLOCK: Final = 256
"""The threads of a block on a GPU."""
SIMULATED: Final = (1, 8)
"""The blocks and threads of every launch in the simulator, in which each is a thread of the operating system."""
RESIDENT: Final = 2048
"""The most threads that a multiprocessor of any GPU has at a time."""


def most_blocks(multiprocessors: int) -> int:
    """Return how many blocks it takes to fill a GPU, a few times over so that they end at about the same time."""
    return multiprocessors * (RESIDENT // BLOCK) * 4


def blocks_for(threads: int, most: int) -> int:
    """Return how many blocks a launch has: what is left over when the GPU is full, the threads do in turn."""
    return min(-(-threads // BLOCK), most)


# -- arguments: a Python int is 64 bits wide in a launch, everything else says how wide it is


def _scalar(c_type: Any, convert: Callable[[Any], Any]) -> Way:
    nothing = (c_type(0),)  # what stands for a value that a kernel does not use

    def way(value: Any) -> tuple[Any, ...]:
        return nothing if type(value) is int and value == 0 else (c_type(convert(value)),)

    return way


def _complex(c_type: Any) -> Way:
    def way(value: Any) -> tuple[Any, ...]:
        value = complex(value)
        return c_type(value.real), c_type(value.imag)

    return way


_WAYS: Final[dict[str, Way]] = {
    "bool": _scalar(ctypes.c_bool, bool),
    "float32": _scalar(ctypes.c_float, float),
    "float64": _scalar(ctypes.c_double, float),
    "complex64": _complex(ctypes.c_float),
    "complex128": _complex(ctypes.c_double),
    **{
        name: _scalar(getattr(ctypes, f"c_{name}"), int)
        for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
    },
}
"""What a value of each of Numba's types becomes, but for integers of 64 bits."""
_WIDE: Final = frozenset({"int64", "uint64"})
_PLAIN: Final = frozenset(
    {int, ctypes.c_bool, ctypes.c_float, ctypes.c_double}
    | {getattr(ctypes, f"c_{name}") for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64")}
)
"""The types of what can be passed as it is."""


def ways(signature: Sequence[Any]) -> Ways:
    """Return what has to be done to arguments of a kernel, for `passed`: where, and what; the last comes first.

    Parameters
    ----------
    signature : sequence of types
        Numba's types of the parameters.
    """
    found: list[tuple[int, Way]] = []
    for i, kind in enumerate(signature):
        if hasattr(kind, "dtype") and hasattr(kind, "count"):  # a UniTuple
            if str(kind.dtype) != "int64":
                msg = f"a tuple that a kernel is given must be of int64, not {kind.dtype}"
                raise TypeError(msg)
            found.append((i, tuple))
        elif str(kind) not in _WIDE:
            found.append((i, _WAYS[str(kind)]))
    return tuple(reversed(found))


def passed(how: Ways, args: tuple[Any, ...]) -> list[Any]:
    """Return arguments as `cuda.core.launch` takes them, which raises OverflowError if one needs `exactly_passed`."""
    out = list(args)
    for i, way in how:
        out[i : i + 1] = way(args[i])
    return out if _PLAIN.issuperset(map(type, out)) else _exact(out)


def exactly_passed(how: Ways, args: tuple[Any, ...]) -> list[Any]:
    """Return arguments as `cuda.core.launch` takes them, also those that are beyond what 64 bits with a sign hold."""
    return _exact(passed(how, args))


def _exact(out: list[Any]) -> list[Any]:
    """Return arguments of which some are not Python's ints, but NumPy's say, or too large."""
    found = [x if type(x) in _PLAIN and type(x) is not int else int(x) for x in out]
    return [ctypes.c_uint64(x) if type(x) is int and x >> 63 > 0 else x for x in found]
