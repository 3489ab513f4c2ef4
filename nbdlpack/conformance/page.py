"""Write a report as one page of HTML that needs nothing else: no other file, no network, and no script to be read.

The heads of the matrices stay in sight, each result has its reason as a tooltip and in a list below, and with scripts
one can look at some libraries or outcomes alone.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from nbdlpack.conformance.results import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbdlpack.conformance.documents import Cell, Document, Finding, Table
    from nbdlpack.conformance.results import Report

__all__ = ["html"]

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --faint: #6a6f76; --line: #d9dce0; --band: #f3f4f6;
  --pass: #e0f2e4; --on-pass: #14612b; --fail: #fbdcdc; --on-fail: #9c1414; --crash: #a31515; --on-crash: #fff;
  --refused: #fdf0cf; --on-refused: #735100; --link: #0b57b0 }
@media (prefers-color-scheme: dark) { :root { --paper: #15171a; --ink: #e3e5e8; --faint: #969ca4; --line: #363a40;
  --band: #212429; --pass: #163823; --on-pass: #90dba6; --fail: #4d1d1d; --on-fail: #ffb1b1; --crash: #d93a3a;
  --on-crash: #fff; --refused: #41340f; --on-refused: #f0d27d; --link: #83b9ff } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem; max-width: max-content; min-width: min(100%, 60rem); background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif }
h1 { margin: 0 0 .3rem; font-size: 1.6rem } h2 { margin: 2rem 0 .5rem; font-size: 1.15rem }
a { color: inherit } .about { color: var(--faint); margin: 0 0 1rem }
table { border-collapse: separate; border-spacing: 0; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
thead th { position: sticky; top: 0; z-index: 2; background: var(--band); white-space: nowrap }
tbody th { position: sticky; left: 0; z-index: 1; background: var(--paper); white-space: nowrap }
tbody .group th { position: static; background: var(--band); padding-top: .6rem }
td.what { max-width: 40rem } .number { text-align: right } td[data-outcome] { text-align: center; white-space: nowrap }
.pass { background: var(--pass); color: var(--on-pass) }
.refused { background: var(--refused); color: var(--on-refused) }
.fail { background: var(--fail); color: var(--on-fail); font-weight: 600 }
.crash { background: var(--crash); color: var(--on-crash); font-weight: 600 } .not-applicable { color: var(--faint) }
td a { text-decoration: none } td a:hover { text-decoration: underline }
fieldset { display: inline; border: 1px solid var(--line); border-radius: 6px; margin: 0 .5rem .5rem 0 }
fieldset label { white-space: nowrap; margin-right: .8rem }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; max-width: 75rem }
summary { cursor: pointer; font-weight: 600 } summary span { font-weight: 400; color: var(--faint) }
li { margin: .6rem 0; overflow-wrap: anywhere } li:target { outline: 2px solid var(--link); outline-offset: 4px }
li b { padding: .1rem .4rem; border-radius: 4px } li small { color: var(--faint); display: block }
pre { background: var(--band); padding: .5rem; overflow-x: auto; font-size: 12.5px }
[hidden] { display: none !important }
"""

SCRIPT = """
const all = (what, where) => [...(where || document).querySelectorAll(what)];
const chosen = name => new Set(all(`#filter input[name=${name}]:checked`).map(box => box.value));
function show() {
  const libraries = chosen('library'), outcomes = chosen('outcome');
  for (const x of all('[data-of]')) x.hidden = !x.dataset.of.split(' ').every(n => libraries.has(n));
  const wanted = x => !x.hidden && (!x.dataset.outcome || outcomes.has(x.dataset.outcome));
  for (const x of all('li[data-outcome]')) x.hidden = !wanted(x);
  for (const x of all('tr.row')) x.hidden = x.hidden || !all('td[data-outcome]', x).some(wanted);
  for (const x of all('tbody.rows')) x.hidden = all('tr.row', x).every(row => row.hidden);
  for (const x of all('section.table')) x.hidden = x.hidden || all('tbody.rows', x).every(group => group.hidden);
  for (const x of all('details.library')) x.hidden = x.hidden || all('li', x).every(item => item.hidden);
}
function reveal() {
  const x = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (x && x.closest('details.library')) { x.closest('details.library').open = true; x.scrollIntoView(); }
}
document.getElementById('filter').hidden = false;
document.getElementById('filter').addEventListener('change', () => {
  for (const x of all('tr.row, tbody.rows, section.table, details.library')) x.hidden = false;
  show();
});
addEventListener('hashchange', reveal);
show();
reveal();
"""


def html(found: Document) -> str:
    """Return a report as a page of HTML."""
    names = list(dict.fromkeys(name for report, _ in found.findings for name in report.names))
    return "\n".join(_page(found, {name: str(number) for number, name in enumerate(names)})) + "\n"


