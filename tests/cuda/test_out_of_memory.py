"""What happens where the GPU's memory runs out: everything is as it was, or as if nothing had been the matter."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import nbdlpack as nd
from tests.arrays import assert_same
from tests.conftest import settle
from tests.cuda.test_blocking import OTHERS
from tests.test_devices import ON_ONE_DEVICE

A = np.arange(6.0).reshape(2, 3)
CASES = {**ON_ONE_DEVICE, **OTHERS}
OTHER_MEMORY = {"peer", "pinned"}  # of these the arrays before stay what they are, but more than one GPU is asked


def shared():
    """Return an array that shares its memory with a lazy copy, and that copy."""
    x = nd.asarray(A, device="cuda")
    return x, x.copy()


def state(hostcuda, *arrays):
    """Return all that a failure must not change."""
    settle()
    gc.collect()
    settle()
    states = [x._state()[:5] for x in arrays]
    return states, hostcuda.stats()["live"], hostcuda.stats()["bytes"], nd.memory_info("cuda").bytes


def allocations(hostcuda, function):
    """Return how many allocations a function makes, on arrays as they are in these tests."""
    x, y = shared()
    before = hostcuda.stats()["allocs"]
    function(x)
    del x, y
    return hostcuda.stats()["allocs"] - before


@pytest.mark.parametrize("case", CASES)
def test_an_allocation_that_fails_once_is_tried_again(cuda, hostcuda, case):
    function = CASES[case]
    with nd.device(cuda):
        expected = function(shared()[0]).to_device("cpu") if case not in {"empty"} else None
        for k in range(1, allocations(hostcuda, function) + 1):
            x, y = shared()
            hostcuda.fail_alloc(k)
            found = function(x)
            hostcuda.clear_fail_alloc()
            if expected is not None:
                assert_same(found.to_device("cpu"), expected.to_device("cpu"))
            assert_same(y.to_device("cpu"), A)


@pytest.mark.hostcuda_nocheck("live")  # what lives is compared below; an error that came through NumPy is kept longer
@pytest.mark.parametrize("case", CASES)
def test_an_allocation_that_fails_leaves_everything_as_it_was(cuda, hostcuda, case):
    function = CASES[case]
    with nd.device(cuda):
        for k in range(1, allocations(hostcuda, function) + 1):
            x, y = shared()
            before = state(hostcuda, x, y)
            hostcuda.fail_alloc(k, 0)
            with pytest.raises(MemoryError, match="could not be allocated"):
                function(x)
            hostcuda.clear_fail_alloc()
            assert state(hostcuda, x, y) == before, f"allocation {k}"
            assert_same(x.to_device("cpu"), A)
            assert_same(y.to_device("cpu"), A)
            function(x)
            assert_same(y.to_device("cpu"), A)


def test_the_error_says_how_much_there_is(cuda, hostcuda):
    hostcuda.fail_alloc(1, 0)
    words = r"an array of 8000 bytes could not be allocated on cuda: of \d+ bytes .*, \d+ are free"
    with pytest.raises(MemoryError, match=words):
        nd.empty(1000, device=cuda)
    hostcuda.clear_fail_alloc()
    with pytest.raises(MemoryError, match="more bytes than a machine can have"):
        nd.empty((1 << 40, 1 << 40), device=cuda)


def test_users_are_asked_to_let_go_of_something(cuda, hostcuda):
    kept = [nd.ones(1000, device=cuda)]
    asked = []

    def let_go(nbytes):
        asked.append(nbytes)
        kept.clear()
        return True

    remove = nd.add_memory_callback(let_go)
    try:
        hostcuda.fail_alloc(1)
        x = nd.zeros(1000, device=cuda)
    finally:
        remove()
    assert asked == [8000]
    assert x.tolist() == [0] * 1000
    hostcuda.fail_alloc(1)
    nd.zeros(1000, device=cuda)
    assert asked == [8000], "no more"


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a[1:].__iadd__(a[:-1]),
        lambda a: a.sum(axis=0, out=a[0]),
        lambda a: nd.add(a[0], np.arange(100), out=a[1]),
        lambda a: nd.add(a, 1, out=a[:, ::-1]),
    ],
)
def test_a_write_to_a_part_that_fails_moves_nothing(cuda, hostcuda, write):
    for k in range(1, 6):
        a = nd.arange(1000.0, device=cuda).reshape(10, 100)
        b = a.copy()
        before = state(hostcuda, a, b)
        hostcuda.fail_alloc(k, 0)
        try:
            write(a)
            failed = False
        except MemoryError:
            failed = True
        hostcuda.clear_fail_alloc()
        assert not failed or state(hostcuda, a, b) == before
        del a, b
