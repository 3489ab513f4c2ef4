"""DLPack on the GPU: whose stream waits for what, in which order memory goes, and what read-only means there.

Consumers and producers here are made by hand, of the driver's own calls, so that each wait is ours or missing.
"""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance.capsules import exchange_api, new_capsule, peek
from nbdlpack.conformance.header import IS_COPIED, READ_ONLY, VERSIONED, DLManagedTensorVersioned, DLTensor
from nbdlpack.conformance.producers import BareProducer, LegacyProducer, Producer, StreamProducer, Tensor, exchange_type
from tests.arrays import Thing
from tests.cuda.tools import busy, check, copy_to_host, device_memory, on_device, waits

pytestmark = [pytest.mark.usefixtures("cuda")]

A = np.arange(1000, dtype=np.float64)


def array(stream=None):
    """Return an array of A, whose last write is still to be done on a stream."""
    x = nd.empty(A.shape, A.dtype, device="cuda")
    with stream or nd.Stream("cuda"):
        x[...] = nd.asarray(A, device="cuda")
        busy(x)
    return x


def consumed(x, stream, handle, **options):
    """Return what a consumer on a stream sees: a copy of the memory, put into its stream at once."""
    capsule = x.__dlpack__(stream=stream, max_version=(1, 3), **options)
    fields = peek(capsule)
    assert fields.device == (2, 0)
    return copy_to_host(fields.address, x.nbytes, handle).view(x.dtype).reshape(x.shape)


# ---- what an array says ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 1])
def test_the_device_of_an_array(index):
    x = nd.zeros(3, device=f"cuda:{index}")
    pair = x.__dlpack_device__()
    assert pair == (nd.dlpack.DLDeviceType.kDLCUDA, index)
    assert isinstance(pair[0], nd.dlpack.DLDeviceType)
    assert pair is nd.ones(2, device=f"cuda:{index}").__dlpack_device__(), "one tuple a device"
    assert peek(x.__dlpack__(max_version=(1, 0))).device == (2, index)
    assert x.device == f"cuda:{index}"
    assert (x.device == "cuda") is (index == 0)


# ---- export: the standard's table of streams -------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [None, 1, 2, "handle", "two handles"])
@pytest.mark.hostcuda_modes
def test_an_export_is_ready_on_the_consumers_stream(stream):
    # https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.array.__dlpack__.html
    x = array()
    if stream == "handle":
        consumer = nd.Stream("cuda")
        seen = consumed(x, consumer.handle, consumer.handle)
    elif stream == "two handles":
        with nd.Stream("cuda") as mine:  # the array's own stream: nothing is to be waited for
            y = x + 1
            seen = consumed(y, mine.handle, mine.handle) - 1
    else:
        seen = consumed(x, stream, stream or 1)
    np.testing.assert_array_equal(seen, A)


def test_no_synchronisation_is_asked_for():
    with pytest.MonkeyPatch.context():
        x = array()
        with waits() as found:
            capsule = x.__dlpack__(stream=-1)
        assert found == [], "-1 means that the consumer sees to it"
        del capsule


@pytest.mark.parametrize("stream", [0, -2, -7])
def test_streams_that_there_are_not(stream):
    x = nd.zeros(3, device="cuda")
    for options in ({}, {"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(ValueError, match="stream"):
            x.__dlpack__(stream=stream, **options)


@pytest.mark.parametrize("stream", [True, "1", 1.0, Thing()], ids=str)
def test_what_is_no_stream(stream):
    with pytest.raises(TypeError, match="stream must be None or an integer"):
        nd.zeros(3, device="cuda").__dlpack__(stream=stream)


@pytest.mark.hostcuda_modes
def test_an_export_of_shared_memory_waits_for_the_move():
    x = array()
    y = x.copy()
    assert nd.is_shared(x)
    consumer = nd.Stream("cuda")
    seen = consumed(x, consumer.handle, consumer.handle)
    assert not nd.is_shared(x)
    np.testing.assert_array_equal(seen, A)
    np.testing.assert_array_equal(y.to_device("cpu"), A)


@pytest.mark.hostcuda_modes
def test_a_copy_is_made_on_the_consumers_stream():
    x = array()
    consumer = nd.Stream("cuda")
    capsule = x.__dlpack__(stream=consumer.handle, copy=True, max_version=(1, 0))
    fields = peek(capsule)
    assert fields.flags == IS_COPIED
    assert fields.address != x.ptr
    np.testing.assert_array_equal(copy_to_host(fields.address, x.nbytes, consumer.handle).view(A.dtype), A)


@pytest.mark.hostcuda_modes
def test_to_the_host():
    x = array()
    capsule = x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    fields = peek(capsule)
    assert (fields.device, fields.flags) == ((1, 0), IS_COPIED)
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), A)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 9))


