"""Storages as Python sees them: writing to one, copying from it at once, and knowing what was copied.

Copies are made where memory is shared and someone writes, which the native layer decides, and where the layers above
need one now.  Both are announced first, to be recorded in the copy logs that are open, or refused inside `no_copies`.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from nbdlpack import devices, layout, native
from nbdlpack.errors import CopyError

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DType
    from nbdlpack.layout import Shape, Steps
    from nbdlpack.native import View

    V = TypeVar("V", bound=View)

__all__ = [
    "CAUSES",
    "Copy",
    "Scope",
    "allocate",
    "copied",
    "copy",
    "is_shared",
    "overwriting",
    "reading",
    "to_device",
    "writing",
]

# -- what was copied


class Copy(NamedTuple):
    """One copy of array data between blocks of memory."""

    nbytes: int
    """How many bytes were copied."""
    source: str
    """The device they came from."""
    target: str
    """The device they went to."""
    cause: str
    """Why, in words."""
    asked: bool
    """Whether the user asked for it by name, as `x.copy()` or ``copy=True`` does."""
    where: str
    """The user's line, as "file:line"."""

    def __str__(self) -> str:
        way = self.source if self.source == self.target else f"{self.source} to {self.target}"
        return f"{self.nbytes} bytes on {way} at {self.where}: {self.cause}"


CAUSES: Final = (
    "a write to an array that shares its memory with a lazy copy",
    "a writable export by DLPack of an array that shares its memory with a lazy copy",
    "a writable buffer, NumPy view or address of an array that shares its memory with a lazy copy",
    "a writable buffer, NumPy view or address of an array that shares its memory with a lazy copy",
    "materialize() was called",
)
"""Why a storage moves, by the native layer's numbers.  NumPy, refused a buffer, asks for an address: one cause."""


_scopes: contextvars.ContextVar[tuple[Scope, ...]] = contextvars.ContextVar("nbdlpack.copies", default=())
_counting = threading.RLock()  # a signal's handler, or a finaliser, may come in between
_NOT_THE_USERS: Final = frozenset({"nbdlpack", "contextlib", "copy", "numba", "numpy"})


class Scope:
    """A `with` block inside which copies are watched, in this context only."""

    def __init__(self, *, forbidden: bool) -> None:
        self.log: list[Copy] | None = None if forbidden else []
        self.entered = 0

    def __enter__(self) -> Any:
        _scopes.set((*_scopes.get(), self))
        self.entered += 1
        _count_watchers(1)
        return self if self.log is None else self.log

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _count_watchers(-1)
        self.entered -= 1
        # What was there on entry need not be what is left: generators end in any order, and in other contexts too.
        left = list(_scopes.get())
        if self in left:
            left.remove(self)
            _scopes.set(tuple(left))


def _count_watchers(n: int) -> None:
    with _counting:
        native.world.watchers += n


def copied(nbytes: int, source: str, target: str, cause: str, *, asked: bool) -> None:
    """Tell of a copy that is about to be made.

    Parameters
    ----------
    nbytes : int
        How many bytes.
    source, target : str
        The devices.
    cause : str
        Why, in words.
    asked : bool
        Whether the user asked for it by name.

    Raises
    ------
    CopyError
        Inside `no_copies`, if it was not asked for.
    """
    if native.world.watchers:
        _tell(nbytes, source, target, cause, asked=asked)


_BY_NAME: Final = "Ask for the copy by name, as x.copy() or copy=True do"
_BEFORE: Final = "Give the array memory of its own first, by nd.materialize(x)"


def _tell(nbytes: int, source: str, target: str, cause: str, *, asked: bool, remedy: str = _BY_NAME) -> None:
    scopes = [scope for scope in _scopes.get() if scope.entered]
    forbidden = any(scope.log is None for scope in scopes)
    if forbidden and not asked:
        way = f"on {source}" if source == target else f"from {source} to {target}"
        msg = (
            f"no_copies() is in effect, and {nbytes} bytes would be copied {way}: {cause}. "
            f"{remedy}, or leave the no_copies() block."
        )
        raise CopyError(msg)
    logs = [scope.log for scope in scopes if scope.log is not None]
    if logs:
        record = Copy(nbytes, source, target, cause, asked, _user_line())
        for log in logs:
            log.append(record)


