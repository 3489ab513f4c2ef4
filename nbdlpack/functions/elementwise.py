"""Functions that compute element by element: one line each, of a row in the table of ufuncs.

Each one calls NumPy's function of the same meaning, so arguments, result types and errors are NumPy's.  Where the array
API standard wants other values, it is followed, and the function says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdlpack import engine
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray
from nbdlpack.ufuncs import ROWS

if TYPE_CHECKING:
    from typing import Protocol

    class Unary(Protocol):
        """A function of one array."""

        def __call__(self, x: Any, /, *, out: Any = None, where: Any = True, dtype: Any = None) -> ndarray: ...

    class Binary(Protocol):
        """A function of two arrays."""

        def __call__(
            self, x1: Any, x2: Any, /, *, out: Any = None, where: Any = True, dtype: Any = None
        ) -> ndarray: ...


__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

_DOC = """Return {does}, element by element.{operator}

    Parameters
    ----------
{parameters}
    out : ndarray, optional
        Where the result goes, broadcast and cast as NumPy does.
    where : array_like of bool, optional
        Where to compute; elsewhere `out` keeps what it has.
    dtype : dtype, optional
        The dtype to compute in, and of the result.

    Returns
    -------
    ndarray
        `out`, or a new array of the broadcast shape and the dtype that ``numpy.{numpy}`` gives; on the device of the
        operands, sharing nothing with them.

    Raises
    ------
    TypeError
        If the function is not defined for the dtypes.
    ValueError
        If the shapes cannot be broadcast together, or `out` is read-only.
{notes}
    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.{name}({args})
    {result}
    """
_ONE = "    x : array_like\n        The array."
_TWO = "    x1, x2 : array_like\n        The arrays, or an array and a number."


def _documented(function: Any, name: str, parameters: str) -> Any:
    row = ROWS[name]
    function.__name__ = function.__qualname__ = name
    args, result = row.example
    function.__doc__ = _DOC.format(
        name=name,
        does=row.does,
        operator=f"\n\n    ``{row.operator}`` does the same." if row.operator else "",
        parameters=parameters,
        numpy=row.ufunc.__name__,
        notes=f"\n    Notes\n    -----\n    {row.mend.note}\n" if row.mend else "",
        args=args,
        result=result,
    )
    return function


def _options(where: Any, dtype: Any) -> dict[str, Any]:
    options = {}
    if where is not True:
        options["where"] = where
    if dtype is not None:
        options["dtype"] = dtype
    return options


def _unary(name: str) -> Unary:
    ufunc = ROWS[name].ufunc

    def function(x: Any, /, *, out: Any = None, where: Any = True, dtype: Any = None) -> Any:
        given = None if out is None else (out,)
        x = x if isinstance(x, ndarray) else asarray(x)
        return engine.elementwise(ndarray, ufunc, (x,), given, _options(where, dtype))

    documented: Unary = _documented(function, name, _ONE)
    return documented


def _binary(name: str) -> Binary:
    ufunc = ROWS[name].ufunc

    def function(x1: Any, x2: Any, /, *, out: Any = None, where: Any = True, dtype: Any = None) -> Any:
        given = None if out is None else (out,)
        return engine.elementwise(ndarray, ufunc, (x1, x2), given, _options(where, dtype))

    documented: Binary = _documented(function, name, _TWO)
    return documented


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
add = _binary("add")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atan2 = _binary("atan2")
atanh = _unary("atanh")
bitwise_and = _binary("bitwise_and")
bitwise_invert = _unary("bitwise_invert")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
ceil = _unary("ceil")
conj = _unary("conj")
copysign = _binary("copysign")
cos = _unary("cos")
cosh = _unary("cosh")
divide = _binary("divide")
equal = _binary("equal")
exp = _unary("exp")
expm1 = _unary("expm1")
floor = _unary("floor")
floor_divide = _binary("floor_divide")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
hypot = _binary("hypot")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
less = _binary("less")
less_equal = _binary("less_equal")
log = _unary("log")
log10 = _unary("log10")
log1p = _unary("log1p")
log2 = _unary("log2")
logaddexp = _binary("logaddexp")
logical_and = _binary("logical_and")
logical_not = _unary("logical_not")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply")
negative = _unary("negative")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal")
positive = _unary("positive")
pow = _binary("pow")
reciprocal = _unary("reciprocal")
remainder = _binary("remainder")
rint = _unary("rint")
sign = _unary("sign")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
square = _unary("square")
subtract = _binary("subtract")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")


def clip(x: Any, /, min: Any = None, max: Any = None, *, out: Any = None) -> ndarray:
    """Return the elements held between limits.

    Parameters
    ----------
    x : array_like
        The array.
    min, max : array_like, optional
        The limits; None for none.
    out : ndarray, optional
        Where the result goes.

    Returns
    -------
    ndarray
        `out`, or a new array of the broadcast shape.

    Raises
    ------
    ValueError
        If the shapes cannot be broadcast together, or `out` is read-only.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.clip(nd.arange(5), 1, 3)
    array([1, 1, 2, 3, 3])
    """
    result: ndarray = asarray(x).clip(min, max, out)
    return result


def real(x: Any, /) -> ndarray:
    """Return the real parts.

    Parameters
    ----------
    x : array_like
        The array.

    Returns
    -------
    ndarray
        A view, that can be written to if the array can: shares memory with `x`.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.real(nd.array([1 + 2j, 3]))
    array([1., 3.])
    """
    return asarray(x).real


def imag(x: Any, /) -> ndarray:
    """Return the imaginary parts.

    Parameters
    ----------
    x : array_like
        The array.

    Returns
    -------
    ndarray
        A view, that can be written to if the array can: shares memory with `x`.  Of real numbers new zeros, which
        cannot be written to.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.imag(nd.array([1 + 2j, 3]))
    array([2., 0.])
    """
    return asarray(x).imag


def round(x: Any, /, decimals: int = 0, *, out: Any = None) -> ndarray:
    """Return the nearest integers, of two the even ones; real and imaginary parts apart.

    Parameters
    ----------
    x : array_like
        The array.
    decimals : int
        To how many decimals to round, which may be negative.
    out : ndarray, optional
        Where the result goes.

    Returns
    -------
    ndarray
        `out`, or a new array of the same dtype; on the device of `x`, sharing nothing with it.

    Raises
    ------
    ValueError
        If `out` is read-only or has another shape.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.round(nd.array([0.5, 1.5, -2.6]))
    array([ 0.,  2., -3.])
    """
    result: ndarray = asarray(x).round(decimals, out)
    return result
