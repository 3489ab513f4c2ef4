"""The object of an array: a storage, and what is seen of it.  Its life, its attributes, its copies and its writes."""

from ctypes import POINTER, Structure, addressof, c_int, c_int32, c_int64, c_ssize_t, c_uint32, c_uint64
from ctypes import c_void_p as word

from nbdlpack.dtypes import WORDS
from nbdlpack.native.abi import (
    CPU,
    NONE,
    READ_ONLY,
    RUNTIME_ERROR,
    TYPE,
    TYPE_ERROR,
    VALUE_ERROR,
    ZERO,
    DLManagedTensorVersioned,
    Py_DecRef,
    Py_IncRef,
    PyCapsule_GetContext,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyCapsule_SetContext,
    PyCapsule_SetName,
    PyDict_GetItemWithError,
    PyErr_NoMemory,
    PyErr_Occurred,
    PyErr_SetObject,
    PyErr_SetString,
    PyLong_AsLongLong,
    PyLong_FromLongLong,
    PyObject,
    PyObject_ClearWeakRefs,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyTuple_GetItem,
    PyTuple_New,
    PyTuple_SetItem,
    PyTuple_Size,
    PyType_GenericAlloc,
    PyType_IsSubtype,
    destructor,
    free,
    immortal,
    longs,
    malloc,
    memcpy,
    string,
    visitor,
    words,
)
from nbdlpack.native.compiler import atomic_add, cold, hot, inline, native, stack
from nbdlpack.native.memory import (
    BIAS,
    CLASSES,
    DEVICE,
    ESCAPED,
    EXPORTING,
    FOR_ADDRESS,
    FOREIGN,
    KEPT,
    LEASE,
    LIMIT,
    READ,
    WORLD,
    Block,
    Kept,
    Lease,
    Storage,
    World,
    allocate,
    allocate_like,
    announce,
    assign,
    copy_block,
    drain,
    enter,
    init_lease,
    keeper_of,
    leave,
    let_storage_go,
    live,
    new_storage,
    no_memory,
    own,
    shared,
    tell_device,
)


class Descriptor(Structure):
    """What consumers of an array read, never changed once it is made.

    From its start it is a DLManagedTensorVersioned, from its tensor on a DLManagedTensor.  An array keeps the last one
    that was made for it, and each export is one more use of it.
    """

    _fields_ = [
        ("managed", DLManagedTensorVersioned),
        ("legacy_context", word),
        ("legacy_deleter", destructor),
        ("count", c_int64),
        ("made", c_int64),  # both of exports, as a lease's
        ("weight", c_int64),  # what one of them counts on the lease: READ or WRITE
        ("lease", POINTER(Lease)),
        ("serial", c_int64),  # the lease's: a descriptor that no export uses does not keep it
        ("dims", c_int64 * 0),
    ]


ROOM = 4  # dimensions whose shape and strides fit into the object
MAX_NDIM = 64


class ViewObject(Structure):
    _fields_ = [
        ("object", PyObject),
        ("storage", POINTER(Storage)),
        ("keeper", word),
        ("descriptor", POINTER(Descriptor)),
        ("weakrefs", word),
        ("offset", c_int64),  # in bytes from the block's address
        ("flags", c_uint64),  # DLPack's
        ("dtype", c_uint32),
        ("ndim", c_int32),
        ("negative", c_int64),  # whether some stride is
        ("shape", longs),
        ("strides", longs),  # in elements
        ("dims", c_int64 * (2 * ROOM)),
    ]


# NumPy's dtype objects by code << 5 | bytes: every itemsize is a power of two, and at most 16.
dtype_objects = immortal((word * 1024)())
DTYPES, DTYPE_WORDS = addressof(dtype_objects), id(immortal(WORDS))
for _dtype, _word in WORDS.items():
    dtype_objects[(_word & 31) << 5 | _dtype.itemsize] = id(immortal(_dtype))

READ_ONLY_MESSAGE = (
    b"assignment destination is read-only: write to a copy of it, x.copy(), or to the array that it is a "
    b"read-only view of"
)


@inline
def itemsize(dtype: c_uint32) -> c_int64:
    return (dtype >> 8 & 255) >> 3


