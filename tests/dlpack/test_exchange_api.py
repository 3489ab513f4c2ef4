"""DLPack's table of C functions: ours as a consumer calls it, and others' as we call them."""

from __future__ import annotations

import ctypes
import gc
import threading
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, byref, c_char_p, c_int, c_int32, c_void_p, py_object

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance.capsules import c_string, delete, exchange_api, name_of, new_capsule, pointer_of, read
from nbdlpack.conformance.header import IS_COPIED, READ_ONLY, DLManagedTensorVersioned, DLPackExchangeAPI, DLTensor
from nbdlpack.conformance.producers import LegacyProducer, Producer, Tensor, exchange_type
from tests.arrays import Thing
from tests.dlpack.tools import flat

API = exchange_api(nd.ndarray)
SetError = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
# Called with the GIL, so PYFUNCTYPE; it also raises what they leave set (dlpack#180).
from_py = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))(API.managed_tensor_from_py_object_no_sync)
to_py = PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))(API.managed_tensor_to_py_object_no_sync)
borrow = PYFUNCTYPE(c_int, py_object, POINTER(DLTensor))(API.dltensor_from_py_object_no_sync)
# Called without the GIL.
allocate = CFUNCTYPE(c_int, POINTER(DLTensor), POINTER(c_void_p), c_void_p, SetError)(API.managed_tensor_allocator)
stream_of = CFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))(API.current_work_stream)


def export(x, function=from_py) -> int:
    out = c_void_p()
    assert function(x, byref(out)) == 0
    assert out.value
    return out.value


def at(address):
    return read(DLManagedTensorVersioned.from_address(address))


def steal(address):
    """Give a tensor to our table's to_py; return the object."""
    out = c_void_p(1)
    assert to_py(address, byref(out)) == 0
    assert out.value
    x = ctypes.cast(out.value, py_object).value
    ctypes.pythonapi.Py_DecRef(py_object(x))  # `value` took a reference of its own
    return x


# ---- the table -------------------------------------------------------------------------------------------------------


def test_where_it_is():
    # dlpack.h 1.3: a capsule on the type, the same each time; dlpack#179; tvm-ffi#301: readable from an instance
    capsule = nd.ndarray.__dlpack_c_exchange_api__
    assert name_of(capsule) == "dlpack_exchange_api"
    assert nd.ndarray.__dlpack_c_exchange_api__ is capsule
    assert nd.zeros(3).__dlpack_c_exchange_api__ is capsule
    assert nd.readonly(nd.zeros(3)).__dlpack_c_exchange_api__ is capsule


def test_what_it_has():
    # torch's and tvm-ffi's test_dlpack_exchange_api
    assert ctypes.sizeof(DLPackExchangeAPI) == 56
    assert (API.version.major, API.version.minor, API.prev_api) == (1, 3, None)
    for name, _ in DLPackExchangeAPI._fields_[2:]:
        assert getattr(API, name)


# ---- managed_tensor_from_py_object_no_sync ---------------------------------------------------------------------------


def test_from_py():
    x = nd.arange(6, dtype=nd.int16).reshape((2, 3))
    address = export(x)
    t = at(address)
    assert (t.version, t.flags, t.shape, t.strides, t.dtype) == ((1, 3), 0, (2, 3), (3, 1), (0, 16, 1))
    assert (t.data, t.byte_offset, t.device) == (x._state()[0], 0, (1, 0))
    assert x._state()[3:5] == (1, 1)
    delete(address)
    assert x._state()[3] == 0


def test_from_py_of_a_read_only_array():
    t = export(nd.readonly(nd.arange(3)))
    assert at(t).flags == READ_ONLY
    delete(t)


def test_from_py_makes_a_shared_array_sole_owner():
    # pytorch#188554, the control
    x = nd.arange(100)
    y = x.copy()
    address = x._state()[0]
    t = export(x)
    assert not nd.is_shared(y)
    assert at(t).data == x._state()[0] != address
    delete(t)


@pytest.mark.parametrize("x", [Thing(), 3, None, np.zeros(3), nd.ndarray], ids=lambda x: type(x).__name__)
def test_from_py_of_something_else(x):
    # dlpack.h: -1 and an exception; here TypeError, as cuda.core has it
    out = c_void_p(1)
    with pytest.raises(TypeError, match="table"):
        from_py(x, byref(out))
    assert out.value is None


def test_from_py_of_what_cannot_be_exported():
    # dlpack.h: exactly the exception, BufferError
    out = c_void_p(1)
    with pytest.raises(BufferError, match="negative strides"):
        from_py(nd.arange(3)[::-1], byref(out))
    assert out.value is None
    with nd.dlpack.allow_negative_strides():
        t = export(nd.arange(3)[::-1])
    assert at(t).strides == (-1,)
    delete(t)


