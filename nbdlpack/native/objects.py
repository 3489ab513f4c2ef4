"""The types of arrays and keepers, made of compiled functions by `PyType_FromSpec`, and DLPack's exchange tables."""

import ctypes
from ctypes import PYFUNCTYPE, addressof, py_object, pythonapi, sizeof
from ctypes import c_void_p as word

from nbdlpack.native import compute, exchange, memory, views  # noqa: F401 - each defines functions to compile
from nbdlpack.native.abi import (
    EXCHANGE,
    MAJOR,
    METH_CLASS,
    METH_FASTCALL,
    METH_KEYWORDS,
    METH_NOARGS,
    MINOR,
    T_INT,
    T_PYSSIZET,
    T_READONLY,
    DLPackExchangeAPI,
    DLPackExchangeAPIHeader,
    Py_bf_getbuffer,
    Py_bf_releasebuffer,
    Py_tp_dealloc,
    Py_tp_getset,
    Py_tp_members,
    Py_tp_methods,
    Py_tp_traverse,
    Py_TPFLAGS_BASETYPE,
    Py_TPFLAGS_DISALLOW_INSTANTIATION,
    Py_TPFLAGS_HAVE_GC,
    PyGetSetDef,
    PyMemberDef,
    PyMethodDef,
    PyType_Slot,
    PyType_Spec,
    destructor,
    immortal,
)
from nbdlpack.native.compiler import compile_functions, functions

EXPORT_DOC = b"""__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
--

Export the array as a DLPack capsule.

The capsule shares the array's memory, which lives as long as someone has it.  The READ_ONLY flag of a read-only array
is advice: torch, Paddle and Dr.Jit write through it.

Parameters
----------
stream : int or None
    On the CPU None or -1.
max_version : tuple of two ints or None
    The newest DLPack version that the consumer understands.  None or (0, x) gives an unversioned capsule, which cannot
    tell that an array is read-only: BufferError for one that is, unless it is copied.
dl_device : tuple of two ints or None
    The device on which the data is wanted: the array's own, or (1, 0), the CPU.
copy : bool or None
    True exports a copy, marked IS_COPIED; False never copies.

Returns
-------
capsule
    Named "dltensor_versioned" or "dltensor".

Raises
------
BufferError
    If the array cannot be exported so: it is read-only and the capsule cannot tell, a stride is negative and
    `nbdlpack.dlpack.allow_negative_strides` is not in effect, or the device is another.
TypeError, ValueError
    If an argument has a wrong type, or a stream is given for the CPU.

References
----------
https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html
"""

DEVICE_DOC = b"""__dlpack_device__($self, /)
--

Return DLPack's (device type, device id) of the array, (1, 0) for the CPU."""

FROM_DLPACK_DOC = b"""from_dlpack(x, /, *, device=None, copy=None)
--

Return an array over the memory of another library's array.

Nothing is copied unless it must be or is asked for: the result **shares memory** with x, and either sees what the
other writes.  Where the producer says that its data is read-only, or elements overlap, the result is read-only.
An unversioned capsule cannot tell, so what comes in one can be written to; only arrays of JAX, which are immutable
but cannot say so, come in read-only.  An array of ours that comes back from another library is a view of the array
that went out.

Parameters
----------
x : object
    Any object with `__dlpack__` and `__dlpack_device__`, or a DLPack capsule of either kind, which is consumed.
device : str, Device or None
    Where the result is to be; None: where x is.
copy : bool or None
    True always copies, False never does, None only if the data has to go to another device.

Returns
-------
ndarray
    Of x's dtype, shape and strides, on its device or the one asked for.

Raises
------
BufferError
    If x cannot be imported: a dtype or device that is not supported, malformed data, a major version of DLPack that
    is not 1, a torch tensor that requires a gradient or has an unresolved conjugate or negative bit; or if copy is
    False and a copy is needed.  What the producer raises is passed on.
AttributeError
    If x does not speak DLPack.
ValueError
    If a capsule was consumed before.

Examples
--------
>>> import numpy as np
>>> import nbdlpack as nd
>>> a = np.zeros(3)
>>> x = nd.from_dlpack(a)
>>> x[0] = 7
>>> a
array([7., 0., 0.])

References
----------
https://data-apis.org/array-api/latest/API_specification/generated/array_api.from_dlpack.html
"""


