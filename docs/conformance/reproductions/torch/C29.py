# torch 2.13.0: strides that lead further than addresses go end the process (SIGABRT).
import ctypes, numpy as np, torch

capsule = np.ones(4).__dlpack__(max_version=(1, 3))
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_int64.from_address(ctypes.c_void_p.from_address(tensor + 64).value).value = 1 << 62  # DLTensor.strides[0]
np.testing.assert_raises((BufferError, RuntimeError, ValueError), torch.from_dlpack, capsule)
