"""Each check is able to fail: the reference library, broken as a real one might be, fails the very check."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nbdlpack.conformance import CHECKS
from tests.conformance.broken import ROWS, patched

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def judge():
    """Return a function that breaks the library as a row says, and returns the outcome of the check."""
    command = [sys.executable, "-m", "tests.conformance.judge"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(number):
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()
    assert process.returncode == 0


def test_each_check_has_a_row():
    assert {row.check for row in ROWS} == set(CHECKS)


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[f"{row.check}-{i}" for i, row in enumerate(ROWS)])
def test_a_broken_library_fails(judge, number):
    row = ROWS[number]
    patched(row)
    found = judge(number)
    assert found["outcome"] in ("fail", "crash"), f"{row.check}, {CHECKS[row.check].statement}: {found}"
