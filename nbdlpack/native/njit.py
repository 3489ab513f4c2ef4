"""Arrays as arguments and results of functions that Numba compiles for the CPU: what the code around a call calls.

This module is compiled when Numba is there and first asks for it.  All functions but the two destructors are called
with the GIL held; these are called by whoever lets go of an argument last, which compiled code may do without.
"""

import sys
from ctypes import CFUNCTYPE, Structure, addressof, c_int64
from ctypes import c_void_p as word

from nbdlpack.native.abi import (
    CPU,
    READ_ONLY,
    DLTensor,
    Py_DecRef,
    PyErr_NoMemory,
    PyLong_FromLongLong,
    PyObject,
    PyObject_VectorcallMethod,
    PyType_IsSubtype,
    constant,
    destructor,
    words,
)
from nbdlpack.native.compiler import cold, compile_functions, hot, immortal, inline, native, stack
from nbdlpack.native.exports import on_host, prepare, use
from nbdlpack.native.imports import COMPLEX, come_home, extent, fill_in
from nbdlpack.native.memory import (
    CLASSES,
    FOR_WRITE,
    FOREIGN,
    READ,
    WORLD,
    WRITE,
    Block,
    Lease,
    World,
    drain,
    let_export_go,
    new_block,
    new_storage,
)
from nbdlpack.native.views import MAX_NDIM, ViewObject, is_compact, itemsize, new

managing = CFUNCTYPE(word, word, word)


class Runtime(Structure):
    """Numba's table of C functions for its references, NRT_api_functions."""

    _fields_ = [
        ("allocate", word),
        ("allocate_external", word),
        ("manage", managing),
        ("acquire", destructor),
        ("release", destructor),
        ("data", word),
    ]


class MemInfo(Structure):
    """What Numba counts references to memory in, of which it calls the destructor at the end."""

    _fields_ = [("count", c_int64), ("destructor", word), ("info", word), ("data", word)]


class Array(Structure):
    """An array in a compiled function: shape, then strides in bytes."""

    _fields_ = [
        ("meminfo", word),
        ("parent", word),  # the NumPy array that came in, borrowed
        ("size", c_int64),
        ("itemsize", c_int64),
        ("data", word),
        ("dims", c_int64 * 0),
    ]


# What a function is compiled for, in one number: DLPack's dtype, then dimensions, then these.
NDIM = 32
WRITABLE, C, FORTRAN = 1 << 40, 1 << 41, 1 << 42


class Hook:
    """What is left to Python in words."""

    refuse = None
    """Raises the error that says why an object is not what a function is compiled for: (object, number)."""


hook = immortal(Hook())
HOOK, REFUSE = id(hook), constant(sys.intern("refuse"))
runtime = immortal((word * 1)())
"""Where Numba's table is."""
RUNTIME = addressof(runtime)


@hot
def njit_drop_read(lease: Lease):
    let_export_go(lease, READ)


@hot
def njit_drop_write(lease: Lease):
    let_export_go(lease, WRITE)


# ---- arguments ------------------------------------------------------------------------------------------------------


@inline
def is_array(x: PyObject) -> c_int64:
    kinds = words(CLASSES)
    return 1 if x.type == kinds[0] or PyType_IsSubtype(x.type, kinds[2]) else 0


@inline
def fits(self: ViewObject, wanted: c_int64) -> c_int64:
    """Return whether an array is what a function is compiled for, which relies on it."""
    if self.dtype != wanted & 0xFFFFFFFF or self.ndim != wanted >> NDIM & 255 or not on_host(self):
        return 0
    if wanted & WRITABLE and self.flags & READ_ONLY:
        return 0
    if wanted & C and not is_compact(self, 0) or wanted & FORTRAN and not is_compact(self, 1):
        return 0
    alignment = itemsize(self.dtype) >> (1 if self.dtype & 255 == COMPLEX else 0)
    return 0 if Block(self.storage.lease.block).address + self.offset & alignment - 1 else 1


