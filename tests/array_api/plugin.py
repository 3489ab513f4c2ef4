"""What pytest loads beside the suite: no limits of time, no shrinking of examples, and the counts of each file."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose what the suite has no options for, of the profile that it has made.

    How long an example or its making takes says something of the machine, not of the library.  To make examples that
    fail smaller takes hours if there are many; ``NBDLPACK_SHRINK=1`` asks for it.  The suite's folder is left as it is.
    """
    from hypothesis import HealthCheck, Phase, settings

    phases = [Phase.explicit, Phase.generate, *([Phase.shrink] if os.environ.get("NBDLPACK_SHRINK") else [])]
    settings.register_profile(
        "nbdlpack",
        settings.get_profile("array-api-tests"),
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    settings.load_profile("nbdlpack")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Write the counts of each file."""
    counts: dict[str, Counter[str]] = {}
    for outcome in OUTCOMES:
        for report in terminalreporter.stats.get(outcome, ()):
            counts.setdefault(report.nodeid.partition("::")[0], Counter())[outcome] += 1
    for file, counted in sorted(counts.items()):
        line = ", ".join(f"{n} {outcome}" for outcome, n in counted.items())
        terminalreporter.write_line(f"{file.rpartition('/')[2]:45} {line}")
