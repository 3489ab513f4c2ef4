"""What is made of what others export: every field, every age of producer, everything malformed.

What is there for the taking must be imported, what is out of the ordinary may be declined, and what is nonsense must be
refused; never may it end in other values, or in the end of the process.  Whatever comes of it, each tensor must be let
go of once: see `Trial`.
"""

from __future__ import annotations

import ctypes
import enum
import gc
import mmap
import sys
import weakref
from ctypes import POINTER, c_int64
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack.conformance.adapters import NotAvailable, look
from nbdlpack.conformance.capsules import name_of
from nbdlpack.conformance.header import (
    CPU,
    IS_COPIED,
    IS_SUBBYTE_TYPE_PADDED,
    KINDS,
    READ_ONLY,
    VERSION,
    DLManagedTensorVersioned,
)
from nbdlpack.conformance.importing import (
    CAPSULE,
    OBJECT,
    OLD_CAPSULE,
    OLD_OBJECT,
    PLAIN,
    TABLE,
    Trial,
    Way,
    attempt,
    device,
    dtype_and_bytes,
    kind_of,
    layout,
    must_import,
    offer,
    reading,
    shares,
    short,
    values,
    ways,
    words,
)
from nbdlpack.conformance.memory import ALIGNMENT, guarded_page
from nbdlpack.conformance.producers import (
    ANY_AGE,
    OLD,
    BareProducer,
    CopyingProducer,
    Producer,
    RaisingProducer,
    VersionProducer,
)
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused, Severity, check, expect
from nbdlpack.conformance.subject import REFUSALS, is_consumed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from nbdlpack.conformance.header import DLTensor
    from nbdlpack.conformance.importing import Compare
    from nbdlpack.conformance.subject import Subject

    Fields = dict[str, Any]
    """Of a tensor."""

CORRUPTION, WRONG, STYLE = Severity

HEADER: Final = "dlpack.h 1.3, "
STANDARD: Final = "array API 2025.12, "
CAPSULES: Final = "Python specification of DLPack, semantics of capsules"
FLAT: Final = PLAIN.reshape(-1)


def bare(lib: Subject) -> tuple[Way, ...]:
    """Return the ways by capsules; NotApplicable if the library takes none."""
    must_import(lib)
    if not lib.adapter.capsules:
        msg = f"from_dlpack of {lib.name} takes no bare capsules"
        raise NotApplicable(msg)
    return CAPSULE, OLD_CAPSULE


def objects(lib: Subject) -> tuple[Way, ...]:
    """Return the ways by the method ``__dlpack__`` that the library takes."""
    return tuple([way for way in ways(lib) if way in (OBJECT, OLD_OBJECT)])


def an_object(kind: type[Producer], name: str = "an object") -> Way:
    """Return the way by the method ``__dlpack__`` of other producers than the plainest."""
    return Way(name, kind, versioned=True)


# -- plain tensors -----------------------------------------------------------------------------------------------------


@check(
    "C01",
    "A versioned capsule that an object exports is imported with its values",
    STANDARD + "from_dlpack",
    severity=CORRUPTION,
    crashes=True,
)
def versioned_capsules(lib: Subject) -> None:
    with Trial(lib, OBJECT) as trial:
        for shape in ((12,), (3, 4), (2, 3, 2)):
            trial.must(f"shape {shape}", PLAIN.reshape(shape))
        if not any("max_version" in asked for p, *_ in trial.exported for asked in p.asked):
            msg = f"{lib.name} asks for unversioned capsules alone"
            raise NotApplicable(msg)


@check(
    "C02",
    "An unversioned capsule is imported with its values, also where a versioned one was asked for",
    STANDARD + "__dlpack__, max_version: it may be of a different version",
    severity=CORRUPTION,
    crashes=True,
)
def unversioned_capsules(lib: Subject) -> None:
    with Trial(lib, OLD_OBJECT) as trial:
        for shape in ((12,), (3, 4), (2, 3, 2)):
            trial.may(f"shape {shape}", PLAIN.reshape(shape))


@check(
    "C03",
    "A bare capsule, of either kind, is imported with its values",
    "cuda-quantum#2688, dlpack#113",
    severity=CORRUPTION,
    crashes=True,
)
def bare_capsules(lib: Subject) -> None:
    with Trial(lib, *bare(lib)) as trial:
        for shape in ((12,), (3, 4), (2, 3, 2)):
            trial.may(f"shape {shape}", PLAIN.reshape(shape))


class Unasked(Producer):
    """Gives a versioned capsule whether it was asked for one or not, as torch's read-only wrapper does."""

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked.append(asked)
        return self.capsule(True)


@check(
    "C04",
    "A versioned capsule that was not asked for is told by its name: imported right, or refused",
    "dlpack#104, cutlass#3359, tilelang#2095",
    severity=CORRUPTION,
    crashes=True,
)
def versioned_unasked(lib: Subject) -> None:
    with Trial(lib, an_object(Unasked, "an object that gives nothing else")) as trial:
        trial.may("a versioned capsule")


@check(
    "C05",
    "A capsule is renamed when it is consumed",
    CAPSULES,
    severity=CORRUPTION,
    crashes=True,
)
def renaming(lib: Subject) -> None:
    with Trial(lib) as trial:
        for where, p, source in trial.offers(""):
            x = lib.take(source)
            for capsule in p.capsules:  # an exchange table makes none
                expect(
                    is_consumed(capsule),
                    f"{where}: the capsule is named {name_of(capsule)!r} once it is imported, but must be used_…, "
                    "or its destructor deletes what somebody has",
                )
            del x, source


# -- the fields of a tensor --------------------------------------------------------------------------------------------

DTYPES: Final = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"


