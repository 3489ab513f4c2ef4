# A tensor whose strides are no multiples of the size of an element is exported with wrong strides and values.
import numpy as np, pyarrow as pa
records = np.zeros(4, [("mark", "i1"), ("number", "f8")])
records["number"] = [1, 2, 3, 4]
try:
    x = np.from_dlpack(pa.Tensor.from_numpy(records["number"]))
except BufferError:
    raise SystemExit  # as is due
assert x.tolist() == [1, 2, 3, 4], f"{x} is exported instead of 1, 2, 3 and 4: raise BufferError"
