# __dlpack__(max_version=(1,)) raises BufferError, as if the view were to blame, and not the argument.
import unittest, numpy as np
from cuda.core.utils import StridedMemoryView

x = StridedMemoryView.from_dlpack(np.ones(4), stream_ptr=-1)
with unittest.TestCase().assertRaises((TypeError, ValueError)):
    x.__dlpack__(max_version=(1,))
