# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="arg-type, assignment, call-overload, misc, operator"
"""Attributes, methods and protocols of the array, against NumPy's."""

from __future__ import annotations

import copy
import ctypes
import gc
import operator
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbdlpack as nd
from tests.arrays import DTYPES, EXTENDED, LAYOUTS, NUMPY_DTYPES, assert_same, bits, pair, values

ORDERS = ("C", "F", "A", "K")


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


def assert_same_strides(x, a):
    """Check strides wherever they matter."""
    assert all(n == 1 or s == t for n, s, t in zip(a.shape, x.strides, a.strides, strict=True)) or not a.size


# -- attributes


def test_attributes(dtype, layout):
    x, a = pair(dtype, layout)
    for name in ("ndim", "shape", "size", "dtype", "itemsize", "nbytes"):
        assert getattr(x, name) == getattr(a, name), name
    assert_same_strides(x, a)
    assert x.device == "cpu"
    assert_same(x, a)


def test_shape_cannot_be_set():
    with pytest.raises(AttributeError):
        nd.zeros(4).shape = (2, 2)


def test_flags(layout):
    x, a = pair(np.float32, layout)
    for name in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY", "C", "F", "W", "A", "FNC"):
        assert x.flags[name] == a.flags[name], name
    for name in ("contiguous", "forc", "behaved", "carray", "fnc"):
        assert getattr(x.flags, name) == getattr(a.flags, name), name
    assert x.flags.owndata
    assert "  C_CONTIGUOUS : " in repr(x.flags)
    assert x.flags == x[...].flags


def test_the_flag_that_can_be_set():
    # As with numpy.ndarray.flags: from then on views are read-only as well, earlier ones are not, nor are copies.
    x = nd.zeros(3)
    before, exported = x[:], x.__dlpack__()
    x.flags.writeable = False
    for array in (x, x[1:], nd.from_dlpack(x)):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            array[0] = 1
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    assert not np.from_dlpack(x).flags.writeable
    before[0] = 5
    assert (x.tolist(), x.copy().flags.writeable) == ([5, 0, 0], True)
    with pytest.raises(ValueError, match="cannot be made writable: write to a copy"):
        x.flags["W"] = True
    before.flags.writeable = True
    assert nd.from_dlpack(exported).flags.writeable


def test_other_flags_cannot_be_set():
    x = nd.zeros(3)
    with pytest.raises(AttributeError, match="only 'writeable' can"):
        x.flags.c_contiguous = False
    with pytest.raises(KeyError, match="no flag is named"):
        x.flags["nonsense"]


def test_foreign_memory_is_not_owned():
    assert not nd.asarray(np.zeros(3)).flags.owndata


def test_misaligned():
    x = nd.zeros(9, nd.uint8)[1:].view(nd.float64)
    assert not x.flags.aligned
    assert_same(x, np.zeros(1))


def test_real_and_imag(layout):
    for dtype in (np.complex64, np.complex128, np.float32, np.int8):
        x, a = pair(dtype, layout)
        assert_same(x.real, a.real)
        assert_same(x.imag, a.imag)
        assert not nd.is_shared(x)
    x = nd.zeros(2, nd.complex64)
    x.imag[...] = 3
    x.real += 1
    assert x.tolist() == [1 + 3j, 1 + 3j]
    assert not nd.zeros(2).imag.flags.writeable


def test_transposes(layout):
    x, a = pair(np.int16, layout)
    assert_same(x.T, a.T)
    assert_same(x.transpose(), a.transpose())
    if a.ndim >= 2:
        assert_same(x.mT, a.mT)
        assert_same(x.swapaxes(0, -1), a.swapaxes(0, -1))
        axes = (*range(1, a.ndim), 0)
        assert_same(x.transpose(axes), a.transpose(axes))
        assert_same(x.transpose(*axes), a.transpose(*axes))
    else:
        with pytest.raises(ValueError, match="needs at least 2 dimensions"):
            _ = x.mT


def test_transpose_refuses():
    x = nd.zeros((2, 3))
    with pytest.raises(ValueError, match="must name each of the 2 axes once"):
        x.transpose(0)
    with pytest.raises(ValueError, match="must not name an axis twice"):
        x.transpose(0, 0)
    with pytest.raises(nd.errors.AxisError):
        x.transpose(0, 2)


# -- shape


