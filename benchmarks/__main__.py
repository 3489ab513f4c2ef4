"""Measure, print tables of ratios, and keep the times as JSON and the curves as a plot."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import harness, report

HERE = Path(__file__).parent
RESULTS, PLOT = "results.json", "copy_or_zero_copy.svg"
OPTIONS = {
    "processes": "in how many processes to measure",
    "rounds": "how often a process goes through all rows",
    "repeats": "how often it times each row in a round",
    "seconds": "how long one timing should take",
    "largest": "the largest array, in bytes; three times as much memory is used",
}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(harness.subjects())}; or all")
    parser.add_argument("--quick", action="store_true", help="a rough answer, from fewer timings of smaller arrays")
    parser.add_argument(
        "--output", type=Path, default=HERE / "results", metavar="FOLDER", help="where to put results.json and the plot"
    )
    for name, value in harness.Settings()._asdict().items():
        parser.add_argument(f"--{name}", type=type(value), help=f"{OPTIONS[name]} (default: {value})")
    options = parser.parse_args(arguments)
    if unknown := set(options.subjects) - set(harness.subjects()):
        parser.error(f"no such subject: {', '.join(sorted(unknown))}; there are {', '.join(harness.subjects())}")
    return options


def tell(text: str) -> None:
    """Show on a terminal what is being done; an empty text removes it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return the exit status: 0 if all could be measured, whatever came out."""
    options = parse(arguments)
    given = {name: value for name in OPTIONS if (value := getattr(options, name)) is not None}
    settings = (harness.QUICK if options.quick else harness.Settings())._replace(**given)
    suite, results = harness.run(options.subjects or harness.subjects(), settings, tell)
    tell("")
    for name, found in results.items():
        print(report.table(f"{name}: {harness.subject(name).TITLE}", found), end="\n\n")
    met = [result.met for found in results.values() for result in found if result.met is not None]
    print(f"{sum(met)} of {len(met)} targets met")
    options.output.mkdir(parents=True, exist_ok=True)
    if suite is not None:
        suite.dump(str(options.output / RESULTS), replace=True)
        print(f"times, machine and versions: {options.output / RESULTS}")
    if report.plot([result for found in results.values() for result in found], options.output / PLOT):
        print(f"plot: {options.output / PLOT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