def table(kind, *rows):
    """Return the address of a C array that an empty row ends, for ever."""
    return addressof(immortal((kind * (len(rows) + 1))(*rows)))


def type_from(name, layout, flags, *slots):
    spec = immortal(PyType_Spec(name.encode(), sizeof(layout), 0, flags, table(PyType_Slot, *slots)))
    return PYFUNCTYPE(py_object, word)(("PyType_FromSpec", pythonapi))(addressof(spec))


code = compile_functions(functions)
"""The addresses of the compiled functions."""

memory.world.delete_versioned = destructor(code["delete_versioned"])
memory.world.delete_legacy = destructor(code["delete_legacy"])


# ---- the exchange tables --------------------------------------------------------------------------------------------


def capsule_of(api, context):
    """Return a capsule of a DLPackExchangeAPI at an address.  Its context says whether what it shows is checked."""
    capsule = PYFUNCTYPE(py_object, word, word, word)(("PyCapsule_New", pythonapi))(api, EXCHANGE, None)
    PYFUNCTYPE(ctypes.c_int, py_object, word)(("PyCapsule_SetContext", pythonapi))(capsule, context)
    return capsule


def exchange_capsule(**replaced):
    """Return the capsule of a table of ours, some of whose functions are others than an array's."""
    names = ("allocate", "export", "import", "view", "stream")
    functions = (replaced.get(name, code[f"exchange_{name}"]) for name in names)
    return capsule_of(table(DLPackExchangeAPI, (MAJOR, MINOR, None, *functions)), None)


EXCHANGE_API = exchange_capsule()
OVERRIDDEN_EXCHANGE_API = exchange_capsule(export=code["exchange_export_overridden"], view=None)


def find_exchange(capsule, *, checked):
    """Return a capsule of the newest table in a chain that can be used here, for `producers`, or None.

    `checked` tensors are asked, before their table is used, for what it does not tell.
    """
    try:
        address = PYFUNCTYPE(word, py_object, word)(("PyCapsule_GetPointer", pythonapi))(capsule, EXCHANGE)
    except (ValueError, TypeError):
        return None
    newer = 1 << 32
    while address:
        api = DLPackExchangeAPIHeader.from_address(address)
        if not MAJOR <= api.major < newer:
            return None  # each table must be older than the one before, or this would never end
        newer = api.major
        if api.major == MAJOR:
            full = DLPackExchangeAPI.from_address(address)
            return capsule_of(address, int(checked)) if full.export else None
        address = api.previous
    return None


# ---- the types ------------------------------------------------------------------------------------------------------

KEYWORDS, FAST = METH_FASTCALL | METH_KEYWORDS, METH_FASTCALL

