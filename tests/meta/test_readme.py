"""What README.md and CONTRIBUTING.md tell people to do works: the examples run, and what they name is there."""

from __future__ import annotations

import doctest
import importlib.util
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PEERS = {"cupy", "jax", "pyarrow", "torch", "tvm_ffi"}


def examples(text: str) -> dict[str, str]:
    """Return the Python blocks of a page below each heading, joined: those of one part use each other's names."""
    parts = re.split(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    blocks = {
        title: "\n".join(re.findall(r"^```python\n(.*?)^```$", body, re.DOTALL | re.MULTILINE))
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {title: block for title, block in blocks.items() if block}


SESSIONS = {part: source for part, source in examples(README).items() if ">>>" in source}
PROGRAMS = {part: source for part, source in examples(README).items() if ">>>" not in source}


@pytest.mark.parametrize("part", PROGRAMS)
def test_the_programs_of_the_readme_run(cuda, part):
    """Their assertions say what comes out."""
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Grid size 4")  # Numba's, about small launches
        exec(compile(PROGRAMS[part], "README.md", "exec"), names)
    names.clear()  # Numba keeps kernels, and with them the arrays of their modules


@pytest.mark.parametrize("part", SESSIONS)
def test_the_examples_of_the_readme_run(part):
    source = SESSIONS[part]
    needed = PEERS & set(re.findall(r"^>>> import (\w+)", source, re.MULTILINE))
    missing = sorted(name for name in needed if importlib.util.find_spec(name) is None)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    test = doctest.DocTestParser().get_doctest(source, {}, part, "README.md", 0)
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE).run(
        test, out=report.append
    )
    assert not failed, "".join(report)


def test_the_readme_has_exactly_two_commands():
    """One for the main job, one for the tests; each a line to paste, that sets up what it needs."""
    commands = re.findall(r"^python3 .*$", README, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert f"```sh\n{command}\n```" in README
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert commands[0].endswith(" .venv/bin/python -m nbdlpack")
    assert commands[1].endswith(" .venv/bin/python -m pytest -n auto --dist loadfile")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    assert not [link for link in links if "://" not in link and not (ROOT / link).exists()]


def test_paths_named_for_contributors_exist():
    named = set(re.findall(r"`((?:nbdlpack|kernels|tests|benchmarks|notebooks|\.ci)/[\w./]*)`", CONTRIBUTING))
    assert named
    assert not sorted(name for name in named if not (ROOT / name).exists())
