"""Values at special places, as the array API standard words them: what its public test suite cannot read, or we mend.

The suite reads most of the special cases in the standard's text and checks them itself.
"""

from __future__ import annotations

from math import copysign, cos, inf, isnan, nan, sin
from typing import Any, Final


def _cis(size: float, angle: float) -> complex:
    return complex(size * cos(angle), size * sin(angle))


FINITE: Final = [1.0, -1.0, 2.5, -2.5, 3.0]
ZEROS: Final = [0.0, -0.0]
ANY: Final = [*FINITE, *ZEROS, inf, -inf, nan]

UNARY: Final[dict[str, list[tuple[complex, complex]]]] = {
    "abs": [
        *[(complex(a, b), inf) for a in (inf, -inf) for b in ANY],
        *[(complex(b, a), inf) for a in (inf, -inf) for b in ANY],
        *[(complex(z, a), abs(a)) for z in ZEROS for a in FINITE],
        *[(complex(a, z), abs(a)) for z in ZEROS for a in FINITE],
    ],
    "cosh": [(complex(inf, b), _cis(inf, b)) for b in FINITE],
    "exp": [
        *[(complex(inf, b), _cis(inf, b)) for b in FINITE],
        *[(complex(-inf, b), _cis(0.0, b)) for b in FINITE],
    ],
    "expm1": [
        *[(complex(inf, b), _cis(inf, b)) for b in FINITE],
        *[(complex(-inf, b), complex(-1, copysign(0.0, sin(b)))) for b in FINITE],
        *[(complex(a, b), complex(0.0, b)) for a in ZEROS for b in ZEROS],
        *[(complex(1.0, b), complex(nan, nan)) for b in (inf, nan)],
        *[(complex(inf, b), complex(inf, b)) for b in ZEROS],
        *[(complex(-inf, b), complex(-1, b)) for b in ZEROS],
        *[(complex(nan, b), complex(nan, b)) for b in ZEROS],
        *[(complex(nan, b), complex(nan, nan)) for b in (*FINITE, inf, nan)],
    ],
    "isfinite": [(complex(*pair), False) for b in ANY for pair in ((nan, b), (b, nan))],
    "isinf": [*[(complex(inf, b), True) for b in ANY], *[(complex(b, nan), False) for b in FINITE]],
    "isnan": [(complex(*pair), True) for b in ANY for pair in ((nan, b), (b, nan))],
    "sign": [
        *[(complex(*pair), complex(nan, nan)) for b in ANY for pair in ((nan, b), (b, nan))],
        *[(complex(a, b), 0j) for a in ZEROS for b in ZEROS],
    ],
    "sinh": [(complex(inf, b), _cis(inf, b)) for b in FINITE if b > 0],
    "sqrt": [
        *[(complex(a, inf), complex(inf, inf)) for a in ANY],
        *[(complex(-inf, b), complex(0.0, inf)) for b in FINITE if b > 0],
        *[(complex(nan, b), complex(nan, nan)) for b in FINITE],
    ],
    "tan": [(complex(a, b), complex(copysign(0.0, a), copysign(1.0, b))) for a in FINITE for b in (inf, -inf)],
    "tanh": [
        *[(complex(a, b), complex(copysign(1.0, a), copysign(0.0, b))) for a in (inf, -inf) for b in FINITE],
        *[(complex(nan, b), complex(nan, nan)) for b in (*FINITE, inf)],
    ],
}
"""What functions of one number give."""

BINARY: Final[dict[str, list[tuple[float, float, float]]]] = {
    "copysign": [(x, y, copysign(x, y)) for x in ANY for y in ANY],
    "floor_divide": [
        *[(inf, y, copysign(inf, y)) for y in (*FINITE, *ZEROS)],
        *[(-inf, y, copysign(inf, -y)) for y in (*FINITE, *ZEROS)],
        *[(x, inf, copysign(0.0, x)) for x in (*FINITE, *ZEROS)],
        *[(x, -inf, copysign(0.0, -x)) for x in (*FINITE, *ZEROS)],
        *[(x, y, nan) for x in (inf, -inf, nan) for y in (inf, -inf, nan)],
    ],
    "hypot": [
        *[(*pair, inf) for x in (inf, -inf) for y in ANY for pair in ((x, y), (y, x))],
        *[(*pair, nan) for x in FINITE for pair in ((x, nan), (nan, x))],
        *[(*pair, abs(x)) for x in FINITE for z in ZEROS for pair in ((x, z), (z, x))],
    ],
    "pow": [
        *[(-inf, 0.5, inf), (-0.0, 0.5, 0.0), (0.0, 0.5, 0.0), (-inf, -0.5, 0.0), (-0.0, -0.5, inf)],
        *[(x, y, 1.0) for x in (1.0, -1.0) for y in (inf, -inf)],
    ],
}
"""What functions of two numbers give."""


def is_same(found: Any, wanted: complex) -> bool:
    """Return whether a number is the one that is wanted, to the sign of its zeros; or NaN as well, of whatever sign."""
    if isinstance(wanted, complex):
        return is_same(found.real, wanted.real) and is_same(found.imag, wanted.imag)
    if isnan(wanted):
        return isnan(found)
    return bool(found == wanted) and copysign(1, found) == copysign(1, wanted)
