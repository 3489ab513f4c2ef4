# Tensor.from_dlpack accepts shape (2**32, 2**32), strides (0, 0), whose number of elements overflows: size is 0.
import ctypes, types, unittest, numpy as np, pyarrow as pa
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.broadcast_to(np.float32(1), (2, 2)).__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
shape = ctypes.c_void_p.from_address(tensor + 56).value  # DLTensor.shape
ctypes.c_int64.from_address(shape).value = ctypes.c_int64.from_address(shape + 8).value = 2**32
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="a number of elements that overflows is to be refused"):
    pa.Tensor.from_dlpack(producer)
