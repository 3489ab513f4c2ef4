"""A line on a terminal that says how far a piece of work is."""

from __future__ import annotations

import sys

__all__ = ["Progress"]


class Progress:
    """A line on the terminal that says how far a piece of work is; nothing if stderr is not a terminal.

    Parameters
    ----------
    total : int
        The number of steps.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.shown = sys.stderr.isatty()

    def step(self, what: str) -> None:
        """Show that the next step begins, and what it does."""
        if self.shown:
            bar = ("#" * (20 * self.done // self.total)).ljust(20, ".")
            print(f"\r\x1b[K  [{bar}] {what}", end="", file=sys.stderr, flush=True)
        self.done += 1

    def clear(self) -> None:
        """Remove the line, so that something else can be printed there."""
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
