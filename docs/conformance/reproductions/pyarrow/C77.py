# Tensor.from_dlpack raises ArrowInvalid for an unknown dtype, where the array API has BufferError.
import ctypes, types, unittest, numpy as np, pyarrow as pa
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__(max_version=(1, 3))
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
ctypes.c_uint8.from_address(tensor + 52).value = 99  # DLTensor.dtype.code, of no dtype
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(BufferError, msg="what cannot be imported is to be refused with BufferError"):
    pa.Tensor.from_dlpack(producer)
