"""What a report says, whichever way it is written: libraries, a matrix or several, and what was found, in words."""

from __future__ import annotations

import datetime as dt
import platform
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from nbdlpack.conformance.adapters import ADAPTERS
from nbdlpack.conformance.header import VERSION
from nbdlpack.conformance.pairs import DTYPES, LAYOUTS
from nbdlpack.conformance.registry import Family, Severity
from nbdlpack.conformance.results import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbdlpack.conformance.results import Report, Result

__all__ = ["Cell", "Document", "Finding", "Group", "Library", "Row", "Table", "about", "document"]

FAMILIES = {
    Family.PRODUCER: "Producer: what arrays export",
    Family.CONSUMER: "Consumer: what is made of what others export",
    Family.EXCHANGE_API: "C exchange API",
    Family.LIFETIME: "Lifetime",
    Family.COPY_ON_WRITE: "Read-only and copy-on-write",
}
WORDS = {
    Outcome.PASS: "pass",
    Outcome.FAIL: "FAIL",
    Outcome.REFUSED: "refused",
    Outcome.CRASH: "CRASH",
    Outcome.NOT_APPLICABLE: "-",
}
"""What is written into a matrix: what is bad stands out without colours."""
WORST_FIRST = (Outcome.CRASH, Outcome.FAIL, Outcome.PASS, Outcome.REFUSED, Outcome.NOT_APPLICABLE)


class Library(NamedTuple):
    """What was checked."""

    name: str
    version: str
    counts: dict[Outcome, int]
    """How often there was which outcome."""
    error: str
    """Why it could not be imported, if so."""


class Cell(NamedTuple):
    """A place in a matrix."""

    text: str = ""
    outcome: Outcome | None = None
    """None if nothing was checked."""
    reason: str = ""
    names: tuple[str, ...] = ()
    """The libraries that it is about."""
    id: str = ""
    """Of the check, or of the trip of a pair."""


class Row(NamedTuple):
    """A line of a matrix."""

    head: str
    cells: list[Cell]
    text: str = ""
    """What the head stands for."""
    names: tuple[str, ...] = ()
    """The library that the line is about, if it is about one."""


class Group(NamedTuple):
    """Lines of a matrix that belong together."""

    title: str
    rows: list[Row]


class Table(NamedTuple):
    """A matrix."""

    title: str
    corner: str
    """What the heads of the lines are."""
    columns: list[tuple[str, tuple[str, ...]]]
    """The heads of the columns, and the libraries that each is about."""
    groups: list[Group]
    names: tuple[str, ...] = ()
    """The libraries that it is about, if it is about a pair."""


class Finding(NamedTuple):
    """What a check found out, or what several round trips did."""

    ids: list[str]
    title: str
    """Of what it was found out, in words."""
    statement: str
    """What is due; nothing for round trips, where it is always the same."""
    outcome: Outcome
    reason: str
    severity: str
    source: str
    output: str


class Document(NamedTuple):
    """A report of several libraries."""

    title: str
    about: dict[str, str]
    libraries: list[Library]
    tables: list[Table]
    findings: list[tuple[Report, list[Finding]]]
    """For each library or pair what did not pass; what its maintainers should mend comes first."""


