"""What holds for all tests of memory."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _collect_when_asked_alone() -> Iterator[None]:
    """Keep the collector from letting go of what an earlier test left in a cycle between two counts of this one."""
    gc.disable()
    yield
    gc.enable()