# ---- managed_tensor_to_py_object_no_sync -----------------------------------------------------------------------------


def test_to_py_of_our_own():
    x = nd.arange(5)
    y = steal(export(x))
    assert type(y) is nd.ndarray
    assert nd.shares_memory(x, y)
    y[0] = 9
    assert x[0] == 9
    with flat(x):
        for _ in range(1000):
            steal(export(x))


def test_to_py_of_anothers():
    p = Tensor(np.arange(4.0))
    y = steal(p.managed(True))
    assert y._state()[0] == p.data.ctypes.data
    assert p.deleted == 0
    del y
    gc.collect()
    nd.zeros(1)
    assert p.deleted == 1


def test_to_py_keeps_the_flag():
    y = steal(Tensor(np.arange(4.0), flags=READ_ONLY).managed(True))
    assert not y.flags.writeable
    y = steal(Tensor(np.arange(4.0), flags=IS_COPIED).managed(True))
    assert y.flags.writeable


def test_to_py_of_what_cannot_be_imported():
    # dlpack.h leaves open who deletes after a failure; tvm-ffi does, so that we must not
    for fields in ({"version": (2, 0)}, {"dtype": (99, 8, 1)}, {"ndim": -1}, {"address": None}):
        p = Tensor(np.arange(4.0), **fields)
        out = c_void_p()
        with pytest.raises(BufferError):
            to_py(p.managed(True), byref(out))
        assert out.value is None
        assert p.deleted == 0


# ---- dltensor_from_py_object_no_sync ---------------------------------------------------------------------------------


def test_borrowing():
    # dlpack#174: shape and strides point into nothing temporary
    x = nd.arange(6, dtype=nd.int16).reshape((2, 3))
    t = DLTensor()
    assert borrow(x, byref(t)) == 0
    assert (t.data, t.byte_offset, t.ndim) == (x._state()[0], 0, 2)
    gc.collect()
    churn = [bytearray(64) for _ in range(1000)]
    assert (tuple(t.shape[:2]), tuple(t.strides[:2])) == ((2, 3), (3, 1))
    del churn
    with flat(x):
        for _ in range(100_000):
            borrow(x, byref(t))


def test_borrowing_makes_sole_owner():
    x = nd.arange(100)
    y = x.copy()
    t = DLTensor()
    assert borrow(y, byref(t)) == 0
    assert not nd.is_shared(x)
    assert t.data == y._state()[0]


def test_what_is_not_lent():
    t = DLTensor()
    with pytest.raises(BufferError, match="read-only"):
        borrow(nd.readonly(nd.arange(3)), byref(t))
    with pytest.raises(BufferError, match="negative"):
        borrow(nd.arange(3)[::-1], byref(t))
    with pytest.raises(TypeError, match="table"):
        borrow(object(), byref(t))


# ---- managed_tensor_allocator ----------------------------------------------------------------------------------------


def prototype(shape=(2, 3), dtype=(2, 32, 1), device=(1, 0), ndim=None):
    t = DLTensor()
    keep = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    t.shape = keep
    t.ndim = len(shape) if ndim is None else ndim
    t.dtype.code, t.dtype.bits, t.dtype.lanes = dtype
    t.device.device_type, t.device.device_id = device
    t.data, t.byte_offset = 1, 12345  # dlpack.h: not to be read
    t.keep = keep
    return t


def test_allocating():
    # torch's and tvm-ffi's tests: SetError and strides are null; called without the GIL
    out = c_void_p()
    assert allocate(byref(prototype()), byref(out), None, SetError()) == 0
    t = at(out.value)
    assert (t.version, t.flags, t.device, t.dtype) == ((1, 3), 0, (1, 0), (2, 32, 1))
    assert (t.shape, t.strides, t.byte_offset) == ((2, 3), (3, 1), 0)
    assert t.data % 256 == 0
    info = nd.memory_info()
    delete(out.value)
    assert nd.memory_info()[:3] != info[:3]
    assert allocate(byref(prototype()), byref(out), None, SetError()) == 0
    x = steal(out.value)
    x[...] = 1
    assert x.shape == (2, 3)
    y = x.copy()
    assert nd.is_shared(y)  # it is ours, so that its copies are lazy


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,) * 64], ids=str)
def test_allocating_shapes(shape):
    out = c_void_p()
    assert allocate(byref(prototype(shape)), byref(out), None, SetError()) == 0
    assert steal(out.value).shape == shape


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"dtype": (99, 8, 1)}, b"BufferError"),
        ({"dtype": (2, 32, 2)}, b"BufferError"),
        ({"device": (10, 0)}, b"BufferError"),
        ({"device": (1, 1)}, b"BufferError"),
        ({"device": (99, 0)}, b"BufferError"),
        ({"shape": (-1,)}, b"ValueError"),
        ({"ndim": -1}, b"ValueError"),
        ({"shape": (1,) * 65}, b"ValueError"),
        ({"shape": (1 << 62,)}, b"MemoryError"),
        ({"shape": (1 << 32, 1 << 32)}, b"MemoryError"),
        ({"shape": (1 << 46,)}, b"MemoryError"),
    ],
    ids=str,
)
def test_what_cannot_be_allocated(fields, kind):
    # dlpack.h: -1 after one call of SetError, whose kind is an exception's name; no Python error is left
    said = []

    @SetError
    def set_error(context, kind, message):
        said.append((context, kind, message))

    out = c_void_p(1)
    assert allocate(byref(prototype(**fields)), byref(out), 1234, set_error) == -1
    assert out.value is None
    assert [s[:2] for s in said] == [(1234, kind)]
    assert said[0][2]
    assert allocate(byref(prototype(**fields)), byref(out), None, SetError()) == -1


