"""Arrays over what objects show by the CUDA array interface, version 2 or 3.

https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from nbdlpack import dtypes, layout, native
from nbdlpack.devices import base
from nbdlpack.devices.cuda import driver
from nbdlpack.native.device_types import DLDeviceType

if TYPE_CHECKING:
    from nbdlpack.native import View

    V = TypeVar("V", bound=View)


def imported(cls: type[V], obj: Any) -> V:
    """Return an array over the memory of an object that has ``__cuda_array_interface__``.

    Parameters
    ----------
    cls : type
        The class of the array.
    obj : object
        The object, which is kept as long as the memory.

    Returns
    -------
    View
        On the GPU where the memory is, read-only if the interface says so; what the object's stream has still to do is
        waited for on the current one.

    Raises
    ------
    BufferError
        If the interface is malformed, or the address is none of a GPU's.
    """
    interface = obj.__cuda_array_interface__
    try:
        shape = tuple([index(n) for n in interface["shape"]])
        dtype = dtypes.canonical(np.dtype(interface["typestr"]))
        address, read_only = index(interface["data"][0] or 0), bool(interface["data"][1])
        strides, stream = interface.get("strides"), interface.get("stream")
        strides = None if strides is None else tuple([index(n) for n in strides])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        _refuse(obj, f"is malformed ({error})", error)
    if interface.get("mask") is not None:
        _refuse(obj, "has a mask, which an array cannot have")
    if any(n < 0 for n in shape) or (strides is not None and len(strides) != len(shape)):
        _refuse(obj, f"has shape {shape} and strides {strides}")
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream < 1):
        _refuse(obj, f"names stream {stream!r}, which must be None, 1, 2 or a stream's handle")
    if strides is not None and any(n % dtype.itemsize for n in strides):
        _refuse(obj, f"has strides {strides} that are no multiples of the {dtype.itemsize} bytes of {dtype}")
    steps = layout.c_steps(shape) if strides is None else tuple([n // dtype.itemsize for n in strides])
    low, high = layout.bounds(shape, steps)
    empty = 0 in shape
    gpu = driver.gpu(0) if empty else driver.owner_of(address)
    flags = native.READ_ONLY if read_only else 0
    start = address + (0 if empty else low * dtype.itemsize)
    base.numbered((DLDeviceType.kDLCUDA, gpu.index))  # from here on it takes part
    memory = native.watch.adopt(DLDeviceType.kDLCUDA, gpu.index, start, obj)
    if stream is not None:
        native.watch.imported(memory, stream)
    place, block = (DLDeviceType.kDLCUDA, gpu.index), native.FOREIGN | native.DEVICE
    nbytes = 0 if empty else (high - low) * dtype.itemsize
    if empty or low == 0:
        return cls._wrap(memory, start, place, nbytes, block, dtype, flags, shape, steps)
    # Memory begins before the first element where strides are negative.
    first = cls._wrap(memory, start, place, nbytes, block, dtype, flags, shape, tuple([abs(n) for n in steps]))
    view: V = first._view(cls, -low * dtype.itemsize, dtype, first._flags, shape, steps)
    return view


def _refuse(obj: Any, why: str, error: Exception | None = None) -> NoReturn:
    msg = f"the __cuda_array_interface__ of a {type(obj).__name__} {why}"
    raise BufferError(msg) from error
