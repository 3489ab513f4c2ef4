"""What comes in: tensors of other libraries, wrapped without a copy, and our own memory, which comes home.

Ownership is taken by renaming a capsule, after all has been checked and an array has been made.  Until then a refused
capsule is its producer's, and its destructor frees it.
"""

import sys
from ctypes import CFUNCTYPE, addressof, c_int, c_int64, c_ssize_t, c_uint64
from ctypes import c_void_p as word

from nbdlpack.native.abi import (
    BUFFER_ERROR,
    CAPSULE,
    CPU,
    EXCEPTION,
    EXCHANGE,
    FALSE,
    IS_COPIED,
    LEGACY,
    MAJOR,
    MEMORY_ERROR,
    MINOR,
    NONE,
    READ_ONLY,
    RECURSION_ERROR,
    TYPE_ERROR,
    USED_LEGACY,
    USED_VERSIONED,
    VALUE_ERROR,
    VERSIONED,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
    DLTensor,
    Py_DecRef,
    Py_IncRef,
    PyCapsule_GetContext,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyCapsule_SetContext,
    PyCapsule_SetName,
    PyDict_GetItemWithError,
    PyErr_Clear,
    PyErr_ExceptionMatches,
    PyErr_Fetch,
    PyErr_NoMemory,
    PyErr_Occurred,
    PyErr_Restore,
    PyErr_SetString,
    PyLong_AsLongLong,
    PyLong_AsVoidPtr,
    PyLong_FromLongLong,
    PyObject,
    PyObject_GetAttr,
    PyObject_VectorcallMethod,
    PyTuple_GetItem,
    constant,
    destructor,
    exporter,
    immortal,
    malloc,
    string,
    words,
)
from nbdlpack.native.compiler import atomic_add, atomic_load, cold, compare_exchange, hot, inline, native, stack
from nbdlpack.native.device_types import LEGACY_STREAM
from nbdlpack.native.exports import call
from nbdlpack.native.memory import (
    ADOPT,
    BIAS,
    DEVICE,
    FOREIGN,
    IMPORTED,
    LEASE,
    OWN,
    READ,
    WATCH,
    WORLD,
    Block,
    Lease,
    Storage,
    World,
    dispose,
    drain,
    end,
    find,
    init_lease,
    leave_block,
    live,
    lock,
    new_block,
    new_storage,
    tell_device,
    unlock,
)
from nbdlpack.native.views import (
    LIMIT,
    MAX_NDIM,
    Descriptor,
    ViewObject,
    bounded,
    count_dims,
    dtype_object,
    dtype_word,
    itemsize,
    new,
    set_dims,
    takes,
)

DLPACK, IMPORT, REFUSE, REQUIRES_GRAD, IS_NEG, IS_CONJ = (
    constant(sys.intern(name)) for name in ("__dlpack__", "_import", "_refuse", "requires_grad", "is_neg", "is_conj")
)
VERSION, VERSION_KEYWORD = constant((MAJOR, MINOR)), constant((sys.intern("max_version"),))
COMPLEX = 5
STREAMED = 2
stream_getter = CFUNCTYPE(c_int, c_int, c_int, word)

producers = immortal({})
"""How to import objects of the types that are known: by the capsule of an exchange table, or None for `__dlpack__`,
which is then known to take max_version.  It only grows, so what is read from it stays valid."""
PRODUCERS = id(producers)
importable = immortal((word * 64)())
"""By DLPack's device type, 0 if its memory cannot be imported, 1 if it can, STREAMED if a device has to adopt it."""
DEVICES = addressof(importable)


# ---- what a tensor may be -------------------------------------------------------------------------------------------


@hot
def acceptable(tensor: DLTensor) -> c_int64:
    """Return whether an array can be made of a tensor: nothing is read or computed that could lead astray."""
    n, size, kind = tensor.ndim, itemsize(tensor.dtype), tensor.device_type
    if kind < 0 or kind > 63 or words(DEVICES)[kind] == 0 or n < 0 or n > MAX_NDIM or dtype_object(tensor.dtype) == 0:
        return 0
    if n and tensor.shape == 0:
        return 0
    for i in range(n):
        if tensor.shape[i] < 0:
            return 0
        size = bounded(size, tensor.shape[i])
    if size == 0:
        return 1
    if size >= LIMIT or tensor.data == 0 or tensor.byte_offset >> 56:
        return 0
    if tensor.strides:
        reach = 0
        for i in range(n):
            stride = tensor.strides[i]
            # The most negative number is its own opposite, and bounded() takes it for too large.
            reach += bounded(stride if stride >= 0 else -stride, tensor.shape[i] - 1)
            if reach >= LIMIT or stride == -stride and stride:
                return 0
    return 1


