"""`python -m nbdlpack`: what the demonstration prints, for someone who looks at it on a small terminal."""

from __future__ import annotations

import itertools
import os
import pty
import re
import subprocess
import sys

import pytest

from nbdlpack import demo
from nbdlpack.__main__ import main

HEADINGS = [
    "An array",
    "Exchanged without a copy",
    "A copy is made when it is needed",
    "What is read-only stays read-only",
    "Copy against zero-copy",
]


def run(*arguments: str, hide: tuple[str, ...] = ()) -> str:
    """Run the command in an interpreter of its own, that must print nothing to stderr; some modules can be hidden."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({hide!r}))\n"
        "import importlib.util as u; found = u.find_spec\n"
        f"u.find_spec = lambda name, *rest: None if name in {hide!r} else found(name, *rest)\n"
        f"import runpy; sys.argv[1:] = {list(arguments)!r}; runpy.run_module('nbdlpack', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def output():
    return run("--largest", "4", hide=("torch", "jax", "pyarrow", "tvm_ffi", "cuda", "numba"))


def test_it_needs_the_core_dependencies_alone(output):
    assert "torch is not installed" in output


def test_it_shows_every_part(output):
    lines = output.splitlines()
    assert [line for line, below in itertools.pairwise(lines) if below and not below.strip("-")] == HEADINGS


def test_it_fits_in_80_columns(output):
    assert max(map(len, output.splitlines())) <= 80


def test_it_says_which_device_is_in_use(output):
    assert re.search(r"^device in use: (cpu|cuda)", output, re.MULTILINE)


def section(output: str, heading: str) -> str:
    """Return what is printed below a heading."""
    _, _, rest = output.partition(heading + "\n")
    following = [other for other in HEADINGS if f"\n{other}\n" in rest]
    return rest.partition(f"\n{following[0]}\n")[0] if following else rest


def test_an_edit_on_one_side_is_seen_on_the_other(output):
    text = section(output, "Exchanged without a copy")
    assert text.count("100., 200.") == 2


def test_the_lazy_copy_moves_at_the_first_write(output):
    text = section(output, "A copy is made when it is needed")
    before, after = re.findall(r"^(True|False)\n.*\n\('(0x\w+)', '(0x\w+)'\)$", text, re.MULTILINE)
    assert before[0] == "True"
    assert before[1] == before[2]
    assert after[0] == "False"
    assert after[1] == before[1], "the array that is not written to stays"
    assert after[2] != before[2]
    assert text.count("[(8000000, 'a write to ") == 1


def test_writes_through_the_read_only_export_are_refused(output):
    text = section(output, "What is read-only stays read-only")
    assert len(re.findall(r"^(?:ReadOnlyError|ValueError): ", text, re.MULTILINE)) == 2


def test_the_table_has_a_row_a_size(output):
    rows = re.findall(r"^ +(\d+ [KM]iB)( +[\d.]+ (?:s |ms|us)){3} +[\d,]+$", output, re.MULTILINE)
    assert [row[0] for row in rows] == ["1 KiB", "16 KiB", "256 KiB", "4 MiB"]


def test_torch_sees_the_same_memory():
    pytest.importorskip("torch")
    text = section(run("--largest", "0"), "Exchanged without a copy")
    assert "torch.from_dlpack" in text
    assert "100., 200., 300." in text
    assert text.rstrip().endswith("\nTrue")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_progress_is_shown_on_a_terminal_and_cleared():
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "nbdlpack", "--largest", "1"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=follower, check=True)
    os.close(follower)
    shown = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert "measuring 256 KiB" in shown
    assert shown.endswith("\r\x1b[K")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_the_commands(option, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([option])
    assert "demo" in capsys.readouterr().out


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["demonstrate"])
    assert "invalid choice: 'demonstrate'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("time", "words"), [(2e-9, "0.002 us"), (1.234e-7, "0.123 us"), (0.0831, "83.1 ms"), (1.5, "1.5 s ")]
)
def test_times_in_words(time, words):
    assert demo.in_seconds(time) == words
