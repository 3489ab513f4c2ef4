"""The binary interfaces that the native layer speaks, DLPack 1.3, CPython and NumPy: ctypes structures and functions.

The structures are the one description of every layout, for compiled functions, for the tables that CPython reads, and
for whoever looks at a live object from Python: `DLManagedTensorVersioned.from_address(p).tensor.ndim`.
"""

import ctypes
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    Structure,
    addressof,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_ssize_t,
    c_uint32,
    c_uint64,
    py_object,
    pythonapi,
    sizeof,
)
from ctypes import c_void_p as word

import numpy as np

from nbdlpack.native.compiler import extern, immortal

words = POINTER(word)
longs = POINTER(c_int64)
destructor = CFUNCTYPE(None, word)
visitor = CFUNCTYPE(c_int, word, word)
exporter = CFUNCTYPE(c_int, word, word)

# ---- DLPack: https://github.com/dmlc/dlpack/blob/v1.3/include/dlpack/dlpack.h ---------------------------------------

MAJOR, MINOR = 1, 3
CPU = 1
READ_ONLY, IS_COPIED = 1, 2


class DLTensor(Structure):
    # The four bytes of a DLDataType are read as one word: code | bits << 8 | lanes << 16.
    _fields_ = [
        ("data", word),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("dtype", c_uint32),
        ("shape", longs),
        ("strides", longs),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensorVersioned(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", word),
        ("deleter", destructor),
        ("flags", c_uint64),
        ("tensor", DLTensor),
    ]


class DLManagedTensor(Structure):
    _fields_ = [("tensor", DLTensor), ("context", word), ("deleter", destructor)]


class DLPackExchangeAPIHeader(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("previous", word)]


class DLPackExchangeAPI(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", word),
        ("allocate", word),
        ("export", word),
        ("import_", word),
        ("view", word),
        ("stream", word),
    ]


# ---- CPython --------------------------------------------------------------------------------------------------------


class PyObject(Structure):
    # ob_type is the last word of every build's object head.
    _fields_ = [("head", c_char * (object.__basicsize__ - sizeof(word))), ("type", word)]


class Py_buffer(Structure):
    _fields_ = [
        ("buf", word),
        ("obj", word),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", word),
        ("shape", longs),
        ("strides", longs),
        ("suboffsets", word),
        ("internal", word),
    ]


class PyMethodDef(Structure):
    _fields_ = [("name", c_char_p), ("function", word), ("flags", c_int), ("doc", c_char_p)]


class PyMemberDef(Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("offset", c_ssize_t), ("flags", c_int), ("doc", c_char_p)]


class PyGetSetDef(Structure):
    _fields_ = [("name", c_char_p), ("get", word), ("set", word), ("doc", c_char_p), ("closure", word)]


class PyType_Slot(Structure):
    _fields_ = [("slot", c_int), ("value", word)]


class PyType_Spec(Structure):
    _fields_ = [("name", c_char_p), ("basicsize", c_int), ("itemsize", c_int), ("flags", c_uint32), ("slots", word)]


METH_KEYWORDS, METH_NOARGS, METH_CLASS, METH_FASTCALL = 2, 4, 16, 128
T_INT, T_PYSSIZET, T_READONLY = 1, 19, 1
Py_bf_getbuffer, Py_bf_releasebuffer = 1, 2
Py_tp_dealloc, Py_tp_methods, Py_tp_traverse, Py_tp_members, Py_tp_getset = 52, 64, 71, 72, 73
Py_TPFLAGS_DISALLOW_INSTANTIATION, Py_TPFLAGS_BASETYPE, Py_TPFLAGS_HAVE_GC = 1 << 7, 1 << 10, 1 << 14
PyBUF_WRITABLE, PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_C, PyBUF_F, PyBUF_ANY = 1, 4, 8, 0x18, 0x38, 0x58, 0x98

malloc = extern("malloc", word, word)
calloc = extern("calloc", word, word, word)
realloc = extern("realloc", word, word, word)
free = extern("free", None, word)
memcpy = extern("memcpy", word, word, word, word)
memmove = extern("memmove", word, word, word, word)
usleep = extern("usleep", c_int, c_uint32)
sched_yield = extern("sched_yield", c_int)
Py_IncRef = extern("Py_IncRef", None, word)
Py_DecRef = extern("Py_DecRef", None, word)
Py_IsInitialized = extern("Py_IsInitialized", c_int)
Py_IsFinalizing = extern("Py_IsFinalizing" if sys.version_info >= (3, 13) else "_Py_IsFinalizing", c_int)
Py_AddPendingCall = extern("Py_AddPendingCall", c_int, word, word)
PyEval_SaveThread = extern("PyEval_SaveThread", word)
PyEval_RestoreThread = extern("PyEval_RestoreThread", None, word)
PyThread_get_thread_ident = extern("PyThread_get_thread_ident", word)
PyThread_tss_alloc = extern("PyThread_tss_alloc", word)
PyThread_tss_create = extern("PyThread_tss_create", c_int, word)
PyThread_tss_get = extern("PyThread_tss_get", word, word)
PyThread_tss_set = extern("PyThread_tss_set", c_int, word, word)
PyGILState_Ensure = extern("PyGILState_Ensure", c_int)
PyGILState_Release = extern("PyGILState_Release", None, c_int)
PyType_GenericAlloc = extern("PyType_GenericAlloc", word, word, c_ssize_t)
PyType_IsSubtype = extern("PyType_IsSubtype", c_int, word, word)
PyObject_GC_Del = extern("PyObject_GC_Del", None, word)
PyObject_GC_UnTrack = extern("PyObject_GC_UnTrack", None, word)
PyObject_ClearWeakRefs = extern("PyObject_ClearWeakRefs", None, word)
PyObject_GetAttr = extern("PyObject_GetAttr", word, word, word)
PyObject_Vectorcall = extern("PyObject_Vectorcall", word, word, word, c_ssize_t, word)
PyObject_VectorcallMethod = extern("PyObject_VectorcallMethod", word, word, word, c_ssize_t, word)
PyTuple_New = extern("PyTuple_New", word, c_ssize_t)
PyTuple_Size = extern("PyTuple_Size", c_ssize_t, word)
PyTuple_GetItem = extern("PyTuple_GetItem", word, word, c_ssize_t)
PyTuple_SetItem = extern("PyTuple_SetItem", c_int, word, c_ssize_t, word)
PyLong_FromLongLong = extern("PyLong_FromLongLong", word, c_int64)
PyLong_AsLongLong = extern("PyLong_AsLongLong", c_int64, word)
PyLong_AsVoidPtr = extern("PyLong_AsVoidPtr", word, word)
PyUnicode_InternInPlace = extern("PyUnicode_InternInPlace", None, word)
PyDict_GetItemWithError = extern("PyDict_GetItemWithError", word, word, word)
PyCapsule_New = extern("PyCapsule_New", word, word, word, word)
PyCapsule_IsValid = extern("PyCapsule_IsValid", c_int, word, word)
PyCapsule_GetPointer = extern("PyCapsule_GetPointer", word, word, word)
PyCapsule_GetContext = extern("PyCapsule_GetContext", word, word)
PyCapsule_SetName = extern("PyCapsule_SetName", c_int, word, word)
PyCapsule_SetContext = extern("PyCapsule_SetContext", c_int, word, word)
PyErr_Occurred = extern("PyErr_Occurred", word)
PyErr_ExceptionMatches = extern("PyErr_ExceptionMatches", c_int, word)
PyErr_Clear = extern("PyErr_Clear", None)
PyErr_Fetch = extern("PyErr_Fetch", None, word, word, word)
PyErr_Restore = extern("PyErr_Restore", None, word, word, word)
PyErr_WriteUnraisable = extern("PyErr_WriteUnraisable", None, word)
PyErr_NoMemory = extern("PyErr_NoMemory", word)
PyErr_SetString = extern("PyErr_SetString", None, word, word)
PyErr_SetObject = extern("PyErr_SetObject", None, word, word)

# ---- NumPy's C functions: their places in its table never change ----------------------------------------------------


def _numpy_function(place, restype, *argtypes):
    get_pointer = PYFUNCTYPE(word, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
    table = get_pointer(np._core._multiarray_umath._ARRAY_API, None)
    function = extern.__new__(extern)
    function.address, function.restype, function.argtypes = ctypes.cast(table, words)[place], restype, argtypes
    return function


PyArray_NewFromDescr = _numpy_function(94, word, word, word, c_int, longs, longs, word, c_int, word)
PyArray_SetBaseObject = _numpy_function(282, c_int, word, word)
NPY_ARRAY_WRITEABLE = 0x400

# ---- objects and strings that compiled functions know by their addresses --------------------------------------------


def constant(value):
    """Return the address of an object, which then lives for ever."""
    return id(immortal(value))


def string(value):
    """Return the address of a C string, which lives for ever: capsules keep the pointer to their name."""
    return addressof(immortal(ctypes.create_string_buffer(value)))


NONE, FALSE, TUPLE, TYPE = id(None), id(False), id(tuple), id(type)
ZERO = id(0)  # CPython keeps one object of each small number
TYPE_ERROR, VALUE_ERROR, BUFFER_ERROR = id(TypeError), id(ValueError), id(BufferError)
EXCEPTION, MEMORY_ERROR, RECURSION_ERROR = id(Exception), id(MemoryError), id(RecursionError)
RUNTIME_ERROR = id(RuntimeError)
VERSIONED, USED_VERSIONED = string(b"dltensor_versioned"), string(b"used_dltensor_versioned")
LEGACY, USED_LEGACY = string(b"dltensor"), string(b"used_dltensor")
EXCHANGE = string(b"dlpack_exchange_api")
NDARRAY = constant(np.ndarray)
CAPSULE = constant(type(np._core._multiarray_umath._ARRAY_API))
