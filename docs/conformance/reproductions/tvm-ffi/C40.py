# The flag READ_ONLY is lost when a tensor is imported: its memory can be written to.
import contextlib, numpy as np, tvm_ffi

a = np.zeros(4)
a.flags.writeable = False  # so that the capsule has the flag READ_ONLY
x = tvm_ffi.from_dlpack(a.__dlpack__(max_version=(1, 3)))
with contextlib.suppress(ValueError):  # of NumPy, which writes to nothing that is read-only
    np.from_dlpack(x)[0] = 9
assert a[0] == 0, "read-only memory is not to be written to"
