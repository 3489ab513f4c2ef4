"""Fixtures for all tests."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

import nbdlpack as nd
from tests import hostcuda, simulator_skips
from tests.hostcuda import pytest_plugin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_configure(config: pytest.Config) -> None:
    """Give the tests of the cuda device a driver: the machine's, if asked for, else the one that runs on the CPU."""
    os.environ.setdefault("NBDLPACK_DEVICE", "cpu")  # what tests name no device for
    os.environ.setdefault("NBDLPACK_CACHE_DIR", "")  # compiled kernels are not to come from another time
    pytest_plugin.activate(config)
    pytest_plugin.settling.append(settle)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, in Numba's simulator, what it does differently."""
    simulator_skips.skip(items)


def settle() -> None:
    """Let the library give back all that it keeps for later."""
    driver = sys.modules.get("nbdlpack.devices.cuda.driver")
    for gpu in list(driver._gpus.values()) if driver else ():
        sys.modules["nbdlpack.devices.cuda.memory"].release_cached(gpu)


@pytest.fixture(scope="session", autouse=True)
def _gpus(request: pytest.FixtureRequest) -> str:
    """Start the GPUs, with what each of them keeps for good, before a test counts what it leaves behind."""
    if not any({"cuda", "device"} & set(getattr(item, "fixturenames", ())) for item in request.session.items):
        return "no test asks for a GPU"
    try:
        nd.Device("cuda")
    except nd.errors.DeviceError as reason:
        return str(reason)
    with pytest_plugin.keeping():
        for index in (0, 1):
            if nd.is_available(f"cuda:{index}"):
                nd.zeros(1, device=f"cuda:{index}").__dlpack__()
    return ""


@pytest.fixture
def cuda(_gpus: str) -> nd.Device:
    """The first GPU; the test is skipped, with the reason, where there is none."""
    if _gpus:
        pytest.skip(_gpus)
    return nd.Device("cuda")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Keep the doctests away from what is no test: some of it is for other processes, and changes the one it is in."""
    tested = collection_path.suffix != ".py" or collection_path.name.startswith("test_")
    return None if tested else True


@pytest.fixture(params=["cpu", "cuda", "cuda/random:3"])
def device(request: pytest.FixtureRequest) -> Iterator[nd.Device]:
    """Each device there is, as the default one; the GPU also with its streams and threads in some other order."""
    name, _, mode = request.param.partition("/")
    if name == "cuda":
        request.getfixturevalue("cuda")
    if mode and not hostcuda.installed():
        pytest.skip("the order of streams is the GPU's own")
    with hostcuda.use_mode(f"{mode}/{mode}") if mode else nullcontext(), nd.device(name) as device:
        yield device
