# An object without __dlpack__ is not refused by AttributeError, but by a RuntimeError about capsules.
import numpy as np, torch

np.testing.assert_raises(AttributeError, torch.from_dlpack, object())
