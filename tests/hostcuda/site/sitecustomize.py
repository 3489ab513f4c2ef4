"""Imported by every Python that `tests.hostcuda.environment` has been given to."""

from __future__ import annotations

import tests.hostcuda

tests.hostcuda.install()
