"""What an array exports: the structures, the arguments of `__dlpack__`, and how long an export lives."""

from __future__ import annotations

import ctypes
import enum
import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import dtypes
from nbdlpack.conformance.capsules import consume, delete, name_of, peek, pointer_of
from nbdlpack.conformance.header import IS_COPIED, READ_ONLY, DLManagedTensor, DLManagedTensorVersioned, DLTensor
from tests.arrays import Thing
from tests.dlpack.tools import flat

BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["unversioned", "versioned"])
CPU = (1, 0)


def export(x, versioned=True, **options):
    return x.__dlpack__(max_version=(1, 3) if versioned else None, **options)


# ---- structures ------------------------------------------------------------------------------------------------------


def test_the_header_as_the_tests_have_it():
    # dlpack.h 1.3: sizes and offsets on a machine of 64 bits
    assert ctypes.sizeof(DLTensor) == 48
    assert (ctypes.sizeof(DLManagedTensor), DLManagedTensor.dl_tensor.offset) == (64, 0)
    assert (ctypes.sizeof(DLManagedTensorVersioned), DLManagedTensorVersioned.dl_tensor.offset) == (80, 32)


def test_a_versioned_capsule():
    # dlpack.h 1.3: DLManagedTensorVersioned
    x = nd.arange(6, dtype=nd.float32).reshape((2, 3))
    c = peek(export(x))
    assert (c.name, c.version, c.flags) == ("dltensor_versioned", (1, 3), 0)
    assert (c.device, c.ndim, c.dtype, c.shape, c.strides) == (CPU, 2, (2, 32, 1), (2, 3), (3, 1))
    assert (c.byte_offset, c.data) == (0, x._state()[0])
    assert c.deleter


def test_an_unversioned_capsule():
    # dlpack.h 1.3: DLManagedTensor, whose tensor comes first
    x = nd.arange(6, dtype=nd.float32).reshape((2, 3))
    c = peek(export(x, versioned=False))
    assert (c.name, c.version, c.flags) == ("dltensor", None, None)
    assert (c.device, c.ndim, c.dtype, c.shape, c.strides) == (CPU, 2, (2, 32, 1), (2, 3), (3, 1))
    assert (c.byte_offset, c.data) == (0, x._state()[0])
    assert c.deleter


@BOTH
@pytest.mark.parametrize("row", dtypes.TABLE, ids=lambda row: row.name)
def test_every_dtype(row, versioned):
    # dlpack.h 1.3: DLDataTypeCode; numpy test_dtype_passthrough; ml_dtypes for bfloat16 and float8 (dlpack#156)
    expected = {
        "bool": (6, 8), "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64),
        "uint8": (1, 8), "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64),
        "float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "complex64": (5, 64), "complex128": (5, 128),
        "bfloat16": (4, 16), "float8_e3m4": (7, 8), "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8),
        "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8),
        "float8_e8m0fnu": (14, 8),
    }  # fmt: skip
    assert peek(export(nd.zeros(3, dtype=row.dtype), versioned)).dtype == (*expected[row.name], 1)


@pytest.mark.parametrize(
    "dtype",
    ["M8[s]", "m8[s]", "O", "g", "G", "U3", "S3", "V4", [("a", "f4")], ">f4", ">i8"],
    ids=str,
)
def test_an_array_has_no_dtype_that_dlpack_cannot_say(dtype):
    # numpy test_invalid_dtype, test_invalid_byte_swapping.  Decided: there are no such arrays here, so making
    # one is refused, and with NumPy's array as the producer it is NumPy's BufferError.
    if np.dtype(dtype).itemsize == 8 and np.dtype(dtype).kind in "f" and np.dtype(dtype).isnative:
        pytest.skip("long double is float64 on this machine")
    with pytest.raises(TypeError, match="dtype"):
        nd.empty(3, dtype=dtype)
    with pytest.raises(BufferError):
        nd.from_dlpack(np.empty(3, dtype))