@pytest.mark.hostcuda_modes("lazy", "reverse")
def test_read_only_exports_move_nothing():
    x = array()
    y = x.copy()
    before = nd.copy_stats()
    for capsule in (
        nd.dlpack.ReadOnlyTensorWrapper(x).__dlpack__(),
        nd.dlpack.ReadOnlyTensorWrapper(x).__dlpack__(stream=1),
        nd.readonly(x).__dlpack__(max_version=(1, 0)),
    ):
        fields = peek(capsule)
        assert fields.flags == READ_ONLY
        np.testing.assert_array_equal(copy_to_host(fields.address, x.nbytes, 1).view(A.dtype), A)
    assert nd.is_shared(x)
    assert nd.copy_stats() == before
    with pytest.raises(BufferError):
        nd.readonly(x).__dlpack__()
    del y


@pytest.mark.hostcuda_modes("lazy", "random:1")
def test_memory_is_not_reused_before_a_consumer_that_was_dropped_has_read_it():
    x = array()
    consumer, out = nd.Stream("cuda"), device_memory(x.nbytes)
    capsule = x.__dlpack__(stream=consumer.handle, max_version=(1, 0))
    out.copy_later(peek(capsule).address, x.nbytes, consumer.handle)
    del capsule, x
    gc.collect()
    for _ in range(4):  # would be given the same memory
        y = nd.full(A.shape, -1.0, device="cuda")
    np.testing.assert_array_equal(out.read(consumer.handle).view(A.dtype), A)
    del y


def test_a_consumers_stream_is_never_touched_after_its_call():
    # a stream that is not ours may be gone, and its handle be another's
    from cuda.bindings import driver as cu

    for _ in range(2):
        x = array()
        with on_device(0):
            handle = int(check(cu.cuStreamCreate(1)))
            capsule = x.__dlpack__(stream=handle)
            check(cu.cuStreamDestroy(handle))
        x[0] = 5
        with nd.Stream("cuda"):
            assert float(x[0]) == 5
        del capsule, x
        nd.synchronize("cuda")


# ---- import ----------------------------------------------------------------------------------------------------------


def producer(kind=Producer, a=A, **fields):
    """Return a producer of device memory with the elements of A, which is written on a stream of its own, and later."""
    memory = device_memory(a.nbytes)
    stream = nd.Stream("cuda")
    p = kind(np.empty(a.shape, a.dtype), address=memory.address, device=(2, 0), **fields)
    p.memory, p.stream = memory, stream
    memory.write_later(a, stream.handle)
    return p


class OrderedProducer(Producer):
    """A producer that lets the consumer's stream wait for its own, as the standard says."""

    def __dlpack__(self, *, stream=None, **options):
        self.streams = [*getattr(self, "streams", []), stream]
        if stream != -1:
            self.memory.let_wait(1 if stream is None else stream, self.stream.handle)
        return super().__dlpack__(**options)


class OrderedLegacyProducer(OrderedProducer):
    def __dlpack__(self, stream=None):
        return super().__dlpack__(stream=stream)


