"""The table of C functions, `__dlpack_c_exchange_api__`."""

from __future__ import annotations
