"""What arrays export: the structure, its fields, and the arguments of `__dlpack__`.

What is exported is read as the header has it: of memory of the host every element, by address, shape and strides.  What
is on another device the library itself imports again.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import itertools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack.conformance.adapters import OTHER_DTYPES
from nbdlpack.conformance.capsules import Capsule, name_of, peek, pointer_of
from nbdlpack.conformance.header import (
    CODES,
    CPU,
    IS_COPIED,
    IS_SUBBYTE_TYPE_PADDED,
    KINDS,
    LEGACY,
    READ_ONLY,
    VERSION,
    VERSIONED,
)
from nbdlpack.conformance.memory import aligned, at, overwrite
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused, Severity, check, expect
from nbdlpack.conformance.subject import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import SimpleNamespace

    import numpy.typing as npt

    from nbdlpack.conformance.subject import Subject

    Array = npt.NDArray[Any]

CORRUPTION, WRONG, STYLE = Severity

TENSOR: Final = "dlpack.h 1.3, DLTensor."
DTYPE: Final = "dlpack.h 1.3, DLDataType"
FLAGS: Final = "dlpack.h 1.3, DLManagedTensorVersioned.flags"
STANDARD: Final = "array API 2025.12, __dlpack__"
DEVICE: Final = "array API 2025.12, __dlpack_device__"

KEYWORDS: Final = ("stream", "max_version", "dl_device", "copy")
HOST, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 10, 11, 13
DEVICE_TYPES: Final = frozenset({1, 2, 3, 4, *range(7, 19)})
"""Those of the header."""
NEITHER_HERE_NOR_THERE: Final = (2, 9, 15, 16, 99)
"""Device types that an array is asked to be exported to: a GPU, three that hardly a library has, and one unknown."""


class Nonsense:
    """Something that no argument can be."""

    def __repr__(self) -> str:
        return "object()"


class DeviceType(enum.IntEnum):
    """A device type, as an enumeration that the library has never seen."""

    CPU = 1


# -- arrays ------------------------------------------------------------------------------------------------------------


def some(lib: Subject) -> tuple[Any, Array]:
    """Return an array of the library, with two dimensions if it has such, and its values."""
    for shape, dtype in itertools.product(((3, 4), (12,)), (np.float64, np.float32, np.int8)):
        a = np.arange(12).astype(dtype).reshape(shape)
        with contextlib.suppress(NotApplicable):
            return lib.array(a), a
    return lib.array(np.arange(12.0)), np.arange(12.0)  # so that it says why not


ROWS: Final = (np.s_[1:], np.s_[:3], np.s_[2:3], np.s_[3:3])
STEPS: Final = (np.s_[::2], np.s_[1::3], np.s_[4::2])
PLANES: Final = (np.s_[:, 1:4], np.s_[:, 2:3], np.s_[1:3, 2:5], np.s_[:, ::2], np.s_[1::2, 1::3], np.s_[2:2, :])
BACK: Final = (np.s_[::-1], np.s_[::-2], np.s_[3:0:-1])
PLANES_BACK: Final = (np.s_[:, ::-1], np.s_[::-1, ::-1], np.s_[::-2, 1:3], np.s_[1:, 4:0:-2])


def views(lib: Subject, rows: tuple[Any, ...], planes: tuple[Any, ...]) -> Iterator[tuple[str, Any, Array]]:
    """Yield what `x[key]` is in words, a view of the library's, and its values, for every key that there are views for.

    Parameters
    ----------
    lib
        The library.
    rows, planes
        Keys for arrays of one dimension or more, and of two.
    """
    for dtype in (np.float64, np.int8):
        for shape, keys in (((5, 6), (*rows, *planes)), ((30,), rows)):
            a = np.arange(30).astype(dtype).reshape(shape)
            for key in keys:
                with contextlib.suppress(NotApplicable):
                    yield f"x[{words_of(key)}] of shape {shape}", made(lib, "view", lib.array(a), key), a[key]


def made(lib: Subject, method: str, *args: Any) -> Any:
    """Return what a method of the adapter makes of an array; NotApplicable if the library makes no such thing."""
    try:
        return lib.ask(method, *args)
    except NotApplicable:
        raise
    except Exception as error:
        msg = f"{lib.name} makes no such array: {said(error)}"
        raise NotApplicable(msg) from error


def words_of(key: Any) -> str:
    """Return a key of slices as it is written."""
    if isinstance(key, tuple):
        return ", ".join([words_of(part) for part in key])
    start, stop, step = ["" if n is None else str(n) for n in (key.start, key.stop, key.step)]
    return f"{start}:{stop}{step and ':' + step}"


def layouts(lib: Subject) -> Iterator[tuple[str, Any, Array]]:
    """Yield arrays of every layout that can be exported, as `views` does."""
    x, a = some(lib)
    yield "an array", x, a
    for shape in ((), (0,), (3, 0), (1, 5, 1)):
        b = np.arange(math.prod(shape)).astype(a.dtype).reshape(shape)
        with contextlib.suppress(NotApplicable):
            yield f"an array of shape {shape}", lib.array(b), b
    with contextlib.suppress(NotApplicable):
        yield "a transpose", made(lib, "transpose", x), a.T
    yield from views(lib, (*ROWS[:2], *STEPS[:1]), (*PLANES[:1], *PLANES[3:4]))


# -- what is exported --------------------------------------------------------------------------------------------------


class Exported:
    """An object that hands out one capsule: who imports it gets what was exported."""

    def __init__(self, fields: SimpleNamespace) -> None:
        self.capsule, self.device = fields.capsule, fields.device

    def __dlpack__(self, **asked: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.device
        return device


def short(a: Array) -> str:
    """Return some values in one line."""
    return " ".join(np.array2string(a, threshold=8, edgeitems=3, separator=", ").split())


def agrees(lib: Subject, fields: SimpleNamespace, a: Array, what: str) -> None:
    """Fail unless an exported tensor has the shape and the elements of an array."""
    shape = fields.shape or ()
    expect(shape == a.shape, f"{what} is exported with shape {shape}, not {a.shape}")
    found = at(fields, a.dtype) if fields.device == CPU else lib.values(lib.take(Exported(fields)))
    expect(found.tobytes() == a.tobytes(), f"{what} is exported as {short(found)}, not {short(a)}")


def attempt(lib: Subject, x: Any, **options: Any) -> SimpleNamespace | Exception:
    """Export an array; return the fields, or the exception."""
    try:
        return lib.look(x, **options)
    except (Failure, NotApplicable, Refused):
        raise
    except Exception as error:  # noqa: BLE001 (that is what is asked)
        return error


def granted(lib: Subject, x: Any, **options: Any) -> SimpleNamespace:
    """Export an array; return the fields, or raise Refused if the library declines.  Any other exception fails."""
    found = attempt(lib, x, **options)
    if isinstance(found, REFUSALS):
        msg = f"{asked(options)}: {said(found)}"
        raise Refused(msg) from found
    if isinstance(found, Exception):
        msg = f"{asked(options)} raises {said(found)}"
        raise Failure(msg) from found
    return found


def told(options: Mapping[str, Any]) -> str:
    """Return a call of `__dlpack__` as it is written."""
    return f"__dlpack__({', '.join([f'{name}={value!r}' for name, value in options.items()])})"


def asked(options: Mapping[str, Any]) -> str:
    """Return the call that `attempt` makes, which names the version unless that is an option."""
    return told({**options, "max_version": options.get("max_version", VERSION)})


def said(error: BaseException) -> str:
    """Return an exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def needs(x: Any, *keywords: str) -> None:
    """Raise NotApplicable unless `__dlpack__` knows all of some keywords: whether it must, is a check of its own."""
    for name in keywords:
        try:
            x.__dlpack__(**{name: None})
        except TypeError as error:
            msg = f"__dlpack__ takes no {name}="
            raise NotApplicable(msg) from error
        except Exception:  # noqa: BLE001, S110 (it knows what that is)
            pass


