# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="arg-type"
"""The table of element types."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import dtypes
from tests.arrays import DTYPES, EXTENDED


@pytest.mark.parametrize("row", dtypes.TABLE, ids=lambda row: row.name)
def test_row(row):
    assert row.dtype.itemsize * 8 == row.bits
    assert getattr(nd, row.name) is row.dtype.type
    assert dtypes.canonical(row.name) is row.dtype
    assert dtypes.canonical(row.dtype.type) is row.dtype
    assert dtypes.WORDS[row.dtype] == row.code | row.bits << 8 | 1 << 16
    assert dtypes.DTYPES[dtypes.WORDS[row.dtype]] is row.dtype


@pytest.mark.parametrize("row", [row for row in dtypes.TABLE if row.format], ids=lambda row: row.name)
def test_format_is_that_of_numpys_buffers(row):
    assert memoryview(np.zeros(1, row.dtype)).format.encode() == row.format


def test_every_float8_of_ml_dtypes_has_a_row():
    """Those of a whole byte: DLPack says the others packed, which NumPy cannot show."""
    wanted = {name for name in dir(ml_dtypes) if name.startswith(("float8", "bfloat16"))}
    assert {dtype.name for dtype in EXTENDED} == wanted


def test_rows_differ():
    assert len(set(DTYPES)) == len(set(dtypes.WORDS.values())) == len(dtypes.TABLE)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("f4", np.float32),
        (float, np.float64),
        (int, np.int64),
        (bool, np.bool),
        (complex, np.complex128),
        (None, float),
    ],
)
def test_spellings(given, expected):
    assert dtypes.canonical(given) is dtypes.canonical(np.dtype(expected))
    assert nd.empty(1, given).dtype == np.dtype(expected)


@pytest.mark.parametrize("given", ["U3", "O", "M8[s]", np.dtype([("a", "i4")]), np.longdouble, ml_dtypes.int4])
def test_unsupported_types_are_refused_by_name(given):
    with pytest.raises(TypeError, match="an array can have only one of bool, int8"):
        nd.empty(1, given)


def test_other_byte_order_is_refused_with_a_remedy():
    swapped = np.dtype(np.float32).newbyteorder()
    with pytest.raises(TypeError, match=rf"byte order \({sys.byteorder}\): convert it first"):
        nd.zeros(3, swapped)


def test_no_dtype():
    with pytest.raises(TypeError, match="not understood"):
        nd.zeros(3, "float33")