@pytest.mark.parametrize("kind", [OrderedProducer, OrderedLegacyProducer])
@pytest.mark.parametrize("current", ["default", "own"])
@pytest.mark.hostcuda_modes
def test_a_producer_is_told_our_stream(kind, current):
    p = producer(kind)
    if current == "default":
        x = nd.from_dlpack(p)
        assert p.streams[-1] == 1
        y = x + 1
    else:
        with nd.Stream("cuda") as s:
            x = nd.from_dlpack(p)
            assert p.streams[-1] == s.handle
            y = x + 1
    assert x.device == "cuda"
    assert x._state()[0] == p.memory.address, "nothing is copied"
    np.testing.assert_array_equal(y.to_device("cpu"), A + 1)


class OldProducer(OrderedProducer):
    """From before the standard: it knows of no streams, and leaves its memory ready on the default one."""

    def __dlpack__(self):
        return super().__dlpack__(stream=None)


@pytest.mark.parametrize("kind", [OldProducer, "capsule", "legacy capsule"])
@pytest.mark.hostcuda_modes
def test_what_knows_no_stream_is_ready_on_the_default_one(kind):
    p = producer(OldProducer if kind == "capsule" or kind == "legacy capsule" else kind)
    given = p
    if kind == "capsule":
        given = OrderedProducer.__dlpack__(p, max_version=(1, 0))
    elif kind == "legacy capsule":
        given = p.__dlpack__()
    with nd.Stream("cuda"):
        x = nd.from_dlpack(given)
        y = x + 1
    np.testing.assert_array_equal(y.to_device("cpu"), A + 1)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.hostcuda_modes("lazy", "random:1")
def test_a_producer_gets_its_memory_back_when_our_work_is_done(versioned):
    p = producer(OrderedProducer if versioned else OrderedLegacyProducer)
    with nd.Stream("cuda") as s:
        x = nd.from_dlpack(p)
        y = x + 1
    del x
    gc.collect()
    deleted = p.deleted
    if deleted:
        assert s.done, "the deleter was called while the stream still reads"
    s.synchronize()
    nd.zeros(1, device="cuda")  # what is left is released by the next operation
    assert p.deleted == 1
    p.memory.write_later(np.zeros_like(A), 1)  # the producer's again
    np.testing.assert_array_equal(y.to_device("cpu"), A + 1)


@pytest.mark.hostcuda_modes("lazy", "reverse")
def test_a_foreign_producer_may_overwrite_as_soon_as_its_deleter_was_called():
    a = A
    memory = device_memory(a.nbytes)
    memory.write_later(a, 1)
    written = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def delete(_):
        memory.write_now(np.full_like(a, -1))  # a host's write, ordered behind no stream
        written.append(1)

    t = Tensor(np.empty(a.shape, a.dtype), address=memory.address, device=(2, 0))
    address = t.managed(True)
    DLManagedTensorVersioned.from_address(address).deleter = ctypes.cast(delete, ctypes.c_void_p).value
    with nd.Stream("cuda"):
        x = nd.from_dlpack(new_capsule(address, VERSIONED))
        y = x * 2
    del x
    for _ in range(3):
        nd.zeros(1, device="cuda")
    np.testing.assert_array_equal(y.to_device("cpu"), A * 2)
    nd.synchronize("cuda")
    nd.zeros(1, device="cuda")
    assert written == [1]


@pytest.mark.parametrize("flags", [0, READ_ONLY, IS_COPIED])
def test_flags_of_what_comes_in(flags):
    p = producer(OrderedProducer, flags=flags)
    x = nd.from_dlpack(p)
    assert x.flags.writeable is not (flags == READ_ONLY)
    y = x.copy()
    assert nd.is_shared(x) is (flags == IS_COPIED), "what someone else may write to is never lazily copied"
    del y


@pytest.mark.parametrize("kind", [Producer, LegacyProducer, StreamProducer, BareProducer])
def test_copies_of_what_comes_in(kind):
    p = producer(kind)
    nd.synchronize("cuda")
    x = nd.from_dlpack(p, copy=True)
    assert x.device == "cuda"
    assert x._state()[0] != p.memory.address
    assert nd.from_dlpack(p, device="cpu").device == "cpu"
    np.testing.assert_array_equal(nd.from_dlpack(p, device="cpu"), A)
    with pytest.raises(ValueError, match="cannot be had on 'cpu' without a copy"):
        nd.from_dlpack(p, device="cpu", copy=False)
    np.testing.assert_array_equal(x.to_device("cpu"), A)