@given(st.sampled_from(sorted(LAYOUTS)), st.sampled_from("CFA"), st.data())
def test_reshape(layout, order, data):
    x, a = pair(np.int32, layout)
    size, shape = a.size, []
    while size > 1:
        shape.append(data.draw(st.sampled_from([n for n in range(2, size + 1) if size % n == 0])))
        size //= shape[-1]
    shape = tuple(shape) if a.size else (3, 0, 2)
    if shape and a.size and data.draw(st.booleans()):
        i = data.draw(st.integers(0, len(shape) - 1))
        shape = (*shape[:i], -1, *shape[i + 1 :])
    y, b = x.reshape(shape, order=order), a.reshape(shape, order=order)
    assert_same(y, b)
    if a.size:
        assert nd.shares_memory(x, y) == np.shares_memory(a, b)
        z = x.reshape(*shape, order=order, copy=True)
        assert_same(z, b)
        if z.flags.writeable:
            z.fill(0)
        assert_same(y, b)


def test_reshape_without_copy():
    x = nd.zeros((2, 3)).T
    with pytest.raises(ValueError, match=r"no view shows shape \(3, 2\)"):
        x.reshape(6, copy=False)
    assert nd.shares_memory(x, x.reshape(6, order="F", copy=False))
    with pytest.raises(ValueError, match="cannot reshape array of size 6"):
        x.reshape(5)
    with pytest.raises(ValueError, match="order is 'K', but must be one of 'C', 'F', 'A'"):
        x.reshape(6, order="K")
    with pytest.raises(TypeError):
        x.reshape(2.0, 3.0)


@pytest.mark.parametrize("order", ORDERS)
def test_ravel_and_flatten(layout, order):
    x, a = pair(np.float64, layout)
    if order == "K":
        a = abs(a)  # NumPy reads negative strides backwards or not, as it finds
        x = abs(x) if layout in ("negative", "broadcast") else x
        a = a if layout != "negative" else x._host(0)
    assert_same(x.ravel(order), a.ravel(order))
    assert_same(x.flatten(order), a.flatten(order))
    y = x.flatten(order)
    assert y.flags.writeable
    if x.size:
        before = bits(x)
        y[...] = 99
        assert bits(x) == before


def test_squeeze():
    x, a = nd.zeros((1, 3, 1)), np.zeros((1, 3, 1))
    assert_same(x.squeeze(), a.squeeze())
    assert_same(x.squeeze(0), a.squeeze(0))
    assert_same(x.squeeze((0, -1)), a.squeeze((0, -1)))
    with pytest.raises(ValueError, match="only axes of length one"):
        x.squeeze(1)


# -- copies and other types


def test_copy(dtype, layout):
    x, a = pair(dtype, layout)
    for order in ORDERS:
        y, b = x.copy(order), a.copy(order)
        assert_same(y, b)
        assert_same_strides(y, b)
        assert y.flags.writeable
        y.fill(0)
        assert bits(x) == bits(a)


def test_lazy_copy_shares_until_a_write():
    x = nd.arange(5)
    y = x.copy()
    assert nd.is_shared(x)
    assert nd.shares_memory(x, y) or x._state()[0] == y._state()[0]
    y[0] = 9
    assert x.tolist() == [0, 1, 2, 3, 4]
    assert not nd.is_shared(x)
    assert x.T.copy("F").flags.f_contiguous


@pytest.mark.parametrize("to", [np.float32, np.int8, np.complex128, np.bool, nd.bfloat16], ids=lambda t: t.__name__)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:invalid value:RuntimeWarning")
def test_astype(dtype, to):
    for layout in LAYOUTS:
        x, a = pair(dtype, layout)
        for order in ORDERS:
            y, b = x.astype(to, order), a.astype(to, order)
            assert_same(y, b)
            assert_same_strides(y, b)


def test_astype_rules():
    x = nd.arange(3)
    assert x.astype(nd.int64, copy=False) is x
    assert x.astype(nd.int64) is not x
    assert x.astype(nd.int32, copy=False).dtype == np.int32
    with pytest.raises(TypeError, match="according to the rule 'same_kind'"):
        x.astype(nd.bool, casting="same_kind")
    m = nd.zeros((2, 3))
    assert m.astype(float, "F", copy=False) is not m
    assert m.astype(float, "A", copy=False) is m


def test_view_of_bytes(layout):
    for old, new in ((np.float32, np.int32), (np.float64, np.uint8), (np.uint8, np.uint16), (np.float16, nd.bfloat16)):
        x, a = pair(old, layout)
        try:
            expected = a.view(new)
        except ValueError:
            with pytest.raises(ValueError, match="cannot be viewed as"):
                x.view(new)
        else:
            assert_same(x.view(new), expected)


