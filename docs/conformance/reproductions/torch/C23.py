# Null data with elements becomes a tensor at a null pointer: to read it is a crash.
import ctypes, numpy as np, torch

capsule = np.ones(4).__dlpack__(max_version=(1, 3))
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_void_p.from_address(tensor + 32).value = None  # DLTensor.data
np.testing.assert_raises((BufferError, RuntimeError, ValueError), torch.from_dlpack, capsule)