def test_from_the_host_to_the_gpu():
    x = nd.from_dlpack(A, device="cuda")
    assert x.device == "cuda"
    np.testing.assert_array_equal(x.to_device("cpu"), A)
    with pytest.raises(ValueError, match="without a copy"):
        nd.from_dlpack(A, device="cuda", copy=False)


@pytest.mark.parametrize("address", [8, 1 << 40, "host"])
def test_addresses_that_are_not_the_gpus(address):
    host = np.zeros(4)
    p = Producer(host, device=(2, 0), address=host.ctypes.data if address == "host" else address)
    with pytest.raises(BufferError, match="address"):
        nd.from_dlpack(p)
    assert p.deleted + p.kept == len(p.made)


def test_malformed_tensors_on_the_gpu():
    for fields in ({"shape": (-1,)}, {"dtype": (99, 64, 1)}, {"dtype": (2, 64, 2)}, {"address": None}):
        p = producer(OrderedProducer)
        p.fields.update(fields)
        with pytest.raises(BufferError):
            nd.from_dlpack(p)
        assert p.deleted + p.kept == len(p.made) > 0


# ---- coming home -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("versioned", [False, True])
def test_our_own_capsules_come_home(versioned):
    x = nd.asarray(A, device="cuda")
    capsule = x.__dlpack__(max_version=(1, 0) if versioned else None)
    y = nd.from_dlpack(capsule)
    assert nd.shares_memory(x, y)
    y[0] = 7
    assert float(x[0]) == 7
    assert x.flags.owndata
    z = nd.from_dlpack(x)
    assert nd.shares_memory(x, z)


def test_our_own_memory_comes_home_by_its_address():
    x = nd.asarray(A, device="cuda")
    capsule = x.__dlpack__()
    p = Producer(np.empty(10), device=(2, 0), address=x._state()[0] + 80)
    y = nd.from_dlpack(p)
    assert nd.shares_memory(x, y)
    assert p.deleted == 1
    np.testing.assert_array_equal(y.to_device("cpu"), A[10:20])
    del capsule


# ---- the table of C functions ----------------------------------------------------------------------------------------


def table(x):
    return exchange_api(type(x))


def test_the_current_stream_as_the_table_says_it():
    x = nd.zeros(3, device="cuda")
    get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))(
        table(x).current_work_stream
    )
    out = ctypes.c_void_p()
    assert get(2, 0, out) == 0
    assert out.value in (None, 0, 1), "the default stream"
    with nd.Stream("cuda") as s:
        assert get(2, 0, out) == 0
        assert out.value == s.handle
        assert get(1, 0, out) == 0
        assert out.value is None, "the CPU has none"
        assert get(2, 1, out) == 0
        assert out.value in (None, 0, 1), "each GPU has its own"
    assert get(2, 0, out) == 0
    assert out.value in (None, 0, 1)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.hostcuda_modes
def test_an_export_by_the_table_is_ready_on_our_current_stream(shared):
    x = array()
    y = x.copy() if shared else None
    export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))(
        table(x).managed_tensor_from_py_object_no_sync
    )
    out = ctypes.c_void_p()
    with nd.Stream("cuda") as s:
        assert export(x, out) == 0
        managed = DLManagedTensorVersioned.from_address(out.value)
        seen = copy_to_host(managed.dl_tensor.data, x.nbytes, s.handle).view(A.dtype)
    np.testing.assert_array_equal(seen, A)
    assert not nd.is_shared(x)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(out.value)
    del y


