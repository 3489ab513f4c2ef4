# What was imported with the flag READ_ONLY is exported without it, and so are its views.
import contextlib, numpy as np, torch

a = np.zeros(3)
a.flags.writeable = False
with contextlib.suppress(BufferError):  # which is as good
    view = np.from_dlpack(torch.from_dlpack(a)[1:])
    assert not view.flags.writeable, "READ_ONLY should be set again, or the export be refused"