@inline
def dtype_object(dtype: c_uint32) -> word:
    """Return NumPy's dtype (borrowed) of a DLDataType, or 0 if there is none."""
    objects = words(DTYPES)
    if dtype >> 16 != 1 or dtype & 7 << 8 or (dtype & 255) > 31 or (dtype >> 8 & 255) > 128:
        return 0
    return objects[(dtype & 31) << 5 | (dtype >> 11 & 31)]


@native
def dtype_word(dtype: word) -> c_int64:
    """Return the DLDataType of NumPy's dtype, or -1 with an error set."""
    found = PyDict_GetItemWithError(DTYPE_WORDS, dtype)
    if found:
        return PyLong_AsLongLong(found)
    if PyErr_Occurred() == 0:
        PyErr_SetObject(TYPE_ERROR, dtype)
    return -1


# ---- life -----------------------------------------------------------------------------------------------------------


@hot
def new(cls: word, storage: Storage, ndim: c_int64) -> word:
    """Return an array of a class on a storage, which already counts it, with room for its shape and strides."""
    self = ViewObject(0)
    if ndim > MAX_NDIM:
        PyErr_SetString(VALUE_ERROR, b"an array has at most 64 dimensions")
    elif storage:
        self = ViewObject(PyType_GenericAlloc(cls, 0))
    if self == 0:
        if storage:
            let_storage_go(storage)
        return 0
    self.storage, self.ndim = storage, ndim
    shape = self.dims
    if storage.lease.owner:
        self.keeper = keeper_of(storage.lease)
        if self.keeper == 0:
            self.ndim = 0
            Py_DecRef(self)
            return 0
    if ndim > ROOM:
        shape = longs(malloc(16 * ndim))
        if shape == 0:
            self.ndim = 0
            Py_DecRef(self)
            return PyErr_NoMemory()
    self.shape, self.strides = shape, shape + 8 * ndim
    return self


@native
def traverse(self: ViewObject, visit: visitor, arg: word) -> c_int:
    """As with a tuple, no tp_clear is needed: what makes a cycle is something else, as the owner is older."""
    if self.keeper and visit(self.keeper, arg):
        return 1
    return visit(self.object.type, arg)


@hot
def dealloc(self: ViewObject):
    cls = self.object.type
    PyObject_GC_UnTrack(self)
    if self.weakrefs:
        PyObject_ClearWeakRefs(self)
    forget(self.descriptor)
    let_storage_go(self.storage)
    if self.keeper:
        Py_DecRef(self.keeper)
    if self.ndim > ROOM:
        free(self.shape)
    PyObject_GC_Del(self)
    Py_DecRef(cls)


@inline
def forget(descriptor: Descriptor):
    """End an array's claim on a descriptor, whose lease may have gone."""
    if descriptor:
        made = descriptor.made
        if atomic_add(descriptor.count, made - BIAS) == BIAS - made:
            free(descriptor)


# ---- making, from Python's objects ----------------------------------------------------------------------------------


@native
def takes(args: word, nargs: c_ssize_t, expected: c_ssize_t) -> c_int64:
    """Return whether a function was given as many arguments as it takes; set an error if not."""
    if nargs == expected:
        return 1
    PyErr_SetString(TYPE_ERROR, b"wrong number of arguments")
    return 0


@native
def count_dims(args: words, nargs: c_ssize_t, expected: c_ssize_t) -> c_ssize_t:
    """Return the length of the two tuples that end the arguments, or -1 with an error set."""
    n = PyTuple_Size(args[nargs - 2]) if takes(args, nargs, expected) else -1
    if n >= 0 and n != PyTuple_Size(args[nargs - 1]):
        PyErr_SetString(TYPE_ERROR, b"shape and strides must be tuples of one length")
        return -1
    if n > MAX_NDIM:
        PyErr_SetString(VALUE_ERROR, b"an array has at most 64 dimensions")
        return -1
    return n


@inline
def is_view_type(cls: word) -> c_int64:
    """Return whether arrays can be made of a class; set an error if not."""
    kinds = words(CLASSES)
    if cls == kinds[0] or is_view_subtype(cls):
        return 1
    PyErr_SetString(TYPE_ERROR, b"not a class of arrays")
    return 0


@cold(0)
def is_view_subtype(cls: word) -> c_int64:
    if not PyType_IsSubtype(PyObject(cls).type, TYPE):
        return 0
    return PyType_IsSubtype(cls, words(CLASSES)[2])