def test_the_allocator_of_the_table():
    x = nd.zeros(3, device="cuda")
    allocate = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p
    )(table(x).managed_tensor_allocator)
    shape = (ctypes.c_int64 * 2)(3, 4)
    for index in (0, 1):
        prototype = DLTensor(ndim=2, shape=shape)
        prototype.device.device_type, prototype.device.device_id = 2, index
        prototype.dtype.code, prototype.dtype.bits, prototype.dtype.lanes = 2, 32, 1
        out = ctypes.c_void_p()
        assert allocate(prototype, out, None, None) == 0  # ctypes calls it without the GIL
        managed = DLManagedTensorVersioned.from_address(out.value)
        assert (managed.dl_tensor.device.device_type, managed.dl_tensor.device.device_id) == (2, index)
        y = nd.from_dlpack(new_capsule(out.value, VERSIONED))
        assert (y.shape, y.dtype, y.device) == ((3, 4), np.float32, f"cuda:{index}")
        y[...] = 2
        assert float(y.sum()) == 24
    prototype.device.device_id = 40
    assert allocate(prototype, out, None, None) == -1


# ---- __cuda_array_interface__ ----------------------------------------------------------------------------------------


def test_the_interface_is_a_gpus():
    assert not hasattr(nd.zeros(3, device="cpu"), "__cuda_array_interface__")
    assert not hasattr(nd.zeros(3, nd.bfloat16, device="cuda"), "__cuda_array_interface__")
    assert not hasattr(nd.zeros(3, device="cuda"), "__array_interface__")
    x = nd.zeros((3, 4), nd.float32, device="cuda")
    found = x.__cuda_array_interface__
    assert found == {
        "version": 3,
        "shape": (3, 4),
        "typestr": "<f4",
        "strides": None,
        "data": (x.ptr, False),
        "stream": 1,
    }
    assert x.T.__cuda_array_interface__["strides"] == (4, 16)
    assert nd.zeros(3, nd.bool, device="cuda").__cuda_array_interface__["strides"] is None
    with nd.Stream("cuda") as s:
        assert x.__cuda_array_interface__["stream"] == s.handle
    assert nd.readonly(x).__cuda_array_interface__["data"] == (x.ptr, True)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.hostcuda_modes
def test_the_interface_names_a_stream_on_which_the_array_is_ready(shared):
    x = array()
    y = x.copy() if shared else None
    with nd.Stream("cuda"):
        found = x.__cuda_array_interface__
    seen = copy_to_host(found["data"][0], x.nbytes, found["stream"]).view(A.dtype)
    np.testing.assert_array_equal(seen, A)
    assert not nd.is_shared(x), "an address has no release, so nobody else may have the memory"
    assert not nd.is_shared(x.copy()), "and from now on copies are made at once"
    del y


@pytest.mark.hostcuda_modes("sync", "lazy", "random:1")
def test_an_interface_of_a_read_only_array_outlives_a_move():
    x = array()
    y = x.copy()
    found = nd.readonly(x).__cuda_array_interface__
    assert nd.is_shared(x)
    x[...] = 0  # x has other memory now
    del y
    for _ in range(3):
        z = nd.full(A.shape, -1.0, device="cuda")
    seen = copy_to_host(found["data"][0], x.nbytes, found["stream"]).view(A.dtype)
    np.testing.assert_array_equal(seen, A)
    del z


@pytest.mark.hostcuda_modes
def test_an_object_with_the_interface_comes_in():
    class Foreign:
        def __init__(self):
            self.memory, self.stream = device_memory(A.nbytes), nd.Stream("cuda")
            self.memory.write_later(A, self.stream.handle)

        @property
        def __cuda_array_interface__(self):
            return {
                "version": 3,
                "shape": A.shape,
                "typestr": A.dtype.str,
                "strides": None,
                "data": (self.memory.address, False),
                "stream": self.stream.handle,
            }

    foreign = Foreign()
    with nd.Stream("cuda"):
        x = nd.asarray(foreign)
        y = x + 1
    assert x.device == "cuda"
    assert x._state()[0] == foreign.memory.address
    np.testing.assert_array_equal(y.to_device("cpu"), A + 1)


# ---- cuda.core -------------------------------------------------------------------------------------------------------


def test_cuda_core_views():
    from cuda.core.utils import StridedMemoryView

    x = nd.asarray(A.reshape(20, 50), device="cuda")
    with on_device(0):
        view = StridedMemoryView.from_dlpack(x, stream_ptr=-1)
        assert (view.ptr, view.shape, view.readonly, view.is_device_accessible) == (x.ptr, (20, 50), False, True)
        assert StridedMemoryView.from_dlpack(nd.readonly(x), stream_ptr=-1).readonly
        assert StridedMemoryView.from_cuda_array_interface(x, stream_ptr=-1).ptr == x.ptr


