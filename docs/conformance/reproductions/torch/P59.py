# What cannot be exported to another device without a copy is refused by ValueError, but must be by BufferError.
import numpy as np, torch

np.testing.assert_raises(BufferError, torch.zeros(2).__dlpack__, dl_device=(2, 0), copy=False)
