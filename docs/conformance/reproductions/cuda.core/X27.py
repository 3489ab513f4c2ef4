# The allocator of the exchange table leaves an exception set, though it reports its errors by SetError.
import ctypes, numpy as np
from cuda.core.utils import StridedMemoryView

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
table = get(ctypes.py_object(StridedMemoryView.__dlpack_c_exchange_api__), b"dlpack_exchange_api")
capsule = ctypes.py_object(np.ones(4).__dlpack__())
prototype = get(capsule, b"dltensor")
set_error = ctypes.CFUNCTYPE(None, pointer, ctypes.c_char_p, ctypes.c_char_p)(lambda *words: None)
allocate = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer)(pointer.from_address(table + 16).value)
allocate(prototype, ctypes.byref(pointer()), None, set_error)  # raises what is left set: nothing must be
