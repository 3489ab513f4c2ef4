"""The structures of DLPack 1.3 and of its C exchange API, as its header has them.

They are written down here a second time on purpose: what the library exports is read by the header's layout, and not by
the one that the library itself writes with.

References
----------
.. [1] https://github.com/dmlc/dlpack/blob/v1.3/include/dlpack/dlpack.h
"""

from __future__ import annotations

from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Final

__all__ = [
    "CODES",
    "CPU",
    "EXCHANGE",
    "IS_COPIED",
    "IS_SUBBYTE_TYPE_PADDED",
    "KINDS",
    "LEGACY",
    "READ_ONLY",
    "VERSION",
    "VERSIONED",
    "DLDataType",
    "DLDevice",
    "DLManagedTensor",
    "DLManagedTensorVersioned",
    "DLPackExchangeAPI",
    "DLPackVersion",
    "DLTensor",
]

VERSION: Final = (1, 3)
READ_ONLY, IS_COPIED, IS_SUBBYTE_TYPE_PADDED = 1, 2, 4
"""The bits of `DLManagedTensorVersioned.flags`."""
CPU: Final = (1, 0)
CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""DLDataTypeCode, by the kinds of NumPy's dtypes."""


class DLPackVersion(Structure):
    """The version of a structure."""

    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class DLDevice(Structure):
    """Where memory is."""

    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    """What an element is."""

    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    """A tensor that nobody owns."""

    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(Structure):
    """What a capsule named "dltensor" holds."""

    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class DLManagedTensorVersioned(Structure):
    """What a capsule named "dltensor_versioned" holds."""

    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    ]


class DLPackExchangeAPI(Structure):
    """What a capsule named "dlpack_exchange_api" points to: the version and an older table, then five functions."""

    _fields_ = [
        ("version", DLPackVersion),
        ("prev_api", c_void_p),
        ("managed_tensor_allocator", c_void_p),
        ("managed_tensor_from_py_object_no_sync", c_void_p),
        ("managed_tensor_to_py_object_no_sync", c_void_p),
        ("dltensor_from_py_object_no_sync", c_void_p),
        ("current_work_stream", c_void_p),
    ]


LEGACY: Final = "dltensor"
VERSIONED: Final = "dltensor_versioned"
EXCHANGE: Final = "dlpack_exchange_api"
KINDS: Final[dict[str, type[DLManagedTensor | DLManagedTensorVersioned]]] = {
    LEGACY: DLManagedTensor,
    VERSIONED: DLManagedTensorVersioned,
}
"""What is in a capsule, by its name."""
