# torch 2.14.1: a ReadOnlyTensorWrapper that is imported again is written through (which the array API allows).
import torch
from torch.utils.dlpack import ReadOnlyTensorWrapper

t = torch.zeros(3)
try:
    torch.from_dlpack(ReadOnlyTensorWrapper(t)).fill_(1)
except (BufferError, RuntimeError, ValueError):
    pass
assert not t.any(), "the export is read-only"
