"""What is known to differ between a GPU and Numba's simulator of one: the tests that are skipped there, and why.

A row is a pattern, as `fnmatch` takes it, of names of tests with their files, and the reason.  A test that fails in the
simulator for another reason is a failure.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

SIMULATED: Final = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
"""Whether this process has the simulator in place of GPUs."""

SKIPS: Final = (
    (
        "tests/cuda/test_user_kernels.py*",
        "no types, signatures or streams are simulated: see tests/test_simulator.py",
    ),
    ("tests/cuda/test_compiling.py*", "the simulator compiles nothing"),
    ("tests/cuda/*", "the simulator has no driver, so no streams, events, pools, pinned memory or capture"),
    ("tests/hostcuda/*", "the simulator makes no call to a driver"),
    ("tests/test_gpu_check.py*", "the simulator is no GPU, and nothing is measured in it"),
    ("tests/test_benchmarks.py*", "nothing is measured in the simulator"),
)
"""The first that matches counts."""


def reason(name: str) -> str | None:
    """Return why a test is skipped in the simulator, or None if it is not; by its name with its file."""
    return next((why for pattern, why in SKIPS if fnmatch(name, pattern)), None)


def skip(items: Iterable[pytest.Item]) -> None:
    """Skip those of some tests that are known to differ, if this is the simulator."""
    for item in items if SIMULATED else ():
        why = reason(item.nodeid)
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))


def skip_module(name: str) -> None:
    """Skip a module that cannot even be imported in the simulator, if this is the simulator."""
    if SIMULATED:
        pytest.skip(reason(f"{name.replace('.', '/')}.py") or "", allow_module_level=True)