def test_cuda_core_buffers():
    from cuda.core import Device

    core = Device(0)
    with on_device(0):
        core.set_current()
        stream = core.create_stream()
        buffer = core.memory_resource.allocate(64, stream=stream)
        stream.sync()
        y = nd.from_dlpack(buffer)
        assert y.device == "cuda"
        assert y._state()[0] == int(buffer.handle)
        y[...] = 3
        nd.synchronize("cuda")
        assert y.to_device("cpu").tolist() == [3] * y.size
        del y
        nd.synchronize("cuda")
        nd.zeros(1, device="cuda")
        buffer.close()


# ---- two devices -----------------------------------------------------------------------------------------------------


def test_two_devices():
    x, y = nd.asarray(A, device="cuda:0"), nd.asarray(A, device="cuda:1")
    with pytest.raises(nd.errors.DeviceError, match="cuda and cuda:1"):
        x + y
    with pytest.raises(nd.errors.DeviceError):
        x[...] = y
    z = nd.from_dlpack(y, device="cuda:0")
    assert z.device == x.device
    np.testing.assert_array_equal((x + z).to_device("cpu"), 2 * A)
    with on_device(0):
        fields = peek(y.__dlpack__(stream=1))
        assert fields.device == (2, 1)
        np.testing.assert_array_equal((y * 2).to_device("cpu"), 2 * A)


# ---- what is on another device than the operands ---------------------------------------------------------------------


@pytest.mark.parametrize("place", ["cpu", "cuda:1"])
def test_keys_on_another_device(place):
    x = nd.asarray(A, device="cuda")
    index, mask = nd.asarray([1, 0], device=place), nd.zeros(A.shape, nd.bool, device=place)
    for operation in (
        lambda: x[index],
        lambda: x[mask],
        lambda: x.__setitem__(index, 1),
        lambda: x.__setitem__((index,), 1),
        lambda: x.__setitem__(mask, 1),
        lambda: np.add.at(x, index, 1.0),
        lambda: np.add.at(x, (index,), 1.0),
    ):
        with pytest.raises(nd.errors.DeviceError, match="bring them together"):
            operation()
    np.testing.assert_array_equal(x.to_device("cpu"), A)


def test_an_interface_is_the_first_that_is_seen_of_cuda(hostcuda):
    program = """
from numba import cuda
import numpy as np
x = cuda.to_device(np.arange(3.0))
import nbdlpack as nd
y = nd.asarray(x)
assert y.device == "cuda" and y.tolist() == [0, 1, 2], y
"""
    hostcuda.python("-W", "ignore", "-c", program)


# ---- a producer with a table of C functions --------------------------------------------------------------------------


@pytest.mark.hostcuda_modes
def test_the_stream_that_a_producers_table_names_is_waited_for():
    kind = exchange_type()
    p = producer(kind)

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def work_stream(device_type, device_id, out):
        out[0] = p.stream.handle
        return 0

    kind.api.current_work_stream = ctypes.cast(work_stream, ctypes.c_void_p).value
    for _ in range(2):  # before the type is known, and after it
        with nd.Stream("cuda"):
            x = nd.from_dlpack(p)
            y = x + 1
        np.testing.assert_array_equal(y.to_device("cpu"), A + 1)
        p.memory.write_later(A, p.stream.handle)
    assert kind.through_table == 2
    kind.api.current_work_stream = None
    nd.synchronize("cuda")


def test_a_table_that_names_no_stream_means_the_default_one():
    kind = exchange_type()
    kind.api.current_work_stream = None
    p = producer(kind)
    nd.synchronize("cuda")
    p.memory.write_later(A, 1)
    with nd.Stream("cuda"):
        y = nd.from_dlpack(p) + 1
    np.testing.assert_array_equal(y.to_device("cpu"), A + 1)


