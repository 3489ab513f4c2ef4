# A shape of 2**62 elements, more bytes than a word counts, is imported where strides are null.
import ctypes, numpy as np, torch

capsule = np.ones(4).__dlpack__(max_version=(1, 3))
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_int64.from_address(ctypes.c_void_p.from_address(tensor + 56).value).value = 1 << 62  # DLTensor.shape[0]
ctypes.c_void_p.from_address(tensor + 64).value = None  # DLTensor.strides: compact, as before DLPack 1.2
np.testing.assert_raises((BufferError, RuntimeError, ValueError), torch.from_dlpack, capsule)
