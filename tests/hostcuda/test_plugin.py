"""hostcuda's options, counters and pytest plugin."""

from __future__ import annotations

import os
import sys
import textwrap

import numpy as np
import pytest

import tests.hostcuda as host
from tests.hostcuda.tools import call, contents, numba_stream, view

pytestmark = [
    pytest.mark.filterwarnings("ignore:Grid size"),
    pytest.mark.filterwarnings("ignore:Host array used"),
]


def test_options_nest_and_do_what_is_pending(drv, hostcuda, stream, memory):
    names = ("async", "order", "seed", "protect", "poison", "reuse_streams", "check_align", "idle")
    before = {name: hostcuda.get(name) for name in names}
    s, p = stream(), memory(64)
    with hostcuda.option(**{"async": "lazy"}, order="random:5"):
        call("cuMemsetD8Async", p, 3, 64, s)
        with hostcuda.option(**{"async": "reverse"}, seed=99):
            assert hostcuda.stats()["pending"] == 0  # done at the switch
            assert (hostcuda.get("async"), hostcuda.get("seed")) == ("reverse", "99")
        assert (hostcuda.get("async"), hostcuda.get("order")) == ("lazy", "random")
        call("cuMemsetD8Async", p, 5, 64, s)
        syncs = hostcuda.stats()["syncs"]
        hostcuda.drain()
        assert (hostcuda.stats()["pending"], hostcuda.stats()["syncs"]) == (0, syncs)
    assert {name: hostcuda.get(name) for name in names} == before
    assert (contents(p, 64, "u1") == 5).all()
    with hostcuda.option(poison=0):
        assert not (contents(memory(64), 64, "u1") == 0xCB).any()
    assert (contents(memory(64), 64, "u1") == 0xCB).all()
    with pytest.raises(ValueError, match="devices"):
        hostcuda.set("devices", 2)
    with hostcuda.use_mode("random:7/reverse"):
        assert (hostcuda.get("async"), hostcuda.get("order")) == ("random", "reverse")


def test_nothing_is_done_when_idle(drv, hostcuda, kernels, memory):
    p, counted = memory(64), hostcuda.stats()
    with hostcuda.option(idle=1):
        kernels.set_to[1, 16](view(p, 16), 1)
        call("cuMemsetD8", p, 1, 64)
        q = call("cuMemAlloc", 1 << 30)
        call("cuMemFree", q)
    assert hostcuda.stats()["launches"] == counted["launches"] + 1
    assert (contents(p, 64, "u1") == 0xCB).all()


def test_counters(cuda, hostcuda, kernels, stream, event, memory):
    s, e, d = stream(), event(), cuda.to_device(np.zeros(1000, "f4"))
    kernels.set_to[1, 64](d, 1)
    cuda.synchronize()
    hostcuda.reset_stats()
    zero = hostcuda.stats(names=True)
    assert zero["launches"] == zero["syncs"] == zero["h2d_bytes"] == 0
    assert zero["live"] > 0
    assert zero["compiled"] > 0
    assert not zero["kernels"]
    for _ in range(3):
        kernels.set_to[1, 64, numba_stream(s)](d, 1)
    call("cuEventRecord", e, s)
    call("cuEventSynchronize", e)
    call("cuStreamSynchronize", s)
    call("cuStreamSynchronize", s)
    call("cuCtxSynchronize")
    cuda.to_device(np.zeros(10, "f8"))
    d[:100].copy_to_host()
    d[:200].copy_to_device(d[200:400])
    n = hostcuda.stats(names=True)
    assert (n["event_syncs"], n["stream_syncs"], n["context_syncs"], n["syncs"]) == (1, 2, 1, 4)
    assert n["launches"] == 3
    assert list(n["kernels"].values()) == [3]
    assert next(iter(n["kernels"])).endswith("set_to")
    copies = [n[kind] for kind in ("h2d", "h2d_bytes", "d2h", "d2h_bytes", "d2d", "d2d_bytes", "p2p", "h2h")]
    assert copies == [1, 80, 1, 400, 1, 800, 0, 0]
    assert (n["calls"]["cuStreamSynchronize"], n["calls"]["cuMemAlloc"]) == (2, 1)
    assert "cuMemAllocAsync" not in n["calls"]


