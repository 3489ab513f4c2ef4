# from_dlpack imports a tensor of shape (2**32, 2**32), whose number of elements overflows: its numel() is 0.
import ctypes, unittest, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones((2, 2), "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
shape = ctypes.c_void_p.from_address(tensor + 24).value  # DLTensor.shape
ctypes.c_int64.from_address(shape).value = ctypes.c_int64.from_address(shape + 8).value = 2**32
with unittest.TestCase().assertRaises(Exception, msg="a number of elements that overflows is to be refused"):
    tvm_ffi.from_dlpack(capsule).shape
