"""Who lets go of memory, when, on which thread, and how often."""

from __future__ import annotations
