# jnp.from_dlpack(copy=True) shares memory: __dlpack__ is not asked for a copy, and none is made.
import contextlib, jax.numpy as jnp, numpy as np
room = np.zeros(80, "f4")
a = room[-room.ctypes.data % 64 // 4 :][:64]  # aligned to 64 bytes, as other memory is copied anyway
with contextlib.suppress(BufferError):  # to refuse is as well
    x = jnp.from_dlpack(a, copy=True)
    a[0] = 5
    assert x[0] == 0, "with copy=True the memory is to be a copy"