@cold(0)
def refuse(cls: word, tensor: DLTensor) -> word:
    """Let Python say what is wrong with a tensor."""
    args = stack(word * 2)
    args[0], args[1] = cls, PyLong_FromLongLong(tensor)
    result = PyObject_VectorcallMethod(REFUSE, args, 2, 0)
    Py_DecRef(args[1])
    Py_DecRef(result)
    if result:
        PyErr_SetString(BUFFER_ERROR, b"the tensor cannot be imported")
    return 0


# ---- new arrays -----------------------------------------------------------------------------------------------------


@inline
def fill_in(self: ViewObject, tensor: DLTensor, flags: c_uint64) -> word:
    """Give a new array a tensor's dtype, shape and strides.  One whose elements overlap is read-only."""
    if self == 0:
        return 0
    step, n, negative = 1, self.ndim, 0
    self.dtype = tensor.dtype
    while n > 0:
        n -= 1
        extent = tensor.shape[n]
        stride = tensor.strides[n] if tensor.strides else step  # null was allowed before DLPack 1.2
        self.shape[n], self.strides[n] = extent, stride
        if stride <= 0 and extent > 1:
            if stride == 0:
                flags |= READ_ONLY
            else:
                negative = 1
        step *= extent if extent else 1
    self.flags, self.negative = flags, negative
    return self


@inline
def extent(self: ViewObject) -> c_int64:
    """Return how many bytes an array spans from its first element on, 0 if some lie before it."""
    last = 1
    if self.negative:
        return 0
    for i in range(self.ndim):
        if self.shape[i] == 0:
            return 0
        last += (self.shape[i] - 1) * self.strides[i]
    return last * itemsize(self.dtype)


@native
def come_home(cls: word, lease: Lease, tensor: DLTensor, flags: c_uint64) -> word:
    """Return an array over a lease of ours that has live exports, on the storage that has it if one has."""
    block, storage = Block(lease.block), Storage(lease.storage)
    if storage:
        storage.arrays += 1
    else:
        lease.made = 0
        atomic_add(lease.count, BIAS)
        storage = Storage(new_storage(lease))
    self = ViewObject(new(cls, storage, tensor.ndim))
    if self:
        self.offset = tensor.data + tensor.byte_offset - block.address if tensor.data else 0
    return fill_in(self, tensor, flags)


@hot
def lease_at(address: word) -> word:
    """Return a lease on the block of ours at an address, with one export more, which the caller ends, or 0.

    It is the one that was last exported, or a new one if that has ended.  Where a writable export lives, its lease is
    the last that was exported.
    """
    w, lease = World(WORLD), Lease(0)
    lock(w.lock)
    i = find(address)
    if i:
        block = Block(w.table[i - 1])
        if address < block.address + block.size:
            lease = Lease(block.exported)
            while lease:
                n = atomic_load(lease.count)
                if n == 0:
                    lease = Lease(0)  # it is just ending
                elif compare_exchange(lease.count, n, n + READ):
                    unlock(w.lock)
                    return lease
            n = atomic_load(block.leases)
            while n and not compare_exchange(block.leases, n, n + 1):
                n = atomic_load(block.leases)
            if n:
                lease = Lease(malloc(LEASE))
                if lease:
                    init_lease(lease, block)
                    lease.count, lease.owner = READ, block.owner
                    Py_IncRef(block.owner)
                else:
                    atomic_add(block.leases, -1)  # it is not the last: the caller has an export
    unlock(w.lock)
    return lease


@native
def home_by_address(cls: word, tensor: DLTensor, flags: c_uint64) -> word:
    """Return an array if a tensor lies in memory of ours that is exported, else 0, perhaps with an error set.

    The way it took may have lost the flag, so it is read-only where someone relies on the memory as it is.
    """
    lease = Lease(lease_at(tensor.data + tensor.byte_offset))
    if lease == 0:
        return 0
    block = Block(lease.block)
    exports = (live(lease) if lease.storage else atomic_load(lease.count)) - READ
    if block.leases > 1 or (exports & 0xFFFFFFFF) != exports >> 32:
        flags |= READ_ONLY
    self = come_home(cls, lease, tensor, flags)
    if atomic_add(lease.count, -READ) == READ:
        end(lease, 1)
    return self


