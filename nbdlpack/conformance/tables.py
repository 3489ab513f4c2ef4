"""Exchange tables, called as a consumer in C calls them."""

from __future__ import annotations

import ctypes
import sys
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, byref, c_char_p, c_int, c_int32, c_int64, c_void_p, py_object
from types import SimpleNamespace
from typing import Any, Final

from nbdlpack.conformance.capsules import delete, exchange_api, read
from nbdlpack.conformance.header import CPU, VERSION, DLManagedTensorVersioned, DLPackExchangeAPI, DLTensor
from nbdlpack.conformance.memory import guarded_page
from nbdlpack.conformance.registry import Failure, NotApplicable, expect

__all__ = ["REQUIRED", "Table", "table_of"]

_SetError = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
# With the GIL, so PYFUNCTYPE, which also raises what they leave set.
_Export = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))
_Import = PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
_Borrow = PYFUNCTYPE(c_int, py_object, POINTER(DLTensor))
_Stream = PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))
# Without: it has a way of its own to report errors, so that it needs no Python.
_Allocate = CFUNCTYPE(c_int, POINTER(DLTensor), POINTER(c_void_p), c_void_p, _SetError)
_decref = PYFUNCTYPE(None, py_object)(("Py_DecRef", ctypes.pythonapi))

REQUIRED: Final = (
    "managed_tensor_allocator",
    "managed_tensor_from_py_object_no_sync",
    "managed_tensor_to_py_object_no_sync",
    "current_work_stream",
)
"""The functions that must be there."""
CONTEXT: Final = 1234
"""What the allocator is to pass on to SetError."""


class _Held:
    """A managed tensor that is deleted when this is dropped."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __del__(self) -> None:
        delete(self.address)


def _fields(address: int) -> SimpleNamespace:
    found = read(DLManagedTensorVersioned.from_address(address))
    found.held = _Held(address)
    return found


class Table:
    """The functions of an exchange table.

    Each raises the exception that the function sets, and `Failure` if it does not keep to the rules for results.
    """

    def __init__(self, api: DLPackExchangeAPI) -> None:
        self.api = api

    def _function(self, name: str, kind: Any) -> Any:
        address = getattr(self.api, name)
        if not address:
            msg = f"{name} is NULL"
            raise (Failure if name in REQUIRED else NotApplicable)(msg)
        return kind(address)

    def _result(self, name: str, kind: Any, *args: Any) -> int:
        """Call a function that gives a pointer; return that."""
        out = c_void_p()
        try:
            rc = self._function(name, kind)(*args, byref(out))
        except Exception as error:
            expect(not out.value, f"{name} fails with {type(error).__name__} and leaves {out.value} in its result")
            raise
        expect(rc == 0, f"{name} returned {rc} with no exception set")
        return out.value or 0

    def export(self, x: Any) -> int:
        """Return the address of a new managed tensor of an object."""
        name = "managed_tensor_from_py_object_no_sync"
        address = self._result(name, _Export, x)
        expect(address, f"{name} returned 0, but no tensor")
        return address

    def look(self, x: Any) -> SimpleNamespace:
        """Return the fields of a new managed tensor of an object, which is deleted when they are dropped."""
        return _fields(self.export(x))

    def wrap(self, address: int) -> Any:
        """Return an object of the library on a managed tensor, which is then its own."""
        name = "managed_tensor_to_py_object_no_sync"
        found = self._result(name, _Import, address)
        expect(found, f"{name} returned 0, but no object")
        x = ctypes.cast(found, py_object).value  # takes a reference of its own
        other = object()
        expect(sys.getrefcount(x) > sys.getrefcount(other), f"{name} returned an object, but no reference to it")
        _decref(x)
        return x

    def borrow(self, x: Any) -> SimpleNamespace:
        """Return the fields of a tensor that the object lends, and itself as `tensor`."""
        name = "dltensor_from_py_object_no_sync"
        managed = DLManagedTensorVersioned()
        tensor = managed.dl_tensor
        ctypes.memset(ctypes.addressof(tensor), 0xA5, ctypes.sizeof(tensor))  # as a stack may have it
        rc = self._function(name, _Borrow)(x, byref(tensor))
        expect(rc == 0, f"{name} returned {rc} with no exception set")
        found = read(managed)
        found.tensor = managed
        return found

    def stream(self, device: tuple[int, int]) -> int:
        """Return the current stream of a device."""
        return self._result("current_work_stream", _Stream, *device)

    def allocate(
        self,
        shape: tuple[int, ...] = (2, 3),
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = CPU,
        *,
        ndim: int | None = None,
        report: bool = True,
    ) -> SimpleNamespace:
        """Call the allocator, without the GIL.

        Parameters
        ----------
        shape, dtype, device, ndim
            Of the prototype, whose other fields are rubbish.
        report : bool
            Whether there is a SetError.

        Returns
        -------
        SimpleNamespace
            The result `rc`, the `address` of the tensor, what was `said`, triples of context, kind and message, and the
            Python exception that is `left` set, or None.
        """
        said: list[tuple[int | None, bytes | None, bytes | None]] = []

        set_error = _SetError(lambda *words: said.append(words))
        prototype, numbers = DLTensor(), (c_int64 * max(len(shape), 1))(*shape)
        if ndim is not None:  # whoever believes that reads beyond the shape, where there must be nothing to be read
            page = guarded_page()
            numbers = type(numbers).from_address(page.ctypes.data + page.nbytes - ctypes.sizeof(numbers))
            numbers[: len(shape)] = list(shape)
        prototype.shape, prototype.ndim = numbers, len(shape) if ndim is None else ndim
        prototype.dtype.code, prototype.dtype.bits, prototype.dtype.lanes = dtype
        prototype.device.device_type, prototype.device.device_id = device
        prototype.data, prototype.byte_offset = 1, 12345
        out, function = c_void_p(), self._function("managed_tensor_allocator", _Allocate)
        left: BaseException | None = None
        try:
            rc = function(byref(prototype), byref(out), CONTEXT, set_error if report else _SetError())
        except SystemError as error:  # ctypes has found an exception that it did not expect, and forgotten the result
            rc, left = 0 if out.value else -1, error.__cause__ or error
        return SimpleNamespace(rc=rc, address=out.value or 0, said=said, left=left)


def table_of(kind: Any) -> Table:
    """Return a type's exchange table of the major version known here; NotApplicable if it has none."""
    try:
        api = exchange_api(kind)
    except AttributeError:
        msg = f"{kind.__name__} has no exchange table"
        raise NotApplicable(msg) from None
    except TypeError as error:
        raise NotApplicable(str(error)) from None
    while api.version.major > VERSION[0] and api.prev_api:
        api = DLPackExchangeAPI.from_address(api.prev_api)
    if api.version.major != VERSION[0]:
        msg = f"{kind.__name__} has no exchange table of DLPack {VERSION[0]}"
        raise NotApplicable(msg)
    return Table(api)
