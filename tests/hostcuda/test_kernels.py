"""hostcuda runs what Numba compiles."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import tests.hostcuda as host
from tests.hostcuda.tools import call, refused

pytestmark = [
    pytest.mark.filterwarnings("ignore:Grid size"),
    pytest.mark.filterwarnings("ignore:Host array used"),
]


def test_arrays_of_numba(cuda, kernels):
    x = np.arange(12, dtype="i4").reshape(3, 4)
    d = cuda.to_device(x)
    assert (d.copy_to_host() == x).all()
    e = cuda.device_array((3, 4), "i4")
    assert (e.copy_to_host().view("u1") == 0xCB).all()  # uninitialised memory is recognisable
    e.copy_to_device(d)
    assert (e.copy_to_host() == x).all()
    m = cuda.managed_array(5, "f8")
    m[:] = 3
    kernels.plus[1, 32](m, m, 1.0)
    cuda.synchronize()
    assert (m == 4).all()


@pytest.mark.parametrize("dtype", ["?", "f4", "c16"])
def test_a_strided_copy(cuda, dtype):
    @cuda.jit
    def copy(source, target):
        x, y = cuda.grid(2)
        sx, sy = cuda.gridsize(2)
        for i in range(x, source.shape[0], sx):
            for j in range(y, source.shape[1], sy):
                target[i, j] = source[i, j]

    x = np.arange(35 * 20).reshape(35, 20).astype(dtype)
    target = cuda.to_device(np.zeros((7, 18), dtype)).T
    copy[(2, 2), (4, 8)](cuda.to_device(x)[::2, 1::3], target)
    assert (target.copy_to_host() == x[::2, 1::3]).all()


@pytest.mark.parametrize("order", ["forward", "reverse", "random:7"])
def test_barriers_and_shared_memory(cuda, hostcuda, order):
    from numba import float32, int32

    @cuda.jit
    def sum_blocks(x, out, counts):
        shared, more = cuda.shared.array(128, float32), cuda.shared.array(0, float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        shared[t] = x[i] if i < x.size else 0
        n = cuda.blockDim.x // 2
        cuda.syncthreads()
        while n:
            if t < n:
                shared[t] += shared[t + n]
            cuda.syncthreads()
            n //= 2
        more[t] = shared[0]
        counts[i, 0] = cuda.syncthreads_count(int32(t % 4 == 0))
        counts[i, 1] = cuda.syncthreads_or(int32(t == 77))
        counts[i, 2] = cuda.syncthreads_and(int32(t < 77))
        if t == 0:
            out[cuda.blockIdx.x] = more[127]

    x = np.random.default_rng(0).random(1000).astype("f4")
    with hostcuda.option(order=order):
        out, counts = cuda.device_array(8, "f4"), cuda.device_array((1024, 3), "i4")
        sum_blocks[8, 128, 0, 4 * 128](cuda.to_device(x), out, counts)
        assert np.isclose(out.copy_to_host().sum(), x.sum())
        assert (counts.copy_to_host() == [32, 1, 0]).all()


def test_a_missing_barrier_is_seen(cuda, hostcuda):
    from numba import int32

    @cuda.jit
    def rotate(y):
        shared, i = cuda.shared.array(64, int32), cuda.threadIdx.x
        shared[i] = i
        y[i] = shared[(i + 63) % 64]  # before which there should be a barrier

    for order, wrong in (("forward", 1), ("reverse", 63)):
        with hostcuda.option(order=order):
            y = np.zeros(64, "i4")
            rotate[1, 64](y)
            assert (y != (np.arange(64) + 63) % 64).sum() == wrong


@pytest.mark.hostcuda_nocheck("faults", "live")
def test_a_deadlock_is_an_error(cuda, hostcuda):
    @cuda.jit
    def deadlock(x):
        if cuda.threadIdx.x < 16:
            cuda.syncwarp(0xFFFFFFFF)
        else:
            cuda.syncthreads()

    with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="LAUNCH_FAILED"):
        deadlock[1, 32](np.zeros(1))
    assert "deadlock, 32 threads" in hostcuda.last_error()


def test_warps(cuda):
    @cuda.jit
    def warps(x, sums, votes):
        i = cuda.grid(1)
        v = x[i]
        for d in (16, 8, 4, 2, 1):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, d)
        if i % 32 == 0:
            sums[i // 32] = v
        votes[i, 0] = cuda.ballot_sync(0xFFFFFFFF, i % 3 == 0)
        votes[i, 1] = cuda.any_sync(0xFFFFFFFF, i == 40)
        votes[i, 2] = cuda.all_sync(0xFFFFFFFF, i < 32)
        votes[i, 3] = cuda.shfl_xor_sync(0xFFFFFFFF, i, 1)
        votes[i, 4] = cuda.shfl_up_sync(0xFFFFFFFF, i, 1)
        votes[i, 5] = cuda.laneid

    x = np.arange(64, dtype="f8")
    sums, votes, i = np.zeros(2), np.zeros((64, 6), "u4"), np.arange(64)
    warps[1, 64](x, sums, votes)
    assert list(sums) == [x[:32].sum(), x[32:].sum()]
    ballots = [sum(1 << k for k in range(32) if (first + k) % 3 == 0) for first in (0, 32)]
    expected = [np.repeat(ballots, 32), i >= 32, i < 32, i ^ 1, np.where(i % 32, i - 1, i), i % 32]
    assert (expected == votes.T).all()


@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_atomics(cuda, dtype):
    @cuda.jit
    def collect(x, r):
        i = cuda.grid(1)
        cuda.atomic.add(r, 0, x[i])
        cuda.atomic.max(r, 1, x[i])
        cuda.atomic.min(r, 2, x[i])

    x = (np.arange(256) * 7 % 251 + 1).astype(dtype)
    r = np.array([0, 0, 100], dtype)
    collect[2, 128](x, r)
    assert list(r) == [x.sum(), x.max(), x.min()]


def test_compare_and_swap(cuda):
    @cuda.jit
    def swap(r):
        cuda.atomic.cas(r, 0, 5, 9)
        cuda.atomic.exch(r, 1, 4)
        cuda.atomic.or_(r, 2, 8)

    r = np.array([5, 0, 1], "u4")
    swap[1, 1](r)
    assert list(r) == [9, 4, 9]


MATH = """
import math, sys
import numpy as np
from numba import cuda
from numba.cuda import libdevice
@cuda.jit
def compute(x, y):
    i = cuda.grid(1)
    v = x[i]
    y[i, 0], y[i, 1], y[i, 2], y[i, 3] = math.exp(v), math.sin(v), v ** 2.5, math.erf(v)
    y[i, 4], y[i, 5], y[i, 6], y[i, 7] = math.log(v), math.sqrt(v), math.tanh(v), math.floor(v)
    y[i, 8] = libdevice.dadd_rn(libdevice.dmul_rn(v, 3.0), 1.0) - libdevice.dadd_rz(1.0, 1e-30)
    y[i, 9], y[i, 10], y[i, 11] = cuda.popc(np.uint32(v * 7)), cuda.clz(np.int64(v * 9)), math.isnan(v)