@native
def delete(source: word, deleter: destructor):
    """Call a tensor's deleter, which may run Python, with no error set; the error that was set is set again."""
    error = stack(word * 3)
    PyErr_Fetch(error, error + 8, error + 16)
    if deleter:
        deleter(source)
    PyErr_Restore(error[0], error[1], error[2])


@hot
def wrap(cls: word, tensor: DLTensor, flags: c_uint64, source: word, deleter: destructor) -> word:
    """Return an array over an imported tensor.  It takes over `source`, which the deleter frees, if it can be made."""
    w, self = World(WORLD), ViewObject(0)
    if w.ended:
        drain(0)
    if deleter == w.delete_versioned or deleter == w.delete_legacy:
        return own_export(cls, tensor, flags & READ_ONLY, source, deleter)
    if not acceptable(tensor):
        return refuse(cls, tensor)
    if w.n and tensor.data:
        self = ViewObject(home_by_address(cls, tensor, flags & READ_ONLY))
        if self:
            delete(source, deleter)
            return self
        if PyErr_Occurred():
            return 0
    kind, address = tensor.device_type, tensor.data + tensor.byte_offset
    block = Block(new_block(address, kind, 0 if kind == CPU else tensor.device_id, 0 if flags & IS_COPIED else FOREIGN))
    if block == 0:
        return PyErr_NoMemory()
    if words(DEVICES)[kind] == STREAMED:
        return wrap_device(cls, tensor, flags, source, deleter, block)
    self = ViewObject(new(cls, new_storage(block.first), tensor.ndim))
    if fill_in(self, tensor, flags & READ_ONLY) == 0:
        return 0
    block.size = extent(self)
    block.source, block.release = source, deleter
    return self


SOURCE, NO_SOURCE = string(b"nbdlpack.source"), string(b"nbdlpack.no_source")


@native
def drop_source(capsule: word):
    """Call the deleter of a tensor that a device's `Memory` had."""
    if PyCapsule_IsValid(capsule, SOURCE):
        delete(PyCapsule_GetPointer(capsule, SOURCE), PyCapsule_GetContext(capsule))


@native
def is_empty(tensor: DLTensor) -> c_int64:
    for i in range(tensor.ndim):
        if tensor.shape[i] == 0:
            return 1
    return 0


@cold(0)
def wrap_device(cls: word, tensor: DLTensor, flags: c_uint64, source: word, deleter: destructor, block: Block) -> word:
    """`wrap` for a device with streams: what calls the deleter is its `Memory`, when its own work is done."""
    capsule, args, self = PyCapsule_New(source, SOURCE, drop_source), stack(word * 5), ViewObject(0)
    if capsule and PyCapsule_SetContext(capsule, deleter) == 0:
        args[0], args[1], args[2] = WATCH, PyLong_FromLongLong(block.device_type), PyLong_FromLongLong(block.device_id)
        args[3], args[4] = PyLong_FromLongLong(0 if is_empty(tensor) else block.address), capsule
        if args[1] and args[2] and args[3]:
            block.owner = PyObject_VectorcallMethod(ADOPT, args, 5, 0)
        for i in range(3):
            Py_DecRef(args[i + 1])
    if block.owner:
        block.flags |= DEVICE
        block.first.owner = block.owner
        self = ViewObject(new(cls, new_storage(block.first), tensor.ndim))
        if fill_in(self, tensor, flags & READ_ONLY):
            block.size = extent(self)
    else:
        dispose(block.first, leave_block(block))
    if self == 0 and capsule:
        error = stack(word * 3)
        PyErr_Fetch(error, error + 8, error + 16)
        PyCapsule_SetName(capsule, NO_SOURCE)  # the tensor stays its producer's
        PyErr_Restore(error[0], error[1], error[2])
    Py_DecRef(capsule)
    return self


@inline
def arrived(self: ViewObject, stream: c_int64) -> word:
    """Return an array that has just been made, of a device with streams perhaps, whose producer named this stream.

    If the device cannot wait for it, the array ends, and 0 is returned with the error set.
    """
    if self and Block(self.storage.lease.block).flags & DEVICE:
        return await_producer(self, stream)
    return self


@cold(0)
def await_producer(self: ViewObject, stream: c_int64) -> word:
    if tell_device(self.storage.lease.block, IMPORTED, stream):
        let_go_amid_error(self)
        return 0
    return self