def kinds(lib: Subject, x: Any) -> list[SimpleNamespace]:
    """Return what an array exports to consumers that know versions and that do not; Refused if it declines both."""
    found = [attempt(lib, x)]
    with contextlib.suppress(NotApplicable):
        needs(x, "max_version")
        found.append(attempt(lib, x, max_version=None))
    for one in found:
        if isinstance(one, Exception) and not isinstance(one, REFUSALS):
            raise one
    exported = [one for one in found if not isinstance(one, Exception)]
    if not exported:
        raise Refused(said(found[0]))  # type: ignore[arg-type]
    return exported


def versioned(lib: Subject, x: Any, **options: Any) -> SimpleNamespace:
    """Return what an array exports, which must be of a version to have what is asked about; else NotApplicable."""
    fields = granted(lib, x, **options)
    if not fields.versioned:
        msg = f"{lib.name} exports tensors without a version, which have no flags"
        raise NotApplicable(msg)
    return fields


def elsewhere(fields: SimpleNamespace, other: SimpleNamespace) -> bool:
    """Return whether two tensors with elements are on different memory."""
    return bool(fields.address != other.address)


def refusal(
    lib: Subject, x: Any, why: str, allowed: type[Exception] | tuple[type[Exception], ...], **options: Any
) -> None:
    """Fail unless `__dlpack__` raises an exception of some kind; `why` follows "is accepted" if it raises none."""
    found = attempt(lib, x, **options)
    expect(isinstance(found, Exception), f"{asked(options)} is accepted, {why}")
    if not isinstance(found, allowed):
        due = " or ".join([kind.__name__ for kind in (allowed if isinstance(allowed, tuple) else (allowed,))])
        msg = f"{asked(options)} raises {said(found)}; due is {due}"  # type: ignore[arg-type]
        raise Failure(msg)


def wrong_argument(lib: Subject, x: Any, why: str, **options: Any) -> None:
    """Fail unless `__dlpack__` raises an exception other than BufferError: the array is not what is wrong."""
    found = attempt(lib, x, **options)
    expect(isinstance(found, Exception), f"{asked(options)} is accepted, {why}")
    expect(
        not isinstance(found, BufferError),
        f"{asked(options)} raises {said(found)}, as if the array could not be exported, {why}",  # type: ignore[arg-type]
    )


# ---- the structure ---------------------------------------------------------------------------------------------------


@check(
    "P01",
    "__dlpack__ returns a capsule named dltensor or dltensor_versioned, which holds a tensor",
    f"{STANDARD}; python_spec; warp#1619",
    severity=CORRUPTION,
    crashes=True,
)
def is_a_capsule(lib: Subject) -> None:
    x, _ = some(lib)
    seen = 0
    for options in ({}, {"max_version": None}, {"max_version": VERSION}):
        try:
            capsule = x.__dlpack__(**options)
        except (TypeError, *REFUSALS):  # about which other checks are
            continue
        seen += 1
        expect(type(capsule) is Capsule, f"{told(options)} returns a {type(capsule).__name__}, not a capsule")
        name = name_of(capsule)
        expect(name in KINDS, f"the capsule is named {name!r}, but must be {LEGACY!r} or {VERSIONED!r}")
        expect(pointer_of(capsule), "the capsule holds NULL")
    expect(seen, "__dlpack__() raises an exception whether it is told a version or not")


@check("P02", "a versioned tensor is of the major version 1", "dlpack.h 1.3, DLPackVersion", crashes=True)
def major_version(lib: Subject) -> str:
    x, _ = some(lib)
    found = versioned(lib, x).version
    expect(found[0] == VERSION[0], f"the version is {found}, but a consumer of DLPack {VERSION} can read 1 alone")
    return f"{found[0]}.{found[1]}"


@check(
    "P03",
    "the flags of an ordinary array are 0",
    f"{FLAGS}: by default 0",
    severity=CORRUPTION,
    crashes=True,
)
def flags(lib: Subject) -> None:
    x, _ = some(lib)
    fields, other = versioned(lib, x), lib.look(x)
    found = fields.flags
    expect(found <= READ_ONLY | IS_COPIED | IS_SUBBYTE_TYPE_PADDED, f"the flags are {found:#x}, of unknown meaning")
    expect(not found & IS_SUBBYTE_TYPE_PADDED, "SUBBYTE_TYPE_PADDED is set, but an element has whole bytes")
    expect(
        not found & IS_COPIED or elsewhere(fields, other),
        "IS_COPIED is set, but the memory is that of the array: it is not the consumer's alone",
    )
    expect(
        not found & READ_ONLY or lib.adapter.immutable,
        "READ_ONLY is set for an array that can be written to, so that its consumers cannot",
    )


@check(
    "P04",
    "a tensor with a version and one without are the same but for that",
    "dlpack.h 1.3, DLManagedTensor; dlpack#104, dlpack#113",
    severity=CORRUPTION,
    crashes=True,
)
def both_kinds(lib: Subject) -> None:
    compared = 0
    for name, x, a in layouts(lib):
        found = {fields.name: fields for fields in kinds(lib, x)}
        if len(found) == 1:
            continue
        compared += 1
        new, old = found[VERSIONED], found[LEGACY]
        expect((old.shape or ()) == a.shape, f"the unversioned tensor of {name} has shape {old.shape}, not {a.shape}")
        for field in ("device", "ndim", "dtype"):
            one, other = getattr(new, field), getattr(old, field)
            expect(one == other, f"of {name} {field} is {one} with a version, but {other} without")
        agrees(lib, old, a, f"{name}, without a version,")
    if not compared:
        msg = f"{lib.name} exports one kind of tensor alone"
        raise NotApplicable(msg)


@check(
    "P05",
    "what was exported keeps its shape and strides when those of the array are changed in place",
    f"{TENSOR}shape, DLTensor.strides",
    severity=CORRUPTION,
    crashes=True,
)
def outlives_changes(lib: Subject) -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = lib.array(a)
    found = kinds(lib, x)
    made(lib, "alter", x)
    for before in found:
        after = peek(before.capsule)
        expect(
            (after.shape, after.strides) == (before.shape, before.strides),
            f"shape and strides were {before.shape} and {before.strides} when the array was exported, and become "
            f"{after.shape} and {after.strides} when it is given others",
        )
        agrees(lib, before, a, "an array that was given another shape afterwards")


# ---- the dtype -------------------------------------------------------------------------------------------------------


INTEGERS: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
FLOATS: Final = ("float16", "float32", "float64")
COMPLEX: Final = ("complex64", "complex128")
FLOATS8: Final = tuple(name for name in OTHER_DTYPES.values() if name.startswith("float8"))
SMALL: Final = {
    "int2": (0, 2, 1),
    "int4": (0, 4, 1),
    "uint2": (1, 2, 1),
    "uint4": (1, 4, 1),
    "float6_e2m3fn": (15, 6, 1),
    "float6_e3m2fn": (16, 6, 1),
    "float4_e2m1fn": (17, 4, 1),
}
"""Code, bits and lanes of what has less than a byte."""
DTYPES: Final = (*INTEGERS, *UNSIGNED, *FLOATS, *COMPLEX, "bool", "bfloat16", *FLOATS8, *SMALL)


