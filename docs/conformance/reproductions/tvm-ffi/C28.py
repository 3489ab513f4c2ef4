# from_dlpack imports a tensor of 2**62 floats, whose number of bytes overflows.
import ctypes, unittest, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
shape = ctypes.c_void_p.from_address(tensor + 24).value  # DLTensor.shape
ctypes.c_int64.from_address(shape).value = 2**62
with unittest.TestCase().assertRaises(Exception, msg="a number of bytes that overflows is to be refused"):
    tvm_ffi.from_dlpack(capsule).shape
