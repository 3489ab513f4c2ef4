# The exchange table makes a Tensor of a tensor of DLPack 2, of which it cannot know the layout.
import ctypes, unittest, numpy as np, torch

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
table = get(ctypes.py_object(torch.Tensor.__dlpack_c_exchange_api__), b"dlpack_exchange_api")
to_py_object = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, pointer)(pointer.from_address(table + 32).value)
capsule = ctypes.py_object(np.ones(4).__dlpack__(max_version=(1, 3)))
ctypes.pythonapi.Py_IncRef(capsule)  # so that it never deletes the tensor, which the table takes
tensor = get(capsule, b"dltensor_versioned")
ctypes.c_uint32.from_address(tensor).value = 2  # DLPackVersion.major
with unittest.TestCase().assertRaises(Exception, msg="a tensor of another major version must be refused"):
    to_py_object(tensor, ctypes.byref(pointer()))
