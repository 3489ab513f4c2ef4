"""Show what an object exports by DLPack, by each way that a consumer may ask it.

    python -m nbdlpack inspect "numpy:arange(6).reshape(2, 3)"
    python -m nbdlpack inspect torch:ones(3).T

The expression is evaluated with the names of the module.  What is shown is `nbdlpack.dlpack.inspect` of its value; the
exit status is 1 if there is no such module, the expression fails, or its value has nothing of DLPack.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from nbdlpack.dlpack.inspection import inspect

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "run"]


class InspectError(Exception):
    """There is nothing to show; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.set_defaults(error=parser.error)
    parser.add_argument("what", metavar="module:expression", help="such as torch:ones(3)")


def run(options: argparse.Namespace) -> int:
    """Show what an object exports; return the exit status."""
    module, colon, expression = options.what.partition(":")
    if not (module and colon and expression):
        options.error(f"{options.what!r} is not a module, a colon and an expression, such as torch:ones(3)")
    try:
        print(look(module, expression))
    except InspectError as reason:
        print(f"{module}:{expression}: {' '.join(str(reason).split())}", file=sys.stderr)
        return 1
    return 0


def look(module: str, expression: str) -> str:
    """Return in words what the value of an expression of a module exports.  Raises InspectError if it cannot."""
    try:
        names: dict[str, Any] = vars(importlib.import_module(module))
    except Exception as error:
        msg = f"the module cannot be imported: {type(error).__name__}: {error}"
        raise InspectError(msg) from error
    try:
        x = eval(expression, dict(names))
    except Exception as error:
        msg = f"the expression fails: {type(error).__name__}: {error}"
        raise InspectError(msg) from error
    try:
        return repr(inspect(x))
    except AttributeError as error:
        msg = f"this is a {type(x).__qualname__}, which exports nothing by DLPack: {error}"
        raise InspectError(msg) from error
