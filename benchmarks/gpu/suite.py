"""Stage 2: the tests, of those that need a GPU."""

from __future__ import annotations

import importlib.util
import os
import sys

from benchmarks.gpu import ABSENT, say

PROCESSES = max(1, min(8, (os.cpu_count() or 1) // 2))
"""In how many processes to run them, where pytest-xdist is installed: most of the time goes into compiling."""


def options() -> list[str]:
    """Return what pytest is given."""
    # The machine's libraries, pytest too, are not of the releases that the tests are kept with.
    own = {"minversion": "7", "filterwarnings": "default", "addopts": "--import-mode=importlib -m 'not slow'"}
    several = ["-n", str(PROCESSES)] if importlib.util.find_spec("xdist") else []
    return [
        "-p",
        "benchmarks.gpu.plugin",
        "--tb=short",
        "-q",
        *several,
        *[f"-o{n}={v}" for n, v in own.items()],
        "tests",
    ]


if __name__ == "__main__":
    if importlib.util.find_spec("pytest") is None:
        say("tests", ABSENT, "not installed: pytest")
    else:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *options()])