# ---- to devices that are neither the array's nor the CPU -------------------------------------------------------------


@pytest.mark.parametrize("stream", [1, 2, 77])
def test_a_consumer_on_the_cpu_has_no_stream(stream):
    """A stream must be one of the device that is asked for."""
    x = array()
    with pytest.raises(ValueError, match="device cpu has no streams"):
        x.__dlpack__(dl_device=(1, 0), stream=stream)
    np.testing.assert_array_equal(np.from_dlpack(nd.from_dlpack(x.__dlpack__(dl_device=(1, 0), stream=-1))), A)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
@pytest.mark.parametrize("fields", [{"address": None}, {"address": None, "byte_offset": 8}, {}], ids=str)
def test_the_address_of_nothing_does_not_matter(cuda, shape, fields):
    p = Producer(np.empty(shape), device=(2, 0), **fields)
    x = nd.from_dlpack(p)
    assert (x.shape, x.device) == (shape, cuda)
    assert x.sum().item() == 0


@pytest.mark.parametrize("target", [(3, 0), (13, 0)])
@pytest.mark.hostcuda_modes
def test_an_export_to_host_memory_is_ready_for_the_cpu(target):
    x = array()
    y = nd.from_dlpack(x.__dlpack__(dl_device=target, max_version=(1, 0)))
    capsule = x.__dlpack__(dl_device=target, max_version=(1, 0))
    fields = peek(capsule)
    assert (fields.device, fields.flags) == (target, IS_COPIED)
    seen = np.frombuffer((ctypes.c_char * x.nbytes).from_address(fields.address), A.dtype)
    np.testing.assert_array_equal(seen, A)
    np.testing.assert_array_equal(y.to_device("cpu"), A)


@pytest.mark.hostcuda_modes
def test_an_export_to_another_gpu_is_ready_on_the_consumers_stream_there():
    x = array()
    there = nd.Stream("cuda:1")
    capsule = x.__dlpack__(dl_device=(2, 1), max_version=(1, 0), stream=there.handle)
    seen = copy_to_host(peek(capsule).address, x.nbytes, there.handle, 1).view(A.dtype)
    np.testing.assert_array_equal(seen, A)


@pytest.mark.hostcuda_modes
def test_a_numpy_view_of_pinned_memory_may_be_written_to_after_a_copy(cuda):
    h = nd.full(1000, 3.0, device="cuda_host")
    view = np.from_dlpack(h)
    found = [nd.asarray(view, device=cuda), h.to_device(cuda), nd.from_dlpack(view, device=cuda)]
    view[:] = 0
    for g in found:
        np.testing.assert_array_equal(g.to_device("cpu"), np.full(1000, 3.0))


def test_a_numpy_view_of_managed_memory_comes_home(cuda):
    x = nd.full(10, 3.0, device="cuda_managed")
    y = nd.from_dlpack(np.from_dlpack(x))
    assert nd.shares_memory(x, y)


def test_a_stream_of_another_gpu_is_refused(cuda):
    x, there = nd.zeros(3, device=cuda), nd.Stream("cuda:1")
    with pytest.raises(ValueError, match="one of cuda:1, but must be one of cuda:0"):
        x.__dlpack__(stream=there.handle)
    for stream in (1 << 70, -5):
        with pytest.raises(ValueError, match="stream is"):
            x.__dlpack__(stream=stream)


def test_an_interface_of_an_instance(cuda):
    class Foreign:
        pass

    x = nd.asarray(A, device=cuda)
    foreign = Foreign()
    foreign.__cuda_array_interface__ = x.__cuda_array_interface__
    foreign.x = x
    np.testing.assert_array_equal(nd.asarray(foreign).to_device("cpu"), A)


def test_streams_end_in_any_order(cuda):
    def inside(stream):
        with stream:
            yield

    first, second = nd.Stream(cuda), nd.Stream(cuda)
    before = nd.current_stream(cuda)
    a, b = inside(first), inside(second)
    next(a)
    next(b)
    next(a, None)
    assert nd.current_stream(cuda) is second
    next(b, None)
    assert nd.current_stream(cuda) is before
