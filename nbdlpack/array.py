"""The array: indexing, operators and reductions on top of what `shaping` and `protocols` have.

Views, slices and copies of an instance of a subclass are of the subclass, and no `__init__` is run for them.  Results
of operations (arithmetic, comparisons, reductions, index arrays) are plain arrays.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self, TypeAlias

import numpy as np

from nbdlpack import devices, dtypes, engine, indexing, native, storage
from nbdlpack.dlpack import consumer, description, producer, serve
from nbdlpack.native import FOR_WRITE, View
from nbdlpack.protocols import Protocols
from nbdlpack.shaping import Shaped
from nbdlpack.ufuncs import COMPUTED, ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbdlpack.dtypes import DType, DTypeLike

Axis: TypeAlias = "int | tuple[int, ...] | None"

above: Final[dict[str, Any]] = {}
"""What methods need of the layers above, which put it here: "namespace", the package, and "functions"."""
_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""The versions of the array API standard whose functions the package has."""

_UNSET: Any = object()
_HOST = devices.host.place


# -- operators: one factory a kind, from the table of ufuncs


def _binary(name: str) -> Callable[[Any, Any], ndarray]:
    ufunc = ROWS[name].ufunc
    compute = COMPUTED.get(ufunc, ufunc)
    alike: dict[Any, DType] = {}
    scalars: dict[Any, DType] = {}

    def operator(self: ndarray, other: Any) -> Any:
        # Two arrays of one shape and dtype, and an array and a number, are the usual cases, and are to be fast.
        kind = type(other)
        if kind is ndarray:
            result = self._elementwise(compute, other, alike)
            if result is not None:
                return result
        elif type(self) is ndarray and (self.dtype, kind) in scalars and self._place == _HOST:
            x = self._host(0)
            result = ndarray._empty(self.shape, scalars[self.dtype, kind], 0)
            compute(x, other, result._host(1))
            return result
        result = engine.operate(ndarray, ufunc, self, other)
        if type(result) is not ndarray:
            pass
        elif kind is ndarray and self.dtype is other.dtype:
            alike[self.dtype] = result.dtype
        elif (kind is float or kind is int) and self.dtype not in dtypes.EXTENDED:
            scalars[self.dtype, kind] = result.dtype
        return result

    return operator


def _reflected(name: str) -> Callable[[Any, Any], ndarray]:
    ufunc = ROWS[name].ufunc
    return lambda self, other: engine.operate(ndarray, ufunc, other, self)


def _in_place(name: str) -> Callable[[Any, Any], ndarray]:
    ufunc = ROWS[name].ufunc
    compute = COMPUTED.get(ufunc, ufunc)

    def operator(self: ndarray, other: Any) -> Any:
        kind = type(other)
        usual = kind is ndarray or ((kind is float or kind is int) and self.dtype not in dtypes.EXTENDED)
        usual = usual and self._place == _HOST and (kind is not ndarray or other._place == _HOST)
        if usual and not storage.is_shared(self):  # what is shared is not to move for what fails: see the engine
            (hold, target), done = self._begin_overwrite(FOR_WRITE, 0), 0
            try:
                compute(self._host(0), other if kind is not ndarray else other._host(0), target._host(1))
                done = 1
            finally:
                self._end_overwrite(hold, target, done)
            return self
        return engine.operate_in_place(ndarray, ufunc, self, other)

    return operator


def _power(power: Callable[[Any, Any], ndarray], *, in_place: bool) -> Callable[[Any, Any], ndarray]:
    def operator(self: ndarray, other: Any) -> Any:
        ufunc = engine.power(self, other)
        if ufunc is None:
            return power(self, other)
        return ufunc(self, out=(self,)) if in_place else ufunc(self)

    return operator


def _unary(name: str) -> Callable[[Any], ndarray]:
    ufunc = ROWS[name].ufunc

    results: dict[DType, DType] = {}

    def operator(self: ndarray) -> Any:
        if type(self) is not ndarray:
            return ufunc(self)
        if self.dtype in results and self._place == _HOST:
            x = self._host(0)
            result = ndarray._empty(self.shape, results[self.dtype], 0)
            ufunc(x, result._host(1))
            return result
        result = ufunc(self)
        results[self.dtype] = result.dtype
        return result

    return operator


# -- reductions: one factory a signature, which is NumPy's, because ``np.sum(x)`` calls ``x.sum``


def _options(keepdims: Any, initial: Any, where: Any, **others: Any) -> dict[str, Any]:
    """Return the options of a reduction that differ from what it does without them."""
    options = {name: value for name, value in others.items() if value is not None}
    options["keepdims"] = bool(keepdims)
    if initial is not _UNSET:
        options["initial"] = initial
    if where is not True:
        options["where"] = where
    return options


def _documented(method: Callable[..., ndarray], name: str) -> Callable[..., ndarray]:
    method.__name__, method.__qualname__ = name, f"ndarray.{name}"
    method.__doc__ = f"Return what `nbdlpack.{name}` does, over all axes or some, with NumPy's arguments."
    return method


