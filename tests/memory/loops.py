"""What can be done a million times without a trace: run as ``python -m tests.memory.loops NUMBER``, prints JSON.

Foreign blocks are counted as well if NBDLPACK_COUNT_BLOCKS is 1 when the library is imported.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

import nbdlpack as nd
from nbdlpack import native
from nbdlpack.dlpack import ReadOnlyTensorWrapper
from tests.memory.tools import rss, state

if TYPE_CHECKING:
    from collections.abc import Callable


class Old:
    """A producer of the protocol's first days, which knows no keyword."""

    def __init__(self, a: Any) -> None:
        self.a = a

    def __dlpack__(self) -> Any:
        return self.a.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Raising(Old):
    def __dlpack__(self, **options: object) -> Any:
        msg = "not today"
        raise RuntimeError(msg)


class Junk(Old):
    def __dlpack__(self, **options: object) -> Any:
        return 3


class Refused(Old):
    """What it exports cannot be imported."""

    def __dlpack__(self, **options: object) -> Any:
        return nd.dlpack.ReadOnlyTensorWrapper(self.a).__dlpack__()


class Sub(nd.ndarray):
    pass


class Slots(nd.ndarray):
    __slots__ = ("p", "q")


class Exporting(nd.ndarray):
    __slots__ = ()

    def __dlpack__(self, **options: Any) -> Any:
        return super().__dlpack__(**options)


class Buffer:
    """An owner of memory that the collector can see."""

    def __init__(self, n: int = 4) -> None:
        self.a = np.arange(float(n))

    @property
    def __array_interface__(self) -> Any:
        return self.a.__array_interface__


def failing(act: Callable[[], object]) -> Callable[[], None]:
    def attempt() -> None:
        try:
            act()
        except (RuntimeError, TypeError, ValueError, BufferError, MemoryError):
            return
        msg = "it should have failed"
        raise AssertionError(msg)

    return attempt


a = np.arange(24, dtype="f4").reshape(2, 3, 4)
many = np.zeros((1,) * 12)
read_only = np.zeros(3)
read_only.flags.writeable = False
f = nd.from_dlpack(a)  # foreign
x = nd.array(np.arange(1000.0))
y = x.copy()
alone: Any = nd.array(np.arange(1000.0))
r: Any = nd.readonly(alone)
reversed_ = alone[::-1]
wrapper = ReadOnlyTensorWrapper(alone)
strange = np.zeros(4, ml_dtypes.bfloat16)
b16: Any = nd.array(strange)
sub, slots, exporting = (nd.array(np.arange(4.0)).view(cls) for cls in (Sub, Slots, Exporting))
small = nd.zeros(3)


def move() -> None:
    c = x.copy()
    c[0] = 1


def overwrite() -> None:
    c = x.copy()
    c[...] = 1


def overwrite_in_vain() -> None:
    c = x.copy()
    failing(lambda: c.__setitem__(..., [1, 2]))()


def consume_twice(capsule: Any) -> None:
    nd.from_dlpack(capsule)
    failing(lambda: nd.from_dlpack(capsule))()


def outlive() -> Any:
    return np.from_dlpack(nd.zeros(3))


def cycle() -> None:
    s = nd.zeros(2).view(Sub)
    s.me = s
    s.exports = [np.from_dlpack(nd.readonly(s)), s.copy(), s[1:]]


def chain() -> None:
    np.from_dlpack(nd.from_dlpack(np.from_dlpack(nd.from_dlpack(np.from_dlpack(alone)))))


def log() -> None:
    with nd.copy_log():
        move()


