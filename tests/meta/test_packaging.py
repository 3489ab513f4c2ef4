"""What is installed is the tree: the wheel, built from a copy of it, holds each module once and nothing else."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ["LICENSE", "README.md", "kernels", "nbdlpack", "nbdlpack_pytest.py", "pyproject.toml"]

pytest.importorskip("setuptools", minversion="77", reason="builds the wheel with the setuptools that is installed")


def build(kind: str, tree: Path, target: Path) -> Path:
    """Build a distribution, "wheel" or "sdist", of a tree without network or isolation; return its path."""
    program = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(target)!r}))"
    # Distutils' replacement must come from setuptools itself, and what it warns about is a fault of pyproject.toml.
    command = [sys.executable, "-W", "error::UserWarning", "-c", program]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target / done.stdout.splitlines()[-1]


def copy_of_tree(target: Path) -> Path:
    target.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    return target


def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(name for name in archive.namelist() if ".dist-info/" not in name)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return copy_of_tree(tmp_path_factory.mktemp("packaging") / "tree")


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory):
    return build("wheel", tree, tmp_path_factory.mktemp("wheel"))


def expected() -> list[str]:
    """Return what a wheel of this tree must hold: each module, by the name it is imported as, and the typing marker.

    The plugin for pytest stands alone, so that pytest can load it without the library.
    """
    library, kernels = ROOT / "nbdlpack", ROOT / "kernels"
    modules = [path.relative_to(ROOT) for path in library.rglob("*.py") if library / "kernels" not in path.parents]
    modules += [Path("nbdlpack") / path.relative_to(ROOT) for path in kernels.rglob("*.py")]
    return sorted([*(str(path) for path in modules), "nbdlpack/py.typed", "nbdlpack_pytest.py"])


def test_the_wheel_holds_each_module_of_the_tree_once(wheel):
    assert contents(wheel) == expected()


def test_the_wheel_is_pure_python(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_wheel_needs_the_core_dependencies_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(line.split(">")[0] for line in required) == ["llvmlite", "ml_dtypes", "numba", "numpy"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "BSD-3-Clause"


def test_the_link_to_the_kernels_is_relative():
    """It serves checkouts that are not installed, type checkers and import-linter, wherever the checkout stands."""
    link = ROOT / "nbdlpack" / "kernels"
    if not link.is_symlink():
        pytest.skip("this checkout was made without symbolic links")
    assert os.readlink(link) == "../kernels"


def test_a_clone_without_symbolic_links_builds_the_same_wheel(tree, wheel, tmp_path):
    clone = tmp_path / "clone"
    shutil.copytree(tree, clone, symlinks=True, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    (clone / "nbdlpack" / "kernels").unlink()
    (clone / "nbdlpack" / "kernels").write_text("../kernels")  # as git writes it where it may not make links
    assert contents(build("wheel", clone, tmp_path)) == contents(wheel)


def test_the_wheel_of_the_source_distribution_is_the_same(tree, wheel, tmp_path):
    shutil.unpack_archive(build("sdist", tree, tmp_path), tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert contents(build("wheel", unpacked, tmp_path)) == contents(wheel)


def run_installed(wheel: Path, program: str, tmp_path: Path) -> list[str]:
    """Run a program where the wheel's files come before any other nbdlpack; return the lines it prints."""
    site = tmp_path / "site"
    shutil.unpack_archive(wheel, site, format="zip")
    environment = os.environ | {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_wheel_imports(wheel, tmp_path):
    program = "import nbdlpack as nd, nbdlpack.kernels as k; print(nd.__file__, k.__file__, nd.arange(3), sep='\\n')"
    lines = run_installed(wheel, program, tmp_path)
    site = str(tmp_path / "site" / "nbdlpack")
    assert lines == [f"{site}/__init__.py", f"{site}/kernels/__init__.py", "[0 1 2]"]


def test_no_other_name_is_installed(wheel, tmp_path):
    program = "import importlib.util as u; print([n for n in ('kernels', 'tests', 'benchmarks') if u.find_spec(n)])"
    assert {name.split("/")[0] for name in contents(wheel)} == {"nbdlpack", "nbdlpack_pytest.py"}
    assert run_installed(wheel, program, tmp_path) == ["[]"]


def test_pytest_finds_the_plugin(wheel, tmp_path):
    """By its entry point; pytest reads the modules of such packages in a way of its own, which must not matter."""
    program = (
        "import sys, pytest\n"
        "status = pytest.main(['--dlpack-module', 'numpy', '-k', 'P01', '-q', '-p', 'no:cacheprovider'])\n"
        "print(int(status), sys.modules['nbdlpack_pytest'].__file__, sys.modules['nbdlpack'].__file__, sep='\\n')"
    )
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        points = archive.read(name).decode()
    assert "[pytest11]\nnbdlpack_pytest = nbdlpack_pytest\n" in points
    *_, status, plugin, library = run_installed(wheel, program, tmp_path)
    site = tmp_path / "site"
    assert (status, plugin, library) == ("0", f"{site}/nbdlpack_pytest.py", f"{site}/nbdlpack/__init__.py")