def test_view_shares():
    x = nd.zeros(2, nd.float32)
    x.view(nd.int32)[0] = 0x3F800000
    assert x.tolist() == [1.0, 0.0]
    assert x.view().shape == (2,)


def test_fill_and_item(dtype):
    x = nd.empty((2, 3), dtype)
    a = np.empty((2, 3), dtype)
    x.fill(1)
    a.fill(1)
    assert_same(x, a)
    assert x.item(0) == a.item(0)
    assert type(x.item(1, 2)) is type(a.item(1, 2))
    assert x.tolist() == a.tolist()
    with pytest.raises(ValueError, match="size 1"):
        x.item()


def test_to_device(device):
    x = nd.arange(3)
    assert x.to_device(device) is x
    assert (x.to_device("cpu") is x) is (device == "cpu")
    assert x.to_device("cpu").device == "cpu"
    assert x.to_device("cpu").tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="no device named 'tape'"):
        x.to_device("tape")
    with pytest.raises(ValueError, match="stream is 7, but device cpu has no streams"):
        nd.arange(3, device="cpu").to_device("cpu", stream=7)


# -- Python's protocols


def test_len_iteration_and_membership(dtype, layout):
    x, a = pair(dtype, layout)
    if a.ndim == 0:
        for call in (len, iter, list):
            with pytest.raises(TypeError, match="without dimensions"):
                call(x)
        return
    assert len(x) == len(a)
    rows = list(x)
    assert len(rows) == len(a)
    for row, expected in zip(rows, a, strict=True):
        assert_same(row, expected)
    if a.size:
        assert a.ravel()[0] in x
        assert (3 in x) == (a == 3).any()


def test_iteration_gives_views():
    x = nd.zeros((2, 2))
    for row in x:
        row[0] = 5
    for i, element in enumerate(x[0]):
        element[...] += i
    assert x.tolist() == [[5, 1], [5, 0]]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "c"], ids=str)
def test_conversions(dtype):
    x = nd.ones((), dtype)
    assert bool(x) is True
    assert int(x) == 1
    assert type(float(x)) is float
    assert float(x) == 1.0
    assert complex(x) == 1 + 0j


def test_conversion_errors():
    x = nd.ones(1)
    for call in (int, float, complex):
        with pytest.raises(TypeError, match=f"can be converted to {call.__name__}"):
            call(x)
    assert complex(nd.array(1 + 2j)) == 1 + 2j
    with pytest.raises(TypeError):
        operator.index(nd.ones(()))
    with pytest.raises(TypeError, match="only integer arrays"):
        operator.index(nd.arange(1))
    assert [10, 20, 30][nd.array(1)] == 20
    assert bool(nd.array([3]))
    for x in (nd.ones(2), nd.ones(0)):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(x)


def test_unhashable():
    with pytest.raises(TypeError, match="unhashable"):
        hash(nd.zeros(2))


def test_format():
    assert f"{nd.array(1.25):.1f}" == f"{np.array(1.25):.1f}"
    assert f"{nd.arange(2)}" == "[0 1]"
    with pytest.raises(TypeError, match="is for numbers"):
        format(nd.arange(2), ".1f")


def test_bytes(dtype, layout):
    x, a = pair(dtype, layout)
    assert bytes(x) == x.tobytes() == a.tobytes()


def test_weak_references():
    x = nd.zeros(3)
    reference = weakref.ref(x)
    assert reference() is x
    del x
    gc.collect()
    assert reference() is None


def test_generic_alias():
    assert nd.ndarray[int].__origin__ is nd.ndarray


def test_not_made_by_calling():
    with pytest.raises(TypeError, match=r"use nbdlpack\.empty\(shape\)"):
        nd.ndarray((2, 3))


def test_no_deletion():
    with pytest.raises(ValueError, match="cannot be deleted"):
        del nd.zeros(3)[0]


# -- NumPy's protocols


def test_asarray_shares(dtype, layout):
    x, a = pair(dtype, layout)
    b = np.asarray(x)
    assert b.dtype == a.dtype
    assert b.shape == a.shape
    assert bits(b) == bits(a)
    assert b.flags.writeable == x.flags.writeable
    if b.size and b.flags.writeable:
        b[...] = 1
        assert bits(x) == bits(np.ones_like(a))


