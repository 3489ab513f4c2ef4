"""Exchange with the libraries themselves, both ways: every dtype, every layout, both kinds of capsule.

What a peer refuses is stated as its refusal, for the releases that the project's extra `peers` names.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import dtypes
from nbdlpack.conformance.capsules import name_of, peek
from nbdlpack.conformance.header import READ_ONLY

Wrapper = nd.dlpack.ReadOnlyTensorWrapper


@pytest.fixture(scope="session")
def jax():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    jax.config.update("jax_enable_x64", True)
    return jax


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="session")
def tvm_ffi():
    return pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")


@pytest.fixture(scope="session")
def pyarrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@pytest.fixture(scope="session")
def StridedMemoryView():
    return pytest.importorskip("cuda.core.utils", reason="cuda-core is not installed").StridedMemoryView


class Peer:
    """How a library imports, and how to look at what it made of an array."""

    name: str
    versioned = True  # what kind of capsule it asks for, or takes by the exchange table
    refuses_dtypes: tuple[str, ...] = ()
    refuses_layouts: tuple[str, ...] = ()

    def __init__(self, module: Any) -> None:
        self.module = module

    def take(self, x: Any) -> Any:
        return self.module.from_dlpack(x)

    def address(self, y: Any) -> int:
        raise NotImplementedError

    def host(self, y: Any) -> np.ndarray:
        """Return the bytes of a peer's array, as a NumPy array of unsigned integers of the item size."""
        raise NotImplementedError


