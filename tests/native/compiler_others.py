"""Functions for the tests of the compiler that call those of `compiler_samples`, and some of each way of compiling."""

# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

from ctypes import PYFUNCTYPE, c_int, c_int64, c_void_p

from nbdlpack.native.compiler import extern
from tests.native.compiler_samples import TEN, absolute, gcd, longs, recursive

PyErr_SetString = extern("PyErr_SetString", None, c_void_p, c_void_p)
PyErr_Occurred = extern("PyErr_Occurred", c_void_p)
VALUE_ERROR = id(ValueError)
Callback = PYFUNCTYPE(c_int64, c_int64)

TEN_HERE = 11


def elsewhere(a: c_int64, b: c_int64) -> c_int64:
    """Names are those of the module they stand in, also within the parts from others."""
    return gcd(a, b) * 1000 + absolute(b) + recursive(a & 7, b) + TEN + TEN_HERE


def quick(n: c_int64) -> c_int64:
    return fast(n) + rare(n, 1) + 1


def fast(n: c_int64) -> c_int64:
    return n * 2 + rare(n, 2) if n & 1 else n * 2


def quick_addresses(p: longs):
    p[0], p[1], p[2], p[3] = quick, fast, rare, alone


def fast_addresses(p: longs):
    p[0], p[1], p[2], p[3] = quick, fast, rare, alone


def rare(n: c_int64, k: c_int) -> c_int64:
    return alone() + n + k if n < 100 else quick(n - 100)


def alone() -> c_int64:
    return 1 << 20


def rare_addresses(p: longs) -> c_int64:
    p[0], p[1], p[2], p[3] = quick, fast, rare, alone
    return rare(1, 2)


def rare_raise(n: c_int64) -> c_int:
    if n:
        PyErr_SetString(VALUE_ERROR, b"from a cold function")
        return -1
    return 7


def rare_pending() -> c_int64:
    return PyErr_Occurred()


def set_and_call() -> c_int64:
    PyErr_SetString(VALUE_ERROR, b"set before")
    return 1 if rare_pending() else 2


def without_result(p: longs):
    p[0] = 1
