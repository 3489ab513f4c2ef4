"""Faults that other libraries were reported to have, each as a test of its kind, where no other file has it."""

from __future__ import annotations

import copy
import gc
import itertools
import os
import pickle
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance.capsules import consume, delete, name_of, peek
from nbdlpack.conformance.producers import Tensor
from tests.dlpack.tools import flat

Wrapper = nd.dlpack.ReadOnlyTensorWrapper


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def run(code: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


# ---- writes that should not be seen, and writes that should ----------------------------------------------------------


WRITERS = {
    "numpy": lambda x: np.from_dlpack(x),
    "numpy, of a view": lambda x: np.from_dlpack(x[:2]),
    "asarray": np.asarray,
    "buffer": memoryview,
    "ours": nd.from_dlpack,
}


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("first", ["export", "copy"])
def test_a_writer_never_reaches_a_copy(how, first):
    # zarrista#108, pytorch#188554, pandas#51082, pandas#52823: an alias that may be written to, and lazy clones
    x = nd.arange(4, dtype=nd.int64)
    if first == "copy":
        y = x.copy()
        alias = WRITERS[how](x)
    else:
        alias = WRITERS[how](x)
        y = x.copy()
    z = y.copy()
    alias[0] = 9
    assert x[0] == 9
    assert y[0] == 0
    assert z[0] == 0
    y[1] = 8
    assert (x[1], z[1]) == (1, 1)


@pytest.mark.parametrize("first", ["export", "copy"])
def test_torch_never_reaches_a_copy(torch, first):
    x = nd.arange(4)
    copies = []
    if first == "copy":
        copies.append(x.copy())
    t = torch.from_dlpack(x[1:])
    copies.append(x.copy())
    t[0] = 9
    assert x[1] == 9
    assert [c[1].item() for c in copies] == [1] * len(copies)


def test_when_the_writer_is_gone_copies_are_lazy_again():
    x = nd.arange(4)
    a = np.from_dlpack(x)
    assert not nd.is_shared(x.copy())
    del a
    y = x.copy()
    assert nd.is_shared(y)


MOVERS = {
    "setitem": lambda x: x.__setitem__(0, 1),
    "in place": lambda x: x[1:].__iadd__(1),
    "fill of a part": lambda x: x[1:].fill(1),
    "out=": lambda x: np.add(x[:2], 1, out=x[:2]),
    "__dlpack__": lambda x: x.__dlpack__(),
    "versioned": lambda x: x.__dlpack__(max_version=(1, 0)),
    "to_dlpack": lambda x: nd.dlpack.to_dlpack(x),
    "numpy": lambda x: np.from_dlpack(x),
    "__array__": lambda x: np.asarray(x),
    "__array_interface__": lambda x: x.__array_interface__,
    "ptr": lambda x: x.ptr,
    "memoryview": lambda x: memoryview(x),
}


@pytest.mark.parametrize("how", MOVERS)
def test_what_may_write_moves_once(how):
    # pytorch#180382, pytorch#118053: a way to write that does not make the array sole owner, or one that copies twice
    x = nd.arange(1000, dtype=nd.int64)
    y = x.copy()
    before = x._state()[0]
    with nd.copy_log() as log:
        kept = MOVERS[how](y)
        kept2 = MOVERS[how](y)
    assert [c.nbytes for c in log] == [8000]
    assert x._state()[0] == before
    assert y._state()[0] != before
    assert x.tolist() == list(range(1000))
    del kept, kept2


READERS = {
    "repr": repr,
    "sum": lambda x: x.sum(),
    "==": lambda x: x == 1,
    "+": lambda x: x + 1,
    "slice": lambda x: x[1:5],
    "item": lambda x: x[3].item(),
    "tolist": lambda x: x.tolist(),
    "bytes": bytes,
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "read-only export": lambda x: np.from_dlpack(Wrapper(x)),
    "copy=True": lambda x: x.__dlpack__(copy=True),
    "inspect": nd.dlpack.inspect,
    "iteration": lambda x: next(iter(x)),
}


@pytest.mark.parametrize("how", READERS)
def test_reading_moves_nothing(how):
    # AiDotNet.Tensors#625: the clone was split at its first read
    x = nd.arange(1000)
    y = x.copy()
    with nd.no_copies():
        for z in (x, y):
            READERS[how](z)
    assert nd.is_shared(x)
    assert x._state()[0] == y._state()[0]


def test_what_was_taken_before_a_move_is_valid_after_it():
    # cudf#20719, cudf#11718: the pointer was captured, and the data moved
    x = nd.arange(1000)
    y = x.copy()
    old = np.from_dlpack(Wrapper(x))  # the memory that both share
    interface = y.__array_interface__  # y moves here
    x[...] = 7
    y[...] = 8
    churn = [nd.zeros(1000) for _ in range(50)]
    np.testing.assert_array_equal(old, np.arange(1000) if old[0] == 0 else np.full(1000, 7))
    a = np.asarray(type("Holder", (), {"__array_interface__": interface, "y": y})())
    np.testing.assert_array_equal(a, 8)
    assert y.ptr == interface["data"][0]  # it stays there
    del churn


def test_asarray_of_a_copy():
    # pandas#51082, pandas#58913: numpy.asarray handed out a view through which the others changed
    x = nd.arange(4)
    y = x.copy()
    v = np.asarray(y)
    v[0] = 9
    assert (x[0], y[0]) == (0, 9)


def test_the_message_says_what_to_do():
    # LANfactory#139, dysh#1005, DeepLabCut#3445: "assignment destination is read-only", and now?
    with pytest.raises(ValueError, match=r"copy\(\)"):
        nd.readonly(nd.arange(4))[0] = 1
    with pytest.raises(ValueError, match=r"copy\(\)"):
        nd.broadcast_to(nd.arange(4), (5, 4))[0] = 1


ODD = {
    "a view": lambda: nd.arange(10)[2:7],
    "imported": lambda: nd.from_dlpack(np.arange(10)),
    "imported, by its memory": lambda: nd.from_dlpack(np.from_dlpack(nd.arange(10))),
    "read-only": lambda: nd.readonly(nd.arange(10)),
    "empty": lambda: nd.arange(0),
    "no dimensions": lambda: nd.asarray(5),
    "one element": lambda: nd.arange(1),
    "overlapping": lambda: nd.broadcast_to(nd.arange(4), (3, 4)),
    "Fortran": lambda: nd.arange(12).reshape((3, 4)).T.copy(),
    "backwards": lambda: nd.arange(10)[::-1],
    "a lazy copy": lambda: nd.arange(10).copy(),
}


@pytest.mark.parametrize("kind", ODD)
def test_copies_of_odd_arrays(kind):
    # pytorch#111579, pytorch#113397, pytorch#126129: storages that are not a plain allocation, copies of copies
    for order in itertools.permutations(range(4)):
        x = ODD[kind]()
        arrays = [x, x.copy()]
        arrays.append(arrays[1].copy())
        arrays.append(arrays[2].copy())
        expected = [np.array(a.tolist()) for a in arrays]
        for i in order:
            if not arrays[i].flags.writeable:
                assert i == 0
                continue
            arrays[i][...] = 100 + i
            expected[i][...] = 100 + i
            for a, e in zip(arrays, expected, strict=True):
                np.testing.assert_array_equal(a, e)


# ---- lives -----------------------------------------------------------------------------------------------------------


def test_deleters_are_there_when_they_are_called():
    # mxnet#12047, cpython#77587, PyMultiNest#5: the thunk or the struct was collected before
    capsules = [nd.arange(100).__dlpack__(max_version=(1, 3)) for _ in range(100)]
    addresses = [consume(c) for c in capsules]
    del capsules
    for _ in range(3):
        gc.collect()
    churn = [bytearray(200) for _ in range(10_000)]
    for address in addresses:
        delete(address)
    del churn


def test_torch_storages_that_end_on_other_threads(torch):
    # numpy#22507, pytorch#88082, CV-CUDA#298: without the GIL
    x = nd.arange(1000)

    def work():
        for _ in range(500):
            t = torch.from_dlpack(x)
            torch.add(t, 1)
            del t

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x._state()[3] == 0


CONSUMED = """
import nbdlpack as nd, numpy as np, gc
torch = __import__("importlib").import_module("{library}")
for _ in range(200):
    for version in (None, (1, 0)):
        x = nd.arange(100)
        capsule = x.__dlpack__(max_version=version)
        y = nd.from_dlpack(capsule) if "{library}" == "numpy" else torch.from_dlpack(capsule)
        del capsule, x
        gc.collect(0)
        y[3] += 1
        del y
"""


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_nothing_is_freed_twice(library):
    # pytorch#9260, cupy#1445: the capsule's destructor freed what a consumer had taken
    pytest.importorskip(library, reason=f"{library} is not installed")
    run(CONSUMED.format(library=library), MALLOC_CHECK_="3", MALLOC_PERTURB_="165", PYTHONMALLOC="debug")


HOLDING = """
import atexit, sys, threading, time
import numpy as np
import nbdlpack as nd
import {library} as library
take = np.from_dlpack if "{library}" == "numpy" else library.from_dlpack
library.held = take(nd.ones(9))
sys.held = [nd.ones(9).__dlpack__(), nd.from_dlpack(np.ones(9)).__dlpack__(), nd.from_dlpack(take(nd.ones(9)))]
np.held = nd.from_dlpack(np.ones(9)).copy()
atexit.register(lambda: take(nd.ones(9)))

def busy():
    while True:
        take(nd.ones(9).copy())

if {threads}:
    threading.Thread(target=busy, daemon=True).start()
    time.sleep(0.01)
"""


# Not with torch and daemon threads: those end the process with NumPy's arrays as well, torch's C++ being in their way.
@pytest.mark.parametrize(
    ("library", "threads"), [("numpy", False), ("numpy", True), ("torch", False), ("tvm_ffi", False), ("tvm_ffi", True)]
)
def test_the_end_of_the_interpreter(library, threads):
    # numpy#22510, TensorRT-LLM#18310, Morpheus#1513, llvmlite#232: what is held beyond the end
    pytest.importorskip(library, reason=f"{library} is not installed")
    for _ in range(1 if library == "torch" else 2):
        run(HOLDING.format(library=library, threads=threads))


FORK = """
import os, sys
import numpy as np
import nbdlpack as nd
x = nd.arange(10)
y = x.copy()
a = np.from_dlpack(x)
pid = os.fork()
y[0] = 5
x[1] = 6
del a, x, y
nd.from_dlpack(np.arange(10))
if pid:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def test_fork():
    run(FORK)


SUBINTERPRETER = """
import nbdlpack
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
interpreters.run_string(interpreters.create(), "try:\\n import nbdlpack\\nexcept ImportError:\\n pass")
"""


def test_importing_in_a_subinterpreter_ends_in_an_error_at_worst():
    # not specified by anyone, and refused by NumPy
    done = subprocess.run([sys.executable, "-c", SUBINTERPRETER], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr


def test_the_last_owner_writes_in_place():
    # torch's copy on write: the last reference takes the memory over
    x = nd.arange(1000)
    y = x.copy()
    address = x._state()[0]
    del x
    with nd.no_copies():
        y[0] = 9
    assert y._state()[0] == address


def test_lazy_copies_and_views_keep_their_memory():
    # mxnet#13658, dgl#312, paddle#50120
    def make(n):
        x = nd.arange(1000)
        y = x.copy()
        return [
            lambda: y.__dlpack__(),
            lambda: x.copy()[10:].__dlpack__(max_version=(1, 0)),
            lambda: Wrapper(y).__dlpack__(),
            lambda: nd.arange(1000).T.__dlpack__(),
        ][n]()

    for n in range(4):
        capsule = make(n)
        gc.collect()
        churn = [nd.zeros(1000) for _ in range(50)]
        np.testing.assert_array_equal(nd.from_dlpack(capsule), np.arange(1000)[10 if n == 1 else 0 :])
        del churn


def test_two_capsules_can_be_told_apart():
    # cudnn-frontend#547: one struct that two consumers change.  Decided: ours is shared, but is never changed, and each
    # capsule counts by itself.
    x = nd.arange(4)
    one, two = x.__dlpack__(max_version=(1, 0)), x.__dlpack__(max_version=(1, 0))
    before = peek(two)
    a = nd.from_dlpack(one)
    a[1:].copy()
    assert peek(two) == before
    assert x._state()[3] == 1  # the first one came home
    del one, a, two
    assert x._state()[3] == 0


def test_bool_stays_bool():
    # warp#1619, jax#19352, pytorch#94463, pytorch#114673, cupy#7307, dlpack#75, dgl#3446
    x = nd.asarray([True, False])
    assert peek(x.__dlpack__()).dtype == (6, 8, 1)
    assert np.from_dlpack(x).dtype == np.bool
    assert nd.from_dlpack(np.array([True])).dtype == nd.bool
    assert nd.from_dlpack(np.array([1], np.uint8)).dtype == nd.uint8
    assert nd.from_dlpack(Tensor(np.array([1], np.uint8)).capsule(versioned=False)).dtype == nd.uint8


def test_strides_that_are_no_multiple_of_the_item_size():
    # nanobind#487, numpy#20336, cupy#2589: truncated in silence, or refused where there is nothing to step over
    record = np.zeros(4, np.dtype([("f4", "f4"), ("u1", "u1")]))["f4"]
    with pytest.raises(BufferError):
        nd.from_dlpack(record)
    x = nd.asarray(record)  # a copy
    assert x.tolist() == [0] * 4
    a = np.lib.stride_tricks.as_strided(np.zeros(50), (10, 5, 1), (40, 8, 3))
    assert nd.asarray(a).shape == (10, 5, 1)


def test_unaligned_memory_is_computed_with():
    # jax#29810, warp#550, array-api#293
    a = np.frombuffer(bytearray(83), np.uint8)[3:].view(np.float64)
    x = nd.from_dlpack(a)
    x += 1
    assert (x + x).tolist() == [2] * 10
    assert a[0] == 1


def test_the_pointer_of_a_view():
    # MatX#1238, tenferro#474, dpnp#2781: computed from the block's start, or the offset forgotten
    x = nd.arange(10, dtype=nd.float32)
    assert x[3:].ptr - x.ptr == 12
    assert x[::-1].ptr - x.ptr == 36
    assert x[3:].device == x.device
    assert x[3:].__dlpack_device__() == x.__dlpack_device__()


def test_classes_can_be_copied_and_pickled():
    # tvm-ffi#301: the capsule on the type
    assert copy.copy(nd.ndarray) is nd.ndarray
    assert pickle.loads(pickle.dumps(nd.ndarray)) is nd.ndarray
    assert copy.copy(Wrapper) is Wrapper
    x = nd.arange(4)
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


def test_a_lazy_import_from_a_function_that_returns():
    # numpy#20673, lmdeploy#1344
    def producer():
        a = np.arange(100_000)
        return nd.from_dlpack(a)[::2]

    x = producer()
    churn = [np.zeros(100_000) for _ in range(5)]
    np.testing.assert_array_equal(x, np.arange(0, 100_000, 2))
    del churn


def test_exports_are_without_limit():
    # jax#4636: the first export consumed the array
    x = nd.arange(4)
    capsules = [x.__dlpack__() for _ in range(1000)]
    assert x._state()[3] == 1000
    for c in capsules[::2]:
        nd.from_dlpack(c)[0] += 1
    assert x[0] == 500
    del capsules, c
    assert x._state()[3] == 0


@pytest.mark.parametrize("seconds", [1, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("interval", [None, 1e-6])
def test_threads(torch, seconds, interval):
    # CV-CUDA#298, pytorch#88082: crashes that only threads show
    x = nd.arange(1000, dtype=nd.int64)
    shared, errors, end = [x, x.copy(), x[::2]], [], time.monotonic() + seconds

    def work(seed):
        pick = random.Random(seed)
        try:
            while time.monotonic() < end:
                y = pick.choice(shared)
                n = pick.randrange(6)
                if n == 0:
                    z = nd.from_dlpack(torch.from_dlpack(y))
                    assert z.shape == y.shape
                elif n == 1:
                    z = y.copy()
                    before = z.tolist()
                    y[pick.randrange(500)] = pick.randrange(1000)
                    assert z.tolist() == before
                elif n == 2:
                    y[:] = pick.randrange(1000)
                elif n == 3:
                    r = np.from_dlpack(Wrapper(y.copy()))
                    assert not r.flags.writeable
                elif n == 4:
                    name_of(y.__dlpack__())
                else:
                    memoryview(y).release()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    old = sys.getswitchinterval()
    try:
        if interval:
            sys.setswitchinterval(interval)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(old)
    assert not errors
    assert x._state()[3] == 0


def test_conversions_in_a_loop_stay_flat(torch):
    # lmdeploy#1344, quadrants#598, kaldi#93, onnxruntime#32732
    x, t, a = nd.arange(1000), torch.arange(1000), np.arange(1000)

    def cycle(n):
        for _ in range(n):
            torch.from_dlpack(x)
            nd.from_dlpack(t)
            nd.from_dlpack(a)
            np.from_dlpack(x)
            Wrapper(t).__dlpack__()
            nd.dlpack.to_dlpack(x)

    cycle(500)
    with flat(x):
        cycle(5000)
