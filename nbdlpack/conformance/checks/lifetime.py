"""Who lets go of memory, when, on which thread, and how often.

What a library does inside is not known here.  So it is given the memory of a test producer, and exports that again: the
producer's deleter is called when the last who has the memory lets go.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import signal
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack.conformance.capsules import consume, delete, name_of, new_capsule, peek, read
from nbdlpack.conformance.fresh import in_fresh_interpreter
from nbdlpack.conformance.header import KINDS, LEGACY, VERSION, VERSIONED
from nbdlpack.conformance.memory import aligned, at, churn, growth, imported, in_threads, on_native_threads, some
from nbdlpack.conformance.native import code
from nbdlpack.conformance.producers import Producer
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused, Severity, check, expect
from nbdlpack.conformance.tables import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import SimpleNamespace

    from nbdlpack.conformance.subject import Subject

DELETER: Final = "dlpack.h 1.3, DLManagedTensorVersioned.deleter"
CAPSULE: Final = "python_spec: the capsule's destructor calls the deleter unless it was consumed"
VALUES: Final = np.arange(16.0)
MANY: Final = 5_000
LEAK: Final = 4
"""By how many bytes a cycle may seem to grow the process, which is less than anything that is allocated has."""
EARLY: Final = "the memory is let go of while {} it lives"


def capsules(lib: Subject) -> list[Callable[[Any], Any]]:
    """Return what makes a capsule of an array: `__dlpack__`, of each kind of capsule, and the library's to_dlpack."""
    found: dict[str, Callable[[Any], Any]] = {}
    refusal: Exception | None = None
    x, _ = some(lib)
    for export in (lib.export, partial(lib.export, max_version=None)):
        try:
            found.setdefault(name_of(export(x)), export)
        except BufferError as error:
            refusal = error
    with contextlib.suppress(NotApplicable, BufferError):
        own = partial(lib.ask, "to_dlpack")
        own(x)
        found["to_dlpack"] = own
    if not found:
        raise Refused(str(refusal))
    return list(found.values())


def exports(lib: Subject) -> list[Callable[[Any], tuple[int, str]]]:
    """Return what exports an array to a consumer in C: by one of the capsules, or by the exchange table if it has one.

    It gets the address of a managed tensor, and the name of capsules that hold such.
    """

    def consumed(make: Callable[[Any], Any], x: Any) -> tuple[int, str]:
        capsule = make(x)
        name = name_of(capsule)
        return consume(capsule), name

    found: list[Callable[[Any], tuple[int, str]]] = [partial(consumed, make) for make in capsules(lib)]
    with contextlib.suppress(NotApplicable):
        table_of(type(some(lib)[0]))
        found.append(lambda x: (table_of(type(x)).export(x), VERSIONED))
    return found


def fields(export: tuple[int, str]) -> SimpleNamespace:
    """Return the fields of what was exported."""
    address, name = export
    return read(KINDS[name].from_address(address))


def call_of(export: tuple[int, str]) -> tuple[int, int]:
    """Return the address of the deleter of what was exported, and its argument."""
    deleter = fields(export).deleter
    expect(deleter, f"the deleter in a {export[1]} is NULL")
    return deleter, export[0]


def alive(lib: Subject, p: Producer, what: str) -> None:
    """Fail if the memory of a test producer was let go of."""
    lib.adapter.settle()
    expect(not p.deleted, EARLY.format(what))


@contextlib.contextmanager
def nothing_unraisable() -> Iterator[None]:
    """Fail if an exception is raised where nobody can catch it."""
    hook, seen = sys.unraisablehook, []
    sys.unraisablehook = lambda what: seen.append(f"{what.exc_type.__name__}: {what.exc_value}")
    try:
        yield
    finally:
        sys.unraisablehook = hook
    expect(not seen, f"an exception is raised where nobody can catch it: {''.join(seen[:1])}")


def never(*_: object) -> None:
    """Be called with arguments of which one cannot be computed."""
    msg = "never is called"
    raise AssertionError(msg)


# ---- capsules --------------------------------------------------------------------------------------------------------


