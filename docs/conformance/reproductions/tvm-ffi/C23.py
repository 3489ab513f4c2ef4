# from_dlpack makes a tensor at a null pointer of a tensor of four elements whose data is NULL.
import ctypes, unittest, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
ctypes.c_void_p.from_address(tensor).value = None  # DLTensor.data
with unittest.TestCase().assertRaises(Exception, msg="a tensor with elements, but without data, is to be refused"):
    tvm_ffi.from_dlpack(capsule)
