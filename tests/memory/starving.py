# mypy: ignore-errors
"""Lets each allocation of the native layer fail in turn: ``from tests.memory import starving; starving.main()``.

For each thing that can be done to arrays: do it with the first allocation failing, then with the second failing, and
so on until it needs no more.  Each time it must either manage without, or raise MemoryError and leave everything as it
was; and it must work afterwards.  Prints, as JSON, how many allocations each thing needed and what went wrong.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import sys
import types
from ctypes import Structure, c_int, c_int64, c_ssize_t
from ctypes import c_void_p as word
from pathlib import Path


def before_it_is_compiled():
    """Return the modules that name the C functions that are called, without those that compile calls of them."""
    folder = Path(importlib.util.find_spec("nbdlpack").submodule_search_locations[0])
    for name, place in (("nbdlpack", folder), ("nbdlpack.native", folder / "native")):
        package = types.ModuleType(name)
        package.__path__ = [str(place)]
        sys.modules[name] = package
    from nbdlpack.native import abi, compiler

    del sys.modules["nbdlpack"], sys.modules["nbdlpack.native"]
    return abi, compiler


abi, compiler = before_it_is_compiled()


class Fuse(Structure):
    _fields_ = [("left", c_int64), ("blown", c_int64)]  # how many allocations succeed before one fails, or -1


fuse = compiler.immortal(Fuse(-1))
FUSE = ctypes.addressof(fuse)
real = {}


def original(function):
    """Return a C function as it is, whose place in the table is about to be taken."""
    kept = compiler.extern.__new__(compiler.extern)
    kept.address, kept.restype, kept.argtypes = function.address, function.restype, function.argtypes
    return kept


PyErr_NoMemory, Py_DecRef = abi.PyErr_NoMemory, abi.Py_DecRef
malloc, calloc, realloc, PyType_GenericAlloc, PyCapsule_New, PyTuple_New, PyLong_FromLongLong = map(original, (
    abi.malloc, abi.calloc, abi.realloc, abi.PyType_GenericAlloc, abi.PyCapsule_New, abi.PyTuple_New,
    abi.PyLong_FromLongLong,
))  # fmt: skip
PyArray_NewFromDescr, PyArray_SetBaseObject = original(abi.PyArray_NewFromDescr), original(abi.PyArray_SetBaseObject)


# Compiled, never run as Python: see nbdlpack.native.compiler.


def blows() -> c_int64:
    """Return whether it is this allocation that fails."""
    f = Fuse(FUSE)
    if f.left < 0:
        return 0
    f.left -= 1
    if f.left >= 0:
        return 0
    f.blown = 1
    return 1


def starved_malloc(size: word) -> word:
    return 0 if blows() else malloc(size)


def starved_calloc(n: word, size: word) -> word:
    return 0 if blows() else calloc(n, size)


def starved_realloc(old: word, size: word) -> word:
    return 0 if blows() else realloc(old, size)


def starved_PyType_GenericAlloc(cls: word, n: c_ssize_t) -> word:
    return PyErr_NoMemory() if blows() else PyType_GenericAlloc(cls, n)


def starved_PyCapsule_New(pointer: word, name: word, destructor: word) -> word:
    return PyErr_NoMemory() if blows() else PyCapsule_New(pointer, name, destructor)


def starved_PyTuple_New(n: c_ssize_t) -> word:
    return PyErr_NoMemory() if blows() else PyTuple_New(n)


def starved_PyLong_FromLongLong(n: c_int64) -> word:
    return PyErr_NoMemory() if blows() else PyLong_FromLongLong(n)


def starved_PyArray_NewFromDescr(cls: word, descr: word, n: c_int, shape: abi.longs, strides: abi.longs, data: word,
                                 flags: c_int, obj: word) -> word:  # fmt: skip
    if blows():
        Py_DecRef(descr)  # it takes the reference also where it fails
        return PyErr_NoMemory()
    return PyArray_NewFromDescr(cls, descr, n, shape, strides, data, flags, obj)


def starved_PyArray_SetBaseObject(array: word, base: word) -> c_int:
    if blows():
        Py_DecRef(base)
        PyErr_NoMemory()
        return -1
    return PyArray_SetBaseObject(array, base)


starved = [value for name, value in list(globals().items()) if name.startswith("starved_")]
for name, address in compiler.compile_functions([blows, *starved]).items():
    if name != "blows":
        getattr(abi, name.removeprefix("starved_")).address = address

import numpy as np  # noqa: E402

import nbdlpack as nd  # noqa: E402
from nbdlpack import native  # noqa: E402
from tests.memory.tools import exchange_api, state, values  # noqa: E402


class Owner:
    def __init__(self):
        self.a = np.arange(6.0)

    def array(self, foreign=0):
        a = self.a
        return nd.ndarray._wrap(self, a.ctypes.data, (1, 0), a.nbytes, foreign, a.dtype, 0, a.shape, (1,))


class Setting:
    """What there is before each attempt."""

    def __init__(self, kind):
        self.a = np.arange(6.0)
        self.owner = Owner()
        if kind == "owned":
            self.x = self.owner.array()
        else:
            self.x = nd.array(self.a)
        self.y = self.x.copy()  # x is shared
        self.z = self.x.copy()
        self.alone = nd.array(self.a)
        self.old = np.from_dlpack(nd.readonly(nd.array(self.a)))  # its array is dead
        self.n = np.from_dlpack(self.alone)  # writable
        self.foreign = nd.from_dlpack(self.a)
        self.deep = nd.array(np.arange(256.0).reshape((2,) * 8))
        self.half = nd.array(np.arange(6.0)).astype(nd.bfloat16)

    def arrays(self):
        return {name: x for name, x in vars(self).items() if isinstance(x, nd.ndarray)}

    def look(self):
        """Return all that must not change, by name."""
        seen = {"blocks": native.world.blocks, "bytes": native.world.bytes, "pinned": native.world.pinned}
        for name, x in self.arrays().items():
            seen |= {f"{field} of {name}": number for field, number in state(x)._asdict().items() if field != "serial"}
            seen[f"values of {name}"] = values(x)
        for name, one in vars(self).items():
            seen[f"references to {name}"] = sys.getrefcount(one)
        return seen


def allocate(s):
    shape = (c_int64 * 2)(3, 4)
    prototype = (c_int64 * 6)(0, 1, 2 | (2 | 64 << 8 | 1 << 16) << 32, ctypes.addressof(shape), 0, 0)
    managed = word()
    api = exchange_api(nd.ndarray)
    function = ctypes.CFUNCTYPE(c_int, word, word, word, word)(api.allocate)
    if function(ctypes.addressof(prototype), ctypes.addressof(managed), None, None):
        raise MemoryError
    deleter = ctypes.CFUNCTYPE(None, word)(word.from_address(managed.value + 16).value)
    deleter(managed)


def overwrite_in_vain(s):
    try:
        s.x[...] = [1, 2]
    except ValueError:
        return


class Interface:
    def __init__(self, x):
        self.__array_interface__, self.keep = x.__array_interface__, x


ACTS = {
    "empty": lambda s: nd.empty(3),
    "zeros": lambda s: nd.zeros((1,) * 10),
    "array": lambda s: nd.array(s.a),
    "view": lambda s: s.x[1:],
    "view of many dimensions": lambda s: s.deep.T,
    "lazy copy": lambda s: s.x.copy(),
    "lazy copy of many dimensions": lambda s: s.deep.copy(),
    "eager copy": lambda s: s.x[1:].copy(),
    "eager copy, foreign": lambda s: s.foreign.copy(),
    "write": lambda s: s.x.__setitem__(0, 0),
    "write, alone": lambda s: s.alone.__setitem__(0, 0),
    "overwrite": lambda s: s.x.__setitem__(..., s.a),
    "overwrite in vain": overwrite_in_vain,
    "in place": lambda s: s.x.__iadd__(0),
    "out=": lambda s: np.add(s.y, 0, out=s.x),
    "materialize": lambda s: nd.materialize(s.x),
    "export": lambda s: s.x.__dlpack__(),
    "export versioned": lambda s: s.x.__dlpack__(max_version=(1, 0)),
    "export read-only": lambda s: nd.readonly(s.x).__dlpack__(max_version=(1, 0)),
    "export a copy": lambda s: s.x.__dlpack__(copy=True),
    "export of many dimensions": lambda s: s.deep.__dlpack__(),
    "numpy.from_dlpack": lambda s: np.from_dlpack(s.x),
    "memoryview": lambda s: memoryview(s.x),
    "memoryview, read-only": lambda s: memoryview(nd.readonly(s.x)),
    "numpy.asarray": lambda s: np.asarray(s.x),
    "numpy.asarray of bfloat16": lambda s: np.asarray(s.half),
    "address": lambda s: s.foreign.ptr,
    "read-only address": lambda s: nd.readonly(s.y).ptr,
    "from_dlpack": lambda s: nd.from_dlpack(s.a),
    "from_dlpack, read-only": lambda s: nd.from_dlpack(np.broadcast_to(s.a, (2, 6))),
    "from_dlpack, many dimensions": lambda s: nd.from_dlpack(s.a.reshape((1,) * 9 + (6,))),
    "from_dlpack, a copy": lambda s: nd.from_dlpack(s.a, copy=True),
    "home": lambda s: nd.from_dlpack(s.n),
    "home after the array": lambda s: nd.from_dlpack(s.old),
    "home of ours": lambda s: nd.from_dlpack(s.x),
    "home of a capsule": lambda s: nd.from_dlpack(s.alone.__dlpack__()),
    "home, by an interface": lambda s: nd.asarray(Interface(s.n)),
    "of an interface": lambda s: nd.asarray(Interface(s.a)),
    "of an owner": lambda s: s.owner.array(),
    "clones of an owner": lambda s: [c.copy() for c in [s.owner.array()] for _ in range(3)],
    "the exchange table's allocator": allocate,
    "addition": lambda s: s.x + s.y,
    "sum": lambda s: s.x.sum(),
    "indices": lambda s: s.x[[1, 2]],
    "attributes": lambda s: (s.x.shape, s.x.strides, s.x.nbytes, s.x.__dlpack_device__()),
}
# What moves x does so before it needs the little that may fail after that.  Nobody's values are others then.
# (NumPy asks for the address if it gets no buffer, whatever the reason.)
MOVED = {
    "address of x",
    "flags of x",
    "leases of x",
    "leases of y",
    "leases of z",
    "blocks",
    "bytes",
    "references to owner",
}
# What may have changed although memory ran out.
CHANGED = {
    "write": MOVED,
    "export": MOVED,
    "export versioned": MOVED,
    "numpy.from_dlpack": MOVED,
    "memoryview": MOVED,
    "numpy.asarray": MOVED,
    "address": {"flags of foreign"},
}


def attempt(name, act, kind):
    """Return how many allocations something needs, or what went wrong."""
    for k in range(1000):
        s = Setting(kind)
        _spares = [nd.empty(0) for _ in range(native.world.spares)]  # so that storages are allocated as well
        before = s.look()
        fuse.blown, fuse.left = 0, k
        error = result = None
        try:
            result = act(s)
        except MemoryError:
            error = "MemoryError"
        except BaseException as other:  # noqa: BLE001
            error = repr(other)
        finally:
            fuse.left = -1
        blown = fuse.blown
        if not blown:
            return k if error is None else f"without a failure: {error}"
        del result
        nd.empty(1)
        if error not in (None, "MemoryError"):
            return f"allocation {k + 1}: {error}"
        after = s.look()
        changed = {key for key in before if before[key] != after[key]}
        if error is None:
            changed -= MOVED | {"flags of foreign"}
        unexpected = changed - CHANGED.get(name, set())
        if unexpected:
            return f"allocation {k + 1} ({error}): " + ", ".join(
                f"{key} {before[key]} -> {after[key]}" for key in sorted(unexpected)
            )
        try:
            act(s)
        except BaseException as other:  # noqa: BLE001
            return f"after a failing allocation {k + 1}: {other!r}"
        for x in s.arrays().values():
            if x.dtype == np.float64 and x.ndim == 1 and values(x) != [0, 1, 2, 3, 4, 5]:
                return f"after a failing allocation {k + 1}: {values(x)}"
    return "it never ends"


def main():
    w, outcome = native.world, {}
    for kind in ("own", "owned"):
        for name, act in ACTS.items():
            Setting(kind)
            act(Setting(kind))
            nd.empty(1)
            before = w.blocks, w.bytes, w.pinned
            outcome[f"{name}, {kind}"] = attempt(name, act, kind)
            nd.empty(1)
            if (w.blocks, w.bytes, w.pinned) != before:
                outcome[f"{name}, {kind}"] = f"leaves {before} as {(w.blocks, w.bytes, w.pinned)}"
    print(json.dumps(outcome))
