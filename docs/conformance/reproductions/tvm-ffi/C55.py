# from_dlpack of an object without __dlpack__ raises TypeError, where the array API has AttributeError.
import unittest, tvm_ffi

with unittest.TestCase().assertRaises(AttributeError):
    tvm_ffi.from_dlpack(object())
