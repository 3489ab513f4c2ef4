"""The tests that the pytest plugin adds: see `nbdlpack_pytest`, which imports this module once it is asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nbdlpack.conformance.adapters import find
from nbdlpack.conformance.registry import CHECKS
from nbdlpack.conformance.results import Outcome
from nbdlpack.conformance.running import NotLoadedError, Worker

if TYPE_CHECKING:
    from pathlib import Path

    from nbdlpack.conformance.registry import Check
    from nbdlpack.conformance.results import Result

__all__ = ["Plugin"]


class Plugin:
    """Adds a test for each check of each module that is named; keeps their processes for as long as the session."""

    def __init__(self, config: pytest.Config) -> None:
        names = config.getoption("dlpack_module")
        self.workers = dict(zip(names, [Worker(adapter) for adapter in _found(names)], strict=True))
        ids = [*config.getini("dlpack_xfail"), *" ".join(config.getoption("dlpack_xfail")).replace(",", " ").split()]
        self.known = set(ids)
        unknown = self.known - {name for id in CHECKS for name in (id, *(f"{module}::{id}" for module in names))}
        if unknown:
            msg = f"dlpack_xfail names {', '.join(sorted(unknown))}, but there are only the checks {', '.join(CHECKS)}"
            raise pytest.UsageError(msg)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add the tests, before others select or sort."""
        for name, worker in self.workers.items():
            module = Module.from_parent(session, name=name, nodeid=f"dlpack::{name}", worker=worker)
            for item in module.collect():
                if self.known & {item.name, f"{name}::{item.name}"}:
                    item.add_marker(pytest.mark.xfail(reason="known, see dlpack_xfail", strict=True))
                items.append(item)

    def pytest_unconfigure(self) -> None:
        """End the processes."""
        for worker in self.workers.values():
            worker.close()


class Module(pytest.Collector):
    """A library that is checked."""

    def __init__(self, *, worker: Worker, **options: Any) -> None:
        super().__init__(**options)
        self.worker = worker
        self.error = ""

    def collect(self) -> list[Item]:
        """Return a test for each check."""
        return [Item.from_parent(self, name=id, check=check) for id, check in CHECKS.items()]

    def check(self, check: Check) -> Result:
        """Run a check, unless it is known already that the library cannot be imported."""
        if not self.error:
            try:
                return self.worker.check(check)
            except NotLoadedError as reason:
                self.error = f"{self.name} cannot be imported: {reason}"
        pytest.fail(self.error, pytrace=False)


class Item(pytest.Item):
    """A check of a library."""

    parent: Module

    def __init__(self, *, check: Check, **options: Any) -> None:
        super().__init__(**options)
        self.check = check

    def runtest(self) -> None:
        """Run the check, and have pytest report its outcome."""
        result = self.parent.check(self.check)
        if result.output:
            self.add_report_section("call", "printed", result.output)
        if result.outcome.bad:
            what = f"{self.check.statement} [{self.check.source}; {self.check.severity.value}]"
            pytest.fail(f"{result.reason}\n{self.check.id}: {what}", pytrace=False)
        if result.outcome is not Outcome.PASS:
            pytest.skip(f"{result.outcome.value}: {result.reason}")

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        """Return what pytest shows above a failure."""
        return "dlpack", None, f"{self.parent.name}::{self.name}"


def _found(names: list[str]) -> Any:
    """Return the adapters of modules; it is pytest that says what is wrong with a name."""
    try:
        return find(names)
    except Exception as error:
        msg = f"--dlpack-module: {error}"
        raise pytest.UsageError(msg) from error
