# The flag READ_ONLY of a tensor that comes through an exchange table is not there when that is exported again.
import ctypes, numpy as np, tvm_ffi

api, pointer = ctypes.pythonapi, ctypes.c_void_p
api.PyCapsule_New.restype, api.PyCapsule_GetPointer.restype = ctypes.py_object, pointer
given = ctypes.py_object(np.frombuffer(bytes(32)).__dlpack__(max_version=(1, 3)))  # of read-only memory
api.Py_IncRef(given)  # for ever: it is the consumer who deletes the tensor
tensor = api.PyCapsule_GetPointer(given, b"dltensor_versioned")
function = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, ctypes.POINTER(pointer))
export = function(lambda x, out: out.__setitem__(0, tensor) or 0)
table = (pointer * 7)(1, 0, *[ctypes.cast(export, pointer)] * 5)  # version 1.0, prev_api, functions: one is called
capsule = api.PyCapsule_New(table, b"dlpack_exchange_api", None)
Array = type("Array", (), {"__dlpack_c_exchange_api__": capsule})
x = tvm_ffi.from_dlpack(Array())
assert not np.from_dlpack(x).flags.writeable, "what was imported with READ_ONLY is to be exported with it"
