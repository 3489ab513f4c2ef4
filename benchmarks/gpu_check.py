"""Check the library on a machine with a GPU, in stages, and leave the results as JSON lines and as Markdown.

Stage 0 looks at what is installed, and chooses what the others need to be given; 1 runs one kernel, one copy, one
export; 2 the tests; 3 exchanges with other libraries; 4 measures; 5 is NVIDIA's compute-sanitizer.  Each is a process
with a time of its own, so that none depends on how another ends, and all of them end within ten minutes.  Nothing is
fetched from anywhere.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # for `python benchmarks/gpu_check.py`

from benchmarks.gpu import FACT, FAILED, LIBRARIES, PASSED, QUICK, RESULTS, STAGE, start  # noqa: E402


class Stage(NamedTuple):
    """A stage: a program, and how long it may take."""

    title: str
    command: list[str]
    seconds: float


STAGES = (
    Stage("what is here", ["-m", "benchmarks.gpu.start"], 45),
    Stage("one kernel, one copy, one export", ["-m", "benchmarks.gpu.first"], 60),
    Stage("the tests", ["-m", "benchmarks.gpu.suite"], 240),
    Stage("exchange", ["-m", "benchmarks.gpu.exchange"], 60),
    Stage("speed", ["-m", "benchmarks.gpu.speed"], 90),
    Stage("compute-sanitizer", ["-m", "benchmarks.gpu.sanitizer"], 90),
)
RESULTS_FILE, REPORT_FILE, LOG_FILE = "results.jsonl", "report.md", "log.txt"
ENDED = "the stage"
"""The check by which it is said how a stage ended."""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__)
    parser.add_argument("--out", type=Path, help="where to put the results (default: $OUT, or gpu-check)")
    parser.add_argument("--stages", help="which, such as 0,1,4; stage 0 is always run (default: all)")
    parser.add_argument("--quick", action="store_true", help="a rehearsal: small arrays, few repetitions, few tests")
    parser.add_argument("--seconds", type=float, default=600, help="how long all of it may take (default: 600)")
    options = parser.parse_args(arguments)
    options.out = options.out or Path(os.environ.get("OUT") or "gpu-check")
    try:
        chosen = {0, *map(int, options.stages.split(","))} if options.stages else set(range(len(STAGES)))
        options.stages = {number: dict(enumerate(STAGES))[number] for number in sorted(chosen)}
    except (ValueError, KeyError):
        parser.error(f"--stages is {options.stages!r}, but must be numbers from 0 to {len(STAGES) - 1}, as in 0,1,4")
    return options


# -- run


def run(number: int, stage: Stage, out: Path, environment: dict[str, str], seconds: float) -> dict[str, Any]:
    """Run a stage, and return what is to be said of how it ended."""
    began = time.perf_counter()
    with (out / LOG_FILE).open("a") as log:
        print(f"\n==== stage {number}: {stage.title}", file=log, flush=True)
        process = subprocess.Popen(
            [sys.executable, *stage.command],
            cwd=ROOT,
            env=environment | {STAGE: str(number)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            outcome, detail = FAILED, f"took longer than {seconds:.0f} s, and was ended"
        else:
            outcome = FAILED if status else PASSED
            detail = (
                f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}" if status else ""
            )
        finally:
            end(process)
    took = round(time.perf_counter() - began, 2)
    return {"stage": number, "check": ENDED, "outcome": outcome, "detail": detail, "seconds": took}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a stage and everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read(path: Path) -> list[dict[str, Any]]:
    """Return the results that are there; a line that was cut off is none."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


# -- report


