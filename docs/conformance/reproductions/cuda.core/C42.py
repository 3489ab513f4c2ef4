# A view of what was imported with the flag READ_ONLY is exported by an unversioned capsule, which looks writable.
import unittest, numpy as np
from cuda.core.utils import StridedMemoryView

a = np.zeros(4)
a.flags.writeable = False
x = StridedMemoryView.from_dlpack(a, stream_ptr=-1)
assert x.readonly
with unittest.TestCase().assertRaises(BufferError, msg="an unversioned capsule cannot say that it is read-only"):
    x.__dlpack__()
