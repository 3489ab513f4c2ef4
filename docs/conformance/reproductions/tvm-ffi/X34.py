# A tensor of DLPack 2 that comes through an exchange table is read, though its layout is not known.
import ctypes, unittest, numpy as np, tvm_ffi

api, pointer = ctypes.pythonapi, ctypes.c_void_p
api.PyCapsule_New.restype, api.PyCapsule_GetPointer.restype = ctypes.py_object, pointer
given = ctypes.py_object(np.ones(4).__dlpack__(max_version=(1, 3)))
api.Py_IncRef(given)  # for ever: it is the consumer who deletes the tensor
tensor = api.PyCapsule_GetPointer(given, b"dltensor_versioned")
ctypes.c_uint32.from_address(tensor).value = 2  # DLPackVersion.major
function = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, ctypes.POINTER(pointer))
export = function(lambda x, out: out.__setitem__(0, tensor) or 0)
table = (pointer * 7)(1, 0, *[ctypes.cast(export, pointer)] * 5)  # version 1.0, prev_api, functions: one is called
capsule = api.PyCapsule_New(table, b"dlpack_exchange_api", None)
Array = type("Array", (), {"__dlpack_c_exchange_api__": capsule})
with unittest.TestCase().assertRaises(Exception, msg="a tensor of another major version is to be refused"):
    tvm_ffi.from_dlpack(Array())
