"""The table of C functions, `__dlpack_c_exchange_api__`: a library's own, and others' as it calls them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack.conformance.capsules import Capsule, delete, exchange_api, name_of, new_capsule, pointer_of, read
from nbdlpack.conformance.header import (
    CPU,
    EXCHANGE,
    IS_COPIED,
    READ_ONLY,
    VERSION,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
)
from nbdlpack.conformance.importing import late_refusal
from nbdlpack.conformance.memory import aligned, at, growth, in_threads, overwrite
from nbdlpack.conformance.producers import Producer, RaisingProducer, exchange_type
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused, Severity, check, expect
from nbdlpack.conformance.tables import CONTEXT, REQUIRED, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import SimpleNamespace

    from nbdlpack.conformance.subject import Subject
    from nbdlpack.conformance.tables import Table

HEADER: Final = "dlpack.h 1.3, DLPackExchangeAPI"
FROM_PY: Final = "dlpack.h 1.3, DLPackManagedTensorFromPyObjectNoSync"
TO_PY: Final = "dlpack.h 1.3, DLPackManagedTensorToPyObjectNoSync"
BORROW: Final = "dlpack.h 1.3, DLPackDLTensorFromPyObjectNoSync"
ALLOCATE: Final = "dlpack.h 1.3, DLPackManagedTensorAllocator"
STREAM: Final = "dlpack.h 1.3, DLPackCurrentWorkStream"
PREVIOUS: Final = "dlpack.h 1.3, DLPackExchangeAPIHeader.prev_api"
LAYOUT: Final = ("address", "device", "ndim", "dtype", "shape", "strides")
"""What two exports of one array must agree in."""
MANY: Final = 5_000
LEAK: Final = 4
"""By how many bytes a cycle may seem to grow the process, which is less than anything that is allocated has."""


def own_table(lib: Subject) -> tuple[Table, Any]:
    """Return the exchange table of the library's arrays, and an array."""
    x = lib.array(np.arange(6.0).reshape(2, 3))
    return table_of(type(x)), x


def layouts(lib: Subject) -> Iterator[tuple[str, Any]]:
    """Yield arrays of the library of all the layouts that it has."""
    a = np.arange(12.0).reshape(3, 4)
    x = lib.array(a)
    makers: dict[str, Callable[[], Any]] = {
        "an array": lambda: x,
        "a view": lambda: lib.adapter.view(x, np.s_[1:, ::2]),
        "a transpose": lambda: lib.adapter.transpose(x),
        "an array with no dimensions": lambda: lib.array(np.array(5.0)),
        "an array with no elements": lambda: lib.array(np.empty((3, 0))),
        "an array of int8": lambda: lib.array(np.arange(3, dtype=np.int8)),
        "an array with negative strides": lambda: lib.adapter.view(x, np.s_[::-1]),
        "a tensor imported as read-only": lambda: lib.take(lib.producer(aligned(a), flags=READ_ONLY)),
        "a tensor imported with overlapping elements": lambda: lib.take(lib.producer(aligned(a), strides=(0, 1))),
    }
    for name, make in makers.items():
        with contextlib.suppress(Exception):  # what it has not cannot be exported
            yield name, make()
    with contextlib.suppress(Exception):
        yield from lib.adapter.unexportable(x).items()


def both_ways(
    lib: Subject, method: str = "look"
) -> Iterator[tuple[str, SimpleNamespace | Exception, SimpleNamespace | Exception]]:
    """Export arrays by `__dlpack__` and by the table; yield what they are, and the fields or the error of each way."""
    own_table(lib)
    for name, x in layouts(lib):
        try:
            table = table_of(type(x))
        except NotApplicable:  # what was imported may be of another type
            continue
        found: list[SimpleNamespace | Exception] = []
        for export in (lib.look, getattr(table, method)):
            try:
                found.append(export(x))
            except Exception as error:  # noqa: BLE001 (any refusal is of interest)
                found.append(error)
        yield name, found[0], found[1]


def differences(one: SimpleNamespace, other: SimpleNamespace) -> list[str]:
    """Return in words in what two exports differ."""
    fields = [name for name in LAYOUT if (getattr(one, name) or ()) != (getattr(other, name) or ())]
    if one.shape and 0 in one.shape:
        fields = [name for name in fields if name != "address"]
    return [f"{name} is {getattr(other, name)}, not {getattr(one, name)}" for name in fields]


# ---- the table -------------------------------------------------------------------------------------------------------


