# np.from_dlpack(copy=True) shares the memory of a producer that ignores copy, though no flag says IS_COPIED.
import contextlib, types, numpy as np
a = np.zeros(4)
capsule = a.__dlpack__(max_version=(1, 3))
producer = types.SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
with contextlib.suppress(BufferError):  # to refuse is as well
    x = np.from_dlpack(producer, copy=True)
    a[0] = 5
    assert x[0] == 0, "with copy=True the memory is to be a copy"
