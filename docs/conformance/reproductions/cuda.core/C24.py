# from_dlpack imports a tensor of -1 dimensions: asking for its shape is a SystemError.
import ctypes, types, unittest, numpy as np
from cuda.core.utils import StridedMemoryView

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_int32.from_address(tensor + 48).value = -1  # DLTensor.ndim
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises((BufferError, ValueError), msg="-1 dimensions are to be refused"):
    StridedMemoryView.from_dlpack(producer, stream_ptr=-1).shape
