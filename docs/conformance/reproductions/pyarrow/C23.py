# Tensor.from_dlpack makes a tensor at a null pointer, which cannot be read, of a tensor whose data is NULL.
import ctypes, types, unittest, numpy as np, pyarrow as pa
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_void_p.from_address(tensor + 32).value = None  # DLTensor.data
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="a tensor with elements, but without data, is to be refused"):
    pa.Tensor.from_dlpack(producer)