def _accumulation(name: str) -> Callable[..., ndarray]:
    def method(
        self: ndarray,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: Any = False,  # noqa: FBT002
        *,
        initial: Any = _UNSET,
        where: Any = True,
    ) -> Any:
        return engine.reduce(ndarray, name, self, axis, out, _options(keepdims, initial, where, dtype=dtype))

    return _documented(method, name)


def _deviation(name: str) -> Callable[..., ndarray]:
    def method(
        self: ndarray,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: Any = False,  # noqa: FBT002
        *,
        where: Any = True,
        mean: Any = None,
    ) -> Any:
        options = _options(keepdims, _UNSET, where, dtype=dtype, ddof=ddof, mean=mean)
        return engine.reduce(ndarray, name, self, axis, out, options)

    return _documented(method, name)


def _reduction(name: str) -> Callable[..., ndarray]:
    def method(
        self: ndarray,
        axis: Axis = None,
        out: Any = None,
        keepdims: Any = False,  # noqa: FBT002
        *,
        initial: Any = _UNSET,
        where: Any = True,
    ) -> Any:
        return engine.reduce(ndarray, name, self, axis, out, _options(keepdims, initial, where))

    return _documented(method, name)


def _search(name: str) -> Callable[..., ndarray]:
    def method(self: ndarray, axis: int | None = None, out: Any = None, *, keepdims: Any = False) -> Any:
        return engine.reduce(ndarray, name, self, axis, out, _options(keepdims, _UNSET, True))

    return _documented(method, name)


