# torch 2.14.1: a read-only export keeps the tensor, but not the memory: after a write to it that is freed (SIGSEGV).
import numpy as np, torch
from torch.utils.dlpack import ReadOnlyTensorWrapper

t = torch.zeros(1 << 24)
copy = torch._lazy_clone(t)
a = np.from_dlpack(ReadOnlyTensorWrapper(copy))
copy[0] = 1  # moves the copy to memory of its own
del t  # and with it the last tensor on the memory that was exported
assert not a.any() or a[0] == 1, "an export must keep its memory"
