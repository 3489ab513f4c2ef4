"""What a DLTensor in memory says: read in place, without owning it, and judged in words."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from nbdlpack import devices, dtypes, layout
from nbdlpack.dlpack.enums import device_words, dtype_words
from nbdlpack.errors import DeviceError
from nbdlpack.native import memory, views
from nbdlpack.native.abi import DLTensor

MAX_NDIM: Final = views.MAX_NDIM
MAX_BYTES: Final = (1 << 63) - 1


def dims(tensor: Any, name: str) -> tuple[int, ...] | None:
    """Return a DLTensor's ``shape`` or ``strides``, or None for a null pointer."""
    pointer = getattr(tensor, name)
    return tuple(pointer[: max(tensor.ndim, 0)]) if pointer else None


def dtype_parts(tensor: Any) -> tuple[int, int, int]:
    """Return (code, bits, lanes) of a DLTensor."""
    word = tensor.dtype
    return word & 0xFF, word >> 8 & 0xFF, word >> 16


def fault(tensor: Any) -> str | None:
    """Return what keeps a DLTensor from being imported, in words, or None.

    Parameters
    ----------
    tensor
        A ctypes structure of the native layer's ``DLTensor``.
    """
    # In the order in which one may read: dimensions before extents, extents before what is computed of them.
    if tensor.ndim < 0:
        return f"ndim is {tensor.ndim}, which is negative"
    if tensor.ndim > MAX_NDIM:
        return f"it has {tensor.ndim} dimensions; an array has at most {MAX_NDIM}"
    code, bits, lanes = dtype_parts(tensor)
    words = dtype_words(code, bits, lanes)
    if lanes != 1:
        return f"its dtype is {words}; only one lane is supported. View it as scalars in the library that made it"
    if tensor.dtype not in dtypes.DTYPES:
        return f"its dtype is {words}, which no dtype here is. Convert it in the library that made it"
    if not is_usable(tensor.device_type, tensor.device_id):
        place = device_words(tensor.device_type, tensor.device_id)
        return f"it is on device ({place}), which cannot be used here. Move it first in the library that made it"
    shape, steps = dims(tensor, "shape"), dims(tensor, "strides")
    if shape is None:
        if tensor.ndim:
            return f"shape is a null pointer, with ndim {tensor.ndim}"
        shape = ()
    if any(n < 0 for n in shape):
        return f"shape is {shape}, which has a negative extent"
    size = bits // 8
    for n in shape:
        size *= n
    if size >= memory.LIMIT:
        return f"shape is {shape}, which is more bytes than can be addressed"
    if size == 0:
        return None
    # Numbers of bytes before and after the first element; a dimension of one element has no stride to speak of.
    reach = [(n - 1) * step * (bits // 8) for n, step in zip(shape, steps or layout.c_steps(shape), strict=True)]
    before, after = -sum(n for n in reach if n < 0), sum(n for n in reach if n > 0)
    if max(before, after) > MAX_BYTES:
        return f"strides {steps} of shape {shape} reach further than can be addressed"
    if not tensor.data:
        return f"data is a null pointer, with {size} bytes to read"
    address = tensor.data + tensor.byte_offset
    if address - before < 0 or address + after > MAX_BYTES:
        return f"data and byte_offset ({tensor.byte_offset}) lead outside of what can be addressed"
    return None


def refuse(address: int) -> NoReturn:
    """Raise the BufferError that says in words what is wrong with a DLTensor.

    Parameters
    ----------
    address
        Where the DLTensor is.

    Raises
    ------
    BufferError
        Always.
    """
    reason = fault(DLTensor.from_address(address))
    msg = f"the tensor cannot be imported: {reason or 'its strides reach further than can be addressed'}"
    raise BufferError(msg)


def is_usable(kind: int, number: int) -> bool:
    """Return whether memory on a device, as DLPack numbers them, can be used here."""
    try:
        return number >= 0 and bool(devices.numbered((kind, number)))
    except DeviceError:
        return False
