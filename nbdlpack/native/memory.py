"""Blocks, leases and storages: who has which memory, counted so that it can be let go of from any thread.

A Block is one allocation.  A Storage, which an array shares with its views, has a Lease on it; so has, through the
storage's Lease, every export.  A Block with more than one Lease is shared, and who writes moves away first.

All three are C memory.  What a consumer drops, it drops by atomic subtractions: from any thread, without the GIL,
before, while or after there is an interpreter.  What it ends that only Python can release waits on a list, which is
drained by the next function here that has the GIL and by a pending call.

A lease's exports are counted in two halves: `made`, which only exporters add to, holding the GIL, and `count`, which
droppers subtract from atomically.  While a storage has the lease, that is a claim of BIAS in `count`, and
made + count - BIAS are live; the storage goes by adding made - BIAS to `count`, which is from then on what is live.
So exporting costs no atomic operation, and whoever brings `count` to 0 is the last.

With the GIL held, a compiled function that does not let go of it is a critical section.  The only others at work are
droppers, who only ever subtract: a check here must be right if a count falls just after it.
"""

import ctypes
import os
import sys
from ctypes import POINTER, Structure, c_int, c_int32, c_int64, sizeof
from ctypes import c_void_p as word

from nbdlpack.native.abi import (
    CPU,
    Py_AddPendingCall,
    Py_DecRef,
    Py_IncRef,
    Py_IsFinalizing,
    Py_IsInitialized,
    PyErr_Fetch,
    PyErr_NoMemory,
    PyErr_Occurred,
    PyErr_Restore,
    PyErr_WriteUnraisable,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyLong_AsVoidPtr,
    PyLong_FromLongLong,
    PyObject,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyObject_VectorcallMethod,
    PyThread_get_thread_ident,
    PyTuple_GetItem,
    PyType_GenericAlloc,
    calloc,
    constant,
    destructor,
    free,
    longs,
    malloc,
    memcpy,
    memmove,
    realloc,
    sched_yield,
    usleep,
    visitor,
    words,
)
from nbdlpack.native.compiler import (
    atomic_add,
    atomic_load,
    atomic_store,
    cold,
    compare_exchange,
    extern,
    hot,
    immortal,
    inline,
    native,
    stack,
)


class Lease(Structure):
    """One storage's claim on a block; it lives while the storage has it or an export of it is live."""

    _fields_ = [
        ("count", c_int64),
        ("made", c_int64),  # both of exports: writable ones << 32 | all
        ("serial", c_int64),  # no two that storages have had are the same, whereas addresses come again
        ("block", word),
        ("owner", word),  # a reference to the Python owner of the block's memory
        ("storage", word),  # who has it, if someone still does
        ("keeper", word),  # who shows the owner to the collector
        ("next", word),  # in the list of ended leases
    ]


class Block(Structure):
    """One allocation; it lives while it has leases."""

    _fields_ = [
        ("address", word),
        ("size", c_int64),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("owner", word),  # the Python owner, to which each of the leases has a reference; or
        ("base", word),  # our own memory, as `free` takes it; or
        ("source", word),  # a tensor that was imported,
        ("release", destructor),  # and its deleter
        ("flags", c_int64),
        ("leases", c_int64),
        ("held", c_int64),  # how many of the leases storages have
        ("exported", word),  # the last of its leases to be exported, if it still lives
        ("first", Lease),  # room for the first of its leases
    ]


class Kept(Structure):
    """A lease that lives until a storage does not, for its bare address was given away."""

    _fields_ = [("lease", POINTER(Lease)), ("next", word)]


class Storage(Structure):
    """What an array shares with its views: the lease that they have now."""

    _fields_ = [
        ("lease", POINTER(Lease)),
        ("arrays", c_int64),
        ("busy", c_int64),  # how deep
        ("holder", word),  # which thread is in writing,
        ("forks", c_int64),  # and in which process, as in `World`
        ("kept", POINTER(Kept)),
    ]


class KeeperObject(Structure):
    """Shows the collector a lease's one reference to its block's owner; the lease's arrays refer to it."""

    _fields_ = [("object", PyObject), ("lease", POINTER(Lease))]


