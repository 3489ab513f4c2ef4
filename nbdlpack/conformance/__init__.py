"""A referee for DLPack: checks of any library, as a producer and as a consumer.

    python -m nbdlpack conformance torch jax
    python -m nbdlpack inspect "numpy:arange(6).reshape(2, 3)"
    pytest --dlpack-module my.module

There is one function for each check, and one small class, an `Adapter`, for each library.
"""

from __future__ import annotations

from nbdlpack.conformance import checks
from nbdlpack.conformance.adapters import Adapter, NotAvailable
from nbdlpack.conformance.registry import CHECKS, Check, Family, Severity

__all__ = ["CHECKS", "Adapter", "Check", "Family", "NotAvailable", "Severity"]
