"""Any allocation may fail, the smallest too, and everything is as it was."""

from __future__ import annotations

import pytest

from tests.memory.tools import report

PROGRAM = "from tests.memory import starving; starving.main()"


@pytest.fixture(scope="module")
def outcome():
    return report(PROGRAM, NBDLPACK_COUNT_BLOCKS="1")


def test_everything_survives_the_failure_of_each_allocation(outcome):
    assert {name: result for name, result in outcome.items() if not isinstance(result, int)} == {}


def test_the_allocations_that_fail_are_those_that_are_made(outcome):
    assert outcome["empty, own"] >= 2, "a block and an array"
    assert outcome["lazy copy, own"] >= 2
    assert outcome["write, own"] > outcome["write, alone, own"] - 2
    assert sum(outcome.values()) > 500
