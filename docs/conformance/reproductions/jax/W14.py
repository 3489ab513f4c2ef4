# Arrays, which are immutable, are exported without the flag READ_ONLY, so that consumers write to them.
import ctypes, jax.numpy as jnp
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = jnp.ones(4).__dlpack__(max_version=(1, 3))
assert '"dltensor_versioned"' in repr(capsule), f"{capsule} has no flags, so that it looks writable"
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
assert ctypes.c_uint64.from_address(tensor + 24).value & 1, "the flag READ_ONLY is to be set"
