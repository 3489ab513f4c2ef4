# torch 2.14.1: a write to an imported ReadOnlyTensorWrapper of a lazy copy changes the tensor that was copied.
import torch
from torch.utils.dlpack import ReadOnlyTensorWrapper

t = torch.zeros(3)
try:
    torch.from_dlpack(ReadOnlyTensorWrapper(t._lazy_clone())).fill_(1)
except (BufferError, RuntimeError, ValueError):
    pass
assert not t.any(), "a write to a copy must not change the original"
