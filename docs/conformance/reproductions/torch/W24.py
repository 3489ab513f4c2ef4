# What a consumer writes to a tensor shows in a lazy copy that was made after the export: it shares that memory.
import numpy as np, torch

t = torch.zeros(3)
a = np.from_dlpack(t)
copy = torch._lazy_clone(t)
a[0] = 1
assert copy[0] == 0, "a copy must keep its values"