def test_array_protocol():
    x = nd.arange(3)
    assert np.shares_memory(x.__array__(), x._host(0))
    assert not np.shares_memory(x.__array__(copy=True), x._host(0))
    assert x.__array__(np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="has to be copied to be had as float32"):
        x.__array__(np.float32, copy=False)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, np.float32, copy=False)
    assert not nd.readonly(x).__array__().flags.writeable
    assert nd.readonly(x).__array__(copy=True).flags.writeable


def test_array_interface():
    x = nd.arange(6).reshape(2, 3)[:, ::2]
    interface = x.__array_interface__
    assert interface["shape"] == (2, 2)
    assert interface["strides"] == (24, 16)
    assert interface["typestr"] == np.dtype(np.int64).str
    assert interface["data"] == (x.ptr, False)
    assert nd.readonly(x).__array_interface__["data"][1] is True
    assert nd.zeros(3).__array_interface__["strides"] is None
    assert not hasattr(x, "__cuda_array_interface__")


@pytest.mark.parametrize("dtype", EXTENDED, ids=str)
def test_no_array_interface_for_what_numpy_has_no_word_for(dtype):
    x = nd.zeros(3, dtype)
    y = x.copy()
    assert not hasattr(x, "__array_interface__")
    assert nd.is_shared(y), "and asking for it has no effect"
    assert np.asarray(x).dtype == dtype


def test_addresses_stay():
    x = nd.arange(3, dtype=nd.int32)
    address = x.ptr
    assert x.ctypes.data == address
    assert x.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))[2] == 2
    y = x.copy()
    assert not nd.is_shared(y)
    x[0] = 5
    assert ctypes.c_int32.from_address(address).value == 5


def test_data_is_a_writable_buffer():
    x = nd.zeros(3)
    x.data[1] = 2.5
    assert x.tolist() == [0, 2.5, 0]
    with pytest.raises(TypeError, match="read-only"):
        nd.readonly(x).data[1] = 1.0


# -- reads do nothing to the memory

READS = {
    "repr": repr,
    "str": str,
    "format": lambda x: f"{x}",
    "bytes": bytes,
    "tobytes": lambda x: x.tobytes(),
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x.item(1),
    "len": len,
    "iterate": list,
    "contains": lambda x: 3 in x,
    "bool": lambda x: bool(x[0] == 1),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "slice": lambda x: x[1:],
    "integer": lambda x: x[1],
    "newaxis": lambda x: x[None, ..., ::-1],
    "index array": lambda x: x[nd.array([0, 2])],
    "mask": lambda x: x[x > 1],
    "reshape": lambda x: x.reshape(2, 2),
    "ravel": lambda x: x.ravel(),
    "transpose": lambda x: x.T,
    "squeeze": lambda x: x.squeeze(),
    "view": lambda x: x.view(np.uint8),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "broadcast": lambda x: nd.broadcast_to(x, (3, 4)),
    "astype": lambda x: x.astype(np.float32),
    "to_device": lambda x: x.to_device("cpu"),
    "flags": lambda x: (x.flags, x.device, x.nbytes, x.strides),
    "add": lambda x: x + x,
    "scalar": lambda x: 2 * x - 1,
    "compare": lambda x: x < 3,
    "negative": lambda x: -x,
    "matmul": lambda x: x @ x,
    "numpy operand": lambda x: np.ones(4) + x,
    "ufunc": np.sqrt,
    "ufunc out": lambda x: np.add(x, 1, out=np.empty(4)),
    "ufunc reduce": np.add.reduce,
    "ufunc outer": lambda x: np.multiply.outer(x, x),
    "sum": lambda x: x.sum(),
    "argmax": lambda x: x.argmax(),
    "np.mean": np.mean,
    "operand of a write": lambda x: nd.zeros(4).__iadd__(x),
    "assigned from": lambda x: nd.zeros(4).__setitem__(slice(None), x),
    "index of": lambda x: np.arange(9)[x.astype(int)],
    "in a list": lambda x: nd.array([x, x]),
    "asarray": nd.asarray,
    "concat": lambda x: nd.concat([x, x]),
    "zeros_like": nd.zeros_like,
    "pickle 2": lambda x: pickle.dumps(x, 2),
    "pickle 5": lambda x: pickle.dumps(x, 5),
    "pickle out of band": lambda x: pickle.dumps(x, 5, buffer_callback=[].append),
    "interface of read-only": lambda x: nd.readonly(x).__array_interface__,
    "asarray of read-only": lambda x: np.asarray(nd.readonly(x)),
    "shares_memory": lambda x: nd.shares_memory(x, x[1:]),
}


