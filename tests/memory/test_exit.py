"""The interpreter may end while anybody still has our memory: exit code 0, whatever is called when.

https://github.com/numpy/numpy/issues/22510: a deleter that ran after the interpreter had gone.
"""

from __future__ import annotations

import pytest

from tests.memory.tools import python

SETTING = """
import atexit, builtins, ctypes, importlib.util, sys, threading, time
import numpy as np, nbdlpack as nd
from nbdlpack.dlpack import ReadOnlyTensorWrapper
from tests.memory.tools import take, deleter, Producer
mode = sys.argv[1]
consumers = [np]
for name in sys.argv[2:]:
    consumers.append(__import__(name))

class Owner:
    def __init__(self): self.a = np.arange(4.)
    def array(self):
        a = self.a
        return nd.ndarray._wrap(self, a.ctypes.data, (1, 0), a.nbytes, 0, a.dtype, 0, a.shape, (1,))

own, foreign, owned = nd.array(np.arange(1000.)), nd.from_dlpack(np.arange(7.)), Owner().array()
half = nd.ones(5, dtype=nd.bfloat16)
arrays = [own, foreign, owned, own.copy(), owned.copy(), own[1:], nd.readonly(own), half]
"""

KEEPING = """
keep = []
for x in arrays:
    exported = [ReadOnlyTensorWrapper(x)]
    if x.dtype != nd.bfloat16:
        exported.append(memoryview(x))
    for consumer in consumers:
        if consumer is not np or x.dtype != nd.bfloat16:
            exported.append(consumer.from_dlpack(x))
            exported.append(consumer.from_dlpack(ReadOnlyTensorWrapper(x)))
    exported.append(x.__dlpack__(max_version=(1, 0)))
    keep += exported
keep += [nd.from_dlpack(k) for k in keep if isinstance(k, np.ndarray)]
# Held by what dies late, by what never dies, and by cycles.
builtins.keep = keep; sys.keep = [keep, arrays]; sys.modules["keeping"] = [keep, arrays]
for consumer in consumers:
    consumer.keep = keep
keep.append(keep)
"""

DAEMONS = """
def run():
    while True:
        a = nd.from_dlpack(np.arange(3.)); b = np.from_dlpack(a); c = own.copy(); c[0] = 1
        d = memoryview(c); e = own[1:].copy(); f = nd.from_dlpack(np.from_dlpack(own)); del a, b, c, d, e, f
for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
time.sleep(0.02)
"""

MODES = {
    # Others keep our memory.
    "kept": KEEPING,
    # And threads are at work on it.
    "kept, with threads at work": KEEPING + DAEMONS,
    # C's atexit, after Py_Finalize, calls deleters of every kind of memory.
    "deleters after the interpreter": """
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
for x in arrays:
    for name in (b"dltensor_versioned", b"dltensor"):
        if x._flags and name == b"dltensor":
            continue
        for last in (False, True):
            managed = take(x.copy() if last else x, name)
            libc.__cxa_atexit(deleter(managed, name), managed, None)
""",
    # Threads that Python never saw do so while it ends.
    "deleters while the interpreter ends": """
from tests.memory.native_threads import Thread
for x in arrays:
    for _ in range(2):
        Thread([take(x) for _ in range(2000)], delay=20).abandon()
    Thread([take(Owner().array()) for _ in range(500)], delay=50).abandon()
    Thread([take(nd.from_dlpack(np.arange(3.))) for _ in range(500)], delay=50).abandon()
""",
    # Python's atexit, when much still works, and finalisers, when little does.
    "at Python's exit": """
def late():
    x = nd.ones(5); y = x.copy(); y[0] = 2; sys.late = [x, np.from_dlpack(y), own.copy(), nd.from_dlpack(np.ones(2))]
atexit.register(late)
class Finaliser:
    def __del__(self, nd=nd, np=np, own=own):
        x = own.copy(); x[0] = 5; n = np.from_dlpack(x); h = nd.from_dlpack(n); del n, h
builtins.finaliser = Finaliser(); own_cycle = [Finaliser()]; own_cycle.append(own_cycle)
""",
    # A producer whose deleter is Python, and whose tensor lives to the end.
    "a deleter in Python": """
p = Producer(); x = nd.from_dlpack(p); builtins.x = [x, x.copy(), np.from_dlpack(x)]
y = nd.from_dlpack(Producer()); sys.y = y.__dlpack__()
""",
    # Inside a write.
    "inside a write": """
y = own.copy(); scope = nd.storage.writing(own); scope.__enter__(); sys.scope = scope
log = nd.copy_log(); log.__enter__(); nd.no_copies().__enter__()
""",
    # Without saying goodbye.
    "at once": KEEPING + "import os; os._exit(0)",
    # By an exception.
    "by SystemExit in a thread and an error in atexit": KEEPING
    + """
t = threading.Thread(target=sys.exit); t.start(); t.join()
sys.exit(0)
""",
}


def ends_well(mode: str, *consumers: str) -> None:
    ended = python(SETTING + MODES[mode], mode, *consumers, timeout=120, NBDLPACK_COUNT_BLOCKS="1")
    assert (ended.code, ended.err) == (0, ""), f"exit code {ended.code}\n{ended.err[-3000:]}"


def peers() -> list[str]:
    import importlib.util

    return [name for name in ("torch", "tvm_ffi") if importlib.util.find_spec(name)]


@pytest.mark.parametrize("mode", MODES)
def test_exit(mode):
    ends_well(mode)


@pytest.mark.parametrize("mode", ["kept", "kept, with threads at work"])
def test_exit_with_torch_and_tvm_ffi(mode):
    if not peers():
        pytest.skip("neither torch nor tvm_ffi is installed")
    ends_well(mode, *peers())


@pytest.mark.slow
@pytest.mark.parametrize("i", range(20))
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "kept"])
def test_exit_often(mode, i):
    ends_well(mode)


@pytest.mark.slow
@pytest.mark.parametrize("i", range(200))
def test_exit_with_torch_and_tvm_ffi_often(i):
    if not peers():
        pytest.skip("neither torch nor tvm_ffi is installed")
    ends_well("kept, with threads at work" if i % 2 else "kept", *peers())
