# A tensor that was copied lazily moves when it is written to: an export of it does not show that, and may dangle.
import numpy as np, torch

t = torch.zeros(3)
a = np.from_dlpack(t)
copy = torch._lazy_clone(t)
t[0] = 1
assert a[0] == 1, "an export is a view of the tensor"
