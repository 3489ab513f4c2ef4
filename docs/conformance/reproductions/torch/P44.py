# A max_version that is no pair of numbers is accepted.
import numpy as np, torch

np.testing.assert_raises((TypeError, ValueError), torch.zeros(2).__dlpack__, max_version=(1,))
