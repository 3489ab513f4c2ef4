# A versioned tensor of DLPack 0.8 is imported, but only that of major version 1 has a known layout.
import ctypes, numpy as np, torch

capsule = np.ones(4).__dlpack__(max_version=(1, 3))
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_uint64.from_address(tensor).value = 8 << 32  # DLPackVersion: major 0, minor 8
np.testing.assert_raises((BufferError, RuntimeError, ValueError), torch.from_dlpack, capsule)
