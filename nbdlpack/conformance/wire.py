"""What goes between the process that reports and those that check: adapters, checks, and how a process ended."""

from __future__ import annotations

import importlib
import io
import pickle
import signal
from typing import TYPE_CHECKING, Any, BinaryIO

from nbdlpack.conformance.adapters import Adapter, ArrayApiModule, find
from nbdlpack.conformance.registry import CHECKS, Check

if TYPE_CHECKING:
    from nbdlpack.conformance.pairs import Pair

__all__ = ["cause_of_death", "named", "parts_of", "pickled", "receive"]


class _Pickler(pickle.Pickler):
    """Names adapters and registered checks, which are not always found by the names of their classes and functions."""

    def persistent_id(self, x: Any) -> tuple[str, ...] | None:
        if isinstance(x, Adapter):
            return ("adapter", named(x))
        if isinstance(x, Check) and CHECKS.get(x.id) is x:
            return ("check", x.function.__module__, x.id)
        return None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, words: tuple[str, ...]) -> Adapter | Check:
        kind, place, *rest = words
        if kind == "adapter":
            return find([place])[0]
        importlib.import_module(place)
        return CHECKS[rest[0]]


def named(adapter: Adapter) -> str:
    """Return what `find` finds an adapter by, in another process too.  Raises ValueError if it is not in a module."""
    kind = type(adapter)
    name = kind.module if issubclass(kind, ArrayApiModule) else f"{kind.__module__}:{kind.__qualname__}"
    if kind.__module__ == "__main__" or "<locals>" in name:
        msg = f"the adapter {kind.__qualname__} must be in a module, from which another process imports it"
        raise ValueError(msg)
    return f"{name}@{adapter.place_name}"


def pickled(x: Adapter | Pair | Check) -> bytes:
    """Return an adapter, a pair of them, or a check, to be sent.

    An adapter is made anew from its class and its device where it is received.  Raises ValueError if it is not in a
    module.
    """
    file = io.BytesIO()
    _Pickler(file).dump(x)
    return file.getvalue()


def receive(file: BinaryIO) -> Any:
    """Return the next of what was sent.  Raises EOFError if nothing more will be."""
    return _Unpickler(file).load()


def parts_of(adapter: Adapter | Pair) -> tuple[Adapter, ...]:
    """Return the adapters of a pair, or the only one."""
    return (adapter,) if isinstance(adapter, Adapter) else adapter.adapters


def cause_of_death(code: int) -> str:
    """Return in words why a process ended, by its exit status, which is negative for a signal."""
    if code >= 0:
        return f"ended the process, with exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # of those for real time, which have no names
        return f"signal {-code}"
