# What was imported with the flag READ_ONLY is exported by an unversioned capsule, which cannot say so.
import contextlib, numpy as np, torch

a = np.zeros(3)
a.flags.writeable = False
with contextlib.suppress(BufferError):
    torch.from_dlpack(a).__dlpack__()
    raise AssertionError("a BufferError is due, as from NumPy")
