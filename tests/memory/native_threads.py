# mypy: ignore-errors
"""Threads that Python never saw, which call deleters: machine code by the library's own compiler, so none is needed."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from ctypes import Structure, c_int, c_int64, c_void_p
from ctypes import c_void_p as word
from typing import Any

from nbdlpack.native.abi import DLManagedTensorVersioned, longs, words
from nbdlpack.native.compiler import atomic_load, atomic_store, compile_functions, extern, immortal

usleep = extern("usleep", c_int, c_int)
sched_yield = extern("sched_yield", c_int)
pthread_mutex_lock = extern("pthread_mutex_lock", c_int, word)
pthread_mutex_unlock = extern("pthread_mutex_unlock", c_int, word)


class Job(Structure):
    """What a thread is to do; it is filled in before the thread begins."""

    _fields_ = [
        ("items", words),  # managed tensors, all of one kind
        ("n", c_int64),
        ("mutex", word),
        ("delay", c_int64),  # in microseconds: before the first, while the mutex is held, and between any two
        ("ready", c_int64),
        ("done", c_int64),  # how many
        ("gate", word),  # of a number that is 0 until all may begin, or 0
    ]


# Compiled, never run as Python: see nbdlpack.native.compiler.


def drop_each(job: Job) -> word:
    """Call the deleter of each managed tensor."""
    if job.gate:
        while not atomic_load(longs(job.gate)[0]):
            sched_yield()
    for i in range(job.n):
        managed = DLManagedTensorVersioned(job.items[i])
        managed.deleter(managed)
        atomic_store(job.done, i + 1)
        if job.delay:
            usleep(job.delay)
    return 0


def drop_each_holding(job: Job) -> word:
    """Do so while holding a mutex, after time for somebody else to wait for it."""
    pthread_mutex_lock(job.mutex)
    atomic_store(job.ready, 1)
    usleep(job.delay)
    for i in range(job.n):
        managed = DLManagedTensorVersioned(job.items[i])
        managed.deleter(managed)
    atomic_store(job.done, job.n)
    pthread_mutex_unlock(job.mutex)
    return 0


code = compile_functions([drop_each, drop_each_holding])
libc = ctypes.CDLL(None)
libc.pthread_create.argtypes = [c_void_p] * 4
libc.pthread_join.argtypes = [c_void_p, c_void_p]
holding_gil = ctypes.PyDLL(None)
holding_gil.pthread_mutex_lock.argtypes = holding_gil.pthread_mutex_unlock.argtypes = [c_void_p]


class Mutex:
    """A mutex of C's, which the thread that waits for it waits for with the GIL held."""

    def __init__(self) -> None:
        self.memory = (c_int64 * 16)()
        self.address = ctypes.addressof(self.memory)
        libc.pthread_mutex_init(c_void_p(self.address), None)

    def __enter__(self) -> None:
        holding_gil.pthread_mutex_lock(self.address)

    def __exit__(self, *error: object) -> None:
        holding_gil.pthread_mutex_unlock(self.address)


class Thread:
    """A thread that calls the deleters of managed tensors, started at once."""

    def __init__(self, managed: list[int], mutex: Mutex | None = None, delay: int = 0, gate: int = 0) -> None:
        self.items = (c_void_p * len(managed))(*managed)
        self.job = Job(self.items, len(managed), mutex.address if mutex else None, delay, gate=gate)
        self.thread = c_void_p()
        function = code["drop_each_holding" if mutex else "drop_each"]
        failed = libc.pthread_create(ctypes.byref(self.thread), None, function, ctypes.addressof(self.job))
        assert not failed

    def wait_until_ready(self) -> None:
        while not self.job.ready:
            libc.sched_yield()

    def join(self) -> None:
        """Wait for its end, without the GIL."""
        libc.pthread_join(self.thread, None)
        assert self.job.done == self.job.n

    def abandon(self) -> None:
        """Let it run on while the interpreter ends."""
        immortal(self)


@contextmanager
def threads(*managed: list[int]) -> Any:
    """Let threads drop managed tensors, a list each and all at once, while a block of code runs."""
    gate = c_int64(0)
    running = [Thread(items, gate=ctypes.addressof(gate)) for items in managed]
    gate.value = 1
    try:
        yield
    finally:
        for thread in running:
            thread.join()
