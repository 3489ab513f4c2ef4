"""Parts of checks that need an interpreter of their own: what happens when Python ends, for one."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from nbdlpack.conformance.registry import Failure, NotApplicable, Refused
from nbdlpack.conformance.subject import Subject
from nbdlpack.conformance.wire import cause_of_death, pickled, receive

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_fresh_interpreter"]

PROGRAM: Final = "from nbdlpack.conformance.fresh import main; main()"
MARK: Final = "how it went: "
ANSWERS: Final = {kind.__name__: kind for kind in (Failure, Refused, NotApplicable)}


def main() -> None:
    """Load an adapter and call a function with its subject; say how that went, and leave the rest to Python's end."""
    adapter, function = receive(sys.stdin.buffer), receive(sys.stdin.buffer)
    adapter.load()
    answer = ["", ""]
    try:
        function(Subject(adapter))
    except tuple(ANSWERS.values()) as error:
        answer = [type(error).__name__, str(error)]
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    sys.stdout.flush()


def in_fresh_interpreter(lib: Subject, function: Callable[[Subject], None]) -> None:
    """Call a function of a module in an interpreter of its own, with a subject of the same adapter.

    Raises what it raises of a check's answers, and `Failure` if the interpreter does not end as it should.
    """
    try:
        request = pickled(lib.adapter) + pickle.dumps(function)
    except ValueError as error:
        raise NotApplicable(str(error)) from error
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}
    command = [sys.executable, "-P", "-c", PROGRAM]
    run = subprocess.run(command, input=request, capture_output=True, check=False, env=environment)
    lines = run.stdout.decode(errors="replace").splitlines()
    said = [json.loads(line.removeprefix(MARK)) for line in lines if line.startswith(MARK)]
    for name, text in said:
        if name:
            raise ANSWERS[name](text)
    if run.returncode or not said:
        what = "the interpreter does not end as it should" if said else "a fresh interpreter does not get through"
        lines = run.stderr.decode(errors="replace").strip().splitlines()
        msg = ": ".join([what, cause_of_death(run.returncode), *lines[-1:]])
        raise Failure(msg)
