"""Arrays on the cpu as arguments and results of functions that Numba compiles for it.

Numba loads this module by the entry point in pyproject.toml, or it is loaded when Numba first asks for an array's type.

An argument is an export for the length of the call, a writable one if the array can be written to.  In a function it is
one of Numba's arrays, and so is all that is made of it there.  What is returned by a function that was given one of our
arrays is ours: a view of the argument, or an array over new memory of Numba's.  What came in as a NumPy array goes out
as one.  Functions that are given none of our arrays are not touched.

Numba forgets references where an exception leaves a function that was called by a compiled one.  An argument that these
were to then counts as exported for good: its memory stays, and copies of it are not lazy.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_void_p
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir
from llvmlite.binding import add_symbol
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.boxing import box_array
from numba.core.datamodel import default_manager
from numba.core.datamodel.models import ArrayModel
from numba.core.errors import NumbaNotImplementedError
from numba.core.runtime._nrt_python import c_helpers
from numba.extending import NativeValue, box, lower_cast, register_model, typeof_impl, unbox
from numba.np.numpy_support import as_dtype

from nbdlpack import dtypes
from nbdlpack.native import View, njit

if TYPE_CHECKING:
    from nbdlpack.dtypes import DType

__all__ = ["ArrayType", "register", "type_of"]

_CPU: Final = 1
"""The cpu's number in arrays."""
_INTERFACE: Final = 1
"""A number for what compiled code expects of this module: Numba keeps it in files, which other releases come upon."""
_TAKE, _GIVE = f"nbdlpack_njit_take_{_INTERFACE}", f"nbdlpack_njit_give_{_INTERFACE}"


def register() -> None:
    """Do nothing: Numba knows our arrays from when this module is imported."""


# -- types


class ArrayType(types.Array):  # type: ignore[misc]
    """Numba's type of an argument.  What is made of it in a function, views too, has the types of Numba's own arrays.

    Parameters
    ----------
    dtype : numba.types.Type
        That of the elements.
    ndim : int
        The number of dimensions.
    layout : {'C', 'F', 'A'}
        Whether they are contiguous in an order.
    readonly : bool
        Whether writing is an error of types.
    """

    def __init__(self, dtype: Any, ndim: int, layout: str, *, readonly: bool = False) -> None:
        name = f"{'readonly ' if readonly else ''}nbdlpack.ndarray({dtype}, {ndim}d, {layout})"
        super().__init__(dtype, ndim, layout, readonly=readonly, name=name)
        self._interface = _INTERFACE

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells types apart."""
        return (*super().key, self._interface)

    def __repr__(self) -> str:
        return str(self.name)

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Return how well the type stands in for another: in compiled code for NumPy's, but not where Python calls."""
        if isinstance(other, ArrayType) or typingctx.callstack:
            return super().can_convert_to(typingctx, other)
        return None


