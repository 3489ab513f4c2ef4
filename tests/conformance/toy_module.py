"""A library as the array API standard describes one, which needs no adapter."""

from __future__ import annotations

from numpy import asarray, from_dlpack

__all__ = ["asarray", "from_dlpack"]
