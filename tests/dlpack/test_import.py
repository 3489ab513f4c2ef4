"""`from_dlpack`: producers old and new, capsules, devices, copies."""

from __future__ import annotations

import gc
import sys

import ml_dtypes
import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import dtypes
from nbdlpack.conformance.capsules import name_of, new_capsule, peek, rename
from nbdlpack.conformance.header import IS_COPIED, READ_ONLY
from nbdlpack.conformance.producers import (
    ANY_AGE,
    OLD,
    BareProducer,
    CopyingProducer,
    ForwardingProducer,
    LegacyProducer,
    Producer,
    RaisingProducer,
    StreamProducer,
    Tensor,
    VersionProducer,
)
from nbdlpack.errors import ExchangeError

BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["unversioned", "versioned"])


def settle():
    """Let what has ended be released."""
    gc.collect()
    nd.zeros(1)


# ---- producers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ANY_AGE)
def test_producers_of_any_age(kind):
    # the standard's logic for older producers; numpy OldDLPack; dpctl#1789, cupynumeric#1239, array-api#602
    p = kind([1.0, 2.0, 3.0])
    for _ in range(3):  # the first time a type is met, and later
        x = nd.from_dlpack(p)
        np.testing.assert_array_equal(x, [1, 2, 3])
        assert x._state()[0] == p.data.ctypes.data
        assert type(x) is nd.ndarray
    del x
    settle()
    assert p.deleted == 3


@pytest.mark.parametrize("kind", [Producer, CopyingProducer, LegacyProducer])
def test_what_a_producer_is_asked(kind):
    # the standard: a version of which we understand the major; no stream where there is none
    p = kind()
    for _ in range(2):
        nd.from_dlpack(p)
    if kind is not CopyingProducer:
        assert p.asked == [{"max_version": (1, 3)}] * 2


@pytest.mark.parametrize("kind", OLD)
@pytest.mark.parametrize("options", [{}, {"copy": False}, {"copy": True}, {"device": "cpu"}], ids=str)
def test_an_old_producer_is_asked_for_no_more_than_it_knows(kind, options):
    # torch test_dlpack_copy_fallback; dpctl#1789
    p = kind([1.0, 2.0])
    x = nd.from_dlpack(p, **options)
    np.testing.assert_array_equal(x, [1, 2])
    assert (x._state()[0] == p.data.ctypes.data) == (options != {"copy": True})
    calls = p.inner.asked if kind is ForwardingProducer else p.asked
    assert calls == [{}]


def test_a_producer_that_knows_versions_alone():
    p = VersionProducer([1.0])
    nd.from_dlpack(p, copy=True)
    assert p.asked == [{"max_version": (1, 3)}]
    assert nd.from_dlpack(p, copy=False)._state()[0] == p.data.ctypes.data


