"""This library passes every check, on each device, with read-only arrays and with the wrapper for read-only exports."""

from __future__ import annotations

import pytest

from nbdlpack.conformance import CHECKS
from nbdlpack.conformance.adapters import Nbdlpack
from nbdlpack.conformance.results import Outcome
from nbdlpack.conformance.running import Worker
from tests import hostcuda
from tests.conformance.ours import OnHostCuda, Wrapped

EXCEPTIONS: dict[type[Nbdlpack], dict[Outcome, str]] = {
    Nbdlpack: {Outcome.NOT_APPLICABLE: "P05 P13 P50 W13 W14", Outcome.REFUSED: "P25 C08 C09"},
    OnHostCuda: {
        Outcome.NOT_APPLICABLE: "P05 P13 P19 P46 C22 C71 C73 C78 C82 C83 L03 L26 W13 W14 W23 W24 W28 W29 W30 W35",
        Outcome.REFUSED: "P25 C08 C09",
    },
    Wrapped: {Outcome.NOT_APPLICABLE: "W14", Outcome.REFUSED: "W34"},
}
"""What there is nothing to check of, and what is declined, for each way: the checks' ids."""


@pytest.fixture(scope="module")
def worker(request):
    if request.param is OnHostCuda and not hostcuda.installed():
        pytest.skip("the driver that runs on the CPU is not here")
    with Worker(OnHostCuda("cuda") if request.param is OnHostCuda else request.param()) as worker:
        yield worker


@pytest.mark.parametrize(
    ("worker", "id"),
    [
        pytest.param(kind, id, marks=[pytest.mark.slow] if kind is OnHostCuda and id[0] == "L" else [])
        for kind in EXCEPTIONS
        for id in CHECKS
        if kind is not Wrapped or id[0] == "W"
    ],
    indirect=["worker"],
    ids=lambda value: getattr(value, "name", value),
)
def test_it_passes(worker, id):
    result = worker.check(CHECKS[id])
    exceptions = EXCEPTIONS[type(worker.adapter)]
    due = next((outcome for outcome, ids in exceptions.items() if id in ids.split()), Outcome.PASS)
    assert (result.outcome, result.reason) == (due, result.reason)
