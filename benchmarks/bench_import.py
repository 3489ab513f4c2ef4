"""What `import nbdlpack` costs, in CPU time of a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.harness import ROOT, Row

TITLE = "Importing the library: CPU time"
WORDS: dict[str, str] = {}

PROGRAM = """
import importlib, resource, sys
def spent():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
before = spent()
importlib.import_module(sys.argv[1])
print(spent() - before)
"""

_spent: list[float] = []


def cpu_time_of_imports() -> float:
    """Return the CPU time, in seconds, that all interpreters started here have spent on their import."""
    return sum(_spent)


def fresh_import(name: str) -> None:
    """Import a module in an interpreter of its own."""
    command = [sys.executable, "-c", PROGRAM, name]
    _spent.append(float(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout))


def rows(largest: int) -> list[Row]:
    """Return the row; it needs no memory to speak of."""
    ours, peer = "fresh_import('nbdlpack')", "fresh_import('numpy')"
    return [Row("import nbdlpack", ours, peer, 2.5, number=1, clock=cpu_time_of_imports)] if largest else []
