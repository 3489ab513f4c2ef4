# A subclass with a __dlpack__ of its own inherits the exchange table, which goes past that.
from cuda.core.utils import StridedMemoryView

Derived = type("Derived", (StridedMemoryView,), {"__dlpack__": lambda self, **keywords: None})
table = getattr(Derived, "__dlpack_c_exchange_api__", None)
assert table is not StridedMemoryView.__dlpack_c_exchange_api__, "a subclass that exports itself is to be asked"