def cell(text: object) -> str:
    """Return what can stand in a cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(headings: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [headings, ("---",) * len(headings), *rows]
    return [f"| {' | '.join(map(cell, line))} |" for line in lines] + [""] if rows else []


def time_of(seconds: float | str | None) -> str:
    """Return a time in words; a text, which says why there is none, as it is."""
    if not isinstance(seconds, float):
        return seconds or ""
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def measured(results: list[dict[str, Any]]) -> list[str]:
    """Return the tables of what was measured: bandwidths, beside the device's own copy, and times."""
    tables: dict[str, list[tuple[Any, ...]]] = {}
    for result in results:
        cells = []
        for name in LIBRARIES:
            took = result["times"].get(name)
            text = time_of(took)
            if "bytes" in result and isinstance(took, float) and took > 0:
                rate = result["bytes"] / took
                text = f"{rate / 1e9:.3g} GB/s ({rate / result['rate']:.0%})"
            cells.append(text)
        tables.setdefault(result["table"], []).append((result["check"], *cells))
    return [line for title, rows in tables.items() for line in (f"### {title}", "", *table(("", *LIBRARIES), rows))]


def report(results: list[dict[str, Any]], stages: dict[int, Stage]) -> str:
    """Return all results as Markdown."""
    device = next((result["detail"] for result in results if result["check"] == start.DEVICE), "no GPU was found")
    lines = [f"# GPU check: {device}", ""]
    # What is said again replaces what was said before.
    results = list({(result["stage"], result.get("table"), result["check"]): result for result in results}.values())
    ends = {result["stage"]: result for result in results if result["check"] == ENDED}
    overview = []
    for number, stage in stages.items():
        outcomes = [result["outcome"] for result in results if result["stage"] == number and result["check"] != ENDED]
        counts = ", ".join(f"{outcomes.count(o)} {o}" for o in dict.fromkeys(outcomes) if o != FACT)
        ended = ends.get(number, {"outcome": "not run", "detail": "", "seconds": 0})
        overview.append((number, stage.title, ended["outcome"], f"{ended['seconds']} s", ended["detail"], counts))
    lines += table(("", "stage", "", "took", "", "checks"), overview)
    for number, stage in stages.items():
        found = [result for result in results if result["stage"] == number and result["outcome"] != FACT]
        checks = [
            (result["check"], result["outcome"], f"{result.get('seconds', '')}", result["detail"])
            for result in found
            if result["check"] != ENDED and "times" not in result
        ]
        lines += [f"## {number}: {stage.title}", "", *table(("check", "", "seconds", ""), checks)]
        lines += measured([result for result in found if "times" in result])
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return the exit status: 0 if nothing failed."""
    options = parse(arguments)
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for name in (RESULTS_FILE, LOG_FILE):
        (out / name).write_text("")
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with (
        tempfile.TemporaryDirectory() as cache
    ):  # so that the first kernel of all has to be compiled, and no other twice
        environment = {"NBDLPACK_CACHE_DIR": cache} | os.environ
        environment |= {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            RESULTS: str(out / RESULTS_FILE),
            QUICK: "1" if options.quick else "",
        }
        run_all(options.stages, out, environment, options.seconds)
    print((out / REPORT_FILE).read_text())
    return int(any(result["outcome"] == FAILED for result in read(out / RESULTS_FILE)))


def run_all(stages: dict[int, Stage], out: Path, environment: dict[str, str], seconds: float) -> None:
    """Run the stages, one after the other, and write the report anew after each."""
    began = time.perf_counter()
    for number, stage in stages.items():
        left = seconds - (time.perf_counter() - began)
        if left < 1:
            break
        print(f"stage {number}: {stage.title} ...", end=" ", flush=True)
        ended = run(number, stage, out, environment, min(stage.seconds, left))
        print(f"{ended['outcome']} {ended['detail']} ({ended['seconds']} s)", flush=True)
        with (out / RESULTS_FILE).open("a") as file:
            file.write(f"{json.dumps(ended)}\n")
        results = read(out / RESULTS_FILE)
        (out / REPORT_FILE).write_text(report(results, stages))
        for result in results:
            if result["check"] == start.REMEDY:
                environment |= result["environment"]
        if any(result["check"] == start.NO_GPU for result in results):
            print("there is no GPU that can be used: the other stages are not run")
            break


if __name__ == "__main__":
    sys.exit(main())
