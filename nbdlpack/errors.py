"""The errors of the library that are not simply Python's own.

Every class derives from the built-in exception that a caller would expect to catch, and adds nothing but a name:

    AxisError           ValueError and IndexError, NumPy's own: an axis that the array does not have
    CopyError           RuntimeError: data would have been copied where copies are forbidden
    DeviceError         RuntimeError: a device that is not there, or operands on different devices
    ExportOnlyError     RuntimeError and AttributeError: what a read-only wrapper, which only exports, does not do
    ExchangeError       BufferError and ValueError, where the standard asks for the one here and for the other there

Wrong argument types raise `TypeError`, wrong values `ValueError`, positions that do not exist `IndexError`.
"""

from __future__ import annotations

from numpy.exceptions import AxisError

__all__ = ["AxisError", "CopyError", "DeviceError", "ExchangeError", "ExportOnlyError"]


class CopyError(RuntimeError):
    """Array data would have been copied inside ``nbdlpack.no_copies()``, without being asked for by name."""


class DeviceError(RuntimeError):
    """A device cannot be used, or the operands of one operation are on different devices."""


class ExchangeError(BufferError, ValueError):
    """An array cannot be exchanged as asked, where the standard says BufferError and its array API ValueError."""


class ExportOnlyError(RuntimeError, AttributeError):
    """`nbdlpack.dlpack.ReadOnlyTensorWrapper` was used for anything but an export by DLPack."""
