# torch 2.14.1: the exchange table lends a ReadOnlyTensorWrapper as a DLTensor, which cannot say that it is read-only.
import ctypes, unittest, torch
from torch.utils.dlpack import ReadOnlyTensorWrapper

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
table = get(ctypes.py_object(ReadOnlyTensorWrapper.__dlpack_c_exchange_api__), b"dlpack_exchange_api")
address = pointer.from_address(table + 40).value  # dltensor_from_py_object_no_sync, which may be NULL
lend = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, pointer)(address)
if address:
    with unittest.TestCase().assertRaises(Exception, msg="what is read-only must not be lent without a flag"):
        lend(ReadOnlyTensorWrapper(torch.zeros(3)), (ctypes.c_uint8 * 48)())
