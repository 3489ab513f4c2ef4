# A tensor with the negative bit set is exported without it, so with the wrong sign.
import numpy as np, torch

t = torch.tensor([1 + 2j]).conj().imag
try:
    a = np.from_dlpack(t)
except BufferError:  # as for the conjugate bit
    a = t.resolve_neg().numpy()
assert a[0] == -2, "t[0] is -2"
