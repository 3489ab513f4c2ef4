# __dlpack__(max_version=(1,)) is accepted, though a version is a pair of numbers.
import unittest, numpy as np, tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(4))
with unittest.TestCase().assertRaises((TypeError, ValueError)):
    x.__dlpack__(max_version=(1,))
