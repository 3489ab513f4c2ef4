"""How benchmarks are run: what a subject says, and how its rows are timed.

A subject is a module ``bench_<subject>.py``, and mostly data:

    TITLE           what it is about, in a line
    WORDS           what the words mean that statements use, as expressions; they may use each other, the names of the
                    module, and `nd`, `np`, `torch` and `tvm_ffi`
    rows(largest)   the `Row`s, none of which needs memory for an array of more than so many bytes

What a row needs is found from the words that it uses, so that nothing has to be said about a peer that is missing.

The number of interest is a ratio, since times differ between machines and hours while ratios hardly do.  In one process
the two statements of a row are timed in turn, many times, and the ratio of that process is the quotient of the two
minima.  The result is the median over several processes: the layout of memory, which each process has of its own, moves
the numbers by some percent.

`pyperf` keeps and describes the times (values, loops, the machine, the JSON that its command line reads).  Its `Runner`
is not used, since it times each benchmark in processes of its own, one after the other, and cannot take turns; the
statements are timed by `timeit.Timer` of the standard library.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import math
import subprocess
import sys
import time
import timeit
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import pyperf
except ModuleNotFoundError:
    sys.exit("The benchmarks need pyperf: pip install -e '.[bench]'")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

ROOT = Path(__file__).parents[1]
MODULES = {"nd": "nbdlpack", "np": "numpy", "torch": "torch", "tvm_ffi": "tvm_ffi"}
"""Modules that statements may use: by which name, and what they are."""
VERSIONS = {"nbdlpack": "nbdlpack", "numpy": "numpy", "torch": "torch", "tvm_ffi": "apache-tvm-ffi"}
"""Distributions whose versions are kept with the results."""
SIDES = ("ours", "peer")
PATIENCE, ENOUGH = 0.5, 3
"""After so many seconds a round of a row ends early, but not before so many repeats: for what takes long by itself."""


class Row(NamedTuple):
    """One thing that is measured."""

    name: str
    """What, for the table; no other row of the subject has this name."""
    ours: str
    """The statement that is measured."""
    peer: str | None = None
    """The statement that it is compared with, or None if the time itself is what matters."""
    target: float | None = None
    """What the ratio, or the time in seconds if there is no peer, should not exceed; None if that is left open."""
    setup: str = "pass"
    """What is run before each timing of either statement, untimed."""
    words: Mapping[str, object] = {}
    """Values of words, for this row alone."""
    number: int | None = None
    """How often a statement is run in one timing; None finds a number by trying."""
    inner: int = 1
    """How often the statement itself does what is measured."""
    clock: Callable[[], float] = time.perf_counter
    """What is read before and after, in seconds."""
    curve: tuple[str, int] | None = None
    """In a plot: the name of the curve of `ours`, and the size in bytes."""


class Settings(NamedTuple):
    """How long to measure."""

    processes: int = 7
    rounds: int = 3
    """How often a process goes through the rows ..."""
    repeats: int = 60
    """... and times each, in a round."""
    seconds: float = 0.001
    """How long one timing should take.  It is less than what the system gives a process at a time, so that some timings
    are not interrupted even if the machine is busy."""
    largest: int = 1 << 30
    """The size of the largest array, in bytes; three times as much memory is needed."""


QUICK = Settings(processes=3, rounds=2, repeats=30, largest=1 << 28)


class Result(NamedTuple):
    """What came out for a row."""

    row: Row
    ours: float = math.nan
    """Seconds: the minimum in a process, the median of those over the processes."""
    peer: float = math.nan
    ratios: tuple[float, ...] = ()
    """By process, or times if there is no peer."""
    missing: tuple[str, ...] = ()
    """Libraries that are not installed; then nothing was measured."""

    @property
    def ratio(self) -> float:
        """What is compared with the target."""
        return median(self.ratios) if self.ratios else math.nan

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none, or nothing was measured."""
        return None if self.row.target is None or not self.ratios else self.ratio <= self.row.target


# ---- subjects and words --------------------------------------------------------------------------------------------


def subjects() -> list[str]:
    """Return the names of all subjects."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def subject(name: str) -> ModuleType:
    """Import a subject."""
    return importlib.import_module(f"benchmarks.bench_{name}")


def used(source: str) -> set[str]:
    """Return the names that some source uses."""
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def closure(module: ModuleType, row: Row) -> list[str]:
    """Return the words that a row uses, each after those that it is made of."""
    order: list[str] = []

    def visit(names: Iterable[str]) -> None:
        for name in sorted(names):
            if name not in order:
                visit(used(module.WORDS[name]) if name in module.WORDS and name not in row.words else ())
                order.append(name)

    visit(used("\n".join((row.setup, row.ours, row.peer or ""))))
    return order


def missing(module: ModuleType, row: Row) -> tuple[str, ...]:
    """Return the libraries that a row needs and that are not installed."""
    names = [MODULES[word] for word in closure(module, row) if word in MODULES]
    return tuple(name for name in names if importlib.util.find_spec(name) is None)


def vocabulary(module: ModuleType, row: Row) -> dict[str, Any]:
    """Return what a row's statements see."""
    names: dict[str, Any] = {}
    for word in closure(module, row):
        if word in row.words:
            names[word] = row.words[word]
        elif word in module.WORDS:
            names[word] = eval(module.WORDS[word], names)
        elif word in MODULES:
            names[word] = importlib.import_module(MODULES[word])
        elif hasattr(module, word):
            names[word] = getattr(module, word)
    return names


