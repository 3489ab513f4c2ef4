# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="call-arg, operator"
"""What becomes of subclasses."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import native


class Labelled(nd.ndarray):
    """A subclass with attributes."""

    label = "none"

    def __init__(self):
        raise AssertionError("no __init__ is run")


@pytest.fixture
def x():
    x = nd.arange(12).reshape(3, 4).view(Labelled)
    x.label = "name"
    return x


VIEWS = {
    "slice": lambda x: x[1:],
    "row": lambda x: x[0],
    "element": lambda x: x[0, 0],
    "T": lambda x: x.T,
    "reshape": lambda x: x.reshape(-1),
    "ravel": lambda x: x.ravel(),
    "squeeze": lambda x: x.squeeze(),
    "iteration": lambda x: next(iter(x)),
    "bytes": lambda x: x.view(np.int32),
    "broadcast": lambda x: nd.broadcast_to(x, (2, 3, 4)),
    "readonly": nd.readonly,
    "flip": nd.flip,
    "copy": lambda x: x.copy(),
    "eager copy": lambda x: x.copy("F"),
    "nd.copy": nd.copy,
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "astype": lambda x: x.astype(float),
    "flatten": lambda x: x.flatten(),
    "real": lambda x: x.real,
    "empty_like": nd.empty_like,
    "asarray": nd.asarray,
}
RESULTS = {
    "add": lambda x: x + x,
    "scalar": lambda x: x + 1,
    "reflected": lambda x: 1 + x,
    "numpy": lambda x: np.arange(4) + x,
    "compare": lambda x: x == x,
    "negative": lambda x: -x,
    "ufunc": np.sqrt,
    "sum": lambda x: x.sum(),
    "reduce": np.add.reduce,
    "index array": lambda x: x[[0, 1]],
    "mask": lambda x: x[x > 3],
    "concat": lambda x: nd.concat([x, x]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_copies_are_of_the_subclass(name, x):
    assert type(VIEWS[name](x)) is Labelled


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_plain(name, x):
    assert type(RESULTS[name](x)) is nd.ndarray


def test_attributes(x):
    assert x[1:].label == "none"
    assert x.copy().label == "none"
    assert copy.copy(x).label == "name"
    x.label = ["deep"]
    assert copy.copy(x).label is x.label
    assert copy.deepcopy(x).label == x.label
    assert copy.deepcopy(x).label is not x.label
    assert x.view(nd.ndarray)[0, 0] == 0
    x += 1
    assert type(x) is Labelled


def test_not_made_by_calling():
    with pytest.raises(TypeError, match=r"Labelled is not made by calling it: .* x\.view\(cls\)"):
        Labelled(3)


def test_subclass_that_overrides_ufuncs():
    class Loud(nd.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            result = super().__array_ufunc__(ufunc, method, *inputs, **options)
            return "loud", result

    x, y = nd.arange(3).view(Loud), nd.arange(3)
    for result in (x + y, y + x, np.add(y, x), x + 1, 1 + x, np.negative(x), y + x):
        assert result[0] == "loud"
        assert type(result[1]) is nd.ndarray


def test_subclass_that_overrides_the_export():
    class Refusing(nd.ndarray):
        def __dlpack__(self, **options):
            raise BufferError("never")

    class Elsewhere(nd.ndarray):
        def __dlpack_device__(self):
            return (1, 0)

    class Plain(nd.ndarray):
        pass

    assert Refusing.__dlpack_c_exchange_api__ is native.OVERRIDDEN_EXCHANGE_API
    assert Elsewhere.__dlpack_c_exchange_api__ is native.OVERRIDDEN_EXCHANGE_API
    assert Plain.__dlpack_c_exchange_api__ is nd.ndarray.__dlpack_c_exchange_api__
    with pytest.raises(BufferError, match="never"):
        np.from_dlpack(nd.zeros(3).view(Refusing))


def test_writing_makes_no_instance_of_a_subclass():
    died = []

    class Counted(nd.ndarray):
        def __del__(self):
            died.append(self.shape)

    x = nd.zeros((2, 3)).view(Counted)
    x[0] = 1
    x[1, 1:] = 2
    x[...] = 3
    assert died == []
