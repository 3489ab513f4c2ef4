"""Fixtures for the tests of hostcuda."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.hostcuda import tools
from tests.hostcuda.tools import call


@pytest.fixture
def drv(hostcuda):
    """The driver API, by cuda.bindings, with the first device's context current."""
    from cuda.bindings import driver

    call("cuInit", 0)
    context = call("cuDevicePrimaryCtxRetain", 0)
    call("cuCtxSetCurrent", context)
    yield driver
    driver.cuCtxSetCurrent(context)


def _making(driver, create, free):
    """Return a function that makes things, and a list of what to free at the end."""
    made = []

    def make(*args):
        made.append(call(create, *args))
        return made[-1]

    yield make
    for each in made:
        getattr(driver, free)(each)


@pytest.fixture
def stream(drv):
    """Make streams, which are destroyed at the end: flags are 0 for a blocking one, else 1."""
    for make in _making(drv, "cuStreamCreate", "cuStreamDestroy"):
        yield lambda flags=1: make(flags)


@pytest.fixture
def event(drv):
    """Make events, which are destroyed at the end."""
    for make in _making(drv, "cuEventCreate", "cuEventDestroy"):
        yield lambda flags=0: make(flags)


@pytest.fixture
def memory(drv):
    """Allocate device memory, which is freed at the end, and return its address."""
    for make in _making(drv, "cuMemAlloc", "cuMemFree"):
        yield lambda n: int(make(n))


@pytest.fixture
def pinned(drv):
    """Allocate pinned memory, which is freed at the end, as a NumPy array."""
    for make in _making(drv, "cuMemHostAlloc", "cuMemFreeHost"):

        def array(n, dtype="f4"):
            nbytes = n * np.dtype(dtype).itemsize
            return np.frombuffer((ctypes.c_char * nbytes).from_address(make(nbytes, 0)), dtype)

        yield array


@pytest.fixture
def cuda(drv):
    """numba.cuda."""
    pytest.importorskip("numba_cuda")
    from numba import cuda

    return cuda


@pytest.fixture
def kernels(cuda):
    """`tools.kernels`."""
    return tools.kernels()
