"""The one table of elementwise functions.

A row names a function and gives NumPy's ufunc that says what it is: its result types, its errors, and on the cpu device
its values.  The rest of a row documents it.  To add a function: a row here, a public line in
`nbdlpack.functions.elementwise`, its name in ``nbdlpack/__init__.py``, and for devices that run kernels a scalar
function in `nbdlpack.kernels`.

Where the array API standard wants another value than NumPy gives, the row has a `Mend`.  The cpu device computes by
`COMPUTED`, kernels have it in their scalar functions.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


class Mend(NamedTuple):
    """Where NumPy's ufunc does not give what the standard wants, and what that is."""

    kinds: str
    """The kinds of the dtypes concerned: others are left to NumPy."""
    where: Callable[..., Any]
    """Return, for the operands, where NumPy is to be mended, or None if nowhere."""
    values: Callable[..., Any]
    """Return, for the operands, the values that are wanted there."""
    note: str
    """What differs, in words."""


class Row(NamedTuple):
    """One elementwise function."""

    name: str
    ufunc: np.ufunc
    does: str
    """What it returns, in words that follow "Return"."""
    operator: str = ""
    """What does the same in Python's language, if anything does."""
    example: tuple[str, str] = ("", "")
    """Arguments, and what the function returns for them."""
    mend: Mend | None = None


# -- where the standard differs from NumPy


def _one_is_infinite(x: Any, y: Any) -> Any:
    infinite = np.isinf(x)
    return infinite if type(y) is float and isfinite(y) else np.not_equal(infinite, np.isinf(y))


def _square_root(x: Any, y: Any) -> Any:
    several = isinstance(y, np.ndarray) and y.size > 1 and 0 not in y.strides
    if several or (type(y) is float and y != 0.5):
        return None
    half = np.equal(y, 0.5)
    if not np.count_nonzero(half):
        return None
    special = np.equal(x, 0) | np.equal(x, -np.inf)
    return half & special if half.ndim else special


def _complex(real: Any, imag: Any) -> Any:
    z = np.empty(np.shape(real), np.result_type(real, np.complex64))
    z.real, z.imag = real, imag
    return z


_FLOOR_DIVIDE: Final = Mend(
    "fV",
    _one_is_infinite,
    np.true_divide,
    "By an infinity, or of one, the quotient is ``x1 / x2``, which the array API standard prefers: 0 or -0 where\n"
    "    NumPy gives 0 or -1, and an infinity where NumPy gives NaN.",
)
_EXPM1: Final = Mend(
    "c",
    # Of numbers close to zero NumPy's value is the better one, but zeros are to have the sign of ``exp(x) - 1``.
    lambda z: ~np.isfinite(z) | (z == 0),
    lambda z: np.exp(z) - 1,
    "Of complex infinities, NaNs and zeros it is ``exp(x) - 1``, as the array API standard has it, where NumPy gives\n"
    "    NaNs.",
)
_POW: Final = Mend(
    "f",
    _square_root,  # which NumPy takes for an exponent that is the same for several elements
    lambda x, _: np.abs(x),
    "To the power of 1/2, -0.0 gives 0.0 and -inf gives inf, as the array API standard has it, and not always NumPy.",
)
_SIGN: Final = Mend(
    "c",
    lambda z: np.isinf(z) & np.isnan(z),
    lambda z: np.full_like(z, complex(np.nan, np.nan)),
    "Of a complex number with a NaN it is ``nan+nanj``, as the array API standard has it, also beside an infinity, of\n"
    "    which NumPy takes the sign.",
)
_TANH: Final = Mend(
    "c",
    lambda z: np.isinf(z.real) & np.isfinite(z.imag),
    lambda z: _complex(np.copysign(1, z.real), np.copysign(0, z.imag)),
    "At an infinite real part, the zero that is the imaginary part has the sign of that of `x`, as the array API\n"
    "    standard has it; NumPy's has the sign of ``sin(2 * imag(x))``.",
)
_TAN: Final = Mend(
    "c",
    lambda z: np.isinf(z.imag) & np.isfinite(z.real),
    lambda z: _complex(np.copysign(0, z.real), np.copysign(1, z.imag)),
    "At an infinite imaginary part, the zero that is the real part has the sign of that of `x`, as the array API\n"
    "    standard has it; NumPy's has the sign of ``sin(2 * real(x))``.",
)

# -- the functions

