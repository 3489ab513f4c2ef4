# A stream is accepted where a tensor on the CPU is asked for, which has no streams.
import unittest, numpy as np, tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(4))
with unittest.TestCase().assertRaises(Exception):
    x.__dlpack__(dl_device=(1, 0), stream=1, max_version=(1, 3))
