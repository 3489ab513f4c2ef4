"""Ufuncs, element by element, by kernels.

The dtypes of a computation are NumPy's choice, as are its errors about them.  Operands of other dtypes are cast before,
results after.  Where NumPy would warn, of a division by zero say, nothing is said: that would be a wait for the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from nbdlpack import dtypes, layout
from nbdlpack.devices.kernelled import moving
from nbdlpack.devices.kernelled.moving import Operand
from nbdlpack.kernels.access import ACCESS
from nbdlpack.kernels.elementwise import elementwise_kernel, masked_copy_kernel
from nbdlpack.kernels.scalars import HEAVY, TABLE, loaded_as
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbdlpack.devices.kernelled import KernelDevice
    from nbdlpack.dtypes import DType
    from nbdlpack.kernels.numba_cuda import Kernel
    from nbdlpack.layout import Shape

_COMPARISONS: Final = frozenset({np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal})
_PARTS: Final[dict[np.ufunc, tuple[np.ufunc, ...]]] = {np.divmod: (np.floor_divide, np.remainder)}
"""Ufuncs with several outputs, and what these are."""


class Plan(NamedTuple):
    """What is known of a computation from its dtypes."""

    name: str
    """The name of the ufunc."""
    loop: tuple[DType, ...]
    """The dtypes in which it is computed: the operands', and the result's."""
    loaded: tuple[DType, ...]
    """The dtypes as which a kernel has them."""
    kernel: Kernel
    """What computes it in one dimension."""
    alignments: tuple[int, ...]
    """What the addresses must be multiples of: the result's, the operands'."""
    steps: tuple[int, ...]
    """The bytes of an element of each."""
    elements: int
    """How many elements are worth a thread."""


def apply(
    device: KernelDevice,
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    options: Mapping[str, Any],
) -> None:
    """Apply a ufunc, element by element after broadcasting, with NumPy's options `where`, `casting` and `dtype`."""
    if ufunc in _PARTS:
        _apply_parts(device, ufunc, inputs, outputs, options)
        return
    out = outputs[0]
    plan = _plan(device, ufunc, inputs, out, options)
    mask = _mask(device, options["where"]) if "where" in options else True
    shape, dtype = out.shape, plan.loop[-1]
    if mask is not True or any(getattr(x, "shape", shape) != shape for x in inputs):
        _check_shapes(inputs, mask, shape)
    if not out.size or mask is False:
        return
    try:
        arrays, values = _operands(device, plan, inputs)
    except OverflowError:
        if ufunc not in _COMPARISONS:
            raise
        # A Python int beyond what the dtype holds: NumPy has an answer, and it is the same for all elements.
        result: Any = ufunc(*[np.zeros((), x.dtype) if isinstance(x, (View, np.ndarray)) else x for x in inputs])
    else:
        if mask is True and out.dtype == dtype and _launch(device, plan, out, arrays, values):
            return
        result = device.empty(View, shape, dtype)
        _launch(device, plan, result, arrays, values)
    _store(device, out, result, mask)


def _check_shapes(inputs: tuple[Any, ...], mask: Any, shape: Shape) -> None:
    """Raise NumPy's error if operands cannot be broadcast, or not to the shape of the output."""
    found = layout.broadcast_shapes(*[x.shape for x in (*inputs, mask) if hasattr(x, "shape")])
    if layout.broadcast_shapes(found, shape) != shape:
        msg = f"non-broadcastable output operand with shape {shape} doesn't match the broadcast shape {found}"
        raise ValueError(msg)


def _apply_parts(
    device: KernelDevice,
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    options: Mapping[str, Any],
) -> None:
    """Apply a ufunc with several outputs: one after the other, none of which is written before all are computed."""
    results = []
    for part, out in zip(_PARTS[ufunc], outputs, strict=True):
        plan = _plan(device, part, inputs, out, options)
        results.append(device.empty(View, out.shape, plan.loop[-1]))
        apply(device, part, inputs, (results[-1],), {name: x for name, x in options.items() if name != "where"})
    mask = _mask(device, options.get("where", True))
    for out, result in zip(outputs, results, strict=True):
        _store(device, out, result, mask)


# -- dtypes

_plans: dict[Any, Plan] = {}


def _plan(device: KernelDevice, ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any, options: Mapping[str, Any]) -> Plan:
    """Return how a ufunc is computed, or raise NumPy's error of operands for which it is not."""
    kinds = tuple([getattr(x, "dtype", x.__class__) for x in inputs])
    chosen = (options.get("dtype"), options.get("casting")) if options else ()
    key = (ufunc, kinds, out.dtype, *chosen)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _planned(device, *key)
    if ufunc is np.power and plan.loop[1].kind == "i" and _is_negative(inputs[1]):
        msg = "Integers to negative integer powers are not allowed."
        raise ValueError(msg)
    return plan