def unsigned(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(-1)


FLOAT8 = tuple(row.name for row in dtypes.TABLE if row.name.startswith("float8"))
COMPLEX = ("complex64", "complex128")


class Numpy(Peer):
    name = "numpy"
    refuses_dtypes = ("bfloat16", *FLOAT8)

    def address(self, y):
        return y.ctypes.data

    def host(self, y):
        return unsigned(y)


class Torch(Peer):
    name = "torch"
    refuses_dtypes = ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")
    refuses_layouts = ("negative",)  # and not in this process

    def address(self, y):
        return y.data_ptr()

    def host(self, y):
        return unsigned(y.contiguous().reshape(-1).view(self.module.uint8).numpy())


class TvmFfi(Peer):
    name = "tvm_ffi"

    def address(self, y):
        return self.module.from_dlpack(y).data_ptr() if hasattr(y, "data_ptr") else peek(y.__dlpack__()).data

    def host(self, y):
        return unsigned(nd.from_dlpack(y)._host(0))


class Jax(Peer):
    name = "jax"
    versioned = False
    refuses_layouts = ("strided", "column", "negative", "broadcast")

    def take(self, x):
        return self.module.dlpack.from_dlpack(x)

    def address(self, y):
        return y.unsafe_buffer_pointer()

    def host(self, y):
        return unsigned(np.asarray(y))


class PyarrowTensor(Peer):
    name = "pyarrow"
    refuses_dtypes = ("bool", *COMPLEX, "bfloat16", *FLOAT8)
    refuses_layouts = ("negative",)

    def take(self, x):
        return self.module.Tensor.from_dlpack(x)

    def address(self, y):
        return y.to_numpy().ctypes.data

    def host(self, y):
        return unsigned(y.to_numpy())


class CudaCore(Peer):
    name = "StridedMemoryView"
    refuses_dtypes = FLOAT8

    def take(self, x):
        view = self.module.from_dlpack(x, stream_ptr=-1)
        view.dtype
        return view

    def address(self, y):
        return y.ptr

    def host(self, y):
        if y.dtype == ml_dtypes.bfloat16:  # which it does not export again
            return np.frombuffer(ctypes.string_at(y.ptr, 2 * int(np.prod(y.shape))), np.uint8)
        return unsigned(nd.from_dlpack(y)._host(0))


PEERS = {kind.name: kind for kind in (Numpy, Torch, TvmFfi, Jax, PyarrowTensor, CudaCore)}


@pytest.fixture(params=PEERS)
def peer(request):
    name = request.param
    return PEERS[name](np if name == "numpy" else request.getfixturevalue(name))


def example(dtype: Any, shape: tuple[int, ...] = (5, 6)) -> np.ndarray:
    """Return an array of a dtype with bytes that are values of every dtype: none is a NaN, none a bool but 0 and 1."""
    dtype, n = np.dtype(dtype), int(np.prod(shape))
    if dtype == np.bool:
        return (np.arange(n) % 2).astype(np.bool).reshape(shape)
    return (np.arange(n * dtype.itemsize, dtype=np.uint8) % 97).view(dtype).reshape(shape)


LAYOUTS = {
    "C": lambda x: x,
    "F": lambda x: x.T,
    "strided": lambda x: x[::2, 1::2],
    "row": lambda x: x[2],
    "column": lambda x: x[:, 2],
    "offset": lambda x: x[2:],
    "0-d": lambda x: x[1:2, 2:3].reshape(()),
    "empty": lambda x: x[2:2],
    "one": lambda x: x[1:2, 2:3],
    "negative": lambda x: x[::-1],
    "broadcast": lambda x: nd.broadcast_to(x[2], (3, 6)),
}


# ---- peers as consumers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", dtypes.TABLE, ids=lambda row: row.name)
def test_a_peer_imports_every_dtype(peer, row):
    a = example(row.dtype)
    x = nd.asarray(a, copy=True)
    if row.name in peer.refuses_dtypes:
        with pytest.raises(Exception, match=r"(?i)type|code"):
            peer.take(x)
        assert x._state()[3] == 0
        return
    y = peer.take(x)
    assert peer.address(y) == x._state()[0]
    assert bytes(peer.host(y)) == a.tobytes()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_peer_imports_every_layout(peer, layout):
    if (peer.name, layout) == ("torch", "negative"):
        pytest.skip("ends the process, see test_torch_and_negative_strides")
    x = LAYOUTS[layout](nd.asarray(example(np.float32), copy=True))
    with nd.dlpack.allow_negative_strides():
        if layout in peer.refuses_layouts:
            with pytest.raises(Exception, match=r"(?i)strid|read-only"):
                peer.take(x)
            return
        y = peer.take(x)
    assert tuple(y.shape) == x.shape
    if x.size:
        # jax copies in silence what is not aligned to 64 bytes
        assert peer.address(y) == x._state()[0] or (peer.name == "jax" and x._state()[0] % 64)
    if not (peer.name == "pyarrow" and x.ndim == 0):
        assert bytes(peer.host(y)) == bytes(x)


def test_memory_is_shared_both_ways(peer):
    x = nd.arange(16, dtype=nd.float64)
    y = peer.take(x)
    x[3] = 33
    assert bytes(peer.host(y)) == bytes(x)
    expected = bytes(x)
    del x  # the memory lives on
    churn = [nd.zeros(16) for _ in range(50)]
    assert bytes(peer.host(y)) == expected
    del churn


def test_a_peer_and_read_only_arrays(peer):
    # what each makes of the flag; jax knows unversioned capsules alone
    for x in (nd.readonly(nd.arange(16.0)), Wrapper(nd.arange(16.0))):
        if not peer.versioned:
            with pytest.raises(Exception, match="read-only|dltensor_versioned"):
                peer.take(x)
            continue
        y = peer.take(x)
        if peer.name == "numpy":
            assert not y.flags.writeable
        elif peer.name == "StridedMemoryView":
            assert y.readonly
        elif peer.name == "tvm_ffi":
            # drops the flag on the way; by the address we know better
            assert peek(y.__dlpack__(max_version=(1, 3))).flags == 0
            assert not nd.from_dlpack(y).flags.writeable
        elif peer.name == "torch":
            # A known hazard: torch imports it as writable.
            y[0] = 99
            assert y[0] == 99


def test_a_peer_lets_go(peer):
    x = nd.arange(16.0)
    for _ in range(3):
        y = peer.take(x)
        assert x._state()[3] >= 1
        del y
    assert x._state()[3] == 0


def test_a_peer_makes_a_shared_array_sole_owner(peer):
    # zarrista#108: each of these consumers could write to what it gets
    x = nd.arange(1000.0)
    y = x.copy()
    z = peer.take(y)
    assert not nd.is_shared(x)
    assert peer.address(z) == y._state()[0]
    w = y.copy()  # eager: the peer may write
    assert not nd.is_shared(w)


# ---- peers as producers ----------------------------------------------------------------------------------------------


class Source:
    """How a library makes an array of a NumPy array's bytes, dtype and shape, or says that it cannot."""

    def __init__(self, module: Any) -> None:
        self.module = module


def numpy_source(module, a):
    return a


def torch_source(torch, a):
    name = {"bool": "bool"}.get(a.dtype.name, a.dtype.name)
    if not hasattr(torch, name):
        pytest.skip(f"torch has no {name}")
    flat = torch.from_numpy(np.ascontiguousarray(a).reshape(-1).view(np.uint8).copy())
    return flat.view(getattr(torch, name)).reshape(a.shape)


def tvm_source(tvm_ffi, a):
    return tvm_ffi.from_dlpack(nd.asarray(a, copy=True))


def jax_source(jax, a):
    return jax.numpy.asarray(a)


def pyarrow_source(pyarrow, a):
    if a.dtype == np.bool:
        return pyarrow.array(a.reshape(-1))  # a Tensor of them is of uint8
    return pyarrow.Tensor.from_numpy(a)


def view_source(StridedMemoryView, a):
    return StridedMemoryView.from_dlpack(nd.asarray(a, copy=True), stream_ptr=-1)


SOURCES = {
    "numpy": (numpy_source, ("bfloat16", *FLOAT8)),
    "torch": (torch_source, ()),
    "tvm_ffi": (tvm_source, ()),
    "jax": (jax_source, ()),
    "pyarrow": (pyarrow_source, ("bool", *COMPLEX, "bfloat16", *FLOAT8)),
    "StridedMemoryView": (view_source, ("bfloat16", *FLOAT8)),
}


@pytest.fixture(params=SOURCES)
def source(request):
    name = request.param
    make, refuses = SOURCES[name]
    module = np if name == "numpy" else request.getfixturevalue(name)
    return name, (lambda a: make(module, a)), refuses


@pytest.mark.parametrize("row", dtypes.TABLE, ids=lambda row: row.name)
def test_every_dtype_of_a_peer(source, row):
    name, make, refuses = source
    a = example(row.dtype)
    if row.name in refuses:
        with pytest.raises(Exception, match=r"(?i)type|code|support|implement"):
            nd.from_dlpack(make(a))
        if name == "numpy":
            # NumPy does not export ml_dtypes' types; what is needed for them is not DLPack
            x = nd.asarray(a)
            assert x.dtype == row.dtype
            assert bytes(x) == a.tobytes()
        return
    p = make(a)
    for _ in range(2):
        x = nd.from_dlpack(p)
        assert x.dtype == row.dtype
        assert bytes(x) == a.tobytes()
    assert bytes(nd.from_dlpack(p.__dlpack__(max_version=(1, 3)))) == a.tobytes()
    with pytest.warns(DeprecationWarning, match="unversioned") if name == "pyarrow" else contextlib.nullcontext():
        capsule = p.__dlpack__()
    assert name_of(capsule) == "dltensor"
    assert bytes(nd.from_dlpack(capsule)) == a.tobytes()


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
def test_every_layout_of_numpy(layout):
    a = LAYOUTS[layout](example(np.float32))
    x = nd.from_dlpack(a)
    assert x.shape == a.shape
    # Before 2.4 NumPy exported other strides than its own for axes of length one.
    assert [step for n, step in zip(x.shape, x.strides, strict=True) if n > 1] == [
        s for n, s in zip(a.shape, a.strides, strict=True) if n > 1
    ]
    assert bytes(x) == a.tobytes()
    if a.size:
        assert x._state()[0] == a.ctypes.data


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("broadcast", "negative")])
def test_every_layout_of_torch(torch, layout):
    t = LAYOUTS[layout](torch.arange(30, dtype=torch.float32).reshape(5, 6))
    for x in (nd.from_dlpack(t), nd.from_dlpack(t.__dlpack__()), nd.from_dlpack(t.__dlpack__(max_version=(1, 0)))):
        assert (x.shape, x._steps) == (tuple(t.shape), t.stride())
        assert x.tolist() == t.tolist()
        if x.size:
            assert x._state()[0] == t.data_ptr()


