"""A program as users write it, with the types they may rely on: mypy checks this file, and it runs."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import nbdlpack as nd


def test_results_are_arrays():
    x = assert_type(nd.arange(6, dtype=nd.float32), nd.ndarray)
    assert_type(x + 1, nd.ndarray)
    assert_type(1 - x, nd.ndarray)
    assert_type(x < 3, nd.ndarray)
    assert_type(x[1:], nd.ndarray)
    assert_type(x.reshape(2, 3).T, nd.ndarray)
    assert_type(x.copy(), nd.ndarray)
    assert_type(nd.sqrt(x), nd.ndarray)
    assert_type(x.sum(), nd.ndarray)
    assert_type(nd.readonly(x), nd.ndarray)


def test_attributes():
    x = nd.zeros((2, 3))
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.strides, tuple[int, ...])
    assert_type(x.nbytes, int)
    assert_type(x.device, nd.Device)
    assert_type(nd.is_shared(x), bool)
    assert_type(float(x[0, 0]), float)


def test_exchange():
    x = nd.from_dlpack(np.ones(3))
    a = np.from_dlpack(x)
    a[0] = 2
    y = nd.from_dlpack(x, copy=True)
    assert_type(x.__dlpack_device__(), tuple[int, int])
    with nd.copy_log() as log, nd.no_copies():
        assert_type(y[::2], nd.ndarray)
    assert not [copy.nbytes + len(copy.cause) for copy in log]
