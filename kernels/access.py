"""Loads and stores by address: what kernels see of memory.

    ACCESS      dtype -> how its elements are loaded, as a value of the type they are computed in, and stored
    WORDS       number of bytes -> how a word of that many is loaded and stored, for what only moves

Addresses are ``types.uint64``, and must be multiples of `alignment`.  Memory is always global memory, which the loads
say, so that they are LDG and not the slower generic LD.  float16 and bfloat16 are computed in float32, and rounded to
the nearest, of two to the even one, when they are stored.  A bool is a byte, true if it is not 0.

Each function is an intrinsic, and beside it stands its twin for the simulator.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from nbdlpack.kernels.numba_cuda import SIMULATED, device_function, intrinsic, types

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ACCESS",
    "WORDS",
    "Access",
    "element",
    "float32_as_uint32",
    "float64_as_uint64",
    "float64_to_odd_float32",
    "indices",
    "offset",
    "uint32_as_float32",
    "uint64_as_float64",
]


class Access(NamedTuple):
    """How kernels reach elements of one dtype, or words of one size."""

    itemsize: int
    alignment: int
    """What addresses must be a multiple of."""
    type: Any
    """Numba's type of a loaded value."""
    load: Callable[[Any], Any]
    """``load(address)``"""
    store: Callable[[Any, Any], None]
    """``store(address, value)``; the value is cast to `type`"""


COMPUTED_IN: Final = {
    np.dtype(kind): np.dtype(computed)
    for kind, computed in (
        (np.bool, np.bool),
        (np.int8, np.int8),
        (np.int16, np.int16),
        (np.int32, np.int32),
        (np.int64, np.int64),
        (np.uint8, np.uint8),
        (np.uint16, np.uint16),
        (np.uint32, np.uint32),
        (np.uint64, np.uint64),
        (np.float16, np.float32),
        (ml_dtypes.bfloat16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.complex64, np.complex64),
        (np.complex128, np.complex128),
    )
}
"""The dtypes that kernels compute with, and in which dtype they do so."""

if SIMULATED:

    def _memory(address: Any, dtype: np.dtype[Any]) -> Any:
        return np.frombuffer((ctypes.c_char * dtype.itemsize).from_address(int(address)), dtype)

    def _element(dtype: np.dtype[Any], computed: np.dtype[Any]) -> tuple[Any, Any]:
        seen = np.dtype(np.uint8) if dtype == np.bool else dtype

        def load(address):
            return computed.type(_memory(address, seen)[0])

        def store(address, value):
            _memory(address, dtype)[0] = computed.type(value)

        return load, store

    def _four() -> tuple[Any, Any]:
        dtype = np.dtype((np.uint32, 4))

        def load(address):
            return tuple(_memory(address, dtype)[0])

        def store(address, value):
            _memory(address, dtype)[0] = value

        return load, store

    def _bits(given: Any, result: Any) -> Any:
        def cast(x):
            return np.dtype(given.name).type(x).view(result.name)

        return cast

    def float64_to_odd_float32(x):
        """Return a float64 as a float32, rounded so that rounding that once more rounds the float64 once."""
        near = np.float32(x)
        if near == x or near != near:  # or it is nan
            return near
        other = np.nextafter(near, np.float32(-np.inf if near > x else np.inf))
        return near if near.view(np.uint32) & 1 else other

