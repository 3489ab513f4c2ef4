"""Fixtures for all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import nbdlpack as nd
from nbdlpack import devices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Keep the doctests away from what is no test: some of it is for other processes, and changes the one it is in."""
    tested = collection_path.suffix != ".py" or collection_path.name.startswith("test_")
    return None if tested else True


@pytest.fixture(params=[str(device) for device in devices.KINDS])
def device(request: pytest.FixtureRequest) -> Iterator[nd.Device]:
    """Each device there is, as the default one."""
    with nd.device(request.param) as device:
        yield device
