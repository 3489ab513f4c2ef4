# jnp.from_dlpack of a tensor with one dimension, whose shape is NULL, is a segmentation fault.
import ctypes, types, unittest, jax.numpy as jnp, numpy as np
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
ctypes.c_void_p.from_address(tensor + 24).value = None  # DLTensor.shape
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="a tensor with dimensions, but without a shape, is to be refused"):
    jnp.from_dlpack(producer)
