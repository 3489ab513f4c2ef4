"""Exchange of small arrays, where all that is measured is the price of a call."""

from __future__ import annotations

from ctypes import PYFUNCTYPE, c_int, c_int64, c_void_p, py_object, pythonapi
from typing import TYPE_CHECKING

from benchmarks.harness import Row
from nbdlpack.native.abi import DLManagedTensorVersioned, DLPackExchangeAPI, exporter
from nbdlpack.native.compiler import compile_functions, stack

if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "What a call costs: export, import, small operations"
CYCLES = 1000

WORDS = {
    # one array of each library, of the same dtype and shape
    "a": "np.arange(1000, dtype='f4')",
    "x": "nd.arange(1000, dtype=nd.float32)",
    "t": "torch.arange(1000, dtype=torch.float32)",
    # small operands
    "x10": "nd.arange(10, dtype=nd.float32)",
    "y10": "nd.arange(10, dtype=nd.float32)",
    "t10": "torch.arange(10, dtype=torch.float32)",
    "u10": "torch.arange(10, dtype=torch.float32)",
    # names looked up beforehand, as who cares for speed does
    "Wrapper": "nd.dlpack.ReadOnlyTensorWrapper",
    # the C tables
    "cycles": "CYCLES",
    "export": "compiled()",
    "table": "address(nd.ndarray)",
    "torch_table": "address(torch.Tensor)",
}

VERSIONED = "__dlpack__(max_version=(1, 3))"
EXPORT = [
    Row("x.__dlpack__()", "x.__dlpack__()", "a.__dlpack__()", 1.0),
    Row(f"x.{VERSIONED}", f"x.{VERSIONED}", f"a.{VERSIONED}", 1.0),
    Row("x.__dlpack_device__()", "x.__dlpack_device__()", "a.__dlpack_device__()", 0.6),
    Row("C table: export + deleter", "export(table, x, cycles)", "export(torch_table, t, cycles)", 1.0, inner=CYCLES),
    Row("ReadOnlyTensorWrapper(x) + export", f"Wrapper(x).{VERSIONED}", "t.__dlpack__()", 0.5),
]
IMPORT = [
    Row("nd.from_dlpack(NumPy array)", "nd.from_dlpack(a)", "np.from_dlpack(a)", 1.0),
    Row("nd.from_dlpack(torch tensor)", "nd.from_dlpack(t)", "np.from_dlpack(t)", 0.15),
]
BY_OTHERS = [
    Row("np.from_dlpack(x)", "np.from_dlpack(x)", "np.from_dlpack(a)", 1.05),
    Row("torch.from_dlpack(x)", "torch.from_dlpack(x)", "torch.from_dlpack(a)", 1.05),
    Row("tvm_ffi.from_dlpack(x)", "tvm_ffi.from_dlpack(x)", "tvm_ffi.from_dlpack(t)", 0.8),
]
OPERATIONS = [
    Row("x[1:9]", "x[1:9]", "t[1:9]", 1.0),
    Row("x + y, 10 elements", "x10 + y10", "t10 + u10", 1.0),
    Row("nd.empty(1000)", "nd.empty(1000)", "torch.empty(1000)", 1.0),
    Row("x[5]", "x[5]", "t[5]"),
    Row("x[5] = 1", "x[5] = 1", "t[5] = 1"),
    Row("x.sum(), 1000 elements", "x.sum()", "t.sum()"),
]


def rows(largest: int) -> list[Row]:
    """Return the rows; they need no memory to speak of."""
    return [*EXPORT, *IMPORT, *BY_OTHERS, *OPERATIONS] if largest else []


# ---- what a C extension does: no Python between an array's table and its deleter -----------------------------------


def cycle(table: DLPackExchangeAPI, array: c_void_p, n: c_int64) -> c_int:
    """Export an array n times through a table of C functions, and delete each export.

    This is C for the library's own compiler, see `nbdlpack.native.compiler`, and is not run as Python.
    """
    out = stack(c_void_p * 1)
    export = exporter(table.export)
    for _ in range(n):
        if export(array, out):
            return -1
        managed = DLManagedTensorVersioned(out[0])
        managed.deleter(managed)
    return 0


def compiled() -> Callable[[int, object, int], int]:
    """Return `cycle` as machine code, that is called with the GIL held, as the table asks."""
    return PYFUNCTYPE(c_int, c_void_p, py_object, c_int64)(compile_functions([cycle])["cycle"])


def address(cls: type) -> int | None:
    """Return the address of the table of a class of arrays."""
    get_pointer = PYFUNCTYPE(c_void_p, py_object, c_void_p)(("PyCapsule_GetPointer", pythonapi))
    get_name = PYFUNCTYPE(c_void_p, py_object)(("PyCapsule_GetName", pythonapi))
    capsule = cls.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    address: int | None = get_pointer(capsule, get_name(capsule))
    return address
