"""Run the notebooks, and write what they show beside them: ``python notebooks/render.py``.

The text files ``*.py`` are the notebooks; jupytext opens them in Jupyter, and pairs them with the ``*.ipynb`` here, which
are for reading them with their results.  What is written is the same whoever runs it, but for numbers that are measured.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jupytext
import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from nbformat import NotebookNode

HERE = Path(__file__).parent
SOURCES = sorted(HERE.glob("[0-9]*.py"))


def execute(source: Path) -> NotebookNode:
    """Run a notebook in a fresh kernel, from top to bottom, and return it with its outputs."""
    notebook = jupytext.read(source)
    folder = {"metadata": {"path": str(HERE.parent)}}
    client = NotebookClient(notebook, kernel_name="python3", record_timing=False, resources=folder)
    client.execute()
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number}"
        cell.metadata.clear()
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
    return notebook


def main() -> None:
    """Run all notebooks, or those whose sources are named on the command line."""
    for source in map(Path, sys.argv[1:] or SOURCES):
        target = source.with_suffix(".ipynb")
        nbformat.write(execute(source), target)
        print(f"{target}: {target.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
