# A copy= that is neither None nor a truth value is taken for one.
import unittest, numpy as np
with unittest.TestCase().assertRaises(Exception, msg="a wrong argument is to be refused"):
    np.ones(4).__dlpack__(copy=(False,))
