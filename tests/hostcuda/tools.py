"""What the tests of hostcuda share: the driver API, by cuda.bindings, and kernels."""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace

import numpy as np
import pytest

import tests.hostcuda as host

STREAM_MODES = ("sync", "lazy", "reverse", "random:3", "random:12345")
NONE, ACTIVE, INVALIDATED = range(3)  # states of a capture


def call(name, *args):
    """A driver call that must succeed; returns what it gives."""
    from cuda.bindings import driver

    error, *out = getattr(driver, name)(*args)
    assert error == driver.CUresult.CUDA_SUCCESS, f"{name}: {error.name}"
    return out[0] if len(out) == 1 else out


def refused(error, name, *args):
    """A driver call that must fail with this error."""
    from cuda.bindings import driver

    got = getattr(driver, name)(*args)[0].name
    assert got == "CUDA_ERROR_" + error, f"{name}: {got}"


@contextlib.contextmanager
def fault(error, *texts):
    """The block must end in this error, and the driver's message must have these texts."""
    with pytest.raises(AssertionError, match=error):
        yield
    assert all(text in host.last_error() for text in texts), host.last_error()
    host.clear_error()


def contents(p, n, dtype="f4"):
    """What is at an address, after all work has been done."""
    out = np.empty(n, dtype)
    call("cuCtxSynchronize")
    call("cuMemcpyDtoH", out.ctypes.data, int(p), out.nbytes)
    return out


def numba_stream(s):
    """A stream of the driver's, for Numba."""
    from numba import cuda

    return cuda.external_stream(int(s))


def view(p, n, dtype="f4"):
    """The driver's memory as a Numba array."""
    from numba import cuda

    described = {"shape": (n,), "typestr": np.dtype(dtype).str, "data": (int(p), False), "strides": None, "version": 3}
    return cuda.as_cuda_array(SimpleNamespace(__cuda_array_interface__=described), sync=False)


@functools.cache
def kernels():
    """Kernels of arrays: `set_to(a, v)` and `plus(a, b, k)`, which is b = a + k."""
    from numba import cuda

    @cuda.jit
    def set_to(a, v):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = v

    @cuda.jit
    def plus(a, b, k):
        i = cuda.grid(1)
        if i < a.size:
            b[i] = a[i] + k

    return SimpleNamespace(set_to=set_to, plus=plus)


@functools.cache
def touching(size):
    """A kernel that reads and writes so many bytes at the address that it is given, as those of this library do."""
    from numba import cuda

    from nbdlpack.kernels.access import WORDS
    from nbdlpack.kernels.numba_cuda import types

    load, store = WORDS[size].load, WORDS[size].store

    def touch(address):
        store(address, load(address))

    return cuda.jit(touch).compile((types.uint64,))


def touch(size, address):
    """Launch it on the current device."""
    from cuda.core import Device, LaunchConfig, launch

    kernel = touching(size)._codelibrary.get_cufunc().kernel
    launch(Device().default_stream, LaunchConfig(grid=1, block=1), kernel, address)


def touch_now(size, address):
    """Launch it, and wait for it."""
    touch(size, address)
    call("cuCtxSynchronize")
