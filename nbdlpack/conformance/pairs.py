"""Round trips: an array of one library, of each dtype and layout, imported by another.

A trip passes if the values arrive, of the same dtype and shape, and if writes do what sharing says: what is on the same
memory sees a write of the other side, what was copied does not.  Its result says which of the two it is, "not told" if
neither addresses nor writes can tell, and whether the array that was made is read-only.  Where either side cannot have
such an array, or does not let it be read, the trip is not applicable; where the consumer or the producer declines by an
exception, it is refused.

The processes and outcomes are those of checks, see `nbdlpack.conformance.running`: a pair is checked in a process that
has imported both libraries.

::

    from nbdlpack.conformance import adapters, pairs, running

    running.run(pairs.pairs_of(adapters.find(["numpy", "torch"])), pairs.TRIPS.values())
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from nbdlpack.conformance.adapters import ADAPTERS, Adapter, NotAvailable
from nbdlpack.conformance.header import READ_ONLY
from nbdlpack.conformance.registry import Check, NotApplicable, Refused, Severity, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import SimpleNamespace

    import numpy.typing as npt

    from nbdlpack.conformance.subject import Subject

__all__ = ["DTYPES", "LAYOUTS", "TRIPS", "Pair", "pairs_of"]


class Layout(NamedTuple):
    """How an array of two rows and three columns, or of another shape, lies in memory."""

    shape: tuple[int, ...]
    """That of the array that is made first, in C order."""
    arrange: Callable[[Adapter, Any], Any]
    """Gives, with the methods of an adapter, a view of that."""


_all, _odd, _back, _first = slice(None), slice(1, None, 2), slice(None, None, -1), slice(1)

LAYOUTS: Final[dict[str, Layout]] = {
    "C order": Layout((2, 3), lambda _, x: x),
    "Fortran order": Layout((3, 2), lambda lib, x: lib.transpose(x)),
    "strided": Layout((4, 6), lambda lib, x: lib.view(x, (_odd, _odd))),
    "negative": Layout((2, 3), lambda lib, x: lib.view(x, (_back, _back))),
    "broadcast": Layout((3,), lambda lib, x: lib.broadcast(x, (2, 3))),
    "one axis": Layout((6,), lambda _, x: x),
    "0-d": Layout((), lambda _, x: x),
    "empty": Layout((0, 3), lambda _, x: x),
    "size-1 axes": Layout((2, 3, 2), lambda lib, x: lib.view(x, (_first, _all, _first))),
}
"""Layouts, by what they are called in reports."""

DTYPES: Final[dict[str, np.dtype[Any]]] = {
    dtype.name: dtype
    for dtype in map(
        np.dtype,
        [
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "complex64", "complex128"),
            *(ml_dtypes.bfloat16, ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3b11fnuz),
            *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz),
            ml_dtypes.float8_e8m0fnu,
        ],
    )
}
"""The dtypes that DLPack, NumPy and ml_dtypes have, by name."""

DECLINING: Final = (BufferError, NotImplementedError, TypeError, ValueError, RuntimeError)
"""What libraries raise where they do not take an array; another exception is a failure."""


class Pair:
    """A library that exports and one that imports, or twice the same.

    Parameters
    ----------
    producer, consumer : Adapter
        How to drive them.
    """

    def __init__(self, producer: Adapter, consumer: Adapter) -> None:
        self.adapters = (producer, consumer)
        self.fork = producer.fork and consumer.fork
        self.name, self.device = f"{producer.name} → {consumer.name}", producer.device

    def load(self) -> None:
        """Import both."""
        for adapter in self.adapters:
            adapter.load()


def pairs_of(adapters: Iterable[Adapter]) -> list[Pair]:
    """Return all pairs of libraries of which one exports and one imports, each library also with itself."""
    known = list(adapters)
    return [Pair(one, other) for one in known if one.producer for other in known if other.consumer]


# -- a trip


def contents(dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an array whose elements differ from each other, but for bool; the first is none that will be written."""
    count = int(np.prod(shape))
    if dtype.kind == "b":
        return (np.arange(count) % 3 > 0).reshape(shape)
    if dtype.isbuiltin == 1:
        a = np.arange(3, 3 + count).astype(dtype)
        return (a + 1j * a[::-1] if dtype.kind == "c" else a).astype(dtype).reshape(shape)
    # Those of ml_dtypes by their bits: few numbers are exact in all of them.
    start = {1: 0x21, 2: 0x4040}[dtype.itemsize]
    return np.arange(start, start + count).astype(f"u{dtype.itemsize}").view(dtype).reshape(shape)


