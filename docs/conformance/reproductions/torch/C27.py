# Where the number of elements overflows, torch.from_dlpack calls the deleter, and leaves the capsule to call it again.
import ctypes, numpy as np, torch

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
capsule, calls, shape = np.ones((2, 2)).__dlpack__(max_version=(1, 3)), [], (ctypes.c_int64 * 2)(1 << 32, 1 << 32)
tensor = get(ctypes.py_object(capsule), b"dltensor_versioned")
deleter = ctypes.CFUNCTYPE(None, pointer)(calls.append)
pointer.from_address(tensor + 16).value = ctypes.cast(deleter, pointer).value  # DLManagedTensorVersioned.deleter
pointer.from_address(tensor + 56).value = ctypes.addressof(shape)  # DLTensor.shape
np.testing.assert_raises((BufferError, RuntimeError, ValueError), torch.from_dlpack, capsule)
del capsule
assert len(calls) == 1, "the deleter must be called once"
