"""A plugin of pytest for stage 2: it leaves the tests that need a GPU, and says what comes of them."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from typing import Any

import pytest

from benchmarks.gpu import ABSENT, FAILED, MEASURED, quick, say

FOLDERS = ("tests/cuda/", "tests/kernels/")
"""Where all tests need a GPU; elsewhere it is those whose parameter `device` is one."""
outcomes: Counter[str] = Counter()
reasons: Counter[str] = Counter()
said = [time.monotonic()]
EVERY = 5.0
"""After so many seconds it is said again how many tests were run, for the case that the stage is not to end."""


def say_counts(end: str = "") -> None:
    """Say how many tests were run by now."""
    said[0] = time.monotonic()
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    say("tests", MEASURED, f"{counts or 'none was run'}{end}")


def pytest_load_initial_conftests() -> None:
    """Let the tests know that there is a GPU, unless a rehearsal says that there is none."""
    os.environ.setdefault("NBDLPACK_TEST_GPU", "1")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave the tests that need a GPU, those of streams and memory first; a rehearsal runs every twentieth of them."""
    chosen = sorted(filter(needs_gpu, items), key=lambda item: not item.nodeid.startswith(FOLDERS[0]))
    chosen = chosen[:: 20 if quick() else 1]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def needs_gpu(item: Any) -> bool:
    """Return whether a test needs a GPU."""
    device = getattr(getattr(item, "callspec", None), "params", {}).get("device", "")
    return item.nodeid.startswith(FOLDERS) or str(device).partition(":")[0] == "cuda"


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the others are to see it fail
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """Skip what needs a second GPU where there is one alone."""
    report = yield
    if report.failed and re.search(r"there is no cuda:1|CUDA_ERROR_INVALID_DEVICE", str(call.excinfo.value)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], "Skipped: there is no second GPU")
    return report


def pytest_runtest_logreport(report: Any) -> None:
    """Count outcomes, and say at once what failed."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    outcomes[report.outcome] += 1
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = " ".join((crash.message if crash else str(report.longrepr)).split())[:400]
        say(report.nodeid, FAILED, f"{report.when}: {text}", seconds=round(report.duration, 3))
    elif report.skipped and isinstance(report.longrepr, tuple):
        reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
    if time.monotonic() - said[0] > EVERY:
        say_counts(" so far")


def pytest_collectreport(report: Any) -> None:
    """Say what could not be collected."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        say(report.nodeid, FAILED, f"cannot be collected: {' '.join(str(report.longrepr).split())[-400:]}")


def pytest_sessionfinish() -> None:
    """Say how many tests there were, and why some were not run."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    for reason, count in reasons.most_common():
        say(f"{count} skipped", ABSENT, reason)
    say_counts()
