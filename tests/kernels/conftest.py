"""The device for the tests of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernels import harness

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def standin() -> Iterator[harness.Standin]:
    """The device of `harness`, without a record of launches."""
    try:
        device = harness.standin()
    except Exception as error:  # noqa: BLE001 - whatever is missing, there is no such device
        pytest.skip(f"there is no device to run kernels on: {error}")
    device.calls.clear()
    yield device
    device.synchronize()