def trip(lib: Subject, dtype: str, layout: str) -> str:
    """Send an array from the producer of a pair to the consumer; return how they share it."""
    pair: Any = lib.adapter
    producer, consumer = pair.adapters
    shape, arrange = LAYOUTS[layout]
    a = contents(DTYPES[dtype], shape)
    numpy = ADAPTERS["numpy"]()
    numpy.load()
    expected = arrange(numpy, a)
    x = made(producer, a, arrange)
    sent = looked_at(lib, x)
    if sent is not None and not lies_as(expected, sent.strides):
        msg = f"{producer.name} lays it out in another way, with strides {sent.strides}"
        raise NotApplicable(msg)
    try:
        y = consumer.from_dlpack(x)
    except DECLINING as error:
        msg = f"{type(error).__name__}: {error}"
        raise Refused(msg) from error
    same(consumer, y, expected)
    if not expected.size:
        return ""
    got = looked_at(lib, y) if consumer.producer else None
    shared = None if sent is None or got is None else sent.address == got.address
    read_only = got is not None and got.flags is not None and got.flags & READ_ONLY
    del sent, got  # whose exports may keep memory from being written to
    shared = written(producer, x, consumer, y, value=1, shared=shared)
    shared = written(consumer, y, producer, x, value=0 if dtype == "bool" else 2, shared=shared)
    return {True: "shared", False: "copied", None: "not told"}[shared] + (", read-only" if read_only else "")


def made(producer: Adapter, a: npt.NDArray[Any], arrange: Callable[[Adapter, Any], Any]) -> Any:
    """Return an array of the producer; NotApplicable if it has no such thing."""
    try:
        return arrange(producer, producer.from_numpy(a))
    except NotAvailable as reason:
        raise NotApplicable(str(reason)) from None
    except (*DECLINING, IndexError, AttributeError, OverflowError) as error:
        msg = f"{producer.name} has no such array: {type(error).__name__}: {error}"
        raise NotApplicable(msg) from error


def looked_at(lib: Subject, x: Any) -> SimpleNamespace | None:
    """Return the fields of what an array exports, None if it does not."""
    for options in ({}, {"max_version": None}):
        try:
            return lib.look(x, **options)
        except Exception:  # noqa: BLE001 (whether it may decline is for the import to show)
            continue
    return None


def lies_as(expected: npt.NDArray[Any], strides: tuple[int, ...] | None) -> bool:
    """Return whether strides in elements are those of a NumPy array, where that makes a difference."""
    if strides is None:
        return bool(expected.flags.c_contiguous)
    due = [n // expected.itemsize for n in expected.strides]
    several = [size > 1 for size in expected.shape]
    return not expected.size or all(
        one == other for one, other, matters in zip(strides, due, several, strict=True) if matters
    )


def same(lib: Adapter, x: Any, expected: npt.NDArray[Any]) -> None:
    """Fail unless an array of a library has the dtype, the shape and the values of a NumPy array."""
    try:
        got = lib.to_numpy(x)
    except DECLINING as error:
        msg = f"{lib.name} imports it, but does not let its values be seen: {type(error).__name__}: {error}"
        raise NotApplicable(msg) from error
    expect(got.dtype == expected.dtype, f"{lib.name} has made {got.dtype} of {expected.dtype}")
    expect(got.shape == expected.shape, f"{lib.name} has made the shape {got.shape} of {expected.shape}")
    expect(
        got.tobytes() == expected.tobytes(),
        f"{lib.name} reads {got.tolist()!r:.200}, where {expected.tolist()!r:.200} was exported",
    )


def written(one: Adapter, x: Any, other: Adapter, y: Any, *, value: int, shared: bool | None) -> bool | None:
    """Write to an array, and fail unless the other is changed if it shares its memory, and only then.

    Returns whether it does, if it was not known before.  Does nothing if either library takes its arrays for values.
    """
    if one.immutable or other.immutable:
        return shared
    before = other.to_numpy(y).tobytes()
    try:
        one.write(x, value)
    except Exception:  # noqa: BLE001 (it is read-only, or cannot write to this dtype)
        return shared
    seen = other.to_numpy(y).tobytes() != before
    if shared is None:
        return seen
    expect(seen or not shared, f"{other.name} is on the memory of {one.name}, but does not see what that writes")
    expect(shared or not seen, f"{other.name} is on other memory than {one.name}, but changes when that is written to")
    return shared


TRIPS: Final[dict[tuple[str, str], Check]] = {
    (dtype, layout): Check(
        id=f"{dtype}/{layout}",
        statement=f"{dtype}, {layout}: arrives as it was sent",
        source="array API 2025.12, from_dlpack",
        severity=Severity.CORRUPTION,
        function=functools.partial(trip, dtype=dtype, layout=layout),
        crashes=True,
    )
    for dtype in DTYPES
    for layout in LAYOUTS
}
"""A check for each dtype and layout.  They are not in the table of checks: their subject is a pair."""