def test_overlapping_views_of_peers(torch):
    # torch's expand has no flag, numpy's broadcast_to has
    assert not nd.from_dlpack(torch.arange(3.0).expand(2, 3)).flags.writeable
    assert not nd.from_dlpack(np.broadcast_to(np.arange(3.0), (2, 3))).flags.writeable


def test_options_with_every_peer(source):
    _, make, _ = source
    a = example(np.float32)
    p = make(a)
    x = nd.from_dlpack(p, copy=True)
    y = nd.from_dlpack(p, copy=False)
    z = nd.from_dlpack(p, device="cpu")
    assert bytes(x) == bytes(y) == bytes(z) == a.tobytes()
    assert y._state()[0] == z._state()[0] != x._state()[0]
    x[...] = 0
    assert bytes(y) == a.tobytes()


def test_a_peers_memory_lives(source):
    _, make, _ = source
    a = example(np.float64)
    x = nd.from_dlpack(make(a.copy()))
    churn = [np.zeros(30) for _ in range(100)]
    assert bytes(x) == a.tobytes()
    del churn


# ---- torch -----------------------------------------------------------------------------------------------------------


def test_torch_states_that_a_table_does_not_tell(torch):
    # cupy-like consumers read wrong values; FlyDSL#1099, array-api-compat#173
    for t, remedy in (
        (torch.ones(2, requires_grad=True), r"\.detach\(\)"),
        (torch.ones(2, dtype=torch.complex64).conj(), r"\.resolve_conj\(\)"),
        (torch.ones(2, dtype=torch.complex64).conj().imag, r"\.resolve_neg\(\)"),
        (torch.nn.Parameter(torch.ones(2)), r"detach\(\)"),
    ):
        for options in ({}, {"copy": True}, {"copy": False}, {"device": "cpu"}, {}):
            with pytest.raises(BufferError, match=remedy):
                nd.from_dlpack(t, **options)
    t = torch.tensor([1 + 2j]).conj()
    assert nd.from_dlpack(t.resolve_conj())[0] == 1 - 2j
    assert nd.from_dlpack(t.imag.resolve_neg())[0] == -2
    assert nd.from_dlpack(torch.ones(2, requires_grad=True).detach())[0] == 1
    assert nd.from_dlpack(torch.nn.Parameter(torch.ones(2), requires_grad=False))[0] == 1


