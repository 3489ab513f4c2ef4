"""`inspect`: what a producer exports, by each way there is to ask it, and what is in a capsule."""

from __future__ import annotations

from ctypes import POINTER, PYFUNCTYPE, byref, c_int, c_void_p, py_object
from typing import Any, Final

from nbdlpack.dlpack.capsules import (
    EXCHANGE,
    LEGACY,
    VERSIONED,
    Capsule,
    capsule_name,
    capsule_pointer,
    dlpack_method,
)
from nbdlpack.dlpack.consumer import is_plain_view
from nbdlpack.dlpack.description import MAX_NDIM, dims, dtype_parts
from nbdlpack.dlpack.enums import READ_ONLY, VERSION, device_words, dtype_words, flag_words
from nbdlpack.dlpack.readonly import readonly_view
from nbdlpack.native.abi import DLManagedTensor, DLManagedTensorVersioned, DLPackExchangeAPI
from nbdlpack.native.device_types import DLDeviceType

_ATTRIBUTES: Final = (
    "kind", "version", "flags", "device", "dtype", "shape", "strides", "data", "byte_offset", "address", "alignment",
    "has_deleter",
)  # fmt: skip


class Export:
    """What one way of asking a producer gave.

    Attributes
    ----------
    way : str
        How it was asked, such as ``"__dlpack__()"``.
    error : Exception or None
        What it answered instead of a tensor.  If there is one, the attributes below are None.
    kind : str
        ``"versioned"`` or ``"unversioned"``.
    version : tuple of int or None
        The version of DLPack that the tensor says it has; None if it is unversioned.
    flags : int or None
        The flags; None if it is unversioned, which has none.
    device : tuple of int
        ``(device type, number)``; the type is a `DLDeviceType` if it is a known one.
    dtype : tuple of int
        ``(code, bits, lanes)``.
    shape, strides : tuple of int or None
        In elements; None for a null pointer.
    data, byte_offset, address : int
        Where the memory begins, how far behind the first element lies, and the sum of both.
    alignment : int
        The largest power of two that divides `address`; 0 for a null pointer.
    has_deleter : bool
        Whether the tensor can be let go of.
    note : str
        Anything else to know, or an empty string.
    """

    __slots__ = ("way", "error", "note", *_ATTRIBUTES)

    way: str
    error: BaseException | None
    note: str
    kind: str | None
    version: tuple[int, int] | None
    flags: int | None
    device: tuple[int, int] | None
    dtype: tuple[int, int, int] | None
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    data: int | None
    byte_offset: int | None
    address: int | None
    alignment: int | None
    has_deleter: bool | None

    def __init__(self, way: str, error: BaseException | None = None) -> None:
        self.way, self.error, self.note = way, error, ""
        for name in _ATTRIBUTES:
            setattr(self, name, None)

    def read(self, managed: Any) -> None:
        """Fill in what a managed tensor of either kind says."""
        tensor = managed.tensor
        self.kind = "unversioned"
        if isinstance(managed, DLManagedTensorVersioned):
            self.kind, self.version, self.flags = "versioned", (managed.major, managed.minor), managed.flags
            if managed.major != VERSION[0]:
                self.note = "of a major version that is not understood here, so nothing else of it can be read"
                return
        kind, number = tensor.device_type, tensor.device_id
        self.device = (DLDeviceType(kind) if kind in DLDeviceType._value2member_map_ else kind, number)
        self.dtype = dtype_parts(tensor)
        if 0 <= tensor.ndim <= MAX_NDIM:
            self.shape = dims(tensor, "shape") if tensor.ndim else ()
            self.strides = dims(tensor, "strides")
        else:
            self.note = f"ndim is {tensor.ndim}, so shape and strides are not read"
        self.data, self.byte_offset = tensor.data or 0, tensor.byte_offset
        self.address = self.data + self.byte_offset
        self.alignment = self.address & -self.address
        self.has_deleter = bool(managed.deleter)

    def __repr__(self) -> str:
        lines = [self.way]
        if self.error is not None:
            lines.append(f"    {type(self.error).__name__}: {self.error}")
        if self.kind is not None:
            words = self.kind if self.version is None else f"{self.kind}, DLPack {self.version[0]}.{self.version[1]}"
            lines.append(f"    kind       {words}")
        if self.flags is not None:
            lines.append(f"    flags      {flag_words(self.flags)}")
        if self.dtype is not None and self.device is not None and self.address is not None:
            strides = "null, which stands for C order" if self.strides is None and self.shape else self.strides or ()
            data = f"{self.address:#x}, aligned to {self.alignment}" if self.address else "null"
            if self.byte_offset:
                data += f", of which byte_offset {self.byte_offset}"
            lines += [
                f"    device     {device_words(*self.device)}",
                f"    dtype      {dtype_words(*self.dtype)} {self.dtype}",
                f"    shape      {self.shape}",
                f"    strides    {strides}",
                f"    address    {data}",
            ]
            if not self.has_deleter:
                lines.append("    deleter    none: nobody learns when the memory is no longer needed")
        if self.note:
            lines.append(f"    note       {self.note}")
        return "\n".join(lines)


