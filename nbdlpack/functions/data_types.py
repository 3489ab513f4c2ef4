"""Functions about the types of elements: what they hold, what they are converted and promoted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from nbdlpack import dtypes, engine
from nbdlpack.functions.conversion import asarray
from nbdlpack.native import View

if TYPE_CHECKING:
    from nbdlpack.array import ndarray
    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DType, DTypeLike

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


class FloatInfo(NamedTuple):
    """The limits of a floating dtype: what `finfo` returns."""

    bits: int
    """How many bits a number has."""
    eps: float
    """The distance from 1 to the next larger number."""
    max: float
    """The largest number."""
    min: float
    """The smallest number, which is negative if any is."""
    smallest_normal: float
    """The smallest positive number of full precision."""
    dtype: DType
    """The dtype, of a complex one that of its parts."""


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype: what `iinfo` returns."""

    bits: int
    """How many bits a number has."""
    max: int
    """The largest number."""
    min: int
    """The smallest number."""
    dtype: DType
    """The dtype."""


def _dtype_of(value: Any) -> DType:
    """Return the dtype of an array, or a dtype."""
    return value.dtype if isinstance(value, (View, np.ndarray, np.generic)) else dtypes.canonical(value)


def astype(x: Any, dtype: DTypeLike, /, *, copy: bool = True, device: Device | str | None = None) -> ndarray:
    """Return an array converted to a dtype.

    Complex numbers are not converted to real ones, as the standard has it, where the method `ndarray.astype` drops the
    imaginary part as NumPy does.

    Parameters
    ----------
    x : array_like
        The array.
    dtype : dtype
        The new type.
    copy : bool
        False returns the array itself if it has the dtype and is on the device.
    device : Device or str, optional
        The device of the result, that of `x` if not given.

    Returns
    -------
    ndarray
        In new memory, in the layout of `x`.

    Raises
    ------
    TypeError
        If an array cannot have the dtype, or complex numbers would become real ones.
    ValueError
        If the device does not exist.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.astype(nd.arange(3), nd.float32)
    array([0., 1., 2.], dtype=float32)
    """
    found = asarray(x)
    if found.dtype.kind == "c" and dtypes.canonical(dtype).kind not in "cb":
        msg = f"dtype is {dtype!r}, but x is complex: convert one of its parts, nbdlpack.real(x) or nbdlpack.imag(x)"
        raise TypeError(msg)
    return found.astype(dtype, copy=copy, device=device)


def can_cast(from_: Any, to: DTypeLike, /) -> bool:
    """Return whether a dtype can be cast to another one by the rules of type promotion, so that nothing is lost.

    Parameters
    ----------
    from_ : dtype or array
        What is cast; of an array only its dtype counts.
    to : dtype
        What it is cast to.

    Returns
    -------
    bool
        What ``numpy.can_cast`` says for ``casting='safe'``.

    Raises
    ------
    TypeError
        If one is no dtype that an array can have.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.can_cast(nd.int32, nd.int64), nd.can_cast(nd.zeros(2), nd.float32)
    (True, False)
    """
    return np.can_cast(_dtype_of(from_), dtypes.canonical(to))


def finfo(type: Any, /) -> FloatInfo:
    """Return the limits of a floating dtype.

    Parameters
    ----------
    type : dtype or array
        The dtype, floating or complex, or an array of it.

    Returns
    -------
    FloatInfo
        With the attributes `bits`, `eps`, `max`, `min`, `smallest_normal` and `dtype`; of a complex dtype those of its
        parts.  The numbers are Python's.

    Raises
    ------
    TypeError
        If the dtype is not floating.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.finfo(nd.bfloat16).eps, nd.finfo(nd.complex64).bits
    (0.0078125, 32)
    """
    dtype = _dtype_of(type)
    if dtype not in dtypes.KINDS["real floating"] | dtypes.KINDS["complex floating"]:
        msg = f"type is {dtype}, but finfo() is for floating dtypes: use iinfo() for integers"
        raise TypeError(msg)
    found: Any = (ml_dtypes.finfo if dtype in dtypes.EXTENDED else np.finfo)(dtype)
    eps, greatest, least, normal = [float(getattr(found, name)) for name in ("eps", "max", "min", "smallest_normal")]
    return FloatInfo(int(found.bits), eps, greatest, least, normal, dtypes.canonical(found.dtype))


def iinfo(type: Any, /) -> IntegerInfo:
    """Return the limits of an integer dtype.

    Parameters
    ----------
    type : dtype or array
        The dtype, or an array of it.

    Returns
    -------
    IntegerInfo
        With the attributes `bits`, `max`, `min` and `dtype`.  The numbers are Python's.

    Raises
    ------
    TypeError
        If the dtype is not an integer one.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.iinfo(nd.int8).max
    127
    """
    dtype = _dtype_of(type)
    if dtype not in dtypes.KINDS["integral"]:
        msg = f"type is {dtype}, but iinfo() is for integer dtypes: use finfo() for floating ones"
        raise TypeError(msg)
    found = np.iinfo(dtype)
    return IntegerInfo(found.bits, int(found.max), int(found.min), dtype)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Return whether a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype
        The dtype.
    kind : dtype, str, or tuple of these
        Another dtype, or one of ``'bool'``, ``'signed integer'``, ``'unsigned integer'``, ``'integral'``,
        ``'real floating'``, ``'complex floating'``, ``'numeric'``; of a tuple one is enough.

    Returns
    -------
    bool
        True if it is.  `float16`, `bfloat16` and the `float8` dtypes are ``'real floating'``, as the standard allows.

    Raises
    ------
    ValueError
        If there is no such kind.
    TypeError
        If it is no dtype that an array can have.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.isdtype(nd.bfloat16, "real floating"), nd.isdtype(nd.int8, (nd.int16, "bool"))
    (True, False)
    """
    found = dtypes.canonical(dtype)
    for one in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(one, str):
            if one not in dtypes.KINDS:
                msg = f"kind is {one!r}, but must be a dtype or one of {', '.join(map(repr, dtypes.KINDS))}"
                raise ValueError(msg)
            if found in dtypes.KINDS[one]:
                return True
        elif found == dtypes.canonical(one):
            return True
    return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype that an operation with arrays, dtypes and numbers has.

    Parameters
    ----------
    *arrays_and_dtypes : array, dtype or number
        The operands.  Python's numbers only say of what kind the result is at least.

    Returns
    -------
    numpy.dtype
        What they promote to: what NumPy says, but that a Python float leaves a bfloat16 or float8 dtype as it is.

    Raises
    ------
    ValueError
        If nothing is given.
    TypeError
        If they have no dtype in common, or one is none.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.result_type(nd.int8, nd.zeros(2, nd.uint8)), nd.result_type(nd.bfloat16, 1.5)
    (dtype('int16'), dtype(bfloat16))
    """
    if not arrays_and_dtypes:
        msg = "result_type() needs an array, a dtype or a number"
        raise ValueError(msg)
    plain = (bool, int, float, complex)
    values = [x if type(x) in plain else np.empty(1, _dtype_of(x)) for x in arrays_and_dtypes]
    return dtypes.canonical(np.result_type(*engine.promoted(tuple(values))))