@check(
    "L01",
    "a capsule keeps the memory after the array has died, and lets go of it if nobody consumes it",
    f"{CAPSULE}; pytorch#9297, quadrants#598",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def unconsumed(lib: Subject) -> None:
    for make in capsules(lib):
        p, x = imported(lib)
        capsule = make(x)
        del x
        alive(lib, p, "a capsule of")
        del capsule
        lib.released(p)


@check(
    "L02",
    "a capsule that was consumed frees nothing, and the deleter lets go of the memory",
    f"{CAPSULE}; pytorch#9260, cupy#1445",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def consumed(lib: Subject) -> None:
    for export in exports(lib):
        p, x = imported(lib)
        taken = export(x)
        del x
        alive(lib, p, "a consumer of")
        delete(*taken)
        lib.released(p)


@check(
    "L03",
    "exported memory has its values as long as the export lives, whatever becomes of the array",
    "dlpack.h 1.3, DLManagedTensorVersioned; mxnet#13658, dgl#312",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def memory_is_kept(lib: Subject) -> None:
    for n in (1 << 8, 1 << 18):
        for export in exports(lib):
            x, a = some(lib, n)
            taken = export(x)
            del x
            churn(lib, a)
            found = at(fields(taken), a.dtype)
            expect(np.array_equal(found, a), f"{a.nbytes} exported bytes change when the array has died")
            delete(*taken)


@check(
    "L04",
    "what was exported has its shape and strides as long as the export lives",
    "dlpack.h 1.3, DLTensor.shape",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def shape_is_kept(lib: Subject) -> None:
    for export in exports(lib):
        x, a = some(lib)
        taken = export(x)
        before = fields(taken)
        del x
        churn(lib, a)
        noise = [np.full(n, 77, np.int64) for n in range(1, 65) for _ in range(8)]
        after = fields(taken)
        del noise
        expect(before == after, f"the fields of an export change when the array has died: {before} becomes {after}")
        delete(*taken)


@check(
    "L05",
    "two exports of one array are independent: the one outlives the other, and each is deleted for itself",
    "jax#4636, cudnn-frontend#547",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def two_exports(lib: Subject) -> None:
    for make in capsules(lib):
        p, x = imported(lib)
        one, two = make(x), make(x)
        before = peek(two)
        del x, one
        alive(lib, p, "the second export of")
        expect(peek(two) == before, "the second export changes when the first is deleted")
        three = lib.take(p)  # so that the structure that was freed is used for something else
        expect(peek(two) == before, "the second export changes when the first is deleted")
        del two, three
        lib.released(p, 2)


@check("L06", "every export has a deleter", f"{DELETER}: NULL if there is no way", severity=Severity.STYLE)
def has_a_deleter(lib: Subject) -> None:
    for make in capsules(lib):
        capsule = make(some(lib)[0])
        expect(peek(capsule).deleter, f"the deleter in a {name_of(capsule)} is NULL, which some consumers call")


@check(
    "L07",
    "a capsule that dies while an exception is on its way leaves that alone",
    "numpy test_dlpack_destructor_exception; paddle#50120, dlpack#140",
    crashes=True,
)
def exception_survives(lib: Subject) -> None:
    for make in capsules(lib):
        p, x = imported(lib)
        with nothing_unraisable():
            try:
                never(make(x), 1 / 0)
            except ZeroDivisionError:
                pass
            except BaseException as error:
                msg = f"a capsule that dies turns a ZeroDivisionError into a {type(error).__name__}: {error}"
                raise Failure(msg) from error
        alive(lib, p, "an array on")
        del x
        lib.released(p)


@check(
    "L08",
    "an imported array that dies while an exception is on its way leaves that alone",
    "dlpack#140",
    crashes=True,
)
def exception_survives_imports(lib: Subject) -> None:
    imported(lib)
    p = lib.producer(aligned(VALUES))
    with nothing_unraisable():
        try:
            never(lib.take(p), 1 / 0)
        except ZeroDivisionError:
            pass
        except BaseException as error:
            msg = f"an array that dies turns a ZeroDivisionError into a {type(error).__name__}: {error}"
            raise Failure(msg) from error
    lib.released(p)


@check(
    "L09",
    "capsules and arrays in reference cycles are let go of by the garbage collector",
    f"{CAPSULE}; mahout#888",
    crashes=True,
)
def cycles(lib: Subject) -> None:
    for make in capsules(lib):
        p, x = imported(lib)
        cycle: list[Any] = [x, make(x)]
        cycle.append(cycle)
        del x
        alive(lib, p, "a cycle with")
        del cycle
        gc.collect()
        lib.released(p)


@check(
    "L10",
    "a capsule is consumed once: the second attempt is refused, and nothing is deleted twice",
    "cupy test_multiple_consumption_error",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def consumed_twice(lib: Subject) -> None:
    taken = False
    for versioned in (True, False):
        p = lib.producer(aligned(VALUES))
        capsule = p.capsule(versioned)
        try:
            x = lib.take_capsule(capsule)
        except NotApplicable:
            raise
        except Exception:  # noqa: BLE001 (not every library takes both kinds)
            continue
        taken = True
        for _ in range(2):
            try:
                lib.take_capsule(capsule)
            except Exception:  # noqa: BLE001 (as is due)
                continue
            msg = f"a {name_of(capsule)} is consumed a second time"
            raise Failure(msg)
        del x, capsule
        lib.released(p)
    expect(taken, "no capsule is taken, of either kind")


# ---- who has the memory ----------------------------------------------------------------------------------------------


@check(
    "L11",
    "imported memory is let go of once, when the last view of it dies",
    f"{DELETER}; cupy#1445, pytorch#9261",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def last_view(lib: Subject) -> None:
    p, x = imported(lib)
    with contextlib.suppress(NotApplicable, NotImplementedError, TypeError):
        view = lib.ask("view", x, slice(1, None))
        del x
        alive(lib, p, "a view of")
        x = view
        del view
    alive(lib, p, "an array on")
    del x
    lib.released(p)


@check(
    "L12",
    "memory that goes from hand to hand lives as long as the last who has it, in whatever order they let go",
    f"{DELETER}; cupy test_deleter2",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def chain(lib: Subject) -> None:
    order = random.Random(5)
    for _ in range(4):
        p, x = imported(lib)
        address = lib.look(x).address
        held: list[Any] = [x]
        del x
        while len(held) < 4:
            held.append(lib.take_or_refuse(held[-1]))
            if lib.look(held[-1]).address != address:
                msg = f"{lib.name} copies what it imports from itself"
                raise NotApplicable(msg)
        held.append(lib.export(held[-1]))
        while held:
            alive(lib, p, "somebody who has")
            del held[order.randrange(len(held))]
        lib.released(p)


@check(
    "L13",
    "what one thread has made another one may drop, also when the first has ended",
    "pytorch#88082",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def another_thread(lib: Subject) -> None:
    def make() -> tuple[Producer, list[Any]]:
        p, x = imported(lib)
        return p, [x, *[make(x) for make in capsules(lib)]] if lib.adapter.producer else [x]

    def on_a_thread(work: Callable[[], object]) -> None:
        in_threads(lambda _: work(), 1)

    p, held = make()
    alive(lib, p, "an array on")
    on_a_thread(held.clear)
    lib.released(p)
    made: list[tuple[Producer, list[Any]]] = []
    on_a_thread(lambda: made.append(make()))
    p, held = made.pop()
    alive(lib, p, "an array on")
    held.clear()
    lib.released(p)


# ---- deleters --------------------------------------------------------------------------------------------------------


@check(
    "L14",
    "deleters may be called on threads that Python has never seen, without the GIL",
    "python_spec; numpy#22507, pytorch#88082, CV-CUDA#298",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def native_threads(lib: Subject) -> None:
    for export in exports(lib):
        p, x = imported(lib)
        for _ in range(10):
            on_native_threads([call_of(export(x)) for _ in range(10)])
        alive(lib, p, "an array on")
        last = call_of(export(x))
        del x
        on_native_threads([last])
        lib.released(p)


@check("L15", "a deleter that is called with the GIL held leaves no exception set", "numpy#22507", crashes=True)
def with_the_gil(lib: Subject) -> None:
    call = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # raises what is left set
    for export in exports(lib):
        p, x = imported(lib)
        deleter, address = call_of(export(x))
        del x
        with nothing_unraisable():
            try:
                call(deleter)(address)
            except Exception as error:
                msg = f"the deleter leaves a {type(error).__name__} set: {error}"
                raise Failure(msg) from error
        lib.released(p)


@check(
    "L16",
    "deleters may be called after the interpreter has ended",
    "python_spec; numpy#22510, TensorRT-LLM#18310, llvmlite#232",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def after_the_interpreter(lib: Subject) -> None:
    in_fresh_interpreter(lib, leave_deleters)


def leave_deleters(lib: Subject) -> None:
    """Have C's exit, which comes after Python's end, call deleters of all kinds of exports."""
    at_exit = ctypes.CDLL(None).__cxa_atexit
    at_exit.argtypes = [ctypes.c_void_p] * 3
    for export in exports(lib):
        at_exit(*call_of(export(some(lib)[0])), None)
        with contextlib.suppress(NotApplicable, Refused):
            at_exit(*call_of(export(imported(lib)[1])), None)


@check(
    "L17",
    "the interpreter ends well while arrays and capsules are alive in modules and cycles",
    "TensorRT-LLM#18310, Morpheus#1513",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def end_of_the_interpreter(lib: Subject) -> None:
    in_fresh_interpreter(lib, leave_arrays)


def leave_arrays(lib: Subject) -> None:
    """Leave arrays and capsules where they die late, in a module and a cycle, and where they never do."""

    def some_of_each() -> list[Any]:
        kept: list[Any] = []
        with contextlib.suppress(NotApplicable, Refused):
            kept += [imported(lib), imported(lib)[1]]
        if lib.adapter.producer:
            for make in capsules(lib):
                x, _ = some(lib)
                kept += [x, make(x), make(some(lib)[0])]
            with contextlib.suppress(Exception):
                kept.append(np.from_dlpack(some(lib)[0]))
        kept.append(kept)
        return kept

    sys.modules["nbdlpack_conformance_kept"] = some_of_each()  # type: ignore[assignment]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(some_of_each()))


# ---- many times ------------------------------------------------------------------------------------------------------


@check(
    "L18",
    "exports that are dropped, consumed or not, leave nothing behind",
    "pytorch#9297, quadrants#598, lmdeploy#1344",
    crashes=True,
)
def exports_leave_nothing(lib: Subject) -> None:
    x, _ = some(lib)
    before = sys.getrefcount(x)
    for export in exports(lib):
        leak = growth(lib, lambda export=export: delete(*export(x)), MANY)  # type: ignore[misc]
        expect(leak < LEAK, f"each export that is consumed and deleted leaves {leak:.0f} bytes")
    for make in capsules(lib):
        leak = growth(lib, partial(make, x), MANY)
        expect(leak < LEAK, f"each capsule that is not consumed leaves {leak:.0f} bytes")
    more = sys.getrefcount(x) - before
    expect(not more, f"exports leave {more} more references to the array")


@check("L19", "imports leave nothing behind, and delete what they took once each", "lmdeploy#1344", crashes=True)
def imports_leave_nothing(lib: Subject) -> None:
    imported(lib)
    p = again(lib)
    before = sys.getrefcount(p)
    leak = growth(lib, lambda: lib.take(p), MANY)
    expect(p.deleted == p.exported, f"of {p.exported} tensors {p.deleted} were deleted")
    expect(leak < LEAK, f"each import leaves {leak:.0f} bytes")
    more = sys.getrefcount(p) - before
    expect(not more, f"imports leave {more} more references to the object that was imported")


def again(lib: Subject, **fields: Any) -> Again:
    """Return a test producer of one tensor, which it exports any number of times."""
    p = lib.producer(aligned(VALUES), Again, **fields)
    assert isinstance(p, Again)
    return p


class Again(Producer):
    """Exports the same two structures again and again, of which the deleters only count, so that nothing grows."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.addresses = {versioned: self.managed(versioned) for versioned in (False, True)}
        self.exported = 0

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        self.exported += 1
        versioned = max_version is not None and max_version[0] >= 1
        name, destructor = (VERSIONED, "versioned") if versioned else (LEGACY, "legacy")
        return new_capsule(self.addresses[versioned], name, code[f"conformance_drop_{destructor}"])


@check(
    "L20",
    "arrays that go out and come back leave nothing behind",
    "lmdeploy#1344, cuda-python#1043",
    crashes=True,
)
def round_trips_leave_nothing(lib: Subject) -> None:
    x, _ = some(lib)
    lib.take_or_refuse(x)
    before = sys.getrefcount(x)
    leak = growth(lib, lambda: lib.take(x), MANY)
    expect(leak < LEAK, f"each round trip leaves {leak:.0f} bytes")
    more = sys.getrefcount(x) - before
    expect(not more, f"round trips leave {more} more references to the array")


@check(
    "L21",
    "exports that are refused leave nothing behind",
    "pytorch#171820, cuda-python#1291",
    crashes=True,
)
def refused_exports_leave_nothing(lib: Subject) -> None:
    x, _ = some(lib)
    before = sys.getrefcount(x)
    asked: tuple[dict[str, Any], ...] = (
        {"dl_device": (99, 0)},
        {"stream": object()},
        {"max_version": "1.0"},
        {"copy": "yes"},
        {"no_such_keyword": 1},
    )

    def cycle() -> None:
        for options in asked:
            with contextlib.suppress(Exception):
                x.__dlpack__(**options)

    leak = growth(lib, cycle, MANY // 5)
    expect(leak < LEAK, f"each {len(asked)} exports that are refused leave {leak:.0f} bytes")
    more = sys.getrefcount(x) - before
    expect(not more, f"exports that are refused leave {more} more references to the array")


@check(
    "L22",
    "imports that are refused leave nothing behind, and delete what they were given once each",
    "pytorch#171820, dlpack#156",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def refused_imports_leave_nothing(lib: Subject) -> None:
    for fields in ({"dtype": (99, 64, 1)}, {"dtype": (2, 64, 3)}, {"version": (VERSION[0] + 1, 0)}):
        p = again(lib, **fields)

        def cycle(p: Producer = p) -> None:
            with contextlib.suppress(Exception):
                lib.take(p)

        lib.take_or_refuse(lib.producer(aligned(VALUES)))
        leak = growth(lib, cycle, MANY // 5)
        expect(p.deleted == p.exported, f"of {p.exported} tensors with {fields} {p.deleted} were deleted")
        expect(leak < LEAK, f"each import of a tensor with {fields} leaves {leak:.0f} bytes")


@check(
    "L23",
    "memory of arrays that are exported and dropped, in either order, is freed",
    "kaldi#93, pytorch#9297",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def memory_is_freed(lib: Subject) -> None:
    _, a = some(lib, 1 << 14)
    for make in capsules(lib):

        def cycle(make: Callable[[Any], Any] = make) -> None:
            for array_first in (True, False):
                x = lib.array(a)
                capsule = make(x)
                if array_first:
                    del x
                del capsule

        leak = growth(lib, cycle, 100)
        expect(leak < a.nbytes / 4, f"of each two arrays of {a.nbytes} bytes that were exported {leak:.0f} are leaked")


@check(
    "L24",
    "a copy that was made for the consumer is freed by the deleter",
    "array API 2025.12, __dlpack__, copy; dlpack.h 1.3, DLPACK_FLAG_BITMASK_IS_COPIED",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def copies_are_freed(lib: Subject) -> None:
    x, a = some(lib, 1 << 14)
    copies, refusal = [], ""
    for make in (partial(lib.export, x, copy=True), partial(lib.export, x, copy=True, max_version=None)):
        try:
            make()
            copies.append(make)
        except (BufferError, TypeError, NotImplementedError) as error:
            refusal = f"{type(error).__name__}: {error}"
    if not copies:
        raise Refused(refusal)
    for make in copies:

        def cycle(make: Callable[[], Any] = make) -> None:
            make()
            capsule = make()
            name = name_of(capsule)
            delete(consume(capsule), name)

        leak = growth(lib, cycle, 100)
        expect(leak < a.nbytes / 4, f"of each two copies of {a.nbytes} bytes {leak:.0f} are leaked")


# ---- at once ---------------------------------------------------------------------------------------------------------


@check(
    "L25",
    "several threads may export, import and drop one array at once",
    "CV-CUDA#298, pytorch#88082",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def threads(lib: Subject) -> None:
    ways, makes = exports(lib), capsules(lib)
    p, x = imported(lib)
    shared, taken = [x], [p]
    del x

    def work(i: int) -> None:
        own = lib.producer(aligned(VALUES + i))
        taken.append(own)
        for n in range(50):
            y = lib.take(own)
            delete(*ways[n % len(ways)](shared[0]))
            makes[n % len(makes)](shared[0])
            if n % 10 == 0:  # deleters are called while other threads go on
                on_native_threads([call_of(ways[n % len(ways)](shared[0])) for _ in range(4)])
            expect(np.array_equal(lib.values(y), VALUES + i), "threads that import at once see each other's values")
            lib.export(y)

    in_threads(work)
    alive(lib, p, "an array on")
    expect(np.array_equal(lib.values(shared.pop()), VALUES), "an array changes while threads export it")
    for own in taken:
        lib.released(own, 1 if own is p else 50)


@check(
    "L26",
    "a forked process has arrays and capsules of its own, which it may use and drop",
    "numpy#22510",
    severity=Severity.CORRUPTION,
    crashes=True,
)
def fork(lib: Subject) -> None:
    if not lib.adapter.fork:
        msg = f"a process that uses {lib.name} is not to be forked"
        raise NotApplicable(msg)
    p, x = imported(lib)
    capsule = lib.export(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python, which advises against forks where there are threads
        child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(60)  # a process that waits for a lock of its parent's is ended
            same = np.array_equal(lib.values(x), VALUES)
            del x, capsule
            lib.released(p)
            lib.export(imported(lib)[1])
            status = 0 if same else 2
        finally:
            os._exit(status)
    found = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    hows = {0: "", 2: "sees other values", -signal.SIGALRM: "hangs"}
    expect(not found, f"a forked process {hows.get(found, f'fails with {found}')}")
    alive(lib, p, "an array on")
    expect(np.array_equal(lib.values(x), VALUES), "an array changes when a forked process drops its own")
    del x, capsule
    lib.released(p)