else:
    from llvmlite import ir

    _I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
    _F32 = ir.FloatType()

    def _pointer(builder: Any, address: Any, kind: Any) -> Any:
        return builder.inttoptr(address, ir.PointerType(kind, addrspace=1))

    def _intrinsics(value: Any, load_ir: Callable[..., Any], store_ir: Callable[..., Any]) -> tuple[Any, Any]:
        """Return a load and a store of values of a Numba type, from what writes their instructions."""

        @intrinsic
        def load(typingctx, address):
            def codegen(context, builder, signature, args):
                return load_ir(context, builder, args[0])

            return value(types.uint64), codegen

        @intrinsic
        def store(typingctx, address, x):
            def codegen(context, builder, signature, args):
                store_ir(context, builder, args[0], args[1])
                return context.get_dummy_value()

            return types.void(types.uint64, value), codegen

        return load, store

    def _plain(kind: Any, size: int, unpack: Any = None, pack: Any = None) -> tuple[Any, Any]:
        """Return what writes the load and the store of one machine type, with a conversion on the way, if any."""

        def load_ir(context, builder, address):
            x = builder.load(_pointer(builder, address, kind), align=size)
            return x if unpack is None else unpack(builder, x)

        def store_ir(context, builder, address, x):
            builder.store(x if pack is None else pack(builder, x), _pointer(builder, address, kind), align=size)

        return load_ir, store_ir

    def _pair(kind: Any, size: int) -> tuple[Any, Any]:
        """Return what writes the load and the store of a complex number: two, as it is aligned like its halves."""

        def halves(builder, address):
            second = builder.add(address, ir.Constant(_I64, size))
            return _pointer(builder, address, kind), _pointer(builder, second, kind)

        def load_ir(context, builder, address):
            x = ir.Constant(ir.LiteralStructType([kind, kind]), ir.Undefined)
            for i, half in enumerate(halves(builder, address)):
                x = builder.insert_value(x, builder.load(half, align=size), i)
            return x

        def store_ir(context, builder, address, x):
            for i, half in enumerate(halves(builder, address)):
                builder.store(builder.extract_value(x, i), half, align=size)

        return load_ir, store_ir

    def _select_nan(builder: Any, magnitude: Any, infinity: int, nan: Any, other: Any) -> Any:
        """Return `nan` where the bits without the sign are above those of infinity, else `other`."""
        is_nan = builder.icmp_unsigned(">", magnitude, ir.Constant(magnitude.type, infinity))
        return builder.select(is_nan, nan, other)

    # NaNs take a way of their own, since the instructions that convert them drop their signs.

    def _from_float16(builder: Any, x: Any) -> Any:
        asm = ir.InlineAsm(ir.FunctionType(_F32, [_I16]), "cvt.f32.f16 $0, $1;", "=f,h")
        magnitude = builder.and_(x, ir.Constant(_I16, 0x7FFF))
        wide = builder.zext(x, _I32)
        sign = builder.shl(builder.and_(wide, ir.Constant(_I32, 0x8000)), ir.Constant(_I32, 16))
        payload = builder.shl(builder.and_(wide, ir.Constant(_I32, 0x3FF)), ir.Constant(_I32, 13))
        nan = builder.or_(builder.or_(sign, payload), ir.Constant(_I32, 0x7F800000))
        return _select_nan(builder, magnitude, 0x7C00, builder.bitcast(nan, _F32), builder.call(asm, [x]))

    def _to_float16(builder: Any, x: Any) -> Any:
        asm = ir.InlineAsm(ir.FunctionType(_I16, [_F32]), "cvt.rn.f16.f32 $0, $1;", "=h,f")
        bits = builder.bitcast(x, _I32)
        magnitude = builder.and_(bits, ir.Constant(_I32, 0x7FFFFFFF))
        high = builder.lshr(bits, ir.Constant(_I32, 16))
        sign = builder.and_(high, ir.Constant(_I32, 0x8000))
        payload = builder.and_(builder.lshr(bits, ir.Constant(_I32, 13)), ir.Constant(_I32, 0x3FF))
        nan = builder.or_(builder.or_(sign, payload), ir.Constant(_I32, 0x7E00))
        return _select_nan(builder, magnitude, 0x7F800000, builder.trunc(nan, _I16), builder.call(asm, [x]))

    def _from_bfloat16(builder: Any, x: Any) -> Any:
        return builder.bitcast(builder.shl(builder.zext(x, _I32), ir.Constant(_I32, 16)), _F32)

    def _to_bfloat16(builder: Any, x: Any) -> Any:
        bits = builder.bitcast(x, _I32)
        magnitude = builder.and_(bits, ir.Constant(_I32, 0x7FFFFFFF))
        high = builder.lshr(bits, ir.Constant(_I32, 16))
        half = builder.add(builder.and_(high, ir.Constant(_I32, 1)), ir.Constant(_I32, 0x7FFF))
        rounded = builder.lshr(builder.add(bits, half), ir.Constant(_I32, 16))
        sign = builder.and_(high, ir.Constant(_I32, 0x8000))
        nan = builder.or_(sign, ir.Constant(_I32, 0x7FC0))
        return builder.trunc(_select_nan(builder, magnitude, 0x7F800000, nan, rounded), _I16)

    def _is_not_zero(builder: Any, x: Any) -> Any:
        return builder.icmp_unsigned("!=", x, ir.Constant(x.type, 0))

    _SPECIAL = {
        np.dtype(np.bool): _plain(ir.IntType(8), 1, _is_not_zero, lambda b, x: b.zext(x, ir.IntType(8))),
        np.dtype(np.float16): _plain(_I16, 2, _from_float16, _to_float16),
        np.dtype(ml_dtypes.bfloat16): _plain(_I16, 2, _from_bfloat16, _to_bfloat16),
        np.dtype(np.float32): _plain(_F32, 4),
        np.dtype(np.float64): _plain(ir.DoubleType(), 8),
        np.dtype(np.complex64): _pair(_F32, 4),
        np.dtype(np.complex128): _pair(ir.DoubleType(), 8),
    }

    def _element(dtype: np.dtype[Any], computed: np.dtype[Any]) -> tuple[Any, Any]:
        written = _SPECIAL.get(dtype) or _plain(ir.IntType(8 * dtype.itemsize), dtype.itemsize)
        return _intrinsics(_numba_type(computed), *written)

    def _four() -> tuple[Any, Any]:
        """Return the load and the store of 16 bytes at once, as four words."""
        vector = ir.VectorType(_I32, 4)
        value = types.UniTuple(types.uint32, 4)

        def load_ir(context, builder, address):
            x = builder.load(_pointer(builder, address, vector), align=16)
            return context.make_tuple(
                builder, value, [builder.extract_element(x, ir.Constant(_I32, i)) for i in range(4)]
            )

        def store_ir(context, builder, address, x):
            whole = ir.Constant(vector, ir.Undefined)
            for i in range(4):
                whole = builder.insert_element(whole, builder.extract_value(x, i), ir.Constant(_I32, i))
            builder.store(whole, _pointer(builder, address, vector), align=16)

        return _intrinsics(value, load_ir, store_ir)

    def _bits(given: Any, result: Any) -> Any:
        @intrinsic
        def cast(typingctx, x):
            def codegen(context, builder, signature, args):
                return builder.bitcast(args[0], context.get_value_type(result))

            return result(given), codegen

        return cast

    @intrinsic
    def float64_to_odd_float32(typingctx, x):
        """Return a float64 as a float32, rounded so that rounding that once more rounds the float64 once."""

        def codegen(context, builder, signature, args):
            x = args[0]
            double, near = x.type, builder.fptrunc(x, _F32)
            back = builder.fpext(near, double)
            bits = builder.bitcast(near, _I32)
            # Towards zero, and then odd: the bits of both signs count away from zero.
            absolute = [builder.and_(builder.bitcast(v, _I64), ir.Constant(_I64, (1 << 63) - 1)) for v in (back, x)]
            away = builder.icmp_unsigned(">", *absolute)
            down = builder.sub(bits, builder.zext(away, _I32))
            odd = builder.or_(down, ir.Constant(_I32, 1))
            exact = builder.fcmp_unordered("==", back, x)
            return builder.bitcast(builder.select(exact, bits, odd), _F32)

        return types.float32(types.float64), codegen