def memory(x):
    """Return where an array is and who has it; not whether its address is looked for among those that come in."""
    address, flags, *rest = x._state()
    return address, flags & 7, *rest


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "alone"])
def test_reads_neither_move_nor_copy_nor_stay(name, shared):
    x = nd.array([1.0, 2.0, 3.0, 4.0])
    y = x.copy() if shared else None
    before = memory(x)
    stats = nd.copy_stats()
    with nd.no_copies() if name != "astype" else nd.copy_log():
        result = READS[name](x)
    del result
    gc.collect()
    assert memory(x) == before
    after = nd.copy_stats()
    assert after == stats
    assert x.tolist() == [1, 2, 3, 4]
    del y


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, nd.copy], ids=lambda f: f.__name__)
def test_copies_are_lazy_and_keep_the_layout(copying):
    x = nd.array(values(np.float32)).copy("F")
    y = copying(x)
    assert y.flags.f_contiguous
    assert nd.is_shared(y)
    z = copying(x[::2])
    assert not nd.is_shared(z)
    assert_same(z, values(np.float32)[::2])
    assert all(d in NUMPY_DTYPES for d in (x.dtype, y.dtype))


@pytest.mark.parametrize(
    "shape", [np.array([3, 2]), nd.array([3, 2]), range(3, 1, -1), [3, -1], (np.int8(3), nd.array(2))], ids=repr
)
def test_any_sequence_of_integers_is_a_shape(shape):
    assert_same(nd.arange(6).reshape(shape), np.arange(6).reshape(3, 2))


def test_what_is_no_shape():
    for shape in ("a", 6.0, (3, 2.0), None, [[3, 2]]):
        with pytest.raises(TypeError, match="must be an integer or a sequence of integers"):
            nd.arange(6).reshape(shape)


@pytest.mark.parametrize("axes", [np.array([1, 0]), nd.array([1, 0]), range(1, -1, -1), [1, 0]], ids=repr)
def test_any_sequence_of_integers_is_an_order_of_axes(axes):
    assert_same(nd.arange(6).reshape(2, 3).transpose(axes), np.arange(6).reshape(2, 3).T)


@pytest.mark.parametrize("axis", [np.int64(0), nd.array(1), (0, 1), [0, 2]], ids=repr)
def test_expand_dims_takes_integers_of_any_kind(axis):
    numpys = axis._host(0) if isinstance(axis, nd.ndarray) else axis
    assert nd.expand_dims(nd.ones(3), axis).shape == np.expand_dims(np.ones(3), numpys).shape


def test_ravel_in_order_k_leaves_broadcast_axes_where_they_are():
    for shape in ((3,), (3, 1), (1, 3), (2, 1, 3)):
        n = int(np.prod(shape))
        x, a = nd.arange(n).reshape(shape), np.arange(n).reshape(shape)
        for to in ((2, *shape), (2, *shape[:-1], 3)):
            y, b = nd.broadcast_to(x, to), np.broadcast_to(a, to)
            for z, c in ((y, b), (y.T, b.T), (y[..., ::-1], b[..., ::-1])):
                assert_same(z.ravel("K"), c.ravel("K"))
                assert_same(z.flatten("K"), c.flatten("K"))


def test_a_view_of_nothing():
    for shape in ((3, 0), (0,), (2, 0, 4)):
        for to in ("c16", "f4", "u1"):
            assert nd.zeros(shape).view(to).shape == np.zeros(shape).view(to).shape


def test_membership_of_what_is_no_number():
    x = nd.arange(3)
    for value in (None, "a", object(), {}):
        assert value not in x
    assert 1 in x
    assert [0, 1, 2] in x


def test_complex_numbers_are_no_real_ones():
    for convert in (int, float):
        with pytest.raises(TypeError):
            convert(nd.array(1j))
    assert complex(nd.array(1j)) == 1j


def test_bytes_in_an_order():
    x, a = nd.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)
    for order in ("C", "F", "A"):
        assert x.tobytes(order) == a.tobytes(order)
        assert x.T.tobytes(order=order) == a.T.tobytes(order=order)


def test_concat_casts_as_numpy_does():
    assert_same(nd.concat([nd.arange(2), nd.ones(1)], dtype="f4"), np.concat([np.arange(2), np.ones(1)], dtype="f4"))
    for joined in (nd.concat, nd.stack):
        with pytest.raises(TypeError, match="same_kind"):
            joined([nd.arange(2), nd.ones(2)], dtype="i4")


def test_tab_completion_offers_what_is_public():
    assert {name for name in dir(nd) if not name.startswith("__")} <= set(nd.__all__)
