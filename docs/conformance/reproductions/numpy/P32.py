# The data of an array without elements is exported as a pointer, which should be NULL.
import ctypes, numpy as np
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(0).__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
assert ctypes.c_void_p.from_address(tensor + 32).value is None, "DLTensor.data of no elements should be NULL"