def test_the_device():
    # array-api-tests test_dlpack_device; mlx#1165, array-api-strict#221, paddle#68549
    x = nd.zeros(3)
    device = x.__dlpack_device__()
    assert device == CPU
    assert isinstance(device, tuple)
    assert len(device) == 2
    assert isinstance(device[0], enum.IntEnum)
    assert device[0] is nd.dlpack.DLDeviceType.kDLCPU
    assert int(device[0]) == 1
    assert type(device[1]) is int
    assert x[1:].__dlpack_device__() is device  # one cached tuple a device


LAYOUTS = {
    "C": lambda x: x,
    "F": lambda x: x.T,
    "rows": lambda x: x[1:3],
    "a row": lambda x: x[2],
    "columns": lambda x: x[:, 1:4],
    "a column": lambda x: x[:, 3],
    "steps": lambda x: x[::2, ::3],
    "one row": lambda x: x[1:2],
    "one column": lambda x: x[:, 2:3],
    "0-d": lambda x: x[1, 2, ...],
    "an axis more": lambda x: x[:, None, :],
    "empty": lambda x: x[2:2],
    "empty columns": lambda x: x[:, 5:],
}


@BOTH
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_and_address_of_views(layout, versioned):
    # dlpack.h 1.2: strides are in elements and not null; numpy's dlpack.c: byte_offset is 0; cutlass#3450;
    # torch test_dlpack_normalize_strides and pytorch#163274: a dimension of one element keeps its stride
    a = np.arange(30, dtype=np.int16).reshape(5, 6)
    x, view = nd.asarray(a, copy=True), LAYOUTS[layout](a)
    c = peek(export(LAYOUTS[layout](x), versioned))
    assert c.shape == view.shape
    assert c.strides == tuple(n // 2 for n in view.strides)
    assert c.byte_offset == 0
    if view.size:
        assert c.data - peek(export(x)).data == view.ctypes.data - a.ctypes.data
    else:
        assert c.data is None  # dlpack.h: null for an empty tensor; kept are shape and strides


@pytest.mark.parametrize("shape", [(1, 128), (128, 1), (1, 1, 768, 768), (1, 3, 1), (1,)], ids=str)
def test_natural_strides_of_single_dimensions(shape):
    # pytorch#163274, pytorch#83069, pytorch#99803
    c = peek(nd.zeros(shape, dtype=nd.int8).__dlpack__())
    assert c.strides == np.zeros(shape, np.int8).strides
    stepped = peek(nd.zeros(12, dtype=nd.int8)[::3][:1].__dlpack__())
    assert (stepped.shape, stepped.strides) == ((1,), (3,))


def test_no_dimensions():
    # numpy test_ndim0; cupy test_conversion_0d
    x = nd.asarray(5.0)
    c = peek(export(x))
    assert c.ndim == 0
    assert not c.shape
    assert not c.strides
    assert c.data
    assert np.from_dlpack(x) == 5.0


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (1, 8, 0, 128)], ids=str)
@BOTH
def test_no_elements(shape, versioned):
    # dlpack.h: data of an empty tensor is null; onnxruntime#27450, cccl#11605
    c = peek(export(nd.empty(shape), versioned))
    assert (c.data, c.shape, len(c.strides)) == (None, shape, len(shape))
    assert np.from_dlpack(nd.empty(shape)).shape == shape


@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 255, 256, 257, 10**6])
def test_alignment(n):
    # dlpack.h asks for 256 bytes; jax#29810, warp#550, tvm#18324
    for make in (nd.empty, nd.zeros, nd.ones):
        assert make(n, dtype=nd.uint8)._state()[0] % 256 == 0
    assert (peek(nd.ones(n).__dlpack__()).data or 0) % 256 == 0


