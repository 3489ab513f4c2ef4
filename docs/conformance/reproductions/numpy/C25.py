# np.from_dlpack of a tensor with one dimension, whose shape is NULL, is a segmentation fault.
import ctypes, types, unittest, numpy as np
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_void_p.from_address(tensor + 56).value = None  # DLTensor.shape
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="a tensor with dimensions, but without a shape, is to be refused"):
    np.from_dlpack(producer)
