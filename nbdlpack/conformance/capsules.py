"""Capsules, as C handles them: made, renamed, read without being consumed, consumed."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, PYFUNCTYPE, c_char_p, c_int, c_void_p, py_object, pythonapi
from types import SimpleNamespace
from typing import Any, Final

from nbdlpack.conformance.header import (
    EXCHANGE,
    KINDS,
    VERSIONED,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
)

__all__ = [
    "Capsule",
    "c_string",
    "consume",
    "delete",
    "exchange_api",
    "name_of",
    "new_capsule",
    "peek",
    "pointer_of",
    "read",
    "rename",
]

_new = PYFUNCTYPE(py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", pythonapi))
_name = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))
_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
_set_name = PYFUNCTYPE(c_int, py_object, c_void_p)(("PyCapsule_SetName", pythonapi))
_deleter = CFUNCTYPE(None, c_void_p)  # lets go of the GIL while it runs, as C++ consumers do

_strings: Final[dict[str, ctypes.Array[ctypes.c_char]]] = {}
pythonapi.Py_IncRef(py_object(_strings))  # so that they are there when the last capsules die


def c_string(text: str) -> int:
    """Return the address of a C string that is never freed: a capsule keeps the pointer to its name."""
    if text not in _strings:
        _strings[text] = ctypes.create_string_buffer(text.encode())
    return ctypes.addressof(_strings[text])


def new_capsule(pointer: int, name: str, destructor: int | None = None) -> Any:
    """Return a capsule with a pointer, a name and the address of a destructor."""
    return _new(pointer, c_string(name), destructor)


Capsule: Final = type(new_capsule(1, "an example"))
"""The type of capsules."""


def name_of(capsule: Any) -> str:
    """Return a capsule's name."""
    name: bytes | None = _name(capsule)
    return (name or b"").decode()


def rename(capsule: Any, name: str) -> None:
    """Give a capsule another name, which says who is to delete what it holds."""
    _set_name(capsule, c_string(name))


def pointer_of(capsule: Any) -> int:
    """Return a capsule's pointer."""
    address: int = _pointer(capsule, _name(capsule))
    return address


def read(managed: DLManagedTensor | DLManagedTensorVersioned) -> SimpleNamespace:
    """Return the fields of a managed tensor of either kind, and `address`, where its first element is."""
    tensor = managed.dl_tensor
    versioned = isinstance(managed, DLManagedTensorVersioned)
    return SimpleNamespace(
        versioned=versioned,
        version=(managed.version.major, managed.version.minor) if versioned else None,
        flags=managed.flags if versioned else None,
        deleter=managed.deleter,
        data=tensor.data,
        device=(tensor.device.device_type, tensor.device.device_id),
        ndim=tensor.ndim,
        dtype=(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        shape=tuple(tensor.shape[: tensor.ndim]) if tensor.shape else None,
        strides=tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None,
        byte_offset=tensor.byte_offset,
        address=(tensor.data or 0) + tensor.byte_offset,
        struct=ctypes.addressof(managed),
    )


def peek(capsule: Any) -> SimpleNamespace:
    """Return what a capsule holds, as `read` does, and its name, without consuming it."""
    name = name_of(capsule)
    fields = read(KINDS[name.removeprefix("used_")].from_address(pointer_of(capsule)))
    fields.name = name
    return fields


def consume(capsule: Any) -> int:
    """Take what a capsule holds, as a consumer does; return its address, for `delete`."""
    name, address = name_of(capsule), pointer_of(capsule)
    rename(capsule, f"used_{name}")
    return address


def delete(address: int, name: str = VERSIONED) -> None:
    """Call the deleter of a managed tensor of a capsule of that name, without the GIL."""
    deleter = KINDS[name].from_address(address).deleter
    if deleter:
        _deleter(deleter)(address)


def exchange_api(kind: Any) -> DLPackExchangeAPI:
    """Return a type's exchange table.  Raises AttributeError if it has none, TypeError if that is no such capsule."""
    capsule = kind.__dlpack_c_exchange_api__
    if type(capsule) is not Capsule or name_of(capsule) != EXCHANGE:
        msg = f"__dlpack_c_exchange_api__ is {capsule!r}, but must be a capsule named {EXCHANGE!r}"
        raise TypeError(msg)
    return DLPackExchangeAPI.from_address(pointer_of(capsule))
