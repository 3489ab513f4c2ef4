"""Reproductions: for each fault that the results name there is a script that shows it without this package."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from nbdlpack.conformance import CHECKS
from nbdlpack.conformance.adapters import find

CONFORMANCE = Path(__file__).parents[2] / "docs" / "conformance"
SCRIPTS = sorted((CONFORMANCE / "reproductions").rglob("*.py"))
MOST_LINES = 18
NOT_THE_FAULT = ("SyntaxError", "NameError", "ImportError", "ModuleNotFoundError")
"""With these a script fails that is wrong itself."""


def name_of(script):
    """Return the library and the check that a script is about."""
    return "/".join(script.relative_to(CONFORMANCE / "reproductions").with_suffix("").parts)


each_script = pytest.mark.parametrize("script", SCRIPTS, ids=name_of)


@pytest.fixture(scope="module")
def faults():
    """Return the versions of a library that fail a check, by "library/check"."""
    path = CONFORMANCE / "results.json"
    if not path.exists():
        pytest.skip(f"there is no {path.name} yet")
    found = {}
    for report in json.loads(path.read_text())["reports"]:
        if len(report["names"]) > 1:  # a round trip, of which the faults are those of either library
            continue
        (library,), (version,) = report["names"], report["versions"]
        for result in report["results"]:
            if result["outcome"] in ("fail", "crash"):
                # A second version of a library is named with it.
                found.setdefault(f"{library.partition(' ')[0]}/{result['id']}", set()).add(version)
    return found


def imported(text):
    """Yield the modules that a script imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


@each_script
def test_a_script_is_short(script):
    assert len(script.read_text().splitlines()) <= MOST_LINES


@each_script
def test_a_script_says_first_what_is_wrong(script):
    first = script.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")


@each_script
def test_a_script_stands_alone(script):
    modules = {name.partition(".")[0] for name in imported(script.read_text())}
    assert modules
    assert not modules & {"", "nbdlpack", "nbdlpack_pytest", "tests"}


@each_script
def test_a_script_is_named_after_a_check(script):
    assert script.stem in CHECKS
    assert len(name_of(script).split("/")) == 2


def test_each_fault_has_a_script(faults):
    assert not sorted(faults.keys() - set(map(name_of, SCRIPTS)))


def test_each_script_has_a_fault(faults):
    assert not sorted(set(map(name_of, SCRIPTS)) - faults.keys())


@pytest.mark.slow
@each_script
def test_the_fault_is_there(script, faults, tmp_path):
    name = name_of(script)
    if name not in faults:
        pytest.skip(f"the results name no fault {name}")
    adapter = find([script.parent.name])[0]
    if not adapter.installed() or adapter.version() not in faults[name]:
        pytest.skip(f"{name} is about {adapter.name} {' and '.join(sorted(faults[name]))}, which is not installed")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode, f"{name} ends well: {adapter.name} {adapter.version()} is not at fault"
    last = done.stderr.strip().rpartition("\n")[2]
    assert not last.startswith(NOT_THE_FAULT), done.stderr
