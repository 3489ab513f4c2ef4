"""The machine code of the test producers: deleters that count, capsules' destructors, and exchange tables' functions.

Deleters are called on any thread, without the GIL, and after the interpreter has gone; no Python function can be.
"""

from __future__ import annotations

import sys
from ctypes import CFUNCTYPE, Structure, c_int, c_int32, c_int64, c_size_t
from ctypes import c_void_p as word

from nbdlpack.conformance.header import DLManagedTensor, DLManagedTensorVersioned
from nbdlpack.native.abi import (
    Py_DecRef,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyErr_Occurred,
    PyErr_SetString,
    PyLong_AsVoidPtr,
    PyObject,
    PyObject_VectorcallMethod,
    constant,
    words,
)
from nbdlpack.native.compiler import atomic_add, compile_functions, extern, native, stack

memset = extern("memset", word, word, c_int, c_size_t)
LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
MANAGED = constant(sys.intern("_managed"))
NOT_IMPLEMENTED = constant(NotImplementedError)
error_setter = CFUNCTYPE(None, word, word, word)


class Count(Structure):
    """What the manager_ctx of a test producer's tensor points to."""

    _fields_ = [
        ("deleted", c_int64),  # how often the deleter was called
        ("poison", word),  # memory to be overwritten then, so that it shows who reads it afterwards
        ("nbytes", c_int64),
    ]


@native
def conformance_count(count: Count):
    atomic_add(count.deleted, 1)
    if count.poison:
        memset(count.poison, 0xDD, count.nbytes)


@native
def conformance_delete_legacy(managed: DLManagedTensor):
    conformance_count(managed.manager_ctx)


@native
def conformance_delete_versioned(managed: DLManagedTensorVersioned):
    conformance_count(managed.manager_ctx)


@native
def conformance_drop_legacy(capsule: word):
    """Destroy a capsule that holds a tensor with a deleter, which is called unless a consumer took it over."""
    if PyCapsule_IsValid(capsule, LEGACY):
        managed = DLManagedTensor(PyCapsule_GetPointer(capsule, LEGACY))
        if managed.deleter:
            conformance_count(managed.manager_ctx)


@native
def conformance_drop_versioned(capsule: word):
    if PyCapsule_IsValid(capsule, VERSIONED):
        managed = DLManagedTensorVersioned(PyCapsule_GetPointer(capsule, VERSIONED))
        if managed.deleter:
            conformance_count(managed.manager_ctx)


@native
def conformance_from_py(x: PyObject, out: words) -> c_int:
    """Export an object by its method `_managed`, which returns an address or raises: 0, or -1 with an exception set."""
    arguments = stack(word * 1)
    arguments[0] = x
    address = PyObject_VectorcallMethod(MANAGED, arguments, 1, 0)
    if address == 0:
        return -1
    out[0] = PyLong_AsVoidPtr(address)
    Py_DecRef(address)
    return -1 if PyErr_Occurred() else 0


# What a table must have, too: no test producer makes arrays, or has streams.


@native
def conformance_allocate(prototype: word, out: words, context: word, set_error: error_setter) -> c_int:
    set_error(context, b"NotImplementedError", b"a test producer allocates nothing")
    return -1


@native
def conformance_to_py(managed: word, out: words) -> c_int:
    PyErr_SetString(NOT_IMPLEMENTED, b"a test producer imports nothing")
    return -1


@native
def conformance_stream(device_type: c_int32, device_id: c_int32, out: words) -> c_int:
    out[0] = 0
    return 0


code = compile_functions(
    [
        conformance_count,
        conformance_delete_legacy,
        conformance_delete_versioned,
        conformance_drop_legacy,
        conformance_drop_versioned,
        conformance_from_py,
        conformance_allocate,
        conformance_to_py,
        conformance_stream,
    ]
)
"""The addresses of the functions, by name."""
