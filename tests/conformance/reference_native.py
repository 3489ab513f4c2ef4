"""The machine code of the reference library: deleters, capsules' destructors, and the functions of the exchange table.

What they leave to Python they call as methods of `handlers`, which the library puts there.
"""

from __future__ import annotations

import sys
from ctypes import CFUNCTYPE, c_int, c_int32
from ctypes import c_void_p as word
from types import SimpleNamespace

from nbdlpack.conformance.header import DLManagedTensor, DLManagedTensorVersioned
from nbdlpack.native.abi import (
    Py_DecRef,
    Py_IsFinalizing,
    Py_IsInitialized,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyErr_Clear,
    PyErr_Fetch,
    PyErr_Restore,
    PyGILState_Ensure,
    PyGILState_Release,
    PyLong_AsVoidPtr,
    PyLong_FromLongLong,
    PyObject_VectorcallMethod,
    constant,
    free,
    words,
)
from nbdlpack.native.compiler import compile_functions, extern, immortal, native, stack

PyGILState_Check = extern("PyGILState_Check", c_int)
LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
error_setter = CFUNCTYPE(None, word, word, word)
handlers = immortal(SimpleNamespace())
HANDLERS = constant(handlers)
EXPORT, WRAP, LEND, ALLOCATE = [constant(sys.intern(name)) for name in ("export", "wrap", "lend", "allocate")]


@native
def reference_release(managed: word, owner: word):
    """Let go of what a tensor holds: on any thread, whatever exception is set, and not at all without Python."""
    if Py_IsInitialized() == 0:
        return
    if Py_IsFinalizing() and PyGILState_Check() == 0:
        return
    state, saved = PyGILState_Ensure(), stack(word * 3)
    PyErr_Fetch(saved, saved + 8, saved + 16)
    Py_DecRef(owner)
    PyErr_Restore(saved[0], saved[1], saved[2])
    PyGILState_Release(state)
    free(managed)


@native
def reference_delete_legacy(managed: DLManagedTensor):
    reference_release(managed, managed.manager_ctx)


@native
def reference_delete_versioned(managed: DLManagedTensorVersioned):
    reference_release(managed, managed.manager_ctx)


@native
def reference_drop_legacy(capsule: word):
    """Destroy a capsule, and delete what it holds unless a consumer has taken that."""
    if PyCapsule_IsValid(capsule, LEGACY):
        reference_delete_legacy(PyCapsule_GetPointer(capsule, LEGACY))


@native
def reference_drop_versioned(capsule: word):
    if PyCapsule_IsValid(capsule, VERSIONED):
        reference_delete_versioned(PyCapsule_GetPointer(capsule, VERSIONED))


@native
def reference_call(name: word, first: word, more: words, n: c_int) -> word:
    """Call a handler with an object, unless that is 0, and numbers; return an object, or 0 with an exception set."""
    arguments, count = stack(word * 6), 1
    arguments[0] = HANDLERS
    if first:
        arguments[1], count = first, 2
    for i in range(n):
        arguments[count] = PyLong_FromLongLong(more[i])
        count += 1
    result = PyObject_VectorcallMethod(name, arguments, count, 0)
    for i in range(count - n, count):
        Py_DecRef(arguments[i])
    return result


@native
def reference_from_py(x: word, out: words) -> c_int:
    out[0] = 0
    result = reference_call(EXPORT, x, 0, 0)
    if result == 0:
        return -1
    out[0] = PyLong_AsVoidPtr(result)
    Py_DecRef(result)
    return 0


@native
def reference_to_py(managed: word, out: words) -> c_int:
    numbers = stack(word * 1)
    numbers[0] = managed
    out[0] = reference_call(WRAP, 0, numbers, 1)
    return 0 if out[0] else -1


@native
def reference_lend(x: word, out: word) -> c_int:
    numbers = stack(word * 1)
    numbers[0] = out
    result = reference_call(LEND, x, numbers, 1)
    if result == 0:
        return -1
    Py_DecRef(result)
    return 0


@native
def reference_allocate(prototype: word, out: words, context: word, set_error: error_setter) -> c_int:
    """Allocate, without the GIL, and without an exception that is left set."""
    out[0] = 0
    state, numbers, status = PyGILState_Ensure(), stack(word * 4), -1
    numbers[0], numbers[1], numbers[2], numbers[3] = prototype, out, context, set_error
    result = reference_call(ALLOCATE, 0, numbers, 4)
    if result:
        status = 0
        Py_DecRef(result)
    PyErr_Clear()
    PyGILState_Release(state)
    return status


@native
def reference_stream(device_type: c_int32, device_id: c_int32, out: words) -> c_int:
    out[0] = 0
    return 0


code = compile_functions(
    [
        reference_release,
        reference_delete_legacy,
        reference_delete_versioned,
        reference_drop_legacy,
        reference_drop_versioned,
        reference_call,
        reference_from_py,
        reference_to_py,
        reference_lend,
        reference_allocate,
        reference_stream,
    ]
)
"""The addresses of the functions, by name."""
