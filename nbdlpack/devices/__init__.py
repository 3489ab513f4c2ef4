"""The devices there are, and which one is used when none is named.

To add a device, write a module with a subclass of `Device` (its docstring in `devices.base` says what it must do), and
add a row to `KINDS`.
"""

from __future__ import annotations

import importlib
import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from nbdlpack.devices import base
from nbdlpack.devices.base import Device, Kind
from nbdlpack.devices.cpu import CPU
from nbdlpack.errors import DeviceError
from nbdlpack.native.device_types import DLDeviceType

if TYPE_CHECKING:
    from contextvars import Token

    from nbdlpack.native import View

__all__ = ["KINDS", "Device", "default", "device", "host", "named", "numbered", "of", "placed", "set_default"]

host: Final = CPU()
"""The device of host memory, in which NumPy's arrays, buffers and pickles are."""


def _cuda(number: int) -> Device:
    """Return a GPU, or the one that Numba's simulator stands for."""
    module = "simulator" if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0") else "cuda"
    device: Device = importlib.import_module(f"nbdlpack.devices.{module}").device(number)
    return device


def _host_memory(name: str) -> Kind:
    def find(number: int) -> Device:
        device: Device = importlib.import_module("nbdlpack.devices.cuda.hostmemory").device(name, number)
        return device

    return Kind(name, DLDeviceType.kDLCUDAHost if name == "cuda_host" else DLDeviceType.kDLCUDAManaged, find)


KINDS: Final = (
    Kind("cpu", DLDeviceType.kDLCPU, lambda _: host, several=False),
    Kind("cuda", DLDeviceType.kDLCUDA, _cuda),
    _host_memory("cuda_host"),
    _host_memory("cuda_managed"),
)
"""The kinds of devices.  A device is made when it is first named, or something on it comes in."""

for _kind in KINDS:
    base.kinds[_kind.name] = _kind
base.register(host)

named, numbered, placed = base.named, base.numbered, base.placed


def of(x: View) -> Device:
    """Return the device of an array."""
    return base.placed(x._place)


def _initial() -> Device:
    """Return the default device of a fresh process: what NBDLPACK_DEVICE names, else the first GPU, else the cpu."""
    name = os.environ.get("NBDLPACK_DEVICE")
    if not name:
        try:
            return named("cuda")
        except DeviceError:
            return host
    try:
        return named(name)
    except ValueError as error:
        msg = f"the environment variable NBDLPACK_DEVICE is {name!r}: {error}"
        raise ValueError(msg) from None


_default: list[Device | None] = [None]
_scoped: ContextVar[Device | None] = ContextVar("nbdlpack_device", default=None)


def default(name: str | Device | None = None) -> Device:
    """Return the device of a name, or the default device if it is None."""
    if name is not None:
        return named(name)
    found = _scoped.get() or _default[0]
    if found is None:
        found = _default[0] = _initial()
    return found


def set_default(name: str | Device | None) -> None:
    """Make a device the default of all threads; None brings back the one that a fresh process has."""
    _default[0] = None if name is None else named(name)


class device:  # noqa: N801 - reads as the statement that it is
    """A context in which another device is the default one.

    Parameters
    ----------
    name : str or Device
        The device.

    Raises
    ------
    ValueError
        If there is no such device.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> with nd.device("cpu"):
    ...     x = nd.zeros(3)
    >>> x.device
    Device('cpu')
    """

    __slots__ = ("_device", "_tokens")

    def __init__(self, name: str | Device) -> None:
        self._device = named(name)
        self._tokens: list[Token[Device | None]] = []

    def __enter__(self) -> Device:
        self._tokens.append(_scoped.set(self._device))
        return self._device

    def __exit__(self, *exc_info: object) -> None:
        _scoped.reset(self._tokens.pop())
