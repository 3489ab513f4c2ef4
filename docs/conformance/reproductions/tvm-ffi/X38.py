# An exchange table without functions, which it must not be, is a segmentation fault.
import contextlib, ctypes, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
table = (ctypes.c_uint64 * 7)(1)  # version 1.0, and null pointers
capsule = ctypes.pythonapi.PyCapsule_New(table, b"dlpack_exchange_api", None)
Array = type("Array", (np.ndarray,), {"__dlpack_c_exchange_api__": capsule})
with contextlib.suppress(Exception):  # which it may raise, but not crash
    tvm_ffi.from_dlpack(np.ones(4).view(Array))
