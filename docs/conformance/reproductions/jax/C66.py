# jnp.from_dlpack copies memory that is aligned to its elements and to 32 bytes, but not to 64.
import jax.numpy as jnp, numpy as np
room = np.zeros(80, "f4")
a = room[-room.ctypes.data % 64 // 4 + 8 :][:64]
x = jnp.from_dlpack(a)
assert x.unsafe_buffer_pointer() == a.ctypes.data, "the memory is to be shared if possible"
