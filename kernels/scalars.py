"""One scalar function for each elementwise function: what kernels compute of one element.

They are plain Python, which Numba compiles and its simulator runs, and give what NumPy's ufuncs give, also where that
is a matter of choice: integers wrap around, a division of integers by zero gives 0, maximum and minimum hand on NaN,
complex numbers are ordered by their real parts first.  Only a negative power of an integer, which NumPy refuses, has a
value here: the power's integer part.

`TABLE` says which function is for which kinds of dtypes, by the names of NumPy's ufuncs.  To add a function: write it
here, once for all kinds of numbers that it can serve, and add its row.  Where an operator or a function of `libm` says
it all, the row suffices.  Where `nbdlpack.ufuncs` mends NumPy's ufunc, the function gives what that does.

float16 and bfloat16 come as float32.  The functions of complex numbers that go beyond arithmetic compute in float64:
those of complex64 as well, which need no care for overflow then.  Their values at infinities, NaNs and zeros are those
of the C standard's annex G, which NumPy has from the C library.
"""

from __future__ import annotations

import operator
from functools import cache
from math import inf, nan, pi
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from nbdlpack.kernels import libm
from nbdlpack.kernels.libm import complex_of, like, product
from nbdlpack.kernels.numba_cuda import device_function, types

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HEAVY", "ON_BITS", "TABLE", "loaded_as", "scalar_function"]

# -- several kinds of numbers


@device_function
def identity(x):
    return x


@device_function
def square(x):
    return x * x


@device_function
def absolute(x):
    return -x if x < 0 else x


@device_function
def maximum(x, y):
    return x if x >= y or x != x else y


@device_function
def minimum(x, y):
    return x if x <= y or x != x else y


@device_function
def always(x):
    return True


@device_function
def never(x):
    return False


@device_function
def logical_and(x, y):
    return x != 0 and y != 0


@device_function
def logical_or(x, y):
    return x != 0 or y != 0


@device_function
def logical_xor(x, y):
    return (x != 0) != (y != 0)


@device_function
def logical_not(x):
    return x == 0


@cache
def _mixed(compare: Any, *, signed_first: bool) -> Any:
    """Return a comparison of a signed integer with an unsigned one, which Numba would make of two floats."""
    if signed_first:

        @device_function
        def compared(x, y):
            return compare(types.uint64(x), types.uint64(y)) if x >= 0 else compare(-1, 0)

    else:

        @device_function
        def compared(x, y):
            return compare(types.uint64(x), types.uint64(y)) if y >= 0 else compare(0, -1)

    return compared


# -- integers: Numba computes them in 64 bits, and they are cut off when they are stored


@device_function
def integer_sign(x):
    return 1 if x > 0 else (-1 if x < 0 else 0)


@device_function
def integer_reciprocal(x):
    return x if x == 1 or x == -1 else x - x


