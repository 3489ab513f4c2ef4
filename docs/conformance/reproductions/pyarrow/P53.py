# A dl_device that is no tuple raises BufferError, as if the tensor were to blame, and not the argument.
import unittest, numpy as np, pyarrow as pa
with unittest.TestCase().assertRaises((TypeError, ValueError)):
    pa.Tensor.from_numpy(np.ones(4)).__dlpack__(dl_device="cpu")
