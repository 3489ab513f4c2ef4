# A negative number of dimensions is a crash (SIGSEGV), but should be an exception.
import ctypes, numpy as np, torch

capsule = np.ones(4).__dlpack__(max_version=(1, 3))
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_int32.from_address(tensor + 48).value = -1  # DLTensor.ndim
np.testing.assert_raises((BufferError, RuntimeError, ValueError), torch.from_dlpack, capsule)
