"""The most frequent computation, of two small arrays of one shape and dtype, without Python between its steps.

What NumPy needs for it, two arrays to read and one to write, takes longer to make from Python than ten numbers to add.
"""

from ctypes import c_ssize_t
from ctypes import c_void_p as word

from nbdlpack.native.abi import (
    NONE,
    Py_DecRef,
    Py_IncRef,
    PyDict_GetItemWithError,
    PyErr_Occurred,
    PyObject_Vectorcall,
    words,
)
from nbdlpack.native.compiler import inline, native, stack
from nbdlpack.native.exports import numpy_array, on_host
from nbdlpack.native.memory import CLASSES, READ, WORLD, WRITE, World, drain
from nbdlpack.native.views import ViewObject, count, dtype_object, dtype_word, itemsize, new_array, takes


@inline
def alike(self: ViewObject, other: ViewObject) -> word:
    """Return whether two arrays in host memory have one dtype and shape."""
    if self.dtype != other.dtype or self.ndim != other.ndim or not on_host(self) or not on_host(other):
        return 0
    for i in range(self.ndim):
        if self.shape[i] != other.shape[i]:
            return 0
    return 1


@native
def empty_like(self: ViewObject, dtype: word) -> word:
    """Return an array of a dtype and an array's shape in new memory."""
    kind = dtype_word(dtype)
    if kind < 0:
        return 0
    return new_array(words(CLASSES)[0], self.shape, self.ndim, kind, count(self) * itemsize(kind), 0)


@native
def elementwise(self: ViewObject, args: words, nargs: c_ssize_t) -> word:
    """_elementwise(ufunc, other, results)"""
    if not takes(args, nargs, 3):
        return 0
    other, kinds, result, w = ViewObject(args[1]), words(CLASSES), ViewObject(0), World(WORLD)
    if self.object.type == kinds[0] and other.object.type == kinds[0] and alike(self, other):
        dtype = PyDict_GetItemWithError(args[2], dtype_object(self.dtype))
        if dtype:
            if w.ended:
                drain(0)
            result = ViewObject(empty_like(self, dtype))
            return apply(args[0], self, other, result) if result else 0
        if PyErr_Occurred():
            return 0
    Py_IncRef(NONE)
    return NONE


@native
def apply(ufunc: word, self: ViewObject, other: ViewObject, result: ViewObject) -> word:
    """Call a ufunc with NumPy arrays on the memory of two arrays and a new one; return this one, or 0."""
    operands = stack(word * 3)
    operands[0], operands[1], operands[2] = numpy_array(self, READ, 0), numpy_array(other, READ, 0), 0
    if operands[0] and operands[1]:
        operands[2] = numpy_array(result, WRITE, 0)
    done = PyObject_Vectorcall(ufunc, operands, 3, 0) if operands[2] else 0
    for i in range(3):
        Py_DecRef(operands[i])
    if done == 0:
        Py_DecRef(result)
        return 0
    Py_DecRef(done)
    return result
