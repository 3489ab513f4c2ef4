# The memory of new arrays is not aligned to 256 bytes, as dlpack.h has it (though it says not to rely on that).
import jax.numpy as jnp
arrays = [jnp.zeros(size) for size in range(1, 100)]
assert all(x.unsafe_buffer_pointer() % 256 == 0 for x in arrays), "new arrays should be aligned to 256 bytes"