@native
def set_dims(self: ViewObject, dtype: c_int64, args: words) -> word:
    """Give a new array a dtype, and flags, shape and strides in Python's objects."""
    if self == 0:
        return 0
    shape, strides, n = args[1], args[2], self.ndim
    self.dtype, self.flags = dtype, PyLong_AsLongLong(args[0])
    for i in range(n):
        stride = PyLong_AsLongLong(PyTuple_GetItem(strides, i))
        self.shape[i], self.strides[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i)), stride
        if stride < 0 and self.shape[i] > 1:
            self.negative = 1
    if PyErr_Occurred():
        Py_DecRef(self)
        return 0
    return self


@native
def make_empty(cls: word, args: words, nargs: c_ssize_t) -> word:
    """_empty(shape, dtype, zeros)"""
    w = World(WORLD)
    if not takes(args, nargs, 3):
        return 0
    n, dtype = PyTuple_Size(args[0]), dtype_word(args[1])
    if n < 0 or dtype < 0:
        return 0
    if w.ended:
        drain(0)
    if n > MAX_NDIM:
        PyErr_SetString(VALUE_ERROR, b"an array has at most 64 dimensions")
        return 0
    dims, size = stack(c_int64 * MAX_NDIM), itemsize(dtype)
    for i in range(n):
        extent = PyLong_AsLongLong(PyTuple_GetItem(args[0], i))
        if extent < 0:
            if PyErr_Occurred() == 0:
                PyErr_SetString(VALUE_ERROR, b"negative dimensions are not allowed")
            return 0
        dims[i], size = extent, bounded(size, extent)
    return new_array(cls, dims, n, dtype, size, args[2] != ZERO)


@native
def new_array(cls: word, shape: longs, ndim: c_int64, dtype: c_int64, size: c_int64, zeros: c_int64) -> word:
    """Return a C-contiguous array in new memory, of so many bytes, or 0 with an error set."""
    block, n, step = Block(allocate(size, zeros)), ndim, 1
    if block == 0:
        return no_memory(size)
    self = ViewObject(new(cls, new_storage(block.first), n))
    if self:
        self.dtype = dtype
        while n > 0:
            n -= 1
            self.shape[n], self.strides[n] = shape[n], step
            step *= shape[n] if shape[n] else 1
    return self


@inline
def bounded(a: c_int64, b: c_int64) -> c_int64:
    """Return the product of two numbers that are not negative, or LIMIT if it is not less; 0 is no way back."""
    if b == 0:
        return 0
    if (a | b) >> 28:
        return bounded_slowly(a, b)
    return a * b


@native
def bounded_slowly(a: c_int64, b: c_int64) -> c_int64:
    if a == 0:
        return 0
    if a >= LIMIT or b >= LIMIT:
        return LIMIT
    # a * b < LIMIT, told from the product's upper half: a = high * 2**28 + low
    high, low = a >> 28, a & (1 << 28) - 1
    if high and b >> 28:
        return LIMIT
    upper = high * b + (low * (b >> 28))
    if upper >> 28:
        return LIMIT
    product = (upper << 28) + low * (b & (1 << 28) - 1)
    return product if product < LIMIT else LIMIT