def test_allocating_on_other_threads():
    libc = ctypes.CDLL(None)  # lets go of the GIL
    assert libc is not None
    done = []

    def work():
        for _ in range(500):
            out = c_void_p()
            assert allocate(byref(prototype((100,))), byref(out), None, SetError()) == 0
            delete(out.value)
        done.append(1)

    before = nd.memory_info()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(done) == 4
    assert nd.memory_info()[:3] == before[:3]


# ---- current_work_stream ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [(1, 0), (2, 0), (99, 7)], ids=str)
def test_streams(device):
    # dlpack.h: the CPU has none; tvm-ffi does not clear an error, so there never is one
    out = c_void_p(1)
    assert stream_of(*device, byref(out)) == 0
    assert out.value is None


# ---- subclasses ------------------------------------------------------------------------------------------------------


def test_a_subclass_inherits_it():
    class Plain(nd.ndarray):
        pass

    assert Plain.__dlpack_c_exchange_api__ is nd.ndarray.__dlpack_c_exchange_api__


def test_a_subclass_with_an_export_of_its_own_is_not_bypassed():
    # dlpack#179, pytorch#169724: the table of the type above exported what the override refused
    class Guarded(nd.ndarray):
        calls = 0

        def __dlpack__(self, **options):
            Guarded.calls += 1
            if self.size > 3:
                raise BufferError("too large")
            return super().__dlpack__(**options)

    class Derived(Guarded):
        pass

    for kind in (Guarded, Derived):
        assert kind.__dlpack_c_exchange_api__ is not nd.ndarray.__dlpack_c_exchange_api__
        function = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))(
            exchange_api(kind).managed_tensor_from_py_object_no_sync
        )
        small, large = nd.arange(3).view(kind), nd.arange(4).view(kind)
        assert type(small) is kind
        Guarded.calls = 0
        t = export(small, function)
        assert Guarded.calls == 1
        assert at(t).data == small._state()[0]
        delete(t)
        with pytest.raises(BufferError, match="too large"):
            function(large, byref(c_void_p()))
        with pytest.raises(BufferError, match="too large"):
            nd.from_dlpack(large)
        assert nd.shares_memory(nd.from_dlpack(small), small)
        assert exchange_api(kind).dltensor_from_py_object_no_sync is None


def test_a_subclass_with_a_device_of_its_own():
    class Elsewhere(nd.ndarray):
        def __dlpack_device__(self):
            return (1, 0)

    assert Elsewhere.__dlpack_c_exchange_api__ is not nd.ndarray.__dlpack_c_exchange_api__


# ---- other libraries' tables -----------------------------------------------------------------------------------------


def test_a_table_is_used():
    kind = exchange_type()
    p = kind([1.0, 2.0])
    for n in (1, 2, 3):
        x = nd.from_dlpack(p)
        assert x._state()[0] == p.data.ctypes.data
        assert kind.through_table == n
    assert p.asked == []
    del x
    gc.collect()
    nd.zeros(1)
    assert p.deleted == 3


def test_a_table_with_options():
    p = exchange_type()([1.0, 2.0])
    assert nd.from_dlpack(p, copy=True)._state()[0] != p.data.ctypes.data
    assert nd.from_dlpack(p, copy=False)._state()[0] == p.data.ctypes.data
    assert nd.from_dlpack(p, device="cpu")._state()[0] == p.data.ctypes.data


def test_a_derived_type_has_the_same_table():
    kind = exchange_type()

    class Derived(kind):
        pass

    nd.from_dlpack(Derived())
    assert kind.through_table == 1


@pytest.mark.parametrize("method", ["__dlpack__", "__dlpack_device__"])
def test_a_derived_type_that_exports_in_another_way(method):
    # pytorch#188554, dlpack#180
    kind = exchange_type()
    derived = type("Derived", (kind,), {method: lambda self, **asked: getattr(Producer, method)(self, **asked)})
    p = derived()
    for _ in range(2):
        nd.from_dlpack(p)
    assert kind.through_table == 0
    assert len(p.asked) == 2


