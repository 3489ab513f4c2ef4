# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="arg-type, assignment, call-overload, var-annotated"
"""The arithmetic of shapes and strides, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from nbdlpack import layout

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
full_shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


@st.composite
def arrays(draw, shapes=shapes):
    """Views of all kinds of layout, of bytes, so that strides are steps."""
    shape = draw(shapes)
    a = np.arange(int(np.prod(shape)) * 2 ** len(shape), dtype=np.uint8).reshape([2 * n for n in shape])
    keys = [slice(None, None, draw(st.sampled_from([2, -2]))) if draw(st.booleans()) else slice(n) for n in shape]
    a = a[tuple(keys)] if keys else a
    a = a.transpose(draw(st.permutations(range(a.ndim))))
    if draw(st.booleans()) and a.ndim < 4:
        a = np.broadcast_to(a, (draw(st.integers(1, 3)), *a.shape))
    return a.copy(draw(st.sampled_from("CFK"))) if draw(st.booleans()) else a


@given(shapes)
def test_compact_steps(shape):
    for order, steps in (("C", layout.c_steps(shape)), ("F", layout.f_steps(shape))):
        expected = np.empty(shape, np.uint8, order)
        if 0 not in shape:
            assert all(n == 1 or s == t for n, s, t in zip(shape, steps, expected.strides, strict=True))


@given(arrays(full_shapes))
def test_k_order_is_numpys(a):
    steps = layout.k_steps(a.shape, a.strides)
    expected = a.copy("K")
    assert all(n == 1 or s == t for n, s, t in zip(a.shape, steps, expected.strides, strict=True)), (steps, a.strides)


@given(arrays())
def test_bounds(a):
    low, high = layout.bounds(a.shape, a.strides)
    first, last = np.lib.array_utils.byte_bounds(a)
    assert high - low == (last - first if a.size else 0)
    assert low == (first - a.__array_interface__["data"][0] if a.size else 0)


@given(st.lists(shapes, min_size=1, max_size=3))
def test_broadcast_shapes(several):
    try:
        expected = np.broadcast_shapes(*several)
    except ValueError:
        with pytest.raises(ValueError, match="could not be broadcast together with shapes"):
            layout.broadcast_shapes(*several)
    else:
        assert layout.broadcast_shapes(*several) == expected


@given(arrays(), shapes)
def test_broadcast_steps(a, shape):
    try:
        expected = np.broadcast_to(a, shape)
    except ValueError:
        with pytest.raises(ValueError, match="cannot be broadcast to shape"):
            layout.broadcast_steps(a.shape, a.strides, shape)
    else:
        steps = layout.broadcast_steps(a.shape, a.strides, shape)
        assert all(n <= 1 or s == t for n, s, t in zip(shape, steps, expected.strides, strict=True))


@given(arrays(), st.data())
def test_reshape_steps(a, data):
    """A view exists exactly where NumPy finds one, and shows the same."""
    size, target = a.size, []
    while size > 1 and len(target) < 4:
        target.append(data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])))
        size //= target[-1]
    target = (*target, size) if a.size else (0, *target)
    order = data.draw(st.sampled_from("CF"))
    steps = layout.reshape_steps(a.shape, a.strides, target, order)
    try:
        expected = np.reshape(a, target, order, copy=False)
    except ValueError:
        assert steps is None
    else:
        assert steps is not None
        if a.size:
            assert np.array_equal(as_strided(a, target, steps), expected)


@pytest.mark.parametrize(
    ("shape", "size", "expected"), [((2, -1), 6, (2, 3)), ((-1,), 0, (0,)), ((), 1, ()), ((0, 3), 0, (0, 3))]
)
def test_resolve_shape(shape, size, expected):
    assert layout.resolve_shape(shape, size, (size,)) == expected


@pytest.mark.parametrize(
    ("shape", "size", "text"),
    [
        ((-1, -1), 6, "only one length may be -1"),
        ((-2, 3), 6, "must not be negative"),
        ((4, -1), 6, "cannot reshape array of size 6"),
        ((5,), 6, "cannot reshape array of size 6"),
        ((0, -1), 0, "cannot reshape array of size 0"),
    ],
)
def test_resolve_shape_refuses(shape, size, text):
    with pytest.raises(ValueError, match=text):
        layout.resolve_shape(shape, size, (size,))


@given(st.integers(0, 3), st.booleans(), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
def test_view_steps(ndim, strided, old, new):
    """As NumPy, but for strides that are no multiple of the new items, which an array of ours cannot have."""
    a = np.zeros((4,) * ndim, f"u{old}")
    a = a[1::2] if ndim and strided else a
    contiguous = int(a.flags.c_contiguous)
    found = layout.view_steps(a.shape, tuple([stride // old for stride in a.strides]), old, new, contiguous)
    try:
        expected = a.view(f"u{new}")
    except ValueError:
        assert found is None
    else:
        assert found is not None
        assert found[0] == expected.shape
        assert [step * new for step in found[1]] == list(expected.strides)


def test_axes():
    assert layout.normalize_axes((-1, 0), 3) == (2, 0)
    with pytest.raises(ValueError, match="must not name an axis twice"):
        layout.normalize_axes((0, -3), 3)
    with pytest.raises(IndexError, match="out of bounds for array of dimension 3"):
        layout.normalize_axes(3, 3)


@pytest.mark.parametrize("order", ["Q", "", 1, None])
def test_unknown_order(order):
    with pytest.raises(ValueError, match="must be one of 'C', 'F', 'A', 'K'"):
        layout.check_order(order)


@pytest.mark.parametrize("shape", [(1 << 57,), (1 << 40, 1 << 40), (1 << 31, 1 << 31, 4), (1 << 32, 1 << 32)], ids=str)
def test_a_shape_of_more_elements_than_can_be_counted(shape):
    with pytest.raises(ValueError, match="more elements than can be counted"):
        layout.broadcast_steps((1,), (1,), shape)
    assert layout.broadcast_steps((1,), (1,), (0, *shape)) == (0,) * (len(shape) + 1)


def _positions(shape, steps):
    """Return where the elements of an array are, in C order."""
    return [sum(i * step for i, step in zip(index, steps, strict=True)) for index in np.ndindex(*shape)]


@given(arrays(), st.data())
def test_coalesced(a, data):
    """The same elements of all operands meet, in the same order if that is asked for, and nothing is left to merge."""
    several = [a.strides, data.draw(st.permutations(a.strides)), layout.f_steps(a.shape)]
    expected = list(zip(*[_positions(a.shape, steps) for steps in several], strict=True))
    for ordered in (False, True):
        shape, steps = layout.coalesced(a.shape, several, ordered=ordered)
        found = list(zip(*[_positions(shape, one) for one in steps], strict=True))
        assert found == expected if ordered else sorted(found) == sorted(expected)
        assert 1 not in shape
        assert all(len(one) == len(shape) for one in steps)
        for i in range(len(shape) - 1):
            assert any(one[i] != one[i + 1] * shape[i + 1] for one in steps)
        if not ordered and a.size:
            first = [abs(step) for step in steps[0]]
            assert first == sorted(first, reverse=True)


@pytest.mark.parametrize(
    ("shape", "several", "expected"),
    [
        ((), [(), ()], ((), [(), ()])),
        ((1, 1), [(7, 7)], ((), [()])),
        ((3, 0), [(1, 1)], ((0,), [(0,)])),
        ((2, 3, 4), [(12, 4, 1), (12, 4, 1)], ((24,), [(1,), (1,)])),
        ((2, 3, 4), [(12, 4, 1), (0, 0, 0)], ((24,), [(1,), (0,)])),
        ((4, 3), [(1, 4), (1, 4)], ((12,), [(1,), (1,)])),
        ((4, 3), [(1, 4), (3, 1)], ((3, 4), [(4, 1), (1, 3)])),
        ((4, 3), [(-3, -1)], ((12,), [(-1,)])),
    ],
)
def test_coalesced_examples(shape, several, expected):
    assert layout.coalesced(shape, several) == expected


@st.composite
def places(draw):
    """The address, shape, strides and itemsize of a small array, of any strides."""
    shape = draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    strides = tuple([draw(st.integers(-6, 6)) for _ in shape])
    return draw(st.integers(40, 80)), shape, strides, draw(st.sampled_from([1, 2, 4]))


@given(places(), places())
def test_overlap(first, second):
    def covered(at, shape, strides, size):
        return {at + place + k for place in _positions(shape, strides) for k in range(size)}

    if covered(*first) & covered(*second):
        assert layout.overlap(first, second)
        assert layout.overlap(second, first)


def test_overlap_is_exact_for_what_is_apart_or_evenly_interleaved():
    row, even, left = (100, (8,), (4,), 4), (100, (4,), (8,), 4), (100, (4, 2), (16, 4), 4)
    for one, other, expected in (
        (row, (132, (8,), (4,), 4), False),
        (row, (131, (8,), (4,), 4), True),
        (row, (100, (0,), (4,), 4), False),
        (even, (104, (4,), (8,), 4), False),
        (even, (128, (4,), (-8,), 4), False),
        (even, (108, (4,), (8,), 4), True),
        (left, (108, (4, 2), (16, 4), 4), False),
        (left, (104, (4, 2), (16, 4), 4), True),
        (left, (164, (4, 2), (-16, -4), 4), True),
        (left, (160, (4, 2), (-16, -4), 4), False),
    ):
        assert layout.overlap(one, other) is expected, (one, other)
        assert layout.overlap(other, one) is expected, (one, other)