def _cast(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:  # noqa: ARG001
    return value


register_model(ArrayType)(ArrayModel)
for _pair in (ArrayType, types.Array), (types.Array, ArrayType), (ArrayType, ArrayType):
    lower_cast(*_pair)(_cast)


@cache
def _type(dtype: DType, ndim: int, layout: str, flags: int) -> ArrayType:
    try:
        kind = from_dtype(dtype)
        default_manager.lookup(kind)  # float16 has a name in Numba, but is nothing on the cpu
    except (NotImplementedError, NumbaNotImplementedError):
        msg = (
            f"the array is of {dtype}, which Numba does not have on the cpu: convert it first, x.astype('float32'), or "
            f"pass its bits, x.view('uint{8 * dtype.itemsize}')"
        )
        raise TypeError(msg) from None
    return ArrayType(kind, ndim, layout, readonly=bool(flags))


def type_of(x: View) -> ArrayType:
    """Return the type of an array as an argument.

    Parameters
    ----------
    x : View
        The array.

    Returns
    -------
    ArrayType
        By dtype, number of dimensions, layout and whether x is read-only.

    Raises
    ------
    TypeError
        If x is not on the cpu, or of a dtype for which Numba has no type.
    """
    if x._place != _CPU:
        raise TypeError(_elsewhere(x))
    contiguous = x._contiguous
    return _type(x.dtype, x.ndim, "C" if contiguous & 1 else "F" if contiguous else "A", x._flags)


typeof_impl.register(View, lambda x, context: type_of(x))  # noqa: ARG005


def _elsewhere(x: Any) -> str:
    return f"the array is on {x.device}, and functions compiled for the cpu take none: move it, x.to_device('cpu')"


# -- what compiled code calls.  It knows the functions by name, so that it can be kept in files.

for _name, _address in (_TAKE, njit.TAKE), (_GIVE, njit.GIVE):
    add_symbol(_name, _address)
njit.runtime[0] = CFUNCTYPE(c_void_p)(c_helpers["get_api"])()


def _call(builder: Any, name: str, result: Any, *args: Any) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _number(kind: types.Array) -> ir.Constant:
    """Return what the native functions are told of a type, or None if no array of ours has such elements."""
    word = dtypes.WORDS.get(as_dtype(kind.dtype))
    if word is None:
        return None
    layout = {"C": njit.C, "F": njit.FORTRAN}.get(kind.layout, 0)
    return ir.IntType(64)(word | kind.ndim << njit.NDIM | layout | (njit.WRITABLE if kind.mutable else 0))


def _take(kind: ArrayType, x: Any, c: Any) -> NativeValue:
    array = c.context.make_array(kind)(c.context, c.builder)
    pointer = c.builder.bitcast(array._getpointer(), c.pyapi.voidptr)
    failed = _call(c.builder, _TAKE, ir.IntType(64), x, pointer, _number(kind))
    _return_ours(c.pyapi)
    return NativeValue(array._getvalue(), is_error=cgutils.is_not_null(c.builder, failed))


def _box(kind: ArrayType, value: Any, c: Any) -> Any:
    # Where a list of Numba's has an argument of ours, a function may return it that is given the list alone.
    _return_ours(c.pyapi)
    return box_array(kind, value, c)


unbox(ArrayType)(_take)
box(ArrayType)(_box)


def _return_ours(pyapi: Any) -> None:
    # This object writes the code around one function: so what that returns is ours, and what others do is not.
    pyapi.nrt_adapt_ndarray_to_python = partial(_give, pyapi)


def _give(pyapi: Any, kind: types.Array, value: Any, dtype: Any) -> Any:
    numbas, number, builder = type(pyapi).nrt_adapt_ndarray_to_python, _number(kind), pyapi.builder
    if number is None:
        return numbas(pyapi, kind, value, dtype)
    pointer = builder.bitcast(cgutils.alloca_once_value(builder, value), pyapi.voidptr)
    result = cgutils.alloca_once_value(builder, _call(builder, _GIVE, pyapi.pyobj, pointer, number))
    nothing = cgutils.is_null(builder, builder.load(result))
    with builder.if_then(nothing, likely=False), builder.if_then(cgutils.is_null(builder, pyapi.err_occurred())):
        builder.store(numbas(pyapi, kind, value, dtype), result)
    return builder.load(result)


def _refuse(x: Any, wanted: int) -> None:
    """Raise the error that says why an object is not what a function is compiled for."""
    if not isinstance(x, View):
        msg = f"the function is compiled for nbdlpack.ndarray, not for {type(x).__name__}: pass nbdlpack.asarray(it)"
    elif x._place != _CPU:
        msg = _elsewhere(x)
    elif wanted & njit.WRITABLE and x._flags:
        msg = "the function is compiled to write to the argument, and the array is read-only: pass a copy, x.copy()"
    elif _number(type_of(x)).constant & ~njit.WRITABLE & wanted == wanted & ~njit.WRITABLE:
        msg = "the array's elements are at odd addresses, which compiled code does not allow for: pass a copy, x.copy()"
    else:
        msg = f"the function is not compiled for an argument of {type_of(x)}"
    raise TypeError(msg)


njit.hook.refuse = _refuse
