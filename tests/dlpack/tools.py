"""What the tests of the exchange look at memory with."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def flat(x: Any, *, rss: int = 4 << 20) -> Iterator[None]:
    """Check that live exports and leases of an array, and the process's memory, are afterwards what they were."""
    before, memory = x._state()[2:5], resident()
    yield
    assert x._state()[2:5] == before
    assert resident() - memory < rss


def resident() -> int:
    """Return how many bytes of the process are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