# name -> (what is done, into how many parts of the million)
LOOPS: dict[str, tuple[Callable[[], object], int]] = {
    # export and drop
    "export, drop": (lambda: alone.__dlpack__(), 1),
    "export versioned, drop": (lambda: alone.__dlpack__(max_version=(1, 0)), 1),
    "export read-only, drop": (lambda: r.__dlpack__(max_version=(1, 0)), 1),
    "export foreign, drop": (lambda: f.__dlpack__(max_version=(1, 0)), 1),
    "export a new view, drop": (lambda: alone[1:].__dlpack__(), 1),
    "export of a wrapper, drop": (lambda: wrapper.__dlpack__(), 2),
    "wrapper, export, drop": (lambda: ReadOnlyTensorWrapper(alone).__dlpack__(), 4),
    "export of a subclass, drop": (lambda: exporting.__dlpack__(), 2),
    "export a copy, drop": (lambda: alone.__dlpack__(copy=True), 10),
    "export the slow way, drop": (lambda: alone.__dlpack__(dl_device=(1, 0)), 4),
    "export with a fault": (failing(lambda: r.__dlpack__()), 10),
    "export negative strides in vain": (failing(lambda: reversed_.__dlpack__()), 10),
    "to_dlpack, drop": (lambda: nd.dlpack.to_dlpack(alone), 4),
    "memoryview": (lambda: memoryview(alone), 1),
    "memoryview, read-only": (lambda: memoryview(r), 1),
    "memoryview with a fault": (failing(lambda: memoryview(b16)), 2),
    "bytes": (lambda: bytes(small), 2),
    "numpy.asarray": (lambda: np.asarray(alone), 1),
    "numpy.asarray of bfloat16": (lambda: np.asarray(b16), 2),
    "array interface": (lambda: r.__array_interface__, 4),
    # export, consume, drop
    "numpy.from_dlpack": (lambda: np.from_dlpack(alone), 1),
    "numpy.from_dlpack, foreign": (lambda: np.from_dlpack(f), 1),
    "numpy.from_dlpack, read-only": (lambda: np.from_dlpack(r), 1),
    "numpy.from_dlpack of a wrapper": (lambda: np.from_dlpack(wrapper), 4),
    "numpy.from_dlpack, a copy": (lambda: np.from_dlpack(alone, copy=True), 10),
    "an export outlives its array": (outlive, 1),
    "home by address": (lambda: nd.from_dlpack(np.from_dlpack(alone)), 1),
    "home by address after the array": (lambda: nd.from_dlpack(outlive()), 1),
    "home by capsule": (lambda: nd.from_dlpack(alone.__dlpack__(max_version=(1, 0))), 2),
    "home by legacy capsule": (lambda: nd.from_dlpack(alone.__dlpack__()), 2),
    "there and back again": (chain, 4),
    # import, drop
    "from_dlpack": (lambda: nd.from_dlpack(a), 1),
    "from_dlpack of ours": (lambda: nd.from_dlpack(alone), 1),
    "from_dlpack, 12 dimensions": (lambda: nd.from_dlpack(many), 1),
    "from_dlpack, read-only": (lambda: nd.from_dlpack(read_only), 1),
    "from_dlpack, a copy": (lambda: nd.from_dlpack(a, copy=True), 10),
    "from_dlpack of an old producer": (lambda: nd.from_dlpack(Old(a)), 10),
    "from_dlpack that raises": (failing(lambda: nd.from_dlpack(Raising(a))), 10),
    "from_dlpack of junk": (failing(lambda: nd.from_dlpack(Junk(a))), 10),
    "from_dlpack of a dtype that is none": (failing(lambda: nd.from_dlpack(np.zeros(1, "M8[s]"))), 10),
    "a capsule consumed twice": (lambda: consume_twice(a.__dlpack__(max_version=(1, 0))), 10),
    "our capsule consumed twice": (lambda: consume_twice(alone.__dlpack__()), 10),
    "asarray": (lambda: nd.asarray(a), 4),
    "asarray of an interface": (lambda: nd.asarray(Buffer()), 10),
    # arrays
    "empty": (lambda: nd.empty(10), 1),
    "zeros": (lambda: nd.zeros(10), 1),
    "a view": (lambda: alone[1:9], 1),
    "lazy copy": (lambda: x.copy(), 1),
    "lazy copy, move": (move, 2),
    "lazy copy, overwrite": (overwrite, 2),
    "lazy copy, overwrite in vain": (overwrite_in_vain, 10),
    "eager copy": (lambda: alone[1:].copy(), 4),
    "setitem": (lambda: alone.__setitem__(0, 1), 4),
    "in place": (lambda: small.__iadd__(0), 4),
    "addition": (lambda: small + small, 2),
    "sum": (lambda: small.sum(), 4),
    "read-only address": (lambda: nd.readonly(small).ptr, 4),
    "read-only address of a new array": (lambda: nd.readonly(nd.zeros(3)).ptr, 4),
    "address of a new array": (lambda: nd.zeros(3).ptr, 4),
    "weakref": (lambda: weakref.ref(nd.zeros(3)), 4),
    "subclass with a dict": (lambda: sub[1:], 4),
    "subclass with slots": (lambda: slots[1:], 4),
    "subclass in a cycle": (cycle, 20),
    "copy_log": (log, 10),
    "a write refused": (failing(lambda: r.__setitem__(0, 1)), 10),
}