@device_function
def signed_floor_divide(x, y):
    if y == 0:
        return types.int64(0)
    if y == -1:
        return types.int64(-x)  # the least integer has no quotient that there is
    return types.int64(x // y)


@device_function
def unsigned_floor_divide(x, y):
    return types.uint64(0) if y == 0 else types.uint64(x // y)


@device_function
def signed_remainder(x, y):
    return types.int64(0) if y == 0 or y == -1 else types.int64(x % y)


@device_function
def unsigned_remainder(x, y):
    return types.uint64(0) if y == 0 else types.uint64(x % y)


@device_function
def signed_left_shift(x, y):
    return types.int64(x) << types.int64(y) if 0 <= y < 64 else types.int64(0)


@device_function
def unsigned_left_shift(x, y):
    return types.uint64(x) << types.uint64(y) if y < 64 else types.uint64(0)


@device_function
def signed_right_shift(x, y):
    return types.int64(x) >> types.int64(y if 0 <= y < 64 else 63)


@device_function
def unsigned_right_shift(x, y):
    return types.uint64(x) >> types.uint64(y) if y < 64 else types.uint64(0)


@device_function
def signed_power(x, y):
    base, n, result = types.int64(x), types.int64(y), types.int64(1)
    if n < 0:
        if base == -1:
            return types.int64(-1 if n & 1 else 1)
        return types.int64(1 if base == 1 else 0)
    while n != 0:
        if n & 1:
            result = types.int64(result * base)
        base = types.int64(base * base)
        n = types.int64(n >> 1)
    return result


@device_function
def unsigned_power(x, y):
    one = types.uint64(1)
    base, n, result = types.uint64(x), types.uint64(y), one
    while n != 0:
        if n & one:
            result = types.uint64(result * base)
        base = types.uint64(base * base)
        n = types.uint64(n >> one)
    return result


# -- real numbers


@device_function
def isfinite(x):
    return libm.fabs(x) < inf


@device_function
def isinf(x):
    return libm.fabs(x) == inf


@device_function
def isnan(x):
    return x != x


@device_function
def signbit(x):
    return libm.copysign(like(1, x), x) < 0


@device_function
def sign(x):
    if x > 0:
        return like(1, x)
    if x < 0:
        return like(-1, x)
    return like(0, x) if x == 0 else x


@device_function
def reciprocal(x):
    return like(1, x) / x


@device_function
def floor_divide(x, y):
    if y == 0 or isinf(x) or isinf(y):
        return x / y
    remainder = libm.fmod(x, y)
    quotient = (x - remainder) / y
    if remainder != 0 and (y < 0) != (remainder < 0):
        quotient -= like(1, x)
    if quotient == 0:
        return libm.copysign(like(0, x), x / y)
    below = libm.floor(quotient)
    return below + like(1, x) if quotient - below > like(0.5, x) else below


@device_function
def remainder(x, y):
    result = libm.fmod(x, y)
    if y == 0:
        return result
    if result == 0:
        return libm.copysign(result, y)
    return result + y if (y < 0) != (result < 0) else result


@device_function
def hypot(x, y):
    x, y = libm.fabs(x), libm.fabs(y)
    negligible = like(2.0**-30, x)  # and libm's, which may be an ulp too large, would overflow
    if y < x * negligible:
        return x
    return y if x < y * negligible else libm.hypot(x, y)


@device_function
def logaddexp(x, y):
    if x == y:  # also two infinities
        return x + like(0.693147180559945309417232121458, x)
    difference = x - y
    if difference > 0:
        return x + libm.log1p(libm.exp(-difference))
    return y + libm.log1p(libm.exp(difference))


@cache
def nextafter(infinity: int, bits: int) -> Any:
    """Return the function of two numbers' bits, for a kind of numbers of which those of infinity are given."""
    top = 1 << (bits - 1)

    @device_function
    def following(x, y):
        x, y, one = types.uint64(x), types.uint64(y), types.uint64(1)
        sign, largest = types.uint64(top), types.uint64(infinity)
        x_size, y_size = x & ~sign, y & ~sign
        if x_size > largest:  # nan
            return x
        if y_size > largest or x == y or x_size | y_size == 0:
            return y
        if x_size == 0:
            return (y & sign) | one
        return x - one if (x ^ y) & sign or y_size < x_size else x + one

    return following


_INFINITIES: Final = {
    np.dtype(np.float16): 0x7C00,
    np.dtype(ml_dtypes.bfloat16): 0x7F80,
    np.dtype(np.float32): 0x7F800000,
    np.dtype(np.float64): 0x7FF0000000000000,
}

# -- complex numbers: arithmetic


@device_function
def complex_identity(z):
    return complex_of(z.real, z.imag)


@device_function
def complex_add(z, w):
    return complex_of(z.real + w.real, z.imag + w.imag)


@device_function
def complex_subtract(z, w):
    return complex_of(z.real - w.real, z.imag - w.imag)


@device_function
def complex_multiply(z, w):
    return complex_of(
        product(z.real, w.real) - product(z.imag, w.imag),
        product(z.real, w.imag) + product(z.imag, w.real),
    )


@device_function
def complex_divide(z, w):
    x, y, u, v = z.real, z.imag, w.real, w.imag
    if u == 0 and v == 0:
        zero = libm.fabs(u)
        return complex_of(x / zero, y / zero)
    one = like(1, x)
    if libm.fabs(u) >= libm.fabs(v):
        ratio = v / u
        scale = one / (u + product(v, ratio))
        return complex_of((x + product(y, ratio)) * scale, (y - product(x, ratio)) * scale)
    ratio = u / v
    scale = one / (v + product(u, ratio))
    return complex_of((product(x, ratio) + y) * scale, (product(y, ratio) - x) * scale)


@device_function
def complex_reciprocal(z):
    x, y = z.real, z.imag
    one = like(1, x)
    if libm.fabs(y) <= libm.fabs(x):
        ratio = y / x
        size = x + product(y, ratio)
        return complex_of(one / size, -ratio / size)
    ratio = x / y
    size = product(x, ratio) + y
    return complex_of(ratio / size, -one / size)


@device_function
def complex_square(z):
    return complex_multiply(z, z)


@device_function
def complex_negative(z):
    return complex_of(-z.real, -z.imag)


@device_function
def conjugate(z):
    return complex_of(z.real, -z.imag)


@device_function
def complex_absolute(z):
    return hypot(z.real, z.imag)


@device_function
def complex_sign(z):
    x, y = z.real, z.imag
    size = hypot(x, y)
    if size == 0:
        return complex_of(size, size)
    if size == inf:
        if (isinf(x) and isinf(y)) or isnan(x) or isnan(y):
            return complex_of(like(nan, x), like(nan, x))
        return complex_of(sign(x), like(0, x)) if isinf(x) else complex_of(like(0, x), sign(y))
    return complex_of(x / size, y / size)


@device_function
def complex_rint(z):
    return complex_of(libm.rint(z.real), libm.rint(z.imag))


@device_function
def complex_isfinite(z):
    return isfinite(z.real) and isfinite(z.imag)


@device_function
def complex_isinf(z):
    return isinf(z.real) or isinf(z.imag)


@device_function
def complex_isnan(z):
    return isnan(z.real) or isnan(z.imag)


@device_function
def complex_true(z):
    return z.real != 0 or z.imag != 0


@device_function
def complex_logical_and(z, w):
    return complex_true(z) and complex_true(w)


@device_function
def complex_logical_or(z, w):
    return complex_true(z) or complex_true(w)


@device_function
def complex_logical_xor(z, w):
    return complex_true(z) != complex_true(w)


@device_function
def complex_logical_not(z):
    return not complex_true(z)


@device_function
def complex_equal(z, w):
    return z.real == w.real and z.imag == w.imag


@device_function
def complex_not_equal(z, w):
    return z.real != w.real or z.imag != w.imag


@device_function
def complex_less(z, w):
    if z.real == w.real:
        return z.imag < w.imag
    return z.real < w.real and not (isnan(z.imag) or isnan(w.imag))


@device_function
def complex_less_equal(z, w):
    if z.real == w.real:
        return z.imag <= w.imag
    return z.real < w.real and not (isnan(z.imag) or isnan(w.imag))


@device_function
def complex_greater(z, w):
    return complex_less(w, z)


@device_function
def complex_greater_equal(z, w):
    return complex_less_equal(w, z)


@device_function
def complex_maximum(z, w):
    return z if complex_isnan(z) or complex_less_equal(w, z) else w


@device_function
def complex_minimum(z, w):
    return z if complex_isnan(z) or complex_less_equal(z, w) else w


# -- complex numbers: functions of the parts in float64, which return parts


def _of_parts(function: Callable[..., Any]) -> Any:
    """Return the function of a complex number that a function of its parts makes."""

    @device_function
    def whole(z):
        x, y = function(types.float64(z.real), types.float64(z.imag))
        return complex_of(x, y)

    return whole


@device_function
def sqrt_parts(x, y):
    if isinf(y):
        return inf, y
    if isinf(x):
        if x > 0:
            return x, y if isnan(y) else libm.copysign(0.0, y)
        return y if isnan(y) else 0.0, libm.copysign(inf, y)
    if x == 0 and y == 0:
        return 0.0, y
    largest, scale = max(libm.fabs(x), libm.fabs(y)), 1.0
    if largest > 2.0**1020:
        x, y, scale = x * 0.0625, y * 0.0625, 4.0
    elif largest < 2.0**-960:
        x, y, scale = x * 2.0**108, y * 2.0**108, 2.0**-54
    root = libm.sqrt((libm.fabs(x) + libm.hypot(x, y)) * 0.5)
    other = libm.fabs(y) / (root + root)
    if x < 0:
        return other * scale, libm.copysign(root * scale, y)
    return root * scale, libm.copysign(other * scale, y)


@device_function
def scaled_exp(x, c, s):
    """Return two numbers times the exponential of a positive third, which may be too large for a number itself."""
    for _ in range(2):
        if x > 709.0:
            c, s, x = c * 8.218407461554972e307, s * 8.218407461554972e307, x - 709.0
    growth = libm.exp(x)
    return c * growth, s * growth


@device_function
def exp_parts(x, y):
    if y == 0:
        return libm.exp(x), y
    if not isfinite(y):
        if x == inf:
            return inf, nan
        return (0.0, libm.copysign(0.0, y)) if x == -inf else (nan, nan)
    return scaled_exp(x, libm.cos(y), libm.sin(y))


@device_function
def expm1_parts(x, y):
    if not (isfinite(x) and isfinite(y)) or (x == 0 and y == 0):
        c, s = exp_parts(x, y)
        return c - 1.0, s
    s = libm.sin(y * 0.5)
    return libm.expm1(x) * libm.cos(y) - 2.0 * s * s, libm.exp(x) * libm.sin(y)


@device_function
def squares_less_one(x, y):
    """Return x*x + y*y - 1, for a sum from 1/2 to 2 and x >= y, with hardly an error."""
    xx, yy = product(x, x), product(y, y)
    total = xx + yy
    return (total - 1.0) + ((yy - (total - xx)) + libm.fma(x, x, -xx) + libm.fma(y, y, -yy))


@device_function
def log_of_size(x, y):
    """Return the logarithm of the absolute value."""
    x, y = libm.fabs(x), libm.fabs(y)
    large, small = max(x, y), min(x, y)
    if 0.5 <= large <= 1.5 and 0.5 <= x * x + y * y <= 2.0:  # not so of nan
        return 0.5 * libm.log1p(squares_less_one(large, small))
    if 2.0**1022 < large < inf:
        return libm.log(libm.hypot(0.25 * x, 0.25 * y)) + 1.3862943611198906
    if 0 < large < 2.0**-960:
        return libm.log(libm.hypot(2.0**108 * x, 2.0**108 * y)) - 74.8598955004741
    return libm.log(libm.hypot(x, y))


@device_function
def log_parts(x, y):
    return log_of_size(x, y), libm.atan2(y, x)


@device_function
def log10_parts(x, y):
    return log_of_size(x, y) * 0.4342944819032518, libm.atan2(y, x) * 0.4342944819032518


@device_function
def log2_parts(x, y):
    return log_of_size(x, y) * 1.4426950408889634, libm.atan2(y, x) * 1.4426950408889634


@device_function
def log1p_parts(x, y):
    near = libm.fabs(x) < 0.5 and libm.fabs(y) < 0.5
    real = 0.5 * libm.log1p(x + x + (x * x + y * y)) if near else log_of_size(x + 1.0, y)
    return real, libm.atan2(y, x + 1.0)


@device_function
def sinh_parts(x, y):
    if y == 0:
        return libm.sinh(x), y
    if not isfinite(y):
        return x if x == 0 or isinf(x) else nan, nan
    c, s = libm.cos(y), libm.sin(y)
    if libm.fabs(x) > 709.0:
        c, s = scaled_exp(libm.fabs(x), c * 0.5, s * 0.5)
        return c if x > 0 else -c, s
    return libm.sinh(x) * c, libm.cosh(x) * s


@device_function
def cosh_parts(x, y):
    if y == 0:
        return libm.cosh(x), y if isnan(x) else y * libm.copysign(1.0, x)
    if not isfinite(y):
        return inf if isinf(x) else nan, 0.0 if x == 0 else nan
    c, s = libm.cos(y), libm.sin(y)
    if libm.fabs(x) > 709.0:
        c, s = scaled_exp(libm.fabs(x), c * 0.5, s * 0.5)
        return c, s if x > 0 else -s
    return libm.cosh(x) * c, libm.sinh(x) * s


@device_function
def tanh_parts(x, y):
    if y == 0:
        return libm.tanh(x), y
    if isinf(x):
        return libm.copysign(1.0, x), libm.copysign(0.0, y)
    if not isfinite(y):
        return x if x == 0 else nan, nan
    c, s = libm.cos(y), libm.sin(y)
    if libm.fabs(x) > 22.0:
        decay = libm.exp(-libm.fabs(x))
        return libm.copysign(1.0, x), 4.0 * s * c * decay * decay
    sinh, cosh = libm.sinh(x), libm.cosh(x)
    size = sinh * sinh + c * c
    return sinh * cosh / size, s * c / size


@device_function
def sin_parts(x, y):
    a, b = sinh_parts(-y, x)
    return b, -a


@device_function
def cos_parts(x, y):
    return cosh_parts(-y, x)


@device_function
def tan_parts(x, y):
    a, b = tanh_parts(-y, x)
    return b, -a


@device_function
def asinh_parts(x, y):
    p, q = libm.fabs(x), libm.fabs(y)
    if isinf(q):
        angle = nan if isnan(x) else (pi / 4 if isinf(x) else pi / 2)
        return libm.copysign(inf, x), libm.copysign(angle, y)
    if isinf(p):
        return x, y if isnan(y) else libm.copysign(0.0, y)
    if isnan(x) or isnan(y):
        return nan, y if y == 0 else nan
    if max(p, q) > 1e9:
        real, imag = log_of_size(x, y) + 0.6931471805599453, libm.atan2(q, p)
    else:
        a, b = sqrt_parts(1.0 - q, -p)
        c, d = sqrt_parts(1.0 + q, p)
        real, imag = libm.asinh(a * d - b * c), libm.atan2(q, a * c - b * d)
    return libm.copysign(real, x), libm.copysign(imag, y)


@device_function
def asin_parts(x, y):
    if isnan(x) or isnan(y):
        if x == 0:
            return x, y
        return nan, libm.copysign(inf, y) if isinf(x) or isinf(y) else nan
    a, b = asinh_parts(-y, x)
    return b, -a


@device_function
def acos_parts(x, y):
    if not (isfinite(x) and isfinite(y)):
        a, b = asin_parts(x, y)
        return pi / 2 - a, -b
    q = libm.fabs(y)
    if max(libm.fabs(x), q) > 1e9:
        real, imag = libm.atan2(q, x), log_of_size(x, y) + 0.6931471805599453
    else:
        a, b = sqrt_parts(1.0 - x, -q)
        c, d = sqrt_parts(1.0 + x, q)
        real, imag = 2.0 * libm.atan2(a, c), libm.asinh(d * a - c * b)
    return real, libm.copysign(imag, -y)


@device_function
def acosh_parts(x, y):
    a, b = acos_parts(x, y)
    if isnan(a):
        return libm.fabs(b), b if isnan(b) else a
    if isnan(b):
        return b, a
    return libm.fabs(b), libm.copysign(a, y)


@device_function
def atanh_parts(x, y):
    if not (isfinite(x) and isfinite(y)):
        if isinf(y):
            return libm.copysign(0.0, x), libm.copysign(pi / 2, y)
        if isinf(x) or x == 0:
            return libm.copysign(0.0, x), nan if isnan(y) else libm.copysign(pi / 2, y)
        return nan, nan
    if y == 0 and libm.fabs(x) <= 1.0:
        return libm.atanh(x), y
    p, q = libm.fabs(x), libm.fabs(y)
    large, small = max(p, q), min(p, q)
    if large > 1e17:
        if q <= 1.0:
            real = 1.0 / p
        elif p <= 1.0:
            real = p / q / q
        else:
            size = libm.hypot(0.5 * p, 0.5 * q)
            real = p / size / size * 0.25
        return libm.copysign(real, x), libm.copysign(pi / 2, y)
    if p == 1.0 and q < 1e-32:
        real = 0.5 * (0.6931471805599453 - libm.log(q))
    else:
        real = 0.25 * libm.log1p(4.0 * p / ((1.0 - p) * (1.0 - p) + q * q))
    total = p * p + q * q
    rest = -squares_less_one(large, small) if 0.5 <= total <= 2.0 else (1.0 - large) * (1.0 + large) - small * small
    return libm.copysign(real, x), 0.5 * libm.atan2(y + y, rest)


@device_function
def atan_parts(x, y):
    a, b = atanh_parts(-y, x)
    return b, -a


@device_function
def complex_power(z, w):
    z, w = types.complex128(z), types.complex128(w)
    one = complex_of(1.0, 0.0)
    n = w.real
    if n == 0 and w.imag == 0:
        return one
    if z.real == 0 and z.imag == 0:
        return complex_of(0.0, 0.0) if n > 0 else complex_of(nan, nan)
    if w.imag == 0 and -100 < n < 100 and libm.floor(n) == n:
        if n == 1:
            return z
        count = types.int64(libm.fabs(n))
        # As NumPy multiplies, from the lowest bit on: it decides where NaNs and infinities come up.
        result, power = z, z
        if count == 3:
            result = complex_multiply(z, complex_multiply(z, z))
        else:
            if count & 1 == 0:
                result = one
            count >>= 1
            while count:
                power = complex_multiply(power, power)
                if count & 1:
                    result = complex_multiply(result, power)
                count >>= 1
        return complex_divide(one, result) if n < 0 else result
    a, b = log_parts(z.real, z.imag)
    exponent = complex_multiply(w, complex_of(a, b))
    x, y = exp_parts(exponent.real, exponent.imag)
    return complex_of(x, y)


# -- which is for which


def _part_functions(suffix: str = "_parts") -> dict[str, Any]:
    """Return the functions of complex numbers, by name, that the functions of their parts above make."""
    return {name.removesuffix(suffix): _of_parts(f) for name, f in globals().items() if name.endswith(suffix)}


_complex: Final = _part_functions()

TABLE: Final[dict[str, dict[str, Any]]] = {
    "absolute": {"bu": identity, "i": absolute, "f": libm.fabs, "c": complex_absolute},
    "add": {"b": logical_or, "iuf": operator.add, "c": complex_add},
    "arccos": {"f": libm.acos, "c": _complex["acos"]},
    "arccosh": {"f": libm.acosh, "c": _complex["acosh"]},
    "arcsin": {"f": libm.asin, "c": _complex["asin"]},
    "arcsinh": {"f": libm.asinh, "c": _complex["asinh"]},
    "arctan": {"f": libm.atan, "c": _complex["atan"]},
    "arctan2": {"f": libm.atan2},
    "arctanh": {"f": libm.atanh, "c": _complex["atanh"]},
    "bitwise_and": {"b": logical_and, "iu": operator.and_},
    "bitwise_or": {"b": logical_or, "iu": operator.or_},
    "bitwise_xor": {"b": logical_xor, "iu": operator.xor},
    "ceil": {"biu": identity, "f": libm.ceil},
    "conjugate": {"iuf": identity, "c": conjugate},
    "copysign": {"f": libm.copysign},
    "cos": {"f": libm.cos, "c": _complex["cos"]},
    "cosh": {"f": libm.cosh, "c": _complex["cosh"]},
    "divide": {"f": operator.truediv, "c": complex_divide},
    "equal": {"biuf": operator.eq, "c": complex_equal},
    "exp": {"f": libm.exp, "c": _complex["exp"]},
    "expm1": {"f": libm.expm1, "c": _complex["expm1"]},
    "floor": {"biu": identity, "f": libm.floor},
    "floor_divide": {"i": signed_floor_divide, "u": unsigned_floor_divide, "f": floor_divide},
    "greater": {"biuf": operator.gt, "c": complex_greater},
    "greater_equal": {"biuf": operator.ge, "c": complex_greater_equal},
    "hypot": {"f": hypot},
    "invert": {"b": logical_not, "iu": operator.invert},
    "isfinite": {"biu": always, "f": isfinite, "c": complex_isfinite},
    "isinf": {"biu": never, "f": isinf, "c": complex_isinf},
    "isnan": {"biu": never, "f": isnan, "c": complex_isnan},
    "left_shift": {"i": signed_left_shift, "u": unsigned_left_shift},
    "less": {"biuf": operator.lt, "c": complex_less},
    "less_equal": {"biuf": operator.le, "c": complex_less_equal},
    "log": {"f": libm.log, "c": _complex["log"]},
    "log10": {"f": libm.log10, "c": _complex["log10"]},
    "log1p": {"f": libm.log1p, "c": _complex["log1p"]},
    "log2": {"f": libm.log2, "c": _complex["log2"]},
    "logaddexp": {"f": logaddexp},
    "logical_and": {"biuf": logical_and, "c": complex_logical_and},
    "logical_not": {"biuf": logical_not, "c": complex_logical_not},
    "logical_or": {"biuf": logical_or, "c": complex_logical_or},
    "logical_xor": {"biuf": logical_xor, "c": complex_logical_xor},
    "maximum": {"b": logical_or, "iuf": maximum, "c": complex_maximum},
    "minimum": {"b": logical_and, "iuf": minimum, "c": complex_minimum},
    "multiply": {"b": logical_and, "iuf": operator.mul, "c": complex_multiply},
    "negative": {"iuf": operator.neg, "c": complex_negative},
    "nextafter": {"f": nextafter},
    "not_equal": {"biuf": operator.ne, "c": complex_not_equal},
    "positive": {"iufc": identity},
    "power": {"i": signed_power, "u": unsigned_power, "f": libm.pow, "c": complex_power},
    "reciprocal": {"iu": integer_reciprocal, "f": reciprocal, "c": complex_reciprocal},
    "remainder": {"i": signed_remainder, "u": unsigned_remainder, "f": remainder},
    "right_shift": {"i": signed_right_shift, "u": unsigned_right_shift},
    "rint": {"f": libm.rint, "c": complex_rint},
    "sign": {"iu": integer_sign, "f": sign, "c": complex_sign},
    "signbit": {"f": signbit},
    "sin": {"f": libm.sin, "c": _complex["sin"]},
    "sinh": {"f": libm.sinh, "c": _complex["sinh"]},
    "sqrt": {"f": libm.sqrt, "c": _complex["sqrt"]},
    "square": {"iuf": square, "c": complex_square},
    "subtract": {"iuf": operator.sub, "c": complex_subtract},
    "tan": {"f": libm.tan, "c": _complex["tan"]},
    "tanh": {"f": libm.tanh, "c": _complex["tanh"]},
    "trunc": {"biu": identity, "f": libm.trunc},
}
"""The functions, by the names of NumPy's ufuncs and the kinds of the first operand's dtype."""

ON_BITS: Final = {"nextafter": nextafter}
"""The functions of numbers' bits."""

HEAVY: Final = frozenset(
    "arccos arccosh arcsin arcsinh arctan arctan2 arctanh cos cosh exp expm1 floor_divide hypot log log10 log1p log2 "
    "logaddexp power remainder sin sinh sqrt tan tanh".split()
)
"""Those that take longer to compute than memory takes: several at once would only make the kernels longer."""


def loaded_as(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype as which operands of a dtype are loaded and results stored: some functions want the bits."""
    return np.dtype(f"u{dtype.itemsize}") if name in ON_BITS else dtype


def scalar_function(name: str, *given: np.dtype[Any]) -> Any:
    """Return a function for operands of some dtypes.  Raises KeyError if there is none."""
    first, last = given[0], given[-1]
    kind = "f" if first in _INFINITIES else first.kind
    function = next((f for kinds, f in TABLE[name].items() if kind in kinds), None)
    if function is None:
        raise KeyError(first)
    if name in ON_BITS:
        return ON_BITS[name](_INFINITIES[first], 8 * first.itemsize)
    return _mixed(function, signed_first=first.kind == "i") if {first.kind, last.kind} == {"i", "u"} else function
