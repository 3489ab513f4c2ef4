"""Kernels of the library's own: how they are launched, and the user's cache of compiled ones."""

from __future__ import annotations

import ctypes
import functools
import gc
import json
from types import SimpleNamespace

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.errors import DeviceError
from tests import simulator_skips

pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[hostcuda]'")
simulator_skips.skip_module(__name__)

from nbdlpack.devices.cuda import compiling, images  # noqa: E402
from nbdlpack.devices.kernelled import launching  # noqa: E402
from nbdlpack.kernels.numba_cuda import Kernel, cuda, device_function, types  # noqa: E402

pytestmark = pytest.mark.usefixtures("cuda")


# ---- launches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "bits"),
    [
        ("int64", -1, [-1]),
        ("int64", np.int8(-5), [-5]),
        ("int64", True, [1]),
        ("uint64", 7, [7]),
        ("uint64", (1 << 64) - 1, [ctypes.c_uint64]),
        ("uint64", np.uint64(1 << 63), [ctypes.c_uint64]),
        ("int8", -1, [ctypes.c_int8]),
        ("uint16", np.int64(5), [ctypes.c_uint16]),
        ("bool", np.True_, [ctypes.c_bool]),
        ("float32", 1, [ctypes.c_float]),
        ("float32", 0, [ctypes.c_float]),
        ("float64", -0.0, [ctypes.c_double]),
        ("float64", np.float32(0.5), [ctypes.c_double]),
        ("complex64", 2, [ctypes.c_float, ctypes.c_float]),
        ("complex128", 1 + 2j, [ctypes.c_double, ctypes.c_double]),
    ],
)
def test_values_are_as_wide_as_the_kernels_parameters(kind, value, bits):
    found = launching.exactly_passed(launching.ways((getattr(types, kind),)), (value,))
    assert [x if isinstance(x, int) else type(x) for x in found] == bits
    numbers = [x if isinstance(x, int) else x.value for x in found]
    assert (complex(*numbers) if "complex" in kind else numbers[0]) == value


def test_tuples_are_taken_apart():
    ways = launching.ways((types.uint64, types.UniTuple(types.int64, 3), types.float32))
    assert launching.passed(ways, (5, (1, 2, 3), 2.0))[:4] == [5, 1, 2, 3]
    with pytest.raises(TypeError, match="must be of int64, not float32"):
        launching.ways((types.UniTuple(types.float32, 3),))


def test_a_grid_has_no_more_blocks_than_fill_the_gpu():
    assert launching.blocks_for(1, 10) == 1
    assert launching.blocks_for(launching.BLOCK, 10) == 1
    assert launching.blocks_for(launching.BLOCK + 1, 10) == 2
    assert launching.blocks_for(1 << 40, 10) == 10


def test_every_kind_of_value_arrives_in_a_kernel():
    from nbdlpack.kernels.access import ACCESS

    kinds = ["int8", "uint16", "int32", "int64", "uint64", "float32", "float64", "complex64", "complex128", "bool"]
    values = [-3, 65535, -(1 << 31), -(1 << 63), (1 << 64) - 1, 0.1, 0.1, 1 + 2j, 3 - 4j, True]
    stores = [ACCESS[np.dtype(kind)].store for kind in kinds]
    s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 = stores

    def function(out, a, b, c, d, e, f, g, h, i, j):
        if cuda.grid(1) == 0:
            s0(out, a)
            s1(out + types.uint64(16), b)
            s2(out + types.uint64(32), c)
            s3(out + types.uint64(48), d)
            s4(out + types.uint64(64), e)
            s5(out + types.uint64(80), f)
            s6(out + types.uint64(96), g)
            s7(out + types.uint64(112), h)
            s8(out + types.uint64(128), i)
            s9(out + types.uint64(144), j)

    signature = (types.uint64, *[types.boolean if kind == "bool" else getattr(types, kind) for kind in kinds])
    kernel = Kernel("every kind of value", function, signature)
    out = nd.zeros(160, dtype="uint8", device="cuda")
    with out.device.accessing((), (out,)):
        out.device.launch(kernel, 1, out.device.address(out), *values)
    found = np.array(out)
    for n, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        assert found[16 * n :].view(kind)[0] == np.dtype(kind).type(value), kind


def test_a_launch_of_no_threads_is_none():
    x = nd.zeros(0, device="cuda")
    x.device.launch(SimpleNamespace(), 0)


