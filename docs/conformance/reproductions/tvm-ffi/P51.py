# __dlpack__(dl_device=(2, 0)), for a tensor on a GPU, gives one on the CPU if no max_version is named.
import unittest, numpy as np, tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(4))
with unittest.TestCase().assertRaises(BufferError):
    x.__dlpack__(dl_device=(2, 0))