@cold(0)
def own_export(cls: word, tensor: DLTensor, flags: c_uint64, source: word, deleter: destructor) -> word:
    """Return an array for an export of our own, on the lease that it was made of."""
    w, mine = World(WORLD), 0
    if deleter == w.delete_versioned:
        mine = DLManagedTensorVersioned(source).context
    else:
        mine = DLManagedTensor(source).context
        # The legacy structure has no flags, but the export knows whether it may be written to.
    lease = Descriptor(mine).lease
    if Descriptor(mine).weight == READ:
        flags |= READ_ONLY
    self = come_home(cls, lease, tensor, flags)
    if self:
        deleter(source)
    return self


@inline
def wrap_versioned(cls: word, managed: DLManagedTensorVersioned) -> word:
    if managed.major != MAJOR:  # nothing but the deleter may be known of it
        PyErr_SetString(BUFFER_ERROR, b"the tensor's DLPack major version is not 1, the one that is understood here")
        return 0
    return wrap(cls, managed.tensor, managed.flags, managed, managed.deleter)


@hot
def import_capsule(cls: word, capsule: word) -> word:
    managed = DLManagedTensorVersioned(PyCapsule_GetPointer(capsule, VERSIONED))
    if managed:
        PyCapsule_SetName(capsule, USED_VERSIONED)  # first: a finaliser or deleter may run, and want it as well
        self = wrap_versioned(cls, managed)
        if self == 0:
            PyCapsule_SetName(capsule, VERSIONED)
        return self
    PyErr_Clear()
    return import_legacy(cls, capsule)


@cold(0)
def import_legacy(cls: word, capsule: word) -> word:
    legacy = DLManagedTensor(PyCapsule_GetPointer(capsule, LEGACY))
    if legacy == 0:
        if PyObject(capsule).type == CAPSULE:
            PyErr_SetString(VALUE_ERROR, b"the capsule has been consumed already, or never held a DLPack tensor")
        else:
            PyErr_SetString(TYPE_ERROR, b"__dlpack__ must return a DLPack capsule, but returned something else")
        return 0
    PyCapsule_SetName(capsule, USED_LEGACY)
    self = wrap(cls, legacy.tensor, 0, legacy, legacy.deleter)
    if self == 0:
        PyCapsule_SetName(capsule, LEGACY)
    return self


@cold(0)
def import_one(cls: word, args: words, nargs: c_ssize_t) -> word:
    """_import_capsule(capsule): an array over what is in a capsule of either kind, which is then consumed."""
    if not takes(args, nargs, 1):
        return 0
    return import_capsule(cls, args[0])


@native
def let_go_amid_error(x: word):
    """Let go of an object without what its destructor runs seeing, or changing, the error that is set."""
    error = stack(word * 3)
    PyErr_Fetch(error, error + 8, error + 16)
    Py_DecRef(x)
    PyErr_Restore(error[0], error[1], error[2])


# ---- from_dlpack ----------------------------------------------------------------------------------------------------


@inline
def asks(x: word, method: word) -> c_int64:
    """Return whether a method without arguments returns anything but False."""
    place = stack(word * 1)
    place[0] = x
    result = PyObject_VectorcallMethod(method, place, 1, 0)
    Py_DecRef(result)
    return 0 if result == FALSE else 1


@hot
def plain(x: word) -> c_int64:
    """Return whether a torch tensor is what its exchange table shows: a table does not tell of these three."""
    needs = PyObject_GetAttr(x, REQUIRES_GRAD)
    Py_DecRef(needs)
    return 1 if needs == FALSE and not asks(x, IS_NEG) else 0


@native
def forgive() -> c_int64:
    """Clear the error that is set, after which Python is to look at the object, unless it is not about the object."""
    if PyErr_Occurred() and PyErr_ExceptionMatches(EXCEPTION):
        if not PyErr_ExceptionMatches(MEMORY_ERROR) and not PyErr_ExceptionMatches(RECURSION_ERROR):
            PyErr_Clear()
    return 0


@hot
def import_exchange(cls: word, x: word, capsule: word) -> word:
    """Return an array by an object's exchange table, or 0, without an error set if Python is to look at it."""
    api, checked = DLPackExchangeAPI(PyCapsule_GetPointer(capsule, EXCHANGE)), PyCapsule_GetContext(capsule)
    if checked:
        if not plain(x):
            forgive()
            return 0
    get, out = exporter(api.export), stack(word * 1)
    out[0] = 0
    if get(x, out) or out[0] == 0:
        forgive()
        return 0
    managed = DLManagedTensorVersioned(out[0])
    if checked and managed.tensor.dtype & 255 == COMPLEX:
        if asks(x, IS_CONJ):
            forgive()
            delete(managed, managed.deleter)
            return 0
    kind, number = managed.tensor.device_type, managed.tensor.device_id
    self = wrap_versioned(cls, managed)
    if self == 0:
        delete(managed, managed.deleter)
    elif kind != CPU:
        return arrived(self, work_stream(api, kind, number))
    return self


