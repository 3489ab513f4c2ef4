# __dlpack__(stream=object()) is accepted, though a stream is None or an integer.
import unittest, numpy as np, tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(4))
with unittest.TestCase().assertRaises((TypeError, ValueError)):
    x.__dlpack__(stream=object())
