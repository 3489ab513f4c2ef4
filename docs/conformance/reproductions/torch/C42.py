# What was imported as read-only is exported again as writable.
import contextlib, numpy as np, torch

a = np.zeros(3)
a.flags.writeable = False
with contextlib.suppress(BufferError):  # which is as good
    b = np.from_dlpack(torch.from_dlpack(a))
    assert not b.flags.writeable, "READ_ONLY should be set again, or the export be refused"
