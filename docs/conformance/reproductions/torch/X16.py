# What the exchange table makes of a read-only tensor is written to: the flag is ignored (which the array API allows).
import contextlib, ctypes, numpy as np, torch

pointer, get = ctypes.c_void_p, ctypes.pythonapi.PyCapsule_GetPointer
get.restype = pointer
table = get(ctypes.py_object(torch.Tensor.__dlpack_c_exchange_api__), b"dlpack_exchange_api")
to_py_object = ctypes.PYFUNCTYPE(ctypes.c_int, pointer, pointer)(pointer.from_address(table + 32).value)
a, out = np.zeros(3), ctypes.py_object()
a.flags.writeable = False
capsule = ctypes.py_object(a.__dlpack__(max_version=(1, 3)))
ctypes.pythonapi.Py_IncRef(capsule)  # so that it never deletes the tensor, which the table takes
with contextlib.suppress(Exception):  # which is as good
    to_py_object(get(capsule, b"dltensor_versioned"), ctypes.byref(out))
    out.value[0] = 1
assert a[0] == 0, "the array is read-only"
