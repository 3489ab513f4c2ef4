"""The one table of element types.

A row says all that the library knows of a type: its name, its NumPy dtype, and how DLPack names it.  The dtypes that
NumPy does not have come from ml_dtypes.  To add a type, add a row, and its name to the public ones in
``nbdlpack/__init__.py``.

Data types are NumPy's: ``nbdlpack.float32`` is ``numpy.float32``, ``nbdlpack.bfloat16`` is ``ml_dtypes.bfloat16``, and
``x.dtype`` is a `numpy.dtype`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy.typing as npt

    DType: TypeAlias = np.dtype[Any]
    DTypeLike: TypeAlias = npt.DTypeLike


class Row(NamedTuple):
    """What is known of one element type."""

    name: str
    dtype: np.dtype[Any]
    code: int
    """DLPack's code of the kind, `DLDataTypeCode`; `nbdlpack.dlpack.enums.CODES` has their names."""
    bits: int
    format: bytes | None
    """The buffer protocol's format, None if it has none."""


def _row(scalar: type[Any], code: int, format: bytes | None = None) -> Row:
    dtype = np.dtype(scalar)
    return Row(dtype.name, dtype, code, dtype.itemsize * 8, format)


TABLE: Final = (
    _row(np.bool, 6, b"?"),
    _row(np.int8, 0, b"b"),
    _row(np.int16, 0, b"h"),
    _row(np.int32, 0, b"i"),
    _row(np.int64, 0, np.dtype(np.int64).char.encode()),
    _row(np.uint8, 1, b"B"),
    _row(np.uint16, 1, b"H"),
    _row(np.uint32, 1, b"I"),
    _row(np.uint64, 1, np.dtype(np.uint64).char.encode()),
    _row(np.float16, 2, b"e"),
    _row(np.float32, 2, b"f"),
    _row(np.float64, 2, b"d"),
    _row(np.complex64, 5, b"Zf"),
    _row(np.complex128, 5, b"Zd"),
    _row(ml_dtypes.bfloat16, 4),
    _row(ml_dtypes.float8_e3m4, 7),
    _row(ml_dtypes.float8_e4m3, 8),
    _row(ml_dtypes.float8_e4m3b11fnuz, 9),
    _row(ml_dtypes.float8_e4m3fn, 10),
    _row(ml_dtypes.float8_e4m3fnuz, 11),
    _row(ml_dtypes.float8_e5m2, 12),
    _row(ml_dtypes.float8_e5m2fnuz, 13),
    _row(ml_dtypes.float8_e8m0fnu, 14),
)

ROWS: Final[dict[np.dtype[Any], Row]] = {row.dtype: row for row in TABLE}
NAMES: Final[dict[str, np.dtype[Any]]] = {row.name: row.dtype for row in TABLE}
WORDS: Final[dict[np.dtype[Any], int]] = {row.dtype: row.code | row.bits << 8 | 1 << 16 for row in TABLE}
"""DLPack's word of a dtype: the code, the bits and one lane, as the structure lies in memory."""
DTYPES: Final[dict[int, np.dtype[Any]]] = {word: dtype for dtype, word in WORDS.items()}
FORMATS: Final[dict[int, bytes]] = {WORDS[row.dtype]: row.format for row in TABLE if row.format is not None}
EXTENDED: Final[frozenset[np.dtype[Any]]] = frozenset(row.dtype for row in TABLE if row.format is None)
"""The dtypes that are not NumPy's own."""

_SIMPLE_KINDS: Final = (("bool", "b"), ("signed integer", "i"), ("unsigned integer", "u"), ("complex floating", "c"))
_KINDS = {name: frozenset(row.dtype for row in TABLE if row.dtype.kind == kind) for name, kind in _SIMPLE_KINDS}
_KINDS["integral"] = _KINDS["signed integer"] | _KINDS["unsigned integer"]
_KINDS["real floating"] = frozenset(ROWS) - _KINDS["integral"] - _KINDS["bool"] - _KINDS["complex floating"]
_KINDS["numeric"] = frozenset(ROWS) - _KINDS["bool"]
KINDS: Final[dict[str, frozenset[np.dtype[Any]]]] = _KINDS
"""The kinds of dtypes that the array API standard names; all floating dtypes are "real floating", as it allows."""
STANDARD: Final = tuple([row.dtype for row in TABLE if row.dtype not in EXTENDED and row.name != "float16"])
"""The dtypes that the array API standard has."""

BOOL: Final = np.dtype(np.bool)
UINT8: Final = np.dtype(np.uint8)
UINT64: Final = np.dtype(np.uint64)
INT64: Final = np.dtype(np.int64)
FLOAT16: Final = np.dtype(np.float16)
FLOAT32: Final = np.dtype(np.float32)
FLOAT64: Final = np.dtype(np.float64)

# Every spelling of a dtype that has been seen, to spare the way through NumPy for the usual ones.
_seen: dict[Any, np.dtype[Any]] = {}
for _entry in TABLE:
    _seen[_entry.dtype] = _seen[_entry.dtype.type] = _seen[_entry.name] = _entry.dtype
_seen.update({bool: BOOL, int: INT64, float: FLOAT64, complex: np.dtype(np.complex128)})


def canonical(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the table's dtype for anything that NumPy takes for one.

    Raises
    ------
    TypeError
        If it is no dtype, or one that arrays cannot have: not in the table, or not of this machine's byte order.
    """
    try:
        return _seen[dtype]
    except (KeyError, TypeError):
        found = np.dtype(dtype)
    if found in ROWS:
        return ROWS[found].dtype
    msg = f"dtype is {found!r}, but an array can have only one of {', '.join(NAMES)}"
    if not found.isnative:
        msg += (
            f", in this machine's byte order ({sys.byteorder}): convert it first, by .astype(dtype.newbyteorder('='))"
        )
    raise TypeError(msg)


def result_type(*kinds: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that several promote to: NumPy's."""
    return canonical(np.result_type(*kinds))