def test_up_to_64_dimensions():
    # numpy test_higher_dims
    for n in range(65):
        x = nd.ones((1,) * n)
        assert np.from_dlpack(x).shape == (1,) * n
        assert peek(x.__dlpack__()).ndim == n


@BOTH
def test_an_overlapping_view_is_read_only(versioned):
    # numpy exports a broadcast view READ_ONLY; zarrista#108
    x = nd.broadcast_to(nd.arange(4), (5, 4))
    if versioned:
        c = peek(export(x))
        assert (c.flags, c.strides) == (READ_ONLY, (0, 1))
    else:
        with pytest.raises(BufferError, match="read-only"):
            export(x, versioned=False)
    assert not np.from_dlpack(x).flags.writeable


# ---- negative strides ------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("flip", [np.s_[::-1], np.s_[:, ::-1], np.s_[::-2, 1::2]], ids=str)
def test_negative_strides_are_exported_where_allowed(flip, versioned):
    # cupy#10172: never computed without a sign; the address is that of the first element
    a = np.arange(30, dtype=np.int32).reshape(5, 6)
    x = nd.asarray(a, copy=True)[flip]
    with pytest.raises(BufferError, match=r"copy=True.*ascontiguousarray.*allow_negative_strides"):
        export(x, versioned)
    with nd.dlpack.allow_negative_strides():
        c = peek(export(x, versioned))
        assert c.strides == tuple(n // 4 for n in a[flip].strides)
        assert c.byte_offset == 0
        np.testing.assert_array_equal(np.from_dlpack(x), a[flip])
    with pytest.raises(BufferError):
        export(x, versioned)
    c = peek(export(x, versioned, copy=True))
    assert min(c.strides) > 0
    np.testing.assert_array_equal(np.from_dlpack(x, copy=True), a[flip])


def test_negative_strides_are_allowed_in_one_thread_alone():
    x, seen = nd.arange(3)[::-1], []

    def other():
        try:
            x.__dlpack__()
        except BufferError as error:
            seen.append(error)

    with nd.dlpack.allow_negative_strides():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with nd.dlpack.allow_negative_strides():
            x.__dlpack__()
        x.__dlpack__()
    assert len(seen) == (0 if getattr(sys.flags, "thread_inherit_context", 0) else 1)


def test_a_negative_stride_of_one_element_is_none():
    assert peek(nd.arange(3)[:1][::-1].__dlpack__()).shape == (1,)


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_keywords_alone():
    # the standard's signature; cupy#7829
    x = nd.zeros(3)
    with pytest.raises(TypeError):
        x.__dlpack__(None)
    with pytest.raises(TypeError, match="max_versions"):
        x.__dlpack__(max_versions=(1, 0))
    with pytest.raises(TypeError, match=r"read_only.*ReadOnlyTensorWrapper"):
        # Decided: the keyword of torch 2.14 is not taken; there are nd.readonly and the wrapper.
        x.__dlpack__(max_version=(1, 0), read_only=True)


@pytest.mark.parametrize("version", [None, (0, 0), (0, 8), (0, 99)], ids=str)
def test_old_versions_get_an_unversioned_capsule(version):
    # torch and cupy test_max_version
    assert name_of(nd.zeros(3).__dlpack__(max_version=version)) == "dltensor"
    assert name_of(nd.zeros(3).__dlpack__()) == "dltensor"


@pytest.mark.parametrize("version", [(1, 0), (1, 3), (1, 99), (2, 0), (100, 3), (np.int64(1), 0)], ids=str)
def test_new_versions_get_ours(version):
    # torch, cupy and numpy test_max_version
    c = peek(nd.zeros(3).__dlpack__(max_version=version))
    assert (c.name, c.version) == ("dltensor_versioned", (1, 3))


@pytest.mark.parametrize(
    "version", [[1, 0], (1,), (), (1, 0, 0), "1.0", 1, 1.0, ("1", "0"), (1.0, 0), (1, 0.0)], ids=str
)
def test_max_version_must_be_a_pair(version):
    # numpy's dlpack.c
    with pytest.raises(TypeError, match="max_version"):
        nd.zeros(3).__dlpack__(max_version=version)


@pytest.mark.parametrize("stream", [None, -1, np.int64(-1)], ids=str)
def test_streams_that_the_cpu_takes(stream):
    # the standard: None; CuTe DSL and torch pass -1
    assert name_of(nd.zeros(3).__dlpack__(stream=stream)) == "dltensor"


@pytest.mark.parametrize("stream", [0, 1, 2, 5, -2, 1 << 40], ids=str)
def test_streams_that_the_cpu_does_not_have(stream):
    # numpy test_dunder_dlpack_stream; pytorch#67618
    with pytest.raises(ValueError, match="stream"):
        nd.zeros(3).__dlpack__(stream=stream)


@pytest.mark.parametrize("stream", [Thing(), 1.0, -1.0, True, False, "1", np.True_], ids=str)
def test_what_is_no_stream(stream):
    # torch test_dlpack_tensor_invalid_stream; cupy#5970
    with pytest.raises(TypeError, match="stream"):
        nd.zeros(3).__dlpack__(stream=stream)


@BOTH
@pytest.mark.parametrize("device", [None, CPU, (nd.dlpack.DLDeviceType.kDLCPU, 0), (np.int32(1), 0)], ids=str)
def test_the_own_device(device, versioned):
    # numpy test_device
    x = nd.zeros(3)
    assert peek(export(x, versioned, dl_device=device)).data == x._state()[0]
    x.__dlpack__(dl_device=x.__dlpack_device__())


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("device", [(10, 0), (9, 0), (16, 0), (1, 1), (99, 0), (0, 0), (-1, 0), (1, -1)], ids=str)
def test_other_devices(device, copy):
    # numpy test_device; torch test_unsupported_device_error; pytorch#194267, array-api#831
    with pytest.raises(BufferError, match="device"):
        nd.zeros(3).__dlpack__(dl_device=device, copy=copy)


@pytest.mark.parametrize("device", [(1,), 1, "cpu", (1, 0, 0), [1, 0], (1.0, 0), ("1", 0), ()], ids=str)
def test_what_is_no_device(device):
    # numpy's device_converter
    with pytest.raises(TypeError, match="dl_device"):
        nd.zeros(3).__dlpack__(dl_device=device)


@BOTH
def test_copy(versioned):
    # the standard's copy; numpy test_dunder_dlpack_version; torch never sets IS_COPIED
    x = nd.arange(5)
    c = peek(export(x, versioned, copy=True))
    assert c.data != x._state()[0]
    assert c.data % 256 == 0
    assert c.flags == (IS_COPIED if versioned else None)
    for copy in (False, None):
        c = peek(export(x, versioned, copy=copy))
        assert (c.data, c.flags) == (x._state()[0], 0 if versioned else None)


@pytest.mark.parametrize("copy", ["yes", 2, 0, 1, 1.0, Thing()], ids=str)
def test_what_is_no_copy(copy):
    # numpy test_dunder_dlpack_copy.  Decided: no numbers, as 1 and 0 for True and False are more often a mistake.
    with pytest.raises(TypeError, match="copy"):
        nd.zeros(3).__dlpack__(copy=copy)


def test_numpy_bools_count():
    x = nd.zeros(3)
    assert peek(export(x, copy=np.True_)).flags == IS_COPIED
    assert peek(export(x, copy=np.False_)).flags == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_copy_keeps_fortran_order(order):
    x = nd.asarray(np.arange(12, dtype=np.int32).reshape((3, 4), order=order), copy=True)
    assert peek(export(x, copy=True)).strides == ((4, 1) if order == "C" else (1, 3))
    np.testing.assert_array_equal(np.from_dlpack(x, copy=True), x)


@pytest.mark.parametrize("row", dtypes.TABLE, ids=lambda row: row.name)
def test_a_copy_of_every_dtype(row):
    x = nd.asarray(np.arange(24, dtype=np.uint8).view(np.uint8)).astype(row.dtype)[::2]
    back = nd.from_dlpack(x.__dlpack__(max_version=(1, 3), copy=True))
    assert back.dtype == row.dtype
    assert bytes(back) == bytes(nd.ascontiguousarray(x))


def test_a_copy_for_the_consumer_leaves_sharing_alone():
    # pytorch's copy=True of a lazy clone reads it
    x = nd.arange(1000)
    y = x.copy()
    assert nd.is_shared(x)
    address = x._state()[0]
    capsule = x.__dlpack__(copy=True)
    assert nd.is_shared(x)
    assert nd.is_shared(y)
    assert x._state()[0] == y._state()[0] == address
    del capsule


def test_copies_for_the_consumer_are_logged_as_asked_for():
    x = nd.arange(1000, dtype=nd.int64)
    with nd.copy_log() as log:
        x.__dlpack__(copy=True)
        x.__dlpack__()
    assert [(c.nbytes, c.asked) for c in log] == [(8000, True)]
    with nd.no_copies():
        x.__dlpack__(copy=True)


# ---- the life of an export -------------------------------------------------------------------------------------------


@BOTH
def test_an_unconsumed_capsule_lets_go(versioned):
    # numpy test_dunder_dlpack_refcount; cupy test_deleter; pytorch#9297, quadrants#598
    x = nd.arange(10)
    assert x._state()[3] == 0
    capsule = export(x, versioned)
    assert x._state()[3:5] == (1, 1)
    del capsule
    assert x._state()[3] == 0


@BOTH
def test_a_consumed_capsule_frees_nothing(versioned):
    # cupy test_deleter2, test_multiple_consumption_error
    x = nd.arange(10)
    capsule = export(x, versioned)
    y = nd.from_dlpack(capsule)
    assert name_of(capsule) == ("used_dltensor_versioned" if versioned else "used_dltensor")
    with pytest.raises(ValueError, match="consumed"):
        nd.from_dlpack(capsule)
    with pytest.raises(ValueError, match="consumed"):
        nd.from_dlpack(capsule)
    del capsule
    np.testing.assert_array_equal(y, np.arange(10))
    capsule = export(x, versioned)
    a = np.from_dlpack(nd.dlpack.ReadOnlyTensorWrapper(x))
    address = consume(capsule)
    assert x._state()[3] == 2
    del capsule
    assert x._state()[3] == 2
    if versioned:
        delete(address)
        assert x._state()[3] == 1
    del a


def test_memory_lives_as_long_as_a_consumer():
    # cupy test_deleter2; mxnet#13658, dgl#312, paddle#50120
    before = nd.memory_info()

    def make():
        return nd.arange(1000).__dlpack__(max_version=(1, 3))

    capsules = [make() for _ in range(10)]
    gc.collect()
    churn = [nd.zeros(1000) for _ in range(100)]
    for capsule in capsules:
        np.testing.assert_array_equal(nd.from_dlpack(capsule), np.arange(1000))
    del churn, capsules, capsule
    gc.collect()
    assert nd.memory_info()[:3] == before[:3]


@BOTH
def test_two_exports_at_once(versioned):
    # the standard; jax#4636, cudnn-frontend#547
    x = nd.arange(10)
    one, two = export(x, versioned), export(x, versioned)
    assert pointer_of(one)
    a, b = nd.from_dlpack(one), nd.from_dlpack(two)
    del a, one
    np.testing.assert_array_equal(b, np.arange(10))
    b[0] = 5
    assert x[0] == 5


@BOTH
def test_what_is_exported_does_not_change_with_the_array(versioned):
    # torch's strides in a capsule are those of the live tensor; numpy's are not
    x = nd.arange(6).reshape((2, 3))
    capsule = export(x, versioned)
    before = peek(capsule)
    del x
    gc.collect()
    nd.zeros((3, 2))
    assert peek(capsule) == before


@BOTH
def test_a_capsule_dropped_while_an_exception_is_on_its_way(versioned):
    # numpy test_dlpack_destructor_exception; paddle#50120, dlpack#140
    def fail(capsule):
        raise KeyError("that very one")

    for _ in range(2):
        with pytest.raises(KeyError, match="that very one") as caught:
            fail(export(nd.arange(5), versioned))
        del caught
    assert 1 + 1 == 2


@BOTH
@pytest.mark.parametrize("n", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_cycles_leave_nothing(versioned, n):
    # numpy and cupy deleter tests; lmdeploy#1344, pytorch#9297
    x = nd.arange(100)

    def cycle(n):
        for _ in range(n):
            export(x, versioned)
            nd.from_dlpack(export(x, versioned))
            try:
                raise KeyError
            except KeyError:
                export(x, versioned)

    cycle(1000)
    with flat(x):
        cycle(n)


def test_refused_exports_leave_nothing():
    # pytorch#171820, cuda-python#1291: what was built before the refusal leaked
    x = nd.arange(100)[::-1]
    r = nd.readonly(nd.arange(100))

    def refused(n):
        for _ in range(n):
            for y, options in (
                (x, {}),
                (r, {}),
                (x, {"stream": 3}),
                (x, {"dl_device": (10, 0)}),
                (x, {"max_version": 1}),
            ):
                try:
                    y.__dlpack__(**options)
                except (BufferError, ValueError, TypeError):
                    pass
                else:
                    pytest.fail("was to be refused")

    refused(500)
    with flat(x), flat(r):
        refused(5_000)


libc = ctypes.CDLL(None)


def on_a_new_thread(function: int, argument: int) -> None:
    """Run a C function on a thread that Python does not know, and wait for it without the GIL."""
    thread = ctypes.c_void_p()
    assert libc.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(function), ctypes.c_void_p(argument)) == 0
    assert libc.pthread_join(thread, None) == 0


@BOTH
def test_a_deleter_on_a_thread_that_python_never_saw(versioned):
    # python_spec; numpy#22507, pytorch#88082, CV-CUDA#298: torch calls deleters without the GIL
    x = nd.arange(10)
    for _ in range(200):
        capsule = export(x, versioned)
        deleter = peek(capsule).deleter
        on_a_new_thread(deleter, consume(capsule))
    assert x._state()[3] == 0


def test_the_last_deleter_of_a_foreign_owner_on_such_a_thread():
    # the memory is a Python object's, which only Python may release: the release waits for it
    a = np.arange(10)
    before = sys.getrefcount(a)
    x = nd.from_dlpack(a)
    capsule = x.__dlpack__(max_version=(1, 3))
    deleter = peek(capsule).deleter
    address = consume(capsule)
    del x, capsule
    assert sys.getrefcount(a) > before
    on_a_new_thread(deleter, address)
    nd.zeros(1)  # at the latest with the next allocation
    assert sys.getrefcount(a) == before


EXIT = """
import ctypes, sys
import nbdlpack as nd
from nbdlpack.conformance.capsules import consume, peek
for make in (lambda: nd.arange(10), lambda: nd.from_dlpack(__import__("numpy").arange(10))):
    for version in ((1, 3), None):
        capsule = make().__dlpack__(max_version=version)
        deleter, address = peek(capsule).deleter, consume(capsule)
        # C's atexit runs after Py_Finalize
        assert ctypes.CDLL(None).__cxa_atexit(ctypes.c_void_p(deleter), ctypes.c_void_p(address), None) == 0
        sys.stored = capsule
"""


def test_a_deleter_after_the_interpreter():
    # python_spec; numpy#22510, TensorRT-LLM#18310, llvmlite#232
    run = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