# ---- in a process that measures ------------------------------------------------------------------------------------


def calibrate(timer: timeit.Timer, seconds: float) -> int:
    """Return how often a statement is to be run for a timing to take so long."""
    timer.timeit(1)  # what the first time makes ready is not the statement's own
    number, spent = 1, timer.timeit(1)
    while spent < seconds / 10:
        number *= 10
        spent = timer.timeit(number)
    return max(number, math.ceil(number * seconds / spent))


def measure(name: str, settings: Settings) -> pyperf.BenchmarkSuite | None:
    """Time the rows of a subject, in this process, and return the times; None if no row could be measured.

    A round makes the arrays of a row, times it, and drops them: so memory is needed for one row at a time, and a row's
    times are spread over the whole time of the process, of which some part is usually quiet.
    """
    module = subject(name)
    rows = [row for row in module.rows(settings.largest) if not missing(module, row)]
    numbers: dict[tuple[str, str], int] = {}
    times: dict[tuple[str, str], list[float]] = {(row.name, side): [] for row in rows for side in SIDES}
    for _ in range(settings.rounds):
        for row in rows:
            names = vocabulary(module, row)
            timers = {
                side: timeit.Timer(statement, row.setup, row.clock, names)
                for side, statement in zip(SIDES, (row.ours, row.peer), strict=True)
                if statement is not None
            }
            for side, timer in timers.items():
                if (row.name, side) not in numbers:
                    numbers[row.name, side] = row.number or calibrate(timer, settings.seconds)
            began = time.perf_counter()
            for repeat in range(settings.repeats):
                if repeat >= ENOUGH and time.perf_counter() - began > PATIENCE:
                    break
                for side, timer in timers.items():
                    number = numbers[row.name, side]
                    times[row.name, side].append(timer.timeit(number) / (number * row.inner))
    versions = {f"{module}_version": found for module in VERSIONS if (found := version(module))}
    benchmarks = []
    for row in rows:
        for side in SIDES:
            if times[row.name, side]:
                facts: dict[str, Any] = {"name": f"{name}: {row.name} [{side}]", "unit": "second", **versions}
                facts |= {"loops": numbers[row.name, side], "inner_loops": row.inner}
                if row.clock is not time.perf_counter:
                    facts["timer"] = row.clock.__name__
                benchmarks.append(pyperf.Benchmark([pyperf.Run(times[row.name, side], metadata=facts)]))
    return pyperf.BenchmarkSuite(benchmarks) if benchmarks else None


def version(module: str) -> str | None:
    """Return the version of a library, None if it is not there."""
    if module == "nbdlpack":  # from the code that is measured, installed or not
        return str(importlib.import_module(module).__version__)
    try:
        return importlib.metadata.version(VERSIONS[module])
    except importlib.metadata.PackageNotFoundError:
        return None


# ---- in the process that asks --------------------------------------------------------------------------------------


def run(
    names: Iterable[str], settings: Settings, tell: Callable[[str], None]
) -> tuple[pyperf.BenchmarkSuite | None, dict[str, list[Result]]]:
    """Measure subjects in processes of their own; return all times, and the results by subject."""
    names = list(names)
    suite: pyperf.BenchmarkSuite | None = None
    for i in range(settings.processes):
        for name in names:
            tell(f"{name}, process {i + 1} of {settings.processes}")
            options = [f"--{option}={value}" for option, value in settings._asdict().items()]
            command = [sys.executable, "-m", "benchmarks.worker", name, *options]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                msg = f"a process that measured {name!r} ended with exit status {done.returncode}: see above"
                raise RuntimeError(msg)
            if done.stdout:
                found = pyperf.BenchmarkSuite.loads(done.stdout)
                if suite is None:
                    suite = found
                else:
                    suite.add_runs(found)
    return suite, {name: results(name, settings, suite) for name in names}


def results(name: str, settings: Settings, suite: pyperf.BenchmarkSuite | None) -> list[Result]:
    """Compare the times of a subject's rows, and note in the suite what came out."""
    module = subject(name)
    benchmarks = {benchmark.get_name(): benchmark for benchmark in suite or ()}
    found = []
    for row in module.rows(settings.largest):
        both = [benchmarks.get(f"{name}: {row.name} [{side}]") for side in SIDES]
        ours, peer = ([min(run.values) for run in benchmark.get_runs()] if benchmark else [] for benchmark in both)
        if both[0] is None:
            found.append(Result(row, missing=missing(module, row)))
            continue
        if both[1] is None:
            result = Result(row, median(ours), ratios=tuple(ours))
        else:
            ratios = tuple(one / other for one, other in zip(ours, peer, strict=True))
            result = Result(row, median(ours), median(peer), ratios)
            both[0].update_metadata({"ratio": result.ratio})
        if row.target is not None:
            both[0].update_metadata({"target": row.target, "target_met": "yes" if result.met else "no"})
        found.append(result)
    return found
