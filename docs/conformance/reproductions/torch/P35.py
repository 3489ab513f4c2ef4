# New memory is aligned to 64 bytes, but dlpack.h promises 256 (and says that nobody should rely on it).
import torch

tensors = [torch.zeros(2) for _ in range(8)]
assert all(t.data_ptr() % 256 == 0 for t in tensors), "the data should be aligned to 256 bytes"