TABLE: Final = (
    Row(
        "abs",
        np.absolute,
        "the absolute value",
        "abs(x)",
        example=("nd.array([-1, 2])", "array([1, 2])"),
    ),
    Row(
        "acos",
        np.arccos,
        "the inverse cosine",
        example=("nd.array([0.0, 1.0])", "array([1.57079633, 0.        ])"),
    ),
    Row(
        "acosh",
        np.arccosh,
        "the inverse hyperbolic cosine",
        example=("nd.array([1.0, 2.0])", "array([0.       , 1.3169579])"),
    ),
    Row(
        "add",
        np.add,
        "the sum",
        "x1 + x2",
        example=("nd.array([1, 2]), 2", "array([3, 4])"),
    ),
    Row(
        "asin",
        np.arcsin,
        "the inverse sine",
        example=("nd.array([0.0, 1.0])", "array([0.        , 1.57079633])"),
    ),
    Row(
        "asinh",
        np.arcsinh,
        "the inverse hyperbolic sine",
        example=("nd.array([0.0, 1.0])", "array([0.        , 0.88137359])"),
    ),
    Row(
        "atan",
        np.arctan,
        "the inverse tangent",
        example=("nd.array([0.0, 1.0])", "array([0.        , 0.78539816])"),
    ),
    Row(
        "atan2",
        np.arctan2,
        "the angle of the point (x2, x1)",
        example=("nd.array([0.0, 1.0]), 1.0", "array([0.        , 0.78539816])"),
    ),
    Row(
        "atanh",
        np.arctanh,
        "the inverse hyperbolic tangent",
        example=("nd.array([0.0, 0.5])", "array([0.        , 0.54930614])"),
    ),
    Row(
        "bitwise_and",
        np.bitwise_and,
        "the bits set in both",
        "x1 & x2",
        example=("nd.array([1, 2]), 2", "array([0, 2])"),
    ),
    Row(
        "bitwise_invert",
        np.invert,
        "the bits inverted",
        "~x",
        example=("nd.array([0, 1])", "array([-1, -2])"),
    ),
    Row(
        "bitwise_left_shift",
        np.left_shift,
        "the bits shifted to the left",
        "x1 << x2",
        example=("nd.array([1, 2]), 2", "array([4, 8])"),
    ),
    Row(
        "bitwise_or",
        np.bitwise_or,
        "the bits set in either",
        "x1 | x2",
        example=("nd.array([1, 2]), 2", "array([3, 2])"),
    ),
    Row(
        "bitwise_right_shift",
        np.right_shift,
        "the bits shifted to the right",
        "x1 >> x2",
        example=("nd.array([1, 2]), 2", "array([0, 0])"),
    ),
    Row(
        "bitwise_xor",
        np.bitwise_xor,
        "the bits set in exactly one",
        "x1 ^ x2",
        example=("nd.array([1, 2]), 2", "array([3, 0])"),
    ),
    Row(
        "ceil",
        np.ceil,
        "the smallest integer that is not less",
        example=("nd.array([-0.5, 1.5])", "array([-0.,  2.])"),
    ),
    Row(
        "conj",
        np.conjugate,
        "the complex conjugate",
        example=("nd.array([1j, 2])", "array([0.-1.j, 2.-0.j])"),
    ),
    Row(
        "copysign",
        np.copysign,
        "the size of the first with the sign of the second",
        example=("nd.array([1.0, 2.0]), -1.0", "array([-1., -2.])"),
    ),
    Row(
        "cos",
        np.cos,
        "the cosine",
        example=("nd.array([0.0, 1.0])", "array([1.        , 0.54030231])"),
    ),
    Row(
        "cosh",
        np.cosh,
        "the hyperbolic cosine",
        example=("nd.array([0.0, 1.0])", "array([1.        , 1.54308063])"),
    ),
    Row(
        "divide",
        np.true_divide,
        "the quotient",
        "x1 / x2",
        example=("nd.array([1, 2]), 4", "array([0.25, 0.5 ])"),
    ),
    Row(
        "equal",
        np.equal,
        "whether the two are equal",
        "x1 == x2",
        example=("nd.array([1, 2]), 2", "array([False,  True])"),
    ),
    Row(
        "exp",
        np.exp,
        "the exponential",
        example=("nd.array([0.0, 1.0])", "array([1.        , 2.71828183])"),
    ),
    Row(
        "expm1",
        np.expm1,
        "the exponential less one",
        example=("nd.array([0.0, 1.0])", "array([0.        , 1.71828183])"),
        mend=_EXPM1,
    ),
    Row(
        "floor",
        np.floor,
        "the largest integer that is not greater",
        example=("nd.array([-0.5, 1.5])", "array([-1.,  1.])"),
    ),
    Row(
        "floor_divide",
        np.floor_divide,
        "the quotient rounded down",
        "x1 // x2",
        example=("nd.array([1, 5]), 2", "array([0, 2])"),
        mend=_FLOOR_DIVIDE,
    ),
    Row(
        "greater",
        np.greater,
        "whether the first is greater",
        "x1 > x2",
        example=("nd.array([1, 2]), 2", "array([False, False])"),
    ),
    Row(
        "greater_equal",
        np.greater_equal,
        "whether the first is greater or equal",
        "x1 >= x2",
        example=("nd.array([1, 2]), 2", "array([False,  True])"),
    ),
    Row(
        "hypot",
        np.hypot,
        "the length of the hypotenuse",
        example=("nd.array([3.0, 5.0]), nd.array([4.0, 12.0])", "array([ 5., 13.])"),
    ),
    Row(
        "isfinite",
        np.isfinite,
        "whether it is a finite number",
        example=("nd.array([1.0, nd.inf])", "array([ True, False])"),
    ),
    Row(
        "isinf",
        np.isinf,
        "whether it is infinite",
        example=("nd.array([1.0, nd.inf])", "array([False,  True])"),
    ),
    Row(
        "isnan",
        np.isnan,
        "whether it is not a number",
        example=("nd.array([1.0, nd.nan])", "array([False,  True])"),
    ),
    Row(
        "less",
        np.less,
        "whether the first is less",
        "x1 < x2",
        example=("nd.array([1, 2]), 2", "array([ True, False])"),
    ),
    Row(
        "less_equal",
        np.less_equal,
        "whether the first is less or equal",
        "x1 <= x2",
        example=("nd.array([1, 2]), 2", "array([ True,  True])"),
    ),
    Row(
        "log",
        np.log,
        "the natural logarithm",
        example=("nd.array([1.0, 10.0])", "array([0.        , 2.30258509])"),
    ),
    Row(
        "log10",
        np.log10,
        "the logarithm to base 10",
        example=("nd.array([1.0, 10.0])", "array([0., 1.])"),
    ),
    Row(
        "log1p",
        np.log1p,
        "the natural logarithm of one more",
        example=("nd.array([0.0, 1.0])", "array([0.        , 0.69314718])"),
    ),
    Row(
        "log2",
        np.log2,
        "the logarithm to base 2",
        example=("nd.array([1.0, 8.0])", "array([0., 3.])"),
    ),
    Row(
        "logaddexp",
        np.logaddexp,
        "the logarithm of the sum of the exponentials",
        example=("nd.array([0.0, 1.0]), 0.0", "array([0.69314718, 1.31326169])"),
    ),
    Row(
        "logical_and",
        np.logical_and,
        "whether both are true",
        example=("nd.array([True, False]), True", "array([ True, False])"),
    ),
    Row(
        "logical_not",
        np.logical_not,
        "whether it is not true",
        example=("nd.array([True, False])", "array([False,  True])"),
    ),
    Row(
        "logical_or",
        np.logical_or,
        "whether either is true",
        example=("nd.array([True, False]), False", "array([ True, False])"),
    ),
    Row(
        "logical_xor",
        np.logical_xor,
        "whether exactly one is true",
        example=("nd.array([True, False]), True", "array([False,  True])"),
    ),
    Row(
        "maximum",
        np.maximum,
        "the greater of the two",
        example=("nd.array([1, 2]), 2", "array([2, 2])"),
    ),
    Row(
        "minimum",
        np.minimum,
        "the lesser of the two",
        example=("nd.array([1, 2]), 2", "array([1, 2])"),
    ),
    Row(
        "multiply",
        np.multiply,
        "the product",
        "x1 * x2",
        example=("nd.array([1, 2]), 2", "array([2, 4])"),
    ),
    Row(
        "negative",
        np.negative,
        "the negative",
        "-x",
        example=("nd.array([1, -2])", "array([-1,  2])"),
    ),
    Row(
        "nextafter",
        np.nextafter,
        "the next number after the first towards the second",
        example=("nd.array([1.0]), 2.0", "array([1.])"),
    ),
    Row(
        "not_equal",
        np.not_equal,
        "whether the two differ",
        "x1 != x2",
        example=("nd.array([1, 2]), 2", "array([ True, False])"),
    ),
    Row(
        "positive",
        np.positive,
        "the number itself",
        "+x",
        example=("nd.array([1, -2])", "array([ 1, -2])"),
    ),
    Row(
        "pow",
        np.power,
        "the first to the power of the second",
        "x1 ** x2",
        example=("nd.array([2, 3]), 2", "array([4, 9])"),
        mend=_POW,
    ),
    Row(
        "reciprocal",
        np.reciprocal,
        "the reciprocal",
        example=("nd.array([1.0, 4.0])", "array([1.  , 0.25])"),
    ),
    Row(
        "remainder",
        np.remainder,
        "the remainder, with the sign of the divisor",
        "x1 % x2",
        example=("nd.array([5, -5]), 3", "array([2, 1])"),
    ),
    Row(
        "rint",
        np.rint,
        "the nearest integer, of two the even one",
        example=("nd.array([0.5, 1.5])", "array([0., 2.])"),
    ),
    Row(
        "sign",
        np.sign,
        "the sign",
        example=("nd.array([-3.0, 2.0])", "array([-1.,  1.])"),
        mend=_SIGN,
    ),
    Row(
        "signbit",
        np.signbit,
        "whether the sign bit is set",
        example=("nd.array([-1.0, 0.0])", "array([ True, False])"),
    ),
    Row(
        "sin",
        np.sin,
        "the sine",
        example=("nd.array([0.0, 1.0])", "array([0.        , 0.84147098])"),
    ),
    Row(
        "sinh",
        np.sinh,
        "the hyperbolic sine",
        example=("nd.array([0.0, 1.0])", "array([0.        , 1.17520119])"),
    ),
    Row(
        "sqrt",
        np.sqrt,
        "the square root",
        example=("nd.array([1.0, 4.0])", "array([1., 2.])"),
    ),
    Row(
        "square",
        np.square,
        "the square",
        example=("nd.array([2, 3])", "array([4, 9])"),
    ),
    Row(
        "subtract",
        np.subtract,
        "the difference",
        "x1 - x2",
        example=("nd.array([1, 2]), 2", "array([-1,  0])"),
    ),
    Row(
        "tan",
        np.tan,
        "the tangent",
        example=("nd.array([0.0, 1.0])", "array([0.        , 1.55740772])"),
        mend=_TAN,
    ),
    Row(
        "tanh",
        np.tanh,
        "the hyperbolic tangent",
        example=("nd.array([0.0, 1.0])", "array([0.        , 0.76159416])"),
        mend=_TANH,
    ),
    Row(
        "trunc",
        np.trunc,
        "the integer part",
        example=("nd.array([-1.5, 1.5])", "array([-1.,  1.])"),
    ),
)

