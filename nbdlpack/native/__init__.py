"""The C-level half of an array, compiled by LLVM when the package is imported.

What the rest of the library may use of it stands in this file.  `View` is the native base class of `nbdlpack.ndarray`:
a storage, and dtype, shape, strides and offset of what is seen of it.  The modules beside this one say how it works:

    compiler        C written as Python, translated to LLVM's language
    abi             the structures of DLPack and CPython, and the C functions called
    device_types    DLPack's numbers of the kinds of memory
    memory          blocks, leases, storages
    views           the object of an array, its attributes, lazy copies and writes
    exports         descriptors, capsules, the buffer protocol, NumPy's views
    imports         tensors that come in, and our own memory coming home
    exchange        DLPack's table of C functions
    compute         one small computation
    objects         the types themselves, and what Python calls
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

if "t" in sys.abiflags:
    # Every check of a count relies on the GIL: without it, memory that is in use would be let go of.
    _msg = (
        "nbdlpack needs the global interpreter lock, and this is a free-threaded build of Python "
        f"({sys.version.partition(' ')[0]}t): use the ordinary build, CPython 3.11 to 3.14"
    )
    raise ImportError(_msg)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    class View:
        """A typed, strided window on a storage: the base class of every array.  Not to be instantiated by calling it.

        Steps are strides in elements.  Offsets and strides are in bytes.  `flags` is 0 or `READ_ONLY`.
        """

        __slots__ = ()
        __dlpack_c_exchange_api__: Any  # a PyCapsule; classes that override an exporting method have one of their own

        # -- what an array is: plain reads, no call has an effect
        @property
        def ndim(self) -> int: ...
        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def strides(self) -> tuple[int, ...]: ...
        @property
        def size(self) -> int: ...
        @property
        def itemsize(self) -> int: ...
        @property
        def nbytes(self) -> int: ...
        @property
        def dtype(self) -> np.dtype[Any]: ...
        @property
        def _steps(self) -> tuple[int, ...]: ...
        @property
        def _flags(self) -> int: ...
        @property
        def _negative(self) -> bool: ...  # some stride is negative
        @property
        def _place(self) -> int: ...  # the number of the device, as `devices` knows it: DLPack's type | number << 8
        @property
        def _contiguous(self) -> int: ...  # 1 if C-contiguous | 2 if F-contiguous
        @property
        def _first(self) -> int: ...  # the address of the first element, at this moment; see `_address`
        @property
        def _storage(self) -> int: ...  # a number that views of one storage have in common
        @property
        def _kind(self) -> int: ...  # one number for dtype, dimensions, layout, flags and device

        def _state(self) -> State: ...

        def _parameters(self) -> tuple[int, ...]:
            """Return what a kernel is given of an array: (0, 0, size, itemsize, address, *shape, *strides)."""

        def _memory(self) -> Any:
            """Return the owner of a block that has the flag DEVICE, else None."""

        def _settle(self, number: int, /) -> None:
            """Make the host memory of a new array that of a device with a number of its own."""

        def _seal(self) -> None:
            """Make this array, but no other on the storage, read-only for good."""

        # -- making
        @classmethod
        def _empty(cls, shape: tuple[int, ...], dtype: np.dtype[Any], zeros: int, /) -> Self:
            """Return a C-contiguous array in new CPU memory, aligned to 256 bytes, of zeros if `zeros` is 1."""

        @classmethod
        def _wrap(
            cls,
            owner: object,
            address: int,
            device: tuple[int, int],
            nbytes: int,
            flags_of_block: int,
            dtype: np.dtype[Any],
            flags: int,
            shape: tuple[int, ...],
            steps: tuple[int, ...],
            /,
        ) -> Self:
            """Return an array over `nbytes` of memory from `address` on, that a Python object owns.

            `address` is that of the first element.  The block's flags are FOREIGN, if someone else may write to the
            memory; OWN | DEVICE, if a device's `Memory` is the owner; or 0.
            An address inside exported memory of our own that is said to be foreign comes home, as by `from_dlpack`.
            """

        def _view(
            self,
            cls: type[Any],
            offset: int,
            dtype: np.dtype[Any],
            flags: int,
            shape: tuple[int, ...],
            steps: tuple[int, ...],
            /,
        ) -> Any:
            """Return another array on this one's storage, of a class, from `offset` bytes after this one's start on."""

        def _lazy_copy(self, cls: type[Any], /) -> Any:
            """Return a copy that shares memory until either is written to, with the same layout, or None.

            None where it may not be lazy: the array does not cover its storage exactly once, or someone else may
            write to the memory.
            """

        # -- access
        def _host(self, how: int, /) -> npt.NDArray[Any]:
            """Return a NumPy array on this memory, of the same layout and dtype: a counted export.

            0: read-only, and nothing moves.  1: to write to; the storage becomes sole owner first.  2: for the user to
            keep, writable if the array is; our own memory is recognised when it comes back.  CPU memory only.
            """

        def _elementwise(self, ufunc: Callable[..., Any], other: View, results: dict[Any, np.dtype[Any]], /) -> Any:
            """Return `ufunc(self, other)` if both are plain arrays in host memory of one shape and dtype.

            `results` has the result's dtype by the operands'.  If it has not, or they are not so, the result is None.
            """

        def _begin_write(self, cause: int, /) -> Any:
            """Begin a write: until it ends this thread alone writes to the storage, sole owner of its block.

            `cause` is one of `FOR_WRITE` and so on.  A read-only array raises ValueError, a lack of memory MemoryError.
            What is returned is for `_end_write`.  The write ends as well when that is let go of, so that an interrupt
            on the way to the `try` leaves nobody waiting.
            """

        def _end_write(self, hold: Any, /) -> None: ...

        def _begin_read(self) -> Any:
            """Keep writers of the storage waiting until `_end_read`, for a copy that is not to be torn."""

        def _end_read(self, hold: Any, /) -> None: ...

        def _begin_overwrite(self, cause: int, keep: int, /) -> tuple[Any, Any]:
            """Begin a write; return its hold and what to write into: this array or one in fresh memory.

            Of every element, if `keep` is 0: into fresh memory, if it is shared.  Of some elements, if `keep` is 1: on
            a device, if its memory is shared, into a copy, so that a write that fails moves nothing.

            To be ended by `_end_overwrite(hold, target, done)`, which switches a fresh block in if `done` is 1.
            """

        def _end_overwrite(self, hold: Any, target: Any, done: int, /) -> None: ...

        def _address(self) -> int:
            """Return the address of the first element, for someone who keeps it: the memory stays there from now on.

            A writable array becomes sole owner, and its block is never lazily copied or moved again.  Of a read-only
            one the memory stays valid as long as the storage lives.
            """

        # -- exchange
        def __dlpack__(
            self,
            *,
            stream: int | None = None,
            max_version: tuple[int, int] | None = None,
            dl_device: tuple[int, int] | None = None,
            copy: bool | None = None,
        ) -> Any: ...

        def __dlpack_device__(self) -> tuple[int, int]: ...

        def _capsule(self, versioned: int, copied: int, /) -> Any:
            """Return this array in a capsule, unchecked.  `copied` 1 marks it as a copy made for the consumer."""

        @classmethod
        def _import_capsule(cls, capsule: object, /) -> Self:
            """Return an array over what is in a DLPack capsule of either kind, which is then consumed."""

        # -- what the native half leaves to Python.  Subclasses in this library define these; nobody else calls them.
        def _export(self, **options: Any) -> Any:
            """`__dlpack__` where it is not simply this array in a capsule."""

        @classmethod
        def _import(cls, x: object, /, **options: Any) -> Any:
            """`from_dlpack` with options, for types not met before, and after a refusal by a type's exchange table."""

        @classmethod
        def _refuse(cls, tensor: int, /) -> None:
            """Raise the BufferError that says in words what is wrong with the DLTensor at an address."""

        def _check_export(self) -> None:
            """Raise BufferError if strides are negative and the caller has not allowed that."""

    State: TypeAlias = tuple[int, int, int, int, int, int, int]
    """(address, block flags, leases of the block, live exports, writable ones of them, lease serial, storage)"""

    producers: dict[type[Any], Any]
    """How `from_dlpack` imports objects of a type: None by `__dlpack__`, which takes max_version; else by a capsule
    that `find_exchange` returned.  A type that is not there is left to `View._import`."""

    importable: Any
    """By DLPack's device type, 0 if memory cannot be imported, 1 if it can, STREAMED if a device has to adopt it."""

    device_tuples: dict[int, tuple[Any, int]]
    """What `__dlpack_device__` returns, by `View._place`, of the devices that are not the cpu."""

    EXCHANGE_API: Any
    OVERRIDDEN_EXCHANGE_API: Any  # for a class with a `__dlpack__` of its own

    class World:
        """What is counted, in C memory."""

        blocks: int
        bytes: int
        pinned: int
        moves: int
        moved: int
        lazy: int
        lazy_bytes: int
        watchers: int

    world: World

    pinned_at: Any
    """Bytes of the memory of devices that no array has, only exports, by device type << 6 | device id."""

    class Watch:
        """What compiled functions leave to Python."""

        moving: Callable[[int, int, int], None]
        """Called before a storage moves, with (nbytes, cause, place), while `world.watchers` is not 0."""

        allocate: Callable[[int, int, int], tuple[Any, int]]
        """(device type, device id, nbytes) -> (owner, address): new memory of a device with streams."""

        copy: Callable[[Any, int, Any, int, int], None]
        """(target's owner, its address, source's owner, its address, nbytes), on the current stream."""

        adopt: Callable[[int, int, int, Any], Any]
        """(device type, device id, address, capsule) -> owner of a tensor whose deleter the capsule calls."""

        imported: Callable[[Any, int], None]
        """(owner, stream): wait on the current stream for what a producer has begun on its stream."""

        exporting: Callable[[Any], None]
        """(owner): wait on the current stream for all that was begun elsewhere, and know of consumers from now on."""

    watch: Watch

    def find_exchange(capsule: object, *, checked: bool) -> Any: ...

    def set_current_stream(device_id: int, handle: int, /) -> None:
        """Set the stream that the exchange table names as this thread's current one; 0 is the default stream."""

    def from_dlpack_for(cls: type[View], module: str) -> Callable[..., Any]: ...

