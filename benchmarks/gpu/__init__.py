"""The stages of `benchmarks.gpu_check`: each a program of its own, that says line by line what it found.

A stage is a table of checks: names, and functions that return what is to be said, or raise.  What they find goes to the
file that a variable of the environment names, at once, so that it is there even if the process is gone a moment later.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check = Callable[[], str | None]

RESULTS, STAGE, QUICK = "GPU_CHECK_RESULTS", "GPU_CHECK_STAGE", "GPU_CHECK_QUICK"
"""Variables of the environment: the file that results are added to, the number of the stage, whether to be quick."""
LIBRARIES = ("nbdlpack", "CuPy", "torch")
"""Whose speed is measured."""
PASSED, MEASURED, FAILED, ABSENT = "passed", "measured", "FAILED", "absent"
"""What can come out of a check."""
FACT = "fact"
"""The outcome of what is no check, but for `benchmarks.gpu_check` to know."""


class Absent(Exception):  # noqa: N818 - no error: what a check is about is not here
    """What a check needs is not on this machine; the text says what."""


def quick() -> bool:
    """Return whether this is a rehearsal: small arrays, few repetitions."""
    return os.environ.get(QUICK, "") not in ("", "0")


failed: list[str] = []
"""The checks that failed in this process."""


def say(check: str, outcome: str, detail: str = "", **facts: Any) -> None:
    """Add a line to the results."""
    if outcome == FAILED:
        failed.append(check)
    line = {"stage": int(os.environ.get(STAGE, "0")), "check": check, "outcome": outcome, "detail": detail, **facts}
    text = json.dumps(line, default=str)
    print(text, flush=True)
    if RESULTS in os.environ:
        with Path(os.environ[RESULTS]).open("a") as file:
            file.write(f"{text}\n")


def needed(module: str, distribution: str | None = None) -> Any:
    """Import a library that need not be here."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"not installed: {distribution or module.partition('.')[0]} ({error})"
        raise Absent(msg) from None


def here(module: str, usable: str) -> Any:
    """Import a library that uses the GPU, if it is installed, and one of its functions says that it can."""
    found = needed(module)
    if not attrgetter(usable)(found)():
        msg = f"finds no GPU: {module} {found.__version__}"
        raise Absent(msg)
    return found


def in_words(error: BaseException) -> str:
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def run(checks: Mapping[str, Check]) -> int:
    """Make checks, and return the exit status: 1 if any failed."""
    for name, check in checks.items():
        began = time.perf_counter()
        try:
            outcome, detail = PASSED, check() or ""
        except Absent as absent:
            outcome, detail = ABSENT, str(absent)
        except Exception as error:  # noqa: BLE001 - the next check is not to depend on it
            traceback.print_exc()
            outcome, detail = FAILED, in_words(error)
        say(name, outcome, detail, seconds=round(time.perf_counter() - began, 3))
    return int(bool(failed))


def call(function: Callable[..., tuple[Any, ...]], *args: Any) -> Any:
    """Call a function of `cuda.bindings.driver`; return what it gives beside the error code."""
    code, *found = function(*args)
    if code:
        msg = f"{function.__name__}: {code.name}"
        raise RuntimeError(msg)
    return found[0] if len(found) == 1 else tuple(found)


def context() -> Any:
    """Make the context of the first GPU this thread's current one, and return `cuda.bindings.driver`."""
    driver = needed("cuda.bindings.driver", "cuda-bindings")
    call(driver.cuInit, 0)
    call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, 0)))
    return driver


def main(checks: Mapping[str, Check]) -> None:
    """Make the checks of a stage as a program."""
    sys.exit(run(checks))