@pytest.mark.parametrize(
    "error",
    [
        TypeError("the producer's own"),
        TypeError("f() got an unexpected keyword argument 'nonsense'"),
        BufferError("cannot"),
        ValueError("bad"),
        RuntimeError("worse"),
        KeyError("k"),
        MemoryError(),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("options", [{}, {"copy": True}], ids=str)
def test_what_a_producer_raises_is_passed_on(error, options):
    # the standard; numpy and torch do so; dpctl#1789: not hidden, and not asked again
    p = RaisingProducer(error)
    with pytest.raises(type(error)) as caught:
        nd.from_dlpack(p, **options)
    assert caught.value is error
    assert caught.value.__context__ is None
    # A producer that takes copy=True but cannot copy, as tvm-ffi's, is asked again for its memory as it is.
    assert len(p.asked) == (2 if options and isinstance(error, BufferError) else 1)


def test_a_producer_that_cannot_copy():
    # tvm-ffi, nanobind, cuda.core: BufferError for copy=True
    class CannotCopy(Producer):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            if copy:
                raise BufferError("copy is not supported")
            return self.capsule()

    p = CannotCopy([1.0, 2.0])
    x = nd.from_dlpack(p, copy=True)
    np.testing.assert_array_equal(x, [1, 2])
    assert x._state()[0] != p.data.ctypes.data


def test_a_known_type_that_raises():
    class Sometimes(Producer):
        fails = None

        def __dlpack__(self, **asked):
            self.asked.append(asked)
            if self.fails is not None:
                raise self.fails
            return self.capsule()

    p = Sometimes()
    nd.from_dlpack(p)
    for error in (TypeError("its own"), BufferError("cannot")):
        p.asked, p.fails = [], error
        with pytest.raises(type(error)) as caught:
            nd.from_dlpack(p)
        assert caught.value is error
        assert len(p.asked) <= 2
    p.fails = None
    nd.from_dlpack(p)


def test_a_producer_whose_second_answer_fails():
    class Twice(StreamProducer):
        def __dlpack__(self, stream=None):
            raise BufferError("even so")

    with pytest.raises(BufferError, match="even so") as caught:
        nd.from_dlpack(Twice())
    assert caught.value.__context__ is None


class NotCallable:
    __dlpack__ = 5


class WithGetattr:
    def __getattr__(self, name):
        raise AttributeError(name)


@pytest.mark.parametrize("x", [object(), 1, "text", [1.0], None, {}, WithGetattr()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("options", [{}, {"copy": True}, {"device": "cpu"}], ids=str)
def test_what_speaks_no_dlpack(x, options):
    # the standard's from_dlpack: AttributeError; cuda-quantum#2688: that names the protocol
    with pytest.raises(AttributeError, match=r"__dlpack__.*asarray"):
        nd.from_dlpack(x, **options)


def test_what_only_seems_to():
    with pytest.raises(TypeError):
        nd.from_dlpack(NotCallable())
    with pytest.raises(TypeError):
        nd.from_dlpack(np.ndarray)


def test_a_missing_attribute_inside_a_producer_keeps_its_message():
    class Lazy:
        @property
        def __dlpack__(self):
            raise AttributeError("not yet loaded")

    with pytest.raises(AttributeError, match="not yet loaded"):
        nd.from_dlpack(Lazy())


@pytest.mark.parametrize("answer", [None, 5, b"dltensor", (), np.zeros(3)], ids=lambda x: type(x).__name__)
def test_a_producer_that_returns_something_else(answer):
    class Wrong:
        def __dlpack__(self, **asked):
            return answer

        def __dlpack_device__(self):
            return (1, 0)

    for options in ({}, {"copy": True}, {}):
        with pytest.raises(TypeError, match="capsule"):
            nd.from_dlpack(Wrong(), **options)


def test_a_known_type_that_returns_something_else():
    class Changing(Producer):
        answer = None

        def __dlpack__(self, **asked):
            return self.answer or self.capsule()

    p = Changing()
    nd.from_dlpack(p)
    p.answer = 5
    with pytest.raises(TypeError, match="capsule"):
        nd.from_dlpack(p)
    p.answer = p.capsules[-1]
    with pytest.raises(ValueError, match="consumed"):
        nd.from_dlpack(p)
    p.answer = None
    nd.from_dlpack(p)


def test_no_device_is_no_obstacle():
    class WithoutDevice:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, **asked):
            return self.a.__dlpack__(**asked)

    a = np.arange(3)
    for options in ({}, {"device": "cpu"}, {"copy": False}):
        assert nd.from_dlpack(WithoutDevice(a), **options)._state()[0] == a.ctypes.data


def test_the_signature():
    # the standard: x by position, the rest by keyword
    a = np.arange(3)
    for call in (
        lambda: nd.from_dlpack(),
        lambda: nd.from_dlpack(x=a),
        lambda: nd.from_dlpack(a, "cpu"),
        lambda: nd.from_dlpack(a, None, None),
        lambda: nd.from_dlpack(a, stream=None),
        lambda: nd.from_dlpack(a, copy="yes"),
        lambda: nd.from_dlpack(a, copy=1),
        lambda: nd.from_dlpack(a, device=3),
    ):
        with pytest.raises(TypeError):
            call()


# ---- fields ----------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("row", dtypes.TABLE, ids=lambda row: row.name)
def test_every_dtype(row, versioned):
    # cupy#8801, dlpack#156; bool stays bool: warp#1619, jax#19352, pytorch#94463; cudf#5353
    a = np.arange(6).astype(row.dtype)
    p = Tensor(a, dtype=(row.code, row.bits, 1))
    x = nd.from_dlpack(p.capsule(versioned))
    assert x.dtype == row.dtype
    assert bytes(x) == a.tobytes()


@BOTH
@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3), (3, 0), (2, 3, 4), (1,) * 64], ids=str)
def test_null_strides_are_c_order(shape, versioned):
    # allowed before DLPack 1.2; cupy#2119, dlpack#178, numpy#29872
    a = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    x = nd.from_dlpack(Tensor(a, strides=None).capsule(versioned))
    np.testing.assert_array_equal(x, a)
    assert x.flags.c_contiguous
    if x.ndim:
        assert peek(x.__dlpack__()).strides is not None  # accepted, and never produced


