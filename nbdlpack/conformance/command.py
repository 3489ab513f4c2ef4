"""Check what libraries make of DLPack, as producers and as consumers.

    python -m nbdlpack conformance                          all libraries that are installed
    python -m nbdlpack conformance torch jax                these
    python -m nbdlpack conformance my_package.dlpack:Mine   one with an adapter of its own, which is in that module
    python -m nbdlpack conformance numpy torch --pairs      who can exchange what with whom, in which layout
    python -m nbdlpack conformance --only C,L07             the family of consumers, and one more check
    python -m nbdlpack conformance --require nbdlpack       that one, with exit status 1 if it fails or crashes,
                           --require torch --xfail P05,C18  but for these
    python -m nbdlpack conformance --format html -o matrix.html
    python -m nbdlpack conformance --also other.json        and what was found in another environment, see --format
    python -m nbdlpack conformance --list                   the checks, and the libraries that can be named

The exit status is 2 if a library or a check is named that there is not.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nbdlpack.conformance import adapters as libraries
from nbdlpack.conformance import documents, pairs, reports, running
from nbdlpack.conformance.registry import CHECKS
from nbdlpack.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from nbdlpack.conformance.adapters import Adapter
    from nbdlpack.conformance.documents import Document
    from nbdlpack.conformance.registry import Check
    from nbdlpack.conformance.results import Report

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.set_defaults(error=parser.error)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="library",
        help="what to check: one of --list, or package.module:Adapter; by default all that are installed",
    )
    parser.add_argument(
        "--format", choices=reports.FORMATS, default="text", help="how to report (default: %(default)s)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write the report")
    parser.add_argument(
        "--pairs",
        action="store_true",
        help="instead of checks, send arrays of each dtype and layout from each of the libraries to each of them",
    )
    parser.add_argument(
        "--only",
        metavar="IDS",
        action="append",
        default=[],
        help="some checks alone, as P07,C, where a letter is a family of them; of --pairs some dtypes or layouts",
    )
    parser.add_argument(
        "--require",
        metavar="LIBRARY",
        action="append",
        default=[],
        help="exit with status 1 if this library has a failure or a crash; without other names it alone is checked",
    )
    parser.add_argument(
        "--xfail",
        metavar="IDS",
        action="append",
        default=[],
        help="checks that --require does not ask for, as P07,P35: failures that are known",
    )
    parser.add_argument(
        "--also",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="also report what is in this file, a report in JSON, as of another version of a library",
    )
    parser.add_argument("--list", action="store_true", help="show the checks and the libraries, and check nothing")


def run(options: argparse.Namespace) -> int:
    """Check libraries and report; return the exit status."""
    refuse: Callable[[str], NoReturn] = options.error
    try:
        known = pairs.TRIPS if options.pairs else CHECKS
        checks = chosen(",".join(options.only), list(known.values()))
        required = named(options.require)
        asked = named(options.names) if options.names else [] if required else libraries.installed()
        xfail = (
            {check.id for check in chosen(",".join(options.xfail), list(CHECKS.values()))} if options.xfail else set()
        )
        others = [report for file in options.also for report in read(file)]
        if others and options.pairs:
            refuse("--also is for checks, not for --pairs")
    except ValueError as reason:
        refuse(str(reason))
    if options.output is not None and (not options.output.parent.is_dir() or options.output.is_dir()):
        refuse(f"-o {options.output}: there is no folder {options.output.parent}, or it is a folder itself")
    if options.list:
        show_list(checks)
        return 0
    found = list({adapter.name: adapter for adapter in [*asked, *required]}.values())
    subjects = pairs.pairs_of(found) if options.pairs else found
    progress = Progress(len(subjects) * len(checks))
    try:
        results = running.run(subjects, checks, progress.step)
    finally:
        progress.clear()
    write(documents.document(together(results, others)), options.format, options.output)
    failed = [
        report for report in results if report.error or any(result.check.id not in xfail for result in report.failures)
    ]
    bad = {name for report in failed for name in report.names}
    return int(any(adapter.name in bad for adapter in required))


def named(names: Sequence[str]) -> list[Adapter]:
    """Return the adapters of libraries.  Raises ValueError, with what can be named, if there is none."""
    found = []
    for name in names:
        try:
            found += libraries.find([name])
        except ValueError:
            raise
        except Exception as error:  # of a module that is to have an adapter
            msg = f"{name} cannot be imported: {type(error).__name__}: {error}"
            raise ValueError(msg) from error
    return found


def read(file: Path) -> list[Report]:
    """Return the reports that a file has.  Raises ValueError if it has none."""
    try:
        return reports.read(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"--also {file}: {error}"
        raise ValueError(msg) from error


def together(found: Sequence[Report], others: Sequence[Report]) -> list[Report]:
    """Return reports with those from elsewhere, which are named with their versions where a name is taken."""
    everything = list(found)
    for report in others:
        taken = report.names in [one.names for one in everything]
        everything.append(report._replace(names=(f"{report.name} {report.versions[0]}",)) if taken else report)
    return everything


def chosen(words: str, checks: Sequence[Check]) -> list[Check]:
    """Return those of some checks that are named.

    Parameters
    ----------
    words : str
        Ids, families by their letters, of round trips also dtypes and layouts, with commas between them; none for all.
    checks : sequence of Check
        The checks there are.

    Raises
    ------
    ValueError
        If a word names no check, with what can be named.
    """
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    names = {check: {check.id, *(check.id.split("/") if "/" in check.id else check.id[0])} for check in checks}
    known = list(dict.fromkeys(name for check in checks for name in sorted(names[check], key=len)))
    unknown = [word for word in wanted if word not in known]
    if unknown:
        msg = f"there is no check {', '.join(unknown)}, but {', '.join(known)}"
        raise ValueError(msg)
    return [check for check in checks if not wanted or names[check] & set(wanted)]


def show_list(checks: Sequence[Check]) -> None:
    """Print checks, and all libraries that there are adapters for."""
    for check in checks:
        print(f"{check.id}  {check.statement}\n     {check.severity.value} · {check.source}")
    there = {adapter.name: adapter.version() for adapter in libraries.installed()}
    print()
    for name in libraries.ADAPTERS:
        print(f"{name:20}  {there.get(name, 'not installed')}")


def write(report: Document, form: str, file: Path | None) -> None:
    """Write a report to a file or to the terminal, as wide as that is."""
    if file is not None:
        file.write_text(reports.FORMATS[form](report), encoding="utf-8")
    elif form == "text" and sys.stdout.isatty():
        width, colour = shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ
        sys.stdout.write(reports.text(report, width=width, colour=colour))
    else:
        sys.stdout.write(reports.FORMATS[form](report))
