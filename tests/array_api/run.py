"""Runs the public test suite of the array API standard, data-apis/array-api-tests, on this library.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests ../array-api-tests
    pip install -r ../array-api-tests/requirements.txt
    python tests/array_api/run.py ../array-api-tests [--device cpu] [--hostcuda MODE] [--max-examples 100] ...

`--hostcuda MODE` is for the cuda device on the driver of tests/hostcuda, in one of its modes: sync, lazy, random:7, ...
Examples are the same in every run, or with `--seed N` those of that number.  What else is given goes to pytest, with
paths from the checkout's root: `array_api_tests/test_linalg.py`, `-k pow`, `-n 4`.

Only faults of the suite itself stand in the file of xfails of a device, each with its proof; only what a device leaves
to the cpu in its file of skips.  The exit status is pytest's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VERSION = "2025.12"


def checkout(path: str | os.PathLike[str]) -> Path:
    """Return the root of a checkout of the suite.  Raises ValueError if it is none, or lacks the standard's text."""
    root = Path(path).resolve()
    if not (root / "array_api_tests").is_dir():
        msg = f"{root} is no checkout of data-apis/array-api-tests: it has no folder array_api_tests"
        raise ValueError(msg)
    if not (root / "array-api" / "src").is_dir():
        msg = f"{root} lacks the text of the standard: run `git submodule update --init` there"
        raise ValueError(msg)
    return root


def command(
    *arguments: str, device: str = "cpu", hostcuda: str = "", examples: int = 100, seed: int | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs the suite, in the root of a checkout, and its environment."""
    if hostcuda:
        sys.path.insert(0, str(ROOT))
        from tests import hostcuda as driver

        stream, _, order = hostcuda.partition("/")
        environment = driver.environment(HOSTCUDA_ASYNC=stream, HOSTCUDA_ORDER=order or "forward")
        device = "cuda"
    else:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        environment = os.environ | {"PYTHONPATH": path}
    environment |= {
        "ARRAY_API_TESTS_MODULE": "nbdlpack",
        "ARRAY_API_TESTS_VERSION": VERSION,
        "NBDLPACK_DEVICE": device,
    }
    options = ["-p", "tests.array_api.plugin", "-p", "no:cacheprovider", "--disable-warnings", "-q"]
    options += ["-c", "pytest.ini", "--rootdir=.", f"--max-examples={examples}"]
    for name in ("xfails", "skips"):
        file = HERE / f"{name}-{device.partition(':')[0]}.txt"
        options += [f"--{name}-file={file}"] if file.exists() else []
    options += ["--derandomize"] if seed is None else [f"--hypothesis-seed={seed}"]
    chosen = any(argument.partition("::")[0].endswith((".py", "array_api_tests")) for argument in arguments)
    return [sys.executable, "-m", "pytest", *options, *arguments, *([] if chosen else ["array_api_tests"])], environment


def main(arguments: list[str]) -> int:
    """Run the suite and return pytest's exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", help="a checkout of data-apis/array-api-tests, with its submodule")
    parser.add_argument("--device", default="cpu", help="which device arrays are on: cpu, cuda")
    parser.add_argument("--hostcuda", default="", metavar="MODE", help="the cuda device without a GPU, in that mode")
    parser.add_argument("--max-examples", type=int, default=100, metavar="N", help="the examples of each test")
    parser.add_argument("--seed", type=int, metavar="N", help="other examples")
    chosen, rest = parser.parse_known_args(arguments)
    try:
        root = checkout(chosen.checkout)
    except ValueError as error:
        parser.error(str(error))
    words, environment = command(
        *rest, device=chosen.device, hostcuda=chosen.hostcuda, examples=chosen.max_examples, seed=chosen.seed
    )
    return subprocess.run(words, cwd=root, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
