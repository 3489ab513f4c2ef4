"""Reports: each format says all that there is to say, in a form that its readers can read."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from nbdlpack.conformance import Severity
from nbdlpack.conformance.documents import about, document, trips_in_words
from nbdlpack.conformance.pairs import LAYOUTS, TRIPS
from nbdlpack.conformance.reports import FORMATS, html, json_, markdown, text
from nbdlpack.conformance.results import Outcome, Report, Result
from tests.conformance import toys

FACTS = {
    "nbdlpack": "1.2",
    "DLPack": "1.3",
    "Python": "3.14.0",
    "platform": "Linux <x86>",
    "date": "2027-01-02 03:04 UTC",
}
CHECKS = [
    toys.make(toys.passes, 1),
    toys.make(toys.fails, 2, severity=Severity.CORRUPTION),
    toys.make(toys.refuses, 3, "C"),
    toys.make(toys.aborts, 4, "L"),
    toys.make(toys.is_not_applicable, 5, "W", severity=Severity.STYLE),
]
REASONS = [
    "",
    "strides are NULL | `None`",
    "BufferError: <not> that",
    "SIGABRT: what(): no & never",
    "has no *lazy* copies",
]
OUTCOMES = [Outcome.PASS, Outcome.FAIL, Outcome.REFUSED, Outcome.CRASH, Outcome.NOT_APPLICABLE]
BAD = Report(
    ("bad",),
    ("2.0+cpu",),
    tuple(map(Result, CHECKS, OUTCOMES, REASONS, ["", "", "", "terminate called\nframe <0>", ""])),
)
GOOD = Report(("good-library",), ("1.0",), tuple(Result(check, Outcome.PASS) for check in CHECKS))
GONE = Report(("gone",), ("",), (), "ImportError: no libgone.so")
REPORTS = [BAD, GOOD, GONE]

TRIPPED = [TRIPS[dtype, layout] for dtype in ("int8", "float32") for layout in LAYOUTS]


def pair(names, outcome, reason=""):
    return Report(names, ("1.0", "2.0+cpu"), tuple(Result(check, outcome, reason) for check in TRIPPED))


PAIRS = [
    pair(("good", "good"), Outcome.PASS, "shared, read-only"),
    pair(("good", "bad"), Outcome.CRASH, "SIGABRT"),
    pair(("bad", "good"), Outcome.REFUSED, "BufferError: no"),
    Report(("bad", "bad"), ("", ""), (), "no libbad.so"),
]


@pytest.fixture(params=["checks", "pairs"])
def found(request):
    return document(REPORTS if request.param == "checks" else PAIRS, FACTS)


@pytest.fixture
def checks():
    return document(REPORTS, FACTS)


@pytest.fixture
def pairs():
    return document(PAIRS, FACTS)


# -- all


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_says_with_what_and_when(found, form):
    written = FORMATS[form](found).replace("&lt;", "<").replace("&gt;", ">").replace("\\<", "<")
    assert written.endswith("\n")
    assert all(value in written for value in FACTS.values())
    assert "2.0+cpu" in written


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_says_why(checks, form):
    written = FORMATS[form](checks)
    assert "what(): no" in written
    assert "ImportError: no libgone.so" in written
    assert "crash or corruption" in written
    assert "dlpack.h 1.3, DLTensor" in written


def test_what_is_said_of_this_machine():
    facts = about()
    assert list(facts) == list(FACTS)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", facts["date"])


def test_of_nothing_there_is_a_report():
    for write in FORMATS.values():
        assert "3.14.0" in write(document([], FACTS))


# -- text


def test_text_is_aligned(checks):
    lines = text(checks).splitlines()
    (head,) = [line for line in lines if line.startswith("check ")]
    assert head.split() == ["check", "bad", "good-library", "gone"]
    rows = [line for line in lines if re.match("[PCLW]9", line)]
    assert [row[head.index("bad") :].split()[0] for row in rows] == ["pass", "FAIL", "refused", "CRASH", "-"]
    assert {row[head.index("good-library") :].split()[0] for row in rows} == {"pass"}
    assert [row[head.index("gone") + 4 :].strip() for row in rows] == [check.statement for check in CHECKS]
    assert [line for line in lines if line in ("Lifetime", "C exchange API")] == ["Lifetime"]


def test_text_says_what_failed_the_worst_first(checks):
    _, _, below = text(checks).partition("\nbad 2.0+cpu\n")
    assert (
        below
        == """\
  L904
      crash, wrong
      SIGABRT: what(): no & never
      due: the array aborts [dlpack.h 1.3, DLTensor]
  P902
      fail, crash or corruption
      strides are NULL | `None`
      due: the array fails [dlpack.h 1.3, DLTensor]

