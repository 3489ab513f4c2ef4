"""Running checks: every outcome is found out, in this very process or another, and nothing ends the run."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest

from nbdlpack.conformance import CHECKS
from nbdlpack.conformance.adapters import find
from nbdlpack.conformance.results import Outcome
from nbdlpack.conformance.running import NotLoadedError, Worker, run
from nbdlpack.conformance.wire import cause_of_death, pickled, receive
from tests.conformance import toys

EXPECTED = [
    (toys.passes, Outcome.PASS, ""),
    (toys.says, Outcome.PASS, "shared"),
    (toys.fails, Outcome.FAIL, "strides are NULL, but must be there for ndim > 0"),
    (toys.refuses, Outcome.REFUSED, "BufferError: not <that>"),
    (toys.is_not_applicable, Outcome.NOT_APPLICABLE, "there are no lazy copies"),
    (toys.is_not_available, Outcome.NOT_APPLICABLE, "toy has no such thing"),
    (toys.raises, Outcome.FAIL, "KeyError: 'key'"),
    (toys.leaves, Outcome.FAIL, "SystemExit: 3"),
    (toys.prints, Outcome.FAIL, "it was loud"),
    (toys.segfaults, Outcome.CRASH, "SIGSEGV: about to read null"),
    (toys.aborts, Outcome.CRASH, "SIGABRT: what():  stride must be positive"),
    (toys.exits, Outcome.CRASH, "ended the process, with exit status 3"),
]
FUNCTIONS = [function for function, _, _ in EXPECTED]
SUBJECTS = [(kind, crashes) for kind in ("toy", "unforkable") for crashes in (False, True)]


@pytest.fixture(scope="module")
def reports():
    """What comes of all of them, by the library and whether they are said to crash; two processes at a time."""
    checks = [*toys.make_all(*FUNCTIONS), *toys.make_all(*FUNCTIONS, crashes=True)]
    return {report.name: report for report in run([toys.Toy(), toys.Unforkable()], checks)}


@pytest.fixture(scope="module", params=SUBJECTS, ids=lambda subject: f"{subject[0]}-{subject[1]}")
def results(reports, request):
    kind, crashes = request.param
    return {result.check.function: result for result in reports[kind].results if result.check.crashes is crashes}


@pytest.mark.parametrize(("function", "outcome", "reason"), EXPECTED, ids=lambda x: getattr(x, "__name__", ""))
def test_each_outcome_is_found_out(results, function, outcome, reason):
    assert (results[function].outcome, results[function].reason) == (outcome, reason)


def test_what_libraries_print_disturbs_nothing_and_is_kept(results):
    output = results[toys.prints].output
    assert "noise on stdout" in output
    assert "noise on stderr" in output
    assert "noise" not in results[toys.segfaults].output
    assert results[toys.aborts].output.splitlines()[-1] == "frame #0: somewhere"
    assert "KeyError: 'key'" in results[toys.raises].output


def test_the_order_is_that_of_what_was_asked(reports):
    assert list(reports) == ["toy", "unforkable"]
    for report in reports.values():
        assert [result.check.function for result in report.results] == 2 * FUNCTIONS
        assert report.versions == (toys.Toy().version(),)
        assert not report.error


def run_one(kind, *checks, **options):
    (report,) = run([kind()], checks, **options)
    return report


def notes(kind, *checks):
    return [result.reason for result in run_one(kind, *checks).results]


def test_the_library_is_imported_once_and_forked_for_each_check_that_may_crash():
    here, child = toys.make(toys.who), toys.make(toys.who, crashes=True)
    one, other, third, fourth = notes(toys.Toy, here, child, child, here)
    assert one == fourth
    assert len({one, other, third}) == 3
    # A child has what the process had then, and what it does itself is lost with it.
    count, risky = toys.make(toys.remembers), toys.make(toys.remembers, crashes=True)
    assert notes(toys.Toy, count, risky, risky, count) == ["1", "2", "2", "2"]


def test_a_library_that_must_not_be_forked_is_not():
    here, risky = toys.make(toys.who), toys.make(toys.who, crashes=True)
    assert len(set(notes(toys.Unforkable, here, risky, risky, here))) == 1


@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        # function, whether it is said to crash, whether the process is another one afterwards
        (
            toys.Toy,
            [
                (toys.fails, False, False),
                (toys.fails, True, False),
                (toys.aborts, True, False),
                (toys.aborts, False, True),
            ],
        ),
        (
            toys.Unforkable,
            [
                (toys.fails, False, False),
                (toys.refuses, True, False),
                (toys.fails, True, True),
                (toys.aborts, True, True),
            ],
        ),
    ],
)
def test_a_process_that_cannot_be_relied_on_is_started_anew(kind, cases):
    who = toys.make(toys.who)
    checks = [who]
    for function, crashes, _ in cases:
        checks += [toys.make(function, crashes=crashes), who]
    pids = notes(kind, *checks)[::2]
    assert [one != other for one, other in itertools.pairwise(pids)] == [anew for _, _, anew in cases]


def test_what_hangs_is_ended_and_the_run_goes_on():
    hanging = [toys.make(toys.hangs, crashes=True), toys.make(toys.hangs_in_c), toys.make(toys.passes)]
    report = run_one(toys.Toy, *hanging, limit=2)
    assert [result.reason for result in report.results] == ["no answer within 2 s", "no answer within 2 s", ""]
    assert [result.outcome for result in report.results] == [Outcome.CRASH, Outcome.CRASH, Outcome.PASS]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (toys.Missing, "ImportError: libtoy.so.3: cannot open shared object file"),
        (toys.Absent, "absent has no GPU here"),
        (toys.Deadly, "SIGILL: illegal hardware"),
    ],
)
def test_a_library_that_cannot_be_imported_is_one_clear_result(kind, error):
    report = run_one(kind, *toys.make_all(toys.passes, toys.fails))
    assert (report.results, report.error) == ((), error)
    assert (report.name, report.versions) == (kind.name, ("",))


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_no_process_is_left_behind():
    checks = toys.make_all(toys.who, toys.starts), toys.make_all(toys.starts, crashes=True)
    assert not [pid for pid in notes(toys.Toy, *checks[0], *checks[1]) if is_alive(pid)]


def test_an_interruption_ends_all_processes():
    seen = []

    def progress(words):
        seen.append(words)
        if len(seen) == 4:
            raise KeyboardInterrupt

    checks = toys.make_all(*[toys.who] * 50)
    with pytest.raises(KeyboardInterrupt):
        run([toys.Toy(), toys.Unforkable()], checks, progress)
    assert len(seen) < 2 * len(checks)


def test_an_interrupted_worker_starts_no_other_process():
    with Worker(toys.Toy()) as worker:
        pid = worker.check(toys.make(toys.who)).reason
        worker.interrupt()
        assert worker.check(toys.make(toys.passes)).outcome is Outcome.CRASH
        assert not is_alive(pid)
        with pytest.raises(NotLoadedError, match="interrupted"):
            worker.check(toys.make(toys.passes))


def test_progress_is_told_of_each_check():
    seen = []
    run_one(toys.Toy, *toys.make_all(toys.passes, toys.aborts), progress=seen.append)
    assert seen == ["toy: P900", "toy: P901"]


def test_a_process_imports_what_this_one_can_and_reads_nothing():
    (result,) = run_one(toys.Toy, toys.make(toys.environment)).results
    assert result.reason == "('', '1', [1.5])"


def test_long_reasons_are_cut_and_printed_in_full():
    (result,) = run_one(toys.Toy, toys.make(toys.talks)).results
    assert result.reason.startswith("It begins. It is")
    assert result.reason.endswith("It ends.")
    assert " … " in result.reason
    assert len(result.reason) < 700
    assert len(result.output) > 10_000


def test_all_checks_are_those_of_the_table_and_can_be_sent():
    assert CHECKS
    assert all(receive(io.BytesIO(pickled(check))) is check for check in CHECKS.values())


@pytest.mark.parametrize("name", ["numpy", "tests.conformance.toys:Frozen", "tests.conformance.toy_module"])
def test_adapters_can_be_sent(name):
    (adapter,) = find([name])
    again = receive(io.BytesIO(pickled(adapter)))
    assert (again.name, again.module, again.device) == (adapter.name, adapter.module, adapter.device)


def test_a_module_without_an_adapter_is_checked():
    (report,) = run(find(["tests.conformance.toy_module"]), toys.make_all(toys.environment))
    assert report.name == "tests.conformance.toy_module"
    assert [result.outcome for result in report.results] == [Outcome.PASS]


def test_an_adapter_that_no_other_process_can_import_is_refused():
    class Local(toys.Toy):
        pass

    with pytest.raises(ValueError, match="Local must be in a module"):
        run([Local()], [])


@pytest.mark.parametrize(
    ("code", "words"),
    [(-11, "SIGSEGV"), (-6, "SIGABRT"), (0, "ended the process, with exit status 0"), (-40, "signal 40")],
)
def test_why_a_process_ended_in_words(code, words):
    assert cause_of_death(code) == words
