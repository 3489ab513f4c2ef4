"""Checks of every outcome, which importing this module adds to the table of checks.

Most of them are functions that nobody could find by their name.
"""

from __future__ import annotations

import os

from nbdlpack.conformance.registry import Failure, NotApplicable, Refused, Severity, check


def raising(error):
    """Return a function of a check, which has the name of all that are made here."""

    def function(lib):
        if error is not None:
            raise error

    return function


check("P91", "all is well", "dlpack.h")(raising(None))
check("P92", "the strides are there", "numpy#22507")(raising(Failure("strides are NULL")))
check("C93", "it is imported", "dlpack.h")(raising(Refused("BufferError: not <that>")))
check("L94", "it is let go of", "dlpack.h")(raising(NotApplicable("there is nothing to let go of")))
check("W95", "it is read-only", "dlpack.h", severity=Severity.STYLE)(raising(KeyError("flags")))


@check("X96", "it does not crash", "torch#1", severity=Severity.CORRUPTION, crashes=True)
def aborts(lib):
    os.write(2, b"free(): double free detected\n")
    os.abort()