gone cannot be imported
  ImportError: no libgone.so
"""
    )


def test_text_counts(checks):
    lines = text(checks).splitlines()
    head = next(i for i, line in enumerate(lines) if line.split() == "pass fail refused crash not applicable".split())
    assert lines[head + 1].split() == ["bad", "2.0+cpu", "1", "1", "1", "1", "1"]
    assert lines[head + 2].split() == ["good-library", "1.0", "5"]
    assert lines[head + 3].split() == "gone ImportError: no libgone.so".split()


def test_text_is_coloured_only_if_asked_for(found):
    assert "\x1b" not in text(found)
    coloured = text(found, colour=True)
    assert "\x1b[1;31mCRASH" in coloured or "\x1b[1;31m18 CRASH" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == text(found)


@pytest.mark.parametrize("width", [40, 50, 80])
def test_text_fits_the_terminal(checks, width):
    lines = text(checks, width=width).splitlines()
    matrix = [line for line in lines if re.match("[PCLW]9", line)]
    assert max(map(len, matrix)) <= width
    assert any(line.endswith("…") for line in matrix) == (width < 80)
    findings = lines[lines.index("bad 2.0+cpu") :]
    assert len(findings) >= 12
    assert max(map(len, findings)) <= width


# -- Markdown


def cells(line: str) -> list[str]:
    """Return the cells of a line of a table, as they are shown."""
    return [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_has_whole_tables(found):
    tables = re.findall(r"(?:^\|.*\n)+", markdown(found), re.MULTILINE)
    assert len(tables) >= 2
    for table in tables:
        head, rule, *rows = table.splitlines()
        assert set(rule) == {"|", "-"}
        assert {len(cells(line)) for line in (head, rule.replace("---", "x"), *rows)} == {len(cells(head))}


def test_markdown_has_the_matrix_and_the_reasons(checks):
    written = markdown(checks)
    assert cells("| P902 | the array fails | FAIL | pass |  |") in map(cells, written.splitlines())
    assert r"- **P902**, fail (crash or corruption): strides are NULL \| \`None\`. Due: the array fails (" in written
    assert "## What bad does wrong" in written
    assert "## gone cannot be imported" in written
    assert "good-library does" not in written


# -- JSON


def test_json_has_all_that_there_is(checks):
    read = json.loads(json_(checks))
    assert read["about"] == FACTS
    assert [report["names"] for report in read["reports"]] == [["bad"], ["good-library"], ["gone"]]
    assert read["reports"][2]["error"] == GONE.error
    results = read["reports"][0]["results"]
    assert [Outcome(result["outcome"]) for result in results] == OUTCOMES
    assert [result["reason"] for result in results] == REASONS
    assert results[3] == {
        "id": "L904",
        "statement": "the array aborts",
        "source": "dlpack.h 1.3, DLTensor",
        "severity": "wrong",
        "outcome": "crash",
        "reason": REASONS[3],
        "output": "terminate called\nframe <0>",
    }


# -- HTML


class Page(HTMLParser):
    """Reads a page, and finds out whether each element is closed where it must be."""

    VOID = frozenset({"meta", "input", "br"})

    def __init__(self, written: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.feed(written)
        self.close()

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((tuple(self.open), data))

    def all(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture
def page(found):
    return Page(html(found))


def test_html_is_well_formed(page):
    assert page.open == []
    assert all(name in dict(page.elements) for name in ("html", "head", "title", "style", "body", "script"))


def test_html_needs_nothing_else(page, found):
    assert not {"link", "img", "iframe", "object", "embed"} & {tag for tag, _ in page.elements}
    assert not [x for _, x in page.elements if "src" in x]
    assert all(x["href"].startswith("#") for x in page.all("a"))
    assert not re.search(r"url\(|@import|https?:|fetch\(", html(found))


def test_html_links_each_result_to_its_reason(page):
    ids = [x["id"] for _, x in page.elements if "id" in x]
    assert len(set(ids)) == len(ids)
    assert {x["href"][1:] for x in page.all("a")} <= set(ids)
    assert len(page.all("a")) > 3


def test_html_has_every_outcome_with_its_reason(checks):
    page = Page(html(checks))
    results = [x for x in page.all("td") if x.get("data-outcome")]
    bad = [x for x in results if x["data-of"] == "0"]
    assert [(x["data-outcome"], x.get("title", "")) for x in bad] == [
        (outcome.value, reason) for outcome, reason in zip(OUTCOMES, REASONS, strict=True)
    ]
    assert len(results) == 10
    listed = " ".join(words for where, words in page.texts if "li" in where)
    assert all(reason in listed for reason in REASONS)
    assert "frame <0>" in listed


def test_html_can_be_filtered(page, found):
    boxes = page.all("input")
    assert [x["value"] for x in boxes if x["name"] == "outcome"] == [outcome.value for outcome in Outcome]
    numbers = {x["value"] for x in boxes if x["name"] == "library"}
    assert len(numbers) == len({name for report, _ in found.findings for name in report.names})
    assert {n for _, x in page.elements for n in x.get("data-of", "").split()} == numbers
    assert {x["data-outcome"] for _, x in page.elements if x.get("data-outcome")} <= {x["value"] for x in boxes}
    (form,) = page.all("form")
    assert "hidden" in form, "without a script nothing can be filtered"


def test_html_is_legible_in_light_and_dark(found):
    written = html(found)
    assert "prefers-color-scheme: dark" in written
    used, defined = set(re.findall(r"var\((--[\w-]+)\)", written)), re.findall(r"(--[\w-]+):", written)
    assert used == set(defined)
    assert all(defined.count(name) == 2 for name in used), "each colour has a light and a dark value"
    assert "position: sticky; top: 0" in written


# -- pairs


def test_pairs_have_an_overview_and_a_matrix_each(pairs):
    overview, *each = pairs.tables
    assert [name for name, _ in overview.columns] == ["good", "bad"]
    assert [[cell.text for cell in row.cells] for row in overview.groups[0].rows] == [
        ["18 pass", "18 CRASH"],
        ["18 refused", "no import"],
    ]
    assert [table.title for table in each] == ["good → good", "good → bad", "bad → good"]
    assert [name for name, _ in each[0].columns] == list(LAYOUTS)
    assert [row.head for row in each[0].groups[0].rows] == ["int8", "float32"]
    assert {cell.text for row in each[0].groups[0].rows for cell in row.cells} == {"shared"}
    assert {cell.reason for row in each[0].groups[0].rows for cell in row.cells} == {"shared, read-only"}


def test_what_trips_found_alike_is_said_once(pairs):
    assert text(pairs).count("SIGABRT") == 1
    (finding,) = pairs.findings[1][1]
    assert len(finding.ids) == 18
    assert finding.title == "int8, float32: all layouts"


def test_trips_in_words():
    ids = ["int8/negative", "int16/negative", "bool/C order", "bool/0-d", *(f"uint8/{layout}" for layout in LAYOUTS)]
    assert trips_in_words(ids) == "int8, int16: negative; bool: C order, 0-d; uint8: all layouts"
