"""DLPack's table of C functions for our types, by which others exchange arrays without calling Python.

The allocator and the current stream answer without the GIL; the others are called with it.
"""

from ctypes import CFUNCTYPE, addressof, c_int, c_int64, c_ssize_t, sizeof
from ctypes import c_void_p as word

from nbdlpack.native.abi import (
    BUFFER_ERROR,
    CPU,
    NONE,
    READ_ONLY,
    TYPE_ERROR,
    VALUE_ERROR,
    DLManagedTensorVersioned,
    DLTensor,
    Py_DecRef,
    Py_IncRef,
    PyErr_Clear,
    PyErr_NoMemory,
    PyErr_Occurred,
    PyErr_SetString,
    PyGILState_Ensure,
    PyGILState_Release,
    PyLong_AsLongLong,
    PyLong_AsVoidPtr,
    PyObject,
    PyObject_VectorcallMethod,
    PyThread_tss_alloc,
    PyThread_tss_create,
    PyThread_tss_get,
    PyThread_tss_set,
    PyType_IsSubtype,
    free,
    immortal,
    memcpy,
    words,
)
from nbdlpack.native.compiler import cold, inline, native, stack
from nbdlpack.native.exports import CHECK, describe, export, new_descriptor
from nbdlpack.native.imports import (
    DEVICES,
    DLPACK,
    STREAMED,
    VERSION,
    VERSION_KEYWORD,
    import_capsule,
    let_go_amid_error,
    wrap_versioned,
)
from nbdlpack.native.memory import (
    CLASSES,
    DEVICE,
    EXPORTING,
    FOR_DLPACK,
    WORLD,
    WRITE,
    Block,
    World,
    allocate,
    allocate_like,
    dispose,
    drain,
    enter,
    leave,
    leave_block,
    own,
    tell_device,
)
from nbdlpack.native.views import LIMIT, MAX_NDIM, Descriptor, ViewObject, bounded, dtype_object, itemsize, takes

error_setter = CFUNCTYPE(None, word, word, word)
TENSOR = sizeof(DLTensor)
STREAMED_DEVICES = 64
stream_keys = immortal((word * STREAMED_DEVICES)())
"""By a device's number, where each thread has the handle of its current stream, if one has."""
STREAM_KEYS = addressof(stream_keys)


@cold(0)
def exportable(self: ViewObject) -> c_int64:
    """Return whether an object is an array that may be exported as it is; set an error if not."""
    if not PyType_IsSubtype(PyObject(self).type, words(CLASSES)[2]):
        PyErr_SetString(TYPE_ERROR, b"the object is not an array of the type that this exchange table belongs to")
        return 0
    if self.negative == 0:
        return 1
    args = stack(word * 1)
    args[0] = self
    result = PyObject_VectorcallMethod(CHECK, args, 1, 0)
    Py_DecRef(result)
    return 1 if result else 0


@native
def exchange_export(self: ViewObject, out: words) -> c_int:
    """managed_tensor_from_py_object_no_sync"""
    out[0] = 0
    if (PyObject(self).type == words(CLASSES)[0] and self.negative == 0) or exportable(self):
        if settled(self):
            out[0] = export(self)
    return 0 if out[0] else -1


@inline
def settled(self: ViewObject) -> c_int64:
    """Return whether an array may go out as it is: a device's when the current stream has what was begun elsewhere."""
    if Block(self.storage.lease.block).flags & DEVICE:
        return settle(self)
    return 1


@cold(0)
def settle(self: ViewObject) -> c_int64:
    """Make an array of a device with streams ready: sole owner first, as a move would be one more thing begun."""
    storage, failed = self.storage, 0
    if not self.flags & READ_ONLY:
        enter(storage)
        failed = own(storage, FOR_DLPACK)
        leave(storage)
    if failed or tell_device(storage.lease.block, EXPORTING, 0):
        return 0
    return 1


@cold(-1)
def exchange_export_overridden(self: word, out: words) -> c_int:
    """managed_tensor_from_py_object_no_sync, of a class that has a `__dlpack__` of its own."""
    args, kinds = stack(word * 2), words(CLASSES)
    args[0], args[1], out[0] = self, VERSION, 0
    capsule = PyObject_VectorcallMethod(DLPACK, args, 1, VERSION_KEYWORD)
    if capsule == 0:
        return -1
    array = ViewObject(import_capsule(kinds[0], capsule))
    if array == 0:
        let_go_amid_error(capsule)
        return -1
    Py_DecRef(capsule)
    if (array.negative == 0 or exportable(array)) and settled(array):
        out[0] = export(array)
    Py_DecRef(array)
    return 0 if out[0] else -1


