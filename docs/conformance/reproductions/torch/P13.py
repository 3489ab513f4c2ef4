# torch.int2 is exported as integers of 8 bits, so that it comes back as another dtype.
import torch

t = torch.zeros(4, dtype=torch.int8).view(torch.int2)
try:
    back = torch.from_dlpack(t).dtype
except BufferError:  # as for torch.bits2x4 and torch.quint4x2
    back = t.dtype
assert back == t.dtype, "2 bits, with the flag for padding, or a BufferError"
