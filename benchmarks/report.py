"""What people look at: tables and plots of results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from benchmarks.harness import Result

HEADINGS = ("", "ours", "peer", "ratio", "of the processes", "target", "")
COLOURS = ("#0072b2", "#009e73", "#d55e00", "#cc79a7")  # told apart by colour-blind eyes as well
MARKERS = (("s", 7), ("D", 5.5), ("^", 4), ("v", 4))  # and their sizes: smaller ones lie above larger ones


def in_seconds(time: float) -> str:
    """Return a time to three digits: "57.3 ns"."""
    unit, length = next(((u, n) for u, n in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if time >= n), ("ns", 1e-9))
    return f"{digits(time / length)} {unit}"


def digits(number: float) -> str:
    """Return a number to three digits, without an exponent where that can be read."""
    if number >= 100:
        return f"{number:.0f}"
    return f"{number:.{2 - math.floor(math.log10(number))}f}" if number >= 1e-5 else f"{number:.1e}"


def in_bytes(size: float, _position: int | None = None) -> str:
    """Return a size in words: "16 KiB"."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= length:
            return f"{size / length:.0f} {unit}"
    return f"{size:.0f} B"


def line(result: Result) -> tuple[str, ...]:
    """Return what stands in a row of the table."""
    row = result.row
    write = digits if row.peer is not None else in_seconds
    target = "" if row.target is None else f"<= {row.target if row.peer is not None else in_seconds(row.target)}"
    if not result.ratios:
        return (row.name, "", "", f"not installed: {', '.join(result.missing)}", "", target, "")
    return (
        row.name,
        in_seconds(result.ours),
        "" if row.peer is None else in_seconds(result.peer),
        write(result.ratio),
        f"{write(min(result.ratios))} to {write(max(result.ratios))}",
        target,
        {True: "met", False: "MISSED", None: ""}[result.met],
    )


def table(title: str, results: Iterable[Result]) -> str:
    """Return the results of a subject as a table for a terminal."""
    lines = [HEADINGS, *[line(result) for result in results]]
    # What is missing is said in words that need not fit into the column.
    widths = [max(len(row[i]) for row in lines if row[1] or i != 3) for i in range(len(HEADINGS))]
    text = [title, ""]
    for row in lines:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        text.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())
    return "\n".join(text)


def plot(results: Sequence[Result], path: Path) -> bool:
    """Draw the curves among some results, and the copy that they are compared with; return whether there are any.

    The same numbers give the same file, so that a version under version control changes only if they do.
    """
    curves: dict[str, list[tuple[int, float]]] = {}
    copies: dict[int, float] = {}
    for result in results:
        if result.row.curve is not None and result.ratios:
            name, size = result.row.curve
            curves.setdefault(name, []).append((size, result.ours))
            copies[size] = min(result.peer, copies.get(size, math.inf))
    if not curves:
        return False
    with mpl.rc_context({"svg.hashsalt": "nbdlpack", "font.size": 11}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.loglog(
            sorted(copies), [copies[size] for size in sorted(copies)], "o-", color="#555555", label="copy, a.copy()"
        )
        for (name, points), colour, (marker, width) in zip(curves.items(), COLOURS, MARKERS, strict=False):
            sizes, seconds = zip(*sorted(points), strict=True)
            axes.loglog(sizes, seconds, marker=marker, markersize=width, color=colour, label=name)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(in_bytes))
        axes.set_xticks(sorted(copies))
        axes.yaxis.set_major_formatter(EngFormatter("s"))
        axes.set_ylim(bottom=1e-7)
        axes.set_xlabel("size of the array")
        axes.set_ylabel("time of one call")
        axes.set_title("A copy takes longer the larger the array is; zero-copy does not")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(loc="upper left")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=100)
    return True
