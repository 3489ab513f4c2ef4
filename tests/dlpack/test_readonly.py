"""Read-only arrays, and `ReadOnlyTensorWrapper`."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance.capsules import exchange_api, name_of, peek
from nbdlpack.conformance.header import IS_COPIED, READ_ONLY
from nbdlpack.conformance.producers import ANY_AGE, BareProducer, Producer, RaisingProducer
from nbdlpack.errors import ExportOnlyError
from tests.arrays import Thing

Wrapper = nd.dlpack.ReadOnlyTensorWrapper


def read_only_array():
    return nd.readonly(nd.arange(5))


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_a_read_only_array_says_so():
    # numpy test_readonly; numpy#20742, jax#40789
    x = nd.arange(5)
    r = nd.readonly(x)
    c = peek(r.__dlpack__(max_version=(1, 0)))
    assert (c.flags, c.data) == (READ_ONLY, x._state()[0])


@pytest.mark.parametrize("version", [None, (0, 8)], ids=str)
def test_an_unversioned_capsule_cannot_say_so(version):
    # numpy test_readonly; scikit-learn-intelex#3132
    with pytest.raises(BufferError, match=r"read-only.*copy=True|read-only.*max_version"):
        read_only_array().__dlpack__(max_version=version)


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0)], ids=str)
def test_a_copy_of_it_may_be_written_to(version):
    # numpy sets IS_COPIED and clears READ_ONLY, on both paths
    r = read_only_array()
    c = peek(r.__dlpack__(max_version=version, copy=True))
    assert c.data != r._state()[0]
    assert c.flags == (IS_COPIED if version == (1, 0) else None)


def test_numpy_heeds_the_flag():
    # numpy test_readonly
    a = np.from_dlpack(read_only_array())
    assert not a.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 1
    assert np.from_dlpack(nd.arange(5)).flags.writeable


def test_views_and_re_exports_stay_read_only():
    # numpy test_readonly; dpctl#1755
    r = read_only_array()
    for x in (r[1:], r[None], r.T, nd.from_dlpack(r), nd.from_dlpack(r)[2:]):
        assert peek(x.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
        with pytest.raises(ValueError, match="read-only"):
            x[...] = 1


# ---- the wrapper over our arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"max_version": None}, {"max_version": (1, 0)}, {"max_version": (2, 0)}], ids=str
)
def test_exports_with_the_flag(options):
    # torch 2.14 ReadOnlyTensorWrapper: also where no version is named
    x = nd.arange(6).reshape((2, 3))
    c = peek(Wrapper(x).__dlpack__(**options))
    assert (c.name, c.version, c.flags) == ("dltensor_versioned", (1, 3), READ_ONLY)
    assert (c.data, c.shape, c.strides) == (x._state()[0], (2, 3), (3, 1))
    assert Wrapper(x).__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("version", [(0, 0), (0, 8)], ids=str)
def test_an_unversioned_request_is_refused(version):
    # torch 2.14
    with pytest.raises(BufferError, match=r"1\.0"):
        Wrapper(nd.arange(3)).__dlpack__(max_version=version)


def test_to_dlpack_is_refused():
    # torch's to_dlpack lets a writable capsule out
    with pytest.raises(BufferError, match="unversioned"):
        nd.dlpack.to_dlpack(Wrapper(nd.arange(3)))
    with pytest.raises(BufferError, match="read-only"):
        nd.dlpack.to_dlpack(read_only_array())


def test_other_arguments_are_the_arrays():
    w = Wrapper(nd.arange(3))
    assert peek(w.__dlpack__(stream=-1, dl_device=(1, 0), copy=False)).flags == READ_ONLY
    assert peek(w.__dlpack__(copy=True)).flags == IS_COPIED
    with pytest.raises(BufferError):
        w.__dlpack__(dl_device=(10, 0))
    with pytest.raises(ValueError, match="stream"):
        w.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="max_version"):
        w.__dlpack__(max_version=1)
    with pytest.raises(TypeError, match="read_only"):
        w.__dlpack__(read_only=True)
    with pytest.raises(TypeError):
        w.__dlpack__(None)


def test_a_shared_array_is_neither_copied_nor_moved():
    # pytorch#188554: the read-only export of a lazy clone made the copy that it was to save
    x = nd.arange(1000)
    y = x.copy()
    address = x._state()[0]
    with nd.no_copies():
        for export in (
            Wrapper(y).__dlpack__(),
            np.from_dlpack(Wrapper(y)),
            np.from_dlpack(nd.readonly(y)),
            nd.from_dlpack(Wrapper(y)),
        ):
            assert nd.is_shared(x)
            assert nd.is_shared(y)
            assert x._state()[0] == y._state()[0] == address
            del export


@pytest.mark.parametrize(
    "export",
    [lambda x: x.__dlpack__(), lambda x: x.__dlpack__(max_version=(1, 3)), nd.dlpack.to_dlpack, np.from_dlpack],
    ids=["unversioned", "versioned", "to_dlpack", "numpy"],
)
def test_an_export_for_writing_moves_a_shared_array(export):
    # pytorch#188554, the control: exactly one copy, and the other array stays where it is
    x = nd.arange(1000)
    y = x.copy()
    address = x._state()[0]
    with nd.copy_log() as log:
        kept = export(y)
    assert [c.nbytes for c in log] == [8000]
    assert x._state()[0] == address
    assert y._state()[0] != address
    assert not nd.is_shared(x)
    del kept


def test_it_shows_later_writes():
    x = nd.arange(3)
    a = np.from_dlpack(Wrapper(x))
    x[0] = 9
    assert a[0] == 9


def test_memory_outlives_array_and_wrapper():
    # torch pins the tensor, and its consumer then reads unmapped memory
    x = nd.arange(1000)
    y = x.copy()
    a = np.from_dlpack(Wrapper(y))
    y[0] = 7  # moves y
    del x, y
    np.testing.assert_array_equal(a, np.arange(1000))


def test_negative_strides():
    w = Wrapper(nd.arange(3)[::-1])
    with pytest.raises(BufferError, match="allow_negative_strides"):
        w.__dlpack__()
    with nd.dlpack.allow_negative_strides():
        np.testing.assert_array_equal(np.from_dlpack(w), [2, 1, 0])


def test_coming_home_it_is_read_only():
    x = nd.arange(3)
    y = nd.from_dlpack(Wrapper(x))
    assert nd.shares_memory(x, y)
    with pytest.raises(ValueError, match="read-only"):
        y[0] = 1


def test_wrapping_a_wrapper():
    # torch's cannot be nested
    x = nd.arange(3)
    w = Wrapper(Wrapper(x))
    assert peek(w.__dlpack__()).data == x._state()[0]
    assert "ndarray" in repr(w)


def test_a_subclass_stays_read_only():
    class Mine(Wrapper):
        pass

    class Tagged(Wrapper):
        def __init__(self, x, tag):
            super().__init__(x)
            self.tag = tag

    x = nd.arange(3)
    assert peek(Mine(x).__dlpack__()).flags == READ_ONLY
    assert Tagged(x, "t").tag == "t"
    assert exchange_api(Mine).dltensor_from_py_object_no_sync is None
    with pytest.raises(ExportOnlyError, match="Mine"):
        Mine(x).shape


# ---- what it does not do ---------------------------------------------------------------------------------------------

REFUSED = {
    "shape": lambda w: w.shape,
    "dtype": lambda w: w.dtype,
    "data": lambda w: w.data,
    "T": lambda w: w.T,
    "__array_interface__": lambda w: w.__array_interface__,
    "__cuda_array_interface__": lambda w: w.__cuda_array_interface__,
    "numpy.asarray": np.asarray,
    "numpy.array": np.array,
    "numpy.add": lambda w: np.add(w, 1),
    "getitem": lambda w: w[0],
    "setitem": lambda w: operator.setitem(w, 0, 1),
    "delitem": lambda w: operator.delitem(w, 0),
    "len": len,
    "iter": iter,
    "list": list,
    "in": lambda w: 1 in w,
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "bytes": bytes,
    "+": lambda w: w + 1,
    "+ from the right": lambda w: 1 + w,
    "+=": lambda w: operator.iadd(w, 1),
    "-": operator.neg,
    "@": lambda w: w @ w,
    "==": lambda w: w == w,
    "!=": lambda w: w != 1,
    "<": lambda w: w < 1,
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}  # fmt: skip


@pytest.mark.parametrize("use", REFUSED)
def test_anything_else_is_refused(use):
    # torch 2.14: RuntimeError; here AttributeError as well, so that hasattr and notebooks work
    w = Wrapper(nd.arange(3))
    with pytest.raises(ExportOnlyError, match=r"ReadOnlyTensorWrapper.*from_dlpack") as caught:
        REFUSED[use](w)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, AttributeError)


def test_what_it_does():
    w = Wrapper(nd.arange(3))
    assert "ReadOnlyTensorWrapper" in repr(w)
    assert f"{w}" == str(w) == repr(w)
    assert {w: 1}[w] == 1
    assert hash(w) == hash(w)
    assert isinstance(w, Wrapper)
    assert hasattr(w, "__dlpack__")
    assert hasattr(w, "__dlpack_c_exchange_api__")
    assert not hasattr(w, "shape")
    assert not hasattr(w, "_repr_html_")
    with pytest.raises(TypeError):
        memoryview(w)


@pytest.mark.parametrize("x", [[1, 2], 3, Thing(), None], ids=repr)
def test_what_cannot_be_wrapped(x):
    # torch: AttributeError
    with pytest.raises(AttributeError, match="__dlpack__"):
        Wrapper(x)


# ---- its exchange table ----------------------------------------------------------------------------------------------


def test_it_has_a_table_of_its_own():
    # torch's const table; pytorch#188554, dlpack#179: an inherited table hands out a writable pointer
    assert "__dlpack_c_exchange_api__" in vars(Wrapper)
    assert Wrapper.__dlpack_c_exchange_api__ is not nd.ndarray.__dlpack_c_exchange_api__
    assert Wrapper(nd.arange(3)).__dlpack_c_exchange_api__ is Wrapper.__dlpack_c_exchange_api__
    ours, its = exchange_api(nd.ndarray), exchange_api(Wrapper)
    assert its.dltensor_from_py_object_no_sync is None  # which could not carry the flag
    for name in ("managed_tensor_allocator", "managed_tensor_to_py_object_no_sync", "current_work_stream"):
        assert getattr(ours, name) == getattr(its, name)
    assert ours.managed_tensor_from_py_object_no_sync != its.managed_tensor_from_py_object_no_sync


def test_the_tables_of_subclasses_and_read_only_arrays():
    # pytorch#188554, dlpack#180: through the C API flags are 1 and a shared source stays shared
    x = nd.arange(100)
    y = x.copy()
    for r in (nd.readonly(y), Wrapper(y)):
        look = nd.dlpack.inspect(r)["__dlpack_c_exchange_api__"]
        assert look.flags == READ_ONLY
        assert nd.is_shared(x)


# ---- over other libraries' objects -----------------------------------------------------------------------------------


def test_over_numpy():
    a = np.arange(3)
    w = Wrapper(a)
    c = peek(w.__dlpack__())
    assert (c.flags, c.data) == (READ_ONLY, a.ctypes.data)
    b = np.from_dlpack(w)
    assert not b.flags.writeable
    assert np.shares_memory(a, b)
    assert "numpy.ndarray" in repr(w)
    assert w.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        w.__dlpack__(max_version=(0, 8))


@pytest.mark.parametrize("kind", ANY_AGE)
def test_over_producers_of_any_age(kind):
    p = kind([1.0, 2.0])
    w = Wrapper(p)
    assert p.asked == []  # asked anew for each export, and not before
    for n in (1, 2):
        c = peek(w.__dlpack__())
        assert (c.name, c.flags, c.data) == ("dltensor_versioned", READ_ONLY, p.data.ctypes.data)
        assert len([1 for asked in p.asked if kind is BareProducer or asked is not None]) >= n
    if kind is not BareProducer and hasattr(kind, "inner"):
        return
    nd.zeros(1)
    assert p.deleted == 2


def test_its_own_read_only_route_is_taken():
    # torch 2.14: __dlpack__(read_only=True), which leaves a lazy clone where it is
    class ReadOnlyRoute(Producer):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None, read_only=False):
            self.asked.append({"read_only": read_only})
            self.fields["flags"] = READ_ONLY if read_only else 0
            return self.capsule(max_version is not None)

    p = ReadOnlyRoute()
    assert peek(Wrapper(p).__dlpack__()).flags == READ_ONLY
    assert p.asked == [{"read_only": True}]


def test_a_producers_refusal_is_passed_on():
    w = Wrapper(RaisingProducer(BufferError("not today")))
    with pytest.raises(BufferError, match="not today"):
        w.__dlpack__()


def test_copies_over_other_libraries():
    a = np.arange(3)
    c = peek(Wrapper(a).__dlpack__(copy=True))
    assert c.flags == IS_COPIED
    assert c.data != a.ctypes.data


def test_names():
    # the names of torch.utils.dlpack
    assert name_of(nd.dlpack.to_dlpack(nd.arange(3))) == "dltensor"
    assert nd.dlpack.from_dlpack is nd.from_dlpack