for dtype, tolerance in (("f8", 1e-14), ("f4", 1e-6)):
    x = np.linspace(0.1, 4, 32).astype(dtype)
    y = np.zeros((32, 12), dtype)
    compute[1, 32](x, y)
    columns = [np.exp(x), np.sin(x), x ** 2.5, [math.erf(v) for v in x], np.log(x), np.sqrt(x), np.tanh(x), np.floor(x)]
    columns += [x * 3, np.bitwise_count((x * 7).astype("u4")), [64 - int(v * 9).bit_length() for v in x], x * 0]
    assert np.allclose(y, np.stack(columns, 1), rtol=tolerance, atol=tolerance)
print("right")
"""


@pytest.mark.parametrize("libdevice", ["", pytest.param("none", marks=pytest.mark.slow)])
def test_math_with_libdevice_and_without(kernels, libdevice):
    assert host.python("-W", "ignore", "-c", MATH, HOSTCUDA_LIBDEVICE=libdevice) == "right\n"


def test_half_precision_conversions(cuda):
    @cuda.jit
    def double_it(x, y):
        i = cuda.grid(1)
        y[i] = np.float32(x[i]) * np.float32(2)

    x = np.linspace(-3, 3, 32).astype("f2")
    y = np.zeros_like(x)
    double_it[1, 32](x, y)
    assert (y == x * 2).all()


def test_printing(cuda, capfd):
    @cuda.jit
    def hello(x):
        i = cuda.grid(1)
        if i == 1:
            print("hello", i, x[i])

    hello[1, 32](np.arange(32.0) / 2)
    cuda.synchronize()
    assert "hello 1 0.5" in capfd.readouterr().out


def test_loads_and_stores_with_a_hint(cuda):
    @cuda.jit
    def hinted(x, y):
        i = cuda.grid(1)
        cuda.stcs(y, i, cuda.ldcs(x, i) + 1)

    x, y = cuda.to_device(np.arange(32, dtype="f4")), cuda.device_array(32, "f4")
    hinted[1, 32](x, y)
    assert (y.copy_to_host() == np.arange(32) + 1).all()


@pytest.mark.hostcuda_nocheck("faults", "live")
def test_an_unknown_function_fails_when_it_is_called(cuda, hostcuda):
    missing = cuda.declare_device("nowhere", "float64(float64)")

    @cuda.jit
    def use(x):
        if x[0] > 0:
            x[0] = missing(x[0])

    use[1, 1](np.zeros(1))
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="LAUNCH_FAILED"):
        use[1, 1](np.ones(1))
    assert "external function nowhere" in hostcuda.last_error()


def test_a_cubin_is_good_in_another_process(cuda, tmp_path):
    from numba import int64, uint64

    @cuda.jit
    def fill(p, n):
        i = cuda.grid(1)
        if i < n:
            p[i] = i

    compiled = fill.compile((int64[::1], uint64))
    cubin = tmp_path / "cubin"
    cubin.write_bytes(compiled._codelibrary.get_cubin().code)
    program = f"""
        import numpy as np
        from cuda.core import Device, LaunchConfig, ObjectCode, launch
        device = Device(1)
        device.set_current()
        s = device.create_stream()
        kernel = ObjectCode.from_cubin(open({str(cubin)!r}, "rb").read()).get_kernel({compiled.entry_name!r})
        out = device.allocate(80, stream=s)
        launch(s, LaunchConfig(grid=1, block=32), kernel, 0, 0, 10, 8, int(out.handle), 10, 8, 10)
        host = np.empty(10, "i8")
        from cuda.bindings import driver
        driver.cuMemcpyDtoHAsync(host.ctypes.data, int(out.handle), 80, int(s.handle))
        s.sync()
        print(host.sum())
    """
    assert host.python("-c", textwrap.dedent(program), HOSTCUDA_DEVICES="2") == "45\n"


def test_code_that_is_not_for_this_machine_loads_but_does_not_run(drv):
    library = call("cuLibraryLoadData", b".version 9.0\n.target sm_90\n.entry k", [], [], 0, [], [], 0)
    kernel = call("cuLibraryGetKernel", library, b"k")
    refused("NOT_SUPPORTED", "cuLaunchKernel", call("cuKernelGetFunction", kernel), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    refused("NOT_FOUND", "cuLibraryGetKernel", library, b"other")
    call("cuLibraryUnload", library)
    refused("INVALID_IMAGE", "cuLibraryLoadData", b"nothing", [], [], 0, [], [], 0)
