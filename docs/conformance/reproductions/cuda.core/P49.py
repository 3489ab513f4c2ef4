# __dlpack__(dl_device=(1, 0)), for a tensor on the CPU, raises BufferError, though that is where the view is.
import numpy as np
from cuda.core.utils import StridedMemoryView

x = StridedMemoryView.from_dlpack(np.ones(4), stream_ptr=-1)
x.__dlpack__(dl_device=(1, 0))  # must give a capsule, as x.__dlpack__() does
