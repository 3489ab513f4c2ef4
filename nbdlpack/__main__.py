"""The command line: `python -m nbdlpack` shows on this machine what the library does."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

COMMANDS = {
    "demo": ("nbdlpack.demo", "show what the library does"),
    "inspect": ("nbdlpack.dlpack.command", "show what an object exports by DLPack"),
    "conformance": ("nbdlpack.conformance.command", "check what libraries make of DLPack"),
}
"""What can be asked for: modules with a docstring, `add_arguments(parser)` and `run(options)`, and what they are for.

None but the one that is asked for is imported.
"""

DEFAULT = "demo"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, the demonstration if none is named, and return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the program's name on the command line; that of this process by default.

    Returns
    -------
    int
        0, or another number if the command failed.  Wrong arguments and `--help` leave by SystemExit.
    """
    asked = list(sys.argv[1:] if arguments is None else arguments)
    if not asked or (asked[0].startswith("-") and asked[0] not in {"-h", "--help"}):
        asked.insert(0, DEFAULT)
    parser = argparse.ArgumentParser(prog="python -m nbdlpack", description=f"Without a command: {DEFAULT}.")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="command", required=True)
    for name, (module, purpose) in COMMANDS.items():
        named = commands.add_parser(name, help=purpose, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == asked[0]:
            command = importlib.import_module(module)
            named.description = command.__doc__
            named.set_defaults(run=command.run)
            command.add_arguments(named)
    options = parser.parse_args(asked)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