class World(Structure):
    """What there is one of."""

    _fields_ = [
        ("ended", word),
        ("scheduled", c_int64),
        ("serial", c_int64),
        ("lock", c_int64 * 1),  # of the table:
        ("table", longs),  # the exported blocks that are not foreign, by address
        ("n", c_int64),
        ("room", c_int64),
        ("blocks", c_int64),  # of our own memory that live; all that live, with NBDLPACK_COUNT_BLOCKS=1
        ("bytes", c_int64),  # of our own memory
        ("pinned", c_int64),  # bytes of the host's that no array has, only exports
        ("moves", c_int64),
        ("moved", c_int64),  # bytes
        ("lazy", c_int64),  # copies that were made without copying
        ("lazy_bytes", c_int64),
        ("watchers", c_int64),  # how many `copy_log` and `no_copies` are active
        ("spare", word),  # storages to use again, at most SPARES,
        ("spares", c_int64),
        ("forks", c_int64),  # how often the process came of another by fork
        ("producer", word),  # the type that was imported from last,
        ("way", word),  # and how, as in `producers`
        ("delete_versioned", destructor),
        ("delete_legacy", destructor),
    ]


# A block's flags: someone else may write to it; its bare address is known; its memory is ours; it is in the table;
# only exports have it; its owner is its device's, which allocates and copies such memory (see `Watch`).
FOREIGN, ESCAPED, OWN, LISTED, PINNED, DEVICE = 1, 2, 4, 8, 16, 32
BIAS, READ, WRITE = 1 << 62, 1, 1 << 32 | 1
ALIGNMENT = 256
# From this size on memory is asked for in huge pages: a first write to it is several times as fast (as NumPy does).
HUGE, PAGE, MADV_HUGEPAGE = 1 << 22, 4096, 14
LIMIT = 1 << 56  # bytes: more than any address space of today has
# From this size on, a copy lets go of the GIL.
LARGE = 1 << 16
# Storages come and go with arrays, always with the GIL: a few are kept for the next.
SPARES = 64
HAS_HUGE_PAGES = int(sys.platform == "linux")
# Counting the blocks that are not our memory costs an import 5 %, so it is for tests alone.
COUNT_ALL = int(os.environ.get("NBDLPACK_COUNT_BLOCKS") == "1")

# Why a storage moves to memory of its own; `nbdlpack.storage` has the words for them.
FOR_WRITE, FOR_DLPACK, FOR_BUFFER, FOR_ADDRESS, BY_NAME = range(5)

BLOCK, LEASE, STORAGE, KEPT = sizeof(Block), sizeof(Lease), sizeof(Storage), sizeof(Kept)
world = immortal(World())
WORLD = ctypes.addressof(world)
pinned_at = immortal((c_int64 * 1024)())
"""Bytes of devices that no array has, only exports, by device type << 6 | device id."""
PINNED_AT = ctypes.addressof(pinned_at)
classes = immortal((word * 3)())  # ndarray, the type of keepers, View
CLASSES = ctypes.addressof(classes)
madvise = extern("madvise", c_int, word, word, c_int, optional=True)


class Watch:
    """What compiled functions leave to Python in words."""

    moving = None
    """What a move tells of itself while someone wants to know; `storage` puts it here."""

    allocate = copy = adopt = imported = exporting = None
    """What a device with streams does with the owners of its blocks; it puts them here.  See `nbdlpack.native`."""

    def no_memory(self, nbytes):
        """Raise the error that says how much memory could not be had."""
        msg = f"an array of {nbytes} bytes could not be allocated on the cpu"
        if nbytes >= LIMIT:
            msg = "an array of more bytes than a machine can have could not be allocated: look at its shape"
        raise MemoryError(msg)


def after_fork():
    """Free, in a new process, what a thread may hold that was not copied into it."""
    world.forks += 1
    world.lock[0] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)

watch = immortal(Watch())
WATCH = id(watch)
MOVING, NO_MEMORY, ALLOCATE, COPY, ADOPT, IMPORTED, EXPORTING = (
    constant(sys.intern(name)) for name in ("moving", "no_memory", "allocate", "copy", "adopt", "imported", "exporting")
)


# ---- blocks and leases: no function up to the next line but `drain` and `dispose` needs the GIL or Python -----------


@inline
def lock(place: longs):
    while not compare_exchange(place[0], 0, 1):
        sched_yield()


@inline
def unlock(place: longs):
    atomic_store(place[0], 0)


