# A deleter is called that is NULL, as it may be: std::bad_function_call, which ends the process if memory is shared.
import ctypes, types, jax.numpy as jnp, numpy as np
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
capsule = np.ones(4, "f4").__dlpack__()
tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
ctypes.c_void_p.from_address(tensor + 56).value = None  # DLManagedTensor.deleter
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
x = jnp.from_dlpack(producer)
del x