def about() -> dict[str, str]:
    """Return with what, where and when something was found out."""
    return {
        "nbdlpack": ADAPTERS["nbdlpack"]().version(),
        "DLPack": ".".join(map(str, VERSION)),
        "Python": platform.python_version(),
        "platform": platform.platform(),
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def document(reports: Sequence[Report], facts: dict[str, str] | None = None) -> Document:
    """Return a report of libraries, or of pairs of them.

    Parameters
    ----------
    reports : sequence of Report
        All of libraries, or all of pairs.
    facts : dict, optional
        What `about` returns, unless this is not the machine or the time.
    """
    pairs = any(len(report.names) > 1 for report in reports)
    title = "DLPack round trips" if pairs else "DLPack conformance"
    tables = (
        [overview(reports), *(trips(report) for report in reports if report.results)] if pairs else [matrix(reports)]
    )
    libraries = [
        Library(report.name, ", ".join(filter(None, report.versions)), counts(report), report.error)
        for report in reports
    ]
    return Document(
        title,
        about() if facts is None else facts,
        libraries,
        tables,
        [(report, findings(report)) for report in reports],
    )


def counts(report: Report) -> dict[Outcome, int]:
    """Return how often there was which outcome, all of them named."""
    found = Counter(result.outcome for result in report.results)
    return {outcome: found[outcome] for outcome in Outcome}


def cell(result: Result, names: tuple[str, ...]) -> Cell:
    """Return a result's place in a matrix.  A round trip that passed says how memory is shared."""
    told = result.reason.partition(",")[0] if len(names) > 1 and result.outcome is Outcome.PASS else ""
    return Cell(told or WORDS[result.outcome], result.outcome, result.reason, names, result.check.id)


def matrix(reports: Sequence[Report]) -> Table:
    """Return the matrix of checks and libraries."""
    found = {
        (report.name, result.check.id): cell(result, report.names) for report in reports for result in report.results
    }
    checks = {result.check.id: result.check for report in reports for result in report.results}
    groups = [
        Group(
            title,
            [
                Row(check.id, [found.get((report.name, check.id), Cell()) for report in reports], check.statement)
                for check in checks.values()
                if check.family is family
            ],
        )
        for family, title in FAMILIES.items()
    ]
    columns = [(report.name, report.names) for report in reports]
    return Table("", "check", columns, [group for group in groups if group.rows])


def overview(reports: Sequence[Report]) -> Table:
    """Return the matrix of producers and consumers: how often there was the worst outcome."""
    found = {}
    for report in reports:
        outcome = next((outcome for outcome in WORST_FIRST if counts(report)[outcome]), None)
        if report.error:
            found[report.names] = Cell("no import", None, report.error, report.names)
        elif outcome is not None:
            found[report.names] = Cell(f"{counts(report)[outcome]} {WORDS[outcome]}", outcome, "", report.names)
    producers, consumers = (list(dict.fromkeys(report.names[side] for report in reports)) for side in (0, 1))
    rows = [Row(one, [found.get((one, other), Cell()) for other in consumers], names=(one,)) for one in producers]
    return Table("From, to", "from", [(name, (name,)) for name in consumers], [Group("", rows)])


def trips(report: Report) -> Table:
    """Return the matrix of dtypes and layouts of a pair."""
    found = {result.check.id: cell(result, report.names) for result in report.results}
    dtypes, layouts = (
        [name for name in known if any(name in id.split("/") for id in found)] for known in (DTYPES, LAYOUTS)
    )
    rows = [Row(dtype, [found.get(f"{dtype}/{layout}", Cell()) for layout in layouts]) for dtype in dtypes]
    return Table(report.name, "dtype", [(layout, ()) for layout in layouts], [Group("", rows)], report.names)


def findings(report: Report) -> list[Finding]:
    """Return what did not pass.  Round trips for which the same was found are put together."""
    pair = len(report.names) > 1
    found: dict[object, list[Result]] = {}
    severities = list(Severity)

    def rank(result: Result) -> tuple[int, int]:
        return WORST_FIRST.index(result.outcome), severities.index(result.check.severity)

    for result in sorted(report.results, key=rank):
        if result.outcome is not Outcome.PASS:
            found.setdefault((result.outcome, result.reason) if pair else result.check.id, []).append(result)
    return [
        Finding(
            ids=[result.check.id for result in alike],
            title=trips_in_words([result.check.id for result in alike]) if pair else first.check.id,
            statement="" if pair else first.check.statement,
            outcome=first.outcome,
            reason=first.reason,
            severity=first.check.severity.value,
            source="" if pair else first.check.source,
            output=first.output,
        )
        for first, *rest in found.values()
        for alike in [[first, *rest]]
    ]


def trips_in_words(ids: Sequence[str]) -> str:
    """Return what round trips have in common: "int8, int16: negative; bool: all layouts"."""
    layouts: dict[str, list[str]] = {}
    for id in ids:
        dtype, _, layout = id.partition("/")
        layouts.setdefault(dtype, []).append(layout)
    dtypes: dict[str, list[str]] = {}
    for dtype, its in layouts.items():
        dtypes.setdefault("all layouts" if len(its) == len(LAYOUTS) else ", ".join(its), []).append(dtype)
    return "; ".join(f"{', '.join(some)}: {what}" for what, some in dtypes.items())
