"""`import nbdlpack` is cheap and does nothing else than that: each promise is tried in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What importing the dependencies does is theirs; they are imported before anything is looked at.
PRELUDE = """
import sys, os, threading, signal, warnings, locale
import numpy, ml_dtypes, llvmlite.binding
"""


def run(program: str, *options: str, cwd: Path = ROOT, **environment: str) -> str:
    """Run a program that must succeed and write nothing to stderr; return what it prints."""
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_it_prints_nothing():
    assert run("import nbdlpack") == ""


def test_no_heavy_module_is_imported():
    """Neither Numba nor a peer, nor the parts of the standard library that take long to load."""
    found = run(
        PRELUDE
        + "before = set(sys.modules); import nbdlpack\n"
        + "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    ).split()
    peers = {"cuda", "cupy", "jax", "matplotlib", "numba", "numba_cuda", "pyarrow", "torch", "tvm_ffi"}
    slow = {"asyncio", "concurrent", "email", "http", "multiprocessing", "pydoc", "socket", "sqlite3", "unittest"}
    assert "nbdlpack" in found
    assert not (peers | slow) & set(found)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_outside_of_the_package_changes():
    """Environment, signal handlers, warning filters, hooks, locale, NumPy's settings, threads: all are left alone."""
    program = PRELUDE + (
        "def state():\n"
        "    return {\n"
        "        'environment': dict(os.environ),\n"
        "        'signals': {s: signal.getsignal(s) for s in signal.valid_signals()},\n"
        "        'filters': list(warnings.filters),\n"
        "        'hooks': (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),\n"
        "        'finders': (list(sys.path), list(sys.meta_path), list(sys.path_hooks)),\n"
        "        'locale': locale.setlocale(locale.LC_ALL),\n"
        "        'limits': (sys.getrecursionlimit(), sys.getswitchinterval()),\n"
        "        'numpy': (numpy.geterr(), numpy.get_printoptions()),\n"
        "        'threads': sorted(os.listdir('/proc/self/task')),\n"
        "        'descriptors': sorted(os.listdir('/proc/self/fd')),\n"
        "        'folder': os.getcwd(),\n"
        "    }\n"
        "before = state()\n"
        "import nbdlpack\n"
        "after = state()\n"
        "print([name for name in before if before[name] != after[name]])"
    )
    assert run(program) == "[]\n"


def test_no_file_process_connection_or_driver_is_opened(tmp_path):
    """Python reports what it does to audit hooks; files are only read, and no library but LLVM's is loaded."""
    program = PRELUDE + (
        "seen = []\n"
        "def hook(event, arguments):\n"
        "    if event == 'open' and (set(str(arguments[1])) & set('wax+') or (arguments[2] or 0) & 3):\n"
        "        seen.append((event, str(arguments[0])))\n"
        "    elif event == 'ctypes.dlopen' and arguments[0] is not None:\n"
        "        seen.append((event, str(arguments[0])))\n"
        "    elif event.split('.')[0] in ('socket', 'subprocess', 'shutil', 'tempfile', 'webbrowser', 'urllib'):\n"
        "        seen.append((event,))\n"
        "    elif event in ('os.mkdir', 'os.remove', 'os.rename', 'os.system', 'os.fork', 'os.posix_spawn',\n"
        "                   'os.putenv', '_thread.start_new_thread'):\n"
        "        seen.append((event,))\n"
        "sys.addaudithook(hook)\n"
        "import nbdlpack\n"
        "print(seen)"
    )
    home = tmp_path / "home"
    home.mkdir()
    found = run(
        program, "-B", cwd=home, HOME=str(home), TMPDIR=str(home), XDG_CACHE_HOME=str(home), PYTHONPATH=str(ROOT)
    )
    assert found == "[]\n"
    assert not list(home.iterdir())


SMALL = """
import nbdlpack as nd
x = nd.arange(3)
y = x.copy()
y += 1
print(x, y)
"""


@pytest.mark.parametrize(
    "option", ["-O", "-OO", "-B", "-P", "-Werror", "-bb", "-Xdev", "-Xutf8=0", "-Xno_debug_ranges"]
)
def test_it_works_in_every_mode_of_the_interpreter(option):
    assert run(SMALL, option, PYTHONPATH=str(ROOT)) == "[0 1 2] [1 2 3]\n"


@pytest.mark.parametrize("variable", ["PYTHONWARNINGS=error", "LC_ALL=C", "PYTHONHASHSEED=0", "PYTHONMALLOC=debug"])
def test_it_works_in_every_environment(variable):
    name, _, value = variable.partition("=")
    assert run(SMALL, **{name: value}) == "[0 1 2] [1 2 3]\n"


def test_it_works_without_numba():
    """The cpu device computes with NumPy: what does not need Numba neither imports nor requires it."""
    guard = "import sys; sys.modules['numba'] = None\n"
    assert run(guard + SMALL) == "[0 1 2] [1 2 3]\n"


def test_it_works_from_a_zip_file(tmp_path):
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in (ROOT / "nbdlpack").rglob("*.py"):
            target.write(path, path.relative_to(ROOT))
    program = SMALL + "print(nd.__file__)"
    lines = run(program, cwd=tmp_path, PYTHONPATH=str(archive)).splitlines()
    assert lines == ["[0 1 2] [1 2 3]", str(archive / "nbdlpack" / "__init__.py")]


def test_it_can_be_imported_by_a_thread():
    program = "import threading\nt = threading.Thread(target=lambda: exec('import nbdlpack')); t.start(); t.join()\n"
    assert run(program + SMALL) == "[0 1 2] [1 2 3]\n"


def test_a_free_threaded_build_is_refused():
    """Counts are checked on the promise that the GIL is held; such a build says so by the letter t in its ABI."""
    program = (
        "import sys\nsys.abiflags = 't'\n"
        "try: import nbdlpack\n"
        "except ImportError as error: print(error)"
    )  # fmt: skip
    assert "this is a free-threaded build of Python" in run(program)
