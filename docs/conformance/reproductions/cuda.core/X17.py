# The exchange table makes a view of a tensor of DLPack 2, though its layout is not known.
import ctypes, unittest, numpy as np
from cuda.core.utils import StridedMemoryView

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
table = get(ctypes.py_object(StridedMemoryView.__dlpack_c_exchange_api__), b"dlpack_exchange_api")
capsule = ctypes.py_object(np.ones(4).__dlpack__(max_version=(1, 3)))
ctypes.pythonapi.Py_IncRef(capsule)  # for ever: it is the table who deletes the tensor
tensor = get(capsule, b"dltensor_versioned")
ctypes.c_uint32.from_address(tensor).value = 2  # DLPackVersion.major
to_py_object = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, pointer)(pointer.from_address(table + 32).value)
with unittest.TestCase().assertRaises(Exception, msg="a tensor of another major version is to be refused"):
    to_py_object(tensor, ctypes.byref(pointer()))
