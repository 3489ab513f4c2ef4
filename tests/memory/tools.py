"""What the memory tests look at arrays with, and how they run code in an interpreter of its own."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
import time
from ctypes import PYFUNCTYPE, c_char_p, c_int, c_void_p, py_object, pythonapi
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import native

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(nd.__file__).parents[1]
"""The folder that has the package under test, and these tests."""

FOREIGN, ESCAPED, OWN = 1, 2, 4
"""Flags of a block: someone else may write to it; its bare address is known; the memory is the library's own."""


class State(NamedTuple):
    """Which memory an array has, and who else has it."""

    address: int
    flags: int
    leases: int  # how many storages and dead storages' exports have the block
    exports: int  # how many live exports the array's own storage has
    writable: int  # and how many of them may write
    serial: int
    storage: int


def state(x: Any) -> State:
    found = State(*x._state())
    # The other flags are book-keeping: whether the block is in the table of exported ones, or has no array.
    return found._replace(flags=found.flags & (FOREIGN | ESCAPED | OWN))


def address(x: Any) -> int:
    return state(x).address


def leases(x: Any) -> int:
    return state(x).leases


def exports(x: Any) -> tuple[int, int]:
    """Return how many live exports there are of an array's storage, and how many of them may write."""
    return state(x)[3:5]


def same_storage(x: Any, y: Any) -> bool:
    return state(x).storage == state(y).storage


def values(x: Any) -> Any:
    """Return the values as nested lists, reading the memory where it is."""
    return x._host(0).tolist()


def numbers(n: int = 6, dtype: Any = "f8") -> Any:
    """Return an array 0, 1, 2 ... in memory of its own."""
    return nd.array(np.arange(n).astype(dtype))


class Counts(NamedTuple):
    """What is alive in the whole process."""

    blocks: int
    bytes: int
    pinned: int


def settled() -> Counts:
    """Return what is alive once everything that ended has been let go of."""
    nd.empty(1)  # what waits for Python is drained by whoever allocates
    return Counts(native.world.blocks, native.world.bytes, native.world.pinned)


def moves() -> int:
    return int(native.world.moves)


def rss() -> int:
    """Return how many bytes of memory the process has resident."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def optional(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed")


# ---- capsules by hand ------------------------------------------------------------------------------------------------

VERSIONED, USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"
LEGACY, USED_LEGACY = b"dltensor", b"used_dltensor"
_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
_rename = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", pythonapi))
# In DLManagedTensorVersioned and in DLManagedTensor, https://github.com/dmlc/dlpack/blob/v1.3/include/dlpack/dlpack.h
DELETER = {VERSIONED: 16, LEGACY: 56}
FLAGS = 24


def pointer(capsule: Any, name: bytes) -> int:
    """Return the address of the managed tensor in a capsule."""
    found = _pointer(capsule, name)
    assert found
    return int(found)


def take(x: Any, name: bytes = VERSIONED) -> int:
    """Consume an export of x as a consumer in C does; return the managed tensor, for `delete` to be called with."""
    capsule = x.__dlpack__(max_version=(1, 3)) if name == VERSIONED else x.__dlpack__()
    managed = pointer(capsule, name)
    _rename(capsule, USED_VERSIONED if name == VERSIONED else USED_LEGACY)
    return managed


def deleter(managed: int, name: bytes = VERSIONED) -> int:
    """Return the address of a managed tensor's deleter."""
    found = c_void_p.from_address(managed + DELETER[name]).value
    assert found
    return found


def delete(managed: int, name: bytes = VERSIONED) -> None:
    """Call a managed tensor's deleter, without the GIL."""
    ctypes.CFUNCTYPE(None, c_void_p)(deleter(managed, name))(managed)


class ExchangeAPI(ctypes.Structure):
    """DLPackExchangeAPI of the same header."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("export", c_void_p),
        ("import_", c_void_p),
        ("view", c_void_p),
        ("stream", c_void_p),
    )


def exchange_api(cls: Any) -> ExchangeAPI:
    return ExchangeAPI.from_address(pointer(cls.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


# ---- interpreters of their own ---------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """How an interpreter ended."""

    code: int
    out: str
    err: str


def python(program: str, *arguments: object, timeout: float = 300, **environment: str) -> Ended:
    """Run a program in an interpreter of its own, that finds this package and these tests."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1", **environment}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def succeeds(program: str, *arguments: object, timeout: float = 300, **environment: str) -> str:
    """Run a program in an interpreter of its own, that must end well; return what it printed."""
    ended = python(program, *arguments, timeout=timeout, **environment)
    assert ended.code == 0, f"exit code {ended.code}\n{ended.out[-2000:]}\n{ended.err[-4000:]}"
    return ended.out


def report(program: str, *arguments: object, timeout: float = 300, **environment: str) -> Any:
    """Run a program that prints JSON as its last line; return that."""
    return json.loads(succeeds(program, *arguments, timeout=timeout, **environment).splitlines()[-1])


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Wait until something is so; return whether it became so in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


# ---- a producer by hand ----------------------------------------------------------------------------------------------

_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_new_capsule = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", pythonapi))


class Producer:
    """An exporter of float64, whose every field can be set and whose deleter is Python and counts its calls."""

    def __init__(self, n: int = 4, *, versioned: bool = True, **fields: Any) -> None:
        self.name = VERSIONED if versioned else LEGACY
        self.memory = (ctypes.c_double * n)(*range(n))
        self.shape, self.strides = (ctypes.c_int64 * 1)(n), (ctypes.c_int64 * 1)(1)
        self.deleted: list[int] = []
        self.keep = _Deleter(self.deleted.append)
        given: dict[str, Any] = {
            "major": 1,
            "minor": 3,
            "context": 0,
            "deleter": ctypes.cast(self.keep, c_void_p).value,
            "flags": 0,
            "data": ctypes.addressof(self.memory),
            "device_type": 1,
            "device_id": 0,
            "ndim": 1,
            "code": 2,
            "bits": 64,
            "lanes": 1,
            "shape": ctypes.addressof(self.shape),
            "strides": ctypes.addressof(self.strides),
            "byte_offset": 0,
        }
        assert fields.keys() <= given.keys()
        given |= fields
        words = struct.Struct("=QiiiBBHQQQ")
        tensor = words.pack(
            given["data"], given["device_type"], given["device_id"], given["ndim"], given["code"], given["bits"],
            given["lanes"], given["shape"], given["strides"], given["byte_offset"],
        )  # fmt: skip
        head = struct.pack("=IIQQQ", *(given[name] for name in ("major", "minor", "context", "deleter", "flags")))
        tail = struct.pack("=QQ", given["context"], given["deleter"])
        self.managed = ctypes.create_string_buffer(head + tensor if versioned else tensor + tail)

    def capsule(self) -> Any:
        return _new_capsule(ctypes.addressof(self.managed), self.name, None)

    def __dlpack__(self, **options: object) -> Any:
        return self.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)
