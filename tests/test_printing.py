# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="func-returns-value"
"""repr and str, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import devices, printing
from tests.arrays import DTYPES, LAYOUTS, pair


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_as_numpy(dtype, layout):
    x, a = pair(dtype, layout)
    assert repr(x) == repr(a)
    assert str(x) == str(a)


@pytest.mark.parametrize(
    "shape",
    [(1001,), (2000, 3), (3, 2000), (7, 200), (6, 200), (8, 200), (30, 40, 5), (2, 2, 2, 300), (0, 5), (1, 5000)],
)
@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.complex64, np.bool])
def test_large_arrays_are_elided(shape, dtype):
    a = (np.arange(int(np.prod(shape))) % 97).reshape(shape).astype(dtype)
    x = nd.asarray(a)
    assert repr(x) == repr(a)
    assert str(x) == str(a)
    assert repr(x.T) == repr(a.T)
    assert repr(x[::-1]) == repr(a[::-1])


def test_only_corners_are_fetched(monkeypatch):
    fetched = []
    cpu = type(devices.named("cpu"))
    to_host = cpu.to_host
    monkeypatch.setattr(cpu, "to_host", lambda self, x: fetched.append(x.size) or to_host(self, x))
    x = nd.zeros((1 << 15, 1 << 15))
    assert "..." in repr(x)
    assert "..." in str(x)
    assert sum(fetched) <= 2 * 7 * 7


@pytest.mark.parametrize(
    "options", [{"threshold": 5}, {"precision": 2}, {"edgeitems": 1, "threshold": 5}, {"linewidth": 30}]
)
def test_numpys_options(options):
    a = np.linspace(0, 1, 60).reshape(6, 10)
    x = nd.asarray(a)
    with np.printoptions(**options):
        assert repr(x) == repr(a)
        assert str(x) == str(a)


def test_subclass():
    class Temperature(nd.ndarray):
        pass

    a = np.arange(40).reshape(2, 20)
    text = repr(nd.asarray(a).view(Temperature))
    expected = repr(a).splitlines()
    assert text.splitlines()[0].startswith("Temperature([[ 0,  1,")
    assert len(text.splitlines()) == len(expected)
    assert [line.strip() for line in text.splitlines()[1:]] == [line.strip() for line in expected[1:]]


def test_device_is_said_where_it_is_not_the_cpu(monkeypatch):
    monkeypatch.setattr(devices, "host", None)
    monkeypatch.setattr(type(devices.named("cpu")), "__str__", lambda self: "tape:1")
    assert repr(nd.arange(2)) == "array([0, 1], device='tape:1')"
    assert str(nd.arange(2)) == "[0 1]"


def test_corners():
    a = np.arange(400).reshape(20, 20)
    assert np.array_equal(printing.corners(nd.asarray(a), 2), a[np.ix_([0, 1, 2, -2, -1], [0, 1, 2, -2, -1])])


@pytest.mark.parametrize(
    "formatter", [{"all": lambda value: "X"}, {"float": lambda value: f"{value:.1f}"}, {"int": hex}]
)
@pytest.mark.parametrize("a", [np.arange(30), np.linspace(0, 1, 2000).reshape(40, 50)], ids=["int", "float"])
def test_formatters(a, formatter):
    for options in ({"threshold": 5}, {}):
        with np.printoptions(formatter=formatter, **options):
            assert repr(nd.asarray(a)) == repr(a)
            assert str(nd.asarray(a)) == str(a)


def test_no_edge_items():
    a = np.full((30, 30), 5)
    with np.printoptions(threshold=5, edgeitems=0):
        assert repr(nd.asarray(a)) == repr(a)
        assert str(nd.asarray(a)) == str(a)