class ndarray(Shaped, Protocols):  # noqa: N801 - NumPy's name
    """An array of numbers of one dtype, on one device.

    Arrays are made by functions, such as `nbdlpack.asarray`, `nbdlpack.empty` or `nbdlpack.from_dlpack`, not by calling
    this class.

    Attributes
    ----------
    shape : tuple of int
        The lengths of the axes.  Read-only: use `reshape`.
    dtype : numpy.dtype
        The type of an element.
    strides : tuple of int
        The bytes between neighbours along each axis.
    ndim, size, itemsize, nbytes : int
        The number of axes and of elements, and the bytes of one element and of all.

    Notes
    -----
    Memory is copied on write: ``x.copy()`` takes no time, and the first write to either moves that one to memory of
    its own.  All views of an array move together.

    Indexing with integers gives an array of no dimensions, which is a view, and never a NumPy scalar.

    ``==`` and ``!=`` give an array for all that NumPy does, also for None and text, which no number is equal to; what
    is of an unknown type is simply not equal.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.arange(6).reshape(2, 3)
    >>> x[1, ::2] * 10
    array([30, 50])
    """

    __slots__ = ()
    __array_priority__ = 100.0
    __hash__ = None  # type: ignore[assignment]
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __new__(cls, *args: object, **options: object) -> Self:  # noqa: ARG004, D102
        msg = (
            f"{cls.__name__} is not made by calling it: use nbdlpack.empty(shape), nbdlpack.array(values) or "
            "nbdlpack.asarray(other), and x.view(cls) for a subclass"
        )
        raise TypeError(msg)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__dlpack__ is not View.__dlpack__ or cls.__dlpack_device__ is not View.__dlpack_device__:
            # What consumers reach through the C table must be what the class has to say.
            cls.__dlpack_c_exchange_api__ = native.OVERRIDDEN_EXCHANGE_API

    # -- what the native half leaves to Python

    def _export(self, **options: Any) -> Any:
        return producer.export(self, **options)

    @classmethod
    def _import(cls, x: object, /, **options: Any) -> Any:
        return consumer.import_(cls, x, **options)

    @classmethod
    def _refuse(cls, tensor: int, /) -> NoReturn:
        description.refuse(tensor)

    def _check_export(self) -> None:
        producer.check_export(self)

    # -- indexing

    def __getitem__(self, key: Any) -> Self:
        # A slice of one dimension and an integer are the usual cases, and this is for them to be fast.
        kind = type(key)
        part: Self
        if kind is slice and self.ndim == 1:
            (n,), (step,) = self.shape, self._steps
            start, stop, stride = key.indices(n)
            n = (stop - start + stride - (1 if stride > 0 else -1)) // stride
            if n <= 1:
                n, start = (n, start) if n == 1 else (0, 0)
                stride = 1  # as a step may be too long for any memory
            dtype = self.dtype
            offset = start * step * dtype.itemsize
            part = self._view(type(self), offset, dtype, self._flags, (n,), (step * stride,))
            return part
        if kind is int and self.ndim:
            (n, *shape), (step, *steps) = self.shape, self._steps
            if -n <= key < n and 0 not in shape:
                dtype = self.dtype
                offset = (key + n if key < 0 else key) * step * dtype.itemsize
                part = self._view(type(self), offset, dtype, self._flags, tuple(shape), tuple(steps))
                return part
        found: Self = indexing.get(self, key, ndarray)
        return found

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(self == value))

    def __setitem__(self, key: Any, value: Any) -> None:
        indexing.put(self, key, value)

    def __delitem__(self, key: Any) -> NoReturn:
        msg = "elements of an array cannot be deleted: make an array of the others, x[mask]"
        raise ValueError(msg)

    # -- reductions

    sum = _accumulation("sum")
    prod = _accumulation("prod")
    mean = _accumulation("mean")
    std = _deviation("std")
    var = _deviation("var")
    min = _reduction("min")
    max = _reduction("max")
    any = _reduction("any")
    all = _reduction("all")
    argmin = _search("argmin")
    argmax = _search("argmax")

    # -- simple functions that are methods of NumPy's array

    def conj(self) -> Any:
        """Return the complex conjugate, see `nbdlpack.conj`."""
        return np.conjugate(self)

    conjugate = conj

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Any:
        """Return the elements held between limits, see `nbdlpack.clip`."""
        if self.dtype.kind in "iu":
            # Python's integers beyond what the dtype holds are no limits, and NumPy takes them.
            limits = np.iinfo(self.dtype)
            min = None if type(min) is int and min <= limits.min else min
            max = None if type(max) is int and max >= limits.max else max
        if min is None:
            return np.positive(self, out=out) if max is None else np.minimum(self, max, out=out)
        return np.maximum(self, min, out=out) if max is None else np.minimum(np.maximum(self, min), max, out=out)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        """Return the elements rounded to so many decimals, which may be negative; halves to the even one."""
        kind = self.dtype.kind
        if kind == "c":
            result = np.positive(self, out=out)
            self.real.round(decimals, result.real)
            self.imag.round(decimals, result.imag)
            return result
        if decimals == 0 or (decimals > 0 and kind in "iu"):
            return (np.positive if kind in "iu" else np.rint)(self, out=out)
        scale = 10.0 ** abs(decimals)
        there, back = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
        rounded = back(np.rint(there(self, scale)), scale)
        if kind in "iu":
            rounded = rounded.astype(self.dtype)
        return rounded if out is None else np.positive(rounded, out=out)

    def nonzero(self) -> tuple[ndarray, ...]:
        """Return the positions of the elements that are not zero, as an index array for each dimension."""
        return self.device.nonzero(ndarray, self)

    # -- operators

    __add__ = _binary("add")
    __sub__ = _binary("subtract")
    __mul__ = _binary("multiply")
    __truediv__ = _binary("divide")
    __floordiv__ = _binary("floor_divide")
    __mod__ = _binary("remainder")
    __pow__ = _power(_binary("pow"), in_place=False)
    __and__ = _binary("bitwise_and")
    __or__ = _binary("bitwise_or")
    __xor__ = _binary("bitwise_xor")
    __lshift__ = _binary("bitwise_left_shift")
    __rshift__ = _binary("bitwise_right_shift")
    __eq__ = _binary("equal")  # type: ignore[assignment]
    __ne__ = _binary("not_equal")  # type: ignore[assignment]
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")

    __radd__ = _reflected("add")
    __rsub__ = _reflected("subtract")
    __rmul__ = _reflected("multiply")
    __rtruediv__ = _reflected("divide")
    __rfloordiv__ = _reflected("floor_divide")
    __rmod__ = _reflected("remainder")
    __rpow__ = _reflected("pow")
    __rand__ = _reflected("bitwise_and")
    __ror__ = _reflected("bitwise_or")
    __rxor__ = _reflected("bitwise_xor")
    __rlshift__ = _reflected("bitwise_left_shift")
    __rrshift__ = _reflected("bitwise_right_shift")

    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __ifloordiv__ = _in_place("floor_divide")
    __imod__ = _in_place("remainder")
    __ipow__ = _power(_in_place("pow"), in_place=True)
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")
    __ilshift__ = _in_place("bitwise_left_shift")
    __irshift__ = _in_place("bitwise_right_shift")

    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_invert")

    def __matmul__(self, other: Any) -> Any:
        if type(other) is ndarray:
            return engine.compute(ndarray, "matmul", (self, other))
        return engine.operate(ndarray, np.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return engine.operate(ndarray, np.matmul, other, self)

    def __imatmul__(self, other: Any) -> Any:
        return engine.operate_in_place(ndarray, np.matmul, self, other)

    def __divmod__(self, other: Any) -> Any:
        return engine.operate(ndarray, np.divmod, self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return engine.operate(ndarray, np.divmod, other, self)

    # -- namespaces: the standard's, NumPy's ufuncs and NumPy's functions

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """Return the package, which has the functions of the array API standard.

        Parameters
        ----------
        api_version : str, optional
            The version of the standard that is asked for, as ``"2025.12"``.

        Raises
        ------
        ValueError
            If the package has not what that version wants.
        """
        if api_version is not None and api_version not in _VERSIONS:
            msg = f"api_version is {api_version!r}, but must be one of {', '.join(_VERSIONS)}, or None for the last"
            raise ValueError(msg)
        return above["namespace"]

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return above["functions"](function, types, args, options)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return engine.apply(ndarray, ufunc, method, inputs, options)


from_dlpack: Callable[..., ndarray] = serve(ndarray)