def _planned(
    device: KernelDevice,
    ufunc: np.ufunc,
    kinds: tuple[Any, ...],
    out: DType,
    dtype: Any = None,
    casting: Any = None,
) -> Plan:
    name = ufunc.__name__
    if name not in TABLE or ufunc.nout != 1:
        msg = (
            f"device {device} has no kernel for the ufunc {name!r}, only for the functions of nbdlpack and divmod: "
            "compute it on the cpu, with operands x.to_device('cpu')"
        )
        raise TypeError(msg)
    kinds = tuple([dtypes.BOOL if kind is bool else kind for kind in kinds])
    if all(isinstance(kind, type) for kind in kinds):
        kinds = tuple([np.dtype(kind) for kind in kinds])
    signature = (None,) * ufunc.nin + (None if dtype is None else np.dtype(dtype),)
    found = ufunc.resolve_dtypes((*kinds, out), signature=signature, casting=casting or "same_kind")
    for kind in found:
        if kind not in ACCESS:
            msg = (
                f"device {device} does not compute {name!r} in {kind}, but in "
                f"{', '.join([str(dtype) for dtype in ACCESS])}: convert operands by x.astype(dtype), or compute it on "
                "the cpu, with x.to_device('cpu')"
            )
            raise TypeError(msg)
    loop = tuple([dtypes.canonical(kind) for kind in found])
    order = (loop[-1], *loop[:-1])
    return Plan(
        name,
        loop,
        tuple([loaded_as(name, kind) for kind in loop]),
        elementwise_kernel(name, loop, "1-d"),
        tuple([ACCESS[kind].alignment for kind in order]),
        tuple([kind.itemsize for kind in order]),
        1 if name in HEAVY else moving.kernels().IN_FLIGHT,
    )


def _is_negative(exponent: Any) -> bool:
    """Return whether an exponent that is on the host is negative anywhere."""
    return not isinstance(exponent, View) and bool(np.any(np.less(exponent, 0)))


# -- operands


def _operands(device: KernelDevice, plan: Plan, inputs: tuple[Any, ...]) -> tuple[list[View | None], list[Any]]:
    """Return operands in the dtypes of a computation: arrays on the device, and values where they are none."""
    arrays: list[View | None] = []
    values: list[Any] = []
    for x, dtype, loaded in zip(inputs, plan.loop, plan.loaded, strict=False):
        if isinstance(x, np.ndarray):
            x = device.from_host(View, x.astype(dtype, copy=False)) if x.size != 1 else x.reshape(())[()]
        if isinstance(x, View):
            if x.dtype != dtype:
                new = device.empty(View, x.shape, dtype)
                device.assign(new, x)
                x = new
            arrays.append(x)
            values.append(0)
        else:
            arrays.append(None)
            values.append(dtype.type(x).view(loaded))
    return arrays, values


def _mask(device: KernelDevice, where: Any) -> Any:
    """Return a mask as an array on the device, or as a bool if it is the same for all elements."""
    if where is True:
        return True
    kind = where.dtype if hasattr(where, "dtype") else np.asarray(where).dtype
    if kind != dtypes.BOOL:
        msg = f"Cannot cast array data from {kind!r} to dtype('bool') according to the rule 'safe'"
        raise TypeError(msg)
    if isinstance(where, View):
        return where
    a = np.asarray(where)
    return bool(a) if a.ndim == 0 else device.from_host(View, a)


# -- launches


def _launch(device: KernelDevice, plan: Plan, out: View, arrays: list[View | None], values: list[Any]) -> bool:
    """Compute results into an output, or return False if it overlaps operands or is not aligned."""
    views = [x for x in arrays if x is not None]
    several: list[Any] = [out, *arrays]
    with device.accessing(views, (out,)):
        addresses = [0 if x is None else device.address(x) for x in several]
        misaligned = [i for i, address in enumerate(addresses) if address % plan.alignments[i]]
        if not misaligned and _are_simple(several, addresses, plan.steps):
            n = out.size
            device.launch(plan.kernel, -(-n // plan.elements), *addresses, n, *plan.steps, *values)
            return True
        if not misaligned and not any(moving.overlap(device, out, x) and not _is_same(device, out, x) for x in views):
            shape = out.shape
            operands = [
                Operand(0, (0,) * len(shape)) if x is None else moving.operand(device, x, shape) for x in several
            ]
            visit = moving.visited(shape, operands)
            moving.launch(device, lambda form: elementwise_kernel(plan.name, plan.loop, form), visit, *values)
            return True
    if not misaligned or 0 in misaligned:
        return False
    for i in misaligned:
        arrays[i - 1] = moving.compact(device, several[i])
    return _launch(device, plan, out, arrays, values)


def _are_simple(arrays: list[Any], addresses: list[int], steps: tuple[int, ...]) -> bool:
    """Return whether arrays are contiguous and of one shape, and the first is the same as each other or far from it."""
    out, start = arrays[0], addresses[0]
    shape, end = out.shape, start + out.nbytes
    for x, address, step in zip(arrays, addresses, steps, strict=True):
        if x is not None:
            if not x._contiguous & 1 or x.shape != shape:
                return False
            if start - x.nbytes < address < end and (address != start or step != steps[0]):
                return False
    return True


def _is_same(device: KernelDevice, out: View, x: View) -> bool:
    """Return whether each element of an operand is in the very bytes of the result that it is for."""
    return (
        device.address(out) == device.address(x)
        and out.itemsize == x.itemsize
        and moving._strides(x, out.shape) == moving._strides(out)
    )


def _store(device: KernelDevice, out: View, result: Any, mask: Any) -> None:
    """Write results into an output, where a mask says so."""
    if mask is True:
        device.assign(out, result)
    elif mask is not False and out.size:
        assign_masked(device, out, result, mask)


def assign_masked(device: KernelDevice, out: View, result: Any, mask: View) -> None:
    """Write results where a mask is true."""
    cast = device.empty(View, out.shape, out.dtype)
    device.assign(cast, result)
    if moving.overlap(device, out, mask):
        mask = moving.compact(device, mask)
    with device.accessing((cast, mask), (out,)):
        operands = [moving.operand(device, x, out.shape) for x in (out, cast, mask)]
        word, visit = moving.by_words(out.shape, out.itemsize, operands[:2], operands[2:])
        moving.launch(device, lambda form: masked_copy_kernel(word, form), visit)
