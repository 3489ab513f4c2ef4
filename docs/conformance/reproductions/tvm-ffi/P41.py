# __dlpack__(max_version=(0, 8)) raises AttributeError: it calls a method __ctypes_handle__to_dlpack that is not there.
import contextlib, numpy as np, tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(4))
with contextlib.suppress(BufferError):  # which it may raise
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8))), "an unversioned capsule is due"
