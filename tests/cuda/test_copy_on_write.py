"""Lazy copies on the GPU: what they cost, and what the first write does."""

from __future__ import annotations

import numpy as np
import pytest

import nbdlpack as nd
from tests.arrays import assert_same

A = np.arange(1000.0)


class Counts:
    """What was allocated, launched and copied by the driver inside a block."""

    def __init__(self, hostcuda):
        self.hostcuda = hostcuda

    def __enter__(self):
        nd.synchronize("cuda")
        self.before = self.hostcuda.stats()
        return self

    def __exit__(self, *error):
        after = self.hostcuda.stats()
        self.allocations, self.launches = (after[name] - self.before[name] for name in ("allocs", "launches"))
        self.copies = sum(after[name] - self.before[name] for name in ("d2d", "p2p", "h2d", "d2h", "memsets"))


@pytest.fixture
def counts(cuda, hostcuda):
    x = nd.asarray(A, device=cuda)
    y = x.copy()
    y[0] = -1  # what has to be compiled is compiled here
    del x, y
    return lambda: Counts(hostcuda)


def test_a_copy_launches_and_allocates_nothing(counts, cuda):
    x = nd.asarray(A, device=cuda)
    with counts() as found:
        y = x.copy()
    assert (found.allocations, found.launches, found.copies) == (0, 0, 0)
    assert nd.is_shared(x)
    assert nd.is_shared(y)


@pytest.mark.parametrize("write", ["element", "slice", "in place", "out", "export", "materialize", "address"])
def test_the_first_write_allocates_once_and_copies_once(counts, cuda, write):
    one = nd.ones(1000, device=cuda)

    def element(x):
        x[3] = 5

    def part(x):
        x[10:20] = 5

    def in_place(x):
        x[1:] += one[1:]

    def out(x):
        np.add(x[1:], one[1:], out=x[1:])

    ways = {"element": element, "slice": part, "in place": in_place, "out": out}
    ways |= {"export": lambda x: x.__dlpack__(), "materialize": nd.materialize, "address": lambda x: x.ptr}
    function = ways[write]
    function(nd.asarray(A, device=cuda))  # compiles
    x = nd.asarray(A, device=cuda)
    function(x)
    alone = x.to_device("cpu")
    x = nd.asarray(A, device=cuda)
    y = x.copy()
    with counts() as found:
        kept = function(x)
    temporaries = 1 if write in ("in place", "out") else 0  # none: they are read as they are written
    assert found.allocations in (1, 1 + temporaries)
    assert found.copies == 0, "by a kernel"
    assert found.launches == (1 if write in ("export", "materialize", "address") else 2)
    assert not nd.is_shared(x)
    assert_same(x.to_device("cpu"), alone)
    assert_same(y.to_device("cpu"), A)
    with counts() as again:
        kept = function(x)
    assert again.allocations <= temporaries, "the second write is in place"
    del kept


def test_what_is_overwritten_is_not_copied(counts, cuda):
    x = nd.asarray(A, device=cuda)
    y = x.copy()
    before = nd.copy_stats()
    with counts() as found:
        x[...] = 7
    assert (found.allocations, found.launches) == (1, 1)
    assert nd.copy_stats() == before
    assert_same(y.to_device("cpu"), A)
    assert_same(x.to_device("cpu"), np.full_like(A, 7))


def test_reading_does_neither(counts, cuda):
    from numba import cuda as numba_cuda

    @numba_cuda.jit
    def read(x, out):
        out[0] = x[3]

    x = nd.asarray(A, device=cuda)
    out = nd.zeros(1, device=cuda)
    with pytest.warns(match="Grid size 1"):
        launch = read[1, 1]
    launch(nd.readonly(x), out)
    y = x.copy()
    with counts() as found:
        kept = [nd.readonly(x).__dlpack__(max_version=(1, 0)), nd.dlpack.ReadOnlyTensorWrapper(x).__dlpack__()]
        kept += [nd.readonly(x).__cuda_array_interface__, x[::2], x.T, nd.is_shared(x), repr(x.shape)]
        launch(nd.readonly(x), out)
    assert (found.allocations, found.launches, found.copies) == (0, 1, 0)
    assert nd.is_shared(x)
    assert nd.is_shared(y)


def test_no_copies_are_forbidden_here_too(cuda):
    x = nd.asarray(A, device=cuda)
    y = x.copy()
    with nd.no_copies(), pytest.raises(nd.errors.CopyError, match="would be copied on cuda"):
        x[0] = 1
    with nd.copy_log() as log:
        x[0] = 1
    assert [(c.nbytes, c.source, c.target) for c in log] == [(8000, "cuda", "cuda")]
    assert_same(y.to_device("cpu"), A)
