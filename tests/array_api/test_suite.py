"""The public test suite of the array API standard, if there is a checkout of it: see run.py."""

from __future__ import annotations

import importlib.util
import os
import subprocess

import pytest

from tests.array_api import run


def found() -> str:
    """Return where the suite is: what ARRAY_API_TESTS says, else a folder beside the project."""
    return os.environ.get("ARRAY_API_TESTS") or str(run.ROOT.parent / "array-api-tests")


@pytest.fixture
def suite():
    """The root of a checkout; without one, or without what the suite needs, the test is skipped."""
    try:
        root = run.checkout(found())
    except ValueError as error:
        pytest.skip(f"{error}; ARRAY_API_TESTS names another place")
    for name in ("hypothesis", "ndindex", "pytest_jsonreport"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"the suite needs {name}: pip install -r {root / 'requirements.txt'}")
    return root


@pytest.mark.parametrize("examples", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_cpu(suite, examples):
    words, environment = run.command(examples=examples)
    done = subprocess.run(words, cwd=suite, env=environment, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "lazy"])
def test_cuda(suite, hostcuda, mode):
    words, environment = run.command(hostcuda=mode, examples=40)
    done = subprocess.run(words, cwd=suite, env=environment, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_no_checkout(tmp_path, capsys):
    """What is no checkout, or one without its submodule, is named with the cure."""
    for cure in ("no folder array_api_tests", "git submodule update --init"):
        with pytest.raises(SystemExit):
            run.main([str(tmp_path)])
        assert cure in capsys.readouterr().err
        (tmp_path / "array_api_tests").mkdir(exist_ok=True)
