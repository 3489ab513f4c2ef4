"""Storages as Python sees them: writing to one, copying between them, and knowing what was copied.

Copies are made where memory is shared and someone writes, which the native layer decides, and where the layers above
copy data for a reason of their own.  Either tells of it before: then it is recorded in the copy logs that are open, or
refused inside `no_copies`.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nbdlpack import native
from nbdlpack.errors import CopyError

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from nbdlpack.native import View


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
    "a writable buffer or NumPy view of an array that shares its memory with a lazy copy",
    "the address of an array that shares its memory with a lazy copy was asked for",
    "materialize() was called",
)
"""Why a storage moves, by the native layer's numbers."""


class Watching(NamedTuple):
    """What a context wants to know of copies."""

    logs: tuple[list[Copy], ...] = ()
    forbidden: bool = False


_watching: contextvars.ContextVar[Watching] = contextvars.ContextVar("nbdlpack.copies", default=Watching())
_counting = threading.Lock()
_NOT_THE_USERS: Final = frozenset({"nbdlpack", "contextlib", "copy", "numpy"})


class Scope:
    """A `with` block inside which copies are watched, in this context only."""

    def __init__(self, *, forbidden: bool) -> None:
        self._log: list[Copy] | None = None if forbidden else []
        self._tokens: list[contextvars.Token[Watching]] = []

    def __enter__(self) -> Any:
        now = _watching.get()
        new = Watching(now.logs, forbidden=True) if self._log is None else now._replace(logs=(*now.logs, self._log))
        self._tokens.append(_watching.set(new))
        _count_watchers(1)
        return self if self._log is None else self._log

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _count_watchers(-1)
        _watching.reset(self._tokens.pop())


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
        Why, in words that follow "a copy was needed:".
    asked : bool
        Whether the user asked for it by name.

    Raises
    ------
    CopyError
        Inside `no_copies`, if it was not asked for.
    """
    if native.world.watchers:
        _tell(nbytes, source, target, cause, asked=asked)


def _tell(nbytes: int, source: str, target: str, cause: str, *, asked: bool) -> None:
    watching = _watching.get()
    if watching.forbidden and not asked:
        way = f"on {source}" if source == target else f"from {source} to {target}"
        msg = (
            f"no_copies() is in effect, and {nbytes} bytes would be copied {way}: {cause}. "
            "Ask for the copy by name, as x.copy() or copy=True do, or leave the no_copies() block."
        )
        raise CopyError(msg)
    if watching.logs:
        copy = Copy(nbytes, source, target, cause, asked, _user_line())
        for log in watching.logs:
            log.append(copy)


def _user_line() -> str:
    """Return the innermost line that is neither this library's nor of a module through which it is called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _moving(nbytes: int, cause: int) -> None:
    _tell(nbytes, "cpu", "cpu", CAUSES[cause], asked=cause == native.BY_NAME)


native.watch.moving = _moving


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

    __slots__ = ("_cause", "_x")

    def __init__(self, x: View, cause: int = native.FOR_WRITE) -> None:
        self._x, self._cause = x, cause

    def __enter__(self) -> View:
        self._x._begin_write(self._cause)
        return self._x

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._x._end_write()


class reading:  # noqa: N801
    """Keep writers of a view's storage waiting while it is copied, so that the copy is not torn.

    Parameters
    ----------
    x : View
        What is read.
    """

    __slots__ = ("_x",)

    def __init__(self, x: View) -> None:
        self._x = x

    def __enter__(self) -> View:
        self._x._begin_read()
        return self._x

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._x._end_read()


class overwriting:  # noqa: N801
    """Hold a view's storage for a write of all the view's elements; gives what to write into.

    If the memory is shared and the view is all of it, nothing is copied: that is new memory, which becomes the view's
    (and that of all views of the storage) only if the block ends without an error.

    Parameters
    ----------
    x : View
        What is written to.

    Raises
    ------
    ValueError
        If x is read-only.
    MemoryError
        If x shares its memory and there is none to move to.
    """

    __slots__ = ("_target", "_x")

    def __init__(self, x: View) -> None:
        self._x = x

    def __enter__(self) -> View:
        target: View = self._x._begin_overwrite(native.FOR_WRITE)
        self._target: View | None = target
        return target

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        target, self._target = self._target, None
        self._x._end_overwrite(target, 1 if kind is None else 0)


def is_shared(x: View) -> bool:
    """Return whether the memory of a view's storage is that of another storage or of an old export as well."""
    return x._state()[2] > 1


__all__ = ["CAUSES", "Copy", "Scope", "copied", "is_shared", "overwriting", "reading", "writing"]
