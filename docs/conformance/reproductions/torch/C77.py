# A tensor of DLPack 2.0 is refused by RuntimeError, and not as all that cannot be imported by BufferError.
import ctypes, numpy as np, torch

capsule = np.ones(4).__dlpack__(max_version=(1, 3))
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_uint32.from_address(tensor).value = 2  # DLPackVersion.major
np.testing.assert_raises(BufferError, torch.from_dlpack, capsule)
