"""Write down what checks found out: as text for a terminal, as Markdown, as JSON, or as a page of HTML.

Each has the matrix of checks and libraries, and then for each library what failed, with the reason in words, how bad it
is, and the clause or report that it comes from.  Of round trips, each has who can exchange with whom, and the matrix of
dtypes and layouts for each pair.

::

    from nbdlpack.conformance import reports

    print(reports.FORMATS["markdown"](reports.document(found)))

JSON is for programs, and has all that there is::

    {"about": {"nbdlpack": "0.1.0", "DLPack": "1.3", "Python": ..., "platform": ..., "date": ...},
     "reports": [{"names": ["torch"], "versions": ["2.13.0"], "error": "",
                  "results": [{"id": "P01", "statement": ..., "source": ..., "severity": "wrong",
                               "outcome": "fail", "reason": ..., "output": ...}, ...]}, ...]}

`names` has two libraries for a round trip, who exports and who imports.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

from nbdlpack.conformance.documents import document
from nbdlpack.conformance.page import html
from nbdlpack.conformance.registry import CHECKS
from nbdlpack.conformance.results import Outcome, Report, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbdlpack.conformance.documents import Document, Finding, Library, Table

__all__ = ["FORMATS", "document", "html", "json_", "markdown", "read", "text"]

COLOURS: Final = {
    Outcome.PASS: "32",
    Outcome.FAIL: "31",
    Outcome.REFUSED: "33",
    Outcome.CRASH: "1;31",
    Outcome.NOT_APPLICABLE: "2",
}
"""How a terminal is told the colour of an outcome."""


# -- text


def text(found: Document, *, width: int | None = None, colour: bool = False) -> str:
    """Return a report as text.

    Parameters
    ----------
    found : Document
        What there is to say.
    width : int, optional
        The number of columns of the terminal: lines of matrices are cut off there.
    colour : bool
        Whether to colour the outcomes, as terminals do it.
    """
    lines = [f"{found.title}: " + ", ".join(f"{name} {value}" for name, value in found.about.items())]
    for table in found.tables:
        lines += ["", *_text_of_table(table, width, colour=colour)]
    lines += ["", *_text_of_libraries(found.libraries)]
    for report, findings in found.findings:
        bad = [finding for finding in findings if finding.outcome.bad]
        if report.error:
            lines += ["", f"{report.name} cannot be imported", *_wrapped(report.error, "  ", width)]
        elif bad:
            lines += ["", " ".join([report.name, *(report.versions if len(report.names) == 1 else ())])]
            for finding in bad:
                lines += _text_of_finding(finding, width, colour=colour)
    return "\n".join(lines) + "\n"


def _text_of_table(table: Table, width: int | None, *, colour: bool) -> Iterator[str]:
    """Yield the lines of a matrix: the heads, what was found, and what the heads stand for."""
    rows = [row for group in table.groups for row in group.rows]
    head = max(len(name) for name in [table.corner, *(row.head for row in rows)])
    cells = list(zip(*(row.cells for row in rows), strict=True))
    widths = [
        max([len(name), *(len(cell.text) for cell in column)])
        for (name, _), column in zip(table.columns, cells or [()] * len(table.columns), strict=True)
    ]

    def line(first: str, texts: Iterable[tuple[str, Outcome | None]], last: str = "") -> str:
        aligned = [
            _coloured(words, outcome, colour) + " " * (n - len(words))
            for (words, outcome), n in zip(texts, widths, strict=True)
        ]
        room = None if width is None else max(0, width - head - sum(widths) - 2 * len(widths) - 2)
        cut = last if room is None or len(last) <= room else f"{last[: room - 1]}…" if room else ""
        return "  ".join([first.ljust(head), *aligned, cut]).rstrip()

    if table.title:
        yield table.title
    yield line(table.corner, [(name, None) for name, _ in table.columns])
    for group in table.groups:
        if group.title:
            yield f"\n{group.title}"
        for row in group.rows:
            yield line(row.head, [(cell.text, cell.outcome) for cell in row.cells], row.text)


def _text_of_libraries(libraries: list[Library]) -> Iterator[str]:
    """Yield lines that say how often each library had which outcome."""
    name, version = (max(len(library[i]) for library in libraries) if libraries else 0 for i in (0, 1))
    yield f"{'':{name}}  {'':{version}}" + "".join(f"  {outcome.value}" for outcome in Outcome)
    for library in libraries:
        numbers = "".join(f"  {n or '':>{len(outcome.value)}}" for outcome, n in library.counts.items())
        yield f"{library.name:{name}}  {library.version:{version}}" + (
            f"  {library.error}" if library.error else numbers.rstrip()
        )


def _text_of_finding(finding: Finding, width: int | None, *, colour: bool) -> Iterator[str]:
    """Yield what a check found: the reason first, since that is what there is to mend."""
    word = _coloured(finding.outcome.value, finding.outcome, colour)
    yield from _wrapped(finding.title, "  ", width)
    yield f"      {word}, {finding.severity}"
    yield from _wrapped(finding.reason, "      ", width)
    if finding.statement:
        yield from _wrapped(f"due: {finding.statement} [{finding.source}]", "      ", width)


def _wrapped(words: str, indent: str, width: int | None) -> list[str]:
    """Return words in lines of a width, or of 120 columns."""
    return textwrap.wrap(words, max(width or 120, 40), initial_indent=indent, subsequent_indent=indent)


def _coloured(words: str, outcome: Outcome | None, colour: bool) -> str:  # noqa: FBT001
    return f"\x1b[{COLOURS[outcome]}m{words}\x1b[0m" if colour and outcome else words


# -- Markdown


def markdown(found: Document) -> str:
    """Return a report as Markdown, with tables as GitHub knows them."""
    lines = [f"# {found.title}", "", " · ".join(f"{name} {value}" for name, value in found.about.items())]
    heads = ["library", "version", *(outcome.value for outcome in Outcome)]
    rows = [[library.name, library.version, *library.counts.values()] for library in found.libraries]
    lines += ["", *_markdown_of_table(heads, rows)]
    for table in found.tables:
        if table.title:
            lines += ["", f"## {table.title}"]
        for group in table.groups:
            if group.title:
                lines += ["", f"## {group.title}"]
            told = any(row.text for row in group.rows)
            heads = [table.corner, *([""] if told else []), *(name for name, _ in table.columns)]
            rows = [[row.head, *([row.text] if told else []), *(cell.text for cell in row.cells)] for row in group.rows]
            lines += ["", *_markdown_of_table(heads, rows)]
    for report, findings in found.findings:
        bad = [finding for finding in findings if finding.outcome.bad]
        if bad or report.error:
            lines += ["", f"## What {report.name} does wrong" if bad else f"## {report.name} cannot be imported", ""]
        if report.error:
            lines += [_escaped(report.error)]
        for finding in bad:
            what = f"- **{_escaped(finding.title)}**, {finding.outcome.value} ({finding.severity}): "
            due = f" Due: {_escaped(finding.statement)} ({_escaped(finding.source)})." if finding.statement else ""
            lines += [what + _escaped(finding.reason).rstrip(".") + "." + due]
    return "\n".join(lines) + "\n"


def _markdown_of_table(heads: list[str], rows: list[list[Any]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield "| " + " | ".join(map(_escaped, heads)) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(map(_escaped, row)) + " |"


def _escaped(words: Any) -> str:
    """Return words so that Markdown shows them as they are."""
    return re.sub(r"([\\`*_|<\[])", r"\\\1", str(words))


# -- JSON


def json_(found: Document) -> str:
    """Return all that there is as JSON."""
    reports = [
        {
            "names": report.names,
            "versions": report.versions,
            "error": report.error,
            "results": [
                {
                    "id": result.check.id,
                    "statement": result.check.statement,
                    "source": result.check.source,
                    "severity": result.check.severity.value,
                    "outcome": result.outcome.value,
                    "reason": result.reason,
                    "output": result.output,
                }
                for result in report.results
            ],
        }
        for report, _ in found.findings
    ]
    return json.dumps({"about": found.about, "reports": reports}, indent=1, ensure_ascii=False) + "\n"


def read(text: str) -> list[Report]:
    """Return the reports that a document in JSON has.

    Raises
    ------
    ValueError
        If it is no such document, or has pairs or checks that there are no more.
    """
    try:
        return [
            Report(
                tuple(report["names"]),
                tuple(report["versions"]),
                tuple(
                    [
                        Result(CHECKS[result["id"]], Outcome(result["outcome"]), result["reason"], result["output"])
                        for result in report["results"]
                    ]
                ),
                report["error"],
            )
            for report in json.loads(text)["reports"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        msg = (
            f"it is no report of checks in JSON, as this version of the kit writes it: {type(error).__name__}: {error}"
        )
        raise ValueError(msg) from error


FORMATS: Final[dict[str, Callable[[Document], str]]] = {
    "text": text,
    "markdown": markdown,
    "json": json_,
    "html": html,
}
"""How a report can be written, by name."""
