"""Producers made by hand, whose every field can be set, and a look at what a capsule holds.

The structures are written down here a second time, from DLPack's header, on purpose: what the library exports is read
by the header's layout, not by the library's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
    pythonapi,
)
from types import SimpleNamespace
from typing import Any

import numpy as np

# ---- dlpack.h 1.3 ----------------------------------------------------------------------------------------------------


class DLDevice(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
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
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class DLPackVersion(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class DLManagedTensorVersioned(Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    ]


class DLPackExchangeAPI(Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("prev_api", c_void_p),
        ("managed_tensor_allocator", c_void_p),
        ("managed_tensor_from_py_object_no_sync", c_void_p),
        ("managed_tensor_to_py_object_no_sync", c_void_p),
        ("dltensor_from_py_object_no_sync", c_void_p),
        ("current_work_stream", c_void_p),
    ]


READ_ONLY, IS_COPIED = 1, 2
NAMES = {False: "dltensor", True: "dltensor_versioned"}
KINDS = {"dltensor": DLManagedTensor, "dltensor_versioned": DLManagedTensorVersioned}
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}

# ---- capsules --------------------------------------------------------------------------------------------------------

_new = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", pythonapi))
_name = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))
_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
_set_name = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", pythonapi))

_strings: dict[str, ctypes.Array[ctypes.c_char]] = {}


def c_string(text: str) -> int:
    """Return the address of a C string that is never freed: a capsule keeps the pointer to its name."""
    if text not in _strings:
        _strings[text] = ctypes.create_string_buffer(text.encode())
    return ctypes.addressof(_strings[text])


_new_at = PYFUNCTYPE(py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", pythonapi))
_set_name_at = PYFUNCTYPE(c_int, py_object, c_void_p)(("PyCapsule_SetName", pythonapi))


def new_capsule(pointer: int, name: str, destructor: int | None = None) -> Any:
    return _new_at(pointer, c_string(name), destructor)


def name_of(capsule: Any) -> str:
    return _name(capsule).decode()


def rename(capsule: Any, name: str) -> None:
    _set_name_at(capsule, c_string(name))


def pointer_of(capsule: Any) -> int:
    address = _pointer(capsule, _name(capsule))
    assert address is not None
    return address


def read(managed: DLManagedTensor | DLManagedTensorVersioned) -> SimpleNamespace:
    """Return the fields of a managed tensor of either kind."""
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
    """Return what a capsule holds, and its name, without consuming it."""
    name = name_of(capsule)
    fields = read(KINDS[name.removeprefix("used_")].from_address(pointer_of(capsule)))
    fields.name = name
    return fields


# ---- producers -------------------------------------------------------------------------------------------------------

_made: dict[int, tuple[Any, ...]] = {}  # by struct: what keeps it alive, whether or not its maker is
_counts: dict[int, list[int]] = {}  # by struct: how often its deleter was called


@CFUNCTYPE(None, c_void_p)
def _delete(address: int) -> None:
    _counts[address][0] += 1


DELETER = ctypes.cast(_delete, c_void_p).value


class Tensor:
    """A tensor whose every field can be set, over the memory of a NumPy array.

    Parameters
    ----------
    data
        The memory; its dtype, shape and strides are what is exported unless something else is set.
    address
        Instead of the data's address; None for a null pointer.
    shape, strides
        Tuples, or None for a null pointer.  Strides are in elements.
    ndim, dtype, device, byte_offset, version, flags
        As in the header; dtype is (code, bits, lanes).
    null_deleter
        Export without a deleter.
    name
        Of the capsules, instead of DLPack's.
    """

    def __init__(self, data: Any = (0.0, 1.0, 2.0, 3.0), **fields: Any) -> None:
        self.data = np.asarray(data)
        a = self.data
        self.fields = {
            "address": a.ctypes.data,
            "device": (1, 0),
            "ndim": None,
            "dtype": (CODES.get(a.dtype.kind, 2), a.dtype.itemsize * 8, 1),
            "shape": a.shape,
            "strides": tuple(n // a.itemsize for n in a.strides),
            "byte_offset": 0,
            "version": (1, 3),
            "flags": 0,
            "null_deleter": False,
            "name": None,
        }
        assert fields.keys() <= self.fields.keys(), fields
        self.fields.update(fields)
        self.made: list[int] = []
        self.capsules: list[Any] = []

    @property
    def deleted(self) -> int:
        """How often a deleter was called, over all the tensors made."""
        return sum(_counts[struct][0] for struct in self.made)

    @property
    def kept(self) -> int:
        """How many capsules were not consumed, so that what they hold is still this producer's to delete."""
        return sum(not name_of(capsule).startswith("used_") for capsule in self.capsules)

    def managed(self, versioned: bool) -> int:
        """Make a managed tensor; return its address.  It is never freed, so that a second deletion is counted."""
        f = self.fields
        managed = DLManagedTensorVersioned() if versioned else DLManagedTensor()
        tensor, keep = managed.dl_tensor, [managed, self.data]
        tensor.data, tensor.byte_offset = f["address"], f["byte_offset"]
        tensor.device.device_type, tensor.device.device_id = f["device"]
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = f["dtype"]
        for name in ("shape", "strides"):
            if f[name] is not None:
                numbers = (c_int64 * max(len(f[name]), 1))(*f[name])
                keep.append(numbers)
                setattr(tensor, name, numbers)
        tensor.ndim = len(f["shape"] or ()) if f["ndim"] is None else f["ndim"]
        managed.deleter = None if f["null_deleter"] else DELETER
        if isinstance(managed, DLManagedTensorVersioned):
            managed.version.major, managed.version.minor = f["version"]
            managed.flags = f["flags"]
        address = ctypes.addressof(managed)
        _made[address], _counts[address] = tuple(keep), [0]
        self.made.append(address)
        return address

    def capsule(self, versioned: bool = True) -> Any:
        """Return a capsule.  It is held here too, and has no destructor: ctypes' run Python, even amid an exception."""
        self.capsules.append(new_capsule(self.managed(versioned), self.fields["name"] or NAMES[versioned]))
        return self.capsules[-1]


