# torch 2.14.1: the flags of a copy of a ReadOnlyTensorWrapper are 1, but DLPACK_FLAG_BITMASK_IS_COPIED must be set.
import ctypes, torch
from torch.utils.dlpack import ReadOnlyTensorWrapper

capsule = ReadOnlyTensorWrapper(torch.zeros(3)).__dlpack__(max_version=(1, 3), copy=True)
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
flags = ctypes.c_uint64.from_address(tensor + 24).value
assert flags & 2, "IS_COPIED must be set"
