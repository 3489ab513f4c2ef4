# Tensor.from_dlpack does not fall back, as the array API says, where __dlpack__ has no dl_device and copy.
import types, numpy as np, pyarrow as pa
export = np.ones(4).__dlpack__
producer = types.SimpleNamespace(
    __dlpack__=lambda stream=None, max_version=None: export(stream=stream, max_version=max_version),
    __dlpack_device__=lambda: (1, 0),
)
assert pa.Tensor.from_dlpack(producer).shape == (4,)
