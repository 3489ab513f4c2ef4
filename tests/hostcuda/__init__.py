"""A CUDA driver for machines without a GPU, for tests: see README.md."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter

from tests.hostcuda.building import HERE, Unavailable, load, loaded, why_not

__all__ = [
    "MODES",
    "Unavailable",
    "clear_error",
    "clear_fail_alloc",
    "compiled",
    "drain",
    "fail_alloc",
    "get",
    "install",
    "installed",
    "last_error",
    "option",
    "python",
    "reset_stats",
    "set",
    "stats",
    "why_not",
]

MODES = tuple(
    f"{stream}/{order}"
    for stream in ("sync", "lazy", "reverse", "random:1", "random:2")
    for order in ("forward", "reverse")
)
"""The stream modes, each with an order of threads: what `use_mode` takes."""


def install() -> None:
    """Load the driver and see to it that numba-cuda compiles for it; raises `Unavailable` if it cannot be had."""
    if not installed():
        from tests.hostcuda.hooks import hook_imports

        load()
        hook_imports()


def installed() -> bool:
    """Return whether the driver is in this process."""
    try:
        return bool(loaded())
    except Unavailable:
        return False


# ------------------------------------------------------------------------------------------------------------ counters
_compiled: Counter[str] = Counter()


def note_compiled(texts: list[str]) -> None:
    """Count a kernel that Numba has compiled, given as IR."""
    nameless = re.sub(r'"_ZN[^"]*"|^;.*$', "", "".join(texts), flags=re.MULTILINE)  # names have numbers that grow
    _compiled[hashlib.sha256(nameless.encode()).hexdigest()] += 1


def compiled() -> dict[str, int]:
    """Return how often Numba has compiled each kernel in this process, by a digest of its code."""
    return dict(_compiled)


def _tally(which: int) -> dict[str, int]:
    out: dict[str, int] = {}
    node = loaded().hostcuda_tally(which)
    while node:
        name = re.sub(r"_v\d$", "", node[0].name.decode())
        if node[0].n:
            out[name] = out.get(name, 0) + node[0].n
        node = node[0].next
    return out


def stats(*, names: bool = False) -> dict[str, int]:
    """Return the driver's counters; with names also "calls" of the driver and "kernels" launched, by name."""
    values, keys = loaded().hostcuda_stats(), loaded().hostcuda_names().decode().split()
    out = {key: values[i] for i, key in enumerate(keys)}
    out["syncs"] = out["stream_syncs"] + out["context_syncs"] + out["event_syncs"]
    out["compiled"] = len(_compiled)
    if names:
        out["calls"], out["kernels"] = _tally(0), _tally(1)
    return out


def reset_stats() -> None:
    """Count from zero; what counts things that exist (live, streams, pending ...), or were compiled, stays."""
    loaded().hostcuda_reset_stats()


def last_error() -> str:
    """Return what the driver complained about last: illegal addresses, overruns, deadlocks, bad pointers."""
    return loaded().hostcuda_last_error().decode()


# -------------------------------------------------------------------------------------------------------------- faults
def fail_alloc(n: int, count: int = 1) -> None:
    """Let allocations fail: the n-th from now and the count - 1 after it; count 0: all from the n-th on.

    Device, managed, pinned and stream-ordered allocations count.  A new call replaces the one before.
    """
    if n < 1 or count < 0:
        msg = f"n counts from 1, and count is not negative; got {n} and {count}"
        raise ValueError(msg)
    loaded().hostcuda_fail_alloc(n, count)


def clear_fail_alloc() -> None:
    """No more allocations fail on purpose."""
    loaded().hostcuda_fail_alloc(0, 0)


def clear_error() -> None:
    """Forget sticky errors and drop open captures, as no real driver can: for tests that cause them."""
    loaded().hostcuda_clear_error()


def drain() -> None:
    """Do all pending work, without counting as a synchronisation."""
    loaded().hostcuda_drain()


# ------------------------------------------------------------------------------------------------------------- options
def _key(name: str) -> bytes:
    return f"HOSTCUDA_{name.upper()}".encode()


def _unknown(name: str) -> ValueError:
    return ValueError(f"option {name!r} can't be changed while running")


def set(name: str, value: object) -> None:
    """Change an option (async, order, seed, protect, poison, reuse_streams ...) when all pending work is done."""
    text = str(int(value) if isinstance(value, bool) else value)
    if not loaded().hostcuda_set(_key(name), text.encode()):
        raise _unknown(name)


def get(name: str) -> str:
    """Return the present value of an option that can be changed while running."""
    buffer = ctypes.create_string_buffer(64)
    if not loaded().hostcuda_get(_key(name), buffer, len(buffer)):
        raise _unknown(name)
    return buffer.value.decode()


@contextlib.contextmanager
def option(**options: object):
    """Set options for a with block, and put them back to what they were after it."""
    before = {name: get(name) for name in options} | {"seed": get("seed")}  # random:7 sets the seed as well
    try:
        for name, value in options.items():
            set(name, value)
        yield
    finally:
        for name, value in before.items():
            set(name, value)


def use_mode(mode: str):
    """Return `option` for a mode: of the streams, or of the streams / the order of threads, as in `MODES`."""
    stream, _, order = mode.partition("/")
    return option(**({"async": stream} if stream else {}) | ({"order": order} if order else {}))


# ----------------------------------------------------------------------------------------------------- other processes
def environment(**changes: str) -> dict[str, str]:
    """Return the environment in which every Python has the driver from its start."""
    paths = [str(HERE / "site"), str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]
    # What is compiled here is nothing for a GPU: it is kept out of the user's cache of kernels.
    own = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return {"NBDLPACK_CACHE_DIR": ""} | os.environ | own | changes


def python(*arguments: str, timeout: float = 300, **changes: str) -> str:
    """Run Python with the driver, in an environment with changes, and return what it prints.

    Fails with what was written to stderr.  ``python("-c", code, HOSTCUDA_DEVICES="3")``
    """
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=environment(**changes), capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
