# copy=True shares the memory of a producer that takes the keyword and does not heed it, as its flags say.
import numpy as np, torch


class Producer:
    a = np.zeros(3)
    __dlpack_device__ = a.__dlpack_device__

    def __dlpack__(self, copy=None, **options):
        return self.a.__dlpack__(**options)


t = torch.from_dlpack(Producer(), copy=True)
Producer.a[0] = 1
assert t[0] == 0, "copy=True must copy"