@cold(0)
def work_stream(api: DLPackExchangeAPI, kind: c_int64, number: c_int64) -> c_int64:
    """Return the stream on which a producer works now."""
    out, get = stack(c_int64 * 1), stream_getter(api.stream)
    out[0] = 0
    if get:
        if get(kind, number, out):
            PyErr_Clear()
            return LEGACY_STREAM
    return out[0] if out[0] else LEGACY_STREAM


@inline
def way_of(kind: word) -> word:
    """Return how objects of a type are imported, or 0 if that is not known, perhaps with an error set."""
    w = World(WORLD)
    if kind == w.producer:
        return w.way
    way = PyDict_GetItemWithError(PRODUCERS, kind)
    if way:
        w.producer, w.way = kind, way
    return way


@hot
def from_dlpack(cls: word, args: words, nargs: c_ssize_t, kwnames: word) -> word:
    """from_dlpack(x), but for options, types not met before, and what a table refuses."""
    if nargs == 1 and kwnames == 0:
        x = args[0]
        way, self = way_of(PyObject(x).type), 0
        if way == NONE:
            pair = stack(word * 2)
            pair[0], pair[1] = x, VERSION
            capsule = PyObject_VectorcallMethod(DLPACK, pair, 1, VERSION_KEYWORD)
            if capsule:
                self = import_capsule(cls, capsule)
                if self:
                    Py_DecRef(capsule)
                    self = arrived(self, LEGACY_STREAM)
                else:
                    let_go_amid_error(capsule)
            return self
        if way:
            self = import_exchange(cls, x, way)
            if self or PyErr_Occurred():
                return self
        elif PyErr_Occurred():
            return 0
    if nargs != 1:
        PyErr_SetString(TYPE_ERROR, b"from_dlpack() takes one positional argument, what is to be imported")
        return 0
    return call(IMPORT, cls, args, nargs, kwnames)


# ---- memory that a Python object owns -------------------------------------------------------------------------------


@cold(0)
def make_over(cls: word, args: words, nargs: c_ssize_t) -> word:
    """_wrap(owner, address, device, nbytes, foreign, dtype, flags, shape, steps)"""
    n, dtype, w = count_dims(args, nargs, 9), 0, World(WORLD)
    if n >= 0:
        dtype = dtype_word(args[5])
    if n < 0 or dtype < 0:
        return 0
    if w.ended:
        drain(0)
    address, foreign = PyLong_AsVoidPtr(args[1]), PyLong_AsLongLong(args[4])
    kind, index = PyLong_AsLongLong(PyTuple_GetItem(args[2], 0)), PyLong_AsLongLong(PyTuple_GetItem(args[2], 1))
    if PyErr_Occurred():
        return 0
    if foreign & FOREIGN and w.n and PyLong_AsLongLong(args[3]) > 0:
        self = home_over(cls, address, dtype, args, n)
        if self or PyErr_Occurred():
            return self
    block = Block(new_block(address, kind, index, foreign & (FOREIGN | OWN | DEVICE)))
    if block == 0:
        return PyErr_NoMemory()
    block.size, block.owner, block.first.owner = PyLong_AsLongLong(args[3]), args[0], args[0]
    Py_IncRef(args[0])
    return set_dims(new(cls, new_storage(block.first), n), dtype, args + 48)


@cold(0)
def home_over(cls: word, address: word, dtype: c_int64, args: words, n: c_int64) -> word:
    """Return an array if an object such as a NumPy array shows us memory of ours, else 0."""
    tensor, dims = stack(DLTensor), stack(c_int64 * (2 * MAX_NDIM))
    tensor.data, tensor.byte_offset, tensor.ndim, tensor.dtype = address, 0, n, dtype
    tensor.shape, tensor.strides = dims, dims + 8 * MAX_NDIM
    for i in range(n):
        tensor.shape[i] = PyLong_AsLongLong(PyTuple_GetItem(args[7], i))
        tensor.strides[i] = PyLong_AsLongLong(PyTuple_GetItem(args[8], i))
    flags = PyLong_AsLongLong(args[6])
    return 0 if PyErr_Occurred() else home_by_address(cls, tensor, flags)
