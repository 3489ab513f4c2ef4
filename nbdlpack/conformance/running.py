"""Run checks, each library in a process of its own, several libraries side by side.

What a library does to its process is an outcome like others: a crash is reported with the signal and the line that
tells most of what was printed, and the next check goes on in a process that is as good as new.

    checks with ``crashes=True``    run in a forked child of the library's process; if the library forbids to fork,
                                    in that process itself, which is then started anew unless the check went well
    all others                      run in the library's process, which is started anew if it ends
    what takes more than 30 s       is ended, and counts as a crash: "no answer within 30 s"

::

    from nbdlpack.conformance import adapters, running

    for report in running.run(adapters.find(["numpy", "torch", "my_package.adapter:MyLibrary"])):
        for result in report.failures:
            print(report.name, result.check.id, result.reason)
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from nbdlpack.conformance import checks as _checks  # noqa: F401 (it registers them)
from nbdlpack.conformance.registry import CHECKS
from nbdlpack.conformance.results import Outcome, Report, Result
from nbdlpack.conformance.wire import cause_of_death, parts_of, pickled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import IO, Self

    from nbdlpack.conformance.adapters import Adapter
    from nbdlpack.conformance.pairs import Pair
    from nbdlpack.conformance.registry import Check

__all__ = ["LIMIT", "NotLoadedError", "Worker", "run"]

LIMIT: Final = 30.0
"""How many seconds a check may take."""
LOADING: Final = 10
"""How many times as long its import may take."""
LAST_LINES: Final = 20
"""How many lines are kept of what a failed or crashed check has printed."""
TELLING: Final = ("Fatal Python error", "what():", "Check failed", "corruption", "free(): ", "double free")
"""What marks the line that says why a process aborted, among those that say where."""


class NotLoadedError(Exception):
    """The library cannot be imported; the message says why."""


class Worker:
    """The process of a library, started when it is first needed, and anew after the library has ended it.

    Parameters
    ----------
    adapter : Adapter or Pair
        How to drive the library.
    limit : float
        How many seconds a check may take.

    Attributes
    ----------
    versions : tuple of str
        Of the library, or of both of a pair, once it has been imported.

    Raises
    ------
    ValueError
        If the adapter is not in a module, so that another process could not import it.
    """

    def __init__(self, adapter: Adapter | Pair, limit: float = LIMIT) -> None:
        self.adapter, self.limit = adapter, limit
        self.versions: tuple[str, ...] = ()
        self._request = pickled(adapter)
        self._interrupted = False
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._requests: IO[bytes]
        self._answers: IO[bytes]

    def start(self) -> None:
        """Start the process and have it import the library, unless it has.  Raises NotLoadedError."""
        if self._process is not None:
            return
        if self._interrupted:
            msg = "interrupted"
            raise NotLoadedError(msg)
        if self._log is None:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        printed = self._printed()
        requests, self._requests = _pipe()
        self._answers, answers = _pipe()
        with requests, answers:
            pipes = (requests.fileno(), answers.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-m", "nbdlpack.conformance.worker", *map(str, pipes)],
                pass_fds=pipes,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # so that all that it starts can be ended with it
            )
        if self._interrupted:
            self.interrupt()  # again: there was no process to end
        answer = self._ask(self._request, LOADING * self.limit)
        if "versions" not in answer:
            self._end()
            reason = _why(answer["reason"], self._output(printed)) if "reason" in answer else answer["error"]
            raise NotLoadedError(reason)
        self.versions = tuple(answer["versions"])

    def check(self, check: Check) -> Result:
        """Run a check.  Raises NotLoadedError."""
        self.start()
        printed = self._printed()
        answer = self._ask(pickled(check), self.limit)
        outcome, reason, output = Outcome(answer["outcome"]), answer["reason"], ""
        if outcome.bad:
            output = self._output(printed)
            if check.crashes and not self.adapter.fork:
                self._end()  # its memory may be anything by now
        return Result(check, outcome, _why(reason, output) if outcome is Outcome.CRASH else reason, output)

    def interrupt(self) -> None:
        """End the process while another thread waits for it, and start no other."""
        self._interrupted = True
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process, and whatever it has started."""
        self._end()
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: bytes, limit: float) -> dict[str, Any]:
        """Send a request and return the answer; that it has crashed, if the process ends or takes too long."""
        with suppress(BrokenPipeError):
            self._requests.write(request)
            self._requests.flush()
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        if not waiting.poll(limit * 1000):
            self._end()
            return {"outcome": "crash", "reason": f"no answer within {limit:g} s"}
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            return {"outcome": "crash", "reason": cause_of_death(self._end())}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> int:
        """End the process if there is one, and whatever it has started; return its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # which changes nothing for one that is about to end
        code = process.wait()
        self._answers.close()
        with suppress(BrokenPipeError):
            self._requests.close()
        return code

    def _printed(self) -> int:
        """Return how many bytes the process has printed so far."""
        return os.fstat(self._log.fileno()).st_size if self._log else 0

    def _output(self, start: int) -> str:
        """Return the last lines that were printed after the first so many bytes."""
        if self._log is None:
            return ""
        text = os.pread(self._log.fileno(), 1 << 16, max(start, self._printed() - (1 << 16))).decode(errors="replace")
        return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-LAST_LINES:])


def run(
    adapters: Iterable[Adapter | Pair],
    checks: Iterable[Check] | None = None,
    progress: Callable[[str], object] | None = None,
    limit: float = LIMIT,
) -> list[Report]:
    """Check libraries.

    Parameters
    ----------
    adapters : iterable of Adapter or Pair
        How to drive them.  None of them is imported in this process.
    checks : iterable of Check, optional
        Which checks; all of `CHECKS` by default.
    progress : callable, optional
        Called with a line of words when a check begins, so for each library as often as there are checks.
    limit : float
        How many seconds a check may take.

    Returns
    -------
    list of Report
        One for each library, in their order, with a result for each check, in theirs.  The order in which checks of
        one library run is that too.

    Raises
    ------
    ValueError
        If an adapter is not in a module, so that another process could not import it.
    """
    asked = list(CHECKS.values() if checks is None else checks)
    workers = [Worker(adapter, limit) for adapter in adapters]
    one = threading.Lock()

    def examine(worker: Worker) -> Report:
        names = tuple(part.name for part in parts_of(worker.adapter))
        results, error = [], ""
        with worker:
            try:
                worker.start()
                for check in asked:
                    if progress is not None:
                        with one:
                            progress(f"{' → '.join(names)}: {check.id}")
                    results.append(worker.check(check))
            except NotLoadedError as reason:
                error = str(reason)
        return Report(names, worker.versions or ("",) * len(names), tuple(results), error)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        try:
            return list(threads.map(examine, workers))
        except BaseException:
            for worker in workers:
                worker.interrupt()
            raise


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    """Return both ends of a pipe: one to read from, one to write to."""
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


def _environment() -> dict[str, str]:
    """Return the environment of a process that imports what this one can."""
    # OpenMP's threads do not survive a fork: a child that meets them waits for ever.
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}


def _why(cause: str, output: str) -> str:
    """Return why a process crashed: the cause, and the line that says most of what it has printed."""
    lines = output.splitlines()
    line = next((line for line in lines if any(mark in line for mark in TELLING)), lines[-1] if lines else "")
    return f"{cause}: {line.strip()}" if line else cause