@cold(-1)
def refuse_argument(x: word, wanted: c_int64) -> c_int64:
    args = stack(word * 3)
    args[0], args[1], args[2] = HOOK, x, PyLong_FromLongLong(wanted)
    if args[2]:
        Py_DecRef(PyObject_VectorcallMethod(REFUSE, args, 3, 0))
        Py_DecRef(args[2])
    return -1


@hot
def njit_take(x: ViewObject, array: Array, wanted: c_int64) -> c_int64:
    """Fill in an argument for the length of a call, a counted export; return -1 with an error set if it cannot be."""
    if not is_array(x):
        return refuse_argument(x, wanted)
    if not fits(x, wanted):
        return refuse_argument(x, wanted)
    w, weight, api = World(WORLD), WRITE if wanted & WRITABLE else READ, Runtime(words(RUNTIME)[0])
    if w.ended or weight == WRITE and (x.storage.busy or Block(x.storage.lease.block).leases > 1):
        if prepare(x, weight, FOR_WRITE):
            return -1
    lease, n, size = x.storage.lease, x.ndim, itemsize(x.dtype)
    array.meminfo = api.manage(lease, njit_drop_write if weight == WRITE else njit_drop_read)
    if array.meminfo == 0:
        PyErr_NoMemory()
        return -1
    use(lease, weight)
    # Numba lends out the parent to results.  An array that is kept in a list of Numba's may outlive this object.
    array.parent, array.itemsize, array.size = 0, size, 1
    array.data = Block(lease.block).address + x.offset
    for i in range(n):
        array.dims[i], array.dims[n + i] = x.shape[i], x.strides[i] * size
        array.size *= x.shape[i]
    return 0


# ---- results --------------------------------------------------------------------------------------------------------


@native
def njit_give(array: Array, kind: c_int64) -> word:
    """Return an array over a result of a call, or 0: without an error set if it is Numba's to return.

    What came in as a NumPy array goes out as one.  A reference of Numba's is neither used up nor kept.
    """
    n, size, info, w = kind >> NDIM & 255, itemsize(kind & 0xFFFFFFFF), MemInfo(array.meminfo), World(WORLD)
    tensor, steps, flags = stack(DLTensor), stack(c_int64 * MAX_NDIM), 0 if kind & WRITABLE else READ_ONLY
    if array.parent:
        return 0
    for i in range(n):
        if array.dims[n + i] & size - 1:
            return 0  # as a view with another dtype can have it
        steps[i] = array.dims[n + i] // size
    if w.ended:
        drain(0)
    tensor.data, tensor.byte_offset, tensor.ndim, tensor.dtype = array.data, 0, n, kind & 0xFFFFFFFF
    tensor.shape, tensor.strides = array.dims, steps
    cls = words(CLASSES)[0]
    if info:
        if info.info == njit_drop_write:
            return come_home(cls, info.data, tensor, flags)
        if info.info == njit_drop_read:
            return come_home(cls, info.data, tensor, READ_ONLY)
    # Memory of Numba's own.  If someone else has it as well, in another result or a list, they may write to it.
    alone = 0
    if info:
        alone = 1 if info.count == 1 and info.destructor == 0 else 0
    block = Block(new_block(tensor.data, CPU, 0, 0 if alone else FOREIGN))
    if block == 0:
        return PyErr_NoMemory()
    self = ViewObject(new(cls, new_storage(block.first), n))
    if fill_in(self, tensor, flags) == 0:
        return 0
    block.size = extent(self)
    if info:
        api = Runtime(words(RUNTIME)[0])
        api.acquire(info)
        block.source, block.release = info, api.release
    return self


code = compile_functions([njit_drop_read, njit_drop_write, refuse_argument, njit_take, njit_give])
TAKE, GIVE = code["njit_take"], code["njit_give"]