View = type_from(
    "nbdlpack.native.View",
    views.ViewObject,
    Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    (Py_tp_dealloc, code["dealloc"]),
    (Py_tp_traverse, code["traverse"]),
    (Py_bf_getbuffer, code["getbuffer"]),
    (Py_bf_releasebuffer, code["releasebuffer"]),
    (
        Py_tp_methods,
        table(
            PyMethodDef,
            (b"__dlpack__", code["dlpack"], KEYWORDS, EXPORT_DOC),
            (b"__dlpack_device__", code["dlpack_device"], METH_NOARGS, DEVICE_DOC),
            (b"_capsule", code["capsule"], FAST),
            (b"_import_capsule", code["import_one"], METH_CLASS | FAST),
            (b"_empty", code["make_empty"], METH_CLASS | FAST),
            (b"_wrap", code["make_over"], METH_CLASS | FAST),
            (b"_view", code["make_view"], FAST),
            (b"_lazy_copy", code["lazy_copy"], FAST),
            (b"_host", code["host"], FAST),
            (b"_elementwise", code["elementwise"], FAST),
            (b"_begin_write", code["begin_write"], FAST),
            (b"_end_write", code["end_write"], FAST),
            (b"_begin_read", code["begin_read"], METH_NOARGS),
            (b"_end_read", code["end_write"], FAST),
            (b"_begin_overwrite", code["begin_overwrite"], FAST),
            (b"_end_overwrite", code["end_overwrite"], FAST),
            (b"_address", code["get_address"], METH_NOARGS),
            (b"_seal", code["seal"], METH_NOARGS),
            (b"_state", code["get_state"], METH_NOARGS),
            (b"_parameters", code["get_parameters"], METH_NOARGS),
            (b"_memory", code["get_memory"], METH_NOARGS),
            (b"_settle", code["set_place"], FAST),
        ),
    ),
    (
        Py_tp_members,
        table(
            PyMemberDef,
            (b"ndim", T_INT, views.ViewObject.ndim.offset, T_READONLY, b"The number of dimensions."),
            (b"__weaklistoffset__", T_PYSSIZET, views.ViewObject.weakrefs.offset, T_READONLY),
        ),
    ),
    (
        Py_tp_getset,
        table(
            PyGetSetDef,
            (b"shape", code["get_shape"], None, b"The extents of the dimensions, a tuple of ints."),
            (b"strides", code["get_strides"], None, b"The bytes between neighbours, a tuple of ints, as NumPy's."),
            (b"dtype", code["get_dtype"], None, b"The element type, a numpy.dtype."),
            (b"size", code["get_size"], None, b"The number of elements."),
            (b"itemsize", code["get_itemsize"], None, b"The bytes of an element."),
            (b"nbytes", code["get_nbytes"], None, b"The bytes of all elements, without gaps."),
            (b"_steps", code["get_steps"], None, b"The strides in elements."),
            (b"_place", code["get_place"], None, b"The number of the device, as `nbdlpack.devices` knows it."),
            (b"_flags", code["get_flags"], None, b"READ_ONLY or 0."),
            (b"_negative", code["get_negative"], None, b"Whether some stride is negative."),
            (b"_contiguous", code["get_contiguous"], None, b"1 if C-contiguous | 2 if F-contiguous."),
            (b"_first", code["get_first"], None, b"The address of the first element, at this moment."),
            (b"_storage", code["get_storage"], None, b"A number that views of one storage have in common."),
            (b"_kind", code["get_kind"], None, b"A number for dtype, dimensions, layout, flags and device."),
        ),
    ),
)
View.__dlpack_c_exchange_api__ = EXCHANGE_API

Keeper = type_from(
    "nbdlpack.native.Keeper",
    memory.KeeperObject,
    Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    (Py_tp_dealloc, code["dealloc_keeper"]),
    (Py_tp_traverse, code["traverse_keeper"]),
)
memory.classes[1], memory.classes[2] = id(immortal(Keeper)), id(immortal(View))

from_dlpack_method = immortal(PyMethodDef(b"from_dlpack", code["from_dlpack"], KEYWORDS, FROM_DLPACK_DOC))


set_stream_method = immortal(PyMethodDef(b"set_current_stream", code["set_stream"], FAST))
set_current_stream = PYFUNCTYPE(py_object, word, word, word)(("PyCFunction_NewEx", pythonapi))(
    addressof(set_stream_method), None, None
)


def from_dlpack_for(cls, module):
    """Return `from_dlpack` as a function of a module that makes arrays of a class, as the exchange tables then do."""
    memory.classes[0] = id(immortal(cls))
    new = PYFUNCTYPE(py_object, word, py_object, py_object)(("PyCFunction_NewEx", pythonapi))
    return new(addressof(from_dlpack_method), cls, module)
