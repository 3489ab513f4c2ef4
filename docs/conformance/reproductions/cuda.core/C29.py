# from_dlpack imports a tensor whose stride of 2**62 floats leads to where no addresses are.
import ctypes, types, unittest, numpy as np
from cuda.core.utils import StridedMemoryView

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
strides = ctypes.c_void_p.from_address(tensor + 64).value  # DLTensor.strides
ctypes.c_int64.from_address(strides).value = 2**62
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="strides that overflow are to be refused"):
    StridedMemoryView.from_dlpack(producer, stream_ptr=-1).shape
