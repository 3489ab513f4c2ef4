"""How tensors come into a library: by which ways, in what state, and what is made of them.

    with Trial(lib) as trial:
        trial.must("null strides", data, strides=None)      # is imported with these values, by every way
        trial.may("negative strides", data, strides=(-1,))  # or declined
        trial.must_not("ndim -1", "that is no number of dimensions", ndim=-1)

Whatever comes of it, each tensor must be let go of once.
"""

from __future__ import annotations

import ctypes
import re
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from nbdlpack.conformance.capsules import name_of
from nbdlpack.conformance.header import CPU, IS_SUBBYTE_TYPE_PADDED, KINDS, LEGACY, READ_ONLY, VERSIONED
from nbdlpack.conformance.memory import aligned
from nbdlpack.conformance.producers import LegacyProducer, Producer, exchange_type
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    import numpy.typing as npt

    from nbdlpack.conformance.header import DLTensor
    from nbdlpack.conformance.subject import Subject

    Compare = Callable[[Subject, Any], str | None]
    """Says in words what is wrong with an imported array; None if nothing is."""

__all__ = [
    "CAPSULE",
    "OBJECT",
    "OLD_CAPSULE",
    "OLD_OBJECT",
    "PLAIN",
    "TABLE",
    "Trial",
    "Way",
    "attempt",
    "device",
    "dtype_and_bytes",
    "kind_of",
    "late_refusal",
    "layout",
    "must_import",
    "offer",
    "reading",
    "shares",
    "short",
    "values",
    "ways",
    "words",
]

# -- ways --------------------------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """One way into a library."""

    words: str
    kind: type[Producer]
    versioned: bool
    bare: bool = False
    """Whether the capsule is imported, and not the object."""

    def source(self, p: Producer) -> Any:
        """Return what of a test producer is to be imported."""
        return p.capsule(self.versioned) if self.bare else p


Table: Final = exchange_type()

OBJECT: Final = Way("an object that gives versioned capsules", Producer, versioned=True)
OLD_OBJECT: Final = Way("an object that gives unversioned capsules", LegacyProducer, versioned=False)
CAPSULE: Final = Way("a bare versioned capsule", Producer, versioned=True, bare=True)
OLD_CAPSULE: Final = Way("a bare unversioned capsule", LegacyProducer, versioned=False, bare=True)
TABLE: Final = Way("an exchange table", Table, versioned=True)
WAYS: Final = (OBJECT, OLD_OBJECT, CAPSULE, OLD_CAPSULE, TABLE)

PLAIN: Final = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
"""What every library takes, if it takes anything."""

_ways: Final[weakref.WeakKeyDictionary[Subject, tuple[Way, ...]]] = weakref.WeakKeyDictionary()


def ways(lib: Subject, *, versioned: bool | None = None) -> tuple[Way, ...]:
    """Return the ways by which a library takes the plainest of tensors; NotApplicable if there are none.

    That these ways are open is a matter of some checks; all others are about what is imported by those that are.
    """
    must_import(lib)
    if lib not in _ways:
        _ways[lib] = tuple([way for way in WAYS if _is_open(lib, way)])
    found = tuple([way for way in _ways[lib] if versioned in (None, way.versioned)])
    if not found:
        kind = {None: "", True: "versioned ", False: "unversioned "}[versioned]
        msg = f"{lib.name} takes no {kind}tensor, not even the plainest"
        raise NotApplicable(msg)
    return found


def must_import(lib: Subject) -> None:
    """Raise NotApplicable if a library is no consumer."""
    if not lib.adapter.consumer:
        msg = f"{lib.name} imports nothing"
        raise NotApplicable(msg)


def _is_open(lib: Subject, way: Way) -> bool:
    """Return whether a library takes a plain tensor by a way, and does not come to it by another one."""
    if way.bare and not lib.adapter.capsules:
        return False
    before = Table.through_table
    p, source = offer(lib, way)
    _, refusal = attempt(lib, source)
    if refusal is not None:
        return False
    if way is TABLE:
        return bool(Table.through_table > before)
    return bool(p.capsules) and name_of(p.capsules[-1]).removeprefix("used_") == kind_of(way)


def kind_of(way: Way) -> str:
    """Return the name of a way's capsules."""
    return VERSIONED if way.versioned else LEGACY


def offer(
    lib: Subject,
    way: Way,
    data: npt.ArrayLike = PLAIN,
    *,
    ahead: int = 0,
    edit: Callable[[DLTensor], None] | None = None,
    **fields: Any,
) -> tuple[Producer, Any]:
    """Return a test producer, and what of it is to be imported.

    Parameters
    ----------
    lib, way
        For whom, and how.
    data
        What the memory holds; it is well aligned, and overwritten once the tensor is deleted.
    ahead
        Where the first element is, in bytes behind the beginning of the memory.
    edit
        Called with each tensor that is made, before it is exported.
    **fields
        As of `Tensor`.
    """
    p = lib.producer(aligned(data), way.kind, **{"device": lib.device, "poison": True, **fields})
    if ahead:
        p.fields["address"] += ahead
    _prepare(getattr(p, "inner", p), edit)
    return p, way.source(p)


