"""The checks, one module for each family.  Importing this package registers them, in the order of reports."""

from __future__ import annotations

from nbdlpack.conformance.checks import producer, consumer, exchange_api, lifetime, sharing  # isort: skip
