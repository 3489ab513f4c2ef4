# from_dlpack imports a tensor of -1 dimensions.
import ctypes, unittest, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
ctypes.c_int32.from_address(tensor + 16).value = -1  # DLTensor.ndim
with unittest.TestCase().assertRaises((BufferError, ValueError), msg="-1 dimensions are to be refused"):
    tvm_ffi.from_dlpack(capsule).shape
