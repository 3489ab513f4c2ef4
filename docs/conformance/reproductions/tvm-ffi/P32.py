# The data of a tensor without elements is exported as a pointer, which should be NULL.
import ctypes, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = tvm_ffi.from_dlpack(np.ones(0)).__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
assert ctypes.c_void_p.from_address(tensor + 32).value is None, "DLTensor.data of no elements should be NULL"