def test_torch_tensors_that_have_no_memory_to_show(torch):
    # torch's own words where it has some
    with pytest.warns(UserWarning, match="ComplexHalf"):
        complex32 = torch.empty(3, dtype=torch.complex32)
    for t, words in (
        (torch.eye(3).to_sparse(), "layout"),
        (torch.empty(3, device="meta"), "meta"),
        (torch._efficientzerotensor((3,)), "null pointer"),
        (complex32, "complex32"),
        (torch.empty(3, dtype=torch.float4_e2m1fn_x2), "float4"),
    ):
        with pytest.raises(BufferError, match=words):
            nd.from_dlpack(t)


def test_torch_subclasses(torch):
    class Plain(torch.Tensor):
        pass

    class Refusing(torch.Tensor):
        def __dlpack__(self, **options):
            raise BufferError("never")

    class Seen(torch.Tensor):
        functions: ClassVar = []

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.functions.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    t = torch.arange(3.0)
    assert nd.from_dlpack(t.as_subclass(Plain))._state()[0] == t.data_ptr()
    with pytest.raises(BufferError, match="never"):
        nd.from_dlpack(t.as_subclass(Refusing))
    nd.from_dlpack(t.as_subclass(Seen))
    assert torch.Tensor.__dlpack__ in Seen.functions


def test_torch_functions_that_take_arrays(torch):
    # torch test_automatically_select_in_creation
    x = nd.arange(4.0)
    assert torch.as_tensor(x).data_ptr() == x._state()[0]
    t = torch.tensor(x)
    assert t.tolist() == [0, 1, 2, 3]
    assert t.dtype == torch.float64
    # A known hazard, as with array.array: asarray takes the bytes of whatever has the buffer protocol, before DLPack.
    assert torch.asarray(x).dtype == torch.float32
    assert torch.asarray(x, dtype=torch.float64).tolist() == [0, 1, 2, 3]
    assert torch.from_dlpack(x).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("function", ["frombuffer", "asarray"])
