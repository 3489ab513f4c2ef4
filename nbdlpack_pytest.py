"""The pytest plugin: one test for each check of a library's DLPack, in that library's own tests.

    pytest --dlpack-module my.module                 a module with `asarray` and `from_dlpack`, or with an adapter
    pytest --dlpack-module my.tests.dlpack:Mine      an adapter, which is a class in that module
    pytest --dlpack-module torch@cuda                one that there is an adapter for, on another device

The tests are named like ``dlpack::my.module::P07`` and go by the checks' ids: ``-k "P07 or C12"`` runs two of them.  A
failure is reported with its reason; what the library refuses, and what does not apply to it, is skipped with the
reason.  Failures that are known are named in the configuration, and reported as soon as they are gone:

    [tool.pytest.ini_options]
    dlpack_xfail = ["P07", "C12"]                    or my.module::P07, where there are several modules

pytest imports this module wherever nbdlpack is installed.  So it stands alone, and imports nothing of nbdlpack until
the option is given; ``-p no:nbdlpack_pytest`` turns it off altogether.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("dlpack", "DLPack conformance, by nbdlpack")
    group.addoption(
        "--dlpack-module",
        action="append",
        default=[],
        metavar="MODULE",
        help="check what this module, or the adapter package.module:ClassName, makes of DLPack; may be repeated",
    )
    words = "ids of checks that are known to fail, as P07 or my.module::P07"
    group.addoption("--dlpack-xfail", action="append", default=[], metavar="IDS", help=f"{words}; may be repeated")
    parser.addini("dlpack_xfail", words, type="args")


def pytest_configure(config: pytest.Config) -> None:
    """Add the tests, if they are asked for."""
    if config.getoption("dlpack_module"):
        from nbdlpack.conformance.items import Plugin  # noqa: PLC0415 (see above)

        config.pluginmanager.register(Plugin(config), "dlpack")
