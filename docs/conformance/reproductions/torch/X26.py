# The allocator of the exchange table reads a shape of -1 dimensions without an end (SIGSEGV, here beyond a page).
import ctypes, mmap, torch

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
table = get(ctypes.py_object(torch.Tensor.__dlpack_c_exchange_api__), b"dlpack_exchange_api")
allocate = ctypes.CFUNCTYPE(ctypes.c_int, *4 * [pointer])(pointer.from_address(table + 16).value)
set_error = ctypes.CFUNCTYPE(None, pointer, ctypes.c_char_p, ctypes.c_char_p)(lambda *words: None)
pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
prototype = ctypes.addressof(ctypes.c_char.from_buffer(pages))
ctypes.CDLL(None).mprotect(pointer(prototype + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 0)
fields = (ctypes.c_int64 * 4).from_address(prototype)
fields[:] = 0, 1, 0x00012002_FFFFFFFF, prototype + 48  # data, device (CPU), ndim (-1) and dtype (float32), shape
assert allocate(prototype, ctypes.byref(pointer()), None, set_error) == -1, "-1 dimensions must be refused"
