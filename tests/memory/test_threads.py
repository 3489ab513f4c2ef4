"""Threads that write to one storage and copy it never lose a write nor see half of one.

Threads change places as often as Python lets them: `sys.setswitchinterval(1e-6)`.  Writes of large arrays, and moves,
run without the GIL.  https://docs.python.org/3/library/sys.html#sys.setswitchinterval
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nbdlpack as nd
from tests.memory.tools import exports, leases, moves, numbers, same_storage, settled, state, succeeds, values

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = [
    pytest.param(8 << 10, 400, id="8KiB"),
    pytest.param(8 << 20, 12, id="8MiB"),
    pytest.param(256 << 20, 12, id="256MiB", marks=pytest.mark.slow),
]


@pytest.fixture(autouse=True)
def hasty():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def together(*work: Callable[[], None], seconds: float = 600) -> None:
    """Run functions in threads of their own; fail with the first that fails."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    running = [threading.Thread(target=guarded, args=(function,), daemon=True) for function in work]
    for thread in running:
        thread.start()
    end = time.monotonic() + seconds
    for thread in running:
        thread.join(max(0, end - time.monotonic()))
        assert not thread.is_alive(), "a deadlock"
    if errors:
        raise errors[0]


class Race:
    """Two writers, and others who go on until both are done."""

    def __init__(self, nbytes: int, times: int) -> None:
        self.x: Any = nd.zeros(nbytes // 8, dtype="i8")
        self.times, self.finished, self.begun = times, 0, threading.Event()

    def writer(self, write: Callable[[int], object]) -> Callable[[], None]:
        def work() -> None:
            assert self.begun.wait(60)
            try:
                for i in range(1, self.times + 1):
                    write(i)
                    time.sleep(1e-5)
            finally:
                self.finished += 1

        return work

    def until_done(self, act: Callable[[], object]) -> Callable[[], None]:
        def work() -> None:
            act()  # before anybody writes, so that there is something to race about
            self.begun.set()
            while self.finished < 2:
                act()
            act()

        return work


@pytest.mark.parametrize(("nbytes", "times"), SIZES)
def test_two_writers_and_a_copier_of_one_storage(nbytes, times):
    race = Race(nbytes, times)
    x, before, recent, last, read = race.x, moves(), [], [0, 0], [0]

    def reads() -> None:
        now = int(x[0])
        assert now >= read[0], "what a move has not yet copied"
        read[0] = now

    def copies() -> None:
        c = x.copy()
        seen = [int(c[0]), int(c[-1])]
        assert seen[0] >= last[0], "a write was lost"
        assert seen[1] >= last[1], "a write was lost"
        last[:] = seen
        recent.append((c, seen))
        for old, values_then in recent:
            assert [int(old[0]), int(old[-1])] == values_then, "a copy has changed"
        del recent[:-3]

    together(
        race.writer(lambda i: x.__setitem__(0, i)),
        race.writer(lambda i: x.__setitem__(-1, i)),
        race.until_done(copies),
        race.until_done(reads),
    )
    recent.clear()
    assert (int(x[0]), int(x[-1])) == (times, times)
    assert not x[1:-1].any()
    assert moves() > before
    assert leases(x) == 1


def test_nobody_sees_a_move_half_done():
    x, stop, last = nd.zeros(1 << 20, dtype="i8"), [], [0]

    def move() -> None:
        try:
            for i in range(1, 31):
                x[...] = i
                y = x.copy()
                x[0] = i
                del y
        finally:
            stop.append(True)

    def read() -> None:
        while not stop:
            now = int(x[-1])
            assert now >= last[0], "what has not yet been copied"
            last[0] = now

    together(move, read)
    assert uniform(x)


@pytest.mark.parametrize(("nbytes", "times"), SIZES)
def test_two_writers_and_a_copier_of_clones(nbytes, times):
    race = Race(nbytes, times)
    x = race.x
    y = x.copy()
    assert leases(x) == 2

    def copies() -> None:
        for one in (x, y):
            c = one.copy()
            d = c.copy()
            first = int(c[0])
            c[1] = -1
            assert int(d[1]) == 0, "a clone saw another's write"
            assert int(d[0]) == first
            del c, d

    together(
        race.writer(lambda i: x.__setitem__(0, i)), race.writer(lambda i: y.__setitem__(0, -i)), race.until_done(copies)
    )
    assert (int(x[0]), int(y[0])) == (times, -times)
    assert not x[1:].any()
    assert not y[1:].any()
    assert leases(x) == leases(y) == 1


def uniform(c: Any) -> bool:
    low, high = int(c.min()), int(c.max())
    return low == high


@pytest.mark.parametrize(("nbytes", "times"), SIZES)
@pytest.mark.parametrize("how", ["x[...] =", "fill", "+="])
def test_copies_of_what_is_written_whole_are_whole(nbytes, times, how):
    race = Race(nbytes, times)
    x = race.x
    write = {
        "x[...] =": lambda i: x.__setitem__(..., i),
        "fill": lambda i: x.fill(i),
        "+=": lambda i: x.__iadd__(1),
    }[how]

    def copies() -> None:
        c = x.copy()
        assert uniform(c), "half of a write"

    together(race.writer(write), race.writer(write), race.until_done(copies))
    if how == "+=":
        assert int(x[0]) == int(x[-1]) == 2 * times, "a write was lost"
    assert uniform(x)


@pytest.mark.parametrize(("nbytes", "times"), SIZES)
@pytest.mark.parametrize("kind", ["an export that may write", "a view", "imported"])
def test_eager_copies_of_what_is_written_whole_are_whole(nbytes, times, kind):
    race = Race(nbytes, times)
    x, hold = race.x, None
    if kind == "imported":
        x = nd.from_dlpack(np.zeros(nbytes // 8, "i8"))
    elif kind == "an export that may write":
        hold = np.from_dlpack(x)
    source = x[1:] if kind == "a view" else x

    def copies() -> None:
        c = source.copy()
        assert not nd.shares_memory(c, x)
        assert uniform(c), "half of a write"

    together(
        race.writer(lambda i: x.__setitem__(..., i)), race.writer(lambda i: x.__setitem__(..., -i)),
        race.until_done(copies),
    )  # fmt: skip
    assert uniform(x)
    del hold


@pytest.mark.parametrize(("nbytes", "times"), SIZES[:2])
def test_writers_against_exports_of_every_kind(nbytes, times):
    race = Race(nbytes, times)
    x = race.x

    def exporting() -> None:
        n = np.from_dlpack(x)
        r = np.from_dlpack(nd.readonly(x))
        m = memoryview(x)
        h = nd.from_dlpack(n)
        assert same_storage(h, x)
        capsule = x.__dlpack__()
        del n, r, h, capsule
        m.release()

    def copying() -> None:
        c = x.copy()
        c[2] = 1
        nd.materialize(c)
        del c

    together(
        race.writer(lambda i: x.__setitem__(0, i)),
        race.writer(lambda i: x.__setitem__(-1, i)),
        race.until_done(exporting),
        race.until_done(copying),
        race.until_done(lambda: repr(x[1:])),
    )
    assert (int(x[0]), int(x[-1]), int(x[2])) == (times, times, 0)
    assert exports(x) == (0, 0)
    assert leases(x) == 1


def test_a_read_only_export_keeps_its_bytes_while_writers_move_away():
    race = Race(1 << 20, 100)
    x = race.x
    seen: list[tuple[Any, int]] = []

    def exporting() -> None:
        y = x.copy()
        r = np.from_dlpack(nd.readonly(y))
        del y
        seen.append((r, int(r[0])))
        for old, value in seen:
            assert int(old[0]) == int(old[-1]) == value
        del seen[:-4]

    together(race.writer(lambda i: x.fill(i)), race.writer(lambda i: x.fill(-i)), race.until_done(exporting))
    seen.clear()
    assert leases(x) == 1


def test_many_writers_of_many_clones():
    x = nd.zeros(1000, dtype="i8")
    clones = [x.copy() for _ in range(8)]

    def work(one: Any, value: int) -> Callable[[], None]:
        def loop() -> None:
            for i in range(200):
                one[i] = value
                c = one.copy()
                c.fill(0)
                one[999] += 1

        return loop

    together(*(work(one, i + 1) for i, one in enumerate(clones)))
    assert not x.any()
    for i, one in enumerate(clones):
        assert values(one[:200]) == [i + 1] * 200
        assert int(one[999]) == 200
        assert leases(one) == 1
    assert leases(x) == 1


def test_adding_in_place_by_several_threads_loses_nothing():
    x: Any = nd.zeros(1 << 17, dtype="i8")

    def add() -> None:
        y = x[1:]
        for _ in range(40):
            y += 1
            np.add(y, 1, out=y)
            c = x.copy()
            del c

    together(add, add, add)
    assert int(x[0]) == 0
    assert values(x[1:]) == [240] * (x.size - 1)


def test_writes_of_two_arrays_at_once_do_not_wait_for_each_other_for_ever():
    x, y = numbers(), numbers()

    def one_way() -> None:
        for _ in range(300):
            np.divmod(np.full(6, 7.0), 2.0, out=(x, y))

    def the_other() -> None:
        for _ in range(300):
            np.divmod(np.full(6, 7.0), 2.0, out=(y, x))

    together(one_way, the_other, seconds=60)
    assert {(values(x)[0], values(y)[0])} <= {(3.0, 1.0), (1.0, 3.0)}


def test_a_value_that_is_an_array_written_to_by_another_thread():
    # x takes y's values while another thread makes y take x's
    x, y = nd.zeros(1 << 16), nd.ones(1 << 16)

    def give() -> None:
        for _ in range(100):
            x[...] = y

    def take() -> None:
        for _ in range(100):
            y[...] = x

    together(give, take, seconds=120)
    assert set(values(x)) | set(values(y)) <= {0.0, 1.0}


def test_a_finaliser_writes_inside_a_write():
    # what dies while a value is stored may itself write to the array
    x = nd.array(np.arange(6.0))
    done = []

    class Last:
        def __del__(self) -> None:
            x[5] = 5.5
            done.append(True)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array(1.0)

    def write() -> None:
        for _ in range(50):
            x[0] = Last()

    together(write, write, seconds=60)
    assert len(done) == 100
    assert values(x) == [1, 1, 2, 3, 4, 5.5]


def test_arrays_die_in_other_threads_than_they_were_made_in():
    gc.collect()
    before = settled()
    made: list[Any] = []

    def make() -> None:
        for _ in range(500):
            x = numbers()
            made.extend((x, x[1:], x.copy(), np.from_dlpack(nd.readonly(x)), x.__dlpack__()))

    def unmake() -> None:
        for _ in range(2000):
            try:
                made.pop()
            except IndexError:
                time.sleep(1e-5)

    together(make, make, unmake, unmake)
    made.clear()
    assert settled() == before


def test_the_state_of_an_array_can_be_read_while_it_moves():
    x = nd.zeros(1 << 20, dtype="u1")
    stop = []

    def move() -> None:
        try:
            for _ in range(100):
                y = x.copy()
                x[0] = 1
                del y
        finally:
            stop.append(True)

    def look() -> None:
        while not stop:
            s = state(x)
            assert s.leases in (1, 2, 3)
            assert s.exports <= 1
            assert not s.writable or s.exports
            assert nd.is_shared(x) in (True, False)
            assert nd.memory_info().bytes > 0

    together(move, look)


INTERRUPTS = """
import random, signal, threading, time
import numpy as np, nbdlpack as nd
from nbdlpack import native

x = nd.arange(6.0)

def work():
    global x
    y = x.copy()
    y[0] = 1
    x += 1
    x[1:] = x[:-1]
    x.fill(3)
    np.add(x, 1, out=x)
    np.divmod(x, 2.0, out=(x, y))
    nd.from_dlpack(x.__dlpack__())
    np.asarray(x)
    x[[0, 1]] = 5
    x[::2].copy()

work()
before = x._state()
blocks = native.world.blocks
signal.signal(signal.SIGALRM, signal.default_int_handler)
end, interrupts = time.monotonic() + SECONDS, 0
while time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + random.random() * 0.0005)
        while True:
            work()
    except KeyboardInterrupt:
        interrupts += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
signal.setitimer(signal.ITIMER_REAL, 0)
assert interrupts > 100
assert x._state()[2:5] == before[2:5] and native.world.blocks == blocks
writer = threading.Thread(target=x.fill, args=(1,), daemon=True)
writer.start()
writer.join(10)
assert not writer.is_alive()
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
def test_an_interrupt_leaves_no_write_behind():
    succeeds(INTERRUPTS.replace("SECONDS", "2"), timeout=60)
