# from_dlpack imports a tensor whose stride of 2**62 floats leads to where no addresses are.
import ctypes, unittest, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
strides = ctypes.c_void_p.from_address(tensor + 32).value  # DLTensor.strides
ctypes.c_int64.from_address(strides).value = 2**62
with unittest.TestCase().assertRaises(Exception, msg="strides that overflow are to be refused"):
    tvm_ffi.from_dlpack(capsule).shape
