"""A cold function that cannot be compiled, and one beside it that could."""

# mypy: ignore-errors

from __future__ import annotations

from ctypes import c_int, c_int64


def broken(n: c_int64) -> c_int:
    return [n]


def beside(n: c_int64) -> c_int64:
    return n
