"""What is made of what others export: every field, every age of producer, everything malformed."""

from __future__ import annotations
