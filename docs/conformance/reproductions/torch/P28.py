# An expanded tensor is exported as writable, though a write changes many of its elements (NumPy's are read-only).
import numpy as np, torch

a = np.from_dlpack(torch.zeros(1).expand(3))
assert not a.flags.writeable, "DLPACK_FLAG_BITMASK_READ_ONLY should be set where elements overlap"
