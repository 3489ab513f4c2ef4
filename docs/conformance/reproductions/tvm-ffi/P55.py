# __dlpack__(copy=True) gives the memory of the tensor itself if no max_version is named.
import contextlib, numpy as np, tvm_ffi

x = tvm_ffi.from_dlpack(np.ones(4))
with contextlib.suppress(BufferError):  # which it may raise
    y = tvm_ffi.from_dlpack(x.__dlpack__(copy=True))
    assert y.data_ptr() != x.data_ptr(), "copy=True must always copy"
