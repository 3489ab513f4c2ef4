"""Every operation on a GPU that is not the current one, and from threads that have none: what was current stays so."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import nbdlpack as nd
from tests.arrays import assert_same
from tests.cuda.test_blocking import OTHERS, VALUES
from tests.cuda.tools import on_device
from tests.test_devices import ON_ONE_DEVICE

A = np.arange(6.0).reshape(2, 3)
CASES = {**ON_ONE_DEVICE, **{name: OTHERS[name] for name in OTHERS if name not in ("peer", "from NumPy", "pinned")}}


@pytest.fixture
def second(cuda):
    if not nd.is_available("cuda:1"):
        pytest.skip("there is one GPU")
    return nd.Device("cuda:1")


def result(case):
    """Do what a case is about on the second GPU; return what it gives, in host memory."""
    with nd.device("cuda:1"):
        x = nd.asarray(A, device="cuda:1")
        y = x.copy()
        found = CASES[case](x)
        assert not isinstance(found, nd.ndarray) or found.device == "cuda:1"
        assert_same(y.to_device("cpu"), A)
        return found.to_device("cpu")


def current():
    from cuda.bindings import driver

    return driver.cuCtxGetCurrent()


@pytest.mark.parametrize("case", CASES)
def test_with_another_device_current_and_in_a_fresh_thread(second, case):
    expected = result(case)
    with on_device(0):
        before = current()
        found = [result(case)]
        assert current() == before
    errors = []

    def work():
        try:
            before = current()
            found.append(result(case))
            assert current() == before, "a thread without a current GPU has none after it"
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors, errors
    if case != "empty":
        for each in found:
            assert_same(each, expected)


@pytest.mark.parametrize("case", VALUES)
def test_values_with_another_device_current(second, case):
    with nd.device("cuda:1"), on_device(0):
        VALUES[case](nd.asarray(A, device="cuda:1"))
