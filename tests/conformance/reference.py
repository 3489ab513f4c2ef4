"""A small DLPack library that does everything right, over NumPy and ctypes: what the checks are checked with.

It has arrays, views, read-only views, and lazy copies.  One of its devices is the CPU, the other pretends to be none:
its memory is the host's, but nobody is told.  It is written to be read: slow, and complete.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, byref, c_char_p, c_int, c_int64, c_void_p, py_object, pythonapi
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import ml_dtypes  # noqa: F401 (NumPy then knows its dtypes by name)
import numpy as np

from nbdlpack.conformance import Adapter
from nbdlpack.conformance.capsules import Capsule, name_of, new_capsule, pointer_of, rename
from nbdlpack.conformance.header import (
    CPU,
    EXCHANGE,
    IS_COPIED,
    KINDS,
    LEGACY,
    READ_ONLY,
    VERSION,
    VERSIONED,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
    DLTensor,
)
from tests.conformance.reference_native import code, handlers

if TYPE_CHECKING:
    from collections.abc import Callable

FLOAT8 = "e3m4 e4m3 e4m3b11fnuz e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu".split()
DTYPES = {
    **{(0, 8 * n): np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    **{(1, 8 * n): np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{(2, 8 * n): np.dtype(f"f{n}") for n in (2, 4, 8)},
    **{(5, 8 * n): np.dtype(f"c{n}") for n in (8, 16)},
    (4, 16): np.dtype("bfloat16"),
    (6, 8): np.dtype("bool"),
    **{(7 + i, 8): np.dtype(f"float8_{name}") for i, name in enumerate(FLOAT8)},
}
"""By code and bits, with one lane."""
CODES = {dtype: numbers for numbers, dtype in DTYPES.items()}
DEVICES = {"cpu": CPU, "ext": (12, 0)}
MOST_DIMENSIONS = 64
ALIGNMENT = 256
LARGEST = 2**63 - 1

lock = threading.RLock()
"""Held from the question where memory is, and who else has it, to the end of what the answer was needed for."""


def locked(method: Any) -> Any:
    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        with lock:
            return method(*args, **options)

    return call


call_deleter = CFUNCTYPE(None, c_void_p)  # without the GIL
set_error = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
export_function = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))  # with it; raises what is set
malloc = CFUNCTYPE(c_void_p, ctypes.c_size_t)(("malloc", ctypes.CDLL(None)))


# ---- memory ----------------------------------------------------------------------------------------------------------


class Memory:
    """Bytes, and who has them."""

    def __init__(self, address: int, nbytes: int, device: tuple[int, int], keep: Any, foreign: bool = False) -> None:
        self.address, self.nbytes, self.device, self.keep = address, nbytes, device, keep
        self.foreign = foreign  # someone that we do not know may write to it, and we cannot tell until when
        self.storages: WeakSet[Storage] = WeakSet()
        self.writers: WeakSet[Pin] = WeakSet()

    @classmethod
    def new(cls, nbytes: int, device: tuple[int, int]) -> Memory:
        room = np.empty(nbytes + ALIGNMENT, np.uint8)
        return cls(room.ctypes.data + -room.ctypes.data % ALIGNMENT, nbytes, device, room)


class Pin:
    """Keeps memory for who it was exported to."""

    def __init__(self, memory: Memory, writes: bool) -> None:
        self.memory = memory
        if writes:
            memory.writers.add(self)


class Storage:
    """The memory of an array and its views; lazy copies have storages of their own, of the same memory."""

    def __init__(self, memory: Memory) -> None:
        self.have(memory)

    def have(self, memory: Memory) -> None:
        self.memory = memory
        memory.storages.add(self)

    def own(self) -> Memory:
        """Return the memory, for writing: a copy of it if others share it."""
        old = self.memory
        if len(old.storages) > 1:
            old.storages.discard(self)
            self.have(Memory.new(old.nbytes, old.device))
            ctypes.memmove(self.memory.address, old.address, old.nbytes)
        return self.memory

    def share(self) -> Storage | None:
        """Return another storage of the memory, or None if someone may write to it without asking us."""
        memory = self.memory
        return None if memory.foreign or memory.writers else Storage(memory)


class Tensor:
    """What another library exported; it is deleted with this object."""

    def __init__(self, address: int, deleter: int | None) -> None:
        self.address, self.deleter = address, deleter

    def __del__(self, call: Any = call_deleter) -> None:
        if self.deleter:
            call(self.deleter)(self.address)


# ---- arrays ----------------------------------------------------------------------------------------------------------


class Overridden:
    """Stands for the exchange table in subclasses that export in a way of their own: they have none."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        msg = f"{owner.__name__} has a __dlpack__ of its own, and so no exchange table"
        raise AttributeError(msg)