@inline
def init_lease(lease: Lease, block: Block):
    """Fill in a new lease, with the claim on it that its storage will have."""
    lease.made, lease.serial, lease.block, lease.owner, lease.storage, lease.keeper = 0, 0, block, 0, 0, 0
    lease.count = BIAS


@hot
def new_block(address: word, device_type: c_int64, device_id: c_int64, flags: c_int64) -> word:
    """Return a block with one lease, which nothing has, or 0."""
    block, w = Block(malloc(BLOCK)), World(WORLD)
    if block:
        block.address, block.device_type, block.device_id, block.flags = address, device_type, device_id, flags
        block.size, block.owner, block.base, block.source, block.release, block.exported = 0, 0, 0, 0, 0, 0
        block.leases, block.held = 1, 0
        init_lease(block.first, block)
        if COUNT_ALL:
            atomic_add(w.blocks, 1)
    return block


@native
def allocate(size: c_int64, zeros: c_int64) -> word:
    """Return a block of our own memory, or 0."""
    w, base = World(WORLD), 0
    if size >= 0 and size < BIAS:
        base = calloc(1, size + ALIGNMENT) if zeros else malloc(size + ALIGNMENT)
    if base == 0:
        return 0
    block = Block(new_block((base + ALIGNMENT) & -ALIGNMENT, CPU, 0, OWN))
    if block == 0:
        free(base)
        return 0
    block.base, block.size = base, size
    if HAS_HUGE_PAGES:
        if size >= HUGE:
            start = (base + PAGE - 1) & -PAGE
            madvise(start, (base + size - start) & -PAGE, MADV_HUGEPAGE)
    if not COUNT_ALL:
        atomic_add(w.blocks, 1)
    atomic_add(w.bytes, size)
    return block


@hot
def find(address: word) -> c_int64:
    """Return how many blocks of the table, which is locked, are at or below an address."""
    w = World(WORLD)
    low, high = 0, w.n
    while low < high:
        middle = (low + high) >> 1
        block = Block(w.table[middle])
        if block.address <= address:
            low = middle + 1
        else:
            high = middle
    return low


@native
def enlist(block: Block):
    """Enter a block that is exported for the first time in the table.  A lack of memory leaves it out."""
    w = World(WORLD)
    lock(w.lock)
    if w.n == w.room:
        table = realloc(w.table, 16 * w.room + 512)
        if table:
            w.table, w.room = table, 2 * w.room + 64
    if block.size and w.n < w.room:  # nothing that comes in is told by an address without bytes, which many share
        i = find(block.address)
        memmove(w.table + 8 * i + 8, w.table + 8 * i, 8 * (w.n - i))
        w.table[i] = block
        w.n += 1
        block.flags |= LISTED
    unlock(w.lock)


@native
def delist(block: Block):
    w = World(WORLD)
    lock(w.lock)
    i = find(block.address)
    while w.table[i - 1] != block:  # others have come in from the same address
        i -= 1
    memmove(w.table + 8 * i - 8, w.table + 8 * i, 8 * (w.n - i))
    w.n -= 1
    unlock(w.lock)


@hot
def release(block: Block):
    """Call the deleter of a block's foreign tensor, with the GIL.  It may run Python, so no error may be set."""
    if PyErr_Occurred():
        error = stack(word * 3)
        PyErr_Fetch(error, error + 8, error + 16)
        block.release(block.source)
        PyErr_Restore(error[0], error[1], error[2])
    else:
        block.release(block.source)
        if PyErr_Occurred():
            PyErr_WriteUnraisable(0)


@native
def count_pinned(block: Block, size: c_int64):
    """Count bytes that no array has, only exports, where they are."""
    w, at = World(WORLD), longs(PINNED_AT)
    if block.base:
        atomic_add(w.pinned, size)
    else:
        atomic_add(at[(block.device_type & 15) << 6 | (block.device_id & 63)], size)


@hot
def free_block(block: Block):
    """Release a block that has no lease any more."""
    w = World(WORLD)
    if block.flags & LISTED:
        delist(block)
    if block.release:
        release(block)
    if block.flags & PINNED:
        count_pinned(block, -block.size)
    if block.base:
        atomic_add(w.bytes, -block.size)
        if not COUNT_ALL:
            atomic_add(w.blocks, -1)
        free(block.base)
    if COUNT_ALL:
        atomic_add(w.blocks, -1)
    free(block)


