# The exchange table exports a tensor with the conjugate bit set as if it were not, which __dlpack__ refuses to do.
import ctypes, unittest, torch

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
table = get(ctypes.py_object(torch.Tensor.__dlpack_c_exchange_api__), b"dlpack_exchange_api")
export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, pointer)(pointer.from_address(table + 24).value)
t = torch.tensor([1 + 2j]).conj()
with unittest.TestCase().assertRaises(Exception, msg="what __dlpack__ refuses the table must refuse"):
    export(t, ctypes.byref(pointer()))
