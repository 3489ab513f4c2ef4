"""Functions about devices."""

from __future__ import annotations

from nbdlpack import devices
from nbdlpack.devices import Device, device

__all__ = ["Device", "device", "get_default_device", "set_default_device", "synchronize"]


def get_default_device() -> Device:
    """Return the device on which arrays are made where none is named.

    That is, in this order: what a ``with nbdlpack.device(...)`` around says, what `set_default_device` was given, what
    the environment variable ``NBDLPACK_DEVICE`` names, the first device there is.

    Returns
    -------
    Device
        The default device.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> with nd.device("cpu"):
    ...     nd.get_default_device()
    Device('cpu')
    """
    return devices.default()


def set_default_device(device: Device | str | None) -> None:
    """Choose the device on which arrays are made where none is named, for all threads.

    Parameters
    ----------
    device : Device, str or None
        The device, or None for the one of a fresh process.

    Raises
    ------
    ValueError
        If there is no such device.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.set_default_device("cpu")
    >>> nd.set_default_device(None)
    """
    devices.set_default(device)


def synchronize(device: Device | str | None = None) -> None:
    """Wait until a device has done all that it was asked for.

    Parameters
    ----------
    device : Device or str, optional
        The default device if not given.

    Raises
    ------
    ValueError
        If the device does not exist.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.synchronize("cpu")
    """
    devices.default(device).synchronize()
