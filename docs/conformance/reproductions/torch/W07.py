# torch 2.14.1: a copy of a ReadOnlyTensorWrapper is read-only, though it is the consumer's own.
import numpy as np, torch
from torch.utils.dlpack import ReadOnlyTensorWrapper

a = np.from_dlpack(ReadOnlyTensorWrapper(torch.zeros(3)), copy=True)
assert a.flags.writeable, "READ_ONLY should not be set where IS_COPIED is due"
