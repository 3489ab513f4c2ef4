"""The suite's side of hostcuda: it runs tests in several stream modes, and looks at what each leaves behind.

    @pytest.mark.hostcuda_modes                             # the test runs once for each of hostcuda.MODES, of which
                                                            # those that are not of `QUICK` are slow
    @pytest.mark.hostcuda_modes("lazy", "random:7/reverse") # ... of these: streams, or streams/order of threads
    def test_a(hostcuda_modes): ...                         # asking for the fixture does so too; its value is the mode

    @pytest.mark.hostcuda_nocheck                           # what this test leaves behind is not looked at
    @pytest.mark.hostcuda_nocheck("faults", "streams")      # ... these kinds of it are not

Where this driver is not, as on a real GPU, tests that ask for the fixture `hostcuda` are skipped, with the reason, and
those of several modes run once, as they are.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections import Counter

import pytest

import tests.hostcuda

KINDS = ("faults", "overruns", "live", "host_live", "pools", "streams", "events", "captures", "graphs")
"""What is counted before and after a test; modules stay, as Numba keeps its kernels."""

QUICK = {"sync/forward", "lazy/reverse", "reverse/forward", "random:1/reverse"}
"""The modes of the quick tests, one of each kind; tests in the others are slow ones."""

settling = []
"""Functions that let go of what a library has put off letting go of: called before the counts are compared."""

_kept = dict.fromkeys(KINDS, 0)
_failed = pytest.StashKey[bool]()
_missing = [""]
_compiled: Counter[str] = Counter()


def activate(config: pytest.Config) -> None:
    """Load the driver for this session, if it can be had, and register this plugin.  Two devices, unless told else."""
    os.environ.setdefault("HOSTCUDA_DEVICES", "2")
    try:
        tests.hostcuda.install()
    except tests.hostcuda.Unavailable as reason:
        _missing[0] = str(reason)
    if not config.pluginmanager.is_registered(sys.modules[__name__]):
        config.pluginmanager.register(sys.modules[__name__], "hostcuda")
        if config.pluginmanager.hasplugin("xdist"):
            config.pluginmanager.register(_Workers, "hostcuda of other processes")
    for line in (
        "hostcuda_modes(*modes): run the test in each of these modes of hostcuda",
        f"hostcuda_nocheck(*kinds): leave these unchecked, or all, of {', '.join(KINDS)}",
    ):
        config.addinivalue_line("markers", line)


class _Workers:
    """The processes in which pytest-xdist, where it is used, has the tests run."""

    @staticmethod
    def pytest_testnodedown(node, error) -> None:
        """Add the kernels that a process has compiled, which it gave to `workeroutput`."""
        _compiled.update(getattr(node, "workeroutput", {}).get("hostcuda", {}))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the main process know of the kernels that this one has compiled."""
    _compiled.update(tests.hostcuda.compiled())
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["hostcuda"] = dict(_compiled)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many kernels were compiled, which is where the time goes."""
    if _compiled:
        line = f"hostcuda: Numba compiled {_compiled.total()} kernels, {len(_compiled)} different ones"
        terminalreporter.write_line(line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each mode."""
    marker = metafunc.definition.get_closest_marker("hostcuda_modes")
    if marker or "hostcuda_modes" in metafunc.fixturenames:
        named = marker.args if marker else ()
        modes = named or [m if m in QUICK else pytest.param(m, marks=pytest.mark.slow) for m in tests.hostcuda.MODES]
        if tests.hostcuda.installed():
            metafunc.parametrize("_hostcuda", modes, indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call):
    """Remember whether a test has failed: its traceback keeps arrays alive."""
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    return report


def settle() -> dict[str, int]:
    """Let go of what was put off, do what is pending, and return the counters then."""
    for function in settling:
        function()
    if driver := sys.modules.get("numba.cuda.cudadrv.driver"):
        for device in driver.driver.devices.values():
            if device.primary_context:
                device.primary_context.memory_manager.deallocations.clear()
                device.primary_context.deallocations.clear()
                device.primary_context.deallocations.clear()
    tests.hostcuda.drain()
    return tests.hostcuda.stats()


@contextlib.contextmanager
def keeping():
    """What is made in this block is kept for the whole session, and no test has left it behind."""
    if not tests.hostcuda.installed():
        yield
        return
    before = _counts(settle())
    yield
    after = _counts(settle())
    for kind in KINDS:
        _kept[kind] += after[kind] - before[kind]


def _counts(stats: dict[str, int]) -> dict[str, int]:
    """Return how much there is of each kind, without what is kept for the whole session."""
    return {kind: stats[kind] - _kept[kind] for kind in KINDS}


def _mend() -> int:
    """Do what is pending, let allocations succeed, and forget errors and captures, of which the number is returned."""
    tests.hostcuda.drain()
    captures = tests.hostcuda.stats()["captures"]
    tests.hostcuda.clear_fail_alloc()
    tests.hostcuda.clear_error()
    return captures


def _left(request: pytest.FixtureRequest, before: dict[str, int], captures: int) -> dict[str, int]:
    """Return how much more there is of each kind, of those that the test is checked for."""
    marker = request.node.get_closest_marker("hostcuda_nocheck")
    after = _counts(settle()) | {"captures": captures}
    grown = {kind: after[kind] - before[kind] for kind in KINDS if after[kind] > before[kind]}
    if marker:
        grown = {kind: n for kind, n in grown.items() if marker.args and kind not in marker.args}
    return grown


@pytest.fixture(autouse=True)
def _hostcuda(request: pytest.FixtureRequest):
    __tracebackhide__ = True
    mode = getattr(request, "param", "")
    if not tests.hostcuda.installed():
        yield mode
        return
    calls = tests.hostcuda.stats()["calls"]
    before = _counts(tests.hostcuda.stats())
    with tests.hostcuda.use_mode(mode):
        yield mode
        if tests.hostcuda.stats()["calls"] == calls:
            return
        getattr(request.node, "funcargs", {}).clear()  # the values of fixtures, which are torn down by now
        captures = _mend()  # before the library, which would meet the test's errors, is asked to let go
        left = _left(request, before, captures)
        if left:
            gc.collect()
            left = _left(request, before, captures)
            if left:
                gc.unfreeze()  # some may have been in use when it was frozen
                gc.collect()
                left = _left(request, before, captures)
            gc.freeze()  # what is there now, Numba's code above all, need not be looked through after each test
    _mend()
    if left and not request.node.stash.get(_failed, False):
        pytest.fail(f"the test left behind {left}; hostcuda's last message: {tests.hostcuda.last_error() or 'none'}")


@pytest.fixture
def hostcuda(_hostcuda):
    """The module tests.hostcuda, with the driver loaded; without it the test is skipped."""
    if not tests.hostcuda.installed():
        pytest.skip(_missing[0])
    return tests.hostcuda


@pytest.fixture
def hostcuda_modes(_hostcuda):
    """The mode that the test runs in, or "" without hostcuda; a test that asks for it runs once for each."""
    return _hostcuda
