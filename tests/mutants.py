"""Proves that the tests can fail: breaks the library in one place at a time, and runs the test that must then fail.

    python tests/mutants.py [--rule NUMBER] [--list]

Each row of `MUTANTS` names a rule of memory (see tests/memory/test_rules.py; others are named in words), a file, a text
that stands in it exactly once, what to put in its place, and a test.  The library is copied to temporary folders, one
for each core, and patched there.  First the tests are run unpatched, and must pass.

Exit status 0 if every mutant was found by its test, 1 if one was not, 2 if a row does not fit the library any more.
"""

from __future__ import annotations

import argparse
import os
import queue
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TRIES = 3
"""How often a test is run before its mutant counts as not found: a race of threads does not always show."""
SECONDS = 300
"""After which a test that runs is taken to hang, which is a way to fail."""


class Mutant(NamedTuple):
    """One way to break the library."""

    rule: int | str
    file: str
    text: str
    replacement: str
    test: str
    """A test file below tests/, and what to select there by pytest's -k."""


RULES = "memory/test_rules.py -k "
DLPACK = "cuda/test_dlpack.py -k "
CUDA_MEMORY, CUDA_STREAMS, CUDA_HOST, CUDA, CUDA_DRIVER = (
    f"nbdlpack/devices/cuda/{name}.py" for name in ("memory", "streams", "hostmemory", "__init__", "driver")
)
MEMORY, EXPORTS, IMPORTS, VIEWS = (f"nbdlpack/native/{name}.py" for name in ("memory", "exports", "imports", "views"))

