# A view that is read-only is lent by the exchange table, as a DLTensor, which cannot say so.
import ctypes, unittest, numpy as np
from cuda.core.utils import StridedMemoryView

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
table = get(ctypes.py_object(StridedMemoryView.__dlpack_c_exchange_api__), b"dlpack_exchange_api")
a = np.zeros(4)
a.flags.writeable = False
x = StridedMemoryView.from_dlpack(a, stream_ptr=-1)
lend = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, pointer)(pointer.from_address(table + 40).value)
with unittest.TestCase().assertRaises(BufferError, msg="what is read-only is not to be lent without a flag"):
    lend(x, (ctypes.c_uint8 * 48)())
