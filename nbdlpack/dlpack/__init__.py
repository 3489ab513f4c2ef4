"""Exchange of arrays with other libraries by DLPack, under the names of ``torch.utils.dlpack``.

from_dlpack             import an array: the same function as ``nbdlpack.from_dlpack``
to_dlpack               export an unversioned capsule, for consumers that know nothing newer
ReadOnlyTensorWrapper   export an array that must not be written to
allow_negative_strides  a context in which arrays with negative strides are exported as they are
inspect                 say what an object or a capsule exports
DLDeviceType            the devices, as DLPack numbers them
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdlpack.dlpack import consumer
from nbdlpack.dlpack.inspection import inspect
from nbdlpack.dlpack.producer import allow_negative_strides, to_dlpack
from nbdlpack.dlpack.readonly import ReadOnlyTensorWrapper
from nbdlpack.native.device_types import DLDeviceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbdlpack.native import View

__all__ = ["DLDeviceType", "ReadOnlyTensorWrapper", "allow_negative_strides", "from_dlpack", "inspect", "to_dlpack"]

from_dlpack = consumer.from_dlpack


def serve(cls: type[View]) -> Callable[..., Any]:
    """Make `from_dlpack` return arrays of a class, which stands above this package, and return it."""
    global from_dlpack  # noqa: PLW0603 (the class stands above this package)
    from_dlpack = consumer.serve(cls, "nbdlpack")
    return from_dlpack
