"""The public names: listed, documented, and each what it says."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
from typing import Any

import pytest

import nbdlpack as nd

FUNCTIONS_PATH = importlib.import_module("nbdlpack.functions").__path__
SECTIONS = [f"nbdlpack.functions.{module.name}" for module in pkgutil.iter_modules(FUNCTIONS_PATH)]
MODULES = ["nbdlpack", "nbdlpack.dlpack", "nbdlpack.errors", "nbdlpack.fft", "nbdlpack.linalg", *SECTIONS]
FUNCTIONS = sorted(
    {
        f"{module}.{name}"
        for module in ("nbdlpack", "nbdlpack.dlpack", "nbdlpack.fft", "nbdlpack.linalg")
        for name in importlib.import_module(module).__all__
        if isinstance(getattr(importlib.import_module(module), name), types.FunctionType)
    }
)


def found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", MODULES)
def test_each_public_module_lists_its_names(name):
    module = importlib.import_module(name)
    assert module.__all__, "a public module lists what is public"
    assert len(set(module.__all__)) == len(module.__all__)
    assert not [public for public in module.__all__ if not hasattr(module, public)]


@pytest.mark.parametrize("name", SECTIONS)
def test_each_public_function_can_be_had_from_the_package(name):
    module = importlib.import_module(name)
    assert not [public for public in module.__all__ if getattr(nd, public, None) is not getattr(module, public)]


def test_dir_shows_what_is_listed():
    assert set(nd.__all__) <= set(dir(nd))


@pytest.mark.parametrize("path", FUNCTIONS)
def test_each_public_function_is_documented(path):
    """A line of purpose, what is returned, and an example, which the doctests run."""
    text = inspect.getdoc(found(path)) or ""
    assert text.partition("\n")[0].endswith("."), "the docstring begins with a sentence"
    sections = [
        line for line, below in zip(text.splitlines(), text.splitlines()[1:], strict=False) if below[:3] == "---"
    ]
    assert "Examples" in sections
    assert ">>> " in text


@pytest.mark.parametrize("path", FUNCTIONS)
def test_no_public_function_swallows_misspelt_keywords(path):
    kinds = [parameter.kind for parameter in inspect.signature(found(path)).parameters.values()]
    assert inspect.Parameter.VAR_KEYWORD not in kinds
