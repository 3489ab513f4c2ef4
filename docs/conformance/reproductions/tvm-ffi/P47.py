# __dlpack__(stream=0) of a tensor on the CPU, which has no streams, is accepted: None alone is to be.
import unittest, numpy as np, tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(4))
with unittest.TestCase().assertRaises(Exception):
    x.__dlpack__(stream=0)