@inline
def leave_block(block: Block) -> c_int64:
    """End a lease's claim on a block; return whether it was the last.  Only who has a claim can add another."""
    if atomic_load(block.leases) == 1:
        return 1
    return 1 if atomic_add(block.leases, -1) == 1 else 0


@inline
def dispose(lease: Lease, last: c_int64):
    """Release what an ended lease still has."""
    block = Block(lease.block)
    if lease.owner:
        Py_DecRef(lease.owner)
    if lease != block.first:
        free(lease)
    if last:
        free_block(block)


@hot
def end(lease: Lease, here: c_int64):
    """End a lease that nothing has any more.  If `here`, its Python owner or foreign tensor may be released at once."""
    block, w = Block(lease.block), World(WORLD)
    if block.exported == lease:
        if block.flags & LISTED:
            lock(w.lock)
        compare_exchange(block.exported, lease, 0)  # an exporter may be about to set another
        if block.flags & LISTED:
            unlock(w.lock)
    if not here and (lease.owner or block.release):
        # It stays one of its block's leases till then: a block that others share may end before.
        defer(lease)
    else:
        dispose(lease, leave_block(block))


@native
def defer(lease: Lease):
    """Put an ended lease on the list of those that only Python can release."""
    w = World(WORLD)
    head = atomic_load(w.ended)
    lease.next = head
    while not compare_exchange(w.ended, head, lease):
        head = atomic_load(w.ended)
        lease.next = head
    if Py_IsInitialized() and not Py_IsFinalizing() and compare_exchange(w.scheduled, 0, 1):
        if Py_AddPendingCall(drain, 0):
            atomic_store(w.scheduled, 0)


@native
def drain(unused: word) -> c_int:
    """Release, with the GIL, what ended without."""
    w = World(WORLD)
    atomic_store(w.scheduled, 0)
    lease = Lease(atomic_load(w.ended))
    while not compare_exchange(w.ended, lease, 0):  # all of it at once, so that no link can have come back
        lease = Lease(atomic_load(w.ended))
    while lease:
        following = lease.next
        block = Block(lease.block)
        dispose(lease, leave_block(block))
        lease = Lease(following)
    return 0


@inline
def let_export_go(lease: Lease, weight: c_int64):
    if atomic_add(lease.count, -weight) == weight:
        end(lease, 0)


# ---- storages, with the GIL -----------------------------------------------------------------------------------------


@inline
def count_export(lease: Lease, weight: c_int64):
    """Count an export on a lease that a storage has.

    After millions of writable ones the two halves are brought together, or after billions `count` would come near 0.
    """
    lease.made += weight
    if lease.made >> 56:
        atomic_add(lease.count, lease.made)
        lease.made = 0


@inline
def live(lease: Lease) -> c_int64:
    """Return the exports of a storage's lease: writable ones << 32 | all."""
    return atomic_load(lease.count) + lease.made - BIAS


@inline
def assign(storage: Storage, lease: Lease):
    """Make a lease the one that a storage has.  A new serial makes all descriptors of its arrays stale."""
    w = World(WORLD)
    w.serial += 1
    lease.serial = w.serial
    lease.storage, storage.lease = storage, lease


@inline
def have(storage: Storage, lease: Lease):
    """Give a storage a lease that no storage has."""
    block = Block(lease.block)
    block.held += 1
    if block.flags & PINNED:
        block.flags &= ~PINNED
        count_pinned(block, -block.size)
    assign(storage, lease)


@inline
def abandon(lease: Lease):
    """End the claim on a lease that is a storage's."""
    made = lease.made
    lease.storage = 0
    if lease.keeper:
        KeeperObject(lease.keeper).lease = 0
        lease.keeper = 0
    if atomic_load(lease.count) == BIAS - made:  # no export lives, nor can one begin
        end(lease, 1)
    elif atomic_add(lease.count, made - BIAS) == BIAS - made:
        end(lease, 1)


@hot
def let_go(lease: Lease):
    """Take its lease from a storage."""
    block = Block(lease.block)
    block.held -= 1
    if block.held == 0 and block.flags & OWN:
        if atomic_load(lease.count) != BIAS - lease.made or atomic_load(block.leases) > 1:
            block.flags |= PINNED
            count_pinned(block, block.size)
    abandon(lease)


