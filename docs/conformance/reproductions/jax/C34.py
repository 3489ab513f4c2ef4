# jnp.from_dlpack takes the memory of a tensor on a Metal device (8) for the CPU's, because __dlpack_device__ says so.
import ctypes, types, unittest, jax.numpy as jnp, numpy as np
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
ctypes.c_int32.from_address(tensor + 8).value = 8  # DLTensor.device.device_type, kDLMetal
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with unittest.TestCase().assertRaises(Exception, msg="a tensor on a device that is not there is to be refused"):
    jnp.from_dlpack(producer)
