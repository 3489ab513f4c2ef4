# from_dlpack imports a tensor of 2**62 floats, whose number of bytes overflows.
import ctypes, types, unittest, numpy as np
from cuda.core.utils import StridedMemoryView

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
shape = ctypes.c_void_p.from_address(tensor + 56).value  # DLTensor.shape
ctypes.c_int64.from_address(shape).value = 2**62
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="a number of bytes that overflows is to be refused"):
    StridedMemoryView.from_dlpack(producer, stream_ptr=-1).shape
