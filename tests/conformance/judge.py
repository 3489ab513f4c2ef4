"""Breaks the reference library in one place after another, and runs the check that must then fail.

    python -m tests.conformance.judge

A process that reads numbers of rows of `tests.conformance.broken.ROWS`, one a line, and writes what became of each as a
line of JSON: the outcome and the reason.  Each is tried in a fork of its own, which may crash.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from nbdlpack.conformance.registry import CHECKS, NotApplicable, Refused
from nbdlpack.conformance.subject import Subject
from tests.conformance.broken import FOLDER, ROWS, VARIANTS, Row, patched

SECONDS = 300
"""After which a check that runs is taken to hang, which is a way to fail."""


def judged(row: Row) -> dict[str, str]:
    """Return what becomes of a check when the reference library is broken as a row says."""
    with tempfile.TemporaryDirectory(prefix="nbdlpack-broken-") as folder:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(reading)
                signal.alarm(SECONDS)
                silent = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(silent, stream)
                os.write(writing, json.dumps(run(row, Path(folder))).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"outcome": "crash", "reason": signal.Signals(os.WTERMSIG(status)).name}
    return json.loads(said)


def run(row: Row, folder: Path) -> dict[str, str]:
    """Write the broken library to a folder, import it, and run the check."""
    sys.path.insert(0, str(folder))
    for name in ("reference.py", "reference_native.py"):
        text = patched(row) if name == row.file else (FOLDER / name).read_text()
        if row.file == "reference_native.py":
            text = text.replace("from tests.conformance.reference_native", "from broken_reference_native")
        (folder / f"broken_{name}").write_text(text)
    try:
        kind, device = VARIANTS[row.variant]
        adapter = getattr(importlib.import_module("broken_reference"), kind)(device)
        adapter.load()
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the answer)
        return outcome("not importable", error)
    try:
        CHECKS[row.check].function(Subject(adapter))
    except NotApplicable as reason:
        return outcome("not applicable", reason)
    except Refused as reason:
        return outcome("refused", reason)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the answer)
        return outcome("fail", error)
    return {"outcome": "pass", "reason": ""}


def outcome(name: str, error: Exception) -> dict[str, Any]:
    return {"outcome": name, "reason": f"{type(error).__name__}: {error}"}


def main() -> None:
    sys.dont_write_bytecode = True
    importlib.import_module("tests.conformance.reference")  # with what it needs, once for all
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(judged(ROWS[int(line)])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