MUTANTS = (
    # 1. a copy copies nothing where the array is all of its storage, in the order asked for
    Mutant(1, VIEWS, "live(lease) >> 32 == 0 and covers(self)", "live(lease) >> 32 == 0", RULES + "TestRule01"),
    Mutant(1, VIEWS, "if not block.flags & (FOREIGN | ESCAPED) and live", "if 0 and live", RULES + "TestRule01"),
    Mutant(1, "nbdlpack/shaping.py", "            if not fits:", "            if 0:", RULES + "TestRule01"),
    # 2. never where someone else may write
    Mutant(
        2, VIEWS, "(FOREIGN | ESCAPED) and live(lease) >> 32 == 0 and", "(FOREIGN | ESCAPED) and", RULES + "TestRule02"
    ),
    Mutant(
        2, VIEWS, "block.flags & (FOREIGN | ESCAPED) and live", "block.flags & ESCAPED and live", RULES + "TestRule02"
    ),
    Mutant(
        2, VIEWS, "block.flags & (FOREIGN | ESCAPED) and live", "block.flags & FOREIGN and live", RULES + "TestRule02"
    ),
    Mutant(2, VIEWS, "live(lease) >> 32 == 0 and", "live(lease) == 0 and", RULES + "TestRule02"),
    # 3. who writes is alone, or moves; what is overwritten is not copied first
    Mutant(3, MEMORY, "if shared(storage) and move(storage):", "if 0 and move(storage):", RULES + "TestRule03"),
    Mutant(3, MEMORY, "return 1 if atomic_load(block.leases) > 1 and not", "return 1 if not", RULES + "TestRule03"),
    Mutant(
        3,
        EXPORTS,
        "w.ended or storage.busy or weight == WRITE and Block(storage.lease.block).leases > 1:",
        "w.ended or storage.busy:",
        RULES + "TestRule03",
    ),
    Mutant(3, VIEWS, "    if shared(storage) and (not keep or", "    if 0 and (not keep or", RULES + "TestRule03"),
    Mutant(3, VIEWS, "    if not covers(self):\n        keep = 1\n", "", RULES + "TestRule03"),
    Mutant(3, VIEWS, "storage and args[2] != ZERO:", "storage:", RULES + "TestRule03"),
    Mutant(
        6,
        VIEWS,
        "        if block.flags & ESCAPED or live(old) >> 32:",
        "        if 0:",
        "native/test_native.py -k given_away",
    ),
    # 4. reading is nothing
    Mutant(
        4,
        EXPORTS,
        "        weight = READ  # who asks for bytes",
        "        pass  # who asks for bytes",
        RULES + "TestRule04",
    ),
    Mutant(
        4,
        EXPORTS,
        "how, weight = PyLong_AsLongLong(args[0]), READ\n",
        "how, weight = PyLong_AsLongLong(args[0]), WRITE\n",
        RULES + "TestRule04",
    ),
    # 5. an export keeps the lease
    Mutant(
        5, EXPORTS, "    count_export(lease, weight)\n    block.exported", "    block.exported", RULES + "TestRule05"
    ),
    Mutant(
        5,
        MEMORY,
        "if atomic_load(lease.count) == BIAS - made:  # no export",
        "if 1:  # no export",
        RULES + "TestRule05",
    ),
    Mutant(
        5,
        MEMORY,
        "    have(storage, block.first)\n    let_go(old)",
        "    memcpy(source.address, block.address, 1)\n    have(storage, block.first)\n    free(source.base)\n    let_go(old)",
        RULES + "TestRule05",
    ),
    # 6. exports are counted, an address is for ever
    Mutant(6, VIEWS, "        block.flags |= ESCAPED\n", "", RULES + "TestRule06"),
    Mutant(6, VIEWS, "            lease.made += READ\n", "", RULES + "TestRule06"),
    Mutant(6, MEMORY, "> 1 and not block.flags & ESCAPED else 0", "> 1 else 0", RULES + "TestRule06"),
    Mutant(
        6, "nbdlpack/native/exchange.py", "    if own(storage, FOR_DLPACK) == 0:", "    if 1:", RULES + "TestRule06"
    ),
    # 7. what was exported has a shape of its own
    Mutant(
        7,
        EXPORTS,
        "    for i in range(n):\n        tensor.shape[i], tensor.strides[i] = self.shape[i], self.strides[i]\n",
        "    tensor.shape, tensor.strides = self.shape, self.strides\n    for i in range(n):\n",
        RULES + "TestRule07",
    ),
    # 8. where memory runs out everything is as it was
    Mutant(
        8,
        MEMORY,
        "    block = Block(allocate_like(source))\n    if block == 0:\n        return -1\n",
        "    block = Block(allocate_like(source))\n    if block == 0:\n        let_go(old)\n        return -1\n",
        RULES + "TestRule08",
    ),
    Mutant(
        8,
        VIEWS,
        "    if own(self.storage, cause):\n        leave(self.storage)\n",
        "    if own(self.storage, cause):\n",
        RULES + "TestRule08",
    ),
    Mutant(
        8,
        EXPORTS,
        "    if prepare(self, weight, FOR_BUFFER):\n        free(room)\n        return -1\n    lease, length",
        "    if prepare(self, weight, FOR_BUFFER):\n        PyErr_Clear()\n    lease, length",
        RULES + "TestRule08",
    ),
    Mutant(
        8,
        MEMORY,
        "    else:\n        abandon(lease)\n        PyErr_NoMemory()\n    return self",
        "    else:\n        PyErr_NoMemory()\n    return self",
        "memory/test_allocation.py",
    ),
    # 9. read-only is sticky
    Mutant(
        9,
        "nbdlpack/indexing.py",
        "return x._view(type(x), offset * x.itemsize, x.dtype, x._flags,",
        "return x._view(type(x), offset * x.itemsize, x.dtype, 0,",
        RULES + "TestRule09",
    ),
    Mutant(
        9,
        "nbdlpack/shaping.py",
        "self.dtype, self._flags if flags is None else flags, shape",
        "self.dtype, 0, shape",
        RULES + "TestRule09",
    ),
    Mutant(9, EXPORTS, "flags | (0 if weight == WRITE else READ_ONLY)", "flags", RULES + "TestRule09"),
    Mutant(
        9,
        VIEWS,
        "    if self.flags & READ_ONLY:\n        PyErr_SetString",
        "    if 0:\n        PyErr_SetString",
        RULES + "TestRule09",
    ),
    # 10. our own memory comes home
    Mutant(10, MEMORY, "while w.table[i - 1] != block:", "while 0:", "memory/test_lifetime.py -k one_address"),
    Mutant(
        10,
        MEMORY,
        "    if block.size and w.n < w.room:",
        "    if w.n < w.room:",
        "memory/test_lifetime.py -k no_address",
    ),
    Mutant(
        10,
        IMPORTS,
        "    if block.leases > 1 or (exports & 0xFFFFFFFF) != exports >> 32:",
        "    if 0:",
        RULES + "TestRule10",
    ),
    Mutant(10, IMPORTS, "    if w.n and tensor.data:", "    if 0:", RULES + "TestRule10"),
    Mutant(10, IMPORTS, "    if storage:\n        storage.arrays += 1\n    else:", "    if 1:", RULES + "TestRule10"),
    Mutant(10, IMPORTS, "        lease.made = 0\n        atomic_add", "        atomic_add", RULES + "TestRule10"),
    Mutant(
        10,
        IMPORTS,
        "    if Descriptor(mine).weight == READ:\n        flags |= READ_ONLY\n",
        "",
        RULES + "TestRule10 or TestRule09",
    ),
    Mutant(10, EXPORTS, "    if not block.flags & (FOREIGN | LISTED):", "    if 0:", RULES + "TestRule10"),
    Mutant(10, IMPORTS, "0 if flags & IS_COPIED else FOREIGN", "FOREIGN", RULES + "TestRule10"),
    # 11. threads
    Mutant(
        11,
        MEMORY,
        "        while not compare_exchange(storage.busy, 0, 1):\n            wait()\n",
        "        storage.busy = 1\n",
        RULES + "TestRule11",
    ),
    Mutant(
        11, VIEWS, "    enter(storage)\n    lease, n =", "    storage.busy += 1\n    lease, n =", RULES + "TestRule11"
    ),
    Mutant(11, MEMORY, "    if storage.holder != me or storage.busy == 0:", "    if 1:", RULES + "write_again"),
    Mutant(
        11,
        VIEWS,
        '    """_begin_read()"""\n    enter(self.storage)',
        '    """_begin_read()"""\n    self.storage.busy += 1',
        RULES + "TestRule11",
    ),
    Mutant(
        11,
        MEMORY,
        "    if source.size >= LARGE:\n",
        "    have(storage, block.first)\n    if source.size >= LARGE:\n",
        "memory/test_threads.py -k half_done",
    ),
    # 12. operands are as if read first
    Mutant(
        12,
        "nbdlpack/devices/cpu.py",
        "        target._host(1)[...] = read(value)",
        "        t = target._host(1)\n        v = np.broadcast_to(read(value), t.shape)\n"
        "        for i in np.ndindex(t.shape):\n            t[i] = v[i]",
        RULES + "TestRule12",
    ),
    # deleters, from any thread
    Mutant(
        "deleters",
        EXPORTS,
        "def delete_versioned(managed: DLManagedTensorVersioned):\n    drop(managed.context)",
        "def delete_versioned(managed: DLManagedTensorVersioned):\n    free(0)",
        RULES + "ends_once",
    ),
    Mutant(
        "deleters",
        EXPORTS,
        "    let_export_go(lease, weight)\n\n\n@hot\ndef delete_versioned",
        "    free(0)\n\n\n@hot\ndef delete_versioned",
        RULES + "ends_once",
    ),
    Mutant(
        "deleters",
        EXPORTS,
        "    if PyCapsule_IsValid(capsule, VERSIONED):\n        drop(",
        "    if 1:\n        drop(",
        "memory/test_lifetime.py -k TestCapsules",
    ),
    Mutant(
        "deleters",
        EXPORTS,
        "    if atomic_add(descriptor.count, -1) == 1:\n        free(descriptor)\n",
        "    atomic_add(descriptor.count, -1)\n",
        "memory/test_lifetime.py -k leave_no_trace",
    ),
    Mutant(
        "deleters",
        MEMORY,
        "    if atomic_add(lease.count, -weight) == weight:",
        "    lease.count -= weight\n    if lease.count == 0:",
        "memory/test_lifetime.py -k at_once",
    ),
    Mutant(
        "deleters",
        MEMORY,
        "    if PyErr_Occurred():\n        error = stack",
        "    if 0:\n        error = stack",
        "memory/test_lifetime.py -k survives",
    ),
    # what waits for Python
    Mutant(
        "the list",
        MEMORY,
        "    if not here and (lease.owner or block.release):",
        "    if 0:",
        "memory/test_lifetime.py -k TestThreads",
    ),
    Mutant(
        "the list",
        MEMORY,
        "        if Py_AddPendingCall(drain, 0):",
        "        if 1:",
        "memory/test_lifetime.py -k TestThreads",
    ),
    Mutant(
        "the list",
        VIEWS,
        "    if w.ended:\n        drain(0)\n    enter(self.storage)",
        "    enter(self.storage)",
        "memory/test_lifetime.py -k waits_for_python",
    ),
    # what the collector sees
    Mutant(
        "the collector", MEMORY, "if lease and live(lease) == 0 and visit", "if lease and visit", "memory/test_gc.py"
    ),
    Mutant("the collector", MEMORY, "if lease and live(lease) == 0 and visit", "if 0 and visit", "memory/test_gc.py"),
    # what is told of copies
    Mutant("the log", MEMORY, "    if shared(storage) and w.watchers:", "    if 0:", "memory/test_copy_log.py"),
    Mutant(
        "the log",
        "nbdlpack/storage.py",
        "    if forbidden and not asked:",
        "    if forbidden:",
        "memory/test_copy_log.py",
    ),
    # streams: who waits for whom when arrays come in and go out
    Mutant(
        "streams",
        "nbdlpack/dlpack/consumer.py",
        "        native.watch.imported(memory, stream)\n",
        "        pass\n",
        DLPACK + "default_one",
    ),
    Mutant(
        "streams",
        "nbdlpack/dlpack/consumer.py",
        '                wanted["stream"] = stream\n',
        '                wanted["stream"] = -1\n',
        DLPACK + "told_our_stream",
    ),
    Mutant(
        "streams",
        "nbdlpack/native/imports.py",
        "        return arrived(self, work_stream(api, kind, number))",
        "        return self",
        DLPACK + "producers_table",
    ),
    Mutant(
        "streams",
        "nbdlpack/dlpack/producer.py",
        "        device.export_on(x, number)\n        return x._capsule(versioned, 0)",
        "        return x._capsule(versioned, 0)",
        DLPACK + "consumers_stream",
    ),
    Mutant(
        "streams",
        "nbdlpack/dlpack/producer.py",
        "storage.reading(x) if x._flags else storage.writing(x, native.FOR_DLPACK):",
        "storage.reading(x):",
        DLPACK + "waits_for_the_move",
    ),
    Mutant(
        "streams",
        "nbdlpack/native/exchange.py",
        "    if failed or tell_device(storage.lease.block, EXPORTING, 0):",
        "    if failed:",
        DLPACK + "by_the_table",
    ),
    Mutant(
        "streams",
        VIEWS,
        "        leave(storage)\n        if block.flags & DEVICE and tell_device(block, EXPORTING, 0):\n            return 0\n",
        "        leave(storage)\n",
        DLPACK + "names_a_stream",
    ),
    Mutant(
        "streams",
        VIEWS,
        "        if not block.flags & ESCAPED and (not kept or kept.lease != lease):\n",
        "        if 0:\n",
        DLPACK + "outlives_a_move",
    ),
    Mutant(
        "streams",
        "nbdlpack/devices/cuda/interface.py",
        "        native.watch.imported(memory, stream)\n",
        "        pass\n",
        DLPACK + "interface_comes_in",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "                if memory.writer is not stream:\n                    memory.before_read(stream)\n",
        "                pass\n",
        "cuda/test_streams.py -k a_read_waits_for_a_write and lazy",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "                if memory.writer is not stream or memory.readers:\n                    memory.before_write(stream)\n",
        "                pass\n",
        "cuda/test_streams.py -k a_write_waits_for_a_write and (lazy or reverse)",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "        self.before_read(stream)\n        for reader, n in list(self.readers.items()):\n            stream._wait_for(reader, n)\n",
        "        self.before_read(stream)\n",
        "cuda/test_streams.py -k a_write_waits_for_two_reads and (lazy or reverse)",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "        self.before_read(stream)\n        for reader",
        "        for reader",
        "cuda/test_streams.py -k a_write_waits_for_a_write and (lazy or reverse)",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "            stream._wait_for(reader, n)\n\n    def after_write",
        "            stream._wait_for(reader, n)\n            break\n\n    def after_write",
        "cuda/test_streams.py -k a_write_waits_for_two_reads and (lazy or reverse)",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "                readers[stream] = n\n                if len",
        "                if not readers:\n                    readers[stream] = n\n                if len",
        "cuda/test_streams.py -k a_write_waits_for_two_reads and (lazy or reverse)",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "            if self._entered:\n                self._gpu.leave()\n\n\n# -- alloc",
        "            pass\n\n\n# -- alloc",
        "cuda/test_streams.py -k a_thread_without or other_device_current",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "        if other is not self and other._completed < n and self._waited.get(other._serial, 0) < n:",
        "        if 0:",
        "cuda/test_streams.py -k a_read_waits_for_a_write and lazy",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "self._waited.get(other._serial, 0) < n:\n            self._order",
        "not self._waited.get(other._serial, 0):\n            self._order",
        "cuda/test_streams.py -k who_has_waited_once and (lazy or reverse)",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "            check(driver.cu.cuStreamWaitEvent(self._handle, event, 0))\n        self._note(other, other._edged if other._owned else other._submitted)",
        "            pass\n        self._note(other, other._edged if other._owned else other._submitted)",
        "cuda/test_streams.py -k a_read_waits_for_a_write and lazy",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "        if other._owned and other._edged < n:\n            other._record()\n        event",
        "        if other._owned and not other._edged:\n            other._record()\n        event",
        "cuda/test_streams.py -k who_has_waited_once and (lazy or reverse)",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "        if not self._owned:\n            with _ordering:\n                self._take_down()\n        return n",
        "        return n",
        "cuda/test_streams.py -k a_read_waits_for_a_write and lazy",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "            self._captured = (0, None)\n        self._record()",
        "            self._captured = (0, None)\n        if self._edge is None:\n            self._record()",
        "cuda/test_streams.py -k who_has_waited_once and lazy",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "        theirs = other._capture() if other._owned else mine and other._captured[0]",
        "        theirs = 0",
        "cuda/test_streams.py -k TestCapture and (two_streams or does_not_wait)",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "    stream = background(gpu)\n    for user, n in memory.uses():\n        stream._wait_for(user, n)\n    return stream",
        "    return background(gpu)",
        "cuda/test_memory.py -k GivingBack and (reader or writer)",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "        only = users.pop() if len(users) == 1 else None if users else only",
        "        only = users.pop() if users else only",
        "cuda/test_memory.py -k GivingBack and readers",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "    if memory.readers:\n        users = {stream",
        "    if 0:\n        users = {stream",
        "cuda/test_memory.py -k GivingBack and reader",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "            elif memory.exported:\n                exported.append(memory)\n",
        "",
        "cuda/test_memory.py -k GivingBack and (consumer or address)",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "        return not (self.readers or self.exported)",
        "        return not self.readers",
        "cuda/test_memory.py -k GivingBack and (consumer or address)",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "        return not (self.readers or self.exported)",
        "        return not self.exported",
        "cuda/test_memory.py -k GivingBack and reader",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "        check(driver.cu.cuStreamWaitEvent(stream._handle, everything.event, 0))",
        "        pass",
        "cuda/test_memory.py -k GivingBack and (consumer or address)",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "            for user, n in memory.uses():\n                stream._wait_for(user, n)\n            memory.free(stream)",
        "            memory.free(stream)",
        "cuda/test_memory.py -k copy_to_another_device",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "        return all(stream._has_done(n) for stream, n in self.memory.uses())",
        "        return True",
        "cuda/test_memory.py -k others_is_let_go or source_lives",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "        if self.everything is not None and not self.everything.done():\n            return False\n",
        "",
        "cuda/test_memory.py -k kept_for_a_consumer",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "    memory.exported = True\n",
        "",
        "cuda/test_memory.py -k GivingBack and (consumer or address)",
    ),
    Mutant(
        "release",
        CUDA_HOST,
        "        owner.exported = True",
        "        pass",
        "cuda/test_memory.py -k kept_for_a_consumer",
    ),
    Mutant(
        "release",
        CUDA_STREAMS,
        "        if self._owned and self._number != LEGACY_STREAM:\n            gpu.handles",
        "        if 0:\n            gpu.handles",
        "cuda/test_streams.py -k ends_with_its_last",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "    memory.writer, memory.written = stream, stream._submit()\n    if zeros",
        "    if zeros",
        "cuda/test_streams.py -k only_once_it_is_allocated or zeros_are",
    ),
    Mutant(
        "import",
        CUDA_MEMORY,
        "    if source is not stream:\n        stream._wait_for(source, source._submit())\n",
        "",
        "cuda/test_streams.py -k ComingIn and lazy",
    ),
    Mutant(
        "import",
        CUDA_MEMORY,
        "    memory.before_write(stream)\n    if source",
        "    if source",
        "cuda/test_streams.py -k ComingIn and lazy",
    ),
    Mutant(
        "import",
        CUDA_MEMORY,
        "    memory.after_write(stream, stream._submit())\n\n\ndef leaving",
        "    pass\n\n\ndef leaving",
        "cuda/test_streams.py -k ComingIn and lazy",
    ),
    Mutant(
        "export",
        CUDA_MEMORY,
        "    if writing:\n        memory.before_write(stream)\n    else:\n        memory.before_read(stream)\n    memory.exp",
        "    memory.exp",
        "cuda/test_streams.py -k GoingOut",
    ),
    Mutant(
        "export",
        CUDA_MEMORY,
        "    if writing:\n        memory.before_write(stream)\n    else:\n        memory.before_read(stream)\n    memory.exp",
        "    memory.before_read(stream)\n    memory.exp",
        "cuda/test_streams.py -k GoingOut",
    ),
    Mutant(
        "export",
        CUDA,
        "LEGACY_STREAM if stream is None else stream)\n                self",
        "streams.current(gpu).handle)\n                self",
        "cuda/test_dlpack.py -k export_is_ready and (lazy or reverse)",
    ),
    Mutant(
        "pinned",
        CUDA_HOST,
        "        owner.finish(writing=writing)\n\n    def copy_block",
        "        pass\n\n    def copy_block",
        "cuda/test_memory.py -k cuda_host and (reading_waits or writing_waits)",
    ),
    Mutant(
        "pinned",
        CUDA_MEMORY,
        "        for reader, n in list(self.readers.items()) if writing else ():",
        "        for reader, n in ():",
        "cuda/test_memory.py -k writing_waits",
    ),
    Mutant(
        "pinned",
        CUDA_MEMORY,
        "            self.writer._finish(self.written)",
        "            pass",
        "cuda/test_memory.py -k reading_waits",
    ),
    Mutant(
        "pinned",
        CUDA_STREAMS,
        "            error = 0 if event is None else driver.cu.cuEventSynchronize(event)[0]",
        "            error = 0",
        "cuda/test_memory.py -k reading_waits or writing_waits",
    ),
    Mutant(
        "pinned",
        CUDA_HOST,
        "        self.wait(owner, writing=writing)  # the",
        "        pass  # the",
        "cuda/test_memory.py -k numpy_is_given",
    ),
    Mutant(
        "pinned", CUDA_HOST, "        self.wait(source, writing=False)\n", "", "cuda/test_memory.py -k a_move_waits"
    ),
    Mutant(
        "pinned",
        CUDA_HOST,
        "        if _can_share",
        "        if 1 or _can_share",
        "cuda/test_memory.py -k cannot_share",
    ),
    Mutant(
        "pinned", CUDA, "        if _is_registered(source):", "        if 0:", "cuda/test_memory.py -k uploaded_may_be"
    ),
    Mutant(
        "pinned",
        CUDA,
        "a.nbytes, stream._handle))\n        stream.synchronize()\n\n    def copy_memory",
        "a.nbytes, stream._handle))\n\n    def copy_memory",
        "cuda/test_memory.py -k downloaded_is_there",
    ),
    Mutant(
        "pinned",
        CUDA_HOST,
        "            with Access(source.gpu, (x._memory(),), (new._memory(),)) as stream:\n",
        "            with source.gpu.current():\n                stream = streams.current(source.gpu)\n",
        "cuda/test_memory.py -k copies_there or reading_waits",
    ),
    Mutant(
        "devices",
        CUDA,
        "        with self.accessing((x,), (new,)):\n            to, of",
        "        with self.accessing((), (new,)):\n            to, of",
        "cuda/test_streams.py -k between_devices",
    ),
    Mutant(
        "moves",
        CUDA,
        "        with Access(self.gpu, (source,), (target,)):",
        "        with Access(self.gpu, (), (target,)):",
        "cuda/test_streams.py -k last_owner",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "            check(driver.cu.cuStreamSynchronize(here._handle))",
        "            pass",
        "cuda/test_streams.py -k TestWaiting",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "            check(driver.cu.cuStreamWaitEvent(self._handle, event, 0))\n            if source",
        "            if source",
        "cuda/test_streams.py -k TestWaiting",
    ),
    Mutant(
        "streams",
        CUDA_MEMORY,
        "        check(driver.cu.cuCtxSynchronize())",
        "        pass",
        "cuda/test_streams.py -k TestWaiting",
    ),
    Mutant(
        "fork",
        CUDA_DRIVER,
        "        if _state.forked:\n            refuse()\n        if cu.cu",
        "        if cu.cu",
        "cuda/test_memory.py -k forked_child",
    ),
    Mutant("end", CUDA_DRIVER, "    _state.ending = True", "    pass", "cuda/test_memory.py -k interpreter_ends"),
    Mutant(
        "capture",
        CUDA_MEMORY,
        '        stream._refuse_capture("memory',
        '        len("memory',
        "cuda/test_streams.py -k TestCapture and allocates",
    ),
    Mutant(
        "capture",
        CUDA_MEMORY,
        "    if stream is not gpu.default and stream._capture():\n        return\n",
        "",
        "cuda/test_streams.py -k TestCapture and given_back",
    ),
    Mutant(
        "release",
        CUDA_MEMORY,
        "                if stream._has_done(n):\n                    now",
        "                if 1:\n                    now",
        "cuda/test_streams.py -k still_read_are_not",
    ),
    Mutant(
        "release",
        CUDA_STREAMS,
        "                    if error == driver.cu.CUresult.CUDA_ERROR_NOT_READY:\n                        return False\n                    check((error,))\n                    self._gpu",
        "                    self._gpu",
        "cuda/test_memory.py -k others_is_let_go",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "            if source is not self and not self._capture():\n                self._note(source, n)",
        "            self._note(source, n)",
        "cuda/test_streams.py -k TestCapture and not_to_have_waited",
    ),
    Mutant(
        "capture",
        CUDA_STREAMS,
        "                    if not other._has_done(n):\n                        driver.refuse_capture",
        "                    if 0:\n                        driver.refuse_capture",
        "cuda/test_streams.py -k TestCapture and outside_is_refused",
    ),
    Mutant(
        "capture",
        CUDA_STREAMS,
        "            elif theirs:\n                driver.refuse",
        "            elif 0:\n                driver.refuse",
        "cuda/test_streams.py -k TestCapture and does_not_wait",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "        set_current(gpu, previous)\n",
        "        pass\n",
        "cuda/test_streams.py -k TestCurrent",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "    native.set_current_stream(gpu.index, 0 if stream is gpu.default else stream._number)",
        "    pass",
        "cuda/test_streams.py -k TestCurrent",
    ),
    Mutant(
        "streams",
        CUDA_STREAMS,
        "        set_current(gpu, mine)\n",
        "        set_current(gpu, self)\n",
        "cuda/test_streams.py -k TestCurrent",
    ),
    # each check of nbdlpack.conformance, by a library made for that: tests/conformance/test_broken.py is quicker
    *[
        Mutant(
            "conformance",
            f"tests/conformance/{row.file}",
            row.text,
            row.replacement,
            f"conformance/test_checks.py -k {row.variant}-{row.check}",
        )
        for row in runpy.run_path(str(ROOT / "tests/conformance/broken.py"))["ROWS"]
    ],
)


