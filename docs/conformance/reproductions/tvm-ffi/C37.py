# from_dlpack reads more of a tensor of DLPack 2 than the deleter: what it takes for the shape leads nowhere.
import ctypes, unittest, numpy as np, tvm_ffi

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_uint32.from_address(tensor).value = 2  # DLPackVersion.major
ctypes.memset(tensor + 32, 0xA5, 48)  # where DLPack 1 has the DLTensor
with unittest.TestCase().assertRaises(Exception, msg="a tensor of another major version is to be refused"):
    tvm_ffi.from_dlpack(capsule)
