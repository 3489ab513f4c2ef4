"""DLPack's table of C functions for our types, by which others exchange arrays without calling Python.

The allocator and the current stream answer without the GIL; the others are called with it.
"""

from ctypes import CFUNCTYPE, c_int, c_int64, sizeof
from ctypes import c_void_p as word

from nbdlpack.native.abi import (
    BUFFER_ERROR,
    CPU,
    READ_ONLY,
    TYPE_ERROR,
    DLManagedTensorVersioned,
    DLTensor,
    Py_DecRef,
    PyErr_SetString,
    PyObject,
    PyObject_VectorcallMethod,
    PyType_IsSubtype,
    free,
    memcpy,
    words,
)
from nbdlpack.native.compiler import cold, native, stack
from nbdlpack.native.exports import CHECK, describe, export, new_descriptor
from nbdlpack.native.imports import DLPACK, VERSION, VERSION_KEYWORD, import_capsule, let_go_amid_error, wrap_versioned
from nbdlpack.native.memory import (
    CLASSES,
    FOR_DLPACK,
    WORLD,
    WRITE,
    Block,
    World,
    allocate,
    drain,
    enter,
    free_block,
    leave,
    own,
)
from nbdlpack.native.views import LIMIT, MAX_NDIM, Descriptor, ViewObject, bounded, dtype_object, itemsize

error_setter = CFUNCTYPE(None, word, word, word)
TENSOR = sizeof(DLTensor)


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
        out[0] = export(self)
    return 0 if out[0] else -1


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
    if array.negative == 0 or exportable(array):
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
    """current_work_stream: the CPU has none."""
    out[0] = 0
    return 0


@native
def refuse_prototype(context: word, set_error: error_setter, kind: word, message: word) -> c_int:
    if set_error:
        set_error(context, kind, message)
    return -1


@native
def exchange_allocate(prototype: DLTensor, out: words, context: word, set_error: error_setter) -> c_int:
    """managed_tensor_allocator: new memory as an export whose lease no storage has."""
    n, size = prototype.ndim, itemsize(prototype.dtype)
    out[0] = 0
    if prototype.device_type != CPU or prototype.device_id:
        return refuse_prototype(context, set_error, b"BufferError", b"only arrays on the CPU can be allocated here")
    if dtype_object(prototype.dtype) == 0:
        return refuse_prototype(context, set_error, b"BufferError", b"there are no arrays of the prototype's dtype")
    if n < 0 or n > MAX_NDIM or (n and prototype.shape == 0):
        return refuse_prototype(context, set_error, b"ValueError", b"an array has from 0 to 64 dimensions")
    for i in range(n):
        if prototype.shape[i] < 0:
            return refuse_prototype(context, set_error, b"ValueError", b"negative dimensions are not allowed")
        size = bounded(size, prototype.shape[i])
    self, block = Descriptor(new_descriptor(n)), Block(allocate(size, 0) if size < LIMIT else 0)
    if self == 0 or block == 0:
        free(self)
        if block:
            free_block(block)
        return refuse_prototype(context, set_error, b"MemoryError", b"the array could not be allocated")
    tensor, lease = self.managed.tensor, block.first
    tensor.data, tensor.device_type, tensor.device_id = block.address if size else 0, CPU, 0
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
