# __dlpack__(stream=0) of a view on the CPU, which has no streams, is accepted: None alone is to be.
import unittest, numpy as np
from cuda.core.utils import StridedMemoryView

x = StridedMemoryView.from_dlpack(np.ones(4), stream_ptr=-1)
with unittest.TestCase().assertRaises(Exception):
    x.__dlpack__(stream=0)
