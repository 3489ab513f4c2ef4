"""The cuda device in Numba's simulator.  Whoever sets NUMBA_ENABLE_CUDASIM=1 gets all of it, others one test."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.errors import DeviceError

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
simulated = pytest.mark.skipif(not SIMULATED, reason="it is for a process with NUMBA_ENABLE_CUDASIM=1")

if SIMULATED:
    from numba import cuda

    @cuda.jit
    def scale(x, factor, out):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            out[i] = x[i] * factor

    @cuda.jit
    def fill(x, value):
        x[()] = value

    @cuda.jit
    def copy2(x, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j]

    @cuda.jit(device=True)
    def doubled(value):
        return value * 2

    @cuda.jit
    def through_a_function(x):
        i = cuda.grid(1)
        x[i] = doubled(x[i])

    @cuda.jit
    def of_a_tuple(pair, out):
        out[0] = pair[0][0] + pair[1][0]


@pytest.mark.slow
@pytest.mark.skipif(SIMULATED, reason="this is such a process")
def test_all_of_this_file_in_a_process_of_its_own():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@simulated
class TestDevice:
    def test_it_is_named_like_a_gpu(self):
        x = nd.zeros(3, device="cuda")
        assert str(x.device) == "cuda"
        assert x.device == "cuda:0"
        assert x.device is nd.Device("cuda:0")
        assert x.device != nd.zeros(3, device="cpu").device

    def test_it_is_the_default(self, monkeypatch):
        monkeypatch.delenv("NBDLPACK_DEVICE", raising=False)
        nd.set_default_device(None)
        assert str(nd.zeros(3).device) == "cuda"
        monkeypatch.undo()
        nd.set_default_device(None)

    def test_it_has_no_streams(self):
        with pytest.raises(ValueError, match="device cuda has no streams"):
            nd.Stream("cuda")
        with pytest.raises(ValueError, match="stream is 1, but device cuda has no streams"):
            nd.zeros(3, device="cuda").__dlpack__(stream=1)

    def test_there_is_one(self):
        with pytest.raises(DeviceError, match="has one GPU"):
            nd.Device("cuda:1")

    def test_dlpack_is_told_of_host_memory_and_takes_none_of_it_for_a_gpus(self):
        x = nd.arange(5, device="cuda")
        assert x.__dlpack_device__() == (1, 0)
        a = np.from_dlpack(x)
        assert a.tolist() == [0, 1, 2, 3, 4]
        y = nd.from_dlpack(np.arange(3))
        assert str(y.device) == "cpu"

    def test_torch_on_the_cpu_shares_its_memory(self):
        torch = pytest.importorskip("torch")
        x = nd.zeros(3, device="cuda")
        t = torch.from_dlpack(x)
        t[1] = 7
        assert x.tolist() == [0, 7, 0]

    def test_arrays_of_the_cpu_are_on_another_device(self):
        with pytest.raises(DeviceError, match="on devices cuda and cpu"):
            nd.zeros(3, device="cuda") + nd.zeros(3, device="cpu")
        assert nd.arange(3, device="cpu").to_device("cuda").to_device("cpu").tolist() == [0, 1, 2]

    def test_copies_are_lazy_and_stay_on_the_device(self):
        x = nd.arange(4, device="cuda")
        y = x.copy()
        assert nd.is_shared(x)
        y[0] = 9
        assert not nd.is_shared(x)
        assert (str(x.device), str(y.device)) == ("cuda", "cuda")
        assert (x.tolist(), y.tolist()) == ([0, 1, 2, 3], [9, 1, 2, 3])

    def test_synchronize_returns(self):
        nd.zeros(3, device="cuda").device.synchronize()


@simulated
class TestUserKernels:
    def test_arrays_are_taken_as_they_are(self):
        x, out = nd.arange(20.0, device="cuda"), nd.zeros(20, device="cuda")
        scale[2, 4](x, 3.0, out)
        assert out.tolist() == (np.arange(20.0) * 3).tolist()

    def test_what_is_written_to_becomes_the_sole_owner(self):
        x = nd.arange(4.0, device="cuda")
        y = x.copy()
        scale[1, 4](nd.readonly(x), 2.0, y)
        assert not nd.is_shared(x)
        assert (x.tolist(), y.tolist()) == ([0, 1, 2, 3], [0, 2, 4, 6])

    def test_what_is_read_only_moves_nothing(self):
        x, out = nd.arange(4.0, device="cuda"), nd.zeros(4, device="cuda")
        y, before = x.copy(), x._state()[0]
        scale[1, 4](nd.readonly(x), 2.0, out)
        assert nd.is_shared(y)
        assert x._state()[0] == before

    def test_a_kernel_cannot_write_to_what_is_read_only(self):
        x = nd.zeros(4, device="cuda")
        with pytest.raises(ValueError, match="read-only"):
            scale[1, 1](x, 2.0, nd.readonly(x))
        x[0] = 1  # nobody holds it any more

    def test_an_array_on_the_cpu_is_refused_before_anything_is_done(self):
        x, out = nd.zeros(4, device="cpu"), nd.ones(4, device="cuda")
        y = out.copy()
        with pytest.raises(DeviceError, match=r"an array on cpu .* x\.to_device\('cuda'\)"):
            scale[1, 1](x, 2.0, out)
        assert nd.is_shared(y)

    @pytest.mark.parametrize("key", [np.s_[::-1], np.s_[:, ::-2], np.s_[1:, 1:2], np.s_[:0]], ids=str)
    def test_strides_are_seen(self, key):
        a = np.arange(12.0).reshape(3, 4)
        x, target = nd.asarray(a, device="cuda")[key], nd.zeros((4, 3), device="cuda").T[key]
        copy2[1, 1](x, target)
        assert target.tolist() == a[key].tolist()

    def test_arrays_without_dimensions(self):
        x = nd.zeros((), device="cuda")
        fill[1, 1](x, 5.0)
        assert x.item() == 5

    def test_functions_of_kernels_and_tuples_of_arrays(self):
        x = nd.arange(4.0, device="cuda")
        through_a_function[1, 4](x)
        assert x.tolist() == [0, 2, 4, 6]
        of_a_tuple[1, 1]((x[1:], x[2:]), x)
        assert x.tolist() == [6, 2, 4, 6]

    def test_numpys_arrays_and_scalars_go_beside_ours(self):
        a, out = np.arange(4.0), nd.zeros(4, device="cuda")
        scale[1, 4](a, 2, out)
        assert out.tolist() == [0, 2, 4, 6]

    def test_two_threads_take_turns(self):
        outs = [nd.zeros(16, device="cuda") for _ in range(2)]
        x = nd.arange(16.0, device="cuda")

        def run(kernel, out):
            for _ in range(5):
                kernel(x, 2.0, out)

        # Each has a kernel of its own, which in the simulator is changed by its configuration.
        threads = [threading.Thread(target=run, args=(cuda.jit(scale.py_func)[1, 8], out)) for out in outs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(out.tolist() == (np.arange(16.0) * 2).tolist() for out in outs)


@simulated
class TestOperations:
    """Each family of kernels once: what they do with all inputs is for the tests of kernels to show."""

    def test_elementwise(self):
        a = np.array([[1.5, -2.0], [0.0, np.inf]], np.float32)
        x = nd.asarray(a, device="cuda")
        np.testing.assert_array_equal(np.array((x + 1) * x[::-1]), (a + 1) * a[::-1])

    def test_integers_wrap_as_on_a_gpu(self):
        x = nd.asarray(np.array([127, -128], np.int8), device="cuda")
        assert (x + 1).tolist() == [-128, -127]
        assert (x // 0).tolist() == [0, 0]

    def test_reductions(self):
        a = np.arange(12.0).reshape(3, 4)
        x = nd.asarray(a, device="cuda")
        assert x.sum().item() == 66
        assert x.max(axis=0).tolist() == a.max(axis=0).tolist()

    def test_index_arrays_and_masks(self):
        a = np.arange(10)
        x = nd.asarray(a, device="cuda")
        assert x[x % 2 == 0].tolist() == [0, 2, 4, 6, 8]
        assert x[nd.asarray([3, -1, 3], device="cuda")].tolist() == [3, 9, 3]

    def test_casts_and_transposes(self):
        a = np.arange(6, dtype=np.int16).reshape(2, 3)
        x = nd.asarray(a, device="cuda")
        assert x.T.copy().astype(np.float16).tolist() == a.T.tolist()
