# from_dlpack asks for unversioned capsules alone, which cannot say that an array is read-only.
import types, numpy as np, tvm_ffi

asked = {}
export = lambda **keywords: asked.update(keywords) or np.ones(4).__dlpack__(**keywords)
tvm_ffi.from_dlpack(types.SimpleNamespace(__dlpack__=export, __dlpack_device__=lambda: (1, 0)))
assert (asked.get("max_version") or (0, 0)) >= (1, 0), f"max_version is to be (1, 0) or more: {asked}"
