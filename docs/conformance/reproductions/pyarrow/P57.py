# __dlpack__(copy=True) of a tensor that is not contiguous copies too few bytes: the last elements are wrong.
import numpy as np, pyarrow as pa
a = np.arange(30.0).reshape(5, 6)[::2]
x = np.from_dlpack(pa.Tensor.from_numpy(a), copy=True)
assert (x == a).all(), f"a copy has the elements\n{x}\nbut is to have\n{a}"