@BOTH
def test_no_dimensions_and_no_shape(versioned):
    # numpy gives null pointers, torch does not
    for fields in ({"shape": None, "strides": None}, {"shape": (), "strides": ()}):
        x = nd.from_dlpack(Tensor(np.array(5.0), ndim=0, **fields).capsule(versioned))
        assert x.shape == ()
        assert x.item() == 5.0


@BOTH
def test_byte_offset(versioned):
    # cuda-python#2592, pytorch#168177, tvm#11340, flashinfer#193; torch's main line exports it since pytorch#182924
    a = np.arange(16, dtype=np.float32)
    x = nd.from_dlpack(Tensor(a, byte_offset=8, shape=(4,), strides=(1,)).capsule(versioned))
    np.testing.assert_array_equal(x, [2, 3, 4, 5])
    again = nd.from_dlpack(x.__dlpack__(max_version=(1, 3)))
    assert again[0] == 2
    c = peek(x.__dlpack__())
    assert (c.data, c.byte_offset) == (a.ctypes.data + 8, 0)
    for strides in (None, (2,)):
        x = nd.from_dlpack(Tensor(a, byte_offset=4, shape=(3,), strides=strides).capsule(versioned))
        assert x[1] == (2 if strides is None else 3)
    # not a multiple of the item size: the address is what it is
    a = np.arange(17, dtype=np.uint8)
    x = nd.from_dlpack(Tensor(a, byte_offset=1, shape=(4,), strides=(1,), dtype=(2, 32, 1)).capsule(versioned))
    np.testing.assert_array_equal(x, a[1:17].view(np.float32))
    np.testing.assert_array_equal(x + 0, a[1:17].view(np.float32))


@BOTH
@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[:, ::-1], np.s_[::2, ::-3], np.s_[None, ::-1]], ids=str)
def test_negative_strides(view, versioned):
    # our import never dies of them
    a = np.arange(30.0).reshape(5, 6)[view]
    np.testing.assert_array_equal(nd.from_dlpack(Tensor(a).capsule(versioned)), a)
    np.testing.assert_array_equal(nd.from_dlpack(a), a)
    x = nd.asarray(np.arange(30.0).reshape(5, 6), copy=True)[view]
    np.testing.assert_array_equal(nd.from_dlpack(x), a)  # ours to ours


@BOTH
def test_overlapping_elements_are_read_only(versioned):
    # numpy's broadcast rule; zarrista#108; torch's expand has no flag
    x = nd.from_dlpack(Tensor(np.arange(4.0), shape=(3, 4), strides=(0, 1)).capsule(versioned))
    assert not x.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        x[0, 0] = 1


@BOTH
@pytest.mark.parametrize(
    ("shape", "strides"), [((1, 4), (777, 1)), ((4, 1), (1, 777)), ((1,), (-5,)), ((1, 1), (0, 3))], ids=str
)
def test_strides_of_single_dimensions_do_not_matter(shape, strides, versioned):
    # torch test_dlpack_normalize_strides, numpy test_size1dims_arrays; triton-server#6102, tilelang#1968
    x = nd.from_dlpack(Tensor(np.arange(4.0), shape=shape, strides=strides).capsule(versioned))
    assert x.flags.c_contiguous
    assert x.flags.f_contiguous
    assert x.flags.writeable
    assert peek(x.__dlpack__()).strides == strides
    np.testing.assert_array_equal(x, np.arange(4.0)[: x.size].reshape(shape))


