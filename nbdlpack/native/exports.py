"""What leaves: descriptors, DLPack's capsules, the buffer protocol, and NumPy arrays on our memory.

Exporting by DLPack is a use of the array's descriptor and one of its lease; the deleter takes both back, by two atomic
subtractions.  The other exports use the lease alone.
"""

import sys
from ctypes import addressof, c_int, c_int64, c_ssize_t, c_uint64, sizeof
from ctypes import c_void_p as word

from nbdlpack.dtypes import FORMATS
from nbdlpack.native.abi import (
    BUFFER_ERROR,
    CPU,
    FALSE,
    IS_COPIED,
    LEGACY,
    MAJOR,
    MINOR,
    NDARRAY,
    NONE,
    NPY_ARRAY_WRITEABLE,
    READ_ONLY,
    TUPLE,
    TYPE_ERROR,
    VALUE_ERROR,
    VERSIONED,
    ZERO,
    DLManagedTensor,
    DLManagedTensorVersioned,
    Py_buffer,
    Py_DecRef,
    Py_IncRef,
    PyArray_NewFromDescr,
    PyArray_SetBaseObject,
    PyBUF_ANY,
    PyBUF_C,
    PyBUF_F,
    PyBUF_FORMAT,
    PyBUF_ND,
    PyBUF_STRIDES,
    PyBUF_WRITABLE,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyDict_GetItemWithError,
    PyErr_Clear,
    PyErr_NoMemory,
    PyErr_Occurred,
    PyErr_SetString,
    PyLong_AsLongLong,
    PyLong_FromLongLong,
    PyObject,
    PyObject_VectorcallMethod,
    PyTuple_GetItem,
    PyTuple_Size,
    PyUnicode_InternInPlace,
    constant,
    free,
    immortal,
    longs,
    malloc,
    string,
    words,
)
from nbdlpack.native.compiler import atomic_add, cold, hot, inline, native, stack
from nbdlpack.native.device_types import DLDeviceType
from nbdlpack.native.memory import (
    BIAS,
    DEVICE,
    ESCAPED,
    FOR_BUFFER,
    FOR_DLPACK,
    FOR_WRITE,
    FOREIGN,
    LISTED,
    READ,
    WORLD,
    WRITE,
    Block,
    Lease,
    World,
    count_export,
    drain,
    enlist,
    enter,
    leave,
    let_export_go,
    own,
    shared,
)
from nbdlpack.native.views import (
    READ_ONLY_MESSAGE,
    Descriptor,
    ViewObject,
    dtype_object,
    forget,
    ints,
    is_compact,
    itemsize,
    takes,
)

DESCRIPTOR = sizeof(Descriptor)
MAX_VERSION, COPY, DL_DEVICE, STREAM, EXPORT, CHECK = (
    constant(sys.intern(name)) for name in ("max_version", "copy", "dl_device", "stream", "_export", "_check_export")
)
CPU_DEVICE = constant((DLDeviceType.kDLCPU, 0))
device_tuples = immortal({})
"""What `__dlpack_device__` returns, by `View._place`, of the devices that are not the cpu."""
DEVICE_TUPLES = id(device_tuples)
READ_HOLD, WRITE_HOLD = string(b"nbdlpack.read"), string(b"nbdlpack.write")

# The buffer protocol's names of the dtypes that have one, by code << 5 | bytes.
formats = immortal((word * 1024)())
FORMAT_NAMES = addressof(formats)
for _word, _format in FORMATS.items():
    formats[(_word & 31) << 5 | (_word >> 11 & 31)] = string(_format)


# ---- uses of a lease ------------------------------------------------------------------------------------------------


@cold(-1)
def prepare(self: ViewObject, weight: c_int64, cause: c_int64) -> c_int64:
    """Make the array ready to be exported with a weight; return -1 with an error set if it cannot be."""
    storage, w = self.storage, World(WORLD)
    if w.ended:
        drain(0)
    if weight == WRITE and (storage.busy or shared(storage)):
        enter(storage)
        failed = own(storage, cause)
        leave(storage)
        return failed
    return 0


@inline
def use(lease: Lease, weight: c_int64):
    """Count an export on a lease."""
    block = Block(lease.block)
    count_export(lease, weight)
    block.exported = lease
    if not block.flags & (FOREIGN | LISTED):
        enlist(block)


# ---- descriptors ----------------------------------------------------------------------------------------------------


@inline
def drop(descriptor: Descriptor):
    """End one export."""
    lease, weight = descriptor.lease, descriptor.weight
    if atomic_add(descriptor.count, -1) == 1:
        free(descriptor)
    let_export_go(lease, weight)


