"""A device for the tests of kernels, as small as can be: one stream, no pool, no use tables.

It is the real numba-cuda and cuda.core on a driver that executes on the CPU, or, with NUMBA_ENABLE_CUDASIM=1, Numba's
simulator.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from functools import cache
from typing import Any

import numpy as np

from nbdlpack import layout
from nbdlpack.devices.kernelled import KernelDevice, launching
from nbdlpack.native import View
from tests import hostcuda as driver_on_the_cpu
from tests.hostcuda import pytest_plugin

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


class Standin(KernelDevice):
    """What `KernelDevice` needs, and a record of what was launched."""

    __slots__ = ("calls",)

    kind = "standin"

    def __new__(cls):
        self = object.__new__(cls)
        self._name, self._dlpack = "standin", (2, 0)
        self.calls = []
        return self

    @contextlib.contextmanager
    def accessing(self, reads, writes):
        assert all(isinstance(x, View) for x in (*reads, *writes))
        yield

    def view(self, a: np.ndarray[Any, Any], residue: int = 0) -> View:
        """Return an array with the strides and values of NumPy's, in the middle of memory of its own.

        `residue` is what its first byte in memory has over a multiple of 16.
        """
        low, high = layout.bounds(a.shape, a.strides)
        nbytes = high - low + a.itemsize - 1 if a.size else 0
        memory = self.empty(View, (nbytes + 64,), np.dtype(np.uint8))
        raw = np.full(nbytes + 64, 0x5A, np.uint8)
        if a.size:
            start = a.__array_interface__["data"][0] + low
            raw[16 + residue : 16 + residue + nbytes] = np.frombuffer(
                (ctypes.c_uint8 * nbytes).from_address(start), np.uint8
            )
        self.upload(memory._state()[0], raw)
        steps = tuple([stride // a.itemsize for stride in a.strides])
        return memory._view(View, 16 + residue - low, a.dtype, 0, a.shape, steps)

    def surroundings(self, x: View) -> np.ndarray[Any, Any]:
        """Return all bytes of the memory of an array that `view` made, but those of the array's elements."""
        places = np.zeros(x.shape, np.int64)
        for axis, (n, stride) in enumerate(zip(x.shape, x.strides, strict=True)):
            places += np.arange(n).reshape([-1 if i == axis else 1 for i in range(x.ndim)]) * stride
        low, high = layout.bounds(x.shape, x.strides)
        start = x._state()[0] + low - 16
        memory = np.empty(16 + high - low + x.itemsize - 1 + 16, np.uint8)
        self.download(memory, start)
        touched = (places[..., None] + np.arange(x.itemsize)).reshape(-1) - low + 16
        return np.delete(memory, touched) if x.size else memory[:0]


class Emulated(Standin):
    """On hostcuda."""

    __slots__ = ("_core", "_kernels", "_stream", "grid")

    def __new__(cls):
        import cuda.core as core

        self = Standin.__new__(cls)
        found = core.Device(0)
        found.set_current()
        self._core, self._stream, self._kernels = core, found.create_stream(), {}
        self.grid = None
        return self

    def empty(self, cls, shape, dtype, *, zeros=False):
        self._core.Device(0).set_current()
        nbytes = int(np.prod(shape)) * dtype.itemsize
        buffer = self._core.Device(0).allocate(max(nbytes, 1), stream=self._stream)
        if zeros:
            buffer.fill(0, stream=self._stream)
        return cls._wrap(buffer, int(buffer.handle), (2, 0), nbytes, 0, dtype, 0, shape, layout.c_steps(shape))

    def launch(self, kernel, threads, *args):
        from nbdlpack.kernels.numba_cuda import build

        if threads < 1:
            return
        self.calls.append((kernel.name, *args))
        if kernel not in self._kernels:
            self._kernels[kernel] = build(kernel)[0], launching.ways(kernel.signature)
        compiled, ways = self._kernels[kernel]
        grid, block = self.grid or (launching.blocks_for(threads, 8), launching.BLOCK)
        config = self._core.LaunchConfig(grid=grid, block=block)
        self._core.launch(self._stream, config, compiled, *launching.exactly_passed(ways, args))

    def upload(self, address, a):
        from cuda.bindings import driver

        (error,) = driver.cuMemcpyHtoDAsync(address, a.ctypes.data, a.nbytes, int(self._stream.handle))
        assert error == 0, error

    def download(self, a, address):
        from cuda.bindings import driver

        (error,) = driver.cuMemcpyDtoHAsync(a.ctypes.data, address, a.nbytes, int(self._stream.handle))
        assert error == 0, error
        self._stream.sync()

    def copy_memory(self, target, source, nbytes):
        from cuda.bindings import driver

        (error,) = driver.cuMemcpyDtoDAsync(target, source, nbytes, int(self._stream.handle))
        assert error == 0, error

    def synchronize(self):
        self._stream.sync()


class Simulated(Standin):
    """In Numba's simulator."""

    __slots__ = ()

    def empty(self, cls, shape, dtype, *, zeros=False):
        memory = np.zeros(int(np.prod(shape)) * dtype.itemsize + 256, np.uint8)
        if not zeros:
            memory[:] = 0xCB
        address = -(-memory.ctypes.data // 256) * 256
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return cls._wrap(memory, address, (2, 0), nbytes, 0, dtype, 0, shape, layout.c_steps(shape))

    def launch(self, kernel, threads, *args):
        from nbdlpack.kernels.numba_cuda import simulate

        if threads < 1:
            return
        self.calls.append((kernel.name, *args))
        simulate(kernel, *launching.SIMULATED, args)

    def upload(self, address, a):
        ctypes.memmove(address, a.ctypes.data, a.nbytes)

    def download(self, a, address):
        ctypes.memmove(a.ctypes.data, address, a.nbytes)

    def copy_memory(self, target, source, nbytes):
        ctypes.memmove(target, source, nbytes)

    def synchronize(self):
        pass


@cache
def standin() -> Standin:
    """Return the device.  Raises an error if something is missing."""
    if SIMULATED:
        return Simulated()
    with pytest_plugin.keeping():
        return Emulated()


def hostcuda() -> Any:
    """Return the driver that executes on the CPU."""
    return driver_on_the_cpu


def option(**options: Any) -> Any:
    """Return a context in which threads run in another order, where there is a choice."""
    if SIMULATED or not driver_on_the_cpu.installed():
        return contextlib.nullcontext()
    return driver_on_the_cpu.option(**options)
