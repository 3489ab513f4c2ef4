"""Read-only exports, and arrays that share memory until one of them is written to."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack.conformance.capsules import Capsule, peek
from nbdlpack.conformance.header import CPU, IS_COPIED, READ_ONLY
from nbdlpack.conformance.memory import at, churn, growth, imported, in_threads, overwrite, some
from nbdlpack.conformance.producers import Producer, exchange_type
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused, Severity, check, expect
from nbdlpack.conformance.subject import REFUSALS
from nbdlpack.conformance.tables import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import SimpleNamespace

    import numpy.typing as npt

    from nbdlpack.conformance.subject import Subject

FLAG: Final = "dlpack.h 1.3, DLPACK_FLAG_BITMASK_READ_ONLY"
COPY: Final = "array API 2025.12, __dlpack__, copy; dlpack.h 1.3, DLPACK_FLAG_BITMASK_IS_COPIED"
ROUND_TRIP: Final = "numpy test_readonly; dpctl#1755"
LAZY: Final = "pytorch#188554"
N: Final = 64
OTHER: Final = 99
"""What is written: none of the values of an array of `N` elements."""
SMALL, LARGE = 1 << 9, 5 << 20
"""Numbers of elements: of memory that soon is something else once it is freed, and of memory that is unmapped then."""

# ---- how arrays are exported -----------------------------------------------------------------------------------------


def by_to_dlpack(lib: Subject, x: Any) -> SimpleNamespace:
    """Return the fields of what the library's own function exports."""
    capsule = lib.ask("to_dlpack", x)
    expect(type(capsule) is Capsule, f"to_dlpack returned a {type(capsule).__name__}, not a capsule")
    found = peek(capsule)
    found.capsule = capsule
    return found


ROUTES: Final[dict[str, Callable[[Subject, Any], SimpleNamespace]]] = {
    "a versioned capsule": lambda lib, x: lib.look(x),
    "an unversioned capsule": lambda lib, x: lib.look(x, max_version=None),
    "to_dlpack": by_to_dlpack,
    "the exchange table": lambda _, x: table_of(type(x)).look(x),
    "a tensor lent by the exchange table": lambda _, x: table_of(type(x)).borrow(x),
}
OWNED: Final = tuple(ROUTES)[:-1]
"""Those that keep the memory."""
FLAGGED: Final = ("a versioned capsule", "the exchange table")
"""Those that can say that an export is read-only."""


def exports(lib: Subject, x: Any, routes: tuple[str, ...]) -> Iterator[tuple[str, SimpleNamespace]]:
    """Export an array by some of the routes, one after the other; leave out what is refused, or is not there."""
    for name in routes:
        with contextlib.suppress(BufferError, NotApplicable):
            yield name, ROUTES[name](lib, x)


def read_only(lib: Subject) -> tuple[Any, npt.NDArray[Any], Any]:
    """Return an array of the library, its values, and what exports it read-only."""
    x, a = some(lib, N)
    return x, a, lib.ask("read_only", x)


def lazy(lib: Subject, n: int = N) -> tuple[Any, npt.NDArray[Any], Any]:
    """Return an array of the library, its values, and a lazy copy of it."""
    x, a = some(lib, n)
    return x, a, lib.ask("lazy_copy", x)


def address(lib: Subject, x: Any) -> int:
    """Return where an array is, without an access for writing; NotApplicable if that cannot be found out."""
    found: int = lib.look(lib.ask("read_only", x)).address
    return found


def shared(lib: Subject, n: int = N) -> tuple[Any, npt.NDArray[Any], Any]:
    """Return what `lazy` does; NotApplicable if the copy has memory of its own from the beginning."""
    x, a, y = lazy(lib, n)
    if address(lib, x) != address(lib, y):
        msg = "a lazy copy has memory of its own from the beginning"
        raise NotApplicable(msg)
    return x, a, y


def unchanged(lib: Subject, x: Any, a: npt.NDArray[Any], reason: str) -> None:
    """Fail unless an array has these values."""
    expect(np.array_equal(lib.values(x), a), reason)


def is_written(lib: Subject, x: Any) -> bool:
    """Return whether every element of an array has what is written here."""
    return bool(np.all(lib.values(x) == OTHER))


# ---- read-only arrays ------------------------------------------------------------------------------------------------