@check("X01", "the exchange table is a capsule named dlpack_exchange_api on the type", HEADER)
def on_the_type(lib: Subject) -> None:
    x = lib.array(np.arange(6.0))
    kind = type(x)
    if not hasattr(kind, "__dlpack_c_exchange_api__"):
        expect(not hasattr(x, "__dlpack_c_exchange_api__"), "the attribute is on the array, but must be on its type")
        msg = f"{kind.__name__} has no exchange table"
        raise NotApplicable(msg)
    capsule = kind.__dlpack_c_exchange_api__
    expect(type(capsule) is Capsule, f"the attribute is a {type(capsule).__name__}, but must be a capsule")
    expect(name_of(capsule) == EXCHANGE, f"the capsule is named {name_of(capsule)!r}, but must be {EXCHANGE!r}")


@check(
    "X02",
    "the exchange table stays where and as it is, whatever becomes of the capsule",
    f"{HEADER}: alive throughout the process; dlpack#179",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def stays(lib: Subject) -> None:
    _, x = own_table(lib)
    kind, size = type(x), ctypes.sizeof(DLPackExchangeAPI)
    address = pointer_of(kind.__dlpack_c_exchange_api__)
    before = ctypes.string_at(address, size)
    del x
    lib.adapter.settle()
    lib.array(np.arange(6.0))
    found = pointer_of(kind.__dlpack_c_exchange_api__)
    expect(found == address, "the table is at another address the second time, but consumers may keep the first")
    expect(ctypes.string_at(address, size) == before, "what is in the table changes, but it must be static")


@check("X03", "the exchange table is of DLPack 1, and the tables before it are older ones", PREVIOUS)
def version(lib: Subject) -> None:
    _, x = own_table(lib)
    api = exchange_api(type(x))
    majors = [api.version.major]
    while api.prev_api:
        api = DLPackExchangeAPI.from_address(api.prev_api)
        majors.append(api.version.major)
        expect(majors[-1] < majors[-2], f"the versions along prev_api are {majors}, but each must be older")
    expect(VERSION[0] in majors, f"the major versions of the tables are {majors}, none of them {VERSION[0]}")


@check("X04", "every function of the exchange table that must be there is there", HEADER)
def required(lib: Subject) -> None:
    table, _ = own_table(lib)
    missing = [name for name in REQUIRED if not getattr(table.api, name)]
    expect(not missing, f"{' and '.join(missing)} must not be NULL")


@check(
    "X05",
    "a subclass that exports in its own way does not inherit an exchange table that goes past it",
    "pytorch#188554",
    severity=Severity.STYLE,
)
def subclass(lib: Subject) -> None:
    _, x = own_table(lib)
    try:
        derived = type("Derived", (type(x),), {"__dlpack__": lambda self, **asked: None})  # noqa: ARG005
    except TypeError as error:
        msg = f"{type(x).__name__} has no subclasses: {error}"
        raise NotApplicable(msg) from None
    capsule = getattr(derived, "__dlpack_c_exchange_api__", None)
    expect(
        capsule is None or pointer_of(capsule) != pointer_of(type(x).__dlpack_c_exchange_api__),
        "a subclass with a __dlpack__ of its own has the table of its base, so that consumers of tables bypass it",
    )


# ---- managed_tensor_from_py_object_no_sync ---------------------------------------------------------------------------


@check("X06", "what the table exports is what __dlpack__ exports, of any layout", FROM_PY, crashes=True)
def exports_the_same(lib: Subject) -> None:
    for name, capsule, managed in both_ways(lib):
        if isinstance(capsule, Exception):
            continue
        if isinstance(managed, Exception):  # which it may do, but that leaves nothing to it
            expect(name != "an array", f"the table does not export an array, but __dlpack__ does: {managed}")
            continue
        wrong = differences(capsule, managed)
        expect(not wrong, f"of {name} the table's {', '.join(wrong)}")


@check("X07", "what the table exports is of version 1, has strides and a deleter", FROM_PY, crashes=True)
def well_formed(lib: Subject) -> None:
    for name, _, managed in both_ways(lib):
        if isinstance(managed, Exception):
            continue
        expect(managed.version[0] == VERSION[0], f"the version of {name} is {managed.version}, not {VERSION}")
        expect(managed.strides is not None or not managed.ndim, f"the strides of {name} are NULL")
        expect(managed.deleter, f"{name} has no deleter, so that what it holds is never released")


@check(
    "X08",
    "what __dlpack__ refuses the table refuses too",
    f"{FROM_PY}; pytorch#188554",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def refuses_the_same(lib: Subject) -> None:
    refused_too(lib, "look", "exports")


def refused_too(lib: Subject, method: str, verb: str) -> None:
    """Fail if a function of the table has an array that `__dlpack__` refuses."""
    seen = False
    for name, capsule, managed in both_ways(lib, method):
        if isinstance(managed, NotApplicable):
            raise managed
        if isinstance(capsule, Exception):
            seen = True
            expect(isinstance(managed, Exception), f"the table {verb} {name}, which __dlpack__ refuses: {capsule}")
    if not seen:
        msg = "__dlpack__ refuses no array that the adapter makes"
        raise NotApplicable(msg)


@check(
    "X09",
    "what cannot be described is refused by the table with BufferError",
    f"{FROM_PY}: BufferError if possible",
    severity=Severity.STYLE,
    crashes=True,
)
def refuses_with_buffer_error(lib: Subject) -> None:
    found = {name: managed for name, _, managed in both_ways(lib) if isinstance(managed, Exception)}
    for name, error in found.items():
        if isinstance(error, Failure):
            raise error
        expect(isinstance(error, BufferError), f"the table refuses {name} with {type(error).__name__}: {error}")
    if not found:
        msg = "the table refuses no array that the adapter makes"
        raise NotApplicable(msg)


@check(
    "X10",
    "the table flags what __dlpack__ flags",
    "dlpack.h 1.3, DLPACK_FLAG_BITMASK_READ_ONLY; pytorch#188554",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def flags_the_same(lib: Subject) -> None:
    for name, capsule, managed in both_ways(lib):
        if isinstance(capsule, Exception) or isinstance(managed, Exception) or capsule.flags is None:
            continue
        expect(managed.flags == capsule.flags, f"the flags of {name} are {managed.flags}, not {capsule.flags}")


@check(
    "X11",
    "the table's deleter drops what the export holds, once",
    "dlpack.h 1.3, DLManagedTensorVersioned.deleter",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def deleter_drops(lib: Subject) -> None:
    table, x = own_table(lib)
    before = sys.getrefcount(x)
    for address in [table.export(x) for _ in range(100)]:
        delete(address)
    lib.adapter.settle()
    more = sys.getrefcount(x) - before
    expect(not more, f"100 exports, all deleted, leave {more} more references to the array")
    p = lib.producer(aligned(np.arange(4.0)))
    x = lib.take_or_refuse(p)
    if type(x) is not type(own_table(lib)[1]) or p.deleted:
        return  # what it imports is something else: a copy, say
    address = table.export(x)
    del x
    lib.adapter.settle()
    expect(not p.deleted, "the memory is let go of while an export of it lives")
    delete(address)
    lib.released(p)


@check(
    "X12",
    "the table refuses an object of another type with an exception",
    f"{FROM_PY}: -1 with an exception set",
    severity=Severity.STYLE,
    crashes=True,
)
def another_type(lib: Subject) -> None:
    table, x = own_table(lib)
    for other in (object(), None, 3, type(x), lib.producer()):
        try:
            table.export(other)
        except Failure:
            raise
        except Exception:  # noqa: BLE001 (as is due)
            continue
        msg = f"the table exports a {type(other).__name__}, which is no array of the library"
        raise Failure(msg)


@check("X13", "exports by the table that are deleted leave no memory behind", "lmdeploy#1344", crashes=True)
def no_growth(lib: Subject) -> None:
    table, x = own_table(lib)
    leak = growth(lib, lambda: delete(table.export(x)), MANY)
    expect(leak < LEAK, f"each export that was deleted leaves {leak:.0f} bytes")


# ---- managed_tensor_to_py_object_no_sync -----------------------------------------------------------------------------


@check(
    "X14",
    "the table makes an array of the library's type of its own export, on the same memory",
    TO_PY,
    severity=Severity.CORRUPTION,
    crashes=True,
)
def own_comes_back(lib: Subject) -> None:
    table, x = own_table(lib)
    address = lib.look(x).address
    y = table.wrap(table.export(x))
    expect(type(y) is type(x), f"of its own export the table makes a {type(y).__name__}, not a {type(x).__name__}")
    expect(lib.look(y).address == address, "the array is a copy, but must be on the memory of the export")
    expect(np.array_equal(lib.values(y), lib.values(x)), "the array has other values than the one that was exported")
    before = sys.getrefcount(x)
    for _ in range(100):
        table.wrap(table.export(x))
    lib.adapter.settle()
    more = sys.getrefcount(x) - before
    expect(not more, f"100 round trips through the table leave {more} more references to the array")


@check(
    "X15",
    "the table makes an array of another library's tensor, and lets go of it once",
    TO_PY,
    severity=Severity.CORRUPTION,
    crashes=True,
)
def of_another_library(lib: Subject) -> None:
    table, x = own_table(lib)
    data = aligned(np.arange(12.0).reshape(3, 4))
    cases: dict[str, tuple[dict[str, Any], Any]] = {
        "a tensor": ({}, data),
        "a tensor with a byte_offset": ({"shape": (2, 4), "byte_offset": 32}, data[1:]),
        "a tensor with strides": ({"shape": (3, 2), "strides": (4, 2)}, data[:, ::2]),
        "a tensor flagged as a copy": ({"flags": IS_COPIED}, data),
        "a tensor of a later minor version": ({"version": (VERSION[0], 99)}, data),
        "a tensor without a deleter": ({"null_deleter": True}, data),
    }
    for name, (fields, expected) in cases.items():
        p = lib.producer(data, **fields)
        try:
            y = table.wrap(p.managed(versioned=True))
        except Failure:
            raise
        except Exception as error:
            msg = f"the table makes no array of {name}: {error}"
            raise Failure(msg) from error
        expect(type(y) is type(x), f"of {name} the table makes a {type(y).__name__}, not a {type(x).__name__}")
        values = lib.values(y)
        expect(np.array_equal(values, expected), f"of {name} the values are {values.tolist()}")
        del y
        lib.released(p, 0 if "null_deleter" in fields else 1)


@check(
    "X16",
    "an array that the table makes of a read-only tensor is read-only",
    "dlpack.h 1.3, DLPACK_FLAG_BITMASK_READ_ONLY; dpctl#1755; array-api#749: a recommendation",
    severity=Severity.STYLE,
    crashes=True,
)
def of_a_read_only_tensor(lib: Subject) -> None:
    table, _ = own_table(lib)
    p = lib.producer(aligned(np.arange(4.0)), flags=READ_ONLY)
    try:
        y = table.wrap(p.managed(versioned=True))
    except Exception as error:
        if isinstance(error, Failure):
            raise
        raise Refused(str(error)) from error
    is_not_written_to(lib, y, p)


def is_not_written_to(lib: Subject, y: Any, p: Producer) -> None:
    """Fail if a write to an array reaches the memory of a tensor that it was imported from."""
    with contextlib.suppress(Exception):
        lib.adapter.write(y, 9)
    written = np.any(p.data == 9) if lib.device == CPU else np.any(lib.values(y) == 9)
    expect(not written, "the array is written to, through the flag READ_ONLY")


@check(
    "X17",
    "the table makes nothing of a tensor of another major version",
    "dlpack.h 1.3, DLPackVersion",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def of_another_version(lib: Subject) -> None:
    made_of_what_is_wrong(lib, {"version": (VERSION[0] + 1, 0)}, "a tensor of DLPack 2, of unknown layout")


@check(
    "X18",
    "the table refuses a malformed tensor with an exception, and deletes it at most once",
    f"{TO_PY}; pytorch#84612",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def of_a_malformed_tensor(lib: Subject) -> None:
    for fields, what in (
        ({"ndim": -1}, "a tensor of -1 dimensions"),
        ({"shape": (-4,)}, "a tensor of -4 elements"),
    ):
        made_of_what_is_wrong(lib, fields, what, late=True)


def made_of_what_is_wrong(lib: Subject, fields: dict[str, Any], what: str, *, late: bool = False) -> None:
    """Fail unless the table raises an exception for a tensor or, if `late`, what it makes does when its shape is read.

    Who deletes a tensor after a failure the header leaves open, so that nobody may have or the table may.
    """
    table, _ = own_table(lib)
    p = lib.producer(aligned(np.arange(4.0)), **fields)
    try:
        y = table.wrap(p.managed(versioned=True))
    except Failure:
        raise
    except Exception:  # noqa: BLE001 (as is due)
        y = None
        lib.adapter.settle()
        expect(p.deleted <= 1, f"{what} is deleted {p.deleted} times")
        return
    expect(late and late_refusal(lib, y), f"the table makes a {type(y).__name__} of {what}")


# ---- dltensor_from_py_object_no_sync ---------------------------------------------------------------------------------


@check("X19", "a tensor that the table lends is what __dlpack__ exports, with every field set", BORROW, crashes=True)
def lends_the_same(lib: Subject) -> None:
    for name, capsule, lent in both_ways(lib, "borrow"):
        if isinstance(lent, Failure | NotApplicable):
            raise lent
        if isinstance(capsule, Exception) or isinstance(lent, Exception):
            continue
        wrong = differences(capsule, lent)
        expect(not wrong, f"of {name} the lent tensor's {', '.join(wrong)}")
        expect(lent.strides is not None or not lent.ndim, f"the lent strides of {name} are NULL")


@check(
    "X20",
    "what __dlpack__ refuses the table does not lend",
    f"{BORROW}; pytorch#188554",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def lends_nothing_refused(lib: Subject) -> None:
    refused_too(lib, "borrow", "lends")


@check(
    "X21",
    "the shape and strides of a lent tensor last as long as the array",
    f"{BORROW}: no temporary allocations; dlpack#174",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def lends_nothing_temporary(lib: Subject) -> None:
    table, x = own_table(lib)
    try:
        lent = table.borrow(x)
    except BufferError as error:  # of an array that is read-only, say
        raise Refused(str(error)) from error
    before = sys.getrefcount(x)
    for _ in range(MANY):
        table.borrow(x)
    gc.collect()
    noise = [np.full(n, 77, np.int64) for n in range(1, 65) for _ in range(8)]
    found = read(lent.tensor)
    del noise
    expect(
        (found.shape, found.strides) == (lent.shape, lent.strides),
        f"shape and strides of a lent tensor become {found.shape} and {found.strides} while the array lives",
    )
    more = sys.getrefcount(x) - before
    expect(not more, f"lending {MANY} times leaves {more} more references to the array")
    leak = growth(lib, lambda: table.borrow(x), MANY)
    expect(leak < LEAK, f"each time a tensor is lent leaves {leak:.0f} bytes")


# ---- managed_tensor_allocator ----------------------------------------------------------------------------------------


def allocated(lib: Subject, table: Table, **prototype: Any) -> SimpleNamespace:
    """Return the fields of a new tensor of the allocator's; Refused if it has none on the device.

    First as other libraries' own tests call it: without SetError, which is not needed where all goes well.
    """
    prototype.setdefault("device", lib.device)
    found = table.allocate(**prototype, report=False)
    if found.rc:
        found = table.allocate(**prototype)
        kinds = [kind for _, kind, _ in found.said]
        if kinds in ([b"NotImplementedError"], [b"BufferError"]):
            raise Refused(str(found.said[0][2] or b"", "utf-8", "replace"))
        expect(found.rc == 0, f"the allocator returned {found.rc} for {prototype} and said {found.said}")
        msg = "the allocator works only if it is given a SetError, which it has no use for"
        raise Failure(msg)
    expect(found.address, "the allocator returned 0, but no tensor")
    return read(DLManagedTensorVersioned.from_address(found.address))


@check(
    "X22",
    "the allocator makes what the prototype says, and reads no other field of it",
    f"{ALLOCATE}; tvm-ffi's and torch's test_dlpack_exchange_api",
    crashes=True,
)
def allocates(lib: Subject) -> None:
    table, _ = own_table(lib)
    rows: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((2, 3), (3, 1)),
        ((7,), (1,)),
        ((), ()),
        ((3, 0), (0, 1)),
        ((1, 5, 1), (5, 1, 1)),
    )
    for shape, strides in rows:
        t = allocated(lib, table, shape=shape)
        found = (t.shape or (), t.dtype, t.device, t.flags, t.version[0])
        due = (shape, (2, 32, 1), lib.device, 0, VERSION[0])
        expect(found == due, f"shape, dtype, device, flags and version are {found}, not {due}")
        expect(t.strides is not None or not shape, f"the strides of shape {shape} are NULL")
        compact = [s for s, n in zip(t.strides or (), shape, strict=True) if n > 1]
        row_major = [s for s, n in zip(strides, shape, strict=True) if n > 1]
        expect(0 in shape or compact == row_major, f"the strides of shape {shape} are {t.strides}, not {strides}")
        expect(t.data or 0 in shape, f"the data of shape {shape} is NULL")
        expect(t.deleter, "the new tensor has no deleter, so that its memory is never released")
        delete(t.struct)


@check(
    "X23",
    "every tensor of the allocator is fresh memory that can be written to",
    ALLOCATE,
    severity=Severity.CORRUPTION,
    crashes=True,
)
def allocates_afresh(lib: Subject) -> None:
    table, x = own_table(lib)
    one, two = allocated(lib, table), allocated(lib, table)
    expect(one.struct != two.struct, "two tensors of the allocator are one structure, so that it is deleted twice")
    expect(one.address != two.address, "two tensors of the allocator are on the same memory")
    if lib.device == CPU:
        overwrite(one, 1, np.float32)
        overwrite(two, 2, np.float32)
        expect(np.all(at(one, np.float32) == 1), "what is written to one new tensor shows in another")
    delete(one.struct)
    y = table.wrap(two.struct)
    expect(type(y) is type(x), f"of a tensor of its own allocator the table makes a {type(y).__name__}")
    lib.adapter.write(y, 3)
    expect(np.all(lib.values(y) == 3), "an array on memory of the allocator cannot be written to")


@check("X24", "the deleter frees what the allocator made", ALLOCATE, severity=Severity.CORRUPTION, crashes=True)
def allocations_are_freed(lib: Subject) -> None:
    table, _ = own_table(lib)

    def cycle() -> None:
        t = allocated(lib, table, shape=(1 << 12,))
        if lib.device == CPU:
            overwrite(t, 1, np.float32)
        delete(t.struct)

    leak = growth(lib, cycle, 500)
    expect(leak < LEAK * 16, f"each tensor of 16 KiB that was deleted leaves {leak:.0f} bytes")


def unallocated(lib: Subject, cases: dict[str, dict[str, Any]]) -> None:
    """Fail unless the allocator returns -1 after exactly one call of SetError, with a kind and a message."""
    table, _ = own_table(lib)
    for what, prototype in cases.items():
        prototype.setdefault("device", lib.device)
        found = table.allocate(**prototype)
        expect(found.rc == -1, f"for {what} the allocator returns {found.rc}, not -1")
        expect(not found.address, f"for {what} the allocator returns -1, but leaves a tensor as its result")
        said = len(found.said)
        expect(said == 1, f"for {what} the allocator calls SetError {said} times, not once")
        context, kind, message = found.said[0]
        expect(context == CONTEXT, f"for {what} SetError gets the context {context}, not the one that was passed")
        expect(kind and message, f"for {what} SetError gets the kind {kind!r} and the message {message!r}")


@check("X25", "the allocator reports once, by SetError, that it has no such dtype or device", ALLOCATE, crashes=True)
def allocates_nothing_unknown(lib: Subject) -> None:
    unallocated(
        lib,
        {
            "the unknown dtype code 99": {"dtype": (99, 8, 1)},
            "floats of 3 bits": {"dtype": (2, 3, 1)},
            "the unknown device 99": {"device": (99, 0)},
        },
    )


@check(
    "X26",
    "the allocator reports once, by SetError, a shape that is impossible or too large",
    ALLOCATE,
    severity=Severity.CORRUPTION,
    crashes=True,
)
def allocates_nothing_impossible(lib: Subject) -> None:
    unallocated(
        lib,
        {
            "the shape (-1,)": {"shape": (-1,)},
            "-1 dimensions": {"ndim": -1},
            "a shape of 2**50 elements": {"shape": (1 << 50,)},
            "a shape of 2**62 elements, of more bytes than a word counts": {"shape": (1 << 62,)},
            "a shape whose product, 2**64, overflows": {"shape": (1 << 32, 1 << 32)},
        },
    )


@check(
    "X27",
    "the allocator leaves no Python exception set, as whoever calls it may not have the GIL",
    f"{ALLOCATE}: errors are reported by SetError, to avoid the Python API",
    crashes=True,
)
def leaves_no_exception(lib: Subject) -> None:
    table, _ = own_table(lib)
    for prototype in ({"device": lib.device}, {"dtype": (99, 8, 1), "device": lib.device}, {"device": (99, 0)}):
        found = table.allocate(**prototype)
        if found.rc == 0:
            delete(found.address)
        left = found.left
        expect(left is None, f"the allocator leaves the exception {type(left).__name__} set: {left}")


@check(
    "X28",
    "the allocator works on several threads at once, without the GIL",
    f"{ALLOCATE}: no need of the Python API",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def allocates_on_threads(lib: Subject) -> None:
    table, _ = own_table(lib)
    delete(allocated(lib, table).struct)

    def work(value: int) -> None:
        for _ in range(100):
            found = table.allocate((256,), device=lib.device)
            expect(found.rc == 0, f"on several threads the allocator returns {found.rc} and says {found.said}")
            t = read(DLManagedTensorVersioned.from_address(found.address))
            if lib.device == CPU:
                overwrite(t, value, np.float32)
                expect(np.all(at(t, np.float32) == value), "two threads were given the same memory")
            delete(t.struct)

    in_threads(work)


# ---- current_work_stream ---------------------------------------------------------------------------------------------


@check("X29", "the current stream of the CPU is NULL", STREAM, crashes=True)
def no_stream(lib: Subject) -> None:
    table, _ = own_table(lib)
    for _ in range(3):
        stream = table.stream(CPU)
        expect(not stream, f"the current stream of the CPU is {stream:#x}, not NULL")
    table.stream(lib.device)


@check(
    "X30",
    "the current stream of an unknown device is none, or an exception",
    STREAM,
    severity=Severity.STYLE,
    crashes=True,
)
def stream_of_an_unknown_device(lib: Subject) -> None:
    table, _ = own_table(lib)
    try:
        stream = table.stream((99, 7))
    except Failure:
        raise
    except Exception as error:
        raise Refused(str(error)) from error
    expect(not stream, f"the current stream of the unknown device 99 is {stream:#x}")


# ---- other libraries' tables -----------------------------------------------------------------------------------------

VALUES: Final = np.arange(4.0)


def through_a_table(lib: Subject, **options: Any) -> Any:
    """Return a type with an exchange table, of test producers; NotApplicable if the library uses no tables."""
    plain = exchange_type()
    lib.take(lib.producer(aligned(VALUES), plain))
    if not plain.through_table:
        msg = f"{lib.name} uses no exchange tables"
        raise NotApplicable(msg)
    return exchange_type(**options)


def imported(lib: Subject, p: Producer, expected: Any = VALUES) -> Any:
    """Import a test producer; Refused if it raises an exception, Failure if the values are wrong."""
    try:
        x = lib.take(p)
    except NotApplicable:
        raise
    except Exception as error:
        msg = f"{type(error).__name__}: {error}"
        raise Refused(msg) from error
    values = lib.values(x)
    expect(np.array_equal(values, expected), f"the values are {values.tolist()}, not {np.asarray(expected).tolist()}")
    return x


@check(
    "X31",
    "a tensor that comes through an exchange table is deleted once, by the last who has it",
    FROM_PY,
    severity=Severity.CORRUPTION,
    crashes=True,
)
def table_is_used(lib: Subject) -> None:
    kind = through_a_table(lib)
    p = lib.producer(aligned(VALUES), kind)
    before = sys.getrefcount(p)
    held = [imported(lib, p) for _ in range(10)]
    lib.adapter.settle()
    expect(p.deleted in {0, 10}, f"of 10 tensors that are in use {p.deleted} were deleted")
    held.clear()
    lib.released(p, 10)
    more = sys.getrefcount(p) - before
    expect(more <= 0, f"10 imports through a table leave {more} more references to the object")


@check(
    "X32",
    "the fields of a tensor that comes through an exchange table are heeded as those in a capsule are",
    "dlpack.h 1.3, DLTensor; cuda-python#2592, cupy#2119",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def fields_through_a_table(lib: Subject) -> None:
    kind = through_a_table(lib)
    a = aligned(np.arange(12.0).reshape(3, 4))
    rows: tuple[tuple[dict[str, Any], Any], ...] = (
        ({"shape": (2, 4), "byte_offset": 32}, a[1:]),
        ({"shape": (3, 2), "strides": (4, 2)}, a[:, ::2]),
        ({"strides": None}, a),
        ({"version": (VERSION[0], 99)}, a),
        ({"null_deleter": True}, a),
    )
    refusal: Refused | None = None
    for fields, expected in rows:
        try:
            imported(lib, lib.producer(a, kind, **fields), expected)
        except Refused as error:
            refusal = error
    if refusal:
        raise refusal


@check(
    "X33",
    "a tensor that comes through an exchange table with the flag READ_ONLY is not written to",
    "dlpack.h 1.3, DLPACK_FLAG_BITMASK_READ_ONLY; dpctl#1755; array-api#749: a recommendation",
    severity=Severity.STYLE,
    crashes=True,
)
def read_only_through_a_table(lib: Subject) -> None:
    p = lib.producer(aligned(VALUES), through_a_table(lib), flags=READ_ONLY)
    is_not_written_to(lib, imported(lib, p), p)


@check(
    "X34",
    "a tensor of another major version that comes through an exchange table is deleted, and nothing else",
    "dlpack.h 1.3, DLPackVersion",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def another_version_through_a_table(lib: Subject) -> None:
    p = lib.producer(aligned(VALUES), through_a_table(lib), version=(VERSION[0] + 1, 0))
    try:
        lib.take(p)
    except Exception:  # noqa: BLE001 (as is due)
        lib.released(p, len(p.made))
        return
    msg = "a tensor of DLPack 2, of unknown layout, is imported"
    raise Failure(msg)


@check(
    "X35",
    "a tensor that comes through an exchange table and is refused is deleted once",
    "pytorch#171820",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def refused_through_a_table(lib: Subject) -> None:
    for fields in ({"dtype": (99, 64, 1)}, {"dtype": (2, 64, 3)}, {"device": (99, 0), "claims": lib.device}):
        p = lib.producer(aligned(VALUES), through_a_table(lib), **fields)
        with contextlib.suppress(Exception):
            lib.take(p)
        lib.released(p, len(p.made))


@check(
    "X36",
    "an exchange table of a later major version is not used as if it were of this one",
    "dlpack.h 1.3, DLPackExchangeAPIHeader.version",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def later_table(lib: Subject) -> None:
    kind = through_a_table(lib, version=(VERSION[0] + 1, 0))
    p = lib.producer(aligned(VALUES), kind)
    try:
        imported(lib, p)
    finally:
        expect(not kind.through_table, "a function is called out of a table of DLPack 2, of unknown layout")


@check(
    "X37",
    "behind an exchange table of a later major version the older one is found, or none is used",
    f"{PREVIOUS}: the consumer may walk this",
    severity=Severity.STYLE,
    crashes=True,
)
def walk(lib: Subject) -> None:
    later_table(lib)
    old = through_a_table(lib)
    later: dict[str, Any] = {"slot": False}  # so that what exports can only be the function of the old one
    middle = exchange_type(version=(VERSION[0] + 1, 0), previous=ctypes.addressof(old.api), **later)
    new = exchange_type(version=(VERSION[0] + 2, 0), previous=ctypes.addressof(middle.api), **later)
    imported(lib, lib.producer(aligned(VALUES), new))
    if not new.through_table:
        msg = "prev_api is not followed to a table of DLPack 1, as it need not be, and __dlpack__ is called"
        raise Refused(msg)


@check(
    "X38",
    "an exchange table that lacks the function that exports does no harm",
    f"{HEADER}: must not be NULL",
    severity=Severity.STYLE,
    crashes=True,
)
def no_function(lib: Subject) -> None:
    imported(lib, lib.producer(aligned(VALUES), through_a_table(lib, slot=False)))


@check(
    "X39",
    "an attribute that is no exchange table does no harm",
    "dlpack#180, tvm-ffi#301",
    severity=Severity.STYLE,
    crashes=True,
)
def no_table(lib: Subject) -> None:
    address = pointer_of(through_a_table(lib).__dlpack_c_exchange_api__)
    others = (None, object(), property(lambda self: None), new_capsule(address, "another name"))  # noqa: ARG005
    refusal: Refused | None = None
    for value in others:
        kind = type("Odd", (Producer,), {"__dlpack_c_exchange_api__": value})
        try:
            imported(lib, lib.producer(aligned(VALUES), kind))
        except Refused as error:
            refusal = error
    if refusal:
        raise refusal


@check("X40", "an exception that an exchange table raises reaches the user", FROM_PY, crashes=True)
def exceptions_pass(lib: Subject) -> None:
    kind = through_a_table(lib, base=RaisingProducer)
    for error in (BufferError("this very one"), ZeroDivisionError("this very one"), MemoryError("this very one")):
        p = kind(error)
        found = lib.raises(type(error), functools.partial(lib.take, p))
        expect("this very one" in str(found), f"the producer's message is lost: {type(found).__name__}: {found}")


@check(
    "X41",
    "a subclass that exports in its own way is asked, not the exchange table of its base",
    "pytorch#188554",
    severity=Severity.STYLE,
    crashes=True,
)
def subclass_is_asked(lib: Subject) -> None:
    kind = through_a_table(lib)
    derived = type("Derived", (kind,), {"__dlpack__": Producer.__dlpack__})
    imported(lib, lib.producer(aligned(VALUES), derived))
    expect(not kind.through_table, "the table of the base is used, and the __dlpack__ of the subclass bypassed")


@check(
    "X42",
    "imports through an exchange table leave no memory behind",
    "lmdeploy#1344",
    crashes=True,
)
def no_growth_through_a_table(lib: Subject) -> None:
    kind = through_a_table(lib)

    class Again(kind):  # type: ignore[misc, valid-type]
        """Exports the same structure each time, whose deleter only counts."""

        def _managed(self) -> int:
            kind.through_table += 1
            address: int = self.made[0]
            return address

    p = lib.producer(aligned(VALUES), Again)
    p.managed(versioned=True)
    leak = growth(lib, lambda: lib.take(p), MANY)
    expect(leak < LEAK, f"each import leaves {leak:.0f} bytes")
    expect(p.deleted == kind.through_table, f"of {kind.through_table} tensors {p.deleted} were deleted")