@cold(-1)
def exchange_view(self: ViewObject, out: word) -> c_int:
    """dltensor_from_py_object_no_sync: the array may be written to until control returns."""
    if not exportable(self):
        return -1
    if self.flags & READ_ONLY:
        PyErr_SetString(BUFFER_ERROR, b"the array is read-only, which a DLTensor cannot tell: export it by __dlpack__")
        return -1
    storage, w, descriptor = self.storage, World(WORLD), Descriptor(0)
    if w.ended:
        drain(0)
    if not settled(self):
        return -1
    enter(storage)
    if own(storage, FOR_DLPACK) == 0:
        descriptor = Descriptor(describe(self, WRITE))
    leave(storage)
    if descriptor == 0:
        return -1
    memcpy(out, descriptor.managed.tensor, TENSOR)
    return 0


@native
def exchange_import(managed: DLManagedTensorVersioned, out: words) -> c_int:
    """managed_tensor_to_py_object_no_sync.  A tensor that is refused stays the caller's."""
    kinds = words(CLASSES)
    out[0] = wrap_versioned(kinds[0], managed)
    return 0 if out[0] else -1


@native
def exchange_stream(device_type: c_int, device_id: c_int, out: words) -> c_int:
    """current_work_stream: the CPU has none, and the stream that is current where none was made so is the default."""
    out[0] = 0
    if device_type != CPU and device_id >= 0 and device_id < STREAMED_DEVICES:
        key = words(STREAM_KEYS)[device_id]
        if key:
            out[0] = PyThread_tss_get(key)
    return 0


@cold(0)
def set_stream(self: word, args: words, nargs: c_ssize_t) -> word:
    """set_current_stream(device_id, handle): what `current_work_stream` says in this thread; 0 is the default."""
    if not takes(args, nargs, 2):
        return 0
    number, handle = PyLong_AsLongLong(args[0]), PyLong_AsVoidPtr(args[1])
    if PyErr_Occurred():
        return 0
    if number < 0 or number >= STREAMED_DEVICES:
        PyErr_SetString(VALUE_ERROR, b"there are no devices of such a number")
        return 0
    keys = words(STREAM_KEYS)
    if keys[number] == 0:
        key = PyThread_tss_alloc()
        if key == 0 or PyThread_tss_create(key):
            return PyErr_NoMemory()
        keys[number] = key
    if PyThread_tss_set(keys[number], handle):
        return PyErr_NoMemory()
    Py_IncRef(NONE)
    return NONE


@native
def refuse_prototype(context: word, set_error: error_setter, kind: word, message: word) -> c_int:
    if set_error:
        set_error(context, kind, message)
    return -1


@native
def allocate_there(kind: c_int64, number: c_int64, size: c_int64) -> word:
    """Return a block of a device's memory, for the allocator, which may be called without the GIL."""
    state, like = PyGILState_Ensure(), stack(Block)
    like.device_type, like.device_id, like.size, like.flags = kind, number, size, DEVICE
    block = Block(allocate_like(like))
    if block:
        if tell_device(block, EXPORTING, 0):
            dispose(block.first, leave_block(block))
            block = Block(0)
    PyErr_Clear()
    PyGILState_Release(state)
    return block


@native
def exchange_allocate(prototype: DLTensor, out: words, context: word, set_error: error_setter) -> c_int:
    """managed_tensor_allocator: new memory as an export whose lease no storage has."""
    n, size = prototype.ndim, itemsize(prototype.dtype)
    out[0] = 0
    kind, number = prototype.device_type, prototype.device_id
    if (kind != CPU or number) and (kind < 0 or kind > 63 or number < 0 or words(DEVICES)[kind] != STREAMED):
        return refuse_prototype(context, set_error, b"BufferError", b"no arrays can be allocated on such a device")
    if dtype_object(prototype.dtype) == 0:
        return refuse_prototype(context, set_error, b"BufferError", b"there are no arrays of the prototype's dtype")
    if n < 0 or n > MAX_NDIM or (n and prototype.shape == 0):
        return refuse_prototype(context, set_error, b"ValueError", b"an array has from 0 to 64 dimensions")
    for i in range(n):
        if prototype.shape[i] < 0:
            return refuse_prototype(context, set_error, b"ValueError", b"negative dimensions are not allowed")
        size = bounded(size, prototype.shape[i])
    self, block = Descriptor(new_descriptor(n)), Block(0)
    if self and size < LIMIT:
        block = Block(allocate(size, 0) if kind == CPU else allocate_there(kind, number, size))
    if block == 0:
        free(self)
        return refuse_prototype(context, set_error, b"MemoryError", b"the array could not be allocated")
    tensor, lease = self.managed.tensor, block.first
    tensor.data, tensor.device_type, tensor.device_id = block.address if size else 0, kind, number
    tensor.dtype = prototype.dtype
    self.managed.flags, self.weight, self.lease, self.serial, self.count = 0, WRITE, lease, 0, 1
    lease.count = WRITE
    step = 1
    while n > 0:
        n -= 1
        tensor.shape[n], tensor.strides[n] = prototype.shape[n], step
        step *= prototype.shape[n] if prototype.shape[n] else 1
    out[0] = self
    return 0