@hot
def delete_versioned(managed: DLManagedTensorVersioned):
    drop(managed.context)


@hot
def delete_legacy(managed: DLManagedTensor):
    drop(managed.context)


@hot
def drop_versioned(capsule: word):
    """Destroy a capsule, which still has its export if no consumer took it."""
    if PyCapsule_IsValid(capsule, VERSIONED):
        drop(PyCapsule_GetPointer(capsule, VERSIONED))


@hot
def drop_legacy(capsule: word):
    if PyCapsule_IsValid(capsule, LEGACY):
        drop(DLManagedTensor(PyCapsule_GetPointer(capsule, LEGACY)).context)


@native
def new_descriptor(ndim: c_int64) -> word:
    """Return a descriptor, whose tensor is not filled in; whoever makes it has a claim on it."""
    self = Descriptor(malloc(DESCRIPTOR + 16 * ndim))
    if self == 0:
        return 0
    managed, tensor, w = self.managed, self.managed.tensor, World(WORLD)
    managed.major, managed.minor, managed.context, managed.deleter = MAJOR, MINOR, self, w.delete_versioned
    self.legacy_context, self.legacy_deleter = self, w.delete_legacy
    self.count, self.made = BIAS, 0
    tensor.ndim, tensor.shape, tensor.strides, tensor.byte_offset = ndim, self.dims, self.dims + 8 * ndim, 0
    return self


@inline
def describe(self: ViewObject, weight: c_int64) -> word:
    """Return the array's descriptor for such exports, made if the last one is not that."""
    old, lease = self.descriptor, self.storage.lease
    if old and old.serial == lease.serial and old.weight == weight:
        return old
    return redescribe(self, weight, 0)


@native
def redescribe(self: ViewObject, weight: c_int64, flags: c_uint64) -> word:
    """Make a descriptor, with some flags more, the array's."""
    lease, n, old = self.storage.lease, self.ndim, self.descriptor
    block, new = Block(lease.block), Descriptor(new_descriptor(n))
    if new == 0:
        return PyErr_NoMemory()
    tensor = new.managed.tensor
    new.weight, new.lease, new.serial = weight, lease, lease.serial
    new.managed.flags = flags | (0 if weight == WRITE else READ_ONLY)
    tensor.data, tensor.device_type = block.address + self.offset, block.device_type
    tensor.device_id = 0 if block.device_type == CPU else block.device_id
    tensor.dtype = self.dtype
    for i in range(n):
        tensor.shape[i], tensor.strides[i] = self.shape[i], self.strides[i]
        if self.shape[i] == 0:
            tensor.data = 0
    self.descriptor = new
    forget(old)
    return new


@hot
def export(self: ViewObject) -> word:
    """Return the array's descriptor with one more export made, for writing if the array allows it, or 0."""
    storage, w, weight = self.storage, World(WORLD), READ if self.flags & READ_ONLY else WRITE
    if w.ended or storage.busy or weight == WRITE and Block(storage.lease.block).leases > 1:
        if prepare(self, weight, FOR_DLPACK):
            return 0
    new = Descriptor(describe(self, weight))
    if new:
        new.made += 1
        use(new.lease, weight)
    return new


# ---- __dlpack__ -----------------------------------------------------------------------------------------------------


@native
def call(name: word, self: word, args: words, nargs: c_ssize_t, kwnames: word) -> word:
    """Call a Python method with what a native one was given, of which there are at most 8."""
    n = nargs
    if kwnames:
        n += PyTuple_Size(kwnames)
    if n > 8:
        PyErr_SetString(TYPE_ERROR, b"too many arguments")
        return 0
    all = stack(word * 9)
    all[0] = self
    for i in range(n):
        all[i + 1] = args[i]
    return PyObject_VectorcallMethod(name, all, nargs + 1, kwnames)


@native
def interned(name: word) -> word:
    """Return the one string of an argument's name; NumPy 2.2 passes others."""
    if name == MAX_VERSION or name == COPY or name == DL_DEVICE or name == STREAM:
        return name
    place = stack(word * 1)
    place[0] = name
    Py_IncRef(name)
    PyUnicode_InternInPlace(place)
    Py_DecRef(place[0])
    return place[0]


@native
def asked_major(args: words, kwnames: word) -> c_int64:
    """Return the major version that the keywords of an export ask for, or -1 if they ask for anything else as well."""
    major = 0
    for i in range(PyTuple_Size(kwnames)):
        name, value = interned(PyTuple_GetItem(kwnames, i)), args[i]
        if name == MAX_VERSION:
            if value != NONE:
                if PyObject(value).type != TUPLE or PyTuple_Size(value) != 2:
                    return -1
                major = plain_major(value)
                if major < 0:
                    return -1
        elif name == COPY:
            if value != NONE and value != FALSE:
                return -1
        elif name != DL_DEVICE and name != STREAM or value != NONE:
            return -1
    return major


