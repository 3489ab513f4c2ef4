# __dlpack__(stream=1.0) is accepted, though a stream is None or an integer.
import unittest, numpy as np
from cuda.core.utils import StridedMemoryView

x = StridedMemoryView.from_dlpack(np.ones(4), stream_ptr=-1)
with unittest.TestCase().assertRaises((TypeError, ValueError)):
    x.__dlpack__(stream=1.0)
