# The deleter, called after the interpreter has ended, as by C++ at exit, is a segmentation fault.
import ctypes, numpy as np
from cuda.core.utils import StridedMemoryView

x = StridedMemoryView.from_dlpack(np.ones(4), stream_ptr=-1)
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = ctypes.py_object(x.__dlpack__(max_version=(1, 3)))
ctypes.pythonapi.Py_IncRef(capsule)  # for ever: it is the consumer who deletes the tensor
tensor = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
deleter = ctypes.c_void_p.from_address(tensor + 16)
ctypes.CDLL(None).__cxa_atexit(deleter, ctypes.c_void_p(tensor), None)  # must not crash: there is no GIL to take