class Producer(Tensor):
    """An object that exports itself as DLPack 1.x's standard says; `asked` lists the keywords of each call."""

    def __init__(self, data: Any = (0.0, 1.0, 2.0, 3.0), *, claims: tuple[int, int] | None = None, **fields: Any):
        super().__init__(data, **fields)
        self.claims = claims  # the device it says it is on, if not the tensor's
        self.asked: list[dict[str, Any]] = []
        self.asked_device = 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append(
            {
                k: v
                for k, v in (("stream", stream), ("max_version", max_version), ("dl_device", dl_device), ("copy", copy))
                if v is not None
            }
        )
        return self.capsule(max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self):
        self.asked_device += 1
        return self.claims or self.fields["device"]


class LegacyProducer(Producer):
    """Takes everything and exports an unversioned capsule all the same, as JAX's arrays do."""

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return self.capsule(False)


class BareProducer(Producer):
    """From the time before the standard: no keywords at all."""

    def __dlpack__(self):
        self.asked.append({})
        return self.capsule(False)


class StreamProducer(Producer):
    """From the first version of the standard: a stream, by position or keyword."""

    def __dlpack__(self, stream=None):
        self.asked.append({} if stream is None else {"stream": stream})
        return self.capsule(False)


class VersionProducer(Producer):
    """Knows of versions, but neither of copies nor of devices."""

    def __dlpack__(self, stream=None, max_version=None):
        self.asked.append({} if max_version is None else {"max_version": max_version})
        return self.capsule(max_version is not None)


class ForwardingProducer(Producer):
    """Passes what it is given on to something old."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.inner = StreamProducer(self.data, **fields)

    def __dlpack__(self, *args, **asked):
        self.asked.append(asked)
        return self.inner.__dlpack__(*args, **asked)

    @property
    def deleted(self) -> int:
        return self.inner.deleted

    @property
    def kept(self) -> int:
        return self.inner.kept


class RaisingProducer(Producer):
    """Raises whenever it is asked."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append({})
        raise self.error


class CopyingProducer(Producer):
    """Makes a copy if asked to, and says so."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append({"copy": copy})
        if copy:
            self.copy = Producer(self.data.copy(), flags=IS_COPIED)
            return self.copy.capsule(max_version is not None)
        return self.capsule(max_version is not None)


OLD = [BareProducer, StreamProducer, ForwardingProducer]
ANY_AGE = [*OLD, VersionProducer, LegacyProducer, Producer]

# ---- exchange tables -------------------------------------------------------------------------------------------------

_from_py = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))


def exchange_type(
    *, version=(1, 3), previous: int | None = None, fails: BaseException | None = None, slot=True, base=Producer
):
    """Return a type of producers with an exchange table; `through_table` counts the uses of that."""

    class WithTable(base):
        through_table = 0

        def __len__(self):  # what a table that fails calls, see below
            assert fails is not None
            raise fails

    @_from_py
    def from_py(x, out):
        WithTable.through_table += 1
        out[0] = x.managed(True)
        return 0

    api = DLPackExchangeAPI()
    api.version.major, api.version.minor = version
    api.prev_api = previous
    if not slot:
        api.managed_tensor_from_py_object_no_sync = None
    elif fails is None:
        api.managed_tensor_from_py_object_no_sync = ctypes.cast(from_py, c_void_p).value
    else:
        # A ctypes callback cannot return with an exception set.  PyObject_Size can: it takes an object, and returns -1
        # with whatever `__len__` raised.
        api.managed_tensor_from_py_object_no_sync = ctypes.cast(pythonapi.PyObject_Size, c_void_p).value
    WithTable.api = api  # and what it points to: as long as the type
    WithTable.keep = from_py
    WithTable.__dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(api), "dlpack_exchange_api")
    return WithTable


def exchange_api(kind: Any) -> DLPackExchangeAPI:
    """Return a type's exchange table."""
    capsule = kind.__dlpack_c_exchange_api__
    assert name_of(capsule) == "dlpack_exchange_api"
    return DLPackExchangeAPI.from_address(pointer_of(capsule))


def delete(address: int) -> None:
    """Call the deleter of a versioned managed tensor, without the GIL."""
    CFUNCTYPE(None, c_void_p)(DLManagedTensorVersioned.from_address(address).deleter)(address)


def consume(capsule: Any) -> int:
    """Take what a capsule holds, as a consumer does; return its address."""
    name, address = name_of(capsule), pointer_of(capsule)
    rename(capsule, f"used_{name}")
    return address


@contextlib.contextmanager
def flat(x: Any, *, rss: int = 4 << 20):
    """Check that live exports and leases of an array, and the process's memory, are afterwards what they were."""
    before, memory = x._state()[2:5], resident()
    yield
    assert x._state()[2:5] == before
    assert resident() - memory < rss


def resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


def values(a: Any) -> np.ndarray:
    return np.asarray(a)


def size_of(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