def numbers_of(name: str) -> tuple[int, int, int]:
    """Return code, bits and lanes of one of NumPy's own dtypes, or of those of ml_dtypes of whole bytes."""
    others = {other: (*numbers, 1) for numbers, other in OTHER_DTYPES.items()}
    dtype = np.dtype(name)
    return others.get(name) or (CODES[dtype.kind], dtype.itemsize * 8, 1)


def of_dtypes(lib: Subject, names: Iterable[str]) -> Iterator[tuple[str, Any, Array]]:
    """Yield the names of dtypes, an array of each that the library makes, and its values."""
    for name in names:
        with contextlib.suppress(NotApplicable, TypeError):  # the latter from a NumPy that has no such dtype
            a = np.arange(6).astype(name)
            x = lib.array(a)
            yield name, x, a


def exports_dtypes(lib: Subject, names: Iterable[str], since: tuple[int, int] = (1, 0)) -> str:
    """Fail unless arrays of dtypes are exported as those, with their elements; Refused if the library declines some.

    Parameters
    ----------
    lib, names
        The library, and what NumPy and ml_dtypes call the dtypes.
    since
        The first version of DLPack that has them.
    """
    found: list[str] = []
    declined: dict[str, list[str]] = {}
    for name, x, a in of_dtypes(lib, names):
        fields = attempt(lib, x)
        if isinstance(fields, Exception):  # of which kind it must be, P15 says
            declined.setdefault(said(fields), []).append(name)
            continue
        due = numbers_of(name)
        expect(fields.dtype == due, f"{name} is exported as (code, bits, lanes) {fields.dtype}, not {due}")
        agrees(lib, fields, a, f"an array of {name}")
        in_time(name, fields, since)
        found.append(name)
    if declined:
        raise Refused(of_which(declined))
    if not found:
        msg = f"{lib.name} makes no arrays of {' or '.join(names)}"
        raise NotApplicable(msg)
    return ", ".join(found)


def of_which(declined: Mapping[str, list[str]]) -> str:
    """Return the reasons why some are declined, each once."""
    return "; ".join([f"{', '.join(names)}: {reason}" for reason, names in declined.items()])


def in_time(name: str, fields: SimpleNamespace, since: tuple[int, int]) -> None:
    """Fail if a tensor says that it is of a version before that which brought its dtype."""
    expect(
        not fields.versioned or fields.version >= since,
        f"{name} is exported in a tensor of version {fields.version}, but such dtypes came with {since}",
    )


@check("P06", "integers are exported as those, of their size", f"{DTYPE}; cudf#5353", severity=CORRUPTION, crashes=True)
def integers(lib: Subject) -> str:
    return exports_dtypes(lib, INTEGERS)


@check(
    "P07",
    "unsigned integers are exported as those, of their size",
    f"{DTYPE}; cudf#5353",
    severity=CORRUPTION,
    crashes=True,
)
def unsigned_integers(lib: Subject) -> str:
    return exports_dtypes(lib, UNSIGNED)


@check("P08", "floats of 16, 32 and 64 bits are exported as those", DTYPE, severity=CORRUPTION, crashes=True)
def floats(lib: Subject) -> str:
    return exports_dtypes(lib, FLOATS)


@check("P09", "complex numbers are exported with the bits of both parts", DTYPE, severity=CORRUPTION, crashes=True)
def complex_numbers(lib: Subject) -> str:
    return exports_dtypes(lib, COMPLEX)


@check(
    "P10",
    "bool is exported as kDLBool of 8 bits, and not as an integer",
    f"{DTYPE}; dlpack#75, pytorch#94463, jax#19352, cupy#7307",
    crashes=True,
)
def booleans(lib: Subject) -> str:
    return exports_dtypes(lib, ["bool"])


@check(
    "P11",
    "bfloat16 is exported as kDLBfloat of 16 bits",
    f"{DTYPE}; cupy#8801, cupy#9480",
    severity=CORRUPTION,
    crashes=True,
)
def bfloat16(lib: Subject) -> str:
    return exports_dtypes(lib, ["bfloat16"])


@check(
    "P12",
    "each float of 8 bits is exported by its own code, in a tensor of version 1.1 or later",
    f"{DTYPE}; dlpack#156, dlpack#158",
    severity=CORRUPTION,
    crashes=True,
)
def float8(lib: Subject) -> str:
    return exports_dtypes(lib, FLOATS8, (1, 1))


@check(
    "P13",
    "elements of less than a byte are exported with their bits, and packed unless flagged as padded",
    f"{DTYPE}: packed in memory; DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED",
    crashes=True,
)
def less_than_a_byte(lib: Subject) -> str:
    found: list[str] = []
    declined: dict[str, list[str]] = {}
    for name, x, a in of_dtypes(lib, SMALL):
        fields, due = attempt(lib, x), SMALL[name]
        if isinstance(fields, Exception):
            declined.setdefault(said(fields), []).append(name)
            continue
        expect(fields.dtype == due, f"{name} is exported as (code, bits, lanes) {fields.dtype}, not {due}")
        in_time(name, fields, (1, 1) if name.startswith("float") else (1, 0))
        found.append(name)
        if fields.device != CPU:
            continue
        bits = [int(n) & (1 << due[1]) - 1 for n in a.view(np.uint8)]
        padded = bool(fields.versioned and fields.flags & IS_SUBBYTE_TYPE_PADDED)
        got = elements(fields.address, due[1], len(bits), padded=padded)
        layout = "padded" if padded else "packed"
        expect(got == bits, f"{name} is exported as {layout}, but read so the bits are {got}, not {bits}")
    if declined:
        raise Refused(of_which(declined))
    if not found:
        msg = f"{lib.name} has no dtype of less than a byte"
        raise NotApplicable(msg)
    return ", ".join(found)