def test_torch_keeps_the_address_of_a_buffer_that_it_lets_go_of(torch, function):
    # torch asks for a bare writable buffer, releases it, and keeps the address: copies have to be made at once.
    x = nd.arange(4, dtype="f8")
    earlier = x.copy()
    t = getattr(torch, function)(x, dtype=torch.float64)
    later = x.copy()
    t[0] = 99
    assert (earlier[0], later[0], x[0]) == (0, 0, 99)
    x[1] = 7  # nor does it move away from under the tensor
    assert t.tolist() == [99, 7, 2, 3]


NEGATIVE = """
import torch, nbdlpack as nd
with nd.dlpack.allow_negative_strides():
    torch.from_dlpack(nd.arange(3.)[::-1])
"""


def test_torch_and_negative_strides(torch):
    # pytorch#188023: up to 2.13 it ends the process, later it raises; so without being told to, we do not export them
    x = nd.arange(3.0)[::-1]
    with pytest.raises(BufferError, match="ascontiguousarray"):
        torch.from_dlpack(x)
    assert torch.from_dlpack(x, copy=True).tolist() == [2, 1, 0]
    assert torch.from_dlpack(nd.ascontiguousarray(x)).tolist() == [2, 1, 0]
    run = subprocess.run([sys.executable, "-c", NEGATIVE], capture_output=True, text=True, check=False)
    assert run.returncode != 0


def test_torch_writes_through_the_flag(torch):
    # A known hazard, stated in the first paragraph of ReadOnlyTensorWrapper.
    x = nd.arange(3.0)
    torch.from_dlpack(Wrapper(x))[0] = 9
    assert x[0] == 9


# ---- tvm-ffi ---------------------------------------------------------------------------------------------------------


def test_tvm_takes_the_table(tvm_ffi):
    class Counting(nd.ndarray):
        pass

    calls = []
    Counting.__dlpack__ = lambda self, **options: calls.append(options) or nd.ndarray.__dlpack__(self, **options)
    x = nd.arange(3.0).view(Counting)
    y = tvm_ffi.from_dlpack(x)
    assert calls == []
    assert peek(y.__dlpack__()).data == x._state()[0]


def test_tvm_functions_give_back_our_type(tvm_ffi, torch):
    x, t = nd.arange(3.0), torch.arange(3.0)
    echo = tvm_ffi.get_global_func("testing.echo")
    y = echo(x)
    assert type(y) is nd.ndarray
    assert nd.shares_memory(x, y)
    first = tvm_ffi.convert(lambda a, b: (a, b)[0])
    # the last argument with a table decides whose type the results have
    assert type(first(t, x)) is nd.ndarray
    assert type(first(x, t)) is torch.Tensor
    assert first(t, x)._state()[0] == t.data_ptr()
    assert first(x, t).data_ptr() == x._state()[0]


def test_tvm_does_not_launder_read_only_memory(tvm_ffi):
    # it drops the flag and hands the tensor back as writable
    x = nd.arange(3.0)
    y = x.copy()
    echo = tvm_ffi.get_global_func("testing.echo")
    for r in (nd.readonly(x), Wrapper(x)):
        back = echo(r)
        assert not back.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            back[0] = 9
    assert nd.is_shared(y)


def test_tvm_falls_back_to_dlpack(tvm_ffi):
    # BufferError from the table: it asks `__dlpack__()`
    class Refusing(nd.ndarray):
        def __dlpack__(self, *, max_version=None, **options):
            if max_version is not None:
                raise BufferError("not by the table")
            return super().__dlpack__(**options)

    x = nd.arange(3.0).view(Refusing)
    assert peek(tvm_ffi.from_dlpack(x).__dlpack__()).data == x._state()[0]


# ---- jax -------------------------------------------------------------------------------------------------------------


def test_jax(jax):
    # jax calls without a version and takes unversioned capsules alone
    x = nd.arange(16.0)
    y = jax.dlpack.from_dlpack(x, copy=False)
    assert y.unsafe_buffer_pointer() == x._state()[0]
    with pytest.raises(ValueError, match="aligned"):
        jax.dlpack.from_dlpack(x[1:], copy=False)
    np.testing.assert_array_equal(jax.numpy.asarray(x), np.arange(16.0))


