# A dl_device that is no tuple raises BufferError, as if the tensor were to blame, and not the argument.
import unittest, numpy as np, tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(4))
with unittest.TestCase().assertRaises((TypeError, ValueError)):
    x.__dlpack__(dl_device="cpu", max_version=(1, 3))