@hot
def new_storage(lease: Lease) -> word:
    """Return a storage for one array.  It takes over a lease that no storage has, also if it cannot be made."""
    w = World(WORLD)
    self = Storage(w.spare)
    if self:
        w.spare = self.kept
        w.spares -= 1
    else:
        self = Storage(malloc(STORAGE))
    if self:
        self.arrays, self.busy, self.holder, self.forks, self.kept = 1, 0, 0, 0, 0
        have(self, lease)
    else:
        abandon(lease)
        PyErr_NoMemory()
    return self


@hot
def let_storage_go(self: Storage):
    """End one array's claim on a storage."""
    self.arrays -= 1
    if self.arrays == 0:
        let_go(self.lease)
        while self.kept:
            kept = self.kept
            lease, self.kept = kept.lease, kept.next
            free(kept)
            if atomic_add(lease.count, -READ) == READ:
                end(lease, 1)
        w = World(WORLD)
        if w.spares < SPARES:
            self.kept, w.spare = w.spare, self
            w.spares += 1
        else:
            free(self)


@native
def enter(storage: Storage):
    """Begin to write, waiting without the GIL for another thread's end of it.

    It is recursive by thread: a finaliser or signal handler that runs inside a write may write again.
    """
    me, w = PyThread_get_thread_ident(), World(WORLD)
    if storage.holder != me or storage.busy == 0:
        if storage.busy and storage.forks != w.forks:
            storage.busy = 0  # its holder was not copied into this process
        while not compare_exchange(storage.busy, 0, 1):
            wait()
        storage.holder, storage.forks = me, w.forks
    else:
        storage.busy += 1


@native
def wait():
    state = PyEval_SaveThread()
    usleep(20)
    PyEval_RestoreThread(state)


@native
def leave(storage: Storage):
    if storage.busy == 1:
        storage.holder = 0
    atomic_add(storage.busy, -1)


@native
def no_memory(size: c_int64) -> word:
    """Set the error for an allocation that failed; return 0."""
    args = stack(word * 2)
    args[0], args[1] = WATCH, PyLong_FromLongLong(size)
    if args[1]:
        PyObject_VectorcallMethod(NO_MEMORY, args, 2, 0)
        Py_DecRef(args[1])
    return 0


@cold(-1)
def announce(block: Block, cause: c_int64) -> c_int64:
    """Tell those who want to know that a storage is about to move; return -1 with an error set if it may not."""
    args, result = stack(word * 4), 0
    args[0], args[1], args[2] = WATCH, PyLong_FromLongLong(block.size), PyLong_FromLongLong(cause)
    args[3] = PyLong_FromLongLong(block.device_id << 8 | block.device_type)
    if args[1] and args[2] and args[3]:
        result = PyObject_VectorcallMethod(MOVING, args, 4, 0)
    for i in range(3):
        Py_DecRef(args[i + 1])
    Py_DecRef(result)
    return 0 if result else -1


@cold(0)
def allocate_like(old: Block) -> word:
    """Return a block of our own memory where another block is, of its size, or 0 with an error set."""
    block, args = Block(0), stack(word * 4)
    if not old.flags & DEVICE:
        block = Block(allocate(old.size, 0))
        if block == 0:
            return no_memory(old.size)
        block.device_id = old.device_id
        return block
    args[0], args[1], args[2] = WATCH, PyLong_FromLongLong(old.device_type), PyLong_FromLongLong(old.device_id)
    args[3] = PyLong_FromLongLong(old.size)
    pair = 0
    if args[1] and args[2] and args[3]:
        pair = PyObject_VectorcallMethod(ALLOCATE, args, 4, 0)
    for i in range(3):
        Py_DecRef(args[i + 1])
    if pair:
        owner, address = PyTuple_GetItem(pair, 0), PyLong_AsVoidPtr(PyTuple_GetItem(pair, 1))
        if PyErr_Occurred() == 0:
            block = Block(new_block(address, old.device_type, old.device_id, OWN | DEVICE))
            if block:
                block.size, block.owner, block.first.owner = old.size, owner, owner
                Py_IncRef(owner)
            else:
                PyErr_NoMemory()
        Py_DecRef(pair)
    return block