def extremes(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return values that other dtypes do not have."""
    if dtype.kind == "b":
        return np.array([True, False, False, True])
    if dtype.kind in "iu":
        return np.array([0, 1, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    largest = np.finfo(dtype).max
    a = np.array([0, -1.5, largest, np.inf], dtype)
    if dtype.kind == "c":
        a.imag = [1.5, largest, -np.inf, 0]
    return a


@check(
    "C06",
    "Every dtype of the standard is imported as that dtype, or refused",
    HEADER + "DLDataType; warp#1619, jax#19352, cudf#5353",
    severity=CORRUPTION,
)
def dtypes(lib: Subject) -> None:
    with Trial(lib) as trial:
        for name in DTYPES.split():
            trial.may(name, extremes(np.dtype(name)))


SMALL_FLOATS: Final = {
    "bfloat16": (4, 16, 1),
    "float8_e3m4": (7, 8, 1),
    "float8_e4m3": (8, 8, 1),
    "float8_e4m3b11fnuz": (9, 8, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
}


@check(
    "C07",
    "bfloat16 and each kind of float8 is imported as that very kind, or refused",
    HEADER + "DLDataTypeCode; cupy#8801, dlpack#156, pytorch#171820",
    severity=CORRUPTION,
    crashes=True,
)
def small_floats(lib: Subject) -> None:
    with Trial(lib) as trial:
        for name, dtype in SMALL_FLOATS.items():
            data = np.arange(8, 16, dtype=np.uint8).view(f"u{dtype[1] // 8}")
            trial.may(name, data, dtype_and_bytes(dtype, data), dtype=dtype)


SUBBYTE: Final = {
    "int4": (0, 4, 1),
    "uint4": (1, 4, 1),
    "uint2": (1, 2, 1),
    "float6_e2m3fn": (15, 6, 1),
    "float6_e3m2fn": (16, 6, 1),
    "float4_e2m1fn": (17, 4, 1),
}
NUMBERS: Final = np.array([1, 2, 3, 2, 1, 0, 3, 1], np.uint8)
"""What fits into any of these."""


def packed(bits: int) -> npt.NDArray[Any]:
    """Return the bytes of the numbers, packed so that the first has the lowest bits."""
    number = sum(int(n) << (bits * i) for i, n in enumerate(NUMBERS))
    return np.frombuffer(number.to_bytes(bits * NUMBERS.size // 8, "little"), np.uint8)


def subbyte(dtype: tuple[int, int, int], flags: int) -> Compare:
    """Return a function that says how numbers of less than a byte differ from those that came in.

    What comes out with the same dtype must have the bytes that its flag for padding says.  Otherwise it is values that
    count, and of floats, whose codes are no numbers, the dtype.
    """
    code, bits, _ = dtype
    data = NUMBERS if flags else packed(bits)

    def compare(lib: Subject, x: Any) -> str | None:
        try:
            found = lib.look(x)
        except (BufferError, AttributeError):
            found = None  # it does not say
        padded = found is not None and found.versioned and found.flags & IS_SUBBYTE_TYPE_PADDED
        if found is not None and found.dtype == dtype and lib.device == CPU:
            due = NUMBERS if padded else packed(bits)
            if ctypes.string_at(found.address, due.nbytes) == due.tobytes():
                return None
            return (
                f"comes out as {'padded' if padded else 'packed'}, but its bytes are {'packed' if padded else 'padded'}"
            )
        if code > 1:
            return None if found is None else dtype_and_bytes(dtype, data[:0])(lib, x)
        got = lib.values(x)
        same = got.shape == NUMBERS.shape and (got.astype(np.int64) == NUMBERS).all()
        return None if same else f"the values are {short(got)}, but must be {short(NUMBERS)}"

    return compare


@check(
    "C08",
    "Elements of less than a byte, packed, are imported right or refused",
    HEADER + "DLDataType: packed in little bit-endian order",
    severity=CORRUPTION,
    crashes=True,
)
def packed_elements(lib: Subject) -> None:
    with Trial(lib) as trial:
        for name, dtype in SUBBYTE.items():
            trial.may(name, packed(dtype[1]), subbyte(dtype, 0), dtype=dtype, shape=NUMBERS.shape, strides=(1,))


@check(
    "C09",
    "Elements of less than a byte, padded to one as the flag says, are imported right or refused",
    HEADER + "DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED",
    severity=CORRUPTION,
    crashes=True,
)
def padded_elements(lib: Subject) -> None:
    flag = IS_SUBBYTE_TYPE_PADDED
    with Trial(lib, versioned=True) as trial:
        for name, dtype in SUBBYTE.items():
            trial.may(name, NUMBERS, subbyte(dtype, flag), dtype=dtype, flags=flag)


@check(
    "C10",
    "Null strides mean C order, as they did before DLPack 1.2",
    HEADER + "DLTensor.strides; cupy#2119, dlpack#178, numpy#29872",
    severity=CORRUPTION,
    crashes=True,
)
def null_strides(lib: Subject) -> None:
    with Trial(lib) as trial:
        for shape in ((12,), (3, 4), (2, 3, 2), (1, 12, 1)):
            trial.must(f"null strides, shape {shape}", PLAIN.reshape(shape), strides=None, version=(1, 1))
        trial.need_not("null strides in DLPack 1.3, which has none", strides=None)


OFFSETS: Final[tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]] = (
    (8, (4,), (1,)),
    (8, (), ()),
    (16, (2, 2), (4, 1)),
    (32, (2,), (3,)),
)
"""byte_offset, shape, strides."""


@check(
    "C11",
    "byte_offset is added to the address",
    HEADER + "DLTensor.byte_offset; cuda-python#2592, pytorch#168177, tvm#11340, flashinfer#193",
    severity=CORRUPTION,
    crashes=True,
)
def byte_offset(lib: Subject) -> None:
    with Trial(lib) as trial:
        for offset, shape, strides in OFFSETS:
            due = np.lib.stride_tricks.as_strided(FLAT[offset // 4 :], shape, [4 * n for n in strides])
            what = f"byte_offset {offset}, shape {shape}, strides {strides}"
            trial.may(what, FLAT, values(due), byte_offset=offset, shape=shape, strides=strides)
        trial.need_not("byte_offset 2**64 - 8", FLAT, ahead=8, byte_offset=(1 << 64) - 8)


@check(
    "C12",
    "byte_offset is added to the address where strides are null",
    HEADER + "DLTensor.byte_offset; cuda-python#2594, pytorch#170432",
    severity=CORRUPTION,
    crashes=True,
)
def byte_offset_null_strides(lib: Subject) -> None:
    with Trial(lib) as trial:
        for offset, shape in ((8, (4,)), (16, (2, 2))):
            due = values(FLAT[offset // 4 :][:4].reshape(shape))
            fields = {"byte_offset": offset, "shape": shape, "strides": None, "version": (1, 1)}
            trial.may(f"byte_offset {offset}, shape {shape}", FLAT, due, **fields)


def nowhere(tensor: DLTensor) -> None:
    """Let the pointers to shape and strides lead to where nothing is."""
    tensor.shape = tensor.strides = ctypes.cast(16, POINTER(c_int64))


@check(
    "C13",
    "A tensor of no dimensions is one element, whatever its pointers to shape and strides are",
    HEADER + "DLTensor.shape",
    severity=CORRUPTION,
    crashes=True,
)
def no_dimensions(lib: Subject) -> None:
    one = np.array(5, np.float32)
    with Trial(lib) as trial:
        trial.must("null shape and strides", one, shape=None, strides=None)
        trial.must("shape and strides that are there", one)
        trial.must("null strides", one, strides=None)
        trial.must("pointers that lead nowhere", one, edit=nowhere)


NO_ELEMENTS: Final = ((0,), (0, 3), (3, 0), (2, 0, 4))


@check(
    "C14",
    "A tensor without elements is imported, its data being null",
    HEADER + "DLTensor.data; onnxruntime#27450, cudf#11449",
    severity=WRONG,
    crashes=True,
)
def empty_null(lib: Subject) -> None:
    with Trial(lib) as trial:
        for shape in NO_ELEMENTS:
            trial.must(f"null data, shape {shape}", np.zeros(shape, np.float32), address=None)


@check(
    "C15",
    "A tensor without elements is imported, whatever its data and strides are",
    "tensorflow#61184, cuda-python#1396, cupy#2104",
    severity=WRONG,
    crashes=True,
)
def empty_odd(lib: Subject) -> None:
    with Trial(lib) as trial:
        for shape in NO_ELEMENTS:
            data, n = np.zeros(shape, np.float32), len(shape)
            trial.must(f"data that is there, shape {shape}", data)
            trial.must(f"strides of 0, shape {shape}", data, strides=(0,) * n)
            trial.must(f"strides from 5 on, shape {shape}", data, strides=(5, 6, 7)[:n])
            trial.must(f"null strides, shape {shape}", data, strides=None, version=(1, 1))
            trial.may(f"an offset of 8, shape {shape}", data, byte_offset=8)


@check(
    "C16",
    "The strides of dimensions of one element do not matter",
    "triton-server#6102, tilelang#1968, pytorch#163274, cupy#2104",
    severity=CORRUPTION,
    crashes=True,
)
def single_dimensions(lib: Subject) -> None:
    with Trial(lib) as trial:
        for shape, strides in (
            ((1, 12), (777, 1)),
            ((12, 1), (1, 777)),
            ((3, 1, 4), (4, 0, 1)),
            ((3, 1, 4), (4, -5, 1)),
            ((1,), (-9,)),
            ((1, 1), (1 << 40, 0)),
        ):
            data = FLAT[: np.prod(shape)].reshape(shape)
            offer_it = trial.may if min(strides) < 0 else trial.must  # a library may know no negative strides at all
            offer_it(f"shape {shape}, strides {strides}", data, strides=strides)


def views(trial: Trial, base: npt.NDArray[Any], cases: dict[str, npt.NDArray[Any]]) -> None:
    """Import views of an array, as whose memory the base's is taken."""
    for what, view in cases.items():
        trial.may(what, base, values(view), **layout(base, view))


@check(
    "C17",
    "Strides that skip or exchange elements give the right ones, or are refused",
    HEADER + "DLTensor.strides",
    severity=CORRUPTION,
    crashes=True,
)
def strided(lib: Subject) -> None:
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    with Trial(lib) as trial:
        views(trial, FLAT, {"every second element": FLAT[::2], "every third, from the second on": FLAT[1::3]})
        views(trial, PLAIN, {"columns": PLAIN[:, 1:3], "steps of both": PLAIN[::2, 1::2], "one column": PLAIN[:, 2]})
        views(trial, PLAIN, {"exchanged axes": PLAIN.T})
        views(trial, cube, {"three exchanged axes": cube.transpose(1, 2, 0), "that and steps": cube[:, 1:, ::3].T})


@check(
    "C18",
    "Negative strides give the right elements, or are refused",
    "pytorch#188023, scikit-learn#34380, tensorflow#51598, cupy#10172",
    severity=CORRUPTION,
    crashes=True,
)
def negative_strides(lib: Subject) -> None:
    with Trial(lib) as trial:
        views(trial, FLAT, {"backwards": FLAT[::-1], "every third backwards": FLAT[::-3]})
        views(trial, PLAIN, {"rows backwards": PLAIN[::-1], "a part backwards": PLAIN[1:, 2::-2]})
        views(trial, PLAIN, {"all backwards, axes exchanged": PLAIN[::-1, ::-1].T})


@check(
    "C19",
    "Strides of zero repeat elements, or are refused",
    HEADER + "DLTensor.strides; zarrista#108",
    severity=CORRUPTION,
    crashes=True,
)
def zero_strides(lib: Subject) -> None:
    row = FLAT[:4]
    with Trial(lib) as trial:
        views(trial, row, {"a row repeated": np.broadcast_to(row, (3, 4))})
        views(trial, row, {"each element repeated": np.broadcast_to(row[:, None], (4, 3))})
        views(trial, row[:1], {"one element repeated": np.broadcast_to(row[:1], (2, 5))})


@check(
    "C20",
    "Elements at addresses that are no multiples of their size are read right, or refused",
    HEADER + "DLTensor.data; jax#29810, warp#550, tvm#18324, dlpack#99",
    severity=CORRUPTION,
    crashes=True,
)
def unaligned(lib: Subject) -> None:
    with Trial(lib) as trial:
        for dtype, code in ((np.float32, 2), (np.int64, 0), (np.complex128, 5)):
            due = np.arange(1, 9, dtype=dtype)
            for ahead in (1, 2, 4):
                raw = np.concatenate([np.zeros(ahead, np.uint8), due.view(np.uint8)])
                fields = {"dtype": (code, due.itemsize * 8, 1), "shape": due.shape, "strides": (1,)}
                trial.may(f"{due.dtype} {ahead} bytes further", raw, values(due), ahead=ahead, **fields)
                trial.may(f"{due.dtype}, byte_offset {ahead}", raw, values(due), byte_offset=ahead, **fields)


MOST_DIMENSIONS: Final = 32
"""Of NumPy's arrays, before it was 64."""


@check(
    "C21",
    "Any number of dimensions is imported or refused",
    HEADER + "DLTensor.ndim",
    severity=CORRUPTION,
    crashes=True,
)
def many_dimensions(lib: Subject) -> None:
    def number(n: int) -> Compare:
        def compare(lib: Subject, x: Any) -> str | None:
            found = lib.look(x).ndim if lib.adapter.producer else n
            return None if found == n else f"comes out with {found} dimensions"

        return compare

    one = np.ones(1, np.float32)
    with Trial(lib) as trial:
        for n in (5, 8, 16, MOST_DIMENSIONS):
            trial.may(f"{n} dimensions", one, values(one.reshape((1,) * n)), shape=(1,) * n, strides=(1,) * n)
        for n in (MOST_DIMENSIONS + 1, 64, 65, 127, 128, 129, 1000):
            trial.need_not(f"{n} dimensions", one, number(n), shape=(1,) * n, strides=(1,) * n)


@check(
    "C22",
    "No memory is touched but that of the elements",
    HEADER + "DLTensor",
    severity=CORRUPTION,
    crashes=True,
)
def bounds(lib: Subject) -> None:
    if lib.device != CPU:
        msg = f"pages are those of the host, not of device {lib.device}"
        raise NotApplicable(msg)
    page = guarded_page()
    floats = page.view(np.float32)
    floats[:] = np.arange(floats.size)
    start, end = page.ctypes.data, page.ctypes.data + page.nbytes
    columns = np.lib.stride_tricks.as_strided(floats[-10:], (3, 2), (16, 4))  # its last row ends where the page does
    with Trial(lib) as trial:
        for what, view, fields in (
            ("up to the end of a page", floats[-64:], {}),
            ("from the beginning of a page on", floats[:64], {}),
            ("columns up to the end of a page", columns, {}),
            ("rows up to the end of a page", floats[-64:].reshape(4, 16)[::2], {}),
            ("one element with an odd stride", floats[-1:], {"strides": (1 << 20,)}),
            (
                "an offset from an address in another page",
                floats[:64],
                {"address": start - page.nbytes, "byte_offset": page.nbytes},
            ),
            ("no elements at the end of a page", floats[:0], {"address": end}),
        ):
            strides = tuple([n // 4 for n in view.strides])
            given = {"address": view.ctypes.data, "shape": view.shape, "strides": strides, **fields}
            trial.may(what, FLAT, values(view), **given)
        numbers = page.view(np.int64)[-4:]
        numbers[:] = (3, 4, 4, 1)

        def point(tensor: DLTensor) -> None:
            tensor.shape = ctypes.cast(end - 32, POINTER(c_int64))
            tensor.strides = ctypes.cast(end - 16, POINTER(c_int64))

        trial.may("shape and strides at the end of a page", edit=point)


# -- nonsense ----------------------------------------------------------------------------------------------------------


def memory_of(lib: Subject, x: Any) -> str:
    """Return in words what memory an array has that was given none."""
    try:
        address = lib.look(x).address
    except Exception:  # noqa: BLE001 (it is only for the message)
        return "something"
    return "an array of memory that nobody has written to" if address > mmap.PAGESIZE else "an array at a null pointer"


@check(
    "C23",
    "Null data with elements is refused",
    HEADER + "DLTensor.data: NULL if the tensor is of size zero; MatX#1204",
    severity=CORRUPTION,
    crashes=True,
)
def null_data(lib: Subject) -> None:
    with Trial(lib) as trial:
        cases: dict[str, Fields] = {
            "null data with 12 elements": {},
            "null data with no dimensions": {"shape": (), "strides": ()},
            "null data with an offset": {"byte_offset": 64},
        }
        for what, fields in cases.items():
            for where, _, source in trial.offers(what, address=None, **fields):
                x, refusal = attempt(lib, source)
                if refusal is None:
                    msg = f"{where}: is imported as {memory_of(lib, x)}, but must be refused"
                    raise Failure(msg)


@check(
    "C24",
    "A negative number of dimensions is refused",
    HEADER + "DLTensor.ndim; mohu#328, arrow#51122",
    severity=CORRUPTION,
    crashes=True,
)
def negative_ndim(lib: Subject) -> None:
    with Trial(lib) as trial:
        for n in (-1, -2, -(1 << 31)):
            trial.must_not(f"ndim {n}", "that is no number of dimensions", late=True, ndim=n)


@check(
    "C25",
    "Null for the shape of one or more dimensions is refused",
    HEADER + "DLTensor.shape: NULL if ndim is 0; mohu#328, arrow#51122",
    severity=CORRUPTION,
    crashes=True,
)
def null_shape(lib: Subject) -> None:
    with Trial(lib) as trial:
        for n in (1, 2):
            fields: Fields = {"shape": None, "strides": (1,) * n, "ndim": n}
            trial.must_not(f"a null shape with ndim {n}", "has no shape", late=True, **fields)


@check(
    "C26",
    "Negative extents are refused",
    "mohu#328, tensorflow#116201",
    severity=CORRUPTION,
    crashes=True,
)
def negative_extents(lib: Subject) -> None:
    with Trial(lib) as trial:
        for shape in ((-4,), (-2, -2), (3, -1), (0, -1), (-(1 << 63),)):
            fields: Fields = {"shape": shape, "strides": (1,) * len(shape)}
            trial.must_not(f"shape {shape}", "has a negative extent", late=True, **fields)


HUGE: Final = 1 << 32


def too_large(lib: Subject, because: str, cases: Iterable[tuple[tuple[int, ...], tuple[int, ...] | None]]) -> None:
    """Fail unless tensors of some shapes and strides are refused."""
    with Trial(lib) as trial:
        for shape, strides in cases:
            fields: Fields = {"shape": shape, "strides": strides, "version": (1, 1)}
            trial.must_not(f"shape {shape}, strides {strides or 'null'}", because, late=True, **fields)


@check(
    "C27",
    "Extents whose product overflows are refused",
    "mohu#328, tensorflow#116201",
    severity=CORRUPTION,
    crashes=True,
)
def elements_overflow(lib: Subject) -> None:
    shapes = ((HUGE, HUGE), (1 << 61, 4, 2), (1 << 40, 1 << 40))  # the first two are 0 in arithmetic modulo 2**64
    too_large(lib, "the number of its elements overflows", [(shape, None) for shape in shapes])
    too_large(lib, "the number of its elements overflows", [(shape, (0,) * len(shape)) for shape in shapes])


@check(
    "C28",
    "Extents that are too large for the size of the elements are refused",
    "mohu#328, tensorflow#116201",
    severity=CORRUPTION,
    crashes=True,
)
def bytes_overflow(lib: Subject) -> None:
    shapes = ((1 << 62,), ((1 << 63) - 1,), (1 << 31, 1 << 31))
    too_large(lib, "its number of bytes overflows", [(shape, None) for shape in shapes])


@check(
    "C29",
    "Strides that reach further than addresses go are refused",
    "mohu#328, dpctl#1766",
    severity=CORRUPTION,
    crashes=True,
)
def strides_overflow(lib: Subject) -> None:
    cases = (
        ((4,), (1 << 62,)),  # all elements are one in arithmetic modulo 2**64
        ((3,), ((1 << 63) - 1,)),
        ((3,), (-(1 << 63),)),
        ((3, 3), (1 << 60, 1 << 60)),
        ((HUGE, HUGE), (HUGE, 1)),
        ((1 << 62,), (1,)),
    )
    too_large(lib, "its strides lead to where no addresses are", cases)


def odd_dtypes(lib: Subject, cases: dict[str, tuple[int, int, int]]) -> None:
    """Fail unless tensors of odd dtypes are refused, or come out again as they are."""
    data = np.arange(64, dtype=np.uint8)
    with Trial(lib) as trial:
        for what, dtype in cases.items():
            trial.need_not(what, data, dtype_and_bytes(dtype, data[:0]), dtype=dtype, shape=(2,), strides=(1,))


@check(
    "C30",
    "Elements of more than one lane are refused, or stay what they are",
    HEADER + "DLDataType.lanes",
    severity=CORRUPTION,
    crashes=True,
)
def lanes(lib: Subject) -> None:
    odd_dtypes(lib, {f"float32 in {n} lanes": (2, 32, n) for n in (2, 4, 0, 65535)})


@check(
    "C31",
    "Numbers of bits that no dtype has are refused, or stay what they are",
    HEADER + "DLDataType.bits; jax#19352, cupy#8801",
    severity=CORRUPTION,
    crashes=True,
)
def bits(lib: Subject) -> None:
    odd_dtypes(
        lib,
        {
            "bool of 1 bit": (6, 1, 1),
            "bool of 64 bits": (6, 64, 1),
            "float of 24 bits": (2, 24, 1),
            "float of 8 bits": (2, 8, 1),
            "float of 128 bits": (2, 128, 1),
            "int of 12 bits": (0, 12, 1),
            "int of 0 bits": (0, 0, 1),
            "uint of 128 bits": (1, 128, 1),
            "complex of 32 bits": (5, 32, 1),
            "complex of 96 bits": (5, 96, 1),
            "bfloat of 32 bits": (4, 32, 1),
            "float8_e4m3fn of 16 bits": (10, 16, 1),
            "float6_e2m3fn of 8 bits": (15, 8, 1),
            "float4_e2m1fn of 8 bits": (17, 8, 1),
        },
    )


@check(
    "C32",
    "Dtype codes that nobody knows are refused, or stay what they are",
    HEADER + "DLDataTypeCode",
    severity=CORRUPTION,
    crashes=True,
)
def codes(lib: Subject) -> None:
    odd_dtypes(lib, {f"dtype code {code}": (code, bits, 1) for code, bits in ((3, 64), (99, 32), (128, 8), (255, 64))})


METAL: Final = (8, 0)
"""A device that hardly any library has."""


@check(
    "C33",
    "A tensor on a device that the library does not know is refused, or stays there",
    HEADER + "DLDeviceType",
    severity=CORRUPTION,
    crashes=True,
)
def foreign_devices(lib: Subject) -> None:
    with Trial(lib) as trial:
        for kind in (METAL[0], 9, 15, 16, 0, 5, 6, 99, -1, (1 << 31) - 1):
            if kind != lib.device[0]:
                trial.need_not(f"device type {kind}", PLAIN, device((kind, 0)), device=(kind, 0))
        if lib.device == CPU:
            trial.need_not("a CPU with number 7", device=(CPU[0], 7))


@check(
    "C34",
    "What the capsule says of the device counts, if __dlpack_device__ says something else",
    HEADER + "DLTensor.device",
    severity=CORRUPTION,
    crashes=True,
)
def contradicting_devices(lib: Subject) -> None:
    with Trial(lib, *objects(lib)) as trial:
        trial.need_not(
            "only the capsule being of another device", PLAIN, device(METAL), device=METAL, claims=lib.device
        )
        trial.need_not("only the object being of another device", PLAIN, claims=METAL)


class Placed(Producer):
    """Says anything of its device."""

    says: Any = None

    def __dlpack_device__(self) -> Any:
        return self.says


@check(
    "C35",
    "What __dlpack_device__ returns is refused if it is no pair of integers, or not looked at",
    "mlx#1165",
    severity=WRONG,
    crashes=True,
)
def malformed_device(lib: Subject) -> None:
    with Trial(lib) as trial:
        for says in (None, 1, (), (1,), (1, 0, 0), ("cpu", 0), (1, None), (1 << 40, 0), (-1, -1), "10"):
            trial.ways = (an_object(type("Placed", (Placed,), {"says": says})),)
            trial.need_not(f"__dlpack_device__ {says!r}")


# -- versions and flags ------------------------------------------------------------------------------------------------


@check(
    "C36",
    "A tensor of another major version is refused",
    HEADER + "DLPackVersion; dlpack#113, array-api#602",
    severity=CORRUPTION,
    crashes=True,
)
def major_version(lib: Subject) -> None:
    because = f"the layout is that of major version {VERSION[0]} alone"
    with Trial(lib, versioned=True) as trial:
        for version in ((2, 0), (3, 1), (100, 0), ((1 << 32) - 1, 0)):
            trial.must_not(f"version {version[0]}.{version[1]}", because, version=version)


@check(
    "C37",
    "Of a tensor of another major version nothing is read but the deleter",
    HEADER + "DLPackVersion; dlpack#113, array-api#602",
    severity=CORRUPTION,
    crashes=True,
)
def major_version_unread(lib: Subject) -> None:
    def hide(tensor: DLTensor) -> None:
        nowhere(tensor)
        tensor.data = 16

    def scramble(tensor: DLTensor) -> None:
        ctypes.memset(ctypes.addressof(tensor), 0xA5, ctypes.sizeof(tensor))

    because = "its layout cannot be known"
    with Trial(lib, versioned=True) as trial:
        trial.must_not("version 2.0, pointers that lead nowhere", because, version=(2, 0), edit=hide)
        trial.must_not("version 2.0, nonsense", because, version=(2, 0), edit=scramble, flags=(1 << 64) - 1)


@check("C38", "Any minor version is understood", HEADER + "DLPackVersion")
def minor_version(lib: Subject) -> None:
    with Trial(lib, versioned=True) as trial:
        for minor in (0, 1, 2, VERSION[1], VERSION[1] + 1, 99, (1 << 32) - 1):
            trial.must(f"version {VERSION[0]}.{minor}", version=(VERSION[0], minor))


@check(
    "C39",
    "A versioned tensor of major version 0 is refused",
    HEADER + "DLPackVersion: major != DLPACK_MAJOR_VERSION",
    severity=STYLE,
    crashes=True,
)
def version_zero(lib: Subject) -> None:
    with Trial(lib, versioned=True) as trial:
        trial.must_not("version 0.8", f"the layout is that of major version {VERSION[0]} alone", version=(0, 8))


# A library that has no read-only arrays should ignore the flag rather than refuse the tensor, says the standard: it is
# well to have them, but no duty.  What becomes of read-only arrays where there are some is a matter of W01 to W10.


def not_written(lib: Subject, part: Callable[[Any], Any], what: str) -> None:
    """Fail if a tensor that is flagged read-only changes when a part of the array is written to."""
    if lib.adapter.immutable:
        return
    with Trial(lib, versioned=True) as trial:
        for way in trial.ways:
            p, source = trial.watch(f"from {way.words}", *offer(lib, way, flags=READ_ONLY, poison=False))
            x, refusal = attempt(lib, source)
            if refusal is not None:
                trial.decline("a read-only tensor", refusal)
                continue
            y = part(x)
            try:
                lib.adapter.write(y, 9)
            except NotAvailable as reason:
                raise NotApplicable(str(reason)) from None
            except Exception:  # noqa: BLE001 (whatever it is, nothing was written)
                changed = False
            else:  # if nothing has changed it was a copy that was written to
                now = p.data if lib.device == CPU else lib.values(lib.take(way.source(p)))
                changed = bool((now != PLAIN).any())
            del x, y, source
            expect(not changed, f"from {way.words}: is flagged READ_ONLY, but {what} can be written to")


@check(
    "C40",
    "An array that was imported read-only cannot be written to",
    HEADER + "DLPACK_FLAG_BITMASK_READ_ONLY; dpctl#1755, numba#1229; array-api#749: a recommendation",
    severity=STYLE,
    crashes=True,
)
def read_only(lib: Subject) -> None:
    not_written(lib, lambda x: x, "the array")


@check(
    "C41",
    "A view of an array that was imported read-only cannot be written to",
    HEADER + "DLPACK_FLAG_BITMASK_READ_ONLY; dpctl#1755; array-api#749: a recommendation",
    severity=STYLE,
    crashes=True,
)
def read_only_view(lib: Subject) -> None:
    not_written(lib, lambda x: lib.ask("view", x, np.s_[1:]), "a view of the array")


@check(
    "C42",
    "What was imported read-only is exported again as read-only, or not at all",
    HEADER + "DLPACK_FLAG_BITMASK_READ_ONLY; dpctl#1755; array-api#749: a recommendation",
    severity=STYLE,
    crashes=True,
)
def read_only_again(lib: Subject) -> None:
    with Trial(lib, versioned=True) as trial:
        if not lib.adapter.producer:
            msg = f"{lib.name} exports nothing"
            raise NotApplicable(msg)
        for version in (VERSION, None):
            for where, p, source in trial.offers("", flags=READ_ONLY):
                x, refusal = attempt(lib, source)
                if refusal is not None:
                    trial.decline("a read-only tensor", refusal)
                    continue
                try:
                    again = lib.look(x, max_version=version)
                except REFUSALS:
                    again = None
                del x, source
                if again is None or again.address != p.fields["address"]:
                    continue
                expect(
                    again.versioned and again.flags & READ_ONLY,
                    f"{where}: is flagged READ_ONLY, but exported again, for max_version={version}, "
                    + (f"with flags {again.flags}" if again.versioned else "unversioned")
                    + ": it must be flagged or refused",
                )
                del again


@check(
    "C43",
    "Flags that say nothing of the tensor, or are not known, do not matter",
    HEADER + "DLManagedTensorVersioned.flags",
)
def unknown_flags(lib: Subject) -> None:
    with Trial(lib, versioned=True) as trial:
        for bit in (3, 5, 31, 32, 63):
            trial.must(f"flag 1 << {bit}", flags=1 << bit)
        trial.must("flag IS_COPIED", flags=IS_COPIED)
        trial.need_not("the flag for padding, of whole bytes", flags=IS_SUBBYTE_TYPE_PADDED)


# -- capsules ----------------------------------------------------------------------------------------------------------


@check(
    "C44",
    "A tensor without a deleter is imported, and let go of without a crash",
    HEADER + "DLManagedTensorVersioned.deleter; dlpack#51, pytorch#43166, pytorch#84612",
    severity=CORRUPTION,
    crashes=True,
)
def null_deleter(lib: Subject) -> None:
    with Trial(lib) as trial:
        trial.must("a null deleter", null_deleter=True)
        dtype = (99, 32, 1)
        trial.need_not(
            "a null deleter and an unknown dtype",
            FLAT,
            dtype_and_bytes(dtype, FLAT[:0]),
            null_deleter=True,
            dtype=dtype,
        )


def wrong_names(lib: Subject, names: Iterable[str], because: str) -> None:
    """Fail unless capsules of these names are refused, and left alone."""
    with Trial(lib) as trial:
        trial.ways = tuple([way for way in trial.ways if way is not TABLE])
        for name in names:
            trial.must_not(f"a capsule named {name!r}", because, name=name)


@check(
    "C45",
    "A capsule with another name is refused, and left alone",
    "dlpack#104, dlpack#113, cutlass#3359",
    severity=CORRUPTION,
    crashes=True,
)
def other_names(lib: Subject) -> None:
    wrong_names(lib, ("dltensor_versioned_2", "dltenso", "DLTENSOR", "arrow_array"), "has nothing to do with DLPack")


@check(
    "C46",
    "A capsule that somebody has consumed is refused, and left alone",
    CAPSULES,
    severity=CORRUPTION,
    crashes=True,
)
def used_names(lib: Subject) -> None:
    wrong_names(lib, ("used_dltensor", "used_dltensor_versioned"), "somebody else has consumed it")


class Repeating(Producer):
    """Exports the same capsule again and again."""

    def __dlpack__(self, *, max_version: Any = None, **asked: Any) -> Any:
        self.asked.append(asked)
        return self.capsules[0] if self.capsules else self.capsule(max_version is not None)


@check(
    "C47",
    "A capsule can be consumed once: the second time is refused",
    CAPSULES + "; pytorch#9260, cupy#1445",
    severity=CORRUPTION,
    crashes=True,
)
def twice(lib: Subject) -> None:
    with Trial(lib) as trial:
        repeating = an_object(Repeating, "an object that always gives the same capsule")
        trial.ways = (repeating, *[way for way in trial.ways if way.bare])
        for where, _, source in trial.offers(""):
            x = lib.take(source)
            y, refusal = attempt(lib, source)
            expect(refusal is not None, f"{where}: is imported twice, so that two arrays own one memory")
            wrong = reading(lib, x, values(PLAIN))
            expect(wrong is None, f"{where}, once a second import was refused: {wrong}")
            del x, y, source


# -- how producers are asked -------------------------------------------------------------------------------------------


class Recording(Producer):
    """Writes down how it is asked, word for word."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __dlpack__(self, *args: Any, **asked: Any) -> Any:
        self.calls.append((args, asked))
        version = asked.get("max_version")
        return self.capsule(version is not None and version[0] >= 1)


def calls(lib: Subject, **options: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the arguments of each call of ``__dlpack__`` in an import."""
    ways(lib)
    p: Any = offer(lib, an_object(Recording))[0]
    lib.take(p, **options)
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = p.calls
    return found


def understood(lib: Subject, kinds: Iterable[type[Producer]], refusals: tuple[type[Exception], ...] = REFUSALS) -> None:
    """Fail unless producers of some kinds are imported right; Refused if that is declined by one of some exceptions."""
    with Trial(lib) as trial:
        for kind in kinds:
            what = f"a {kind.__name__} ({' '.join((kind.__doc__ or '').split()).rstrip('.')})"
            p, _ = trial.watch(what, *offer(lib, an_object(kind)))
            for _ in range(2):  # when the type is met for the first time, and later
                try:
                    x = lib.take(p)
                except refusals as error:
                    trial.decline(what, words(error))
                except (TypeError, ValueError, RuntimeError) as error:
                    msg = f"{what} is not imported: {words(error)}"
                    raise Failure(msg) from error
                else:
                    wrong = reading(lib, x, values(PLAIN))
                    del x
                    expect(wrong is None, f"{what}: {wrong}")


@check(
    "C48",
    "Producers of any age are understood: with a stream alone, without copies and devices, and newer ones",
    STANDARD + "__dlpack__, logic for the consumer; dpctl#1789, cupynumeric#1239, array-api#602",
)
def any_age(lib: Subject) -> None:
    new = (VersionProducer, Producer)
    takes_old = OLD_OBJECT in ways(lib)
    understood(lib, [kind for kind in ANY_AGE if kind in new or (takes_old and kind is not BareProducer)])
    if not takes_old:
        msg = "producers that know no versions give unversioned tensors, which are deprecated and not taken"
        raise Refused(msg)


@check(
    "C49",
    "Producers from before the standard, without keywords, are understood, or raise their TypeError",
    STANDARD + "__dlpack__: it has always had the keyword stream; from_dlpack, Raises: must propagate such exceptions",
    severity=STYLE,
)
def before_the_standard(lib: Subject) -> None:
    understood(lib, [BareProducer], (*REFUSALS, TypeError))


MOST_CALLS: Final = 4
"""With one keyword less each time there are no more."""


def raised(lib: Subject, error: BaseException) -> tuple[BaseException, int]:
    """Import from a producer that raises an exception; return what comes out, and how often it was asked."""
    ways(lib)
    p = RaisingProducer(error)
    p.claims = lib.device
    return lib.raises(BaseException, lambda: lib.take(p)), len(p.asked)


@check(
    "C50",
    "A TypeError of the producer's own comes out with its message, and is not asked for again and again",
    "dpctl#1789, cupynumeric#1239, array-api#602",
)
def own_type_errors(lib: Subject) -> None:
    for text in ("the producer's own reason", "helper() got an unexpected keyword argument 'nonsense'"):
        found, times = raised(lib, TypeError(text))
        expect(
            isinstance(found, TypeError) and text in str(found),
            f"__dlpack__ raises TypeError: {text}, but what comes out is {words(found)}",
        )
        expect(times <= MOST_CALLS, f"__dlpack__, which raises TypeError, is called {times} times")


@check(
    "C51",
    "What the producer raises comes out as it is: BufferError, ValueError, RuntimeError and others",
    STANDARD + "from_dlpack, Raises: must propagate such exceptions; FlyDSL#1099, array-api-compat#173",
)
def propagated(lib: Subject) -> None:
    for kind in (BufferError, ValueError, RuntimeError, NotImplementedError, AttributeError, KeyError, MemoryError):
        error = kind("the producer's reason")
        found, _ = raised(lib, error)
        expect(
            type(found) is kind and str(found) == str(error),
            f"__dlpack__ raises {words(error)}, but what comes out is {words(found)}",
        )


@check(
    "C52",
    "KeyboardInterrupt in a producer is let through at once",
    STANDARD + "from_dlpack, Raises: must propagate such exceptions",
)
def interrupted(lib: Subject) -> None:
    found, times = raised(lib, KeyboardInterrupt())
    expect(isinstance(found, KeyboardInterrupt), f"KeyboardInterrupt in __dlpack__ comes out as {words(found)}")
    expect(times == 1, f"after KeyboardInterrupt __dlpack__ is called again, {times} times in all")


class Lost(Producer):
    """Cannot say what device it is on."""

    def __dlpack_device__(self) -> Any:
        msg = "the device is lost"
        raise BufferError(msg)


@check(
    "C53",
    "What __dlpack_device__ raises comes out as it is, if it is called",
    STANDARD + "from_dlpack, Raises: must propagate such exceptions",
)
def device_raises(lib: Subject) -> None:
    with Trial(lib, an_object(Lost)) as trial:
        for _, _, source in trial.offers("__dlpack_device__ raising BufferError"):
            x, refusal = attempt(lib, source)
            due = "BufferError: the device is lost"
            expect(refusal in (None, due), f"__dlpack_device__ raises {due}, but what comes out is {refusal}")
            wrong = None if refusal else reading(lib, x, values(PLAIN))
            del x, source
            expect(wrong is None, f"__dlpack_device__ raises {due}, and what is imported is not right: {wrong}")


class NotCallable:
    """Has the attribute, but it is no method."""

    __dlpack__ = 5

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


@check(
    "C54",
    "What does not speak DLPack is refused: other objects, classes, an attribute that is no method",
    STANDARD + "from_dlpack, Raises",
    crashes=True,
)
def no_dlpack(lib: Subject) -> None:
    ways(lib)
    for what, x in (("object()", object()), ("a class", Producer), ("an object whose __dlpack__ is 5", NotCallable())):
        _, refusal = attempt(lib, x)
        expect(refusal is not None, f"{what} is imported, but has no method __dlpack__")


@check(
    "C55",
    "An object without __dlpack__ raises AttributeError",
    STANDARD + "from_dlpack, Raises",
    severity=STYLE,
)
def attribute_error(lib: Subject) -> None:
    ways(lib)
    lib.raises(AttributeError, lambda: lib.take(object()))


class Answering(Producer):
    """Returns anything."""

    answer: Any = None

    def __dlpack__(self, **asked: Any) -> Any:
        return self.answer


@check(
    "C56",
    "An object whose __dlpack__ returns no capsule is refused",
    STANDARD + "__dlpack__, Returns",
    crashes=True,
)
def no_capsule(lib: Subject) -> None:
    ways(lib)
    p: Any = Answering(device=lib.device)
    for p.answer in (None, 5, 0, b"dltensor", "dltensor", (), np.zeros(3)):
        _, refusal = attempt(lib, p)
        expect(refusal is not None, f"{type(p.answer).__name__} is imported, but is no capsule")


class Kind(enum.IntEnum):
    """Types of devices as members of an enumeration, as the standard has them."""

    CPU = 1
    CUDA = 2
    CPU_PINNED = 3
    METAL = 8
    ROCM = 10
    CUDA_MANAGED = 13
    ONE_API = 14


class Enumerating(Producer):
    """Says what device it is on by a member of an enumeration."""

    def __dlpack_device__(self) -> Any:
        kind, number = super().__dlpack_device__()
        return Kind(kind), number


@check(
    "C57",
    "A type of device may be a member of an enumeration",
    STANDARD + "__dlpack_device__, Returns",
)
def enumerated(lib: Subject) -> None:
    if lib.device[0] not in list(Kind):
        msg = f"the enumeration here has no device {lib.device}"
        raise NotApplicable(msg)
    with Trial(lib, an_object(Enumerating)) as trial:
        trial.must("a type of device that is a member of an enumeration")


class Fragile(Producer):
    """Has other interfaces, too, which raise when they are touched."""

    @property
    def __array_interface__(self) -> Any:
        msg = "there is no such interface now"
        raise RuntimeError(msg)

    __cuda_array_interface__ = __array_struct__ = __array__ = __array_interface__


@check(
    "C58",
    "Other interfaces of an object are left alone",
    "numba-cuda#316",
)
def other_interfaces(lib: Subject) -> None:
    with Trial(lib, an_object(Fragile)) as trial:
        trial.must("other interfaces that raise")


@check(
    "C59",
    "Producers are asked for a versioned capsule, for no other can say what is read-only",
    STANDARD + "__dlpack__, logic for the consumer",
    severity=STYLE,
)
def max_version(lib: Subject) -> None:
    found = [asked.get("max_version") for _, asked in calls(lib)]
    if not any(isinstance(version, tuple) and version[:1] >= (1,) for version in found):
        msg = f"max_version is {found[0]}, but should be (1, n): as it is, nobody can give a read-only array"
        raise Failure(msg)


def is_pair(value: Any) -> bool:
    """Return whether a value is a tuple of two integers; members of enumerations count."""
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(n, (int, enum.Enum)) for n in value)


OPTIONS: Final[dict[str, Callable[[Any], bool]]] = {
    "max_version": is_pair,
    "dl_device": is_pair,
    "copy": lambda value: isinstance(value, bool),
    "stream": lambda value: not isinstance(value, (bool, float, str)),
}
"""The keywords of ``__dlpack__``, and what may be passed for them besides None."""


@check(
    "C60",
    "Producers are asked in the words of the standard, and by keyword",
    STANDARD + "__dlpack__, Parameters; cupy#7829",
)
def well_formed(lib: Subject) -> None:
    cases: list[dict[str, Any]] = [{}]
    if "copy" in lib.adapter.options:
        cases += [{"copy": None}, {"copy": False}, {"copy": True}]
    for options in cases:
        try:
            found = calls(lib, **options)
        except REFUSALS:
            continue
        for args, asked in found:
            expect(not args, f"__dlpack__ is passed {args} by position, but has keywords alone")
            for name, value in asked.items():
                expect(name in OPTIONS, f"__dlpack__ is passed {name}={value!r}, but the standard has no such keyword")
                right = value is None or OPTIONS[name](value)
                expect(right, f"__dlpack__ is passed {name}={value!r}, which the standard does not allow")


NO_STREAMS: Final[dict[int, tuple[int, ...]]] = {2: (0,), 13: (0,), 10: (1, 2)}
"""Which numbers stand for no stream, by the type of device: of CUDA, of its managed memory, of ROCm."""


@check(
    "C61",
    "The stream that is passed is one that the device can have: none on a CPU",
    STANDARD + "__dlpack__, stream; cupy#5970, pytorch#67618, pytorch#101318",
)
def stream(lib: Subject) -> None:
    for _, asked in calls(lib):
        value = asked.get("stream")
        if lib.device == CPU:
            expect(value is None, f"stream={value!r} is passed to a producer on the CPU, where only None is accepted")
        elif isinstance(value, int):
            right = value >= -1 and value not in NO_STREAMS.get(lib.device[0], ())
            expect(right, f"stream={value} is passed to a producer on device {lib.device}, which is no stream there")


@check(
    "C62",
    "A plain import asks neither for a device nor for a copy, which older producers do not know",
    "array-api#602, dpctl#1789, pytorch#169572",
    severity=STYLE,
)
def no_needless_options(lib: Subject) -> None:
    for _, asked in calls(lib):
        for name in ("dl_device", "copy"):
            value = asked.get(name)
            expect(value is None, f"__dlpack__ is passed {name}={value!r}, although nobody asked for that")


@check(
    "C63",
    "A plain import asks a producer once, for an export may be costly",
    "array-api#602, numba-cuda#703",
    severity=STYLE,
)
def asked_once(lib: Subject) -> None:
    times = len(calls(lib))
    expect(times == 1, f"__dlpack__ is called {times} times")


class Fickle(Producer):
    """Answers as it is told: True for a versioned capsule, False for an unversioned one, or an exception."""

    answer: Any = True

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.capsule(self.answer)


@check(
    "C64",
    "An object may export in another way the next time",
    STANDARD + "__dlpack__, max_version: the consumer must verify the version",
    severity=CORRUPTION,
    crashes=True,
)
def changing(lib: Subject) -> None:
    kinds = [way.versioned for way in objects(lib)]
    with Trial(lib) as trial:
        p: Any = trial.watch("an object that exports in another way each time", *offer(lib, an_object(Fickle)))[0]
        for p.answer in kinds * 2:
            for _ in range(2):
                x = lib.take(p)
                wrong = reading(lib, x, values(PLAIN))
                del x
                kind = "a versioned" if p.answer else "an unversioned"
                expect(wrong is None, f"{kind} capsule, of an object that gives now this and now that: {wrong}")
            p.answer = BufferError("not now")
            _, refusal = attempt(lib, p)
            due = words(p.answer)
            expect(refusal == due, f"__dlpack__ has not raised before and now raises {due}, but {refusal} comes out")
        p.answer = True


# -- copies and devices ------------------------------------------------------------------------------------------------


def needs(lib: Subject, option: str) -> None:
    """Raise NotApplicable unless a library imports, and can be asked for something."""
    ways(lib)
    if option not in lib.adapter.options:
        msg = f"from_dlpack of {lib.name} has no {option}="
        raise NotApplicable(msg)


def here(lib: Subject) -> Any:
    """Return the library's own device, as it calls it."""
    needs(lib, "device")
    found = getattr(lib.array(PLAIN), "device", None)
    if found is None:
        msg = f"arrays of {lib.name} have no attribute device"
        raise NotApplicable(msg)
    return found


@check(
    "C65",
    "An import shares the memory, nothing is copied",
    STANDARD + "from_dlpack, copy=None: must reuse the existing memory buffer if possible",
    severity=STYLE,
)
def zero_copy(lib: Subject) -> None:
    for way in ways(lib):
        p, source = offer(lib, way, poison=False)
        shared = shares(lib, lib.take(source), p, way)
        expect(shared, f"compact memory, aligned to {ALIGNMENT} bytes, from {way.words}: is copied without a word")


@check(
    "C66",
    "Memory that is aligned to its elements, but not to 64 bytes, is shared as well",
    HEADER + "DLTensor.data: not to rely on the alignment; jax#29810, tvm#18324",
    severity=STYLE,
)
def less_aligned(lib: Subject) -> None:
    data = np.zeros(64, np.float32)
    for way in ways(lib):
        for ahead in (32, 16, 8, 4):
            p, source = offer(lib, way, data, ahead=ahead, poison=False, shape=(8,), strides=(1,))
            x, refusal = attempt(lib, source)
            if refusal is not None:
                msg = f"memory aligned to {ahead} bytes: {refusal}"
                raise Refused(msg)
            expect(
                shares(lib, x, p, way), f"memory aligned to {ahead} bytes, from {way.words}: is copied without a word"
            )


@check(
    "C67",
    "copy=False never copies: it shares the memory or raises",
    STANDARD + "from_dlpack, copy; pytorch#194267, numpy#30341",
    severity=CORRUPTION,
    crashes=True,
)
def never_copied(lib: Subject) -> None:
    needs(lib, "copy")
    data = np.zeros(64, np.float32)
    with Trial(lib) as trial:
        for way in (*objects(lib), an_object(BareProducer), an_object(VersionProducer)):
            for ahead in (0, 32, 16, 8, 4):
                what = f"a {way.kind.__name__}'s memory {ahead} bytes behind a multiple of {ALIGNMENT}"
                fields: Fields = {"ahead": ahead, "shape": (8,), "strides": (1,), "poison": False}
                p, source = trial.watch(what, *offer(lib, way, data, **fields))
                x, refusal = attempt(lib, source, copy=False)
                if refusal is not None:
                    trial.decline(way.kind.__name__, refusal)
                else:
                    expect(shares(lib, x, p, way), f"{what}, with copy=False: is copied, but must be shared or refused")
                del x, source


class Moving(Producer):
    """Cannot export without copying."""

    def __dlpack__(self, *, max_version: Any = None, copy: Any = None, **asked: Any) -> Any:
        self.asked.append({"copy": copy, **asked})
        if copy is False:
            msg = "this cannot be exported without a copy"
            raise BufferError(msg)
        return self.capsule(max_version is not None)


@check(
    "C68",
    "copy=False is passed on to the producer, and its refusal comes out",
    STANDARD + "from_dlpack, copy, and Raises; pytorch#194267",
)
def refusal_to_copy(lib: Subject) -> None:
    needs(lib, "copy")
    p: Any = offer(lib, an_object(Moving), flags=IS_COPIED)[0]
    try:
        lib.take(p, copy=False)
    except (BufferError, ValueError) as error:
        expect("without a copy" in str(error), f"the producer's reason does not come out, but {words(error)}")
    else:
        asked = p.asked[-1]["copy"]
        msg = f"a producer that cannot export without a copy is asked with copy={asked}, and copies: pass copy=False on"
        raise Failure(msg)


class Unable(Producer):
    """Takes the keyword, but cannot copy, as tvm-ffi and nanobind."""

    def __dlpack__(self, *, max_version: Any = None, copy: Any = None, **asked: Any) -> Any:
        self.asked.append({"copy": copy, **asked})
        if copy:
            msg = "copies are not supported"
            raise BufferError(msg)
        return self.capsule(max_version is not None)


def copied(lib: Subject, kinds: Iterable[type[Producer]]) -> None:
    """Fail unless copy=True gives memory of its own; Refused where that is declined."""
    needs(lib, "copy")
    with Trial(lib) as trial:
        for kind in kinds:
            for layout_of, due in (("compact", PLAIN), ("transposed", PLAIN.T)):
                what = f"copy=True, {layout_of} memory of a {kind.__name__}"
                p, _ = trial.watch(what, *offer(lib, an_object(kind), PLAIN, **layout(PLAIN, due)))
                x, refusal = attempt(lib, p, copy=True)
                if refusal is not None:
                    trial.decline(kind.__name__, refusal)
                    continue
                wrong = reading(lib, x, values(due))
                expect(wrong is None, f"{what}: {wrong}")
                x = lib.take(p, copy=True)
                expect(
                    not shares(lib, x, p, an_object(kind)), f"{what}: is shared with the producer, but must be copied"
                )
                del x


@check(
    "C69",
    "copy=True copies, also from producers that know no copies",
    STANDARD + "from_dlpack, copy: the function must always copy",
    severity=CORRUPTION,
    crashes=True,
)
def copied_by_consumer(lib: Subject) -> None:
    copied(lib, (*OLD, VersionProducer, Unable))


@check(
    "C70",
    "copy=True copies, also from producers that take the keyword and do not heed it",
    STANDARD + "from_dlpack, copy; DLPACK_FLAG_BITMASK_IS_COPIED says whether they did",
    severity=STYLE,
    crashes=True,
)
def copied_after_all(lib: Subject) -> None:
    ways(lib, versioned=True)
    copied(lib, (Producer,))


@check(
    "C71",
    "What a producer has copied, and flagged IS_COPIED, is not copied again",
    HEADER + "DLPACK_FLAG_BITMASK_IS_COPIED: it is the consumer's own",
    severity=STYLE,
)
def copied_once(lib: Subject) -> None:
    needs(lib, "copy")
    if lib.device != CPU:
        msg = "the test producer copies on the host"
        raise NotApplicable(msg)
    with Trial(lib, versioned=True) as trial:
        p: Any = trial.watch("copy=True", *offer(lib, an_object(CopyingProducer)))[0]
        x = lib.take(p, copy=True)
        expect(p.copies, "copy=True is not passed on to a producer that can copy")
        trial.watch("the copy that a producer makes", p.copies[-1])
        expect(shares(lib, x, p.copies[-1], OBJECT), "the copy that the producer made is copied once more")
        del x


@check(
    "C72",
    "device=, being the one where the data is, changes nothing: the memory is shared",
    STANDARD + "from_dlpack, device; pytorch#169572",
)
def own_device(lib: Subject) -> None:
    where_it_is = here(lib)
    with Trial(lib) as trial:
        for way in objects(lib):
            where = f"device={where_it_is!s}, from {way.words}"
            p, source = trial.watch(where, *offer(lib, way, poison=False))
            x = lib.take(source, device=where_it_is)
            wrong = reading(lib, x, values(PLAIN))
            expect(wrong is None, f"{where}: {wrong}")
            x = lib.take(source, device=where_it_is)
            expect(shares(lib, x, p, way), f"{where}: is copied, although it is there already")
            del x


class Elsewhere(Producer):
    """Is on a device of which the host sees nothing, unless asked to come."""

    def __dlpack__(self, *, max_version: Any = None, dl_device: Any = None, **asked: Any) -> Any:
        self.asked.append({"dl_device": dl_device, **asked})
        if dl_device != CPU:
            msg = "the memory cannot be seen from the host"
            raise BufferError(msg)
        if asked.get("copy") is False:
            msg = "the memory cannot be brought to the host without a copy"
            raise BufferError(msg)
        return self.capsule(max_version is not None)


@check(
    "C73",
    "device=, being the CPU, is asked of a producer elsewhere by dl_device, or declined",
    STANDARD + "from_dlpack, device; __dlpack__, dl_device",
)
def moved(lib: Subject) -> None:
    where_it_goes = here(lib)
    if lib.device != CPU:
        msg = "the library is not on the host"
        raise NotApplicable(msg)
    with Trial(lib) as trial:
        fields: Fields = {"flags": IS_COPIED, "claims": METAL}
        p, _ = trial.watch("an object elsewhere", *offer(lib, an_object(Elsewhere), **fields))
        x, refusal = attempt(lib, p, device=where_it_goes)
        if refusal is not None:
            trial.decline(f"device={where_it_goes!s}", refusal)
        else:
            wrong = reading(lib, x, values(PLAIN))
            expect(wrong is None, f"device={where_it_goes!s}, from an object elsewhere: {wrong}")
        del x


# -- the producer's side of it -----------------------------------------------------------------------------------------


def fields_of(address: int, way: Way) -> dict[str, Any]:
    """Return what a tensor of two dimensions consists of."""
    managed = KINDS[kind_of(way)].from_address(address)
    tensor = managed.dl_tensor
    found = {
        "data": tensor.data,
        "device": (tensor.device.device_type, tensor.device.device_id),
        "ndim": tensor.ndim,
        "dtype": (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        "shape": tuple(tensor.shape[:2]),
        "strides": tuple(tensor.strides[:2]),
        "byte_offset": tensor.byte_offset,
        "manager_ctx": managed.manager_ctx,
        "deleter": managed.deleter,
    }
    if isinstance(managed, DLManagedTensorVersioned):
        found |= {"version": (managed.version.major, managed.version.minor), "flags": managed.flags}
    return found


@check(
    "C74",
    "An import changes nothing of what was exported: neither structure, shape and strides nor elements",
    "cudnn-frontend#547, cupy#1082",
    severity=CORRUPTION,
    crashes=True,
)
def unchanged(lib: Subject) -> None:
    for way in ways(lib):
        before: dict[str, Any] = {}

        def remember(tensor: DLTensor, before: dict[str, Any] = before, way: Way = way) -> None:
            offset = getattr(KINDS[kind_of(way)], "dl_tensor").offset  # noqa: B009 (a descriptor, which mypy does not know)
            before.update(fields_of(ctypes.addressof(tensor) - offset, way))

        p, source = offer(lib, way, strides=(4, 1), edit=remember, poison=False)
        x = lib.take(source)
        lib.values(x)
        for when in ("it is imported", "it is let go of"):
            for name, found in fields_of(p.made[-1], way).items():
                expect(
                    found == before[name], f"from {way.words}: {name} is {found} once {when}, but was {before[name]}"
                )
            expect((p.data == PLAIN).all(), f"from {way.words}: the elements have changed once {when}")
            x = None
            lib.adapter.settle()


@check(
    "C75",
    "The same memory may be imported several times, with other shapes and dtypes",
    "cudnn-frontend#547, jax#4636",
    severity=CORRUPTION,
    crashes=True,
)
def several(lib: Subject) -> None:
    with Trial(lib) as trial:
        for way in trial.ways:
            what = f"several imports of one memory, from {way.words}"
            cases: tuple[tuple[npt.NDArray[Any], Fields], ...] = (
                (FLAT, {}),
                (PLAIN[:, :2], {"shape": (3, 2), "strides": (4, 1)}),
                (FLAT.view(np.int32).reshape(2, 6), {"shape": (2, 6), "strides": (6, 1), "dtype": (0, 32, 1)}),
            )
            first = offer(lib, way, FLAT, poison=False)[0]
            arrays = []
            for due, fields in cases:
                given = {"address": first.fields["address"], "poison": False, **fields}
                p, source = trial.watch(what, *offer(lib, way, FLAT, **given))
                x, refusal = attempt(lib, source)
                if refusal is None:
                    arrays.append((x, due))
                del x, source, p
            for _ in range(len(arrays)):
                for x, due in arrays:
                    wrong = reading(lib, x, values(due))
                    expect(wrong is None, f"{what}, of which {len(arrays)} are left: {wrong}")
                del x, arrays[0]
                lib.adapter.settle()
            del first


@check(
    "C76",
    "Neither an import nor a refusal leaves a reference to the object behind",
    "cupy#1445, cudf#2400, pytorch#171820, dlpack#156",
)
def no_references(lib: Subject) -> None:
    cases: dict[str, Fields] = {"an import": {}, "a refusal": {"dtype": (99, 32, 1)}}
    for what, fields in cases.items():
        for way in ways(lib):
            p, source = offer(lib, way, **fields)
            gone = weakref.ref(p)
            x, _ = attempt(lib, source)
            del x, source, p
            lib.adapter.settle()
            gc.collect()
            expect(gone() is None, f"{what} from {way.words}: the object is still referred to once all is let go of")


@check(
    "C77",
    "What cannot be imported is refused by BufferError",
    STANDARD + "from_dlpack, Raises: incompatible dtype, strides, or device; numpy#31000, pytorch#150691",
    severity=STYLE,
)
def buffer_errors(lib: Subject) -> None:
    found: dict[str, str] = {}
    for way in ways(lib):
        cases: dict[str, Fields] = {
            "an unknown dtype": {"dtype": (99, 32, 1)},
            "two lanes": {"dtype": (2, 32, 2)},
            "a device that does not exist": {"device": (99, 0)},
            "another major version": {"version": (2, 0)} if way.versioned else {},
        }
        for what, fields in cases.items():
            _, refusal = attempt(lib, offer(lib, way, **fields)[1])
            kind = (refusal or "BufferError").partition(":")[0]
            if kind != "BufferError":
                found.setdefault(what, kind)
    if found:
        listed = ", ".join([f"{what} by {kind}" for what, kind in found.items()])
        msg = f"what cannot be imported should be refused by BufferError, but is: {listed}"
        raise Failure(msg)


# -- copies, devices and exports, once more ----------------------------------------------------------------------------


@check(
    "C78",
    "copy=False and a device where the data is not raise an exception",
    STANDARD + "from_dlpack, copy: raise BufferError if a cross-device movement is requested; numpy#30341",
)
def not_moved(lib: Subject) -> None:
    needs(lib, "copy")
    where_it_goes = here(lib)
    if lib.device != CPU:
        msg = "the library is not on the host"
        raise NotApplicable(msg)
    with Trial(lib) as trial:
        p: Any = trial.watch("", *offer(lib, an_object(Elsewhere), flags=IS_COPIED, claims=METAL))[0]
        x, refusal = attempt(lib, p, device=where_it_goes, copy=False)
        del x
        asked = p.asked[-1].get("copy") if p.asked else None
        due = f"asked with copy={asked}, an object elsewhere copies its memory, but copy=False is to be passed on"
        expect(refusal is not None, f"device={where_it_goes!s}, copy=False: {due}")


@check(
    "C79",
    "Without device= the array is where the data is",
    STANDARD + "from_dlpack, device: must be on the same device as x",
)
def same_device(lib: Subject) -> None:
    with Trial(lib) as trial:
        trial.must("a tensor", PLAIN, device(lib.device))


def again(due: npt.NDArray[Any]) -> Compare:
    """Return a function that exports an imported array and says how that differs from what it should be."""

    def compare(lib: Subject, x: Any) -> str | None:
        try:
            found = look(x) if lib.device == CPU else lib.values(lib.take(x))
        except REFUSALS:
            return None
        same = found.dtype == due.dtype and found.shape == due.shape and found.tobytes() == due.tobytes()
        return None if same else f"what it exports has the values {short(found)}, but must have {short(due)}"

    return compare


@check(
    "C80",
    "What was imported is exported again as it was, whatever its layout is",
    "cuda-python#2592, pytorch#182924, cupy#10172, pytorch#163274",
    severity=CORRUPTION,
    crashes=True,
)
def exported_again(lib: Subject) -> None:
    with Trial(lib) as trial:
        if not lib.adapter.producer:
            msg = f"{lib.name} exports nothing"
            raise NotApplicable(msg)
        for what, view in {
            "a compact tensor": PLAIN,
            "exchanged axes": PLAIN.T,
            "columns": PLAIN[:, 1:3],
            "steps": PLAIN[::2, ::2],
            "a row repeated": np.broadcast_to(PLAIN[0], (2, 4)),
            "no dimensions": PLAIN[1, 1, ...],
        }.items():
            trial.may(what, PLAIN, again(view), **layout(PLAIN, view))
        trial.may("byte_offset 8", FLAT, again(FLAT[2:6]), byte_offset=8, shape=(4,), strides=(1,))
        trial.may("null strides", PLAIN, again(PLAIN), strides=None, version=(1, 1))
        trial.may("no elements", FLAT[:0].reshape(3, 0), again(FLAT[:0].reshape(3, 0)), address=None)
        trial.may(
            "an odd stride of one element", FLAT[:4].reshape(1, 4), again(FLAT[:4].reshape(1, 4)), strides=(777, 1)
        )


@check(
    "C81",
    "The flag IS_COPIED is not passed on: what is exported again belongs to the array too",
    HEADER + "DLPACK_FLAG_BITMASK_IS_COPIED: solely owned by the consumer",
    severity=CORRUPTION,
)
def copied_flag_again(lib: Subject) -> None:
    def compare(lib: Subject, x: Any) -> str | None:
        try:
            found = lib.look(x)
        except REFUSALS:
            return None
        wrong = found.versioned and found.flags & IS_COPIED
        return f"is exported again with flags {found.flags}, although nobody has copied it" if wrong else None

    with Trial(lib, versioned=True) as trial:
        if not lib.adapter.producer:
            msg = f"{lib.name} exports nothing"
            raise NotApplicable(msg)
        trial.may("flag IS_COPIED", PLAIN, compare, flags=IS_COPIED)


@check(
    "C82",
    "What a producer has copied of something read-only can be written to",
    HEADER + "DLPACK_FLAG_BITMASK_IS_COPIED: solely owned by the consumer; LANfactory#139, dysh#1005",
    severity=STYLE,
    crashes=True,
)
def copy_of_read_only(lib: Subject) -> None:
    needs(lib, "copy")
    if lib.adapter.immutable or lib.device != CPU:
        msg = (
            f"nothing is written to arrays of {lib.name}"
            if lib.adapter.immutable
            else "the test producer is on the host"
        )
        raise NotApplicable(msg)
    with Trial(lib, versioned=True) as trial:
        p: Any = trial.watch("copy=True", *offer(lib, an_object(CopyingProducer), flags=READ_ONLY))[0]
        x = lib.take(p, copy=True)
        expect(p.copies, "copy=True is not passed on to a producer that can copy")
        trial.watch("the copy that a producer makes", p.copies[-1])
        try:
            lib.ask("write", x, 9)
        except NotApplicable:
            raise
        except Exception as error:
            msg = f"a copy, flagged IS_COPIED and not READ_ONLY, cannot be written to: {words(error)}"
            raise Failure(msg) from error
        expect((p.data == PLAIN).all(), "writing to a copy has changed the read-only memory that it is a copy of")
        del x


def sparse(nbytes: int) -> npt.NDArray[Any]:
    """Return so many bytes, of which those that nobody touches take no memory."""
    try:
        return np.frombuffer(mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE), np.uint8)
    except (OSError, ValueError, AttributeError) as error:
        msg = f"this system gives no {nbytes} bytes: {error}"
        raise NotApplicable(msg) from error


NO_RESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


@check(
    "C83",
    "Strides, offsets and extents of more than 32 bits are right, or refused",
    HEADER + "DLTensor: int64_t and uint64_t",
    severity=CORRUPTION,
    crashes=True,
)
def wide_numbers(lib: Subject) -> None:
    if lib.device != CPU:
        msg = f"there is memory enough on the host, not on device {lib.device}"
        raise NotApplicable(msg)
    far = (1 << 32) + 8
    page = sparse(far + 4096)
    page[[0, 1, 8, 9, far, far + 1]] = (1, 2, 3, 4, 5, 6)
    at: Fields = {"address": page.ctypes.data, "poison": False}
    with Trial(lib) as trial:
        few = np.array([[1, 2], [5, 6]], np.uint8)
        trial.may("a stride of 2**32 + 8", few, shape=(2, 2), strides=(far, 1), **at)
        trial.may("a byte_offset of 2**32 + 8", few[1], shape=(2,), strides=(1,), byte_offset=far, **at)

        def extent(lib: Subject, x: Any) -> str | None:
            found = lib.look(x).shape if lib.adapter.producer else (far,)
            return None if found == (far,) else f"the shape comes out as {found}, but came in as {(far,)}"

        trial.may("an extent of 2**32 + 8", few[0], extent, shape=(far,), strides=(0,), **at)