@BOTH
@pytest.mark.parametrize("address", [None, ...], ids=["null", "not null"])
@pytest.mark.parametrize(
    ("shape", "strides"), [((0,), (1,)), ((0, 3), (5, 7)), ((3, 0), None), ((2, 0, 4), (0, 0, 0))], ids=str
)
def test_no_elements(shape, strides, address, versioned):
    # torch exports null, numpy and jax do not; tensorflow#61184, cudf#11449, cupy#2104
    fields = {} if address is ... else {"address": address}
    x = nd.from_dlpack(Tensor(np.zeros(3), shape=shape, strides=strides, **fields).capsule(versioned))
    assert x.shape == shape
    assert x.flags.c_contiguous
    assert x.flags.f_contiguous
    assert x.tolist() == np.zeros(shape).tolist()
    np.testing.assert_array_equal(x + 1, np.zeros(shape))
    assert np.from_dlpack(x).shape == shape


@BOTH
@pytest.mark.parametrize("offset", range(1, 8))
def test_unaligned_memory(offset, versioned):
    # dlpack.h asks for alignment and then says not to rely on it; tvm#18324, dlpack#99
    raw = np.zeros(100, np.uint8)
    a = raw[offset : offset + 80].view(np.float64)
    a[:] = np.arange(10)
    x = nd.from_dlpack(Tensor(a).capsule(versioned))
    np.testing.assert_array_equal(x * 2, np.arange(10) * 2)
    x[3] = 7
    assert a[3] == 7


