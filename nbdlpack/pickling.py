"""Arrays as pickles, and as copies by Python's `copy` module.

A pickle has the dtype, the shape, the order, the device and the elements: of a view only the elements that it shows.
From protocol 5 on they go out of band where that is asked for, without a copy.  A pickle is read from a read-only
export, so that an array that shares its memory stays where it is.

An array that is loaded can always be written to, and shares nothing with what was pickled or with the pickle: where
the bytes are still those of an array of this process it is a lazy copy of that, otherwise they are copied.
"""

from __future__ import annotations

import pickle
import warnings
from copy import deepcopy
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import devices, dtypes, layout, native, storage
from nbdlpack.errors import DeviceError
from nbdlpack.native import View

if TYPE_CHECKING:
    from nbdlpack.devices import Device


def reduce(x: Any, protocol: int) -> tuple[Any, ...]:
    """Return what `__reduce_ex__` returns."""
    order = "F" if x._contiguous == 2 else "C"
    flat = storage.to_device(x.T if order == "F" else x, View, devices.host, "an array was pickled")
    if not flat._contiguous & 1:
        flat = storage.copy(flat, View, "C", "an array was pickled that has gaps", asked=True)
    # A view of bytes, which each dtype has a buffer of.
    flat = flat._view(View, 0, dtypes.UINT8, native.READ_ONLY, (x.nbytes,), (1,))
    data = pickle.PickleBuffer(flat) if protocol >= 5 else bytes(flat)
    args = (type(x), data, x.dtype.name, x.shape, order, str(devices.of(x)))
    return (restore, args, x.__dict__) if getattr(x, "__dict__", None) else (restore, args)


def restore(cls: type[Any], data: Any, dtype: str, shape: tuple[int, ...], order: str, device: str) -> Any:
    """Return the array that was pickled.

    Warns
    -----
    UserWarning
        If the device is not there: the array is then on the cpu.
    """
    buffer = np.frombuffer(data, np.uint8)
    kind = dtypes.NAMES[dtype]
    steps = layout.f_steps(shape) if order == "F" else layout.c_steps(shape)
    target = _device(device)
    if buffer.size != prod(shape) * kind.itemsize:
        msg = f"the pickle's data has {buffer.size} bytes, but an array of {dtype} and shape {shape} has another number"
        raise ValueError(msg)
    if buffer.size == 0:
        return storage.allocate(cls, target, shape, kind, steps)
    # Memory of ours comes home; other memory may be written to by its owner.
    address = buffer.__array_interface__["data"][0]
    host, n = devices.host, buffer.nbytes
    x = cls._wrap(buffer, address, host.dlpack, n, 1, dtypes.UINT8, native.READ_ONLY, (n,), (1,))
    x = x._lazy_copy(cls)
    if x is None:
        x = host.from_host(cls, buffer)
    x = storage.to_device(x._view(cls, 0, kind, 0, (prod(shape),), (1,)), cls, target, "an array was unpickled")
    return x._view(cls, 0, kind, 0, shape, steps)


def _device(name: str) -> Device:
    try:
        return devices.named(name)
    except (ValueError, DeviceError) as error:
        msg = f"an array pickled on device {name!r} is loaded on {str(devices.host)!r}: {error}"
        warnings.warn(msg, UserWarning, stacklevel=3)
        return devices.host


def copied(x: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return a copy in the layout that the array has, lazy if it can be, with its attributes if it is of a subclass.

    With a memo it is the deep copy that `copy.deepcopy` asks for.
    """
    new = x.copy(order="K")
    attributes = getattr(x, "__dict__", None)
    if attributes and memo is not None:
        memo[id(x)] = new  # for attributes that lead back to the array
        attributes = deepcopy(attributes, memo)
    if attributes:
        new.__dict__.update(attributes)
    return new
