# A tensor is exported to the CPU of number 99, but there is no such device.
import numpy as np, torch

np.testing.assert_raises((BufferError, TypeError, ValueError), torch.zeros(2).__dlpack__, dl_device=(1, 99))