def test_the_flag_makes_it_read_only():
    # numpy test_readonly; dpctl#1755, numba#1229, array-api#191
    p = Tensor(np.arange(4.0), flags=READ_ONLY)
    x = nd.from_dlpack(p.capsule())
    assert not x.flags.writeable

    def augmented(y):
        y += 1

    for write in (
        lambda: x.__setitem__(0, 1),
        lambda: x.fill(1),
        lambda: augmented(x),
        lambda: augmented(x[1:]),
        lambda: np.add(x, 1, out=x),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(BufferError):
        x.__dlpack__()
    assert peek(x.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    assert peek(x[1:].__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    y = x.copy()
    y[0] = 9
    assert x[0] == 0
    assert p.data[0] == 0


def test_an_unversioned_capsule_may_be_written_to():
    # Decided: as everyone but numpy has it (numpy test_writeable), since that is what consumers expect
    p = Tensor(np.arange(4.0))
    x = nd.from_dlpack(p.capsule(versioned=False))
    x[0] = 9
    assert p.data[0] == 9


def test_other_flags_are_ignored():
    x = nd.from_dlpack(Tensor(flags=1 << 2 | 1 << 40).capsule())
    assert x.flags.writeable
    assert peek(x.__dlpack__(max_version=(1, 0))).flags == 0


# ---- lives -----------------------------------------------------------------------------------------------------------


@BOTH
def test_the_deleter_is_called_once_at_the_end(versioned):
    # cupy#1445, pytorch#9261, cudf#2400, cuda-python#1043, iree#20849: never, or too early
    p = Tensor(np.arange(4.0))
    x = nd.from_dlpack(p.capsule(versioned))
    view = x[1:]
    del x
    settle()
    assert p.deleted == 0
    np.testing.assert_array_equal(view, [1, 2, 3])
    del view
    settle()
    assert p.deleted == 1


def test_the_capsule_is_kept_and_not_the_producer():
    # numpy#20673
    class Temporary:
        def __dlpack__(self, **asked):
            return nd.arange(1000).__dlpack__(**asked)

    class TemporaryNumpy:
        def __dlpack__(self, **asked):
            return np.arange(1000).__dlpack__(**asked)

    for kind in (Temporary, TemporaryNumpy):
        x = nd.from_dlpack(kind())
        settle()
        churn = [np.zeros(1000) for _ in range(100)]
        np.testing.assert_array_equal(x, np.arange(1000))
        del churn


@BOTH
def test_what_is_imported_is_not_written_to(versioned):
    # cudnn-frontend#547: the importer rewrote the producer's strides in place
    p = Tensor(np.arange(6.0).reshape(1, 6), strides=(777, 1))
    capsule = p.capsule(versioned)
    before = peek(capsule)
    x = nd.from_dlpack(capsule)
    x[:, ::2].copy()
    nd.from_dlpack(x)
    x.__dlpack__()
    after = peek(capsule)
    after.name = before.name
    assert after == before


@pytest.mark.parametrize("copies", [False, True])
@BOTH
def test_many_imports_leave_nothing(versioned, copies):
    # lmdeploy#1344; iree#20849
    a = np.arange(1000)
    before = sys.getrefcount(a)
    options = {"max_version": (1, 3)} if versioned else {}

    def cycle(n):
        for _ in range(n):
            nd.from_dlpack(a, copy=True if copies else None)
            nd.from_dlpack(a.__dlpack__(**options), copy=True if copies else None)

    cycle(500)
    info = nd.memory_info()
    cycle(5_000)
    settle()
    assert sys.getrefcount(a) == before
    assert nd.memory_info()[:3] == info[:3]


# ---- capsules --------------------------------------------------------------------------------------------------------


@BOTH
def test_capsules_are_accepted(versioned):
    # torch and cupy accept them, numpy and jax do not; cuda-quantum#2688: decided, and here to stay
    x = nd.arange(4)
    capsule = x.__dlpack__(max_version=(1, 3) if versioned else None)
    y = nd.from_dlpack(capsule)
    assert nd.shares_memory(x, y)
    p = Tensor(np.arange(4.0))
    y = nd.from_dlpack(p.capsule(versioned))
    assert y._state()[0] == p.data.ctypes.data


@BOTH
@pytest.mark.parametrize("copy", [True, False, None])
@pytest.mark.parametrize("device", [None, "cpu", nd.Device("cpu")], ids=str)
def test_capsules_with_options(device, copy, versioned):
    p = Tensor(np.arange(4.0))
    y = nd.from_dlpack(p.capsule(versioned), device=device, copy=copy)
    np.testing.assert_array_equal(y, np.arange(4.0))
    assert (y._state()[0] == p.data.ctypes.data) == (copy is not True)


def test_a_capsule_that_is_a_copy_already_is_not_copied_again():
    p = Tensor(flags=IS_COPIED)
    for copy in (True, False, None):
        y = nd.from_dlpack(p.capsule(), copy=copy)
        assert y._state()[0] == p.data.ctypes.data


@BOTH
def test_a_capsule_is_consumed_once(versioned):
    # torch RuntimeError, numpy and cupy ValueError
    p = Tensor()
    capsule = p.capsule(versioned)
    x = nd.from_dlpack(capsule)
    for options in ({}, {"copy": True}, {"device": "cpu"}):
        with pytest.raises(ValueError, match="consumed"):
            nd.from_dlpack(capsule, **options)
    del capsule
    settle()
    assert p.deleted == 0
    del x
    settle()
    assert p.deleted == 1


@pytest.mark.parametrize("name", ["", "tensor", "used_dltensor", "dltensor_versioned2", "dlpack_exchange_api"])
def test_capsules_of_other_names(name):
    # dlpack#104, cutlass#3359, tilelang#2095: accepted by the exact name alone
    p = Tensor()
    capsule = p.capsule()
    rename(capsule, name)
    for options in ({}, {"copy": True}):
        with pytest.raises(ValueError, match="named"):
            nd.from_dlpack(capsule, **options)
    assert name_of(capsule) == name
    assert p.deleted == 0

    class Wrong:
        def __dlpack__(self, **asked):
            return capsule

    for _ in range(2):
        with pytest.raises(ValueError, match="named|consumed"):
            nd.from_dlpack(Wrong())


def test_a_capsule_without_a_name():
    from ctypes import PYFUNCTYPE, c_void_p, py_object, pythonapi

    new = PYFUNCTYPE(py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", pythonapi))
    with pytest.raises(ValueError, match="None"):
        nd.from_dlpack(new(1, None, None))


def test_the_two_kinds_are_told_apart_by_name():
    # dlpack#104: one layout read as the other
    p = Tensor(np.arange(4.0))
    for versioned in (False, True):
        struct = p.managed(versioned)
        capsule = new_capsule(struct, "dltensor_versioned" if versioned else "dltensor")
        np.testing.assert_array_equal(nd.from_dlpack(capsule), np.arange(4.0))


# ---- devices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [np.arange, nd.arange, lambda n: Producer(np.arange(float(n)))], ids=["numpy", "nd", "fake"]
)
@pytest.mark.parametrize("device", [None, "cpu", nd.Device("cpu")], ids=str)
def test_the_device_of_the_result(make, device):
    # array-api-tests test_from_dlpack; torch's cross-device tests
    p = make(3)
    x = nd.from_dlpack(p, device=device, copy=False)
    assert x.device == "cpu"
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_a_producer_hears_of_no_device_but_its_own():
    # pytorch#169572: the consumer moves the data itself
    p = Producer()
    nd.from_dlpack(p, device="cpu")
    assert p.asked == [{"max_version": (1, 3)}]


def test_memory_that_cannot_be_read_here_is_asked_for_on_the_cpu():
    # the standard: a producer reaches the CPU somehow
    class OnDevice(Producer):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            self.asked.append({"dl_device": dl_device, "copy": copy, "stream": stream})
            if dl_device == (1, 0):
                return Tensor(self.data, flags=IS_COPIED).capsule()
            return self.capsule()

    p = OnDevice([1.0, 2.0], device=(10, 0))
    x = nd.from_dlpack(p, device="cpu")
    np.testing.assert_array_equal(x, [1, 2])
    assert p.asked == [{"dl_device": (1, 0), "copy": None, "stream": None}]
    with pytest.raises(BufferError, match="device"):
        nd.from_dlpack(p)
    with pytest.raises(ExchangeError):
        nd.from_dlpack(p, device="cpu", copy=False)


@pytest.mark.parametrize("name", ["tape", "", "cpu:1", "CPU"])
def test_devices_that_there_are_not(name):
    with pytest.raises(ValueError, match="device"):
        nd.from_dlpack(np.arange(3), device=name)


@pytest.mark.parametrize("kind", [Producer, StreamProducer, BareProducer, LegacyProducer])
def test_a_device_that_is_not_had_without_a_copy(kind):
    # the standard's text has ValueError in one place and BufferError in another; pytorch#194267
    p = kind([1.0], device=(10, 0))
    with pytest.raises(BufferError):
        nd.from_dlpack(p, device="cpu", copy=False)
    settle()
    assert p.deleted + p.kept == len(p.made)


@pytest.mark.parametrize("options", [{}, {"device": "cpu"}, {"copy": True}], ids=str)
@BOTH
def test_a_producer_that_lies_about_its_device(versioned, options):
    # numpy, torch and pyarrow look at the capsule's own device; jax, tvm-ffi, nanobind, paddle trust the object
    kind = Producer if versioned else LegacyProducer
    p = kind([1.0], device=(10, 0), claims=(1, 0))
    with pytest.raises(BufferError, match="device"):
        nd.from_dlpack(p, **options)
    settle()
    assert p.deleted + p.kept == len(p.made) == 1
    p = kind([1.0], claims=(10, 0))  # the other way round: the memory is what it is
    assert nd.from_dlpack(p, **options).device == "cpu"


# ---- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ANY_AGE, CopyingProducer])
def test_copy_true_always_copies(kind):
    # torch test_dlpack_copy_fallback; numpy and torch trust a producer that takes copy=True and shares all the same
    p = kind([1.0, 2.0, 3.0])
    x = nd.from_dlpack(p, copy=True)
    p.data[0] = 9
    np.testing.assert_array_equal(x, [1, 2, 3])
    x[1] = 7
    assert p.data[1] == 2
    del x
    settle()
    assert p.deleted in (0, 1)


def test_a_copy_that_the_producer_made_is_not_made_again():
    # the standard: by the producer, which says so
    p = CopyingProducer([1.0, 2.0])
    x = nd.from_dlpack(p, copy=True)
    assert x._state()[0] == p.copies[-1].data.ctypes.data
    y = x.copy()
    assert nd.is_shared(x)  # nobody else writes to it, so that its copies are lazy
    del y


def test_a_copy_may_be_written_to_whatever_it_is_a_copy_of():
    p = Producer(np.arange(3.0), flags=READ_ONLY)
    nd.from_dlpack(p, copy=True)[0] = 1
    # flagged as both by dpnp
    p = Producer(np.arange(3.0), flags=READ_ONLY | IS_COPIED)
    nd.from_dlpack(p, copy=True)[0] = 1
    a = np.arange(3)
    a.flags.writeable = False
    nd.from_dlpack(a, copy=True)[0] = 1
    assert a[0] == 0


@pytest.mark.parametrize("kind", ANY_AGE)
def test_copy_false_never_copies(kind):
    p = kind([1.0, 2.0])
    assert nd.from_dlpack(p, copy=False)._state()[0] == p.data.ctypes.data


def test_copy_false_notices_a_copy():
    # numpy and torch do not
    p = Producer(flags=IS_COPIED)
    with pytest.raises(ExchangeError, match="copy=False"):
        nd.from_dlpack(p, copy=False)
    settle()
    assert p.deleted + p.kept == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_copies_keep_order_and_are_ours(order):
    a = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    p = StreamProducer(a)
    with nd.copy_log() as log:
        x = nd.from_dlpack(p, copy=True)
    assert [(c.nbytes, c.asked) for c in log] == [(96, True)]
    assert x._state()[0] % 256 == 0
    assert x.flags.f_contiguous == (order == "F")
    np.testing.assert_array_equal(x, a)
    y = nd.from_dlpack(Tensor(a[::-1]).capsule(), copy=True)
    np.testing.assert_array_equal(y, a[::-1])


def test_copies_of_our_own():
    x = nd.arange(5)
    y = nd.from_dlpack(x, copy=True)
    y[0] = 9
    assert x[0] == 0
    np.testing.assert_array_equal(nd.from_dlpack(x[::-1], copy=True), [4, 3, 2, 1, 0])
    r = nd.from_dlpack(nd.readonly(x), copy=True)
    r[0] = 5


# ---- memory of ours that comes home ----------------------------------------------------------------------------------


@BOTH
def test_our_own_capsule_comes_home(versioned):
    x = nd.arange(5)
    y = nd.from_dlpack(x.__dlpack__(max_version=(1, 3) if versioned else None))
    assert x._state()[6] == y._state()[6]  # one storage
    x[0] = 9
    assert y[0] == 9
    z = x.copy()
    assert nd.is_shared(z)  # it is not foreign, so that copies are lazy
    y[1] = 8
    assert x[1] == 8
    assert z[1] == 1


def test_our_own_array_comes_home():
    x = nd.arange(6).reshape((2, 3))
    for y in (nd.from_dlpack(x), nd.from_dlpack(x.T).T, nd.from_dlpack(x, copy=False), nd.from_dlpack(x, device="cpu")):
        assert type(y) is nd.ndarray
        assert x._state()[6] == y._state()[6]


def test_memory_of_ours_comes_home_by_address():
    # through an object that knows nothing of us
    x = nd.arange(10)
    a = np.from_dlpack(x)
    y = nd.from_dlpack(a[2:])
    assert x._state()[6] == y._state()[6]
    assert y.flags.writeable
    y[0] = 99
    assert x[2] == 99
    r = nd.from_dlpack(np.from_dlpack(nd.readonly(x))[2:])
    assert not r.flags.writeable


def test_foreign_memory_is_not_copied_lazily():
    # zarrista#108, pandas#51082: a write by the other side must not reach the copy
    a = np.arange(5)
    x = nd.from_dlpack(a)
    y = x.copy()
    a[0] = 99
    assert y[0] == 0
    assert not nd.is_shared(y)


def test_ml_dtypes_exist_here():
    assert (
        nd.from_dlpack(Tensor(np.zeros(2, ml_dtypes.bfloat16), dtype=(4, 16, 1)).capsule()).dtype == ml_dtypes.bfloat16
    )


def test_wrong_arguments_are_named_in_words():
    x = nd.arange(3)
    for arguments in ((), (x, x), (x, None, None)):
        with pytest.raises(TypeError, match=r"^from_dlpack\(\) takes one positional argument"):
            nd.from_dlpack(*arguments)
    with pytest.raises(TypeError, match=r"^from_dlpack\(\) got an unexpected keyword argument 'stream'"):
        nd.from_dlpack(x, stream=1)


@pytest.mark.parametrize("claims", ["junk", (1,), (1, 0, 0), 1, (None, 0)], ids=repr)
def test_a_device_that_is_no_pair(claims):
    with pytest.raises(TypeError, match=r"Producer.__dlpack_device__ returned .* must return a pair of integers"):
        nd.from_dlpack(Producer(claims=claims), device="cpu")