LONG = id(int)


@inline
def plain_major(version: word) -> c_int64:
    """Return the first of a pair of ints, or -1 if they are not."""
    major, minor = PyTuple_GetItem(version, 0), PyTuple_GetItem(version, 1)
    if PyObject(major).type != LONG or PyObject(minor).type != LONG:
        return -1
    n = PyLong_AsLongLong(major)
    if n == -1:
        PyErr_Clear()
    return n


@hot
def dlpack(self: ViewObject, args: words, nargs: c_ssize_t, kwnames: word) -> word:
    """__dlpack__, but for what is not simply this array in a capsule."""
    major = -1 if nargs or self.negative or Block(self.storage.lease.block).flags & DEVICE else 0
    if kwnames and major == 0:
        major = asked_major(args, kwnames)
    if major < 0 or major == 0 and self.flags & READ_ONLY:  # which only a versioned one can tell
        if nargs:
            PyErr_SetString(TYPE_ERROR, b"__dlpack__() takes keyword arguments only")
            return 0
        return call(EXPORT, self, args, nargs, kwnames)
    return in_capsule(export(self), major)


@inline
def in_capsule(descriptor: Descriptor, versioned: c_int64) -> word:
    if descriptor == 0:
        return 0
    if versioned:
        capsule = PyCapsule_New(descriptor, VERSIONED, drop_versioned)
    else:
        capsule = PyCapsule_New(descriptor.managed.tensor, LEGACY, drop_legacy)
    if capsule == 0:
        drop(descriptor)
    return capsule


