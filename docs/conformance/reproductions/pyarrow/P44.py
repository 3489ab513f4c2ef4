# A max_version that is no pair of numbers is accepted.
import unittest, numpy as np, pyarrow as pa
with unittest.TestCase().assertRaises(Exception, msg="a wrong argument is to be refused"):
    pa.Tensor.from_numpy(np.ones(4)).__dlpack__(max_version=(1,))