@cold(-1)
def copy_block(target: Block, source: Block) -> c_int64:
    """Copy all bytes of a block to one of the same size; return -1 with an error set if that fails."""
    args = stack(word * 6)
    if not source.flags & DEVICE:
        if source.size >= LARGE:
            state = PyEval_SaveThread()
            memcpy(target.address, source.address, source.size)
            PyEval_RestoreThread(state)
        else:
            memcpy(target.address, source.address, source.size)
        return 0
    args[0], args[1], args[3], args[5] = WATCH, target.owner, source.owner, PyLong_FromLongLong(source.size)
    args[2], args[4] = PyLong_FromLongLong(target.address), PyLong_FromLongLong(source.address)
    result = 0
    if args[2] and args[4] and args[5]:
        result = PyObject_VectorcallMethod(COPY, args, 6, 0)
    Py_DecRef(args[2])
    Py_DecRef(args[4])
    Py_DecRef(args[5])
    Py_DecRef(result)
    return 0 if result else -1


@cold(-1)
def tell_device(block: Block, method: word, stream: c_int64) -> c_int64:
    """Call `imported`, with a stream, or `exporting` for a device's block; return -1 with an error set if it raises."""
    args = stack(word * 3)
    args[0], args[1], args[2] = WATCH, block.owner, 0
    n = 2
    if method == IMPORTED:
        args[2] = PyLong_FromLongLong(stream)
        if args[2] == 0:
            return -1
        n = 3
    result = PyObject_VectorcallMethod(method, args, n, 0)
    Py_DecRef(args[2])
    Py_DecRef(result)
    return 0 if result else -1


@cold(-1)
def move(storage: Storage) -> c_int64:
    """Give a storage, which is entered, a block of its own, a copy of the one that it had.

    Nothing need be checked again after the copy: meanwhile others can only take new leases of the old block, or
    read-only exports of the old lease, which then show the old bytes.
    """
    old, w = storage.lease, World(WORLD)
    source = Block(old.block)
    block = Block(allocate_like(source))
    if block == 0:
        return -1
    if copy_block(block, source):
        dispose(block.first, leave_block(block))
        return -1
    w.moves += 1
    w.moved += source.size
    have(storage, block.first)
    let_go(old)
    return 0


@inline
def shared(storage: Storage) -> c_int64:
    """Return whether a write to the storage has to move it first.  A block whose address is known never moves."""
    block = Block(storage.lease.block)
    return 1 if atomic_load(block.leases) > 1 and not block.flags & ESCAPED else 0


@cold(-1)
def own(storage: Storage, cause: c_int64) -> c_int64:
    """Make an entered storage the only one on its block; return -1 with an error set if it cannot be."""
    w = World(WORLD)
    if shared(storage) and w.watchers:
        if announce(storage.lease.block, cause):
            return -1
    for _ in range(2):  # a deleter that runs at the end of the old lease may copy the new one
        if shared(storage) and move(storage):
            return -1
    return 0


# ---- keepers: a lease's reference to a Python owner, as the collector sees it ---------------------------------------


@native
def keeper_of(lease: Lease) -> word:
    """Return a new reference to the keeper of a lease whose block has a Python owner, or 0."""
    kinds = words(CLASSES)
    if lease.keeper:
        Py_IncRef(lease.keeper)
    else:
        self = KeeperObject(PyType_GenericAlloc(kinds[1], 0))
        if self and lease.keeper:  # a collection made room for it, and a finaliser made another
            Py_DecRef(self)
            Py_IncRef(lease.keeper)
        else:
            if self:
                self.lease, lease.keeper = lease, self
            return self
    return lease.keeper


@native
def traverse_keeper(self: KeeperObject, visit: visitor, arg: word) -> c_int:
    """Show the owner, unless exports rely on it as well.

    While the collector looks exports can end but not begin, which is the direction that does no harm.
    """
    lease = self.lease
    if lease and live(lease) == 0 and visit(lease.owner, arg):
        return 1
    return visit(self.object.type, arg)


@native
def dealloc_keeper(self: KeeperObject):
    cls = self.object.type
    PyObject_GC_UnTrack(self)
    if self.lease:
        self.lease.keeper = 0
    PyObject_GC_Del(self)
    Py_DecRef(cls)
