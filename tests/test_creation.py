"""Functions that make arrays, against NumPy's."""

from __future__ import annotations

import array as buffers

import numpy as np
import pytest

import nbdlpack as nd
from tests.arrays import DTYPES, LAYOUTS, Thing, assert_same, bits, pair, same_outcome, values

SHAPES = [(), 0, 3, (2, 3), [2, 0, 3], np.int64(2), (np.int8(2), 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
@pytest.mark.parametrize("dtype", [None, *DTYPES], ids=str)
def test_of_a_shape(shape, dtype, device):
    x = nd.empty(shape, dtype)
    expected = np.zeros(shape, dtype or float)
    assert x.shape == expected.shape
    assert x.dtype == expected.dtype
    assert x.device is device
    assert x.flags.c_contiguous
    assert x.flags.owndata
    assert x._state()[0] % 256 == 0
    assert_same(nd.zeros(shape, dtype), expected)
    assert_same(nd.ones(shape, dtype), np.ones(shape, dtype or float))
    assert_same(nd.full(shape, 1, dtype), np.full(shape, 1, dtype))


@pytest.mark.parametrize("function", [nd.empty, nd.zeros, nd.ones])
def test_wrong_shapes(function):
    with pytest.raises(ValueError, match="negative"):
        function(-1)
    with pytest.raises(ValueError, match="negative"):
        function((2, -1))
    with pytest.raises(TypeError, match="must be an integer or a sequence of integers"):
        function(2.0)
    with pytest.raises(TypeError, match="must be an integer or a sequence of integers"):
        function((2, "3"))
    with pytest.raises(TypeError):
        function()
    with pytest.raises((MemoryError, ValueError)):
        function(2**60)


def test_full():
    for value in (3, 2.5, 1j, True, [1, 2], np.float32(2), np.arange(2), nd.arange(2)):
        a = value._host(0) if isinstance(value, nd.ndarray) else value
        assert_same(nd.full((3, 2), value), np.full((3, 2), a))
    with pytest.raises(ValueError, match="broadcast"):
        nd.full(3, [1, 2])


@pytest.mark.parametrize("name", ["empty_like", "zeros_like", "ones_like", "full_like"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_like(name, layout):
    x, a = pair(np.float32, layout)
    extra = (7,) if name == "full_like" else ()
    for options in ({}, {"dtype": np.int8}, {"order": "C"}, {"order": "F"}, {"order": "A"}, {"shape": (2, 5)}):
        y, b = getattr(nd, name)(x, *extra, **options), getattr(np, name)(a, *extra, **options)
        assert y.shape == b.shape
        assert y.dtype == b.dtype
        assert not y.size or all(n == 1 or s == t for n, s, t in zip(b.shape, y.strides, b.strides, strict=True))
        assert name == "empty_like" or bits(y) == bits(b)
        assert y.flags.writeable
    assert_same(nd.zeros_like([1, 2]), np.zeros_like([1, 2]))


@pytest.mark.parametrize(
    "args",
    [(3,), (1, 5), (5, 1, -2), (0, 1, 0.25), (2.5,), (0,), (1, 1), (np.int8(1), 4), (0, 3, 1, np.float32)],
    ids=repr,
)
def test_arange(args):
    same_outcome(lambda: nd.arange(*args), lambda: np.arange(*args))


def test_arange_of_each_dtype():
    for dtype in DTYPES:
        if dtype != np.bool:
            same_outcome(lambda: nd.arange(4, dtype=dtype), lambda: np.arange(4, dtype=dtype))


@pytest.mark.parametrize(
    "args", [(0, 1), (0, 1, 5), (5, 1, 3, False), (0, 1, 1), (0, 1, 0), ([0, 1], 2, 3), (0, 1j, 3)], ids=repr
)
def test_linspace(args):
    same_outcome(lambda: nd.linspace(*args), lambda: np.linspace(*args))
    assert nd.linspace(0, 9, 4, dtype=nd.float32).dtype == np.float32


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("columns", [None, 0, 2, 5])
@pytest.mark.parametrize("k", [-4, -1, 0, 1, 4])
def test_eye(rows, columns, k):
    assert_same(nd.eye(rows, columns, k=k), np.eye(rows, columns, k=k))
    assert_same(nd.eye(rows, columns, k, nd.int8), np.eye(rows, columns, k, np.int8))


# -- of data

DATA = [
    3,
    2.5,
    1j,
    True,
    [1, 2],
    [[1, 2.5], [3, 4]],
    (),
    [[]],
    [True, 2],
    np.float32(2),
    range(3),
    [np.arange(2), [3, 4]],
]


@pytest.mark.parametrize("data", DATA, ids=repr)
def test_of_numbers(data):
    for dtype in (None, np.float32, np.complex64, nd.bfloat16):
        if "j" in repr(data) and dtype not in (None, np.complex64):
            continue
        for function in (nd.array, nd.asarray):
            x = function(data, dtype)
            assert_same(x, np.array(data, dtype))
            assert x.flags.owndata
    with pytest.raises(ValueError, match="has to be copied"):
        nd.asarray(data, copy=False) if not isinstance(data, range) else nd.asarray([0], copy=False)


@pytest.mark.parametrize("data", [[[1], [1, 2]], "text", ["a"], None, Thing(), {1: 2}, [None]], ids=repr)
def test_what_makes_no_array(data):
    with pytest.raises((TypeError, ValueError)):
        nd.asarray(data)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numpy_arrays_are_shared(dtype, layout):
    a = LAYOUTS[layout](values(dtype))
    x = nd.asarray(a)
    assert_same(x, a)
    assert x.flags.writeable == a.flags.writeable
    assert x._state()[0] == a.__array_interface__["data"][0] or not a.size
    if a.size and a.flags.writeable:
        a[...] = 1
        assert bits(x) == bits(np.ones_like(a))
        x[...] = np.zeros_like(a)
        assert bits(a) == bits(np.zeros_like(a))
    y = nd.array(a)
    assert y.flags.owndata
    assert y.flags.writeable
    assert nd.asarray(a, copy=False).dtype == dtype


def test_negative_strides_share_what_lies_below():
    a = np.arange(6)
    x = nd.asarray(a[::-1])
    x[-1] = 77
    assert a[0] == 77
    assert nd.shares_memory(nd.asarray(a), x)


def test_our_own_memory_comes_home():
    x = nd.arange(4)
    y = nd.asarray(np.asarray(x))
    assert y.flags.owndata
    x[0] = 9
    assert y.tolist() == [9, 1, 2, 3]


def test_numpy_arrays_that_cannot_be_shared():
    swapped = np.arange(3, dtype=np.dtype(np.int32).newbyteorder())
    record = np.zeros(3, np.dtype([("a", "i1"), ("b", "<i4")]))["b"]
    for a in (swapped, record):
        x = nd.asarray(a)
        assert x.tolist() == a.tolist()
        assert x.dtype == np.int32
        with pytest.raises(ValueError, match="has to be copied"):
            nd.asarray(a, copy=False)
    with nd.no_copies(), pytest.raises(nd.errors.CopyError, match="cannot be shared"):
        nd.asarray(record)
    for dtype in ("U3", object, [("a", "i4")], "M8[s]"):
        with pytest.raises(TypeError, match="an array can have only one of"):
            nd.asarray(np.zeros(2, dtype))


def test_our_arrays():
    x = nd.arange(3)
    assert nd.asarray(x) is x
    assert nd.asarray(x, nd.int64, copy=False, device="cpu", order="C") is x
    assert nd.asarray(x, nd.float32).tolist() == [0, 1, 2]
    y = nd.array(x)
    assert nd.is_shared(y)
    assert nd.asarray(x, copy=True)._state()[-1] != x._state()[-1]
    with pytest.raises(ValueError, match="copy is False, but asarray"):
        nd.asarray(x, nd.float32, copy=False)
    with pytest.raises(ValueError, match="copy is False, but asarray"):
        nd.asarray(nd.zeros((2, 3)), order="F", copy=False)
    with nd.no_copies(), pytest.raises(nd.errors.CopyError, match="asarray"):
        nd.asarray(x, nd.float32)
    with nd.no_copies():
        assert nd.asarray(x, nd.float32, copy=True).dtype == np.float32


def test_buffers_and_producers():
    buffer = buffers.array("d", [1, 2, 3])
    x = nd.asarray(buffer)
    x[0] = 7
    assert buffer[0] == 7
    assert not nd.asarray(memoryview(b"abc")).flags.writeable

    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return np.arange(2)

    assert nd.asarray(Wrapped()).tolist() == [0, 1]


def test_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(3)
    y = nd.asarray(tensor)
    y[0] = 5
    assert tensor[0] == 5
    assert nd.array(tensor).tolist() == [5, 1, 2]
    tensor[1] = 9
    assert nd.asarray(tensor, nd.float32).tolist() == [5, 9, 2]
    assert nd.asarray(torch.ones(2, dtype=torch.bfloat16)).dtype == nd.bfloat16


def test_array_options():
    assert nd.array(3, ndmin=2).shape == (1, 1)
    assert nd.array([1, 2], ndmin=3).shape == (1, 1, 2)
    assert nd.array([[1, 2], [3, 4]], order="F").flags.f_contiguous
    a = np.arange(3)
    assert nd.array(a, copy=None)._state()[0] == a.__array_interface__["data"][0]
    with nd.copy_log() as log:
        nd.array(a)
        nd.array(a, np.float32)
    assert [copy.nbytes for copy in log] == [24, 12]
    assert all(copy.asked for copy in log)


def test_contiguous():
    x, a = pair(np.int16)
    assert nd.ascontiguousarray(x) is x
    assert_same(nd.ascontiguousarray(x.T), a.T)
    assert nd.ascontiguousarray(x.T).flags.c_contiguous
    assert nd.ascontiguousarray(5).shape == np.ascontiguousarray(5).shape == (1,)
    assert nd.asfortranarray(x.T).flags.f_contiguous
    assert nd.shares_memory(x, nd.asfortranarray(x.T))
    assert nd.asfortranarray(5).shape == ()
    assert nd.ascontiguousarray(x, np.float32).dtype == np.float32


def test_zeros_of_much_memory_touch_none():
    x = nd.zeros((1 << 20, 1 << 10), nd.float64)  # 8 GiB
    assert x[-1, -1] == 0


def test_masked_data_is_refused():
    # numba#4199: an array has no mask, and what it hides must not come to light in silence
    masked = np.ma.masked_array([1.0, 2.0], [False, True])

    class Interface:
        def __init__(self):
            self.__array_interface__ = {**np.zeros(2).__array_interface__, "mask": np.ones(2, bool)}

    for data in (masked, Interface()):
        for function in (nd.asarray, nd.array, nd.ascontiguousarray):
            with pytest.raises(ValueError, match="with a mask"):
                function(data)
    assert nd.asarray(masked.filled(0)).tolist() == [1, 0]


def test_arange_by_name():
    assert_same(nd.arange(stop=5), np.arange(stop=5))
    assert_same(nd.arange(start=1, stop=5, step=2), np.arange(start=1, stop=5, step=2))
    assert_same(nd.arange(0, None, 2), np.arange(0, None, 2))
    for args in ((), (None,), (None, None)):
        with pytest.raises(TypeError, match="start and stop are both None"):
            nd.arange(*args)
