"""What arrays export: the structure, its fields, and the arguments of `__dlpack__`."""

from __future__ import annotations
