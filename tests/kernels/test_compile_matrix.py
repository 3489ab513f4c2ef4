# mypy: disable-error-code="no-untyped-def"
"""The machine code of the kernels, for each architecture: what only NVIDIA's compilers can show.

The quick tests compile a sample for one architecture, the slow ones every kernel for each: see `matrix`.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from tests.kernels import harness, matrix

PROCESSES = 2
ROOT = Path(__file__).parents[2]

STACK = {
    r"(sin|cos|tan)\(": "large arguments are reduced by 2/pi to as many bits as it takes, which are in local memory",
    r"(exp|expm1|cosh|sinh|tanh|power)\(complex": "these take the sine and the cosine of a part",
}
"""The kernels that have a stack frame, as patterns, and why."""


def missing() -> str:
    """Return what there is not that is needed, in words."""
    if harness.SIMULATED:
        return "Numba's simulator compiles nothing"
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        for name in ("nvvm", "nvrtc", "nvJitLink"):
            load_nvidia_dynamic_lib(name)
        matrix.disassembler()
        import_module("nbdlpack.kernels.numba_cuda")
    except Exception as error:  # noqa: BLE001 - each library has errors of its own
        return f"the kernels cannot be compiled: {str(error).partition(chr(10))[0]}"
    return ""


@pytest.fixture(scope="module", params=["sample", pytest.param("all", marks=pytest.mark.slow)])
def rows(request):
    """What was compiled."""
    if missing():
        pytest.skip(missing())
    some = ["--sample", "--sm", "90"] if request.param == "sample" else []
    command = [sys.executable, "-m", "tests.kernels.matrix", *some]

    def part(i):  # each is read at once, or the others would wait for it with their pipes full
        words = [*command, "--part", f"{i}/{PROCESSES}"]
        return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()

    with ThreadPoolExecutor(PROCESSES) as threads:
        lines = [line for lines in threads.map(part, range(PROCESSES)) for line in lines]
    return [matrix.Row(**json.loads(line)) for line in lines]


def test_registers(rows, capsys):
    """A thread may have 255; how many there are is only told."""
    kernels = {row.name for row in rows}
    worst = sorted(rows, key=lambda row: -row.registers)[:3]
    with capsys.disabled():
        print(f"\n{len(kernels)} kernels compiled for {len(rows) // len(kernels)} architectures; the most registers:")
        for row in worst:
            print(f"  {row.registers} in {row.name!r} on sm_{row.sm}")
    assert worst[0].registers <= 255


def test_no_register_is_spilled(rows):
    assert [row for row in rows if row.spills] == []


def test_no_function_is_missing(rows):
    assert [row for row in rows if row.externals] == []


def test_only_some_have_a_stack_frame(rows):
    assert [row for row in rows if row.stack and not any(re.match(name, row.name) for name in STACK)] == []


def test_contiguous_copies_and_fills_move_16_bytes_at_a_time(rows):
    copies = [row for row in rows if row.name == "copy contiguous of 16 byte words"]
    fills = [row for row in rows if row.name == "fill contiguous of 16 byte words"]
    assert copies
    assert fills
    assert [row for row in copies if row.wide_loads < 4 or row.wide_stores < 4] == []
    assert [row for row in fills if row.wide_stores < 1] == []


def test_no_product_is_fused_with_a_sum_where_it_shows(rows):
    """Where it may be, it is: that shows that the count can tell."""
    counted = [row for row in rows if row.fused is not None]
    exact = [row for row in counted if matrix.NOT_FUSED.search(row.name)]
    assert exact
    assert [row for row in exact if row.fused] == []
    assert all(row.fused for row in counted if row not in exact)
    assert len(exact) < len(counted)


def test_every_kernel_is_in_the_matrix():
    """By the functions that make them: those of `kernels` that return a Kernel."""
    if missing():
        pytest.skip(missing())
    from nbdlpack import kernels

    names = [module.name for module in pkgutil.iter_modules(kernels.__path__)]
    modules = [import_module(f"nbdlpack.kernels.{name}") for name in names]
    makers = {
        function
        for module in modules
        for name, function in vars(module).items()
        if callable(function)
        and not name.startswith("_")
        and getattr(inspect.unwrap(function), "__annotations__", {}).get("return") == "Kernel"
    }
    assert makers == set(matrix.factories())


def test_there_are_no_two_kernels_of_one_name():
    if missing():
        pytest.skip(missing())
    names = [kernel.name for kernel in matrix.all_kernels()]
    assert len(set(names)) == len(names)
