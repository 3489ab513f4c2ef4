"""An array in words: as NumPy prints it, with the device if it is another than the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdlpack import devices

if TYPE_CHECKING:
    import contextlib

    import numpy.typing as npt

    from nbdlpack.native import View


def corners(x: View, edge: int) -> npt.NDArray[Any]:
    """Return what NumPy prints of a large array, and a little more.

    An axis is cut to its first and last `edge` items and one between them, which stands for those left out.
    """
    return _corners(x, edge, 0)


def _corners(x: Any, edge: int, axis: int) -> npt.NDArray[Any]:
    while axis < x.ndim and x.shape[axis] <= 2 * edge + 1:
        axis += 1
    if axis == x.ndim:
        return devices.of(x).to_host(x)
    before = (slice(None),) * axis
    # Without edges NumPy prints the last item all the same.
    parts = [x[(*before, part)] for part in (slice(edge + 1), slice(x.shape[axis] - (edge or 1), None))]
    return np.concatenate([_corners(part, edge, axis + 1) for part in parts], axis)


def to_repr(x: View) -> str:
    """Return what ``repr(x)`` is."""
    options, device = np.get_printoptions(), devices.of(x)
    if x.size <= options["threshold"] or 0 in x.shape:
        text = np.array_repr(device.to_host(x))
    else:
        a = corners(x, options["edgeitems"])
        with _elided(options):
            text = _with_shape(np.array_repr(a), a.shape, x.shape)
    if device is not devices.host:
        text = f"{text[:-1]}, device={str(device)!r})"
    name = type(x).__name__
    if name == "ndarray":
        return text
    return name + text.removeprefix("array").replace("\n" + " " * 6, "\n" + " " * (len(name) + 1))


def _elided(options: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which NumPy leaves items out of any array; it forgets formatters that it is not told of."""
    return np.printoptions(threshold=0, formatter=options["formatter"])


def _with_shape(text: str, printed: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return a repr of corners with the shape of the whole, where NumPy (from 2.2 on) says that of an elided array."""
    head, found, tail = text.rpartition(f"shape={printed}")
    if not found:
        return text
    last = head.rpartition("\n")[2]
    width = np.get_printoptions()["linewidth"]
    if last.strip() and len(last) + len(f"shape={shape}{tail}") > width >= len(last) + len(found + tail):
        head = head.rstrip() + "\n" + " " * len("array(")
    return f"{head}shape={shape}{tail}"


def to_str(x: View) -> str:
    """Return what ``str(x)`` is."""
    options = np.get_printoptions()
    if x.size <= options["threshold"] or 0 in x.shape:
        return np.array_str(devices.of(x).to_host(x))
    with _elided(options):
        return np.array_str(corners(x, options["edgeitems"]))
