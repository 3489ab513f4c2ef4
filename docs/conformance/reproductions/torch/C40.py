# An array that is imported as read-only is written to: the flag is ignored (which the array API allows).
import numpy as np, torch

a = np.zeros(3)
a.flags.writeable = False
try:
    torch.from_dlpack(a)[0] = 1
except (BufferError, RuntimeError, ValueError):
    pass
assert a[0] == 0, "the array is read-only"
