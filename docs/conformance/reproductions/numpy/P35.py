# The memory of new arrays is not aligned to 256 bytes, as dlpack.h has it (though it says not to rely on that).
import numpy as np
arrays = [np.zeros(size) for size in range(1, 100)]
assert all(a.ctypes.data % 256 == 0 for a in arrays), "new arrays should be aligned to 256 bytes"