def refusing(error):
    """Return a type whose table raises, while `__dlpack__` exports as ever."""

    class Refusing(Producer):
        def _managed(self):
            raise error

    return exchange_type(base=Refusing)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), RecursionError()], ids=repr)
def test_an_error_that_is_no_refusal(error):
    p = refusing(error)()
    for _ in range(2):
        with pytest.raises(type(error)):
            nd.from_dlpack(p)
    assert p.asked == []


def test_an_export_that_imports_itself():
    class Endless(nd.ndarray):
        def __dlpack__(self, **options):
            return nd.from_dlpack(self)

    x = nd.arange(3).view(Endless)
    with pytest.raises(RecursionError):
        nd.from_dlpack(x)
    assert x._state()[2:5] == (1, 0, 0)


@pytest.mark.parametrize("version", [(2, 0), (100, 0)], ids=str)
def test_a_table_that_is_its_own_past(version):
    kind = exchange_type(version=version)
    kind.api.prev_api = ctypes.addressof(kind.api)
    np.testing.assert_array_equal(nd.from_dlpack(kind()), [0, 1, 2, 3])
    assert kind.through_table == 0


@pytest.mark.parametrize("version", [(2, 0), (0, 8), (100, 0)], ids=str)
def test_a_table_of_another_major_version(version):
    # dlpack.h: fall back to __dlpack__; tvm-ffi uses it as it is
    kind = exchange_type(version=version)
    p = kind()
    for _ in range(2):
        nd.from_dlpack(p)
    assert kind.through_table == 0
    assert p.asked == [{"max_version": (1, 3)}] * 2


def test_the_walk_to_a_table_that_is_understood():
    # dlpack.h: prev_api
    old = exchange_type()
    # The function counts for the object's type, whichever table it is called from: the oldest alone has it.
    middle = exchange_type(version=(2, 0), previous=ctypes.addressof(old.api), slot=False)
    new = exchange_type(version=(3, 0), previous=ctypes.addressof(middle.api), slot=False)
    p = new()
    nd.from_dlpack(p)
    assert (new.through_table, p.asked) == (1, [])


@pytest.mark.parametrize("minor", [0, 99])
def test_any_minor_version(minor):
    kind = exchange_type(version=(1, minor))
    nd.from_dlpack(kind())
    assert kind.through_table == 1


def test_a_table_without_the_function():
    p = exchange_type(slot=False)()
    nd.from_dlpack(p)
    assert len(p.asked) == 1


@pytest.mark.parametrize(
    "value",
    [None, 1234, 0, Thing(), property(lambda self: None), new_capsule(c_string("x"), "other_name")],
    ids=["None", "1234", "0", "thing", "property", "capsule"],
)
def test_what_is_no_table(value):
    # tvm-ffi raises ValueError for these; the old spelling was an int
    kind = type("Odd", (Producer,), {"__dlpack_c_exchange_api__": value})
    p = kind()
    for _ in range(2):
        np.testing.assert_array_equal(nd.from_dlpack(p), [0, 1, 2, 3])
    assert len(p.asked) == 2


def test_an_attribute_of_an_instance_is_not_asked():
    kind = exchange_type()
    p = Producer()
    p.__dlpack_c_exchange_api__ = kind.__dlpack_c_exchange_api__
    nd.from_dlpack(p)
    assert kind.through_table == 0


@pytest.mark.parametrize("error", [BufferError("table"), RuntimeError("table"), TypeError("table")], ids=repr)
def test_a_table_that_refuses(error):
    # torch's maps all errors to RuntimeError: `__dlpack__` can say why
    p = refusing(error)()
    for _ in range(2):
        np.testing.assert_array_equal(nd.from_dlpack(p), [0, 1, 2, 3])
    assert len(p.asked) == 2

    class Precise(refusing(error)):
        def refuse(self, **asked):
            raise BufferError("this is why")

        __dlpack__ = refuse

    with pytest.raises(BufferError, match="this is why"):
        nd.from_dlpack(Precise())


def test_a_table_whose_tensor_is_refused():
    p = exchange_type()(dtype=(17, 4, 1))
    with pytest.raises(BufferError, match="float4"):
        nd.from_dlpack(p)
    assert p.deleted + p.kept == len(p.made)


def test_a_table_and_an_old_method():
    kind = exchange_type(base=LegacyProducer)
    nd.from_dlpack(kind())
    assert kind.through_table == 1


def test_a_capsule_of_the_table_is_no_tensor():
    with pytest.raises(ValueError, match="named"):
        nd.from_dlpack(nd.ndarray.__dlpack_c_exchange_api__)
    assert pointer_of(nd.ndarray.__dlpack_c_exchange_api__)
