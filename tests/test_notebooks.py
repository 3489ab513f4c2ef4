"""The notebooks run from top to bottom in a fresh kernel, and the copies kept with results are of the same text."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest

for package in ("jupytext", "nbclient", "ipykernel", "matplotlib"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install -e '.[notebooks]'")

import jupytext  # noqa: E402 - may be missing
import nbformat  # noqa: E402

from notebooks.render import HERE, SOURCES, execute  # noqa: E402

NAMES = [source.stem for source in SOURCES]


@pytest.fixture(scope="module")
def executed():
    """Return a function that runs a notebook, once."""
    done = {}

    def run(name):
        if name not in done:
            done[name] = execute(HERE / f"{name}.py")
        return done[name]

    return run


def outputs(notebook):
    """Return all outputs, of all cells."""
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def printed(notebook):
    """Return all that was printed or shown as text."""
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs(notebook))


@pytest.mark.parametrize("name", NAMES)
def test_it_runs(executed, name):
    """Its assertions hold, every code cell was run, and nothing is said on stderr, such as a warning."""
    notebook = executed(name)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert [output.text for output in outputs(notebook) if output.get("name") == "stderr"] == []


@pytest.mark.parametrize("name", NAMES)
def test_each_piece_of_code_is_introduced(name):
    """It begins with a title, and there are never three code cells in a row without a word."""
    kinds = [cell.cell_type for cell in jupytext.read(HERE / f"{name}.py").cells]
    assert kinds[0] == "markdown"
    assert ["code"] * 3 not in [kinds[i : i + 3] for i in range(len(kinds))]


@pytest.mark.parametrize("name", NAMES)
def test_the_copy_with_results_is_of_the_same_text(name):
    """`python notebooks/render.py` writes it anew.  It has results, and names no place on the machine it was run on."""
    path = HERE / f"{name}.ipynb"
    kept, source = nbformat.read(path, as_version=4), jupytext.read(HERE / f"{name}.py")
    assert [(cell.cell_type, cell.source) for cell in kept.cells] == [(c.cell_type, c.source) for c in source.cells]
    assert printed(kept)
    assert not [word for word in ("/tmp/", "/home/", "ipykernel", "Traceback") if word in printed(kept)]
    assert path.stat().st_size < 200_000
    nbformat.validate(kept)


def test_first_steps_shows_what_it_says(executed):
    text = printed(executed("01_first_steps"))
    assert "same memory: True\nsame address: True" in text
    assert "8000000 bytes were copied on cpu: a write to" in text
    assert "NumPy may write: False\nafter a round trip: False" in text
    assert "no_copies() is in effect" in text
    assert "assignment destination is read-only" in text
    pytest.importorskip("torch", reason="torch is not installed: the notebook says so in its place")
    assert "skipped: PyTorch" not in text
    assert "dtype=torch.bfloat16" in text


def test_copy_or_zero_copy_draws_two_plots(executed):
    notebook = executed("02_copy_or_zero_copy")
    images = [output.data["image/png"] for output in outputs(notebook) if "image/png" in output.get("data", {})]
    assert len(images) == 2
    for image in images:
        # The size of a PNG image is at the beginning of its header.
        width, height = struct.unpack(">II", base64.b64decode(image)[16:24])
        assert width > 600
        assert height > 300
    assert "copies after reading: 0; after writing twice: 1, of 8000000 bytes" in printed(notebook)


def test_without_torch_the_first_steps_still_run(tmp_path, monkeypatch):
    """A laptop without PyTorch: the cells that need it say so."""
    hidden = tmp_path / "torch.py"
    hidden.write_text("raise ImportError('hidden for this test')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    text = printed(execute(Path(HERE / "01_first_steps.py")))
    assert text.count("skipped: PyTorch is not installed") == 2
    assert "PyTorch is not installed: the two cells" in text