class Exporter:
    """What has an exchange table, which does not let objects out past a `__dlpack__` of their own."""

    def __init_subclass__(cls) -> None:
        if "__dlpack__" in vars(cls):
            cls.__dlpack_c_exchange_api__ = Overridden()


class Array(Exporter):
    """An array; strides are in elements."""

    def __init__(
        self,
        storage: Storage,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int = 0,
        readonly: bool = False,
    ) -> None:
        self.storage, self.dtype, self.shape, self.strides = storage, dtype, shape, strides
        self.offset, self.readonly = offset, readonly
        self.dims = (c_int64 * (2 * len(shape)))(*shape, *strides)  # for those whom it is lent to

    @classmethod
    def of(cls, a: np.ndarray, device: tuple[int, int] = CPU) -> Array:
        """Return a new array of the values and the layout of NumPy's."""
        if a.dtype.hasobject:
            msg = "there are no arrays of objects"
            raise TypeError(msg)
        own = np.empty_like(a, subok=False)
        memory = Memory.new(a.nbytes, device)
        x = Array(Storage(memory), a.dtype, a.shape, tuple([n // max(a.itemsize, 1) for n in own.strides]))
        x.look()[...] = a
        return x

    def look(self) -> np.ndarray:
        """Return NumPy's view of the memory: not for users, who would keep it."""
        memory = self.storage.memory
        room = (ctypes.c_char * memory.nbytes).from_address(memory.address)
        steps = [n * self.dtype.itemsize for n in self.strides]
        return np.ndarray(self.shape, self.dtype, room, self.offset, steps)

    @locked
    def view(self, how: Callable[[np.ndarray], np.ndarray], readonly: bool = False) -> Array:
        """Return the array that is where NumPy's view of a view is."""
        a = how(self.look())
        offset = a.ctypes.data - self.storage.memory.address if a.size else 0
        steps = tuple([n // self.dtype.itemsize for n in a.strides])
        return Array(self.storage, self.dtype, a.shape, steps, offset, readonly or self.readonly)

    @locked
    def numpy(self) -> np.ndarray:
        """Return a copy."""
        return self.look().copy()

    def __getitem__(self, key: Any) -> Array:
        return self.view(lambda a: a[(*key, ...) if isinstance(key, tuple) else (key, ...)])

    @property
    def T(self) -> Array:
        return self.view(np.transpose)

    @property
    def device(self) -> str:
        return {device: name for name, device in DEVICES.items()}[self.storage.memory.device]

    def alter(self) -> None:
        """Transpose the array itself."""
        self.shape, self.strides = self.shape[::-1], self.strides[::-1]
        self.dims[:] = (*self.shape, *self.strides)

    def as_readonly(self) -> Array:
        return self.view(lambda a: a, readonly=True)

    @locked
    def copy(self) -> Array:
        """Return a copy, which is made when it is needed if it can wait."""
        storage = self.storage.share()
        if storage is None:
            return Array.of(self.look(), self.storage.memory.device)
        return Array(storage, self.dtype, self.shape, self.strides, self.offset)

    @locked
    def __setitem__(self, key: Any, value: Any) -> None:
        if self.readonly:
            msg = "the array is read-only; copy() can be written to"
            raise ValueError(msg)
        self.storage.own()
        self.look()[key] = value

    # -- what goes out

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if type(stream) is not int and stream is not None:
            msg = f"stream must be None or an int, not {stream!r}"
            raise TypeError(msg)
        if stream not in (None, -1):
            msg = f"the device has no streams: stream must be None or -1, not {stream}"
            raise ValueError(msg)
        if type(copy) is not bool and copy is not None:
            msg = f"copy must be None, True or False, not {copy!r}"
            raise TypeError(msg)
        here = self.storage.memory.device
        there = here if dl_device is None else pair("dl_device", dl_device)
        if there not in (here, CPU) or (there != here and copy is False):
            msg = f"an array on {self.device} is not exported to the device {there}, with copy={copy}"
            raise BufferError(msg)
        versioned = max_version is not None and pair("max_version", max_version)[0] >= 1
        name = VERSIONED if versioned else LEGACY
        address = self.managed(name, there if copy or there != here else None)
        return new_capsule(address, name, code[f"reference_drop_{AGES[name]}"])

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.storage.memory.device

    @locked
    def managed(self, name: str, copy: tuple[int, int] | None = None) -> int:
        """Return the address of a new managed tensor, of a copy if it is said where that is to be."""
        x, flags = (Array.of(self.look(), copy), IS_COPIED) if copy else (self, READ_ONLY if self.readonly else 0)
        if flags & READ_ONLY and name == LEGACY:
            msg = "an unversioned capsule cannot say that the array is read-only: use max_version=(1, 0), or copy=True"
            raise BufferError(msg)
        kind, ndim = KINDS[name], len(x.shape)
        numbers = CODES.get(x.dtype)
        if numbers is None:
            msg = f"DLPack has no dtype {x.dtype}"
            raise BufferError(msg)
        pin = Pin(x.storage.memory if x.readonly else x.storage.own(), not x.readonly)
        address = malloc(ctypes.sizeof(kind) + 16 * ndim)
        ctypes.memset(address, 0, ctypes.sizeof(kind))
        managed = kind.from_address(address)
        x.describe(managed.dl_tensor, numbers)
        dims = (c_int64 * (2 * ndim)).from_address(address + ctypes.sizeof(kind))
        dims[:] = x.dims
        set_dims(managed.dl_tensor, dims)
        pythonapi.Py_IncRef(py_object(pin))
        managed.manager_ctx, managed.deleter = id(pin), code[f"reference_delete_{AGES[name]}"]
        if isinstance(managed, DLManagedTensorVersioned):
            managed.version.major, managed.version.minor = VERSION
            managed.flags = flags
        return address

    def describe(self, tensor: DLTensor, numbers: tuple[int, int]) -> None:
        """Set all of a tensor's fields but the pointers to its shape and strides."""
        tensor.data = self.storage.memory.address + self.offset if math.prod(self.shape) else None
        tensor.device.device_type, tensor.device.device_id = self.storage.memory.device
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = *numbers, 1
        tensor.ndim, tensor.byte_offset = len(self.shape), 0


class ReadOnly(Exporter):
    """Exports an array read-only, and does nothing else."""

    def __init__(self, x: Array) -> None:
        self.array = x.as_readonly()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


AGES = {LEGACY: "legacy", VERSIONED: "versioned"}


def set_dims(tensor: DLTensor, dims: Any) -> None:
    """Point to numbers in memory, first the shape and then the strides; with no dimensions there are none."""
    if tensor.ndim:
        tensor.shape = ctypes.cast(dims, POINTER(c_int64))
        tensor.strides = ctypes.cast(ctypes.addressof(dims) + 8 * tensor.ndim, POINTER(c_int64))
    else:
        tensor.shape = tensor.strides = None


def pair(name: str, value: Any) -> tuple[int, int]:
    """Return an argument that must be two numbers."""
    if not (isinstance(value, tuple) and len(value) == 2 and all(isinstance(n, int) for n in value)):
        msg = f"{name} must be a tuple of two ints, not {value!r}"
        raise TypeError(msg)
    return value


def to_dlpack(x: Array) -> Any:
    return x.__dlpack__()


def broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    return x.view(lambda a: np.broadcast_to(a, shape), readonly=True)


# ---- what comes in ---------------------------------------------------------------------------------------------------


class DeviceError(BufferError, ValueError):
    """The array API standard has both, in two places."""


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """Return an array on the memory of any object that exports itself, or of a capsule."""
    if device not in (None, *DEVICES):
        msg = f"there is no device {device!r}, only {' and '.join(DEVICES)}"
        raise DeviceError(msg)
    if copy not in (None, True, False):
        msg = f"copy must be None, True or False, not {copy!r}"
        raise TypeError(msg)
    table = find_table(type(x)) if copy is None and device is None else None
    if table is not None:
        return take_tensor(export_by(table, x))
    capsule = x if type(x) is Capsule else ask(x, device, copy)
    y = take_capsule(capsule, copy)
    if device in (None, y.device):
        return y
    if copy is False:
        msg = f"the array is on {y.device}, and would have to be copied to {device}"
        raise DeviceError(msg)
    return Array.of(y.look(), DEVICES[device])


def ask(x: Any, device: str | None, copy: bool | None) -> Any:
    """Return the capsule that an object of any age exports."""
    kind, number = x.__dlpack_device__()
    wanted: dict[str, Any] = {"max_version": VERSION}
    if (kind, number) not in DEVICES.values():
        if device != "cpu":
            msg = f"the array is on the device {(kind, number)}, and would have to be copied: use device='cpu'"
            raise BufferError(msg)
        wanted["dl_device"] = CPU
    if copy is not None:
        wanted["copy"] = copy
    try:
        return x.__dlpack__(**wanted)
    except TypeError as error:
        if not is_about_keywords(error):
            raise
    try:
        return x.__dlpack__(max_version=VERSION)
    except TypeError as error:
        if not is_about_keywords(error):
            raise
    return x.__dlpack__()


def is_about_keywords(error: TypeError) -> bool:
    return "argument" in str(error)


def take_capsule(capsule: Any, copy: bool | None) -> Array:
    """Consume a capsule.  If that is refused the capsule is left alone, and deletes what it holds."""
    if type(capsule) is not Capsule:
        msg = f"__dlpack__ returned a {type(capsule).__name__}, not a capsule"
        raise TypeError(msg)
    name = name_of(capsule)
    if name not in KINDS:
        hint = "was consumed already" if name.startswith("used_") else "is none of DLPack's"
        msg = f"the capsule named {name!r} {hint}"
        raise ValueError(msg)
    managed = KINDS[name].from_address(pointer_of(capsule))
    layout = checked(managed)
    rename(capsule, f"used_{name}")
    x = adopt(managed, layout)
    copied = isinstance(managed, DLManagedTensorVersioned) and managed.flags & IS_COPIED
    return Array.of(x.look(), x.storage.memory.device) if copy and not copied else x


def take_tensor(address: int) -> Array:
    """Take a versioned tensor, and delete it if it is refused."""
    managed = DLManagedTensorVersioned.from_address(address)
    try:
        layout = checked(managed)
    except BufferError:
        Tensor(address, managed.deleter)
        raise
    return adopt(managed, layout)


def adopt(managed: Any, layout: SimpleNamespace) -> Array:
    """Return an array on a tensor that is ours from now on."""
    flags = managed.flags if isinstance(managed, DLManagedTensorVersioned) else 0
    owner = Tensor(ctypes.addressof(managed), managed.deleter)
    nbytes = layout.high - layout.low
    memory = Memory(layout.address + layout.low, nbytes, layout.device, owner, not flags & IS_COPIED)
    readonly = bool(flags & READ_ONLY or layout.overlapping)
    return Array(Storage(memory), layout.dtype, layout.shape, layout.strides, -layout.low, readonly)


def checked(managed: Any) -> SimpleNamespace:
    """Return what a managed tensor describes.  Raises BufferError if that cannot be, or not here."""
    if isinstance(managed, DLManagedTensorVersioned) and managed.version.major != VERSION[0]:
        msg = f"the tensor is of DLPack {managed.version.major}, but only {VERSION[0]} is known"
        raise BufferError(msg)
    t = managed.dl_tensor
    device, numbers = (t.device.device_type, t.device.device_id), (t.dtype.code, t.dtype.bits)
    dtype = DTYPES.get(numbers)
    ndim = t.ndim
    reasons = {
        f"the device {device}": device not in DEVICES.values(),
        f"the dtype code {numbers[0]} of {numbers[1]} bits": dtype is None,
        f"{t.dtype.lanes} lanes": t.dtype.lanes != 1,
        f"{ndim} dimensions": not 0 <= ndim <= MOST_DIMENSIONS,
        "no shape": ndim > 0 and not t.shape,
    }
    refuse(reasons)
    shape = tuple(t.shape[:ndim]) if ndim else ()
    refuse({f"the shape {shape}": any(n < 0 for n in shape)})
    itemsize, size = dtype.itemsize, math.prod(shape)
    strides = tuple(t.strides[:ndim]) if ndim and t.strides else tuple(math.prod(shape[i + 1 :]) for i in range(ndim))
    reach = [(n - 1) * step * itemsize for n, step in zip(shape, strides, strict=True)] if size else []
    low = sum(n for n in reach if n < 0)
    high = sum(n for n in reach if n > 0) + (itemsize if size else 0)
    address = (t.data or 0) + t.byte_offset
    refuse(
        {
            f"no data, but {size} elements": not t.data and size,
            f"the shape {shape}, of more elements than can be": math.prod(n or 1 for n in shape) * itemsize > LARGEST,
            f"strides {strides} that reach beyond all memory": address + low < 0 or address + high > 2**64,
        }
    )
    overlapping = size > 0 and any(step == 0 and n > 1 for n, step in zip(shape, strides, strict=True))
    return SimpleNamespace(
        device=device,
        dtype=dtype,
        shape=shape,
        strides=strides,
        address=address,
        low=low,
        high=high,
        overlapping=overlapping,
    )


def refuse(reasons: dict[str, Any]) -> None:
    """Raise BufferError with the first reason that holds."""
    for reason, holds in reasons.items():
        if holds:
            msg = f"the tensor has {reason}"
            raise BufferError(msg)


# ---- the exchange table ----------------------------------------------------------------------------------------------


def find_table(kind: type) -> DLPackExchangeAPI | None:
    """Return the exchange table of a type that does not export in a way of its own, or None."""
    for base in kind.__mro__:
        if "__dlpack_c_exchange_api__" in vars(base):
            break
        if "__dlpack__" in vars(base):
            return None
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if type(capsule) is not Capsule or name_of(capsule) != EXCHANGE:
        return None
    api = DLPackExchangeAPI.from_address(pointer_of(capsule))
    while api.version.major != VERSION[0]:
        if not api.prev_api:
            return None
        api = DLPackExchangeAPI.from_address(api.prev_api)
    return api if api.managed_tensor_from_py_object_no_sync else None


def export_by(table: DLPackExchangeAPI, x: Any) -> int:
    """Return the address of the tensor that an exchange table makes of an object."""
    out = c_void_p()
    if export_function(table.managed_tensor_from_py_object_no_sync)(x, byref(out)) or not out.value:
        msg = "the exchange table fails without saying why"
        raise BufferError(msg)
    return out.value


def export(x: Any) -> int:
    x = x.array if isinstance(x, ReadOnly) else x
    if not isinstance(x, Array):
        msg = f"the table is that of arrays, not of {type(x).__name__}"
        raise TypeError(msg)
    return x.managed(VERSIONED)


def wrap(address: int) -> Array:
    """Return an array on a tensor; if it is refused it stays with the caller."""
    managed = DLManagedTensorVersioned.from_address(address)
    return adopt(managed, checked(managed))


@locked
def lend(x: Any, out: int) -> None:
    """Describe an array for as long as it is left alone."""
    if not isinstance(x, Array) or x.readonly or x.dtype not in CODES:
        msg = f"{x!r} is no array that can be lent: a tensor without flags cannot say what is read-only"
        raise BufferError(msg) if isinstance(x, (Array, ReadOnly)) else TypeError(msg)
    x.storage.own().foreign = True  # nobody says when it is given back
    tensor = DLTensor.from_address(out)
    x.describe(tensor, CODES[x.dtype])
    set_dims(tensor, x.dims)


def allocate(prototype: int, out: int, context: int, report: int) -> None:
    """Make a tensor.  What it raises is not for Python, but says that the caller has been told."""
    t = DLTensor.from_address(prototype)
    try:
        refuse({f"{t.ndim} dimensions": not 0 <= t.ndim <= MOST_DIMENSIONS})
        shape = tuple(t.shape[: t.ndim]) if t.ndim else ()
        dtype = DTYPES.get((t.dtype.code, t.dtype.bits))
        device = t.device.device_type, t.device.device_id
        refuse(
            {
                f"the device {device}": device not in DEVICES.values(),
                "a dtype that is not known": dtype is None or t.dtype.lanes != 1,
                f"the shape {shape}": any(n < 0 for n in shape),
            }
        )
        if math.prod(n or 1 for n in shape) * dtype.itemsize > LARGEST:
            msg = f"the shape {shape} is too large"
            raise MemoryError(msg)
        c_void_p.from_address(out).value = Array.of(np.zeros(shape, dtype), device).managed(VERSIONED)
    except Exception as error:
        if report:
            set_error(report)(context, type(error).__name__.encode(), str(error).encode())
        raise


api = DLPackExchangeAPI()
api.version.major, api.version.minor = VERSION
api.managed_tensor_allocator = code["reference_allocate"]
api.managed_tensor_from_py_object_no_sync = code["reference_from_py"]
api.managed_tensor_to_py_object_no_sync = code["reference_to_py"]
api.dltensor_from_py_object_no_sync = code["reference_lend"]
api.current_work_stream = code["reference_stream"]
Array.__dlpack_c_exchange_api__ = ReadOnly.__dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(api), EXCHANGE)
handlers.export, handlers.wrap, handlers.lend, handlers.allocate = export, wrap, lend, allocate


# ---- how to drive it -------------------------------------------------------------------------------------------------


class ReferenceAdapter(Adapter):
    """The reference library."""

    name = "reference"
    module = __name__
    devices = DEVICES
    capsules = True

    def version(self) -> str:
        return "1"

    def from_numpy(self, a: Any) -> Any:
        return Array.of(a, self.device)

    def to_numpy(self, x: Any) -> Any:
        return x.numpy()

    def alter(self, x: Any) -> None:
        x.alter()

    def read_only(self, x: Any) -> Any:
        return x.as_readonly()

    def lazy_copy(self, x: Any) -> Any:
        return x.copy()

    def to_dlpack(self, x: Any) -> Any:
        return to_dlpack(x)

    def unexportable(self, x: Any) -> Any:
        return {
            f"an array of {kind}": Array.of(np.zeros(2, kind), self.device)
            for kind in ("longdouble", ">f8", "M8[s]", "i4,f4")
        }


class WrapperAdapter(ReferenceAdapter):
    """The reference library, with wrappers where it also has read-only views."""

    def read_only(self, x: Any) -> Any:
        return ReadOnly(x)

    def lazy_copy(self, x: Any) -> Any:
        return self.lacks("copies of wrappers") if isinstance(x, ReadOnly) else x.copy()


class ValuesAdapter(ReferenceAdapter):
    """The reference library, with nothing but read-only arrays."""

    immutable = True

    def from_numpy(self, a: Any) -> Any:
        return super().from_numpy(a).as_readonly()

    def from_dlpack(self, x: Any, **options: Any) -> Any:
        return super().from_dlpack(x, **options).as_readonly()

    def lazy_copy(self, x: Any) -> Any:
        self.lacks("use for copies")
