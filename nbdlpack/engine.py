"""How an operation runs, once for all devices: promote, broadcast, allocate, launch.

Result types are NumPy's, and so are the errors about them.  In one point these are NEP 50's where NumPy's are not: a
Python float keeps the dtype of the bfloat16 or float8 array that it meets, as it does with every other floating dtype.

Functions take the class of their results as `cls`: the one of all arrays, since results of operations are never of a
subclass.  An operand is an array of ours, a Python or NumPy scalar, a NumPy array, or a nested sequence.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from nbdlpack import devices, dtypes, layout, storage
from nbdlpack.devices import base
from nbdlpack.devices.routines import ROUTINES
from nbdlpack.errors import DeviceError
from nbdlpack.native import View
from nbdlpack.ufuncs import COMPUTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DType

V = TypeVar("V", bound=View)

# -- operands

_PLAIN: Final = frozenset({bool, int, float, complex})
_NUMPY: Final = (np.ndarray, np.generic)
_ARRAYS: Final = (View, *_NUMPY)
_HOST: Final = devices.host.place


def is_operand(cls: type[View], value: object, *, strict: bool = True) -> bool:
    """Return whether operations take a value as it is.  Others may have a say of their own about them.

    So may subclasses that override `__array_ufunc__`, if `strict`.
    """
    if type(value) in _PLAIN:
        return True
    if isinstance(value, cls):
        return not strict or type(value).__array_ufunc__ is cls.__array_ufunc__  # type: ignore[attr-defined]
    if isinstance(value, np.ndarray):
        return type(value).__array_ufunc__ is np.ndarray.__array_ufunc__ and not is_masked(value)
    return isinstance(value, (np.generic, list, tuple, range, bool, int, float, complex))


def is_masked(value: object) -> bool:
    """Return whether something is of NumPy's masked arrays, which know better than we do what to do with them."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def hosted(value: object) -> object:
    """Return a nested sequence with arrays of ours as NumPy arrays for reading, so that making one of it moves none."""
    if isinstance(value, View):
        return devices.of(value).to_host(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, (View, list, tuple)) for item in value):
        return [hosted(item) for item in value]
    return value


def operand(value: Any) -> Any:
    """Return an operand with a shape and a dtype, or a Python scalar."""
    if type(value) in _PLAIN or isinstance(value, (View, np.ndarray, np.generic)):
        return value
    return np.asarray(hosted(value))


def assigned(value: Any, dtype: DType) -> Any:
    """Return a value that is to be assigned: what is no array of numbers yet as one of the dtype.

    So what cannot be converted is refused before anything has been done, and Python's numbers are not first rounded to
    some dtype that they would have of themselves.
    """
    if isinstance(value, _ARRAYS):
        if value.dtype is not dtype and value.dtype in dtypes.EXTENDED:
            np.empty(0, value.dtype).astype(dtype)  # a TypeError if there is no such conversion
        return value if value.dtype.kind not in "OSU" else np.asarray(value).astype(dtype)
    return np.asarray(value if type(value) in _PLAIN else hosted(value), dtype)


def element(value: Any) -> Any:
    """Return a value that is to be assigned to a single element.

    Raises
    ------
    ValueError
        If it has dimensions.
    """
    if type(value) in _PLAIN:
        return value
    ndim = value.ndim if isinstance(value, (View, np.ndarray)) else int(isinstance(value, (list, tuple, range)))
    if ndim:
        msg = f"setting an array element with a sequence, a {type(value).__name__}: assign to a slice, as in x[0:1]"
        raise ValueError(msg)
    return value


def common_device(values: Sequence[Any]) -> Device:
    """Return the device of the arrays among operands.

    Raises
    ------
    DeviceError
        If they are on several.
    """
    place = -1
    for value in values:
        if isinstance(value, View) and value._place != place:
            if place >= 0 and devices.placed(place) is not devices.of(value):
                found = str(devices.placed(place))
                msg = (
                    f"the operands are on devices {found} and {devices.of(value)}: bring them together, "
                    f"x.to_device({found!r})"
                )
                raise DeviceError(msg)
            place = value._place
    return devices.placed(place) if place >= 0 else devices.default()


