# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="attr-defined, var-annotated"
"""Pickles of arrays."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import devices, pickling
from tests.arrays import DTYPES, LAYOUTS, assert_same, bits, pair

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


class Labelled(nd.ndarray):
    """An array with a name, as subclasses have them."""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype, layout):
    x, a = pair(dtype, layout)
    for protocol in PROTOCOLS:
        y = pickle.loads(pickle.dumps(x, protocol))
        assert_same(y, a)
        assert y.flags.writeable
        assert y.device == x.device
        if a.size:
            y[...] = 0
            assert bits(x) == bits(a)
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    y = pickle.loads(data, buffers=buffers)
    assert_same(y, a)
    y.fill(0)
    assert bits(x) == bits(a)


def test_order_is_kept():
    x = nd.arange(6).reshape(2, 3)
    for y in (x, x.T):
        z = pickle.loads(pickle.dumps(y))
        assert (z.flags.c_contiguous, z.flags.f_contiguous) == (y.flags.c_contiguous, y.flags.f_contiguous)


def test_views_are_compact():
    x = nd.zeros(100_000)
    assert len(pickle.dumps(x[::1000])) < 2000
    assert len(pickle.dumps(x[5:10])) < 1000


def test_out_of_band_shares():
    x = nd.arange(1000)
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(data) < 500
    assert len(buffers) == 1
    with nd.no_copies():
        y = pickle.loads(data, buffers=buffers)
    assert nd.is_shared(y), "a lazy copy"
    y[0] = 5
    assert x[0] == 0


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_buffers_that_were_sent(kind):
    x = nd.arange(1000)
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    sent = [kind(buffer) for buffer in buffers]
    y = pickle.loads(data, buffers=sent)
    y += 1
    assert y.tolist() == list(range(1, 1001))
    assert sent[0] == bytes(x)


def test_a_read_only_buffer_that_others_write_to_is_copied():
    x = nd.arange(4)
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    memory = bytearray(buffers[0])
    y = pickle.loads(data, buffers=[memoryview(memory).toreadonly()])
    memory[0] = 99
    assert y.tolist() == [0, 1, 2, 3]
    assert y.flags.writeable


def test_a_misaligned_buffer_is_copied():
    x = nd.arange(4)
    buffers = []
    data = pickle.dumps(x, 5, buffer_callback=buffers.append)
    memory = bytearray(b"." + bytes(buffers[0]))
    y = pickle.loads(data, buffers=[memoryview(memory)[1:]])
    assert y.flags.aligned
    assert y.tolist() == [0, 1, 2, 3]


def test_read_only_arrays_load_writable():
    y = pickle.loads(pickle.dumps(nd.readonly(nd.arange(3))))
    y[0] = 1
    assert y.tolist() == [1, 1, 2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_subclass(protocol):
    x = nd.arange(3).view(Labelled)
    x.label = "name"
    y = pickle.loads(pickle.dumps(x, protocol))
    assert type(y) is Labelled
    assert y.label == "name"
    assert y.tolist() == [0, 1, 2]


def test_a_missing_device_loads_on_the_cpu():
    args = (nd.ndarray, np.arange(3).tobytes(), "int64", (3,), "C", "tape:7")
    with pytest.warns(UserWarning, match="an array pickled on device 'tape:7' is loaded on 'cpu': there is no device"):
        x = pickling.restore(*args)
    assert x.device == "cpu"
    assert x.tolist() == [0, 1, 2]


def test_devices_and_dtypes_are_picklable():
    assert pickle.loads(pickle.dumps(devices.named("cpu"))) is devices.named("cpu")
    assert pickle.loads(pickle.dumps(nd.zeros(1, nd.bfloat16).dtype)) == nd.bfloat16


def test_a_deep_copy_of_what_leads_back_to_itself():
    x = nd.arange(3).view(Labelled)
    x.label = [x, {"again": x}]
    y = copy.deepcopy(x)
    assert y is not x
    assert y.label[0] is y
    assert y.label[1]["again"] is y
    pair = [nd.arange(2)] * 2
    first, second = copy.deepcopy(pair)
    assert first is second
    assert first is not pair[0]


@pytest.mark.parametrize("shape", [(), (1,), (8,), (2, 3)])
@pytest.mark.parametrize("data", [b"", b"1234", bytes(24), bytes(64)], ids=len)
def test_data_of_another_size_is_refused(shape, data):
    x = nd.zeros(shape, dtype=nd.float32)
    pickled = pickle.dumps(x, 5, buffer_callback=lambda _: None)
    if len(data) == x.nbytes:
        assert pickle.loads(pickled, buffers=[data]).shape == shape
        return
    with pytest.raises(ValueError, match=f"data has {len(data)} bytes"):
        pickle.loads(pickled, buffers=[data])
