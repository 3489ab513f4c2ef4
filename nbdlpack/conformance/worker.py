"""The process in which a library is checked: ``python -m nbdlpack.conformance.worker REQUESTS ANSWERS``.

REQUESTS and ANSWERS are the numbers of two pipes.  By the first it gets pickles, an adapter and then one check after
the other; by the second it gives a line of JSON for each.  The library is imported once.  Nobody else knows the pipes,
so whatever the library prints or reads disturbs nothing.

A check that may crash runs in a child of this process, unless the library forbids to fork; then it runs here, like all
others, and takes this process with it.  Who waits for an answer too long ends this process and all its children.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from nbdlpack.conformance.adapters import NotAvailable
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused
from nbdlpack.conformance.results import Outcome
from nbdlpack.conformance.subject import Subject
from nbdlpack.conformance.wire import cause_of_death, parts_of, receive

if TYPE_CHECKING:
    from nbdlpack.conformance.adapters import Adapter
    from nbdlpack.conformance.registry import Check

__all__ = ["main"]

LONGEST = 600
"""How many characters of a reason are kept: what libraries say of themselves may fill pages."""

OUTCOMES = {
    Failure: Outcome.FAIL,
    Refused: Outcome.REFUSED,
    NotApplicable: Outcome.NOT_APPLICABLE,
    NotAvailable: Outcome.NOT_APPLICABLE,
}
"""What it means that a check raises one of these; whatever else it raises is a failure."""


def judge(check: Check, subject: Subject) -> dict[str, str]:
    """Run a check here; return how it went."""
    try:
        note = check.function(subject)
    except tuple(OUTCOMES) as answer:
        outcome = next(outcome for kind, outcome in OUTCOMES.items() if isinstance(answer, kind))
        reason = str(answer)
    except BaseException as error:  # noqa: BLE001 (also SystemExit: this process goes on)
        traceback.print_exc()
        outcome, reason = Outcome.FAIL, f"{type(error).__name__}: {error}".removesuffix(": ")
    else:
        outcome, reason = Outcome.PASS, note or ""
    gc.collect()  # what the check has left behind may crash too, and is to do so now
    return {"outcome": outcome.value, "reason": in_one_line(reason)}


def in_one_line(words: str) -> str:
    """Return words in one line, the beginning and the end if they are many; those are printed in full then."""
    line = " ".join(words.split())
    if len(line) <= LONGEST:
        return line
    sys.stderr.write(f"{words}\n")
    return f"{line[: LONGEST * 2 // 3]} … {line[-LONGEST // 3 :]}"


def judge_in_child(check: Check, subject: Subject) -> dict[str, str]:
    """Run a check in a child of this process; return how it went."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking with threads: the adapter says that it can be done
        child = os.fork()
    if not child:
        os.write(writing, json.dumps(judge(check, subject)).encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    answer = os.read(reading, 1 << 16) if code == 0 else b""
    os.close(reading)
    if answer:
        judged: dict[str, str] = json.loads(answer)
        return judged
    return {"outcome": Outcome.CRASH.value, "reason": cause_of_death(code)}


def make_an_array(adapter: Adapter) -> None:
    """Raise what the adapter does if it can make no array at all, so that all checks would take that for a lack."""
    if adapter.producer:
        try:
            adapter.from_numpy(np.arange(4.0))
        except NotAvailable:
            raise
        except Exception:  # noqa: BLE001 (not every library has 64 bits)
            adapter.from_numpy(np.arange(4, dtype=np.int8))


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    """Load the adapter that is asked for and run the checks that are, until there are no more requests."""

    def answer(**words: Any) -> None:
        answers.write(json.dumps(words).encode() + b"\n")
        answers.flush()

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # crashes are expected here, and leave no files
    try:
        adapter = receive(requests)
        adapter.load()
        subject = Subject(adapter)
        for part in parts_of(adapter):
            make_an_array(part)
        answer(versions=[part.version() for part in parts_of(adapter)])
    except NotAvailable as reason:
        answer(error=in_one_line(str(reason)))
        return
    except BaseException as error:  # noqa: BLE001
        answer(error=in_one_line(f"{type(error).__name__}: {error}"))
        return
    gc.collect()
    gc.freeze()  # so that collecting, in this process and its children, goes through what the checks have made alone
    while True:
        try:
            check = receive(requests)
        except EOFError:
            return
        answer(**(judge_in_child if check.crashes and adapter.fork else judge)(check, subject))


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), "rb") as requests, os.fdopen(int(sys.argv[2]), "wb") as answers:
        for pipe in (requests, answers):
            os.set_inheritable(pipe.fileno(), False)  # what the checks start is not to hold them
        main(requests, answers)