def _page(found: Document, numbers: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the page; libraries are numbered, for what looks at some of them alone."""
    about = " · ".join(f"{escape(name)} {escape(value)}" for name, value in found.about.items())
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(found.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f'<h1>{escape(found.title)}</h1>\n<p class="about">{about}</p>'
    yield from _libraries(found)
    yield from _filter(numbers)
    for table in found.tables:
        yield from _table(table, numbers)
    yield "<h2>Reasons</h2>"
    for report, findings in found.findings:
        yield from _reasons(report, findings, numbers)
    yield f"<script>{SCRIPT}</script>\n</body>\n</html>"


def _libraries(found: Document) -> Iterator[str]:
    """Yield the table of what was checked."""
    yield "<table>\n<thead><tr><th>library</th><th>version</th>"
    yield "".join(f'<th class="number">{outcome.value}</th>' for outcome in Outcome) + "</tr></thead>\n<tbody>"
    for library in found.libraries:
        told = f'<td class="what" colspan="{len(Outcome)}">cannot be imported: {escape(library.error)}</td>'
        numbers = "".join(f'<td class="number">{n or ""}</td>' for n in library.counts.values())
        head = f"<tr><th>{escape(library.name)}</th><td>{escape(library.version)}</td>"
        yield f"{head}{told if library.error else numbers}</tr>"
    yield "</tbody>\n</table>"


def _filter(numbers: dict[str, str]) -> Iterator[str]:
    """Yield the boxes by which one looks at some libraries and outcomes alone; a script shows them."""

    def box(name: str, value: str, words: str) -> str:
        return f'<label><input type="checkbox" name="{name}" value="{value}" checked> {escape(words)}</label>'

    yield '<form id="filter" hidden autocomplete="off"><fieldset><legend>libraries</legend>'
    yield from (box("library", number, name) for name, number in numbers.items())
    yield "</fieldset><fieldset><legend>outcomes</legend>"
    yield from (box("outcome", outcome.value, outcome.value) for outcome in Outcome)
    yield "</fieldset></form>"


def _table(table: Table, numbers: dict[str, str]) -> Iterator[str]:
    """Yield a matrix."""
    told = any(row.text for group in table.groups for row in group.rows)
    yield f'<section class="table"{_of(table.names, numbers)}>'
    if table.title:
        yield f"<h2>{escape(table.title)}</h2>"
    heads = [f"<th{_of(names, numbers)}>{escape(name)}</th>" for name, names in table.columns]
    heads = [f"<th>{escape(table.corner)}</th>", *(["<th></th>"] if told else []), *heads]
    yield f"<table>\n<thead><tr>{''.join(heads)}</tr></thead>"
    for group in table.groups:
        yield '<tbody class="rows">'
        if group.title:
            width = 1 + told + len(table.columns)
            yield f'<tr class="group"><th colspan="{width}">{escape(group.title)}</th></tr>'
        for row in group.rows:
            what = f'<td class="what">{escape(row.text)}</td>' if told else ""
            cells = "".join(_cell(cell, numbers) for cell in row.cells)
            yield f'<tr class="row"{_of(row.names, numbers)}><th>{escape(row.head)}</th>{what}{cells}</tr>'
        yield "</tbody>"
    yield "</table>\n</section>"


def _cell(cell: Cell, numbers: dict[str, str]) -> str:
    """Return a place in a matrix, with its reason as a tooltip, and a link to where that can be read."""
    of, words, outcome = _of(cell.names, numbers), escape(cell.text), cell.outcome
    if outcome is None:
        return (
            f'<td{of} data-outcome="" title="{escape(cell.reason)}">{words}</td>' if cell.reason else f"<td{of}></td>"
        )
    if cell.id and outcome is not Outcome.PASS:
        words = f'<a href="#{_anchor(cell.names, cell.id)}">{words}</a>'
    title = f' title="{escape(cell.reason)}"' if cell.reason else ""
    return f'<td{of} class="{_class(outcome)}" data-outcome="{outcome.value}"{title}>{words}</td>'


def _reasons(report: Report, findings: list[Finding], numbers: dict[str, str]) -> Iterator[str]:
    """Yield the list of what did not pass; it is open if there is something to mend."""
    if not findings:
        return
    bad = sum(len(finding.ids) for finding in findings if finding.outcome.bad)
    what = f"{bad} to mend" if bad else "nothing to mend"
    yield f'<details class="library"{_of(report.names, numbers)}{" open" if bad else ""}>'
    yield f"<summary>{escape(report.name)} <span>{escape(', '.join(report.versions))}: {what}</span></summary>\n<ul>"
    for finding in findings:
        outcome = finding.outcome
        first, *others = (_anchor(report.names, id) for id in finding.ids)
        yield f'<li id="{first}"{_of(report.names, numbers)} data-outcome="{outcome.value}">'
        yield "".join(f'<span id="{other}"></span>' for other in others)  # links lead here from each of them
        yield f'{escape(finding.title)} <b class="{_class(outcome)}">{outcome.value}</b>'
        yield f"{f' ({escape(finding.severity)})' if outcome.bad else ''}: {escape(finding.reason)}"
        if finding.statement:
            yield f"<small>{escape(finding.statement)} · {escape(finding.source)}</small>"
        if finding.output and finding.output.strip() not in finding.reason:
            yield f"<details><summary>what was printed</summary><pre>{escape(finding.output)}</pre></details>"
        yield "</li>"
    yield "</ul>\n</details>"


def _of(names: Any, numbers: dict[str, str]) -> str:
    """Return the attribute that says which libraries something is about."""
    return f' data-of="{" ".join(numbers[name] for name in names)}"' if names else ""


def _class(outcome: Outcome) -> str:
    return outcome.value.replace(" ", "-")


def _anchor(names: tuple[str, ...], id: str) -> str:
    """Return the name of the place in the page where the reason of a result is."""
    return escape("-".join([*names, id]).replace(" ", "_"))
