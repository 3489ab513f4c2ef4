# jnp.from_dlpack makes an array of -2**63 elements, where it refuses -1 and others.
import ctypes, types, unittest, jax.numpy as jnp, numpy as np
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
ctypes.c_int64.from_address(ctypes.c_void_p.from_address(tensor + 24).value).value = -(2**63)  # DLTensor.shape[0]
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="a tensor with a negative extent is to be refused"):
    jnp.from_dlpack(producer)