def _arriving(device: Device, values: Sequence[Any], outputs: Sequence[Any] = ()) -> None:
    """Tell of the NumPy arrays among operands, which are copied to a device that is not the host.

    Raises DeviceError if an output is one.
    """
    for value in values:
        if isinstance(value, np.ndarray) and value.ndim:
            words = "an operand in host memory, of an operation with arrays on another device"
            storage.copied(value.nbytes, str(devices.host), str(device), words, asked=False)
    for x in outputs:
        if isinstance(x, np.ndarray):
            msg = f"out is a NumPy array, but the operands are on {device}: pass an array there, or none"
            raise DeviceError(msg)


def _leaving(device: Device, values: Sequence[Any], words: str) -> None:
    """Tell of the arrays that an operation which their device leaves to the host copies there and back."""
    if not device.hosted:
        nbytes = sum([value.nbytes for value in values if isinstance(value, View)])
        storage.copied(nbytes, str(device), str(devices.host), f"{words} is computed on the host", asked=False)


# -- promotion

_resolved: dict[Any, tuple[DType, ...]] = {}


def result_dtypes(
    ufunc: np.ufunc, kinds: tuple[Any, ...], dtype: DType | None = None, casting: Any = "same_kind"
) -> tuple[DType, ...]:
    """Return the dtypes of a ufunc's outputs for inputs of dtypes, or of the types of Python scalars."""
    key = (ufunc, kinds, dtype, casting)
    try:
        return _resolved[key]
    except KeyError:
        pass
    signature = (None,) * (ufunc.nin + ufunc.nout) if dtype is None else (None,) * ufunc.nin + (dtype,) * ufunc.nout
    if all(kind in (int, float, complex) for kind in kinds):
        kinds = tuple([np.dtype(kind) for kind in kinds])
    found = ufunc.resolve_dtypes(kinds + (None,) * ufunc.nout, signature=signature, casting=casting)
    result = tuple([dtypes.canonical(kind) for kind in found[ufunc.nin :]])
    _resolved[key] = result
    return result


def _kind(value: Any) -> Any:
    """Return what promotion sees of an operand: its dtype, or the type of a Python scalar."""
    if isinstance(value, (View, np.ndarray, np.generic)):
        return value.dtype
    kind = type(value)
    return dtypes.BOOL if kind is bool else kind


