# Devices that cannot be exported to, as OpenCL, or CUDA without a GPU, are not refused by BufferError.
import numpy as np, torch

t = torch.zeros(2)
for kind in (4,) if torch.cuda.is_available() else (2, 4):
    np.testing.assert_raises(BufferError, t.__dlpack__, dl_device=(kind, 0))
