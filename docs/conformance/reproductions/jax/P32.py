# The data of an array without elements is exported as a pointer, which should be NULL.
import ctypes, jax.numpy as jnp
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = jnp.ones(0).__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
assert ctypes.c_void_p.from_address(tensor).value is None, "DLTensor.data of no elements should be NULL"