def test_a_kernel_is_compiled_once(monkeypatch):
    from nbdlpack.kernels import numba_cuda

    kernel, built = made("once", types.float32), []
    monkeypatch.setattr(compiling._numba_cuda, "build", lambda k: built.append(k) or numba_cuda.build(k), raising=False)
    x = nd.zeros(4, dtype="float32", device="cuda")
    for value in (1, 2):
        with x.device.accessing((), (x,)):
            x.device.launch(kernel, 4, x.device.address(x), 4, value)
        assert x.tolist() == [value] * 4
    assert built == [kernel]


# ---- keys ------------------------------------------------------------------------------------------------------------

FACTOR = 1


@device_function
def scaled(x):
    return x * FACTOR


@functools.cache
def made(name, kind=types.float32, function=scaled, offset=0):
    from nbdlpack.kernels.access import ACCESS

    store, size = ACCESS[np.dtype(kind.name)].store, kind.bitwidth // 8

    def kernel(address, n, value):
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            store(address + types.uint64(i * size), function(value) + offset)

    return Kernel(name, kernel, (types.uint64, types.int64, kind))


def key(kernel, architecture="9.0"):
    return images.key_of(kernel, architecture)


def test_the_key_is_that_of_the_same_kernel_made_anew():
    found = key(made("a"))
    assert len(found) == 64
    made.cache_clear()
    assert key(made("a")) == found


def test_the_key_has_all_that_the_image_depends_on(monkeypatch):
    @device_function
    def other(x):
        return x * FACTOR + x

    kernel = made("a")
    keys = [
        key(kernel),
        key(kernel, "8.0"),
        key(made("b")),
        key(made("a", types.float64)),
        key(made("a", function=other)),
        key(made("a", offset=1)),
    ]
    monkeypatch.setitem(globals(), "FACTOR", 2)
    keys.append(key(kernel))
    monkeypatch.setattr(images, "_versions", lambda: "another release")
    keys.append(key(kernel))
    assert len(set(keys)) == len(keys)


def test_what_nobody_can_tell_anew_is_not_cached():
    def function(address):
        return thing

    thing = object()
    assert key(Kernel("unknown", function, (types.uint64,))) is None
    assert images.find(None) is None


# ---- files -----------------------------------------------------------------------------------------------------------

IMAGE = images.Image("entry", b"\x7fELF\0code")


@pytest.fixture
def directory(tmp_path, monkeypatch):
    path = tmp_path / "cache" / "kernels"
    monkeypatch.setenv("NBDLPACK_CACHE_DIR", str(path))
    return path


def test_an_image_comes_back_as_it_was(directory):
    assert images.find("k") is None
    images.keep("k", IMAGE)
    assert images.find("k") == IMAGE
    assert [path.name for path in directory.iterdir()] == ["k.bin"]


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"", lambda b: b"x" + b[1:], lambda b: b[:60]]
)
def test_a_damaged_file_is_as_good_as_none(directory, damage):
    images.keep("k", IMAGE)
    path = directory / "k.bin"
    path.write_bytes(damage(path.read_bytes()))
    assert images.find("k") is None
    images.keep("k", IMAGE)
    assert images.find("k") == IMAGE


