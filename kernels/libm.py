"""The functions of C's math library, for float32 and float64 by one name, and what else operators do not say.

Numba has Python's `math`, in which some of these are missing or give integers.  On the device these are libdevice's.

A number in a kernel's text is a float64 or an int64, and would make a float64 of a float32: write ``like(0.5, x)``.
Where the rounding of a product matters that is then added to something, write ``product(x, y)``: the compiler makes
one operation, rounded once, of an ordinary product and sum.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack.kernels.numba_cuda import SIMULATED, intrinsic, types

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = {
    1: "acos acosh asin asinh atan atanh ceil cos cosh exp expm1 fabs floor log log10 log1p log2 rint sin sinh sqrt "
    "tan tanh trunc",
    2: "atan2 copysign fmod hypot pow",
    3: "fma",
}
"""The functions, by their number of arguments, which all are of the type that the first has."""

if SIMULATED:
    _NUMPY = {f"a{name}": f"arc{name}" for name in "cos cosh sin sinh tan tanh tan2".split()}

    def _fma(x, y, z):
        if np.isfinite(x) and np.isfinite(y) and np.isfinite(z):
            return type(x)(float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))))
        return x * y + z

    def _pow(x, y):
        # For an exponent of 1/2 that is the same for all, NumPy takes the square root, of -inf and -0.0 as well.
        return np.power(np.array([x, x]), np.array([y, type(y)(1)]))[0]

    def _function(name: str, count: int) -> Any:
        return {"fma": _fma, "pow": _pow}.get(name) or getattr(np, _NUMPY.get(name, name))

    product = np.multiply

    def like(value, x):
        """Return a number as one of the type of another."""
        return type(x)(value)

    def complex_of(x, y):
        """Return the complex number of two parts of one type."""
        kind = np.complex64 if type(x) is np.float32 else np.complex128
        return kind(complex(x, y))

else:
    from llvmlite import ir

    def _call(name_of: Callable[[bool], str]) -> Callable[..., Any]:
        """Return what writes a call of an external function, whose name depends on whether its type is float32."""

        def codegen(context, builder, signature, args):
            kind = args[0].type
            name = name_of(isinstance(kind, ir.FloatType))
            module = builder.module
            function = module.globals.get(name)
            if function is None:
                function = ir.Function(module, ir.FunctionType(kind, [kind] * len(args)), name)
            return builder.call(function, args)

        return codegen

    def _unary(codegen: Callable[..., Any]) -> Any:
        @intrinsic
        def function(typingctx, x):
            return x(x), codegen

        return function

    def _binary(codegen: Callable[..., Any]) -> Any:
        @intrinsic
        def function(typingctx, x, y):
            return x(x, x), codegen

        return function

    def _ternary(codegen: Callable[..., Any]) -> Any:
        @intrinsic
        def function(typingctx, x, y, z):
            return x(x, x, x), codegen

        return function

    def _function(name: str, count: int) -> Any:
        lift = (_unary, _binary, _ternary)[count - 1]
        return lift(_call(lambda single: f"__nv_{name}{'f' if single else ''}"))

    product = _binary(_call(lambda single: f"llvm.nvvm.mul.rn.{'f' if single else 'd'}"))

    @intrinsic
    def like(typingctx, value, x):
        """Return a number as one of the type of another."""

        def codegen(context, builder, signature, args):
            return args[0]

        return x(x, x), codegen

    @intrinsic
    def complex_of(typingctx, x, y):
        """Return the complex number of two parts of one type."""

        def codegen(context, builder, signature, args):
            pair = ir.Constant(ir.LiteralStructType([args[0].type] * 2), ir.Undefined)
            return builder.insert_value(builder.insert_value(pair, args[0], 0), args[1], 1)

        return (types.complex64 if x == types.float32 else types.complex128)(x, x), codegen


globals().update({name: _function(name, count) for count, names in _NAMES.items() for name in names.split()})
