# Of an exchange table of DLPack 2 a function is called, whatever that is, though prev_api leads to one of DLPack 1.
import contextlib, ctypes, numpy as np, tvm_ffi

api, pointer = ctypes.pythonapi, ctypes.c_void_p
api.PyCapsule_New.restype, api.PyCapsule_GetPointer.restype = ctypes.py_object, pointer
given = ctypes.py_object(np.ones(4).__dlpack__(max_version=(1, 3)))
api.Py_IncRef(given)  # for ever: it is the consumer who deletes the tensor
tensor = api.PyCapsule_GetPointer(given, b"dltensor_versioned")
function = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, ctypes.POINTER(pointer))
export = function(lambda x, out: out.__setitem__(0, tensor) or 0)
old = (pointer * 7)(1, 0, *[ctypes.cast(export, pointer)] * 5)  # version 1.0, prev_api, functions: one is called
new = (pointer * 7)(2, ctypes.addressof(old), 1, 1, 1, 1, 1)  # version 2.0, prev_api, and five that are no functions
capsule = api.PyCapsule_New(new, b"dlpack_exchange_api", None)
Array = type("Array", (), {"__dlpack_c_exchange_api__": capsule})
with contextlib.suppress(Exception):  # which it may raise, but not crash: the old table has the function
    tvm_ffi.from_dlpack(Array())