ROWS: Final = {row.name: row for row in TABLE}

# -- what computes them on the host

_RISING: Final = "biuVfc"
"""The kinds of dtypes, each of which gives way to those behind it."""


def _mended(ufunc: np.ufunc, mend: Mend) -> Callable[..., Any]:
    """Return what is called as a ufunc is, with outputs for all results, and gives what the standard wants."""
    nin = ufunc.nin
    concerned: dict[tuple[Any, ...], bool] = {}

    def compute(*args: Any, **options: Any) -> Any:
        inputs, outputs = args[:nin], args[nin:] or options["out"]
        if "dtype" in options:
            inputs = tuple([np.asarray(x).astype(options["dtype"]) for x in inputs])
        key = (outputs[0].dtype, *[getattr(x, "dtype", None) for x in inputs])
        if key not in concerned:
            # A Python number has no dtype but that of the result; the highest kind is that of the computation.
            kind = max([(dtype or key[0]).kind for dtype in key[1:]], key=_RISING.index)
            concerned[key] = kind in mend.kinds
        if not concerned[key]:
            return ufunc(*args, **options)
        wrong = mend.where(*inputs)
        if wrong is None or not np.count_nonzero(wrong):  # the usual case
            return ufunc(*args, **options)
        # All is read before anything is written, as outputs may be the very operands.
        with np.errstate(all="ignore"):
            values = mend.values(*inputs)
        where = options.pop("where", True)
        mended = wrong & where
        result = ufunc(*args, where=~wrong & where, **options)
        for out, value in zip(outputs, values if ufunc.nout > 1 else (values,), strict=True):
            np.copyto(out, value, options.get("casting", "same_kind"), where=mended)
        return result

    return compute


_MENDS: Final = {row.ufunc: row.mend for row in TABLE if row.mend is not None} | {
    np.divmod: _FLOOR_DIVIDE._replace(values=lambda x, y: (np.true_divide(x, y), np.remainder(x, y))),
}
COMPUTED: Final = {ufunc: _mended(ufunc, mend) for ufunc, mend in _MENDS.items()}
"""What stands for ufuncs with a mend where NumPy computes: functions that want outputs, and look at the operands."""