else:
    from nbdlpack.native.exports import device_tuples
    from nbdlpack.native.imports import importable, producers
    from nbdlpack.native.memory import pinned_at, watch, world
    from nbdlpack.native.objects import (
        EXCHANGE_API,
        OVERRIDDEN_EXCHANGE_API,
        View,
        find_exchange,
        from_dlpack_for,
        set_current_stream,
    )

READ_ONLY: Final = 1
FOREIGN: Final = 1
"""Of a block's flags in `View._state()`: someone else may write to it."""
ESCAPED: Final = 2
"""Of them: its bare address is known to someone, who may write to it."""
OWN: Final = 4
"""Of them: the memory is the library's own allocation."""
DEVICE: Final = 32
"""Of them: the owner is the `Memory` of a device, which allocates and copies such blocks."""
STREAMED: Final = 2
"""Of `importable`: memory that a device with streams has to adopt."""
FOR_WRITE: Final = 0
FOR_DLPACK: Final = 1
FOR_BUFFER: Final = 2
FOR_ADDRESS: Final = 3
BY_NAME: Final = 4
"""Why a storage moves, the `cause` of a write; `nbdlpack.storage` has the words for them."""

__all__ = [
    "BY_NAME",
    "DEVICE",
    "ESCAPED",
    "EXCHANGE_API",
    "FOREIGN",
    "FOR_ADDRESS",
    "FOR_BUFFER",
    "FOR_DLPACK",
    "FOR_WRITE",
    "OVERRIDDEN_EXCHANGE_API",
    "OWN",
    "READ_ONLY",
    "STREAMED",
    "View",
    "device_tuples",
    "find_exchange",
    "from_dlpack_for",
    "importable",
    "pinned_at",
    "producers",
    "set_current_stream",
    "watch",
    "world",
]
