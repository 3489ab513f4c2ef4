# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="call-overload"
"""What brackets read and write, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nbdlpack as nd
from tests.arrays import DTYPES, LAYOUTS, Thing, assert_same, bits, pair, same_outcome, values

BASIC = {
    "int": 1,
    "negative int": -1,
    "numpy int": np.int8(1),
    "0-d array": np.array(1),
    "slice": slice(1, 3),
    "step": slice(None, None, 2),
    "backwards": slice(None, None, -1),
    "backwards from": slice(-2, None, -2),
    "beyond": slice(1, 99),
    "empty": slice(3, 1),
    "all": slice(None),
    "ellipsis": ...,
    "newaxis": None,
    "no key": (),
    "pair": (1, 2),
    "row slice": (slice(None), 1),
    "ellipsis last": (..., 1),
    "ellipsis first": (1, ...),
    "mixed": (None, slice(1, None), ..., None, slice(None, None, -1)),
    "too many": (1, 1, 1, 1),
    "out of bounds": 99,
    "out of bounds below": (0, -99),
    "float": 1.0,
    "string": "a",
    "two ellipses": (..., ...),
    "zero step": slice(None, None, 0),
    "float slice": slice(1.0, 2.0),
}
ADVANCED = {
    "list": [1, 0],
    "index array": np.array([[0, 1], [1, 0]]),
    "negative indices": np.array([-1, 0]),
    "unsigned": np.array([1, 0], np.uint8),
    "empty list": [],
    "pair of arrays": (np.array([0, 1]), np.array([1, 0])),
    "broadcast": (np.array([[0], [1]]), np.array([1, 0])),
    "array and slice": (np.array([0, 1]), slice(None)),
    "slice and array": (slice(None), np.array([1, 1, 0])),
    "array and int": (np.array([0, 1]), 1),
    "array, newaxis": (np.array([0, 1]), None),
    "mask": np.array([True, False, True, True]),
    "mask of all": np.arange(24).reshape(4, 6) % 3 == 0,
    "mask and int": (np.array([True, False, False, True]), 1),
    "true": True,
    "false": False,
    "numpy true": np.True_,
    "list of bool": [True, False, False, True],
    "ix": np.ix_([0, 1], [1, 0]),
    "out of bounds": [99],
    "wrong mask": np.array([True]),
    "float array": np.array([1.0]),
}


def ours(key):
    """Return a key with its NumPy arrays as arrays of ours."""
    if isinstance(key, tuple):
        return tuple([ours(k) for k in key])
    return nd.array(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key", BASIC.values(), ids=BASIC)
def test_basic_reads(key, layout):
    x, a = pair(np.float32, layout)
    same_outcome(lambda: x[key], lambda: a[key])
    same_outcome(lambda: x[ours(key)], lambda: a[key])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key", ADVANCED.values(), ids=ADVANCED)
def test_advanced_reads(key, layout):
    x, a = pair(np.float32, layout)
    same_outcome(lambda: x[key], lambda: a[key])
    same_outcome(lambda: x[ours(key)], lambda: a[key])


@pytest.mark.parametrize("key", [*BASIC.values(), *ADVANCED.values()], ids=[*BASIC, *ADVANCED])
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
def test_writes(key, layout):
    """Also through our own keys; a write that fails leaves all as it was."""
    for convert in (lambda k: k, ours):
        x, a = pair(np.float32, layout)
        y = x.copy()
        try:
            a[key] = 77
        except (IndexError, TypeError, ValueError) as error:
            with pytest.raises(tuple({IndexError, TypeError, ValueError} & set(type(error).__mro__))):
                x[convert(key)] = 77
        else:
            x[convert(key)] = 77
        assert_same(x, a)
        assert bits(y) == bits(pair(np.float32, layout)[1]), "a lazy copy keeps what it was"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_dtype(dtype):
    x, a = pair(dtype)
    for key in (1, slice(None, None, 2), [2, 0], (slice(None), [1, 0]), values(np.int8) > 2):
        assert_same(x[key], a[key])
    x[1:3, ::2] = values(dtype)[:2, :3]
    a[1:3, ::2] = values(dtype)[:2, :3]
    x[[0, 3]] = x[[1, 2]]
    a[[0, 3]] = a[[1, 2]]
    assert_same(x, a)


def test_basic_keys_give_views():
    x = nd.zeros((3, 4))
    for part in (x[1], x[1, 2], x[..., 0], x[None], x[::2], x[()]):
        assert nd.shares_memory(x, part)
        assert type(part) is nd.ndarray
    x[1][2] = 5
    x[1, 2][...] += 1
    assert x[1, 2] == 6
    assert not nd.shares_memory(x, x[[0]])


def test_results_are_aligned():
    x = nd.arange(100)
    assert x[[3, 4]]._state()[0] % 256 == 0
    assert x[x > 5]._state()[0] % 256 == 0


@given(hnp.array_shapes(max_dims=4, max_side=4, min_side=0), st.data())
def test_any_basic_key(shape, data):
    a = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    x = nd.array(a)
    assert_same(x[key], a[key])
    x[key], a[key] = 99, 99
    assert_same(x, a)


@given(hnp.array_shapes(max_dims=3, max_side=4), st.data())
def test_any_index_array(shape, data):
    a = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    key = data.draw(hnp.integer_array_indices(shape))
    x = nd.array(a)
    assert_same(x[tuple([nd.array(k) for k in key])], a[key])
    x[key], a[key] = a[key] + 1, a[key] + 1
    assert_same(x, a)


@pytest.mark.parametrize(
    "value",
    [3, 2.5, True, [1, 2, 3], [[1], [2]], np.arange(3), np.float64(2), np.ones((1, 3)), np.ones(4), "7", None, 300, 1j],
    ids=repr,
)
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex64, nd.bfloat16], ids=lambda d: d.__name__)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_values_are_converted_as_numpy_does(dtype, value):
    for key in (slice(None), ..., (slice(None), slice(0, 3)), [0, 1]):
        x, a = nd.zeros((2, 3), dtype), np.zeros((2, 3), dtype)
        try:
            a[key] = value
        except (TypeError, ValueError, OverflowError) as error:
            with pytest.raises(tuple({TypeError, ValueError, OverflowError} & set(type(error).__mro__))):
                x[key] = value
        else:
            x[key] = nd.array(value) if isinstance(value, np.ndarray) else value
        assert_same(x, a)


OVERLAPS = {
    "forwards": (slice(1, None), slice(None, -1)),
    "backwards": (slice(None, -1), slice(1, None)),
    "reversed": (slice(None), slice(None, None, -1)),
    "strided": (slice(None, 4), slice(1, None, 2)),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("to", "source"), OVERLAPS.values(), ids=OVERLAPS)
def test_overlapping_assignment_reads_first(to, source, shared):
    x, a = nd.arange(8), np.arange(8)
    y = x.copy() if shared else None
    x[to], a[to] = x[source], a[source].copy()
    assert_same(x, a)
    x, a = nd.arange(8), np.arange(8)
    indices = np.arange(8)[to]
    x[nd.array(indices)] = x[source]
    a[indices] = a[source].copy()
    assert_same(x, a)
    assert y is None or y.tolist() == list(range(8))


@pytest.mark.parametrize("key", [..., slice(None), 0, [0, 1], slice(1, 2)])
def test_read_only_refuses(key):
    x = nd.readonly(nd.arange(3))
    with pytest.raises(ValueError, match=r"assignment destination is read-only: .*x\.copy\(\)"):
        x[key] = 1
    y = x.copy()
    y[key] = 1
    assert x.tolist() == [0, 1, 2]


def test_writing_everything_copies_nothing():
    x = nd.zeros(1000)
    y = x.copy()
    with nd.no_copies():
        x[...] = 1
        assert not nd.is_shared(x)
        z = x.copy()
        x[:] = nd.arange(1000)
        w = x.copy()
        x.fill(3)
        v = x.copy()
        np.add(x, 1, out=x)
    assert [int(a[1]) for a in (y, z, w, v, x)] == [0, 1, 1, 3, 4]


def test_a_failed_write_of_everything_changes_nothing():
    x = nd.arange(3)
    y = x.copy()
    before = x._state()
    with pytest.raises(ValueError, match="broadcast"):
        x[...] = [1, 2]
    with pytest.raises(ValueError, match="invalid literal"):
        x[...] = "no"
    assert x._state() == before
    assert nd.is_shared(y)


def test_writing_through_a_view_moves_all_views():
    x = nd.arange(4)
    part, y = x[1:], x.copy()
    part[0] = 9
    assert x.tolist() == [0, 9, 2, 3]
    assert y.tolist() == [0, 1, 2, 3]
    assert nd.shares_memory(x, part)


def test_duplicate_indices_last_wins():
    x = nd.zeros(3)
    x[[1, 1, 1]] = [1, 2, 3]
    assert x.tolist() == [0, 3, 0]


# -- values and keys that NumPy takes in a way of its own


@pytest.mark.parametrize("step", [10**30, -(10**30), 2**62, -(2**63)])
def test_steps_that_no_memory_has(step):
    x, a = nd.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4)
    assert_same(x[::step], a[::step])
    assert_same(x[:, 1::step], a[:, 1::step])
    assert_same(x[0][::step], a[0][::step])


@pytest.mark.parametrize("part", [([0, 1], [1, 1]), (nd.array([0, 1]), nd.array([1, 1])), (0, 1), (0, [1])])
def test_a_subclass_of_tuple_is_a_tuple(part):
    class Pair(tuple):
        __slots__ = ()

    x, a = nd.arange(4).reshape(2, 2), np.arange(4).reshape(2, 2)
    assert_same(x[Pair(part)], a[tuple([ours(k) if isinstance(k, nd.ndarray) else k for k in part])])


def test_a_slice_with_arrays_for_bounds():
    x, a = nd.arange(3), np.arange(3)
    x[nd.array(1) :] = a[np.array(1) :] = 7
    assert_same(x, a)
    for bound in (np.array([1, 2]), nd.array([1, 2])):
        with pytest.raises(TypeError):
            x[bound:] = 1
    assert_same(x, a)


OUT_OF_RANGE = [300, -1, [1, 300], [1, -1], range(299, 301), float("nan"), [float("inf"), 1], 1j, [1, 1j]]
NO_NUMBERS = ["a", ["1", "b"], {}, None, Thing()]


@pytest.mark.parametrize("value", OUT_OF_RANGE + NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("key", [slice(None), slice(0, 2), [0, 1], np.array([True, True, False]), ...], ids=repr)
@pytest.mark.parametrize("shared", [False, True])
def test_a_value_that_cannot_be_converted_changes_nothing(key, value, shared):
    x, a = nd.array([1, 2, 3], np.uint8), np.array([1, 2, 3], np.uint8)
    clone = x.copy() if shared else None
    before = x._state()
    with pytest.raises((TypeError, ValueError, OverflowError)) as expected:
        a[key] = value
    with pytest.raises((TypeError, ValueError, OverflowError)) as found:
        x[key] = value
    assert (
        isinstance(found.value, expected.type) or isinstance(expected.value, found.type) or expected.type is TypeError
    )
    assert x._state() == before
    assert x.tolist() == [1, 2, 3]
    assert clone is None or clone.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("key", "value"),
    [(slice(1, None), [1, 2, 3]), ([0, 1], [1, 2, 3]), ([0, 9], 1), (slice(2), nd.ones((2, 1))), (5, 1), ("a", 1)],
    ids=repr,
)
def test_a_write_that_does_not_fit_moves_nothing(key, value):
    x = nd.arange(3)
    clone = x.copy()
    before = x._state()
    with pytest.raises((IndexError, ValueError)):
        x[key] = value
    assert x._state() == before
    assert nd.is_shared(clone)


@pytest.mark.parametrize("value", [[7], (7,), range(1), [[7]], np.array([7]), nd.array([7]), nd.array([[7]])], ids=repr)
def test_an_element_is_no_sequence(value):
    x = nd.arange(3)
    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        x[0] = value
    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        x.fill(value)
    y = nd.array(5)
    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        y[()] = value
    x[0, ...] = np.array([7])  # which is no element, but an array without dimensions
    assert x.tolist() == [7, 1, 2]


def test_lists_have_no_more_dimensions_than_what_they_are_written_to():
    x = nd.arange(3)
    with pytest.raises(ValueError, match="the value has 2 dimensions, not 1"):
        x[:] = [[1, 2, 3]]
    x[:] = nd.array([[4, 5, 6]])
    assert x.tolist() == [4, 5, 6]


def test_text_is_read_as_numbers():
    x, a = nd.zeros(3), np.zeros(3)
    for value in ("5.5", ["1", "2", "3"], np.array(["4", "5", "6"]), b"7"):
        x[:] = a[:] = value
        assert_same(x, a)