def _user_line() -> str:
    """Return the innermost line that is neither this library's nor of a module through which it is called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_THE_USERS:
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _moving(nbytes: int, cause: int, place: int) -> None:
    device = str(devices.placed(place))
    _tell(nbytes, device, device, CAUSES[cause], asked=cause == native.BY_NAME, remedy=_BEFORE)


native.watch.moving = _moving

# -- writing, and reading without being written to


class writing:  # noqa: N801 - reads as the statement that it is
    """Hold a view's storage for a write in place, as the sole owner of its memory.

    Parameters
    ----------
    x : View
        What is written to.
    cause : int
        Why, one of the native layer's numbers.

    Raises
    ------
    ValueError
        If x is read-only.
    MemoryError
        If x shares its memory and there is none to move to.
    """

    __slots__ = ("_cause", "_hold", "_x")

    def __init__(self, x: View, cause: int = native.FOR_WRITE) -> None:
        self._x, self._cause = x, cause

    def __enter__(self) -> View:
        self._hold = self._x._begin_write(self._cause)
        return self._x

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._x._end_write(self._hold)


class reading:  # noqa: N801
    """Keep writers of a view's storage waiting while it is copied, so that the copy is not torn.

    Parameters
    ----------
    x : View
        What is read.
    """

    __slots__ = ("_hold", "_x")

    def __init__(self, x: View) -> None:
        self._x = x

    def __enter__(self) -> View:
        self._hold = self._x._begin_read()
        return self._x

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._x._end_read(self._hold)


class overwriting:  # noqa: N801
    """Hold a view's storage for a write of all the view's elements; gives what to write into.

    If the memory is shared and the view is all of it, nothing is copied: that is new memory, which becomes the view's
    (and that of all views of the storage) only if the block ends without an error.

    Parameters
    ----------
    x : View
        What is written to.
    keep : bool
        Whether some elements keep their values.  Then new memory is given on a device only, a copy: what is computed
        there may fail for lack of memory after the write has begun, and that is to move nothing.

    Raises
    ------
    ValueError
        If x is read-only.
    MemoryError
        If x shares its memory and there is none to move to.
    """

    __slots__ = ("_hold", "_keep", "_target", "_x")

    def __init__(self, x: View, *, keep: bool = False) -> None:
        self._x, self._keep = x, int(keep)

    def __enter__(self) -> View:
        self._hold, target = self._x._begin_overwrite(native.FOR_WRITE, self._keep)
        self._target: View | None = target
        return target  # type: ignore[no-any-return]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        target, self._target = self._target, None
        self._x._end_overwrite(self._hold, target, 1 if kind is None else 0)


def is_shared(x: View) -> bool:
    """Return whether the memory of a view's storage is that of another storage or of an old export as well."""
    return x._state()[2] > 1


# -- new storages


def allocate(cls: type[V], device: Device, shape: Shape, dtype: DType, steps: Steps) -> V:
    """Return an array in new memory, with the steps of some compact layout."""
    if steps == layout.c_steps(shape):
        return device.empty(cls, shape, dtype)
    slowest_first = sorted(range(len(shape)), key=lambda axis: (-steps[axis], -shape[axis]))
    base = device.empty(cls, tuple([shape[axis] for axis in slowest_first]), dtype)
    new: V = base._view(cls, 0, dtype, 0, shape, steps)
    return new


def copy(x: View, cls: type[V], order: str, cause: str, *, asked: bool, dtype: DType | None = None) -> V:
    """Return a copy that is made at once, in compact layout.

    Parameters
    ----------
    x : View
        What is copied.
    cls : type
        The class of the copy.
    order : {'C', 'F', 'A', 'K'}
        Its layout.
    cause, asked
        What `copied` is told.
    dtype : dtype, optional
        That of x if not given.

    Returns
    -------
    View
        Writable, of the same shape, on the same device; shares nothing.
    """
    kind = x.dtype if dtype is None else dtype
    device, shape = devices.of(x), x.shape
    steps = layout.compact_steps(shape, x._steps, order, x._contiguous)
    copied(prod(shape) * kind.itemsize, str(device), str(device), cause, asked=asked)
    new = allocate(cls, device, shape, kind, steps)
    with reading(x):
        device.assign(new, x)
    return new


def to_device(x: V, cls: type[V], target: Device, cause: str, *, asked: bool = True) -> V:
    """Return an array on a device: itself if it is there, else a copy in C order, of which `copied` is told."""
    source = devices.of(x)
    if source is target:
        return x
    copied(x.nbytes, str(source), str(target), cause, asked=asked)
    with reading(x):
        return target.receive(cls, x, source)
