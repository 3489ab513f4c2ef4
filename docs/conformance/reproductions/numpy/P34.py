# The memory of new arrays is not aligned to 64 bytes, so that JAX copies it instead of sharing it.
import numpy as np
arrays = [np.zeros(size) for size in range(1, 100)]
assert all(a.ctypes.data % 64 == 0 for a in arrays), "new arrays should be aligned to 64 bytes"