def patched(mutant: Mutant, folder: Path) -> str:
    """Return a file's text as a mutant has it; raise ValueError if it does not fit."""
    text = (folder / mutant.file).read_text()
    found = text.count(mutant.text)
    if found != 1:
        msg = f"rule {mutant.rule}: the text stands in {mutant.file} {found} times, not once: {mutant.text!r}"
        raise ValueError(msg)
    return text.replace(mutant.text, mutant.replacement)


def copy_to(folder: Path) -> None:
    for name in ("nbdlpack", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def run(folder: Path, *tests: str) -> tuple[int, str]:
    """Run tests in a copy of the library; return pytest's exit status (or minus a signal's number) and the output."""
    arguments = [part for test in tests for part in split(test)]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=line", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # with what the tests have started
        output, _ = process.communicate()
        return -9, output
    return process.returncode, output


def split(test: str) -> list[str]:
    file, _, selection = test.partition(" -k ")
    return [f"tests/{file}", *(["-k", selection] if selection else [])]


def where_it_is(folder: Path) -> Path:
    """Return the folder of the library that tests run in a folder would import."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", "import nbdlpack; print(nbdlpack.__path__[0])"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def verdict(status: int) -> str:
    """Return what a test's exit status says of a mutant: "found", "NOT FOUND", or what is wrong with the run."""
    if status == 0:
        return "NOT FOUND"
    if status == 1:
        return "found"
    if status < 0:
        return "found, by a crash" if status != -9 else "found, it hangs"
    return f"ERROR: pytest ended with status {status}"


def unpatched(copies: queue.SimpleQueue[Path], test: str) -> tuple[int, str]:
    """Run a test in one of the copies of the library."""
    folder = copies.get()
    try:
        return run(folder, test)
    finally:
        copies.put(folder)


def judged(copies: queue.SimpleQueue[Path], mutant: Mutant) -> tuple[str, str, float]:
    """Break one of the copies of the library; return what becomes of it, the test's output, and how long it took."""
    folder, start = copies.get(), time.monotonic()
    file = folder / mutant.file
    original = file.read_text()
    file.write_text(patched(mutant, folder))
    outcome, output, tries = "NOT FOUND", "", 0
    while outcome == "NOT FOUND" and tries < TRIES:
        status, output = run(folder, mutant.test)
        outcome, tries = verdict(status), tries + 1
    file.write_text(original)
    copies.put(folder)
    found_late = outcome != "NOT FOUND" and tries > 1
    return f"{outcome}, at try {tries}" if found_late else outcome, output, time.monotonic() - start


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rule", help="only the mutants of this rule")
    parser.add_argument("--list", action="store_true", help="say what mutants there are")
    options = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if options.rule in (None, str(m.rule))]
    if not chosen:
        print(f"no mutant is of rule {options.rule!r}")
        return 2
    try:
        for mutant in chosen:
            patched(mutant, ROOT)
    except ValueError as error:
        print(error)
        return 2
    if options.list:
        for m in chosen:
            print(f"{m.rule!s:14} {m.file:32} {m.text.strip().splitlines()[0][:60]}")
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="nbdlpack-mutants-") as name,
        ThreadPoolExecutor(os.cpu_count() or 1) as processes,
    ):
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for i in range(os.cpu_count() or 1):
            folder = Path(name).resolve() / str(i)
            copy_to(folder)
            copies.put(folder)
        if not where_it_is(folder).is_relative_to(folder):
            print(f"the tests would import {where_it_is(folder)} in place of the copy in {folder}")
            return 2
        # Of the checks, which have a test each, all at once.
        tests = sorted({m.test.partition(" -k ")[0] if m.rule == "conformance" else m.test for m in chosen})
        for test, (status, output) in zip(tests, processes.map(partial(unpatched, copies), tests), strict=True):
            if status:
                print(f"{test}\nfails without a mutant:\n{output[-3000:]}")
                processes.shutdown(cancel_futures=True)
                return 2
        outcomes = []
        for m, (outcome, output, seconds) in zip(chosen, processes.map(partial(judged, copies), chosen), strict=True):
            outcomes.append(outcome)
            place = f"[{len(outcomes)}/{len(chosen)}] rule {m.rule!s:14} {m.file:32}"
            print(f"{place} {outcome}  ({seconds:.0f} s)", flush=True)
            if not outcome.startswith("found"):
                print(f"    {m.text!r}\n -> {m.replacement!r}\n{output[-1500:]}")
    bad = sum(not each.startswith("found") for each in outcomes)
    print(f"{len(chosen) - bad} of {len(chosen)} mutants were found by their tests")
    if any(each.startswith("ERROR") for each in outcomes):
        return 2
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
