"""A second device for machines that have none: host memory that DLPack knows as an extension device's.

What stands above the devices must not tell it from another, so it is written as one would be: this file, and a row.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import layout
from nbdlpack.devices.base import REDUCTIONS, SEARCHING, Device
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Mapping


def look(value: Any) -> Any:
    """Return a View, of which only the address is known, as a NumPy array on its memory; others as they are."""
    if isinstance(value, tuple):
        return tuple([look(item) for item in value])
    if not isinstance(value, View):
        return value
    if value.size == 0:
        return np.empty(value.shape, value.dtype)
    low, high = layout.bounds(value.shape, value._steps)
    start = value._state()[0] + low * value.itemsize
    memory = (ctypes.c_char * ((high - low) * value.itemsize)).from_address(start)
    return np.ndarray(value.shape, value.dtype, memory, -low * value.itemsize, value.strides)


def looked(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: look(value) for name, value in options.items()}


class Pretend(Device):
    """Memory of NumPy's, that nobody but this device is told how to reach."""

    __slots__ = ()

    kind = "pretend"

    def __new__(cls):
        self = object.__new__(cls)
        self._name, self._dlpack = "pretend", (12, 0)  # kDLExtDev
        return self

    def empty(self, cls, shape, dtype, *, zeros=False):
        a = np.zeros(shape, dtype) if zeros else np.empty(shape, dtype)
        steps = layout.c_steps(shape)
        # As memory of others, it is copied at once: the native layer can only move host memory.
        return cls._wrap(a, a.ctypes.data, self._dlpack, a.nbytes, 1, a.dtype, 0, shape, steps)

    def elementwise(self, ufunc, inputs, outputs, options):
        ufunc(*look(inputs), out=look(outputs), **looked(options))

    def reduce(self, name, x, out, axes, options):
        axis = axes if name not in SEARCHING else axes[0] if len(axes) == 1 else None
        REDUCTIONS[name](look(x), axis, out=look(out), **looked(options))

    def generalized(self, method, inputs, options):
        return method(*look(inputs), **looked(options))

    def assign(self, target, value):
        look(target)[...] = look(value)

    def to_host(self, x):
        a = look(x)
        a.flags.writeable = False
        return a

    def from_host(self, cls, a):
        new = self.empty(cls, a.shape, a.dtype)
        look(new)[...] = a
        return new

    def gather(self, cls, x, key):
        return self.from_host(cls, np.asarray(look(x)[look(key)]))

    def scatter(self, x, key, value):
        look(x)[look(key)] = look(value)

    def at(self, ufunc, x, key, values):
        ufunc.at(look(x), look(key), *look(values))

    def synchronize(self):
        pass
