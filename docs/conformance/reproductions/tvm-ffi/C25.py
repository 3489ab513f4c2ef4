# from_dlpack imports a tensor of one dimension whose shape is NULL: asking for its shape is a segmentation fault.
import ctypes, unittest, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
ctypes.c_void_p.from_address(tensor + 24).value = None  # DLTensor.shape
with unittest.TestCase().assertRaises(Exception, msg="a tensor with dimensions, but without a shape, is to be refused"):
    tvm_ffi.from_dlpack(capsule).shape
