"""The pytest plugin: another project's tests, in which each check of a library is one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOY, OTHER, MISSING = (f"tests.conformance.toys:{name}" for name in ("Toy", "Unforkable", "Missing"))

IDS = ("P91", "P92", "C93", "L94", "W95", "X96")
"""The checks of tests.conformance.toy_checks, which are the only ones in the project's tests."""

CONFTEST = """
from nbdlpack.conformance import CHECKS
CHECKS.clear()
import tests.conformance.toy_checks
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    return tmp_path


class Session:
    """A run of pytest in a project: its exit status, and the outcomes by the names of tests."""

    def __init__(self, project: Path, *arguments: str, options: tuple[str, ...] = ("-p", "nbdlpack_pytest")) -> None:
        command = [sys.executable, "-m", "pytest", *options, "-rA", "-p", "no:cacheprovider", *arguments]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        environment.pop("PYTEST_ADDOPTS", None)
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        self.status, self.output, self.errors = done.returncode, done.stdout, done.stderr
        lines = re.findall(r"^([A-Z]+) (dlpack::\S+|test_\S+)(?: - (.*))?$", done.stdout, re.MULTILINE)
        self.outcomes = {name: outcome for outcome, name, _ in lines}
        self.reasons = {name: reason for _, name, reason in lines}
        self.skips = re.findall(r"^SKIPPED \[\d+\] \S+ (.*)$", done.stdout, re.MULTILINE)


def test_each_check_is_a_test(project):
    session = Session(project, "--dlpack-module", TOY)
    assert session.outcomes == {
        "test_own.py::test_own": "PASSED",
        f"dlpack::{TOY}::P91": "PASSED",
        f"dlpack::{TOY}::P92": "FAILED",
        f"dlpack::{TOY}::W95": "FAILED",
        f"dlpack::{TOY}::X96": "FAILED",
    }
    assert session.status == 1
    assert session.reasons[f"dlpack::{TOY}::P92"].endswith("strides are NULL")
    assert session.reasons[f"dlpack::{TOY}::X96"].endswith("SIGABRT: free(): double free detected")
    assert session.skips == [
        "refused: BufferError: not <that>",
        "not applicable: there is nothing to let go of",
    ]


def test_a_failure_is_its_reason_without_a_traceback(project):
    output = Session(project, "--dlpack-module", TOY, "-k", "P92 or X96").output
    assert "strides are NULL\nP92: the strides are there [numpy#22507; wrong]\n" in output
    assert f"__ {TOY}::P92 __" in output
    assert "printed" in output
    assert ".py:" not in output
    assert "Traceback" not in output


def test_several_modules(project):
    session = Session(project, "--dlpack-module", TOY, "--dlpack-module", OTHER, "-k", "P91")
    assert session.outcomes == {f"dlpack::{TOY}::P91": "PASSED", f"dlpack::{OTHER}::P91": "PASSED"}
    assert session.status == 0


@pytest.mark.parametrize("where", ["ini", "option"])
def test_known_failures_are_expected(project, where):
    ids = ["P92", "W95", f"{TOY}::X96"]
    options = ["--dlpack-xfail", "P92,W95", "--dlpack-xfail", ids[2]]
    if where == "ini":
        (project / "pytest.ini").write_text(f"[pytest]\ndlpack_xfail = {' '.join(ids)}\n")
        options = []
    session = Session(project, "--dlpack-module", TOY, *options)
    assert session.status == 0
    assert [session.outcomes[f"dlpack::{TOY}::{id}"] for id in ("P92", "W95", "X96")] == ["XFAIL"] * 3


def test_a_known_failure_that_is_gone_is_reported(project):
    session = Session(project, "--dlpack-module", TOY, "--dlpack-xfail", "P91", "-k", "P91")
    assert session.status == 1
    assert "XPASS(strict)" in session.output


def test_a_failure_known_of_one_module_is_none_of_another(project):
    modules = ["--dlpack-module", TOY, "--dlpack-module", OTHER]
    session = Session(project, *modules, "--dlpack-xfail", f"{TOY}::P92", "-k", "P92")
    assert session.outcomes == {f"dlpack::{TOY}::P92": "XFAIL", f"dlpack::{OTHER}::P92": "FAILED"}


def test_tests_are_collected_without_running(project):
    session = Session(project, "--dlpack-module", MISSING, "--collect-only", "-q")
    assert session.status == 0
    assert session.output.splitlines()[:7] == ["test_own.py::test_own", *(f"dlpack::{MISSING}::{id}" for id in IDS)]


def test_a_library_that_cannot_be_imported_fails_every_test(project):
    session = Session(project, "--dlpack-module", MISSING, "-k", "P91 or C93")
    assert set(session.outcomes.values()) == {"FAILED"}
    assert len(session.outcomes) == 2
    assert session.output.count("cannot be imported: ImportError: libtoy.so.3") >= 2


def test_tests_are_shared_among_processes(project):
    pytest.importorskip("xdist")
    options = ("-p", "nbdlpack_pytest", "-p", "xdist")
    alone, shared = (Session(project, "--dlpack-module", TOY, *more, options=options) for more in ([], ["-n", "2"]))
    assert shared.outcomes == alone.outcomes
    assert shared.reasons == alone.reasons
    assert sorted(shared.skips) == sorted(alone.skips)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dlpack-module", "no_such_module"], "no_such_module"),
        (
            ["--dlpack-module", TOY, "--dlpack-xfail", "P17"],
            "dlpack_xfail names P17, but there are only the checks P91",
        ),
    ],
)
def test_wrong_usage_is_refused(project, arguments, message):
    session = Session(project, *arguments)
    assert session.status == 4
    assert message in session.errors
    assert "Traceback" not in session.errors


def test_nothing_is_imported_unless_asked_for(tmp_path):
    (tmp_path / "test_own.py").write_text(
        "import sys\n\ndef test_own():\n"
        "    assert 'nbdlpack_pytest' in sys.modules\n    assert 'nbdlpack' not in sys.modules\n"
    )
    session = Session(tmp_path)
    assert (session.status, session.outcomes) == (0, {"test_own.py::test_own": "PASSED"})