def _prepare(p: Producer, edit: Callable[[DLTensor], None] | None) -> None:
    """Let a producer do right by consumers that ask several times, and change what it exports."""
    make, data = p.managed, p.data.copy()

    def managed(versioned: bool) -> int:  # noqa: FBT001 (as the method)
        if not versioned and p.fields["flags"] & (READ_ONLY | IS_SUBBYTE_TYPE_PADDED):
            msg = "an unversioned capsule cannot say what this tensor is"
            raise BufferError(msg)
        for count in p._counts:  # an earlier export may be let go of while there is this one
            count.poison = None
        p.data[...] = data
        address = make(versioned)
        if edit is not None:
            edit(KINDS[VERSIONED if versioned else LEGACY].from_address(address).dl_tensor)
        return address

    p.managed = managed  # type: ignore[method-assign]


def layout(base: npt.NDArray[Any], view: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the fields of a view of an array, for `offer`."""
    return {
        "shape": view.shape,
        "strides": tuple([n // view.itemsize for n in view.strides]),
        "ahead": view.ctypes.data - base.ctypes.data,
    }


def attempt(lib: Subject, source: Any, **options: Any) -> tuple[Any, str | None]:
    """Import something; return it and None, or None and the words of the exception."""
    try:
        return lib.take(source, **options), None
    except (NotApplicable, SystemError):  # a SystemError is Python's word for a fault of the library
        raise
    except Exception as error:  # noqa: BLE001 (any of them is a refusal)
        return None, words(error)


def late_refusal(lib: Subject, x: Any) -> str | None:
    """Return in words why an imported array does not tell its shape: some libraries look at a tensor only then."""
    try:
        lib.ask("shape", x)
    except (NotApplicable, AttributeError, SystemError, MemoryError):  # which are no refusals, but accidents
        return None
    except Exception as error:  # noqa: BLE001 (any other one is a refusal, if late)
        return words(error)
    return None


def words(error: BaseException) -> str:
    """Return an exception in one line, which is the same each time."""
    text = " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", str(error)).split())
    return f"{type(error).__name__}: {text[:160]}{'…' * (len(text) > 160)}" if text else type(error).__name__


# -- what is made of it ------------------------------------------------------------------------------------------------


def short(a: npt.NDArray[Any]) -> str:
    """Return some values in one line."""
    return " ".join(np.array2string(a, threshold=8, edgeitems=3, separator=", ").split())


def values(expected: npt.ArrayLike) -> Compare:
    """Return a function that says how an imported array differs from what it should be."""
    due = np.array(expected)

    def compare(lib: Subject, x: Any) -> str | None:
        found = lib.values(x)
        for name, got, wanted in (("dtype", found.dtype, due.dtype), ("shape", found.shape, due.shape)):
            if got != wanted:
                return f"the {name} is {got}, but must be {wanted}"
        if found.tobytes() != due.tobytes():
            return f"the values are {short(found)}, but must be {short(due)}"
        return None

    return compare


def dtype_and_bytes(dtype: tuple[int, int, int], data: npt.NDArray[Any]) -> Compare:
    """Return a function that says how an array's export differs in dtype and bytes from what was imported."""

    def compare(lib: Subject, x: Any) -> str | None:
        try:
            found = lib.look(x)
        except (BufferError, AttributeError):
            return None  # it does not say
        if found.dtype != dtype:
            return f"its dtype (code, bits, lanes) comes out as {found.dtype}, but came in as {dtype}"
        if lib.device == CPU and data.nbytes and ctypes.string_at(found.address, data.nbytes) != data.tobytes():
            return "its bytes are not those that came in"
        return None

    return compare


def device(due: tuple[int, int]) -> Compare:
    """Return a function that says if an imported array is on another device than what was imported."""

    def compare(lib: Subject, x: Any) -> str | None:
        found = tuple(map(int, x.__dlpack_device__())) if lib.adapter.producer else lib.device
        return None if found == due else f"the array is on device {found}, but the capsule says {due}"

    return compare


def reading(lib: Subject, x: Any, compare: Compare) -> str | None:
    """Return what a comparison says, or why the array cannot be read."""
    try:
        return compare(lib, x)
    except (NotApplicable, Failure):
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what is wrong)
        return f"is imported, but cannot be read ({words(error)})"


def shares(lib: Subject, x: Any, p: Producer, way: Way) -> bool:
    """Return whether an imported array, which nobody has read yet, has a producer's memory; that is written to."""
    if lib.device == CPU:
        p.data[...] = 77
        return bool((lib.values(x) == 77).all())
    lib.ask("write", x, 77)
    return bool((lib.values(lib.take(way.source(p))) == 77).all())


TIMES: Final = {0: "never", 1: "once", 2: "twice"}
PAUSES: Final = (0, 1e-4, 0.01, 0.1, 1)
"""Before each look, in seconds: first goes what was imported, then what nobody took, and threads may be late."""