def test_different_kernels_are_counted_once(cuda, hostcuda):
    def make():
        @cuda.jit
        def same(a):
            a[cuda.grid(1)] = 77

        return same

    before = hostcuda.compiled()
    for _ in range(3):
        make()[1, 1](np.zeros(1))
    after = hostcuda.compiled()
    assert (sum(after.values()), len(after)) == (sum(before.values()) + 3, len(before) + 1)


PLUGIN_TESTS = """
import pytest
from cuda.bindings import driver
from tests.hostcuda import pytest_plugin
held = []
def call(name, *args):
    error, *out = getattr(driver, name)(*args)
    assert error == 0, error
    return out and out[0]
@pytest.fixture(autouse=True)
def context():
    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
@pytest.fixture
def memory():
    p = call("cuMemAlloc", 64)
    yield p
    call("cuMemFree", p)
@pytest.mark.hostcuda_modes
def test_all(memory):
    call("cuMemsetD8Async", memory, 0, 64, 0)
@pytest.mark.hostcuda_modes("lazy", "reverse/reverse")
def test_some(hostcuda_modes, hostcuda):
    assert hostcuda.get("async") == hostcuda_modes.split("/")[0]
    assert hostcuda.get("order") == ("reverse" if "/" in hostcuda_modes else "forward")
def test_bad_leak():
    call("cuMemAlloc", 64)
def test_bad_stream():
    call("cuStreamCreate", 1)
def test_bad_event():
    call("cuEventCreate", 0)
def test_bad_capture():
    s = call("cuStreamCreate", 1)
    call("cuStreamBeginCapture", s, driver.CUstreamCaptureMode(0))
@pytest.mark.hostcuda_modes("lazy")
def test_bad_fault(memory):
    p = call("cuMemAllocAsync", 64, 0)
    call("cuStreamSynchronize", 0)
    s = call("cuStreamCreate", 1)
    call("cuMemsetD8Async", p, 0, 64, s)
    call("cuMemFreeAsync", p, 0)
    call("cuStreamSynchronize", 0)
    call("cuStreamDestroy", s)
def test_the_error_is_gone(memory):
    call("cuMemsetD8", memory, 0, 64)
@pytest.mark.hostcuda_nocheck
def test_excused():
    call("cuMemAlloc", 64)
@pytest.mark.hostcuda_nocheck("streams")
def test_excused_streams():
    call("cuStreamCreate", 1)
@pytest.mark.hostcuda_nocheck("streams")
def test_bad_not_excused():
    call("cuMemAlloc", 64)
def test_settled():
    p = call("cuMemAlloc", 64)
    pytest_plugin.settling.append(lambda: held or held.append(call("cuMemFree", p)))
def test_untouched():
    pass
"""


def test_the_plugin(drv, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from tests.hostcuda import pytest_plugin\ndef pytest_configure(config):\n"
        "    config.addinivalue_line('markers', 'slow: as in this suite')\n    pytest_plugin.activate(config)\n"
    )
    (tmp_path / "test_it.py").write_text(PLUGIN_TESTS)
    program = f"""
        import pytest, sys
        code = pytest.main(["-q", "-p", "no:cacheprovider", "--strict-markers", "-c/dev/null",
                            "--rootdir={tmp_path}", {str(tmp_path)!r}])
        assert code == 1
    """
    out = host.python("-c", textwrap.dedent(program), HOSTCUDA_DEVICES="2")
    bad = {line.split("::")[1].split()[0].split("[")[0] for line in out.splitlines() if line.startswith("ERROR ")}
    assert bad == {f"test_bad_{what}" for what in ("leak", "stream", "event", "capture", "fault", "not_excused")}, out
    assert f"{len(host.MODES) + 13} passed, 6 errors" in out, out
    for what in ("'live': 1", "'streams': 1", "'events': 1", "'captures': 1", "'faults': 1"):
        assert what in out, what


def test_it_says_why_it_is_not_there():
    program = "import tests.hostcuda as h; print(h.why_not())"
    plain = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}

    def ask(**changes):
        import subprocess

        done = subprocess.run(
            [sys.executable, "-c", program], env=plain | changes, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert "real GPU" in ask(NBDLPACK_TEST_GPU="1")
    assert "simulator" in ask(NUMBA_ENABLE_CUDASIM="1")
    assert "gcc" in ask(XDG_CACHE_HOME="/nonexistent-cache/x", CC="no-such-compiler") or os.geteuid() == 0
    assert ask() == "None"
