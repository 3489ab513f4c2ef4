# A subclass with a __dlpack__ of its own inherits the exchange table, by which consumers go past it.
import torch


class Refusing(torch.Tensor):
    def __dlpack__(self, **options):
        raise BufferError("not to be exported")


table = getattr(Refusing, "__dlpack_c_exchange_api__", None)
assert table is not torch.Tensor.__dlpack_c_exchange_api__, "no table, or one that heeds __dlpack__"
