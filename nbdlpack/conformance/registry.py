"""What a check is, and the table of them: what each states, where that comes from, and how bad it is if not.

A check is a function of one argument, the `Subject` that is checked.  It returns if all is well and raises else:
`Failure` with the reason in words (`expect` does so), `Refused` where the library declines what it may decline, and
`NotApplicable` where there is nothing to check.  What else it raises is a failure as well, with the exception's text.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbdlpack.conformance.subject import Subject

__all__ = [
    "CHECKS",
    "Check",
    "Failure",
    "Family",
    "NotApplicable",
    "Refused",
    "Severity",
    "check",
    "expect",
]


class Family(enum.Enum):
    """Of what a check speaks; the value begins the ids of its checks."""

    PRODUCER = "P"
    CONSUMER = "C"
    EXCHANGE_API = "X"
    LIFETIME = "L"
    COPY_ON_WRITE = "W"


class Severity(enum.Enum):
    """What it means if a check fails."""

    CORRUPTION = "crash or corruption"
    WRONG = "wrong"
    STYLE = "style"


class Failure(AssertionError):  # noqa: N818 (it is an answer, not an error)
    """The library does not do what the check states; the message says what it does instead."""


class Refused(Exception):  # noqa: N818 (it is an answer, not an error)
    """The library declines, with an exception that it may raise here."""


class NotApplicable(Exception):  # noqa: N818
    """There is nothing to check: the library does not have what the check speaks of."""


class Check(NamedTuple):
    """One check."""

    id: str
    """A letter for the family and a number: "P07"."""
    statement: str
    """What is checked, in one line."""
    source: str
    """The clause of the specification, or the public report, that it comes from."""
    severity: Severity
    function: Callable[[Subject], str | None]
    """What it returns, if anything, is shown beside "pass"."""
    crashes: bool
    """Whether a wrong library may end the process, so that the check is run in a process of its own."""

    @property
    def family(self) -> Family:
        """Of what it speaks."""
        return Family(self.id[0])


CHECKS: Final[dict[str, Check]] = {}
"""All checks, by id."""


def check(
    id: str, statement: str, source: str, *, severity: Severity = Severity.WRONG, crashes: bool = False
) -> Callable[[Callable[[Subject], str | None]], Callable[[Subject], str | None]]:
    """Make a function a check.  Raises ValueError if the id is taken."""

    def register(function: Callable[[Subject], str | None]) -> Callable[[Subject], str | None]:
        if id in CHECKS:
            msg = f"the id {id} is that of two checks: {CHECKS[id].statement!r} and {statement!r}"
            raise ValueError(msg)
        CHECKS[id] = Check(id, statement, source, severity, function, crashes)
        return function

    return register


def expect(condition: Any, reason: str) -> None:
    """Raise `Failure` with a reason unless a condition holds."""
    if not condition:
        raise Failure(reason)
