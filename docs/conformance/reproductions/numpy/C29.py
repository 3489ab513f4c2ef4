# np.from_dlpack lets a stride of 2**62 floats overflow: the strides of the array are (0,), all elements are the first.
import ctypes, types, unittest, numpy as np
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_int64.from_address(ctypes.c_void_p.from_address(tensor + 64).value).value = 2**62  # DLTensor.strides[0]
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="a tensor whose strides overflow is to be refused"):
    np.from_dlpack(producer)