@native
def make_view(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_view(cls, offset, dtype, flags, shape, steps)"""
    n, dtype = count_dims(args, nargs, 6), 0
    if n >= 0:
        dtype = dtype_word(args[2])
    if n < 0 or dtype < 0 or not is_view_type(args[0]):
        return 0
    self.storage.arrays += 1
    other = ViewObject(new(args[0], self.storage, n))
    if other:
        other.offset = self.offset + PyLong_AsLongLong(args[1])
    return set_dims(other, dtype, args + 24)


# ---- attributes -----------------------------------------------------------------------------------------------------


@native
def ints(values: longs, n: c_ssize_t, scale: c_int64) -> word:
    """Return a tuple of numbers times a scale."""
    result = PyTuple_New(n)
    if result:
        for i in range(n):
            item = PyLong_FromLongLong(values[i] * scale)
            if item == 0:
                Py_DecRef(result)
                return 0
            PyTuple_SetItem(result, i, item)
    return result


@native
def get_shape(self: ViewObject, closure: word) -> word:
    return ints(self.shape, self.ndim, 1)


@native
def get_strides(self: ViewObject, closure: word) -> word:
    return ints(self.strides, self.ndim, itemsize(self.dtype))


@native
def get_steps(self: ViewObject, closure: word) -> word:
    return ints(self.strides, self.ndim, 1)


@native
def get_dtype(self: ViewObject, closure: word) -> word:
    result = dtype_object(self.dtype)
    Py_IncRef(result)
    return result


@inline
def count(self: ViewObject) -> c_int64:
    """Return the number of elements."""
    n = 1
    for i in range(self.ndim):
        n *= self.shape[i]
    return n


@native
def get_size(self: ViewObject, closure: word) -> word:
    return PyLong_FromLongLong(count(self))


@native
def get_nbytes(self: ViewObject, closure: word) -> word:
    return PyLong_FromLongLong(count(self) * itemsize(self.dtype))


@native
def get_itemsize(self: ViewObject, closure: word) -> word:
    return PyLong_FromLongLong(itemsize(self.dtype))


@native
def get_flags(self: ViewObject, closure: word) -> word:
    return PyLong_FromLongLong(self.flags & READ_ONLY)


@native
def get_negative(self: ViewObject, closure: word) -> word:
    return PyLong_FromLongLong(self.negative)


@native
def is_compact(self: ViewObject, fortran: c_int64) -> c_int64:
    """Return whether the elements lie one after the other in C's or Fortran's order."""
    step, n, compact = 1, self.ndim, 1
    for i in range(n):
        k = i if fortran else n - 1 - i
        if self.shape[k] == 0:
            return 1
        if self.shape[k] != 1 and self.strides[k] != step:
            compact = 0
        step *= self.shape[k]
    return compact


@native
def get_contiguous(self: ViewObject, closure: word) -> word:
    return PyLong_FromLongLong(is_compact(self, 0) | is_compact(self, 1) << 1)


@native
def get_place(self: ViewObject, closure: word) -> word:
    block = Block(self.storage.lease.block)
    return PyLong_FromLongLong(block.device_id << 8 | block.device_type)


@cold(0)
def get_kind(self: ViewObject, closure: word) -> word:
    """One number for all that Numba's type of an array depends on."""
    block, layout = Block(self.storage.lease.block), is_compact(self, 0) | is_compact(self, 1) << 1
    place = block.device_id << 8 | block.device_type
    seen = (self.dtype & 0xFFFF) | self.ndim << 16 | layout << 23 | (self.flags & READ_ONLY) << 25
    return PyLong_FromLongLong(seen | place << 26)


@cold(0)
def get_first(self: ViewObject, closure: word) -> word:
    return PyLong_FromLongLong(Block(self.storage.lease.block).address + self.offset)


@cold(0)
def get_storage(self: ViewObject, closure: word) -> word:
    return PyLong_FromLongLong(self.storage)


@cold(0)
def set_place(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_settle(number)"""
    if not takes(args, nargs, 1):
        return 0
    number = PyLong_AsLongLong(args[0])
    if PyErr_Occurred():
        return 0
    Block(self.storage.lease.block).device_id = number
    Py_IncRef(NONE)
    return NONE


@cold(0)
def get_memory(self: ViewObject, noargs: word) -> word:
    """_memory()"""
    block, owner = Block(self.storage.lease.block), NONE
    if block.flags & DEVICE:
        owner = block.owner
    Py_IncRef(owner)
    return owner


@cold(0)
def get_state(self: ViewObject, noargs: word) -> word:
    """_state(): (address, block's flags, its leases, the lease's live exports, writable ones, serial, storage)"""
    lease, numbers = self.storage.lease, stack(c_int64 * 7)
    block, n, kept = Block(lease.block), live(self.storage.lease), self.storage.kept
    if kept and kept.lease == lease:
        n -= READ  # an address that was given away is no export
    numbers[0], numbers[1], numbers[2] = block.address + self.offset, block.flags, block.leases
    numbers[3], numbers[4], numbers[5] = n & 0xFFFFFFFF, n >> 32, lease.serial
    numbers[6] = self.storage
    return ints(numbers, 7, 1)


@cold(0)
def get_parameters(self: ViewObject, noargs: word) -> word:
    """_parameters(): (0, 0, size, itemsize, address, *shape, *strides)"""
    numbers, n, size = stack(c_int64 * (5 + 2 * MAX_NDIM)), self.ndim, itemsize(self.dtype)
    numbers[0], numbers[1], numbers[2], numbers[3] = 0, 0, count(self), size
    numbers[4] = Block(self.storage.lease.block).address + self.offset
    for i in range(n):
        numbers[5 + i], numbers[5 + n + i] = self.shape[i], self.strides[i] * size
    return ints(numbers, 5 + 2 * n, 1)


# ---- lazy copies ----------------------------------------------------------------------------------------------------


@native
def covers(self: ViewObject) -> c_int64:
    """Return whether the array is each byte of its block once: its dimensions, in some order, are compact."""
    block = Block(self.storage.lease.block)
    if self.offset or block.size == 0 or count(self) * itemsize(self.dtype) != block.size:
        return 0
    if is_compact(self, 0):
        return 1
    # Take the dimension whose stride is what the ones before span, as long as there is one.
    step, found = 1, 1
    while found:
        found = 0
        for i in range(self.ndim):
            if found == 0 and self.strides[i] == step and self.shape[i] > 1:
                step *= self.shape[i]
                found = 1
    return 1 if step * itemsize(self.dtype) == block.size else 0


@native
def lazy_copy(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_lazy_copy(cls)"""
    storage, lazy, w = self.storage, Lease(0), World(WORLD)
    if not takes(args, nargs, 1) or not is_view_type(args[0]):
        return 0
    enter(storage)
    lease, n = storage.lease, self.ndim
    block = Block(lease.block)
    if not block.flags & (FOREIGN | ESCAPED) and live(lease) >> 32 == 0 and covers(self):
        if block.device_type == CPU or block.flags & DEVICE:  # where a write can move it
            lazy = Lease(malloc(LEASE))
    if lazy == 0:
        leave(storage)
        Py_IncRef(NONE)
        return NONE
    atomic_add(block.leases, 1)
    init_lease(lazy, block)
    lazy.owner = lease.owner
    Py_IncRef(lazy.owner)
    other = Storage(new_storage(lazy))
    leave(storage)
    copied = ViewObject(new(args[0], other, n))
    if copied:
        copy_dims(copied, self)
        w.lazy += 1
        w.lazy_bytes += block.size
    return copied


@inline
def copy_dims(self: ViewObject, other: ViewObject):
    self.dtype, self.negative = other.dtype, other.negative
    memcpy(self.shape, other.shape, 8 * self.ndim)
    memcpy(self.strides, other.strides, 8 * self.ndim)


# ---- writes ---------------------------------------------------------------------------------------------------------


@native
def enter_write(self: ViewObject) -> c_int64:
    """Begin a write of an array, if it may be written to; return -1 with an error set if not."""
    w = World(WORLD)
    if self.flags & READ_ONLY:
        PyErr_SetString(VALUE_ERROR, READ_ONLY_MESSAGE)
        return -1
    if w.ended:
        drain(0)
    enter(self.storage)
    return 0


@native
def own_write(self: ViewObject, cause: c_int64) -> c_int64:
    if cause < 0 or enter_write(self):
        return -1
    if own(self.storage, cause):
        leave(self.storage)
        return -1
    return 0


@native
def begin_write(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_begin_write(cause)"""
    if not takes(args, nargs, 1):
        return 0
    cause = PyLong_AsLongLong(args[0])
    if cause < 0 or enter_write(self):
        return 0
    capsule = hold(self.storage)
    if capsule and own(self.storage, cause):
        Py_DecRef(capsule)
        return 0
    return capsule


@native
def begin_read(self: ViewObject, noargs: word) -> word:
    """_begin_read()"""
    enter(self.storage)
    return hold(self.storage)


HOLD, ENDED = string(b"nbdlpack.hold"), string(b"nbdlpack.ended")


@native
def hold(storage: Storage) -> word:
    """Return what an entered storage is left with: at the latest when it is let go of, as it is by an interrupt."""
    capsule = PyCapsule_New(storage, HOLD, drop_hold)
    if capsule:
        storage.arrays += 1
    else:
        leave(storage)
    return capsule


@native
def drop_hold(capsule: word):
    if PyCapsule_IsValid(capsule, HOLD):
        storage = Storage(PyCapsule_GetPointer(capsule, HOLD))
        leave(storage)
        let_storage_go(storage)


@native
def holds(self: ViewObject, capsule: word) -> c_int64:
    """Return whether a capsule is a hold of an array's storage that has not ended; set an error if not."""
    if PyCapsule_IsValid(capsule, HOLD) and PyCapsule_GetPointer(capsule, HOLD) == self.storage:
        return 1
    PyErr_SetString(TYPE_ERROR, b"there is no write or read to end")
    return 0


@native
def end_hold(self: ViewObject, capsule: word) -> word:
    PyCapsule_SetName(capsule, ENDED)
    leave(self.storage)
    let_storage_go(self.storage)
    Py_IncRef(NONE)
    return NONE


@cold(0)
def seal(self: ViewObject, noargs: word) -> word:
    """_seal()"""
    self.flags |= READ_ONLY
    Py_IncRef(NONE)
    return NONE


@native
def end_write(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_end_write(hold), _end_read(hold)"""
    if not takes(args, nargs, 1) or not holds(self, args[0]):
        return 0
    return end_hold(self, args[0])


@cold(0)
def begin_overwrite(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_begin_overwrite(cause, keep)"""
    if not takes(args, nargs, 2):
        return 0
    cause, keep = PyLong_AsLongLong(args[0]), args[1] != ZERO
    if cause < 0 or enter_write(self):
        return 0
    storage, target, w = self.storage, self, World(WORLD)
    capsule = hold(storage)
    result = PyTuple_New(2) if capsule else 0
    if result == 0:
        Py_DecRef(capsule)
        return 0
    PyTuple_SetItem(result, 0, capsule)
    old = Block(storage.lease.block)
    if not covers(self):
        keep = 1
    if shared(storage) and (not keep or old.flags & DEVICE):
        target = ViewObject(0)
        if not (keep and w.watchers) or announce(old, cause) == 0:
            block = Block(allocate_like(old))
            if block:
                target = ViewObject(new(words(CLASSES)[0], new_storage(block.first), self.ndim))
        if target:
            copy_dims(target, self)
            target.offset = self.offset
            if keep:
                PyCapsule_SetContext(capsule, storage.lease.serial)
                w.moves += 1
                w.moved += old.size
                if copy_block(target.storage.lease.block, old):
                    Py_DecRef(target)
                    target = ViewObject(0)
    else:
        if own(storage, cause):
            target = ViewObject(0)
        Py_IncRef(target)
    if target == 0:
        Py_DecRef(result)
        return 0
    PyTuple_SetItem(result, 1, target)
    return result


@cold(0)
def end_overwrite(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_end_overwrite(hold, target, done)"""
    if not takes(args, nargs, 3) or not holds(self, args[0]):
        return 0
    target, storage, failed = ViewObject(args[1]), self.storage, 0
    if not is_view_type(target.object.type):
        return 0
    if target.storage != storage and args[2] != ZERO:
        old, fresh, serial = storage.lease, target.storage.lease, PyCapsule_GetContext(args[0])
        block, written = Block(old.block), Block(fresh.block)
        if serial and serial != old.serial:
            PyErr_SetString(RUNTIME_ERROR, b"a finaliser has written to the array that was just being written to")
            return 0
        if block.size != written.size:
            PyErr_SetString(TYPE_ERROR, b"the target is not that of this write")
            return 0
        if block.flags & ESCAPED or live(old) >> 32:
            # A finaliser, or a conversion of the value, has got the memory meanwhile: it cannot be changed for another.
            failed = copy_block(block, written)
        else:
            # The target goes away with the lease that this storage had.
            assign(storage, fresh)
            assign(target.storage, old)
    result = end_hold(self, args[0])
    if failed:
        Py_DecRef(result)
        return 0
    return result


@cold(0)
def get_address(self: ViewObject, noargs: word) -> word:
    """_address()"""
    storage = self.storage
    lease = storage.lease
    block = Block(lease.block)
    if self.flags & READ_ONLY:
        if block.flags & DEVICE and tell_device(block, EXPORTING, 0):
            return 0
        kept = storage.kept
        if not block.flags & ESCAPED and (not kept or kept.lease != lease):
            kept = Kept(malloc(KEPT))
            if kept == 0:
                return PyErr_NoMemory()
            lease.made += READ
            kept.lease, kept.next, storage.kept = lease, storage.kept, kept
    else:
        if own_write(self, FOR_ADDRESS):
            return 0
        block = Block(storage.lease.block)
        block.flags |= ESCAPED
        leave(storage)
        if block.flags & DEVICE and tell_device(block, EXPORTING, 0):
            return 0
    return PyLong_FromLongLong(block.address + self.offset)