def _numba_type(dtype: np.dtype[Any]) -> Any:
    return types.boolean if dtype == np.bool else getattr(types, dtype.name)


def _access(dtype: np.dtype[Any], computed: np.dtype[Any]) -> Access:
    alignment = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return Access(dtype.itemsize, alignment, _numba_type(computed), *_element(dtype, computed))


ACCESS: Final = {dtype: _access(dtype, computed) for dtype, computed in COMPUTED_IN.items()}
"""The dtypes with kernels."""

WORDS: Final = {n: ACCESS[np.dtype(f"u{n}")] for n in (1, 2, 4, 8)}
"""Words, by their number of bytes: unsigned integers, and for 16 four of them in a tuple."""
WORDS[16] = Access(16, 16, types.UniTuple(types.uint32, 4), *_four())

float32_as_uint32 = _bits(types.float32, types.uint32)
uint32_as_float32 = _bits(types.uint32, types.float32)
float64_as_uint64 = _bits(types.float64, types.uint64)
uint64_as_float64 = _bits(types.uint64, types.float64)


# -- where the k-th element is


@device_function
def indices(k, shape):
    """Return the indices along four dimensions of the k-th element in C order."""
    # Divisions are the cost of strided kernels.  The compiler makes them 32 bits wide where the numbers are.
    rest = types.uint64(k)
    n = types.uint64(shape[3])
    above = rest // n
    i3 = types.int64(rest - above * n)
    if shape[0] * shape[1] == 1:
        return types.int64(0), types.int64(0), types.int64(above), i3
    n = types.uint64(shape[2])
    rest = above // n
    i2 = types.int64(above - rest * n)
    n = types.uint64(shape[1])
    above = rest // n
    return types.int64(above), types.int64(rest - above * n), i2, i3


@device_function
def offset(index, steps):
    """Return how many bytes from the first element the one with an index along four dimensions is."""
    return index[0] * steps[0] + index[1] * steps[1] + index[2] * steps[2] + index[3] * steps[3]


@device_function
def element(address, index, steps):
    """Return the address of the element with indices along four dimensions."""
    return address + types.uint64(offset(index, steps))
