"""What comes out: of one check, and of all checks of a library."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nbdlpack.conformance.registry import Check

__all__ = ["Outcome", "Report", "Result"]


class Outcome(enum.Enum):
    """How a check went."""

    PASS = "pass"
    FAIL = "fail"
    REFUSED = "refused"
    """The library declines what it may decline."""
    CRASH = "crash"
    """The process ended, or did not answer."""
    NOT_APPLICABLE = "not applicable"

    @property
    def bad(self) -> bool:
        """Whether its maintainers have something to mend."""
        return self in (Outcome.FAIL, Outcome.CRASH)


class Result(NamedTuple):
    """How a check of a library went."""

    check: Check
    outcome: Outcome
    reason: str = ""
    """Why, in words; of a pass, what else there is to say."""
    output: str = ""
    """The last lines that were printed meanwhile, if it failed or crashed."""


class Report(NamedTuple):
    """How all checks of a library went, or of a pair of libraries."""

    names: tuple[str, ...]
    """The library; of a pair, who exports and who imports."""
    versions: tuple[str, ...]
    results: tuple[Result, ...] = ()
    """In the order of the checks."""
    error: str = ""
    """Why the library could not be imported, if so; then there are no more results."""

    @property
    def name(self) -> str:
        """What it is called on the command line and in tables."""
        return " → ".join(self.names)

    @property
    def failures(self) -> list[Result]:
        """What failed or crashed."""
        return [result for result in self.results if result.outcome.bad]
