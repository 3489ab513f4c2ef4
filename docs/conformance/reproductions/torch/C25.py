# A null pointer to the shape of one dimension is a crash (SIGSEGV), but should be an exception.
import ctypes, numpy as np, torch

capsule = np.ones(4).__dlpack__(max_version=(1, 3))
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_void_p.from_address(tensor + 56).value = None  # DLTensor.shape
np.testing.assert_raises((BufferError, RuntimeError, ValueError), torch.from_dlpack, capsule)
