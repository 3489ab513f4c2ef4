# torch 2.14.1: to_dlpack makes a writable capsule of a ReadOnlyTensorWrapper.
import numpy as np, torch
from torch.utils.dlpack import ReadOnlyTensorWrapper, to_dlpack

np.testing.assert_raises((BufferError, RuntimeError), to_dlpack, ReadOnlyTensorWrapper(torch.zeros(3)))
