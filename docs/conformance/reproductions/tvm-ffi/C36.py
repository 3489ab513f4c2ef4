# from_dlpack reads a tensor of DLPack 2, though its layout is known of major version 1 alone.
import ctypes, unittest, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_uint32.from_address(tensor).value = 2  # DLPackVersion.major
with unittest.TestCase().assertRaises(Exception, msg="a tensor of another major version is to be refused"):
    tvm_ffi.from_dlpack(capsule)
