# A tensor that was imported with the flag READ_ONLY is exported by an unversioned capsule, which looks writable.
import unittest, numpy as np, tvm_ffi

a = np.zeros(4)
a.flags.writeable = False  # so that the capsule has the flag READ_ONLY
x = tvm_ffi.from_dlpack(a.__dlpack__(max_version=(1, 3)))
with unittest.TestCase().assertRaises(BufferError):
    x.__dlpack__()