@check(
    "W01", "a read-only array is exported with the flag READ_ONLY, without a copy", FLAG, severity=Severity.CORRUPTION
)
def flagged(lib: Subject) -> None:
    x, _, r = read_only(lib)
    t = lib.look(r)
    expect(t.versioned, "a read-only array is exported by an unversioned capsule, which cannot say so")
    expect(t.flags & READ_ONLY, f"the flags of a read-only array are {t.flags}, without READ_ONLY")
    expect(t.address == lib.look(x).address, "the read-only export is a copy, but is to show the array's memory")


@check(
    "W02",
    "a read-only array is exported with the flag READ_ONLY by its exchange table too",
    f"{FLAG}; pytorch#188554, dlpack#179",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def flagged_by_the_table(lib: Subject) -> None:
    x, _, r = read_only(lib)
    t = table_of(type(r)).look(r)
    expect(t.flags & READ_ONLY, f"the flags of a read-only array are {t.flags} in the table's export")
    expect(t.address == lib.look(x).address, "the read-only export is a copy, but is to show the array's memory")


@check(
    "W03",
    "a read-only array is not lent by the exchange table, as that has no flags",
    "dlpack.h 1.3, DLPackDLTensorFromPyObjectNoSync",
    severity=Severity.STYLE,
    crashes=True,
)
def not_lent(lib: Subject) -> None:
    _, _, r = read_only(lib)
    table = table_of(type(r))
    try:
        table.borrow(r)
    except Failure:
        raise
    except Exception:  # noqa: BLE001 (as is due, or the function is not there, which is as good)
        return
    msg = "a read-only array is lent as a tensor that cannot say that it is"
    raise Failure(msg)


def not_unversioned(lib: Subject, r: Any, what: str) -> None:
    """Fail if an unversioned capsule of a read-only array is had by asking for one."""
    for version in (None, (0, 8)):
        try:
            t = lib.look(r, max_version=version)
        except REFUSALS:
            continue
        except TypeError as error:
            msg = f"{what} is refused with TypeError, upon which consumers ask again in an older way: {error}"
            raise Failure(msg) from error
        asked = f"where max_version is {version}"
        expect(t.versioned, f"{what} is exported by an unversioned capsule, which looks writable, {asked}")
        expect(t.flags & READ_ONLY, f"{what} is exported without the flag READ_ONLY {asked}")
        expect(version is None, f"{what} is exported by a versioned capsule {asked}")


@check(
    "W04",
    "a read-only array is refused with BufferError where an unversioned capsule is asked for",
    "numpy#20742, scikit-learn-intelex#3132, jax#40789",
    severity=Severity.CORRUPTION,
)
def unversioned_is_refused(lib: Subject) -> None:
    not_unversioned(lib, read_only(lib)[2], "a read-only array")


@check(
    "W05",
    "to_dlpack lets no writable capsule of a read-only array out",
    "pytorch#188554",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def no_back_door(lib: Subject) -> None:
    _, _, r = read_only(lib)
    try:
        t = by_to_dlpack(lib, r)
    except (NotApplicable, Failure):
        raise
    except Exception:  # noqa: BLE001 (as is due)
        return
    expect(
        t.versioned and t.flags & READ_ONLY, f"to_dlpack makes a {t.name} of a read-only array, which looks writable"
    )


@check("W06", "a copy of a read-only array, made for the consumer, says that it is a copy", COPY)
def copy_of_a_read_only_array(lib: Subject) -> None:
    x, a, r = read_only(lib)
    t = copied(lib, r)
    expect(t.address != lib.look(x).address, "copy=True exports the memory of the array itself")
    expect(t.versioned, "copy=True and a max_version of 1.3 give an unversioned capsule")
    expect(t.flags & IS_COPIED, f"the flags of a copy are {t.flags}, without IS_COPIED")
    if lib.device == CPU:
        expect(np.array_equal(at(t, a.dtype), a), "the copy has other values")


def copied(lib: Subject, r: Any, **options: Any) -> SimpleNamespace:
    """Export a copy; Refused if the library makes none."""
    try:
        return lib.look(r, copy=True, **options)
    except (BufferError, TypeError, NotImplementedError, ValueError) as error:
        msg = f"{type(error).__name__}: {error}"
        raise Refused(msg) from error


@check(
    "W07",
    "a copy of a read-only array, made for the consumer, is not read-only itself",
    f"{COPY}: solely owned by the consumer",
    severity=Severity.STYLE,
)
def copy_is_writable(lib: Subject) -> None:
    _, _, r = read_only(lib)
    t = copied(lib, r)
    expect(not t.versioned or not t.flags & READ_ONLY, f"the flags of the consumer's own copy are {t.flags}")


@check("W08", "a copy of a read-only array in an unversioned capsule is one", COPY, severity=Severity.CORRUPTION)
def unversioned_copy(lib: Subject) -> None:
    x, _, r = read_only(lib)
    t = copied(lib, r, max_version=None)
    expect(t.address != lib.look(x).address, "copy=True exports the memory of the read-only array itself")


@check("W09", "a read-only array cannot be written to", FLAG, severity=Severity.CORRUPTION, crashes=True)
def not_written_to(lib: Subject) -> None:
    x, a, r = read_only(lib)
    with contextlib.suppress(Exception):
        lib.adapter.write(r, OTHER)
    unchanged(lib, x, a, "a read-only array is written to")


@check(
    "W10",
    "a read-only export that comes home is read-only",
    f"{ROUND_TRIP}; array-api#749: a recommendation",
    severity=Severity.STYLE,
    crashes=True,
)
def comes_home(lib: Subject) -> None:
    x, a, r = read_only(lib)
    home = lib.take_or_refuse(r, TypeError, RuntimeError)
    with contextlib.suppress(Exception):
        lib.adapter.write(home, OTHER)
    unchanged(lib, x, a, "a read-only array is written to by its own library, once it has gone out and come back")


class ReadOnlyProducer(Producer):
    """Exports read-only memory, so nothing unversioned."""

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if max_version is None or max_version[0] < 1:
            msg = "an unversioned capsule cannot say that it is read-only"
            raise BufferError(msg)
        return self.capsule()


def read_only_imports(lib: Subject) -> list[Any]:
    """Return arrays on memory that was imported with the flag READ_ONLY, from a capsule and through a table."""
    found = []
    refusal: Exception | None = None
    for kind in (ReadOnlyProducer, exchange_type(base=ReadOnlyProducer)):
        try:
            found.append(imported(lib, kind=kind, flags=READ_ONLY)[1])
        except NotApplicable:
            raise
        except Exception as error:  # noqa: BLE001 (no library has to import what is read-only)
            refusal = error
    if not found:
        raise Refused(str(refusal)) from refusal
    return found


@check(
    "W11",
    "what was imported with the flag READ_ONLY is exported with it, and so are its views",
    f"{ROUND_TRIP}; array-api#749: a recommendation",
    severity=Severity.STYLE,
)
def flag_is_kept(lib: Subject) -> None:
    for x in read_only_imports(lib):
        arrays = {"what was imported as read-only": x}
        with contextlib.suppress(NotApplicable, NotImplementedError, TypeError):
            arrays["a view of what was imported as read-only"] = lib.ask("view", x, slice(1, None))
        for what, y in arrays.items():
            for name, t in exports(lib, y, FLAGGED):
                expect(t.versioned, f"{what} is exported by an unversioned capsule, which looks writable")
                flagged = t.flags & READ_ONLY
                expect(flagged, f"{what} is exported by {name} with the flags {t.flags}, without READ_ONLY")


@check(
    "W12",
    "what was imported with the flag READ_ONLY is not exported by an unversioned capsule",
    f"{ROUND_TRIP}; numpy#20742; array-api#749: a recommendation",
    severity=Severity.STYLE,
)
def not_laundered(lib: Subject) -> None:
    for x in read_only_imports(lib):
        not_unversioned(lib, x, "what was imported as read-only")
        with contextlib.suppress(NotApplicable, BufferError, RuntimeError, TypeError, ValueError):
            t = by_to_dlpack(lib, x)
            expect(t.versioned, "to_dlpack makes an unversioned capsule, which looks writable, of what is read-only")


@check(
    "W13",
    "a subclass of a class for read-only exports is exported read-only, by every route",
    "pytorch#188554, dlpack#180",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def subclass_of_the_wrapper(lib: Subject) -> None:
    x, _, r = read_only(lib)
    if type(r) is type(x):
        msg = "read-only arrays are of the class of all others"
        raise NotApplicable(msg)
    try:
        derived = type("Derived", (type(r),), {})(x)
    except TypeError as error:
        msg = f"no subclass of {type(r).__name__} can be made: {error}"
        raise NotApplicable(msg) from None
    for name, t in exports(lib, derived, FLAGGED):
        expect(t.flags & READ_ONLY, f"a subclass of {type(r).__name__} is exported by {name} with the flags {t.flags}")
    not_unversioned(lib, derived, f"a subclass of {type(r).__name__}")


@check(
    "W14",
    "arrays that nothing can be written to are exported with the flag READ_ONLY",
    f"{FLAG}; jax#40789",
    severity=Severity.CORRUPTION,
)
def immutable(lib: Subject) -> None:
    if not lib.adapter.immutable:
        msg = f"arrays of {lib.name} are written to"
        raise NotApplicable(msg)
    x, _ = some(lib, N)
    try:
        t = lib.look(x)
    except BufferError as error:
        raise Refused(str(error)) from error
    expect(t.versioned, "an immutable array is exported by an unversioned capsule, which looks writable")
    expect(t.flags & READ_ONLY, f"the flags of an immutable array are {t.flags}, without READ_ONLY")


# ---- lazy copies -----------------------------------------------------------------------------------------------------


@check("W20", "a lazy copy is on the memory of the array, and reading either of them leaves it there", LAZY)
def shares(lib: Subject) -> None:
    x, a, y = lazy(lib)
    where = address(lib, x)
    for _ in range(2):
        expect(address(lib, y) == where, "a lazy copy has memory of its own though nothing was written")
        expect(address(lib, x) == where, "an array moves though nothing was written")
        unchanged(lib, x, a, "an array changes when it is copied")
        unchanged(lib, y, a, "a lazy copy has other values")


@check(
    "W21",
    "a write to one of several lazy copies changes none of the others, in whatever order",
    f"{LAZY}; pytorch#111579",
    severity=Severity.CORRUPTION,
)
def write_to_one(lib: Subject) -> None:
    for first in range(4):
        x, a, y = lazy(lib)
        arrays = [x, y, lib.ask("lazy_copy", x), lib.ask("lazy_copy", y)]
        del x, y
        for i in (first, (first + 2) % 4, (first + 1) % 4):
            lib.adapter.write(arrays[i], OTHER)
            expect(is_written(lib, arrays[i]), "a lazy copy does not show what was written to it")
            arrays[i] = None
            for z in arrays:
                if z is not None:
                    unchanged(lib, z, a, "a write to one of several lazy copies shows in another")


@check(
    "W22",
    "a write to a view of a lazy copy, or to what a view was copied from, reaches no other copy",
    "pytorch#113397, pytorch#126129",
    severity=Severity.CORRUPTION,
)
def write_to_views(lib: Subject) -> None:
    x, a, y = lazy(lib)
    view = lib.ask("view", y, slice(1, None))
    lib.adapter.write(view, OTHER)
    unchanged(lib, x, a, "a write to a view of a lazy copy shows in the array that it was copied from")
    expect(np.all(lib.values(y)[1:] == OTHER), "a write to a view of a lazy copy does not show in the copy")
    x, a = some(lib, N)
    part = lib.ask("lazy_copy", lib.ask("view", x, slice(1, None)))
    lib.adapter.write(x, OTHER)
    unchanged(lib, part, a[1:], "a write to an array shows in a lazy copy of a view of it")


@check(
    "W23",
    "what a consumer writes to an export of a lazy copy shows in no other copy",
    f"{LAZY}, the control; pandas#51082",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def consumer_writes(lib: Subject) -> None:
    for route in ROUTES:
        for exported, other in ((0, 1), (1, 0)):
            x, a, y = lazy(lib)
            pair = (x, y)
            for name, t in exports(lib, pair[exported], (route,)):
                if t.versioned and t.flags & READ_ONLY:
                    continue  # not to be written to
                overwrite(t, OTHER, a.dtype)
                unchanged(lib, pair[other], a, f"a write to an export by {name} shows in a lazy copy")
                shown = is_written(lib, pair[exported])
                expect(shown, f"a write to an export by {name} does not show in the array that was exported")


@check(
    "W24",
    "what a consumer writes does not show in lazy copies that were made after the export",
    "zarrista#108",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def consumer_writes_later(lib: Subject) -> None:
    lazy(lib)
    for route in OWNED:
        x, a = some(lib, N)
        for name, t in exports(lib, x, (route,)):
            if t.versioned and t.flags & READ_ONLY:
                continue
            y = lib.ask("lazy_copy", x)
            overwrite(t, OTHER, a.dtype)
            unchanged(lib, y, a, f"a write to an export by {name} shows in a lazy copy that was made while it lived")
            z = lib.ask("lazy_copy", lib.take_or_refuse(x))
            overwrite(t, OTHER + 1, a.dtype)
            expect(
                is_written(lib, z), f"a write to an export by {name} shows in a lazy copy of what was imported again"
            )


@check(
    "W25",
    "a read-only export of a lazy copy copies nothing, by either route",
    LAZY,
    crashes=True,
)
def read_only_export_shares(lib: Subject) -> None:
    x, _, y = shared(lib)
    where = address(lib, x)
    for z in (y, x):
        for name, t in exports(lib, lib.ask("read_only", z), FLAGGED):
            expect(t.address == where, f"a read-only export by {name} makes the copy that it was to save")
            expect(address(lib, x) == address(lib, y) == where, f"a read-only export by {name} ends the sharing")


@check("W26", "an export of a lazy copy with copy=True leaves the sharing alone", f"{LAZY}; {COPY}")
def copied_export_shares(lib: Subject) -> None:
    x, a, y = shared(lib)
    where = address(lib, x)
    t = copied(lib, y)
    expect(t.address != where, "copy=True exports the memory of the array itself")
    if lib.device == CPU:
        overwrite(t, OTHER, a.dtype)
        unchanged(lib, x, a, "a write to a copy that was made for the consumer shows in the array")
    expect(address(lib, x) == address(lib, y) == where, "an export with copy=True ends the sharing")


@check(
    "W27",
    "the last array on memory that was shared writes where it is",
    "pytorch COW: the last reference keeps the memory",
    severity=Severity.STYLE,
)
def last_owner(lib: Subject) -> None:
    x, _, y = shared(lib)
    where = address(lib, x)
    del y
    lib.adapter.settle()
    lib.adapter.write(x, OTHER)
    expect(address(lib, x) == where, "the last array on memory that was shared is moved by a write")


@check(
    "W28",
    "a read-only export keeps its memory and values when the array that it is of is written to and all others die",
    "dlpack.h 1.3, DLManagedTensorVersioned.deleter; pytorch#188554, cudf#20719",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def read_only_export_lives(lib: Subject) -> None:
    for n in (SMALL, LARGE):
        for route in FLAGGED:
            for exported in (0, 1):
                x, a, y = shared(lib, n)
                pair: list[Any] = [x, y]
                del x, y
                for name, t in exports(lib, lib.ask("read_only", pair[exported]), (route,)):
                    lib.adapter.write(pair[exported], OTHER)  # so that one of the two moves away
                    pair[1 - exported] = None
                    churn(lib, a, 32 if n == SMALL else 2)
                    found = at(t, a.dtype)
                    expect(
                        np.array_equal(found, a) or np.all(found == OTHER),
                        f"the memory of a read-only export by {name} is freed while the export lives, once the array "
                        "was written to and its last copy has died",
                    )
                pair.clear()


@check(
    "W29",
    "a read-only export of a lazy copy outlives all arrays",
    "dlpack.h 1.3, DLManagedTensorVersioned.deleter",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def read_only_export_outlives(lib: Subject) -> None:
    for n in (SMALL, LARGE):
        for route in FLAGGED:
            x, a, y = lazy(lib, n)
            for name, t in exports(lib, lib.ask("read_only", y), (route,)):
                del y
                lib.adapter.write(x, OTHER)
                unchanged_export(
                    t, a, f"a write to the array shows in a read-only export by {name} of a dead lazy copy"
                )
                del x
                churn(lib, a, 32 if n == SMALL else 2)
                unchanged_export(t, a, f"the memory of a read-only export by {name} is freed while the export lives")
                break


def unchanged_export(t: SimpleNamespace, a: npt.NDArray[Any], reason: str) -> None:
    """Fail unless exported memory has these values."""
    expect(np.array_equal(at(t, a.dtype), a), reason)


@check(
    "W30",
    "a copy of imported memory has values of its own, whoever writes to that memory",
    "pytorch#111579, zarrista#108",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def copy_of_imported_memory(lib: Subject) -> None:
    if lib.device != CPU:
        msg = f"nobody writes to memory of the device {lib.device} here"
        raise NotApplicable(msg)
    for fields in ({}, {"flags": READ_ONLY}):
        p, x = imported(lib, **fields)
        before = p.data.copy()
        try:
            y = lib.ask("lazy_copy", x)
        except RuntimeError as error:
            raise Refused(str(error)) from error
        lib.adapter.write(y, OTHER)
        expect(np.array_equal(p.data, before), "a write to a copy of imported memory reaches that memory")
        z = lib.ask("lazy_copy", x)
        p.data[...] = OTHER
        unchanged(lib, z, before, "what its owner writes to imported memory shows in a lazy copy of it")


@check(
    "W31",
    "a read-only export of a lazy copy cannot be written through, once it has come home",
    "pytorch#188554",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def shared_comes_home(lib: Subject) -> None:
    x, a, y = lazy(lib)
    home = lib.take_or_refuse(lib.ask("read_only", y), TypeError, RuntimeError)
    with contextlib.suppress(Exception):
        lib.adapter.write(home, OTHER)
    unchanged(lib, x, a, "a read-only export of a lazy copy is written through: the array it is a copy of changes")
    unchanged(lib, y, a, "a read-only export of a lazy copy is written through: the copy changes")


@check(
    "W32",
    "several threads may copy an array lazily, write to their copies and export it at once",
    f"CV-CUDA#298; {LAZY}",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def threads(lib: Subject) -> None:
    x, a, _ = lazy(lib, 1 << 12)

    def work(i: int) -> None:
        for _ in range(50):
            y = lib.ask("lazy_copy", x)
            with contextlib.suppress(NotApplicable):  # there may be no read-only exports
                t = lib.look(lib.ask("read_only", y))
                lib.adapter.write(y, i + OTHER - 1)
                found = at(t, a.dtype)
                sound = np.array_equal(found, a) or np.all(found == i + OTHER - 1)
                expect(sound, "a read-only export has other values while threads write to lazy copies")
            lib.adapter.write(y, i + OTHER)
            expect(np.all(lib.values(y) == i + OTHER), "a lazy copy shows what another thread has written to its own")
            unchanged(lib, x, a, "an array changes while threads write to lazy copies of it")

    in_threads(work)


@check(
    "W33",
    "lazy copies that were written to, exported and dropped leave nothing behind",
    "quadrants#598",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def nothing_is_left(lib: Subject) -> None:
    x, a, _ = lazy(lib, 1 << 14)

    def cycle() -> None:
        y = lib.ask("lazy_copy", x)
        z = lib.ask("lazy_copy", y)
        held: list[Any] = []
        with contextlib.suppress(NotApplicable):
            held.append(lib.look(lib.ask("read_only", y)))
        lib.adapter.write(y, OTHER)
        held.append(lib.look(z))

    leak = growth(lib, cycle, 100)
    expect(leak < a.nbytes / 4, f"of each two lazy copies of {a.nbytes} bytes {leak:.0f} are leaked")


@check(
    "W34",
    "a copy of a read-only array can be written to, which changes nothing else",
    "dpctl#1755",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def copy_of_read_only(lib: Subject) -> None:
    x, a, r = read_only(lib)
    try:
        y = lib.ask("lazy_copy", r)
    except (RuntimeError, TypeError) as error:
        raise Refused(str(error)) from error
    lib.adapter.write(y, OTHER)
    unchanged(lib, x, a, "a write to a copy of a read-only array reaches the array")
    expect(is_written(lib, y), "a copy of a read-only array does not show what was written to it")


@check(
    "W35",
    "what is written to an array that was exported and then copied lazily shows in the export",
    "pytorch#188554, zarrista#108",
    crashes=True,
)
def export_follows(lib: Subject) -> None:
    lazy(lib)
    for route in OWNED:
        x, a = some(lib, N)
        for name, t in exports(lib, x, (route,)):
            if t.versioned and t.flags & (READ_ONLY | IS_COPIED):
                continue  # a read-only one need not follow
            y = lib.ask("lazy_copy", x)
            lib.adapter.write(x, OTHER)
            shown = np.all(at(t, a.dtype) == OTHER)
            expect(
                shown, f"an export by {name} no longer shows the array, which was moved by a write after a lazy copy"
            )
            unchanged(lib, y, a, "a write to an array shows in a lazy copy of it")
