"""Read-only exports, and arrays that share memory until one of them is written to."""

from __future__ import annotations