class Trial:
    """The imports of one check, by every way that the library takes.

    At the end of the block it fails unless each tensor was let go of once, and raises Refused if something was declined
    that may be.

    Parameters
    ----------
    lib
        The library.
    *only
        The ways, if not all that it takes; it may not take these.
    versioned
        Whether only those of versioned tensors, or of unversioned ones.
    """

    def __init__(self, lib: Subject, *only: Way, versioned: bool | None = None) -> None:
        must_import(lib)
        self.lib = lib
        self.ways = only or ways(lib, versioned=versioned)
        self.declined: dict[str, tuple[list[str], str]] = {}
        self.exported: list[tuple[Producer, str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.let_go()
            if self.declined:
                raise Refused("; ".join([f"{', '.join(cases)}: {text}" for cases, text in self.declined.values()]))

    def must(self, what: str, data: npt.ArrayLike = PLAIN, compare: Compare | None = None, **fields: Any) -> None:
        """Import a tensor.  Fails if it is refused, or not right."""
        for where, refusal in self._imports(what, data, compare, fields):
            expect(refusal is None, f"{where}: is refused ({refusal}), but must be imported")

    def may(self, what: str, data: npt.ArrayLike = PLAIN, compare: Compare | None = None, **fields: Any) -> None:
        """Import a tensor.  Fails if it is not right; that it was declined is told at the end."""
        for _, refusal in self._imports(what, data, compare, fields):
            if refusal is not None:
                self.decline(what, refusal)

    def need_not(self, what: str, data: npt.ArrayLike = PLAIN, compare: Compare | None = None, **fields: Any) -> None:
        """Import a tensor that it is as well to refuse.  Fails if it is imported, and not right."""
        for _ in self._imports(what, data, compare, fields):
            pass

    def must_not(
        self, what: str, because: str, data: npt.ArrayLike = PLAIN, *, late: bool = False, **fields: Any
    ) -> None:
        """Import a tensor that nobody can make sense of.  Fails unless that raises, or reading its shape if `late`."""
        for where, _, source in self.offers(what, data, **fields):
            x, refusal = attempt(self.lib, source)
            del source
            if refusal is None and late:
                refusal = late_refusal(self.lib, x)
            expect(refusal is not None, f"{where}: is imported, but {because}")
            del x

    def offers(self, what: str, data: npt.ArrayLike = PLAIN, **fields: Any) -> Iterator[tuple[str, Producer, Any]]:
        """Yield, for each way, what is imported in words, a test producer, and what of it is to be imported."""
        for way in self.ways:
            where = f"{what}, from {way.words}" if what else f"from {way.words}"
            yield where, *self.watch(where, *offer(self.lib, way, data, **fields))

    def watch(self, where: str, p: Producer, source: Any = None) -> tuple[Producer, Any]:
        """See at the end that each tensor of a producer was deleted once; return what is given."""
        sys.stderr.write(f"{where}\n")  # what was going on, should it be the last thing that happens
        # Without a deleter there is nothing to call, and what is in a capsule of another name is not the consumer's.
        times = 0 if p.fields["null_deleter"] or p.fields["name"] else 1
        self.exported.append((p, where, times))
        return p, source

    def let_go(self) -> None:
        """Fail unless each tensor was deleted as often as it must be.  Whoever imported them has let go of them."""
        wrong: list[str] = []
        for pause in PAUSES:
            time.sleep(pause)
            self.lib.adapter.settle()
            for p, *_ in self.exported:
                p.drop()
            wrong = [self._miscounted(*each) for each in self.exported]
            if pause and not any(wrong):
                return
        raise Failure(next(filter(None, wrong)))

    @staticmethod
    def _miscounted(p: Producer, where: str, times: int) -> str:
        """Return in words how often a deleter was called, if not as often as it must be."""
        due = times * len(getattr(p, "inner", p).made)
        found, wanted = [TIMES.get(n) or f"{n} times" for n in (p.deleted, due)]
        return "" if p.deleted == due else f"{where}: the deleter is called {found}, but must be called {wanted}"

    def decline(self, what: str, refusal: str) -> None:
        """Remember what was declined, by the kind of the exception, with the words of the first of a kind."""
        cases, _ = self.declined.setdefault(refusal.partition(":")[0], ([], refusal))
        if what not in cases:
            cases.append(what)

    def _imports(
        self, what: str, data: npt.ArrayLike, compare: Compare | None, fields: dict[str, Any]
    ) -> Iterator[tuple[str, str | None]]:
        """Import a tensor by each way; yield how, and why it was refused if it was.  Fails if it is not right."""
        compare = compare or values(data)
        for where, p, source in self.offers(what, data, **fields):
            x, refusal = attempt(self.lib, source)
            del source
            p.drop()  # the array is what keeps the memory now
            if refusal is None:
                try:
                    wrong = compare(self.lib, x)
                except (NotApplicable, Failure):
                    raise
                except Exception as error:  # noqa: BLE001 (what cannot be read is refused, if late)
                    refusal, wrong = f"{words(error)}, once it is read", None
                expect(wrong is None, f"{where}: {wrong}")
            del x
            yield where, refusal
