# The flags of a copy are 0, but DLPACK_FLAG_BITMASK_IS_COPIED must be set.
import ctypes, torch

capsule = torch.zeros(2).__dlpack__(max_version=(1, 3), copy=True)
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
flags = ctypes.c_uint64.from_address(tensor + 24).value
assert flags & 2, "IS_COPIED must be set"