def _weak(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands in which Python floats that meet a dtype that is not NumPy's own are of this dtype."""
    found = {value.dtype for value in values if isinstance(value, (View, np.ndarray, np.generic))}
    if len(found) != 1 or not found <= dtypes.EXTENDED:
        return values
    scalar = found.pop().type
    return tuple([scalar(value) if type(value) is float else value for value in values])


def promoted(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands for a ufunc, as `elementwise` takes them."""
    values: list[Any] = []
    floats = False
    for value in inputs:
        kind = type(value)
        floats = floats or kind is float
        values.append(value if kind in _PLAIN or isinstance(value, View) else operand(value))
    return _weak(tuple(values)) if floats else tuple(values)


# -- elementwise


def _check(ufunc: np.ufunc, inputs: tuple[Any, ...], outputs: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise what NumPy would of dtypes and shapes, if some output shares its memory, which is not to move for that."""
    if not any(isinstance(x, View) and storage.is_shared(x) for x in outputs):
        return
    samples = [np.empty(0, x.dtype) if hasattr(x, "dtype") else x for x in inputs]
    chosen = {name: options[name] for name in ("casting", "dtype") if name in options}
    ufunc(*samples, out=tuple([np.empty(0, x.dtype) for x in outputs]), **chosen)
    shape = layout.broadcast_shapes(*[np.shape(x) for x in (*inputs, options.get("where", True))])
    for x in outputs:
        if layout.broadcast_shapes(shape, x.shape) != x.shape:
            msg = f"non-broadcastable output operand with shape {x.shape} doesn't match the broadcast shape {shape}"
            raise ValueError(msg)


class _writing:  # noqa: N801 - reads as the statement that it is
    """Hold the storages of several outputs for a write, begun in an order that all threads agree on."""

    __slots__ = ("_begun", "_outputs")

    def __init__(self, outputs: Sequence[Any]) -> None:
        self._outputs = sorted([x for x in outputs if isinstance(x, View)], key=lambda x: x._state()[-1])
        self._begun: list[storage.writing] = []

    def __enter__(self) -> None:
        try:
            for x in self._outputs:
                self._begun.append(storage.writing(x))
                self._begun[-1].__enter__()
        except BaseException:
            del self._begun[-1:]  # which did not begin, or ends with this
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        while self._begun:
            self._begun.pop().__exit__(None, None, None)


_usual: Final[dict[np.ufunc, dict[Any, DType]]] = {}
"""Of what dtype the result of a ufunc is for plain arrays on the cpu: by the one that its operands have, or by that of
the first and the type of the number that is the second."""


def _naming(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return a function of two operands and an output: NumPy wants that by its name in some ufuncs."""
    return lambda x, y, out: ufunc(x, y, out=out)


_CALLED: Final = {np.maximum: _naming(np.maximum), np.minimum: _naming(np.minimum), **COMPUTED}


def _usually(cls: type[V], ufunc: np.ufunc, inputs: tuple[Any, ...]) -> V | None:
    """Return what a ufunc gives in the usual cases, for which this is to be fast, or None."""
    results, x = _usual.get(ufunc), inputs[0]
    if results is None or type(x) is not cls:
        return None
    compute: Any = _CALLED.get(ufunc, ufunc)
    if len(inputs) == 1:
        dtype = results.get(x.dtype)
    else:
        kind = type(inputs[1])
        if kind is cls:
            found: V | None = x._elementwise(compute, inputs[1], results)
            return found
        dtype = results.get((x.dtype, kind))
    if dtype is None or x._place != _HOST:
        return None
    new = cls._empty(x.shape, dtype, 0)
    compute(x._host(0), *inputs[1:], new._host(1))
    return new


def _remember(cls: type[View], ufunc: np.ufunc, inputs: tuple[Any, ...], result: DType) -> None:
    """Remember of what dtype a result is, if the case is a usual one."""
    x, dtype = inputs[0], getattr(inputs[0], "dtype", None)
    if type(x) is not cls or len(inputs) > 2:
        return
    kind = type(inputs[-1])
    if kind is cls and inputs[-1].dtype is dtype:
        _usual.setdefault(ufunc, {})[dtype] = result
    elif (kind is int or kind is float) and dtype not in dtypes.EXTENDED:
        _usual.setdefault(ufunc, {})[dtype, kind] = result


def elementwise(
    cls: type[V],
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    out: tuple[Any, ...] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Apply a ufunc; return its output, or a tuple of them.

    `options` are NumPy's: `where`, `casting` and `dtype`.
    """
    if out is None and not options:
        result = _usually(cls, ufunc, inputs)
        if result is not None:
            return result
    inputs = promoted(inputs)
    options = options or {}
    if "where" in options:
        options = {**options, "where": operand(options["where"])}
    device = common_device((*inputs, *(out or ()), options.get("where")))
    if not device.hosted:
        _arriving(device, inputs, out or ())
    given = out if out is not None else (None,) * ufunc.nout
    if any(x is None for x in given):
        kinds = tuple([_kind(x) for x in inputs])
        found = result_dtypes(ufunc, kinds, _asked(options), options.get("casting", "same_kind"))
        shaped = (*inputs, options["where"]) if "where" in options else inputs
        shapes = [getattr(x, "shape", ()) for x in shaped]
        shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else layout.broadcast_shapes(*shapes)
        given = tuple([device.empty(cls, shape, d) if x is None else x for x, d in zip(given, found, strict=True)])
    if out is None:
        device.elementwise(ufunc, inputs, given, options)
        if ufunc.nout > 1:
            return given
        if not options:
            _remember(cls, ufunc, inputs, given[0].dtype)  # type: ignore[union-attr]
        return given[0]
    _check(ufunc, inputs, given, options)
    if len(out) == 1 and isinstance(out[0], View):
        with storage.overwriting(out[0], keep="where" in options) as target:
            device.elementwise(ufunc, inputs, (target,), options)
    else:
        with _writing(out):
            device.elementwise(ufunc, inputs, given, options)
    return given[0] if ufunc.nout == 1 else given


def _asked(options: Mapping[str, Any]) -> DType | None:
    dtype = options.get("dtype")
    return None if dtype is None else dtypes.canonical(dtype)


def compute(cls: type[V], name: str, inputs: tuple[Any, ...], options: tuple[Any, ...] = ()) -> Any:
    """Return what a routine of `devices.routines.ROUTINES` gives for operands: new arrays, one or a tuple of them.

    Raises
    ------
    DeviceError
        If the arrays are on several devices, or on one that neither has a way for it nor is to leave it to the host.
    """
    device = common_device(inputs)
    if not device.hosted:
        if name not in device.routines:
            if not ROUTINES[name].everywhere:
                msg = (
                    f"nbdlpack.{name} is computed on the cpu alone, and the array is on {device}: move it there, and "
                    f"the result back, nbdlpack.{name}(x.to_device('cpu'), ...).to_device({str(device)!r})"
                )
                raise DeviceError(msg)
            _leaving(device, inputs, name)
        _arriving(device, inputs)
    return device.compute(cls, name, inputs, options)


def spread(cls: type[V], x: View, shape: tuple[int, ...]) -> V:
    """Return a new array in C order with the elements of another one, broadcast to a shape."""
    device = devices.of(x)
    new = device.empty(cls, shape, x.dtype)
    device.assign(new, x)
    return new


_WITH_ROUTINES: Final = {np.matmul: "matmul", np.vecdot: "vecdot"}


def generalized(
    cls: type[V],
    method: Any,
    inputs: tuple[Any, ...],
    out: tuple[Any, ...] | None,
    options: Mapping[str, Any],
) -> Any:
    """Call a ufunc's method, or a ufunc that is not elementwise; return arrays in place of NumPy's."""
    if method in _WITH_ROUTINES and out is None and not options:
        return compute(cls, _WITH_ROUTINES[method], promoted(inputs))
    device = common_device((*inputs, *(out or ()), *options.values()))
    _leaving(device, (*inputs, *(out or ())), getattr(method, "__name__", "the function"))
    if out is None:
        result = device.generalized(method, inputs, options)
        if isinstance(result, tuple):
            return tuple([_own(cls, device, part) for part in result])
        return _own(cls, device, result)
    if len(out) == 1 and isinstance(out[0], View):
        with storage.overwriting(out[0], keep=True) as target:
            result = device.generalized(method, inputs, {**options, "out": (target,)})
    else:
        with _writing(out):
            result = device.generalized(method, inputs, {**options, "out": out})
    results = result if isinstance(result, tuple) else (result,)
    kept = tuple([_own(cls, device, part) if x is None else x for part, x in zip(results, out, strict=True)])
    return kept if isinstance(result, tuple) else kept[0]


def _own(cls: type[V], device: Device, result: Any) -> Any:
    """Return an array of ours in place of one of NumPy's."""
    return device.from_host(cls, np.asarray(result)) if isinstance(result, _NUMPY) else result


_SIMPLE: Final = frozenset({"where", "casting", "dtype"})


def apply(cls: type[V], ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Do what `__array_ufunc__` does; return NotImplemented if an operand is of a type that is not known here."""
    out = options.pop("out", None)
    where = options.get("where", True)
    operands = inputs if method != "at" else (inputs[0], *inputs[2:])  # the other one is a key
    if not all(is_operand(cls, x, strict=False) for x in (*operands, *(out or ()), where) if x is not None):
        return NotImplemented
    if method == "at":
        return at(ufunc, inputs[0], inputs[1], inputs[2:])
    if where is True:
        options.pop("where", None)
    if method != "__call__":
        return generalized(cls, getattr(ufunc, method), inputs, out, options)
    if ufunc.signature is None and options.keys() <= _SIMPLE:
        return elementwise(cls, ufunc, inputs, out, options)
    return generalized(cls, ufunc, inputs, out, options)


_POWERS: Final = {2: np.square, -1: np.reciprocal, 1: np.positive}


def power(x: View, y: Any) -> np.ufunc | None:
    """Return what gives ``x ** y`` faster than a power does, for some of the Python numbers for which NumPy does so."""
    if type(y) not in (int, float) or y not in _POWERS:
        return None
    kind = x.dtype.kind
    return _POWERS[y] if kind in "fc" or (type(y) is int and y == 2 and kind in "biu") else None


def _is_unknown(cls: type[View], value: object) -> bool:
    """Return whether an operator leaves an operation with a value to the value."""
    if is_operand(cls, value):
        return False
    return getattr(type(value), "__array_ufunc__", None) is None or is_masked(value)


_UNEQUAL: Final = {np.equal: False, np.not_equal: True}
"""The comparisons that have an answer also for what is no number, and that answer."""


def _no_numbers(cls: type[V], x: V, y: Any, answer: bool) -> V | None:  # noqa: FBT001
    """Return how an array compares to None or text, or an array of text; None for anything else."""
    y = operand(y) if isinstance(y, (list, tuple)) else y
    if not (y is None or isinstance(y, (str, bytes)) or (isinstance(y, np.ndarray) and y.dtype.kind in "SU")):
        return None
    device = common_device((x,))
    result = device.empty(cls, layout.broadcast_shapes(x.shape, getattr(y, "shape", ())), dtypes.BOOL)
    device.assign(result, answer)
    return result


def operate(cls: type[V], ufunc: np.ufunc, x: Any, y: Any) -> Any:
    """Do what a binary operator does; return NotImplemented if the other operand is to do it."""
    if ufunc in _UNEQUAL:
        result = _no_numbers(cls, x, y, _UNEQUAL[ufunc])
        if result is not None:
            return result
    if is_operand(cls, x) and is_operand(cls, y):
        return elementwise(cls, ufunc, (x, y)) if ufunc.signature is None else generalized(cls, ufunc, (x, y), None, {})
    return NotImplemented if _is_unknown(cls, x) or _is_unknown(cls, y) else ufunc(x, y)


def operate_in_place(cls: type[V], ufunc: np.ufunc, x: V, y: Any) -> Any:
    """Do what a binary operator in place does."""
    if is_operand(cls, x) and is_operand(cls, y):
        if ufunc.signature is None:
            return elementwise(cls, ufunc, (x, y), (x,))
        result = generalized(cls, ufunc, (x, y), None, {})
        if result.shape != x.shape:
            msg = f"{ufunc.__name__} in place gives shape {result.shape}, but the array has shape {x.shape}"
            raise ValueError(msg)
        if not np.can_cast(result.dtype, x.dtype, "same_kind"):
            msg = f"cannot cast what {ufunc.__name__} gives from {result.dtype} to {x.dtype} with casting 'same_kind'"
            raise TypeError(msg)
        assign(x, result)
        return x
    # What has said that it takes part in no ufunc may have a say about ``+``, but not about ``+=``, as in NumPy.
    refuses = getattr(type(y), "__array_ufunc__", ufunc) is None
    return NotImplemented if _is_unknown(cls, y) and not refuses else ufunc(x, y, out=(x,))


def at(ufunc: np.ufunc, x: Any, key: Any, values: tuple[Any, ...]) -> None:
    """Apply a ufunc in place at places, which may be the same more than once: `ufunc.at`."""
    device = common_device((x, *_parts(key), *values))
    _leaving(device, (x, *values), f"{ufunc.__name__}.at")
    if not isinstance(x, View):
        device.at(ufunc, x, key, values)
        return
    with storage.overwriting(x, keep=True) as target:
        device.at(ufunc, target, key, values)


# -- reductions

_reduced: dict[tuple[str, DType, DType | None], DType] = {}


def reduced_dtype(name: str, dtype: DType, asked: DType | None) -> DType:
    """Return the dtype of a reduction's result: NumPy's, of a sample."""
    key = (name, dtype, asked)
    if key not in _reduced:
        sample = np.ones(1, dtype)
        result = base.REDUCTIONS[name](sample) if asked is None else base.REDUCTIONS[name](sample, dtype=asked)
        _reduced[key] = dtypes.canonical(result.dtype)
    return _reduced[key]


def reduce(
    cls: type[V],
    name: str,
    x: View,
    axis: int | tuple[int, ...] | None,
    out: Any,
    options: dict[str, Any],
) -> Any:
    """Reduce axes of an array by one of `devices.base.REDUCTIONS`, with options such as `keepdims` or `where`."""
    shape = x.shape
    if not shape and axis in (0, -1):
        axis = None  # NumPy takes an array without dimensions for one with one
    if name in base.SEARCHING and axis is not None:
        axes: tuple[int, ...] = (layout.normalize_axis(axis, len(shape)),)  # type: ignore[arg-type]
    else:
        axes = layout.normalize_axes(axis, len(shape))
    asked = _asked(options)
    if asked is not None:
        options["dtype"] = asked
    device = common_device((x, out, *options.values()))
    if out is None:
        new = layout.reduced_shape(shape, axes, keepdims=options.get("keepdims", False))
        result = device.empty(cls, new, reduced_dtype(name, x.dtype, asked))
        device.reduce(name, x, result, axes, options)
        return result
    if isinstance(out, View):
        with storage.overwriting(out) as target:
            device.reduce(name, x, target, axes, options)
    elif isinstance(out, np.ndarray):
        if not device.hosted:
            _arriving(device, (), (out,))
        device.reduce(name, x, out, axes, options)
    else:
        msg = f"out is of type {type(out).__name__}, but must be an array"
        raise TypeError(msg)
    return out


# -- moving elements


def _fitting(value: Any, x: View) -> Any:
    """Return a value that can be assigned to a view, or raise what NumPy would before anything has been done."""
    if type(value) in _PLAIN:
        return np.asarray(value, x.dtype)
    found = assigned(value, x.dtype)
    shape = found.shape
    if shape and shape != x.shape:
        if not isinstance(value, (View, np.ndarray)) and len(shape) > x.ndim:
            msg = f"setting an array element with a sequence: the value has {len(shape)} dimensions, not {x.ndim}"
            raise ValueError(msg)
        layout.check_fits(shape, x.shape)
    return found


def assign(x: View, value: Any) -> None:
    """Write all elements of an array."""
    value = _fitting(value, x)
    device = common_device((x, value))
    with storage.overwriting(x) as target:
        device.assign(target, value)


def assign_part(x: View, part: View, value: Any) -> None:
    """Write all elements of a view of an array, as `assign`."""
    value = _fitting(value, part)
    device = common_device((x, value))
    with storage.overwriting(x, keep=True) as target:
        if target is not x:  # the part of that
            part = target._view(View, part._first - x._first, part.dtype, 0, part.shape, part._steps)
        device.assign(part, value)


def gather(x: View, key: Any, cls: type[V]) -> V:
    """Return ``x[key]`` in new memory, for a key with index arrays or masks."""
    return common_device((x, *_parts(key))).gather(cls, x, key)


def _parts(key: Any) -> tuple[Any, ...]:
    """Return the parts of a key."""
    return key if isinstance(key, tuple) else (key,)


def scatter(x: View, key: Any, value: Any) -> None:
    """Write ``x[key] = value`` for a key with index arrays or masks."""
    value = assigned(value, x.dtype)
    device = common_device((x, *_parts(key), value))
    mask = isinstance(key, (View, np.ndarray)) and key.dtype == dtypes.BOOL and key.shape == x.shape
    if storage.is_shared(x) and not (mask and value.ndim == 0):
        # A key or a value that does not fit is to be found out before the memory moves.
        layout.check_fits(value.shape, gather(x, key, View).shape)
    with storage.overwriting(x, keep=True) as target:
        device.scatter(target, key, value)
