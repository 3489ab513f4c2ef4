"""Arrays as arguments of functions that Numba compiles for the CPU: the price of a call that does nothing with them."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit

from benchmarks.harness import Row

TITLE = "What an argument of a compiled function costs"

WORDS = {
    "a": "np.arange(1000.0)",
    "x": "nd.arange(1000.0, device='cpu')",
    "r": "nd.readonly(x)",
    "none": "taking(0)",
    "one": "taking(1)",
    "four": "taking(4)",
    "back": "giving()",
}

TIMES = [
    Row("a call without arguments", "none()"),
    Row("with one array", "one(x)", target=0.8e-6),
    Row("with four arrays, each", "four(x, x, x, x)", target=0.8e-6, inner=4),
    Row("with four read-only arrays, each", "four(r, r, r, r)", target=0.8e-6, inner=4),
]
RATIOS = [
    Row("one array, against NumPy's", "one(x)", "one(a)"),
    Row("four arrays, against NumPy's", "four(x, x, x, x)", "four(a, a, a, a)"),
    Row("one array that is returned, against NumPy's", "back(x)", "back(a)"),
]


def rows(largest: int) -> list[Row]:
    """Return the rows; they need no memory to speak of."""
    return [*TIMES, *RATIOS] if largest else []


@cache
def taking(n: int) -> Any:
    """Return a compiled function of n arguments that does nothing."""
    return njit({0: lambda: 0, 1: lambda a: 0, 4: lambda a, b, c, d: 0}[n])  # noqa: ARG005


@cache
def giving() -> Any:
    """Return a compiled function that returns its argument."""
    return njit(lambda a: a)
