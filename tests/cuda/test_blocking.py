"""Which operations wait for the GPU: those of the table in the README, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.devices.kernelled.moving import BLOCKING
from tests.arrays import assert_same
from tests.test_devices import ON_ONE_DEVICE

# What needs a value of the GPU, or is left to NumPy: rows of `BLOCKING`.
BLOCKS = {"matmul", "ufunc.reduce", "ufunc.at", "mask", "pickle", "pickle of Fortran's order"}

OTHERS = {
    "empty": lambda x: nd.empty(3),
    "zeros": lambda x: nd.zeros((2, 3)),
    "full": lambda x: nd.full((2, 3), 7),
    "arange": lambda x: nd.arange(2, 9, 3),
    "eye": lambda x: nd.eye(3),
    "views": lambda x: x.T[::-1].reshape(3, 2)[1:],
    "a scalar at a mask": lambda x: x.__setitem__(x > 2, 0) or x,
    "an index array of NumPy": lambda x: x[np.array([1, 0])],
    "a write at an index array of NumPy": lambda x: x.__setitem__(np.array([1, 0]), 4) or x,
    "the first write after a lazy copy": lambda x: [x.copy(), x.fill(2)][0],
    "materialize": lambda x: [nd.materialize(x), x][1],
    "std": lambda x: x.std(0),
    "export": lambda x: [x.__dlpack__(stream=1), x][1],
    "interface": lambda x: [x.__cuda_array_interface__, x][1],
    "is_shared": lambda x: [nd.is_shared(x), nd.shares_memory(x, x), x][2],
    "clip": lambda x: x.clip(1, 2),
    "round": lambda x: x.round(),
    "concat along the last axis": lambda x: nd.concat([x, x], axis=1),
    "from NumPy": lambda x: nd.asarray(np.arange(3.0), device="cuda"),
    "peer": lambda x: x.to_device("cuda:1").to_device("cuda:0"),
    "pinned": lambda x: x.to_device("cuda_host").to_device("cuda"),
}


def array():
    return nd.asarray(np.arange(6.0).reshape(2, 3), device="cuda")


@pytest.mark.parametrize("case", [*ON_ONE_DEVICE, *OTHERS])
def test_what_waits_for_the_gpu(cuda, hostcuda, case):
    function = {**ON_ONE_DEVICE, **OTHERS}[case]
    with nd.device(cuda):
        function(array())  # what compiles a kernel may wait
        x = array()
        nd.synchronize(cuda)
        before = hostcuda.stats()["syncs"]
        found = function(x)
        waited = hostcuda.stats()["syncs"] - before
        assert (waited > 0) is (case in BLOCKS)
    if case in ON_ONE_DEVICE:
        assert found.device == cuda
        assert_same(found, ON_ONE_DEVICE[case](nd.asarray(np.arange(6.0).reshape(2, 3), copy=True)).to_device("cpu"))


VALUES = {
    "repr": repr,
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x[0, 0].item(),
    "bool": lambda x: bool(x[0, 1]),
    "int": lambda x: int(x[0, 1]),
    "to the host": lambda x: x.to_device("cpu"),
    "numpy.array": np.array,
    "an index array on the device": lambda x: x[nd.asarray([1, 0])],
    "a write at an index array on the device": lambda x: x.__setitem__(nd.asarray([1, 0]), 4),
    "nonzero": lambda x: x.nonzero(),
    "values at a mask": lambda x: x.__setitem__(x > 2, nd.asarray([1.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("case", VALUES)
def test_what_needs_a_value_waits_for_it(cuda, hostcuda, case):
    with nd.device(cuda):
        x = array()
        nd.synchronize(cuda)
        before = hostcuda.stats()["syncs"]
        VALUES[case](x)
        assert hostcuda.stats()["syncs"] > before


def test_the_readme_has_the_table():
    readme = Path(__file__).parents[2].joinpath("README.md").read_text()
    rows = re.findall(r"^\| (.*?) \| wait ", readme, re.MULTILINE)
    assert len(rows) == len(BLOCKING)