def test_jax_arrays_are_read_only(jax):
    # cuda-python#285: immutable, though their capsules, unversioned whatever is asked, do not say so
    y = jax.numpy.arange(4.0)
    assert name_of(y.__dlpack__(max_version=(1, 3))) == "dltensor"
    for _ in range(2):
        x = nd.from_dlpack(y)
        assert x._state()[0] == y.unsafe_buffer_pointer()
        with pytest.raises(ValueError, match="copy"):
            x[0] = 9
    nd.from_dlpack(y, copy=True)[0] = 9
    assert y[0] == 0
    assert peek(x.__dlpack__(max_version=(1, 0))).flags == READ_ONLY


def test_jax_dtypes_that_are_not_ours(jax):
    with pytest.raises(BufferError, match="float4"):
        nd.from_dlpack(jax.numpy.zeros(3, jax.numpy.float4_e2m1fn))
    with pytest.raises(Exception, match="S4"):
        nd.from_dlpack(jax.numpy.zeros(3, jax.numpy.int4))


# ---- pyarrow ---------------------------------------------------------------------------------------------------------


def test_pyarrow_arrays(pyarrow):
    x = nd.arange(4.0)
    assert pyarrow.Array.from_dlpack(x).to_pylist() == [0, 1, 2, 3]
    y = nd.from_dlpack(pyarrow.array([1.0, 2.0]))
    np.testing.assert_array_equal(y, [1, 2])
    assert not y.flags.writeable  # it says so
    with pytest.raises(Exception, match=r"(?i)null"):
        nd.from_dlpack(pyarrow.array([1.0, None]))
    with pytest.raises(Exception, match=r"(?i)contiguous"):
        pyarrow.Array.from_dlpack(x[::2])


# ---- cuda.core -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [-1, 0])
def test_strided_memory_view(StridedMemoryView, stream):
    x = nd.arange(6.0).reshape((2, 3)).T
    for y, readonly in ((x, False), (nd.readonly(x), True), (Wrapper(x), True)):
        view = StridedMemoryView.from_dlpack(y, stream_ptr=stream)
        assert (view.ptr, view.readonly, view.shape, view.strides) == (x._state()[0], readonly, (3, 2), (1, 3))
        assert not view.is_device_accessible


# ---- who takes capsules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 3)], ids=str)
def test_capsules(peer, version):
    capsule = nd.arange(3.0).__dlpack__(max_version=version)
    if peer.name not in ("torch", "tvm_ffi"):
        with pytest.raises((AttributeError, TypeError)):
            peer.take(capsule)
        return
    y = peer.take(capsule)
    assert bytes(peer.host(y)) == np.arange(3.0).tobytes()
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        peer.take(capsule)
    with pytest.raises(ValueError, match="consumed"):
        nd.from_dlpack(capsule)


# ---- ways through several --------------------------------------------------------------------------------------------


def test_there_and_back_again(torch, tvm_ffi, StridedMemoryView):
    # the standard: no copy on any of these ways
    x = nd.arange(12.0).reshape((3, 4))
    address = x._state()[0]
    y = nd.from_dlpack(np.from_dlpack(x))
    y = nd.from_dlpack(torch.from_dlpack(y))
    y = nd.from_dlpack(tvm_ffi.from_dlpack(y))
    y = nd.from_dlpack(StridedMemoryView.from_dlpack(y, stream_ptr=-1))
    y = nd.from_dlpack(torch.from_dlpack(np.from_dlpack(y)))
    assert y._state()[0] == address
    assert nd.shares_memory(x, y)
    assert y.flags.writeable
    y[1, 1] = 99
    assert x[1, 1] == 99


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
)
def test_narrow_floats_go_through_torch_bit_for_bit(torch, name):
    # pytorch#109873, ml_dtypes#81, cupy#9670
    dtype = np.dtype(getattr(ml_dtypes, name))
    a = np.arange(256 * dtype.itemsize, dtype=np.uint8).view(dtype)
    x = nd.asarray(a, copy=True)
    t = torch.from_dlpack(x)
    assert t.dtype == getattr(torch, name)
    y = nd.from_dlpack(t.clone())
    assert y.dtype == dtype
    assert bytes(y) == a.tobytes()