class Inspection:
    """What a producer or a capsule exports, by each way.

    Attributes
    ----------
    exports : tuple of Export
        One for each way that there is to ask the object.  The attributes of the first that gave a tensor, such as
        `shape` and `address`, can be had from the inspection itself.
    """

    __slots__ = ("_title", "exports")

    def __init__(self, title: str, exports: tuple[Export, ...]) -> None:
        self._title, self.exports = title, exports

    def __getitem__(self, way: str | int) -> Export:
        """Return the export of a way, by its name or number."""
        if isinstance(way, int):
            return self.exports[way]
        for export in self.exports:
            if export.way == way:
                return export
        msg = f"there is no {way!r}, only: {', '.join(export.way for export in self.exports)}"
        raise KeyError(msg)

    def __getattr__(self, name: str) -> Any:
        if name not in _ATTRIBUTES:
            msg = f"an inspection has no attribute {name!r}, only exports, {', '.join(_ATTRIBUTES)}"
            raise AttributeError(msg, name=name, obj=self)
        for export in self.exports:
            if export.error is None:
                return getattr(export, name)
        return None

    def __repr__(self) -> str:
        return "\n".join([self._title, *map(repr, self.exports)])


def inspect(x: Any, /) -> Inspection:
    """Say what an object exports by DLPack, by each way that a consumer may ask it, or what is in a capsule.

    Nothing is consumed: a capsule can be imported afterwards, and what was exported for the look is let go of again.

    Parameters
    ----------
    x
        A capsule of either kind, or any object with ``__dlpack__``.

    Returns
    -------
    Inspection
        With a readable `repr`, and the numbers as attributes.

    Raises
    ------
    AttributeError
        If `x` is neither.

    Notes
    -----
    An array that shares its memory with lazy copies moves to memory of its own when it is exported for writing.  It
    does not for the look: its address is that of the memory it shares, and a note says so.  Producers of other
    libraries are asked as a consumer would ask them.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> look = nd.dlpack.inspect(nd.zeros((2, 3), dtype=nd.float32))
    >>> look.shape, look.strides, look.dtype, look.alignment >= 256
    ((2, 3), (3, 1), (2, 32, 1), True)
    >>> look["__dlpack__(max_version=(1, 3))"].version
    (1, 3)
    """
    if type(x) is Capsule:
        return Inspection("a capsule", (_of_capsule(f"named {capsule_name(x)!r}", x),))
    dlpack_method(x)
    kind = type(x)
    title = f"an object of type {kind.__module__}.{kind.__qualname__}"
    asked: Any = x
    shared = is_plain_view(x) and x._state()[2] > 1 and not x._flags
    if shared:
        asked = readonly_view(x)
    exports = [
        _of_call("__dlpack__()", asked, {}),
        _of_call(f"__dlpack__(max_version={VERSION})", asked, {"max_version": VERSION}),
    ]
    table = getattr(kind, "__dlpack_c_exchange_api__", None)
    if table is not None:
        exports.append(_of_table("__dlpack_c_exchange_api__", asked, table))
    if shared:
        _amend(exports)
    return Inspection(title, tuple(exports))


def _amend(exports: list[Export]) -> None:
    """Make what a shared array exports read-only into what it would export for writing, but for the address."""
    look = exports[1]
    unversioned = Export(exports[0].way)
    for name in _ATTRIBUTES:
        setattr(unversioned, name, getattr(look, name))
    unversioned.kind, unversioned.version, unversioned.flags = "unversioned", None, None
    exports[0] = unversioned
    for export in exports:
        if export.error is None:
            export.note = "shares its memory with a lazy copy: an export that may be written to moves it first"
            if export.flags is not None:
                export.flags &= ~READ_ONLY


def _of_capsule(way: str, capsule: Any) -> Export:
    export, name = Export(way), capsule_name(capsule)
    if name == LEGACY:
        export.read(DLManagedTensor.from_address(capsule_pointer(capsule)))
    elif name == VERSIONED:
        export.read(DLManagedTensorVersioned.from_address(capsule_pointer(capsule)))
    elif name in (f"used_{LEGACY}", f"used_{VERSIONED}"):
        export.note = "has been consumed, so what it held belongs to someone else and may be gone"
    else:
        export.note = "holds no DLPack tensor"
    return export


def _of_call(way: str, x: Any, options: dict[str, Any]) -> Export:
    try:
        capsule = x.__dlpack__(**options)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the answer)
        return Export(way, error)
    if type(capsule) is not Capsule:
        return Export(way, TypeError(f"returned a {type(capsule).__qualname__}, not a capsule"))
    return _of_capsule(way, capsule)


_exporter: Final = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))
_deleter: Final = PYFUNCTYPE(None, c_void_p)


def _of_table(way: str, x: Any, table: Any) -> Export:
    if type(table) is not Capsule or capsule_name(table) != EXCHANGE:
        return Export(way, TypeError(f"is {table!r}, not a capsule named {EXCHANGE!r}"))
    api = DLPackExchangeAPI.from_address(capsule_pointer(table))
    while api.major != VERSION[0] and api.previous:
        api = DLPackExchangeAPI.from_address(api.previous)
    if api.major != VERSION[0]:
        return Export(way, BufferError(f"is of DLPack {api.major}.{api.minor}, and refers to no table of version 1"))
    out = c_void_p()
    try:
        failed = _exporter(api.export)(x, byref(out))
    except Exception as error:  # noqa: BLE001
        return Export(way, error)
    if failed or not out.value:
        return Export(way, BufferError("failed without saying why"))
    export = Export(way)
    managed = DLManagedTensorVersioned.from_address(out.value)
    export.read(managed)
    delete = c_void_p.from_buffer(managed, DLManagedTensorVersioned.deleter.offset).value
    if delete:
        _deleter(delete)(out.value)
    return export
