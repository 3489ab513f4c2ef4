# A copy= that is neither None nor a truth value is accepted.
import unittest, numpy as np, pyarrow as pa
with unittest.TestCase().assertRaises(Exception, msg="a wrong argument is to be refused"):
    pa.Tensor.from_numpy(np.ones(4)).__dlpack__(copy="no", max_version=(1, 3))