def elements(address: int, bits: int, n: int, *, padded: bool) -> list[int]:
    """Return elements of some bits each: one a byte, or packed from the lowest bit on."""
    raw = ctypes.string_at(address, n if padded else (n * bits + 7) // 8)
    mask = (1 << bits) - 1
    if padded:
        return [byte & mask for byte in raw]
    return [int.from_bytes(raw, "little") >> i * bits & mask for i in range(n)]


def indescribable(lib: Subject) -> Iterator[tuple[str, Any]]:
    """Yield in words what DLPack has no word for, or the library does not export, and an array that is that."""
    candidates: dict[str, Array] = {
        "dates": np.arange(3).astype("M8[s]"),
        "spans of time": np.arange(3).astype("m8[s]"),
        "objects": np.array([None, 1, "two"], object),
        "bytes": np.array([b"one", b"two"]),
        "text": np.array(["one", "two"]),
        "records": np.zeros(3, [("mark", "i1"), ("number", "f4")]),
        "numbers in the other byte order": np.arange(3.0).astype(np.dtype("f8").newbyteorder()),
        "numbers of extended precision": np.arange(3).astype(np.longdouble),
        "complex numbers of extended precision": np.arange(3).astype(np.clongdouble),
    }
    for name, a in candidates.items():
        with contextlib.suppress(NotApplicable):
            yield f"an array of {name}", lib.array(a)
    x, _ = some(lib)
    with contextlib.suppress(NotApplicable):
        yield from made(lib, "unexportable", x).items()


FRACTIONS: Final = (10, 23, 52, 112)
"""How many bits the fractions of IEEE's floats have, of which a C compiler's long double need not be one."""


def is_described(dtype: np.dtype[Any], numbers: tuple[int, int, int]) -> bool:
    """Return whether code, bits and lanes are those of a dtype of NumPy's that DLPack has."""
    if dtype.kind in "fc" and np.finfo(dtype).nmant not in FRACTIONS:
        return False
    return numbers == (CODES.get(dtype.kind), dtype.itemsize * 8, 1)


@check(
    "P14",
    "what DLPack cannot describe is not exported as something else",
    f"{STANDARD}; numpy test_invalid_dtype, nanobind#487, numpy#20336, numba-cuda#824",
    severity=CORRUPTION,
    crashes=True,
)
def nothing_else(lib: Subject) -> None:
    seen = False
    for name, x in indescribable(lib):
        seen = True
        for version in (VERSION, None):
            fields = attempt(lib, x, max_version=version)
            if isinstance(fields, Exception):  # of which kind it must be, the next check says
                continue
            a = lib.values(x)  # which were converted, it may be, when the array was made
            expect(is_described(a.dtype, fields.dtype), f"{name} is exported as (code, bits, lanes) {fields.dtype}")
            agrees(lib, fields, a.astype(a.dtype.newbyteorder("=")), name)
    if not seen:
        msg = f"DLPack can describe all arrays of {lib.name} that the adapter makes"
        raise NotApplicable(msg)


@check(
    "P15",
    "what is not exported is refused with BufferError",
    f"{STANDARD}: should raise BufferError",
    severity=STYLE,
    crashes=True,
)
def refused_with_buffer_error(lib: Subject) -> None:
    seen = False
    arrays = [(f"an array of {name}", x) for name, x, _ in of_dtypes(lib, DTYPES)]
    backward = [(name, x) for name, x, _ in views(lib, BACK, PLANES_BACK)]
    for name, x in (*arrays, *backward, *indescribable(lib)):
        found = attempt(lib, x)
        if not isinstance(found, Exception):
            continue
        seen = True
        why = ", as consumers take a TypeError to mean that they used an unknown keyword"
        expect(
            isinstance(found, BufferError),
            f"{name} is refused with {said(found)}; due is BufferError{why * isinstance(found, TypeError)}",
        )
    if not seen:
        msg = f"{lib.name} refuses no array that the adapter makes"
        raise NotApplicable(msg)


# ---- the device ------------------------------------------------------------------------------------------------------


def device_of(x: Any) -> tuple[int, int]:
    """Return the numbers that `__dlpack_device__` gives, which may be members of an enumeration."""
    kind, number = x.__dlpack_device__()
    return int(getattr(kind, "value", kind)), int(number)


@check(
    "P16",
    "__dlpack_device__ gives a tuple of a device type of DLPack and a number",
    f"{DEVICE}; mlx#1165",
)
def device_is_a_pair(lib: Subject) -> None:
    x, _ = some(lib)
    found = x.__dlpack_device__()
    expect(isinstance(found, tuple), f"__dlpack_device__() is {found!r}, not a tuple")
    expect(len(found) == len(CPU), f"__dlpack_device__() is {found!r}, not a pair")
    kind, number = getattr(found[0], "value", found[0]), found[1]
    expect(isinstance(kind, int), f"the device type is {found[0]!r}, not a member of an enumeration or a number")
    expect(kind in DEVICE_TYPES, f"the device type is {kind}, which DLPack has not")
    expect(isinstance(number, int) and number >= 0, f"the device's number is {number!r}, not an integer of 0 or more")


@check(
    "P17",
    "the device type can be compared with a number, and looked up by it",
    f"{DEVICE}; array-api-tests test_dlpack_device",
    severity=STYLE,
)
def device_type_is_a_number(lib: Subject) -> None:
    x, _ = some(lib)
    kind = x.__dlpack_device__()[0]
    try:
        number = int(kind)
    except (TypeError, ValueError):
        msg = f"int() of the device type, {kind!r}, is an error; an IntEnum or an int will do"
        raise Failure(msg) from None
    expect({number: True}.get(kind), f"the device type, {kind!r}, is not equal to {number}; an IntEnum or an int is")


@check(
    "P18",
    "arrays are where __dlpack_device__ says, of any layout",
    f"{TENSOR}device; cuvs#2239, tensorflow#47866, paddle#68549",
    severity=CORRUPTION,
    crashes=True,
)
def device_is_right(lib: Subject) -> None:
    for name, x, _ in layouts(lib):
        announced = device_of(x)
        expect(announced == lib.device, f"__dlpack_device__() of {name} is {announced}, not {lib.device}")
        for fields in kinds(lib, x):
            expect(
                fields.device == announced,
                f"{name} is exported on device {fields.device}, but __dlpack_device__() is {announced}",
            )


@check(
    "P19",
    "the number of the CPU, and of pinned and managed memory, is 0",
    "dlpack.h 1.3, DLDevice.device_id; array-api-strict#221",
)
def number_is_0(lib: Subject) -> None:
    x, _ = some(lib)
    kind, number = device_of(x)
    if kind not in (HOST, CUDA_HOST, ROCM_HOST, CUDA_MANAGED):
        msg = f"the device type {kind} has numbers"
        raise NotApplicable(msg)
    expect(number == 0, f"__dlpack_device__() is {(kind, number)}, but device type {kind} has no number other than 0")
    for fields in kinds(lib, x):
        expect(fields.device[1] == 0, f"the exported device is {fields.device}, but type {kind} has no number but 0")


# ---- shape and strides -----------------------------------------------------------------------------------------------


@check(
    "P20",
    "strides are not NULL where the version says so, from 1.2 on",
    f"{TENSOR}strides",
    crashes=True,
)
def has_strides(lib: Subject) -> None:
    seen = False
    for name, x, _ in layouts(lib):
        fields = granted(lib, x)
        if fields.versioned and fields.version >= (1, 2) and fields.ndim:
            seen = True
            expect(
                fields.strides is not None,
                f"the strides of {name} are NULL, which ndim {fields.ndim} and version {fields.version} do not allow",
            )
    if not seen:
        msg = f"{lib.name} exports no tensors of version 1.2 or later"
        raise NotApplicable(msg)


@check(
    "P21",
    "strides are never NULL, whatever the version, as consumers rely on them",
    f"{TENSOR}strides; cupy#2119, dlpack#178, numpy#29872, cccl#7045",
    severity=STYLE,
    crashes=True,
)
def always_has_strides(lib: Subject) -> None:
    for name, x, _ in layouts(lib):
        for fields in kinds(lib, x):
            expect(fields.strides is not None or not fields.ndim, f"the strides of {name} in a {fields.name} are NULL")


@check(
    "P22",
    "the shape is right, and the strides count elements, for arrays of 1 to 32 dimensions",
    f"{TENSOR}shape, DLTensor.strides; numpy test_higher_dims",
    severity=CORRUPTION,
    crashes=True,
)
def shapes(lib: Subject) -> str:
    most, dtype = 0, some(lib)[1].dtype
    small: list[tuple[int, ...]] = [(7,), (1,), (2, 3), (3, 1, 2), (2, 3, 4, 5), (1, 1, 1)]
    for shape in (*small, *[(1,) * (n - 2) + (2, 3) for n in range(5, 33)]):
        a = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
        try:
            x = lib.array(a)
        except NotApplicable:  # so many it has not
            continue
        for fields in kinds(lib, x):
            expect(fields.ndim == a.ndim, f"ndim of an array of shape {shape} is {fields.ndim}")
            agrees(lib, fields, a, f"an array of shape {shape}")
        most = max(most, a.ndim)
    return f"up to {most} dimensions"


@check(
    "P23",
    "a transposed array is exported right",
    f"{TENSOR}strides; torch test_from_dlpack_noncontinguous",
    severity=CORRUPTION,
    crashes=True,
)
def transposed(lib: Subject) -> None:
    for shape in ((3, 4), (2, 3, 4)):
        a = np.arange(math.prod(shape)).astype(some(lib)[1].dtype).reshape(shape)
        for fields in kinds(lib, made(lib, "transpose", lib.array(a))):
            agrees(lib, fields, a.T, f"the transpose of an array of shape {shape}")


@check(
    "P24",
    "slices of rows and columns, with steps or without, are exported right",
    f"{TENSOR}strides; numpy test_non_contiguous, cuda-python#2592",
    severity=CORRUPTION,
    crashes=True,
)
def sliced(lib: Subject) -> None:
    all_right(lib, (*ROWS, *STEPS), PLANES)


def all_right(lib: Subject, rows: tuple[Any, ...], planes: tuple[Any, ...]) -> None:
    """Fail unless every view is exported with its elements; Refused or NotApplicable if none of them is."""
    right, declined = 0, ""
    for name, x, a in views(lib, rows, planes):
        try:
            exported = kinds(lib, x)
        except Refused as reason:
            declined = f"{name}: {reason}"
            continue
        for fields in exported:
            agrees(lib, fields, a, name)
            right += 1
    if declined:
        raise Refused(declined)
    if not right:
        msg = f"{lib.name} has no such views"
        raise NotApplicable(msg)


@check(
    "P25",
    "negative strides are exported as such, or refused with BufferError",
    f"{TENSOR}strides; {STANDARD}; cupy#10172",
    severity=CORRUPTION,
    crashes=True,
)
def backwards(lib: Subject) -> None:
    all_right(lib, BACK, PLANES_BACK)


@check(
    "P26",
    "a dimension of one element keeps the stride that its place gives it",
    "pytorch#163274, pytorch#83069, pytorch#99803",
    severity=STYLE,
    crashes=True,
)
def strides_of_one(lib: Subject) -> None:
    dtype = some(lib)[1].dtype
    for shape in ((1, 128), (128, 1), (1, 1, 8, 8), (3, 1, 5), (1,)):
        a = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
        try:
            x = lib.array(a)
        except NotApplicable:
            continue
        has_natural_strides(lib, x, a, f"shape {shape}")
    for name, x, a in views(lib, (), (np.s_[:1], np.s_[:, :1])):
        has_natural_strides(lib, x, a, name)


def has_natural_strides(lib: Subject, x: Any, a: Array, what: str) -> None:
    """Fail unless the strides are those of a view such as NumPy's, or of an array in C's or Fortran's order."""
    natural = [tuple([n // a.itemsize for n in b.strides]) for b in (a, a.copy("C"), a.copy("F"))]
    for fields in kinds(lib, x):
        expect(
            fields.strides is None or fields.strides in natural,
            f"the strides of {what} are {fields.strides}, where {natural[0]} is natural",
        )


@check(
    "P27",
    "a broadcast array is exported right",
    f"{TENSOR}strides",
    severity=CORRUPTION,
    crashes=True,
)
def broadcast(lib: Subject) -> None:
    for name, x, a in broadcasts(lib):
        for fields in kinds(lib, x):
            agrees(lib, fields, a, name)


def broadcasts(lib: Subject) -> Iterator[tuple[str, Any, Array]]:
    """Yield broadcast arrays, as `views` does."""
    dtype = some(lib)[1].dtype
    for shape, wide in (((4,), (3, 4)), ((3, 1), (3, 4)), ((1,), (2, 3))):
        a = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
        yield f"shape {shape} broadcast to {wide}", made(lib, "broadcast", lib.array(a), wide), np.broadcast_to(a, wide)


@check(
    "P28",
    "an array whose elements overlap is flagged as read-only",
    "numpy broadcast_to; zarrista#108",
    severity=STYLE,
    crashes=True,
)
def overlapping(lib: Subject) -> None:
    seen = False
    for name, x, _ in broadcasts(lib):
        fields = versioned(lib, x)
        if 0 in [stride for stride, n in zip(fields.strides or (), fields.shape or (), strict=True) if n > 1]:
            seen = True
            expect(
                fields.flags & READ_ONLY,
                f"{name} is exported as writable, though with strides {fields.strides} a write changes many elements",
            )
    if not seen:
        msg = f"{lib.name} copies what it broadcasts"
        raise NotApplicable(msg)


@check(
    "P29",
    "what was imported is exported as it is: at its address, with its strides",
    f"{TENSOR}byte_offset; cuda-python#2592, pytorch#168177, flashinfer#193, MatX#1238",
    severity=CORRUPTION,
    crashes=True,
)
def passed_on(lib: Subject) -> None:
    data = aligned(np.arange(16.0).reshape(4, 4))
    cases: dict[str, tuple[dict[str, Any], Array]] = {
        "a byte_offset": ({"shape": (3, 4), "byte_offset": 4 * data.itemsize}, data[1:]),
        "a byte_offset and gaps": ({"shape": (4, 2), "strides": (4, 2), "byte_offset": data.itemsize}, data[:, 1::2]),
        "column-major strides": ({"strides": (1, 4)}, data.T),
        "a stride of 0": ({"strides": (0, 1)}, np.broadcast_to(data[0], (4, 4))),
        "a strange stride where there is one element": ({"shape": (1, 4), "strides": (777, 1)}, data[:1]),
        "no elements": ({"shape": (0, 4), "strides": (5, 7)}, data[:0]),
    }
    declined, right = "", 0
    for name, (fields, due) in cases.items():
        p = lib.producer(data, **{"strides": (4, 1), **fields})
        what = f"a tensor with {name}"
        try:
            exported = kinds(lib, lib.take_or_refuse(p, ValueError, TypeError, RuntimeError))
        except Refused as reason:
            declined = f"{what}: {reason}"
            continue
        for found in exported:
            agrees(lib, found, due, f"{what} that was imported")
        right += 1
    if not right:
        raise Refused(declined)


# ---- no dimensions, no elements --------------------------------------------------------------------------------------


@check(
    "P30",
    "an array with no dimensions is exported with its one element",
    f"{TENSOR}shape; numpy test_ndim0, cupy test_conversion_0d",
    severity=CORRUPTION,
    crashes=True,
)
def no_dimensions(lib: Subject) -> None:
    a = np.array(7).astype(some(lib)[1].dtype)
    x = lib.array(a)
    for fields in kinds(lib, x):
        expect(fields.ndim == 0, f"ndim is {fields.ndim}, not 0")
        expect(fields.address, "data is NULL, but there is one element")
        agrees(lib, fields, a, "an array with no dimensions")


def empties(lib: Subject) -> Iterator[tuple[str, Any, Array]]:
    """Yield arrays with no elements, and views, as `views` does; NotApplicable if there are none."""
    dtype, seen = some(lib)[1].dtype, False
    for shape in ((0,), (3, 0), (0, 4), (1, 8, 0, 128), (1 << 33, 0)):  # the last has no room in 32 bits
        a = np.empty(shape, dtype)
        with contextlib.suppress(NotApplicable):
            x = lib.array(a)
            seen = True
            yield f"an array of shape {shape}", x, a
    if not seen:
        msg = f"{lib.name} makes no arrays without elements"
        raise NotApplicable(msg)
    yield from views(lib, ROWS[3:], PLANES[5:])


@check(
    "P31",
    "an array with no elements is exported with its shape, and with strides",
    f"{TENSOR}data; onnxruntime#27450, cccl#11605, cudf#11449",
    crashes=True,
)
def no_elements(lib: Subject) -> None:
    for name, x, a in empties(lib):
        for fields in kinds(lib, x):
            expect(fields.ndim == a.ndim, f"ndim of {name} is {fields.ndim}")
            expect(fields.shape == a.shape, f"the shape of {name} is {fields.shape}")
            expect(
                fields.strides is not None or (fields.version or (1, 0)) < (1, 2),
                f"the strides of {name} are NULL, which version {fields.version} does not allow",
            )


@check(
    "P32",
    "the data of an array with no elements is NULL",
    f"{TENSOR}data: should be NULL; python_spec",
    severity=STYLE,
    crashes=True,
)
def no_data(lib: Subject) -> None:
    for name, x, _ in empties(lib):
        for fields in kinds(lib, x):
            expect(not fields.data, f"the data of {name} is not NULL")


# ---- where it is -----------------------------------------------------------------------------------------------------


@check(
    "P33",
    "the byte_offset is 0, and data where the first element is, also of a view",
    "numpy dlpack.c; cutlass#3450, pytorch#193213",
    severity=STYLE,
    crashes=True,
)
def no_byte_offset(lib: Subject) -> None:
    if lib.device[0] not in (HOST, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED):
        msg = f"data on device type {lib.device[0]} may be a handle that nothing can be added to"
        raise NotApplicable(msg)
    for name, x, _ in layouts(lib):
        for fields in kinds(lib, x):
            expect(
                not fields.byte_offset,
                f"{name} is exported with a byte_offset of {fields.byte_offset}, which some consumers do not heed",
            )


def is_aligned(lib: Subject, alignment: int, why: str) -> None:
    """Fail unless new arrays of all sizes begin at multiples of a number of bytes."""
    if lib.adapter.borrows:
        msg = f"the memory of {lib.name} is NumPy's"
        raise NotApplicable(msg)
    dtype, kept, found = some(lib)[1].dtype, [], []
    for n in (1, 3, 8, 13, 64, 100, 1000, 5000) * 2:
        kept.append(lib.array(np.arange(n).astype(dtype)))
        address = lib.look(kept[-1]).address
        found.append((address & -address, n * dtype.itemsize))
    least, size = min(found)
    expect(least >= alignment, f"a new array of {size} bytes is aligned to {least} bytes, not to {alignment}: {why}")


@check(
    "P34",
    "the memory of new arrays is aligned to 64 bytes",
    f"{TENSOR}data; jax#29810, warp#550, tvm#18324",
    severity=STYLE,
)
def aligned_to_64(lib: Subject) -> None:
    is_aligned(lib, 64, "JAX copies it")


@check("P35", "the memory of new arrays is aligned to 256 bytes", f"{TENSOR}data; dlpack#99", severity=STYLE)
def aligned_to_256(lib: Subject) -> None:
    is_aligned(lib, 256, "the header promises so, though it says that nobody should rely on it")


@check(
    "P36",
    "exports share the array's memory: what is written on one side is seen on the other",
    f"{STANDARD}, copy: must reuse the memory if possible; python_spec",
    severity=CORRUPTION,
    crashes=True,
)
def shares(lib: Subject) -> None:
    x, a = some(lib)
    exported = kinds(lib, x)
    for fields in exported:
        if elsewhere(fields, exported[0]) and (exported[0].flags or 0) & IS_COPIED:
            msg = "every export is a copy, and says so"
            raise Refused(msg)
        expect(not elsewhere(fields, exported[0]), "two exports of one array are on different memory")
    if lib.adapter.immutable:
        return
    lib.adapter.write(x, 9)
    for fields in exported:
        agrees(lib, fields, np.full_like(a, 9), "an array that was written to afterwards")
    x, a = some(lib)
    for n, fields in enumerate(kinds(lib, x)):
        if fields.device == CPU and not (fields.flags or 0) & READ_ONLY:
            overwrite(fields, n, a.dtype)
            found = lib.values(x)
            expect(np.all(found == n), f"a consumer has written {n} everywhere, but the array is {short(found)}")


@check(
    "P37",
    "an export that is a copy though none was asked for says so",
    f"{STANDARD}, copy: the flag must be set",
    crashes=True,
)
def admits_copies(lib: Subject) -> None:
    for name, x, a in itertools.chain(layouts(lib), views(lib, BACK[:1], PLANES_BACK[:1])):
        one, other = attempt(lib, x), attempt(lib, x)
        if isinstance(one, Exception) or isinstance(other, Exception) or not a.size:
            continue
        if elsewhere(one, other) and one.versioned:
            expect(one.flags & IS_COPIED, f"every export of {name} is a copy, but IS_COPIED is not set")


# ---- the arguments of __dlpack__ -------------------------------------------------------------------------------------


@check("P38", "__dlpack__ takes stream, max_version, dl_device and copy, each None", STANDARD)
def takes_keywords(lib: Subject) -> None:
    x, _ = some(lib)
    unknown = []
    for name in KEYWORDS:
        try:
            needs(x, name)
        except NotApplicable:
            unknown.append(f"{name}=")
    expect(not unknown, f"__dlpack__ takes no {' and no '.join(unknown)}")
    everything = dict.fromkeys(KEYWORDS)
    found = attempt(lib, x, **everything)
    if isinstance(found, Exception) and not isinstance(found, REFUSALS):
        msg = f"{told(everything)} raises {said(found)}"
        raise Failure(msg) from found


@check("P39", "the arguments of __dlpack__ are keywords", f"{STANDARD}; cupy#7829", severity=STYLE)
def keywords_alone(lib: Subject) -> None:
    x, _ = some(lib)
    try:
        x.__dlpack__(None)
    except TypeError:
        return
    except Exception as error:
        msg = f"__dlpack__(None) raises {said(error)}; due is TypeError"
        raise Failure(msg) from error
    msg = "__dlpack__(None) is accepted, but its arguments are keywords alone"
    raise Failure(msg)


@check(
    "P40",
    "a keyword that __dlpack__ does not know is a TypeError, by which consumers learn of it",
    f"{STANDARD}, max_version: except TypeError",
)
def unknown_keyword(lib: Subject) -> None:
    x, _ = some(lib)
    refusal(lib, x, "though there is no such keyword: it is ignored unseen", TypeError, of_tomorrow=True)


# -- max_version


@check(
    "P41",
    "who names no version, or one before 1.0, gets a tensor without a version, or BufferError",
    f"{STANDARD}, max_version; torch and cupy test_max_version",
    crashes=True,
)
def for_old_consumers(lib: Subject) -> None:
    x, _ = some(lib)
    cases: list[dict[str, Any]] = [{}]
    with contextlib.suppress(NotApplicable):
        needs(x, "max_version")
        cases += [{"max_version": version} for version in (None, (0, 8), (0, 0))]
    declined = ""
    for options in cases:
        try:
            capsule = x.__dlpack__(**options)
        except REFUSALS as error:
            declined = f"{told(options)}: {said(error)}"
            continue
        except Exception as error:
            msg = f"{told(options)} raises {said(error)}; due is a capsule named {LEGACY!r}, or BufferError"
            raise Failure(msg) from error
        name = name_of(capsule)
        expect(name == LEGACY, f"{told(options)} gives a {name!r}, which its consumer cannot read, not a {LEGACY!r}")
    if declined:
        raise Refused(declined)


NEW_CONSUMERS: Final = ((1, 0), (1, 3), (1, 99), (2, 0), (100, 3))
"""Versions that consumers may name which can take a tensor of DLPack 1, or say what they can take instead."""


@check(
    "P42",
    "who names version 1.0 or later gets a tensor, or BufferError",
    f"{STANDARD}, max_version",
    crashes=True,
)
def for_new_consumers(lib: Subject) -> None:
    x, a = some(lib)
    needs(x, "max_version")
    for version in NEW_CONSUMERS:
        fields = granted(lib, x, max_version=version)
        agrees(lib, fields, a, f"an array for a consumer of version {version}")
        expect(
            not fields.versioned or fields.version[0] <= version[0],
            f"{told({'max_version': version})} gives a tensor of version {fields.version}",
        )


@check(
    "P43",
    "who names version 1.0 or later gets a tensor with a version",
    f"{STANDARD}, max_version: recommended; dlpack.h 1.3, DLManagedTensor: deprecated",
    severity=STYLE,
    crashes=True,
)
def new_for_new_consumers(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "max_version")
    for version in NEW_CONSUMERS:
        fields = granted(lib, x, max_version=version)
        expect(fields.versioned, f"{told({'max_version': version})} gives a {fields.name!r}, not a {VERSIONED!r}")


@check(
    "P44",
    "a max_version that is no pair of numbers is refused as a wrong argument",
    f"{STANDARD}, max_version: a 2-tuple; numpy dlpack.c",
    severity=STYLE,
)
def malformed_version(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "max_version")
    for version in ("1.0", 1, (1,), (1, 0, 0), ("1", "0"), Nonsense()):
        wrong_argument(lib, x, "but must be a pair of numbers", max_version=version)


# -- stream

STREAMS: Final[dict[int, tuple[tuple[int | None, ...], tuple[int, ...]]]] = {
    HOST: ((None,), (0, 1, 2, 7, -2)),
    CUDA: ((None, 1, 2, -1), (0, -2)),
    CUDA_MANAGED: ((None, 1, 2, -1), (0, -2)),
    ROCM: ((None, 0, -1), (1, 2, -2)),
}
"""What `stream` may be for each type of device, and what not."""


def streams(lib: Subject, x: Any) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
    """Return the streams that an array's device has, and some that it has not."""
    needs(x, "stream")
    kind = device_of(x)[0]
    if kind not in STREAMS:
        msg = f"the streams of device type {kind} are not standardised ({lib.name})"
        raise NotApplicable(msg)
    return STREAMS[kind]


@check(
    "P45",
    "the streams that the device has are accepted: None at the least, and others where there are any",
    f"{STANDARD}, stream; cupy#5970, pytorch#67618, pytorch#101318",
    crashes=True,
)
def streams_it_has(lib: Subject) -> None:
    x, a = some(lib)
    declined = ""
    for stream in streams(lib, x)[0]:
        try:
            fields = granted(lib, x, stream=stream)
        except Refused as reason:
            expect(stream is not None, f"stream=None is refused: {reason}")
            declined = str(reason)
            continue
        agrees(lib, fields, a, f"an array for {stream=}")
    if declined:
        raise Refused(declined)


@check(
    "P46",
    "stream=-1, no synchronisation, is no TypeError where there are no streams: consumers pass it",
    f"{STANDARD}, stream: only None is accepted on the CPU; CuTe DSL",
    severity=STYLE,
    crashes=True,
)
def no_synchronisation(lib: Subject) -> None:
    x, _ = some(lib)
    if -1 in streams(lib, x)[0]:
        msg = f"device type {lib.device[0]} has streams"
        raise NotApplicable(msg)
    found = attempt(lib, x, stream=-1)
    expect(not isinstance(found, TypeError), f"stream=-1 raises {found!r}, but it is a stream of the standard")
    if isinstance(found, Exception):
        raise Refused(said(found))


@check(
    "P47",
    "a stream that the device does not have is refused, and not with TypeError",
    f"{STANDARD}, stream; numpy test_dunder_dlpack_stream, paddle#76840, array-api#106",
    crashes=True,
)
def streams_it_has_not(lib: Subject) -> None:
    x, _ = some(lib)
    for stream in streams(lib, x)[1]:
        found = attempt(lib, x, stream=stream)
        expect(
            isinstance(found, Exception),
            f"stream={stream} is accepted, but device type {lib.device[0]} has none such",
        )
        expect(
            not isinstance(found, TypeError),
            f"stream={stream} raises {found!r}, which consumers take to mean that the keyword is unknown",
        )


@check(
    "P48",
    "a stream that is no integer is refused as a wrong argument",
    f"{STANDARD}, stream; torch test_dlpack_tensor_invalid_stream",
    severity=STYLE,
    crashes=True,
)
def malformed_stream(lib: Subject) -> None:
    x, _ = some(lib)
    streams(lib, x)
    for stream in (Nonsense(), "1", 1.0, True):
        wrong_argument(lib, x, "but a stream is None or an integer", stream=stream)


# -- dl_device


@check(
    "P49",
    "dl_device may be None or the array's own device, and then nothing is copied",
    f"{STANDARD}, dl_device; numpy test_device",
    crashes=True,
)
def own_device(lib: Subject) -> None:
    x, a = some(lib)
    needs(x, "dl_device")
    own, numbers = lib.look(x), device_of(x)
    choices = [None, x.__dlpack_device__(), numbers, *([(DeviceType.CPU, 0)] if numbers == CPU else [])]
    for device in choices:
        fields = attempt(lib, x, dl_device=device)
        if isinstance(fields, Exception):
            msg = f"dl_device={device}, where the array is, raises {said(fields)}"
            raise Failure(msg) from fields
        expect(fields.device == own.device, f"dl_device={device} gives a tensor on {fields.device}, not {own.device}")
        expect(not elsewhere(fields, own), f"dl_device={device} copies, though the array is there")
        agrees(lib, fields, a, f"an array for dl_device={device}")


@check(
    "P50",
    "an array on another device can be exported to the CPU, as a copy that says so",
    f"{STANDARD}, dl_device: a compliant library should offer a way",
    severity=CORRUPTION,
    crashes=True,
)
def to_the_host(lib: Subject) -> None:
    if lib.device == CPU:
        msg = f"{lib.name} is on the CPU"
        raise NotApplicable(msg)
    x, a = some(lib)
    needs(x, "dl_device")
    own, fields = lib.look(x), granted(lib, x, dl_device=CPU)
    expect(fields.device[0] in (HOST, CUDA_HOST, ROCM_HOST, CUDA_MANAGED), f"the tensor is on device {fields.device}")
    if fields.device == CPU:
        agrees(lib, fields, a, "an array for the CPU")
    if elsewhere(fields, own) and fields.versioned:
        expect(fields.flags & IS_COPIED, "the tensor for the CPU is a copy, but IS_COPIED is not set")


@check(
    "P51",
    "a dl_device that the array cannot be exported to is a BufferError",
    f"{STANDARD}, dl_device: must raise BufferError; torch test_unsupported_device_error, array-api#831",
    crashes=True,
)
def unreachable_devices(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "dl_device")
    for kind in NEITHER_HERE_NOR_THERE:
        if kind == lib.device[0]:
            continue
        for version in (VERSION, None):
            options = {"dl_device": (kind, 0), "max_version": version}
            found = attempt(lib, x, **options)
            if isinstance(found, BufferError):
                continue
            if isinstance(found, Exception):
                msg = f"{told(options)} raises {said(found)}; due is BufferError"
                raise Failure(msg) from found
            expect(found.device[0] == kind, f"{told(options)} gives a tensor on {found.device}; due is BufferError")


@check(
    "P52",
    "a number that no device has is refused",
    f"{STANDARD}, dl_device; Raises: BufferError, other errors for incorrect arguments",
    severity=STYLE,
    crashes=True,
)
def no_such_number(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "dl_device")
    device = (lib.device[0], lib.device[1] + 99)
    refusal(lib, x, "but there is no such device", Exception, dl_device=device)


@check(
    "P53",
    "a dl_device that is no pair of numbers is refused as a wrong argument",
    f"{STANDARD}, dl_device: must be a 2-tuple; Raises: other errors for incorrect arguments; numpy device_converter",
    severity=STYLE,
    crashes=True,
)
def malformed_device(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "dl_device")
    granted(lib, x, dl_device=device_of(x))
    why = "but must be a pair of a device type and a number"
    for device in ("cpu", 1, (1,), (1, 0, 0), Nonsense()):
        wrong_argument(lib, x, why, dl_device=device)
    refusal(lib, x, why, Exception, dl_device=("cpu", 0))  # BufferError too: a pair, of a type that nobody can handle


@check(
    "P54",
    "a stream is refused where a tensor on the CPU is asked for",
    f"{STANDARD}, stream: must be None if dl_device is kDLCPU",
    crashes=True,
)
def no_stream_to_the_host(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "dl_device", "stream")
    if lib.device != CPU:
        granted(lib, x, dl_device=CPU)
    for stream in (1, 7):
        found = attempt(lib, x, dl_device=CPU, stream=stream)
        expect(
            isinstance(found, Exception),
            f"{asked({'dl_device': CPU, 'stream': stream})} is accepted, but what is on the CPU has no streams",
        )


# -- copy


def copies(lib: Subject, x: Any) -> list[SimpleNamespace]:
    """Return copies that are asked for, with a version and without; Refused if the library makes none."""
    needs(x, "copy")
    found, declined = [], ""
    paths: list[dict[str, Any]] = [{}]
    with contextlib.suppress(NotApplicable):
        needs(x, "max_version")
        paths.append({"max_version": None})
    for options in paths:
        try:
            found.append(granted(lib, x, copy=True, **options))
        except Refused as reason:
            declined = str(reason)
    if not found:
        raise Refused(declined)
    return found


@check(
    "P55",
    "copy=True gives memory that is nobody else's, on every path",
    f"{STANDARD}, copy: must always copy",
    severity=CORRUPTION,
    crashes=True,
)
def copied(lib: Subject) -> None:
    x, a = some(lib)
    own = lib.look(x)
    exported = copies(lib, x)
    for fields in exported:
        expect(elsewhere(fields, own), f"copy=True gives a {fields.name!r} on the array's own memory")
        agrees(lib, fields, a, "a copy")
        if fields.device == CPU:
            overwrite(fields, 9, a.dtype)
            expect(np.array_equal(lib.values(x), a), "what is written to a copy is seen in the array")
    addresses = {fields.address for fields in exported}
    expect(len(addresses) == len(exported), "two copies are on the same memory")


@check(
    "P56",
    "a copy is flagged as one",
    f"{STANDARD}, copy: IS_COPIED must be set; python_spec",
    crashes=True,
)
def copies_are_flagged(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "copy")
    fields = versioned(lib, x, copy=True)
    expect(fields.flags & IS_COPIED, f"copy=True gives the flags {fields.flags}, without IS_COPIED ({IS_COPIED})")


@check(
    "P57",
    "copies of every layout have the elements",
    f"{STANDARD}, copy; numba#3553",
    severity=CORRUPTION,
    crashes=True,
)
def copies_of_layouts(lib: Subject) -> None:
    for name, x, a in itertools.chain(layouts(lib), views(lib, BACK, PLANES_BACK)):
        for fields in copies(lib, x):
            agrees(lib, fields, a, f"a copy of {name}")


@check(
    "P58",
    "copy=False never copies, and copy=None does not where it need not",
    f"{STANDARD}, copy",
    severity=CORRUPTION,
    crashes=True,
)
def not_copied(lib: Subject) -> None:
    x, a = some(lib)
    needs(x, "copy")
    own = lib.look(x)
    for choice in (False, None):
        fields = granted(lib, x, copy=choice)
        expect(not elsewhere(fields, own), f"copy={choice} copies")
        expect(not (fields.flags or 0) & IS_COPIED, f"copy={choice} sets IS_COPIED, but there is no copy")
        agrees(lib, fields, a, f"an array for copy={choice}")


@check(
    "P59",
    "copy=False to another device is a BufferError if it takes a copy",
    f"{STANDARD}, copy: raise BufferError; pytorch#194267, array-api#887",
    crashes=True,
)
def not_moved(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "copy", "dl_device")
    device = (CUDA, 0) if lib.device == CPU else CPU
    options = {"dl_device": device, "copy": False}
    own, found = lib.look(x), attempt(lib, x, **options)
    if isinstance(found, Exception):
        expect(isinstance(found, BufferError), f"{asked(options)} raises {said(found)}; due is BufferError")
        return
    expect(not elsewhere(found, own), f"{asked(options)} copies to {found.device}")


@check(
    "P60",
    "a copy= that is neither None nor a truth value is refused as a wrong argument",
    f"{STANDARD}, copy; numpy test_dunder_dlpack_copy",
    severity=STYLE,
    crashes=True,
)
def malformed_copy(lib: Subject) -> None:
    x, _ = some(lib)
    needs(x, "copy")
    granted(lib, x, copy=True)
    for choice in ("no", (False,), Nonsense()):
        wrong_argument(lib, x, "but must be None, True or False", copy=choice)


# -- all of them


@check(
    "P61",
    "every combination of max_version, dl_device, copy and stream that are granted alone does what each of them says",
    f"{STANDARD}; array-api-tests test_dunder_dlpack",
    severity=CORRUPTION,
    crashes=True,
)
def combinations(lib: Subject) -> None:
    x, a = some(lib)
    needs(x, *KEYWORDS)
    own = lib.look(x)
    absent, declined = object(), ""
    choices: dict[str, list[Any]] = {
        "stream": [None],
        "max_version": [None, (0, 0), (1, 0), (2, 0)],
        "dl_device": [None, device_of(x)],
        "copy": [None, True, False],
    }
    granted_alone = {  # or not, which is the matter of other checks
        name: [absent, *[value for value in values if not isinstance(attempt(lib, x, **{name: value}), Exception)]]
        for name, values in choices.items()
    }
    for values in itertools.product(*granted_alone.values()):
        options = {name: value for name, value in zip(choices, values, strict=True) if value is not absent}
        version = options.get("max_version") or (0, 0)
        try:
            capsule = x.__dlpack__(**options)
        except REFUSALS as error:
            expect(version < (1, 0), f"{told(options)} raises {said(error)}, but each argument alone is granted")
            declined = f"{told(options)}: {said(error)}"
            continue
        except Exception as error:
            msg = f"{told(options)} raises {said(error)}"
            raise Failure(msg) from error
        fields = peek(capsule)
        fields.capsule = capsule
        expect(not fields.versioned or version >= (1, 0), f"{told(options)} gives a {fields.name!r}")
        expect(
            elsewhere(fields, own) == bool(options.get("copy")),
            f"{told(options)} gives a {fields.name!r} on {'the same' if options.get('copy') else 'other'} memory",
        )
        agrees(lib, fields, a, f"an array for {told(options)}")
    if declined:
        raise Refused(declined)
