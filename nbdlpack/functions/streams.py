"""Streams and events of GPUs, and whether there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdlpack import devices
from nbdlpack.devices.cuda import driver, streams
from nbdlpack.devices.cuda.streams import Event, Stream
from nbdlpack.errors import DeviceError

if TYPE_CHECKING:
    from nbdlpack.devices import Device

__all__ = ["Event", "Stream", "current_stream", "default_stream", "is_available"]


def is_available(device: Device | str = "cuda") -> bool:
    """Return whether a device can be used on this machine.

    To ask for a GPU starts the CUDA driver, if there is one; a process that is forked after that cannot use it.

    Parameters
    ----------
    device : Device or str, optional
        The device.

    Returns
    -------
    bool
        True if arrays can be made there.  If not, `Device` says why.

    Raises
    ------
    ValueError
        If no device can have such a name.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.is_available("cpu")
    True
    """
    try:
        found = devices.named(device)
    except DeviceError:
        return False
    return not (found.streamed and driver.is_forked())


def current_stream(device: Device | str | None = None) -> Stream:
    """Return the stream that this thread's work on a GPU is put into.

    That is the default stream, but inside ``with stream:`` that stream.

    Parameters
    ----------
    device : Device or str, optional
        The GPU; if not given, the default device if that is a GPU, else "cuda".

    Returns
    -------
    Stream
        The current stream.

    Raises
    ------
    DeviceError
        If the device is not there.
    ValueError
        If the device has no streams.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> if nd.is_available("cuda"):
    ...     with nd.Stream() as stream:
    ...         assert nd.current_stream() is stream
    """
    return streams.current(streams.gpu_of(device))


def default_stream(device: Device | str | None = None) -> Stream:
    """Return the default stream of a GPU, CUDA's legacy default stream, which is current at first.

    Parameters
    ----------
    device : Device or str, optional
        The GPU; if not given, the default device if that is a GPU, else "cuda".

    Returns
    -------
    Stream
        The default stream.

    Raises
    ------
    DeviceError
        If the device is not there.
    ValueError
        If the device has no streams.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> if nd.is_available("cuda"):
    ...     nd.default_stream().synchronize()
    """
    return streams.legacy(streams.gpu_of(device))