def test_where_nothing_can_be_written_nothing_is(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("NBDLPACK_CACHE_DIR", str(file))
    images.keep("k", IMAGE)
    assert images.find("k") is None
    monkeypatch.setenv("NBDLPACK_CACHE_DIR", str(tmp_path / "full"))
    monkeypatch.setattr(images.tempfile, "mkstemp", lambda **_: (_ for _ in ()).throw(OSError("no space")))
    images.keep("k", IMAGE)
    assert images.find("k") is None


def test_a_write_that_fails_leaves_nothing(directory, monkeypatch):
    def fail(self, target):
        raise OSError("no space")

    monkeypatch.setattr(images.Path, "replace", fail)
    images.keep("k", IMAGE)
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("name", ["", "0"])
def test_it_can_be_turned_off(name, monkeypatch):
    monkeypatch.setenv("NBDLPACK_CACHE_DIR", name)
    assert images.directory() is None
    images.keep("k", IMAGE)
    assert images.find("k") is None


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.delenv("NBDLPACK_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert images.directory() == tmp_path / "nbdlpack"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert images.directory() == tmp_path / ".cache" / "nbdlpack"


# ---- processes -------------------------------------------------------------------------------------------------------

PROGRAM = """
import json
import numpy as np
import nbdlpack as nd
from nbdlpack.devices.cuda import compiling, images  # noqa: E402

x = nd.arange(100, dtype="float32", device="cuda")
y = (x * 2 + nd.ones(100, device="cuda"))[::-1].copy()
z = y.reshape(10, 10).T.copy()
z[z > 100] = 0
print(json.dumps({
    "result": [z.sum().item(), y.max().item(), x.astype("int16")[7].item()],
    "compiled": compiling.counts.compiled,
    "cached": compiling.counts.cached,
    "keys": {kernel.name: images.key_of(kernel, "9.0") for _, kernel in compiling._ready},
}))
"""


def run(hostcuda, directory, **changes):
    return json.loads(hostcuda.python("-c", PROGRAM, NBDLPACK_CACHE_DIR=str(directory), **changes))


@pytest.mark.slow
def test_a_fresh_process_compiles_nothing_again(hostcuda, tmp_path):
    first = run(hostcuda, tmp_path, PYTHONHASHSEED="1")
    assert first["cached"] == 0
    assert first["compiled"] == len(first["keys"]) == len(list(tmp_path.iterdir())) > 5
    second = run(hostcuda, tmp_path, PYTHONHASHSEED="2")
    assert (second["compiled"], second["cached"]) == (0, first["compiled"])
    assert (second["keys"], second["result"]) == (first["keys"], first["result"])
    assert None not in second["keys"].values()

    # What is damaged is compiled anew, and is whole then.
    damaged = min(tmp_path.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-100])
    third = run(hostcuda, tmp_path)
    assert (third["compiled"], third["cached"]) == (1, first["compiled"] - 1)
    assert third["result"] == first["result"]
    assert images.read(damaged) is not None


def test_an_image_that_cannot_be_loaded_is_made_anew(directory, monkeypatch):
    def refuse(image):
        raise RuntimeError("CUDA_ERROR_INVALID_IMAGE")

    kernel = made("refused")
    place = images.key_of(kernel, compiling.architecture(compiling.driver.core.Device(0)))
    images.keep(place, IMAGE)
    monkeypatch.setattr(compiling, "load", refuse)
    x = nd.zeros(4, dtype="float32", device="cuda")
    with x.device.accessing((), (x,)):
        x.device.launch(kernel, 4, x.device.address(x), 4, 3.0)
    assert x.tolist() == [3, 3, 3, 3]
    found = images.find(place)
    assert found != IMAGE
    assert found.code[:4] == b"\x7fELF"


# ---- errors ----------------------------------------------------------------------------------------------------------


class DynamicLibNotFoundError(RuntimeError):
    """As cuda.pathfinder raises it."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            DynamicLibNotFoundError('Failure finding "libnvvm.so": No such file'),
            "libNVVM, .* is not found: pip install",
        ),
        (DynamicLibNotFoundError('Failure finding "libnvrtc.so": No such file'), "NVRTC, .* is not found: pip install"),
        (DynamicLibNotFoundError('Failure finding "libnvJitLink.so"'), "nvJitLink, .* is not found: pip install"),
        (
            RuntimeError("nvJitLink error log: ptxas fatal: Unsupported .version 9.5; current version is '9.0'"),
            "newer release",
        ),
        (
            RuntimeError("CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the PTX was compiled with an unsupported toolchain"),
            "newer release",
        ),
    ],
)
def test_what_is_missing_for_a_kernel_is_said_in_a_sentence(monkeypatch, error, words):
    def build(kernel):
        raise ValueError("of the compiler") from error

    monkeypatch.setattr(compiling._numba_cuda, "build", build, raising=False)
    x = nd.zeros(4, dtype="float32", device="cuda")
    with pytest.raises(DeviceError, match=words) as caught:
        x.device.launch(made(f"missing {error}"), 4, 0, 4, 1)
    assert caught.value.__cause__.__cause__ is error
    assert "\n" not in str(caught.value)


def test_other_errors_of_the_compiler_are_passed_on(monkeypatch):
    def build(kernel):
        raise ZeroDivisionError

    monkeypatch.setattr(compiling._numba_cuda, "build", build, raising=False)
    x = nd.zeros(4, dtype="float32", device="cuda")
    with pytest.raises(ZeroDivisionError):
        x.device.launch(made("failing"), 4, 0, 4, 1)


def test_nothing_is_kept_alive_by_what_a_compilation_leaves_behind(cuda):
    def use():
        x = nd.asarray(np.arange(1000, dtype=np.int16), device=cuda)
        return (nd.bitwise_xor(x, x[::-1]) + nd.hypot(x, 3)).sum().item()

    nd.synchronize(cuda)
    before = nd.memory_info(cuda).bytes
    gc.collect()
    gc.disable()
    try:
        use()
        assert nd.memory_info(cuda).bytes == before
    finally:
        gc.enable()
