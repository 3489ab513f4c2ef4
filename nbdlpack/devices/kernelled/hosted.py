"""What a device that computes by kernels leaves to NumPy, on copies of the elements in host memory.

It blocks until they are there, and is slow.  It is for what is rarely asked for: a ufunc's other methods, and `at`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbdlpack.devices.kernelled import KernelDevice


def read(device: KernelDevice, value: Any) -> Any:
    """Return an operand, or a tuple of them, as NumPy takes it: a View as a copy on the host, others as they are."""
    if isinstance(value, tuple):
        return tuple([read(device, item) for item in value])
    return device.to_host(value) if isinstance(value, View) else value


def generalized(device: KernelDevice, method: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Call a method of a ufunc that is not plain elementwise; return NumPy arrays or scalars."""
    outputs = options.get("out") or ()
    found = {name: read(device, value) for name, value in options.items()}
    hosted = tuple([np.array(read(device, x)) if isinstance(x, View) else x for x in outputs])
    if outputs:
        found["out"] = hosted
    result = method(*read(device, inputs), **found)
    for x, a in zip(outputs, hosted, strict=True):
        if isinstance(x, View):
            device.assign(x, a)
    return result


def at(device: KernelDevice, ufunc: np.ufunc, x: Any, key: Any, values: tuple[Any, ...]) -> None:
    """Apply a ufunc in place at ``x[key]``, once for each time that a place is named."""
    a = np.array(device.to_host(x)) if isinstance(x, View) else x
    ufunc.at(a, read(device, key), *read(device, values))
    if isinstance(x, View):
        device.assign(x, a)