@cold(0)
def capsule(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_capsule(versioned, copied): this array in a capsule, unchecked; 1 marks it as a copy made for the consumer."""
    if not takes(args, nargs, 2):
        return 0
    if args[1] == ZERO:
        return in_capsule(export(self), args[0] != ZERO)
    new = Descriptor(redescribe(self, WRITE, IS_COPIED))
    if new == 0:
        return 0
    new.made += 1
    use(new.lease, WRITE)
    # The flag is this export's alone, so the descriptor is not kept.
    self.descriptor = 0
    forget(new)
    return in_capsule(new, args[0] != ZERO)


@hot
def dlpack_device(self: ViewObject, noargs: word) -> word:
    block = Block(self.storage.lease.block)
    if block.device_type == CPU:
        Py_IncRef(CPU_DEVICE)
        return CPU_DEVICE
    return other_device(block)


@cold(0)
def other_device(block: Block) -> word:
    number, pair, result = PyLong_FromLongLong(block.device_id << 8 | block.device_type), stack(c_int64 * 2), 0
    if number:
        result = PyDict_GetItemWithError(DEVICE_TUPLES, number)
        Py_DecRef(number)
        Py_IncRef(result)
    if result == 0 and PyErr_Occurred() == 0:
        pair[0], pair[1] = block.device_type, block.device_id
        result = ints(pair, 2, 1)
    return result


# ---- NumPy arrays on our memory -------------------------------------------------------------------------------------


@native
def drop_read(capsule: word):
    let_export_go(PyCapsule_GetPointer(capsule, READ_HOLD), READ)


@native
def drop_write(capsule: word):
    let_export_go(PyCapsule_GetPointer(capsule, WRITE_HOLD), WRITE)


@native
def host(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_host(how): 0 a read-only NumPy array, 1 a writable one, 2 one for the user to keep, writable if this is."""
    if not takes(args, nargs, 1):
        return 0
    how, weight = PyLong_AsLongLong(args[0]), READ
    if how < 0 or how > 2:
        if PyErr_Occurred() == 0:
            PyErr_SetString(VALUE_ERROR, b"how must be 0, 1 or 2")
        return 0
    if how:
        weight = READ if self.flags & READ_ONLY else WRITE
        if how == 1 and weight == READ:
            PyErr_SetString(VALUE_ERROR, READ_ONLY_MESSAGE)
            return 0
    if not on_host(self):
        PyErr_SetString(BUFFER_ERROR, b"the array is not in host memory: move it with x.to_device('cpu')")
        return 0
    storage, w = self.storage, World(WORLD)
    if w.ended or weight == WRITE and (storage.busy or Block(storage.lease.block).leases > 1):
        if prepare(self, weight, FOR_WRITE if how == 1 else FOR_BUFFER):
            return 0
    return numpy_array(self, weight, how == 2)


@inline
def on_host(self: ViewObject) -> c_int64:
    block = Block(self.storage.lease.block)
    return 1 if block.device_type == CPU and block.device_id == 0 else 0


@native
def numpy_array(self: ViewObject, weight: c_int64, keep: c_int64) -> word:
    """Return a NumPy array on an array's memory, to `keep` or for a moment, which uses the lease with a weight."""
    lease, n = self.storage.lease, self.ndim
    block = Block(lease.block)
    strides, size = stack(c_int64 * 64), itemsize(self.dtype)
    for i in range(n):
        strides[i] = self.strides[i] * size
    if keep:
        use(lease, weight)
    else:
        count_export(lease, weight)  # not to be met again as an import: it needs no place in the table
    if weight == WRITE:
        holder = PyCapsule_New(lease, WRITE_HOLD, drop_write)
    else:
        holder = PyCapsule_New(lease, READ_HOLD, drop_read)
    if holder == 0:
        let_export_go(lease, weight)
        return 0
    descr, data = dtype_object(self.dtype), block.address + self.offset
    Py_IncRef(descr)
    # NumPy would allocate where there is no address, which an imported array without elements need not have.
    flags = NPY_ARRAY_WRITEABLE if weight == WRITE else 0
    result = PyArray_NewFromDescr(NDARRAY, descr, n, self.shape, strides, data if data else strides, flags, 0)
    if result == 0:
        Py_DecRef(holder)
        return 0
    if PyArray_SetBaseObject(result, holder):
        Py_DecRef(result)
        return 0
    return result


# ---- the buffer protocol --------------------------------------------------------------------------------------------


@cold(0)
def buffer_fault(self: ViewObject, flags: c_int, format: word) -> word:
    """Return what is wrong with a request for a buffer, in words, or 0."""
    c, fortran, asks = is_compact(self, 0), is_compact(self, 1), flags & PyBUF_ANY
    if flags & PyBUF_WRITABLE and self.flags & READ_ONLY:
        return b"the array is read-only: ask for a read-only buffer, or for one of a copy, x.copy()"
    if not on_host(self):
        return b"the array is not in host memory, so it has no buffer: move it with x.to_device('cpu')"
    if flags & PyBUF_FORMAT and format == 0:
        return b"the buffer protocol has no format for the array's dtype: use x.view() with an integer dtype"
    if (flags & PyBUF_STRIDES) != PyBUF_STRIDES and not c:
        return b"the array is not C-contiguous and strides were not asked for: use nd.ascontiguousarray(x)"
    if asks == PyBUF_C and not c or asks == PyBUF_F and not fortran or asks == PyBUF_ANY and not c and not fortran:
        return b"the array is not contiguous in the order asked for: use nd.ascontiguousarray(x)"
    return 0


@cold(-1)
def getbuffer(self: ViewObject, view: Py_buffer, flags: c_int) -> c_int:
    n, size, kind = self.ndim, itemsize(self.dtype), self.dtype
    format = words(FORMAT_NAMES)[(kind & 31) << 5 | size]
    fault, weight = buffer_fault(self, flags, format), READ if self.flags & READ_ONLY else WRITE
    view.obj = 0
    if fault:
        PyErr_SetString(BUFFER_ERROR, fault)
        return -1
    if not flags & (PyBUF_WRITABLE | PyBUF_FORMAT | (PyBUF_STRIDES & ~PyBUF_ND)):
        weight = READ  # who asks for bytes alone reads them
    room = longs(malloc(16 + 16 * n))
    if room == 0:
        PyErr_NoMemory()
        return -1
    if prepare(self, weight, FOR_BUFFER):
        free(room)
        return -1
    lease, length = self.storage.lease, size
    use(lease, weight)
    if flags == PyBUF_WRITABLE and weight == WRITE:
        # Who asks for bare bytes to write to may let go of the buffer and keep the address: torch.frombuffer does.
        block = Block(lease.block)
        block.flags |= ESCAPED
    room[0], room[1] = lease, weight
    for i in range(n):
        room[2 + i], room[2 + n + i] = self.shape[i], self.strides[i] * size
        length *= self.shape[i]
    view.buf, view.obj, view.len, view.itemsize = Block(lease.block).address + self.offset, self, length, size
    view.readonly, view.ndim, view.suboffsets, view.internal = 1 if weight == READ else 0, n, 0, room
    view.format = format if flags & PyBUF_FORMAT else 0
    view.shape = room + 16 if flags & PyBUF_ND else 0
    view.strides = room + 16 + 8 * n if (flags & PyBUF_STRIDES) == PyBUF_STRIDES else 0
    Py_IncRef(self)
    return 0


@native
def releasebuffer(self: word, view: Py_buffer):
    room = longs(view.internal)
    let_export_go(room[0], room[1])
    free(room)