def peers() -> None:
    """Add what needs a library that may not be there."""
    if importlib.util.find_spec("torch"):
        import torch

        t, scalar = torch.arange(24.0), torch.zeros(())
        needing, turned = torch.ones(3, requires_grad=True), torch.ones(2, dtype=torch.complex64).conj()
        LOOPS.update(
            {
                "torch.from_dlpack": (lambda: torch.from_dlpack(alone), 4),
                "torch.from_dlpack of a wrapper": (lambda: torch.from_dlpack(wrapper), 10),
                "from_dlpack of torch": (lambda: nd.from_dlpack(t), 1),
                "from_dlpack of torch, no dimensions": (lambda: nd.from_dlpack(scalar), 1),
                "from_dlpack of torch, requires_grad": (failing(lambda: nd.from_dlpack(needing)), 10),
                "from_dlpack of torch, conjugated": (failing(lambda: nd.from_dlpack(turned)), 10),
                "home through torch": (lambda: nd.from_dlpack(torch.from_dlpack(alone)), 4),
            }
        )
    if importlib.util.find_spec("tvm_ffi"):
        import tvm_ffi

        v = tvm_ffi.from_dlpack(a)
        echo = tvm_ffi.get_global_func("testing.echo", allow_missing=True)
        LOOPS.update(
            {
                "tvm_ffi.from_dlpack": (lambda: tvm_ffi.from_dlpack(alone), 1),
                "tvm_ffi.from_dlpack of a wrapper": (lambda: tvm_ffi.from_dlpack(wrapper), 4),
                "from_dlpack of tvm_ffi": (lambda: nd.from_dlpack(v), 1),
                "home through tvm_ffi": (lambda: nd.from_dlpack(tvm_ffi.from_dlpack(alone)), 1),
            }
        )
        if echo:
            LOOPS["through a function of tvm_ffi"] = (lambda: echo(alone), 4)


def counts() -> dict[str, int]:
    """What must be the same before and after."""
    numbers = {"blocks": native.world.blocks, "bytes": native.world.bytes, "pinned": native.world.pinned}
    numbers["watchers"] = native.world.watchers
    for name in ("x", "y", "alone", "f", "small", "b16", "sub"):
        one = state(globals()[name])
        for field in ("flags", "leases", "exports", "writable"):
            numbers[f"{field} of {name}"] = getattr(one, field)
        numbers[f"references to {name}"] = sys.getrefcount(globals()[name])
    for name in ("a", "many", "read_only"):
        numbers[f"references to {name}"] = sys.getrefcount(globals()[name])
    for kind in (nd.ndarray, Sub, Slots, Exporting, np.ndarray):
        numbers[f"references to {kind.__qualname__}"] = sys.getrefcount(kind)
    return numbers


def settle() -> None:
    gc.collect()
    nd.empty(1)


def repeat(act: Callable[[], object], n: int) -> dict[str, Any]:
    """Do something n times; return by how much each count, and the resident memory, has changed."""
    for _ in range(200):
        act()
    settle()
    before, resident, start = counts(), rss(), time.perf_counter()
    for _ in range(n):
        act()
    seconds = time.perf_counter() - start
    settle()
    after = counts()
    changed = {name: after[name] - before[name] for name in before if after[name] != before[name]}
    return {"times": n, "changed": changed, "rss": rss() - resident, "ns": seconds / n * 1e9}


def main(n: int) -> None:
    peers()
    gc.collect()
    gc.freeze()  # what was imported need not be looked at again and again
    print(json.dumps({name: repeat(act, n // parts) for name, (act, parts) in LOOPS.items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
