# The flag READ_ONLY of an imported tensor is not there when that is exported again.
import numpy as np, tvm_ffi

a = np.zeros(4)
a.flags.writeable = False  # so that the capsule has the flag READ_ONLY
x = tvm_ffi.from_dlpack(a.__dlpack__(max_version=(1, 3)))
assert not np.from_dlpack(x).flags.writeable, "what was imported with READ_ONLY is to be exported with it"
