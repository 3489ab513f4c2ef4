"""What the kernels are compiled to: every one, for each architecture, by NVIDIA's compilers, without a GPU.

    python -m tests.kernels.matrix [--sm 75 80 ...] [--sample] [--part I/N]

compiles all kernels, or a sample of each family, or one part of N of them, and prints a line of JSON for each kernel
and architecture (`Row`).  It is a program of its own because the tests' driver takes the compilers' place.

It takes libNVVM, NVRTC and nvJitLink, which has the assembler, and nvdisasm, for the few kernels whose instructions are
counted.  All are wheels: nvidia-nvvm, nvidia-cuda-nvrtc, nvidia-nvjitlink, nvidia-cuda-nvdisasm.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nbdlpack.kernels.numba_cuda import Kernel

ARCHITECTURES = {"75": (7, 5), "80": (8, 0), "90": (9, 0, "a"), "100": (10, 0, "a"), "120": (12, 0, "a")}
"""The architectures, and the compute capabilities for which numba-cuda compiles there."""

NOT_FUSED = re.compile(
    r"(multiply|divide|square|reciprocal)\(complex|(floor_divide|remainder)\((float|bfloat)|"
    r"arange (float|bfloat|complex)|prod complex"
)
"""The kernels in which a product and a sum that become one operation would make results that are not NumPy's."""
FUSED = "deviation float32 to float32"
"""One in which they do become one."""


class Row(NamedTuple):
    """One kernel on one architecture."""

    name: str
    sm: str
    registers: int
    stack: int
    """Bytes of the stack frame, also of functions that are called."""
    spills: int
    """Bytes stored and loaded because registers did not suffice."""
    externals: list[str]
    """Functions that are called but not there."""
    wide_loads: int
    wide_stores: int
    """Instructions that move 16 bytes."""
    fused: int | None
    """Multiplications that were fused with additions; None if not counted."""


# -- which there are


def factories() -> dict[Any, Iterable[tuple[Any, ...]]]:
    """Return the functions that make kernels, and with which arguments devices call them."""
    from nbdlpack.devices.kernelled import moving
    from nbdlpack.kernels import copies, elementwise, reductions, selection
    from nbdlpack.kernels.access import ACCESS, WORDS
    from nbdlpack.kernels.scalars import TABLE

    forms = ("1-d", "4-d")
    words = list(itertools.product(WORDS, forms))
    pairs = {moving._simplified(a, b) for a, b in itertools.permutations(ACCESS, 2)}
    return {
        copies.copy: [*words, *[(word, "contiguous") for word in WORDS]],
        copies.cast: [(a, b, form) for a, b in sorted(pairs, key=str) if a != b for form in forms],
        copies.transpose: [(word,) for word in WORDS if word < 16],
        copies.fill: [*words, (16, "contiguous")],
        copies.arange: [(dtype,) for dtype in ACCESS if dtype.kind != "b"],
        elementwise.elementwise_kernel: [(*loop, form) for loop in loops(TABLE, list(ACCESS)) for form in forms],
        elementwise.masked_copy_kernel: words,
        reductions.reduction: sorted(reductions.VARIANTS, key=str),
        selection.look_up: [(form,) for form in forms],
        selection.spread: [()],
        selection.claim: [()],
        selection.keep_last: [()],
        selection.gather: words,
        selection.scatter: words,
        selection.masked_fill: words,
        selection.count: [()],
        selection.positions: [()],
        selection.totals: [(np.dtype(np.int64),)],
        selection.running: [(np.dtype(np.int64), False)],
    }


def loops(names: Iterable[str], kinds: list[np.dtype[Any]]) -> Iterator[tuple[str, tuple[np.dtype[Any], ...]]]:
    """Return NumPy's loops of ufuncs among dtypes: the name, and the dtypes of operands and result."""
    for name in names:
        ufunc = getattr(np, name)
        found = set()
        for kind in kinds:
            try:
                found.add(ufunc.resolve_dtypes((kind,) * ufunc.nin + (None,)))
            except TypeError:
                continue
        yield from [(name, loop) for loop in sorted(found, key=str) if set(loop) <= set(kinds)]


def all_kernels() -> list[Kernel]:
    """Return all kernels, each once."""
    return list(dict.fromkeys([make(*args) for make, several in factories().items() for args in several]))


def some_kernels() -> list[Kernel]:
    """Return a few kernels of each family, and the ones of which more is asked than to be compiled."""
    found = []
    for make, several in factories().items():
        kernels = [make(*args) for args in several]
        found += kernels[:: max(len(kernels) // 3, 40)]
        wanted = re.compile(rf"(copy|fill) contiguous of 16|{FUSED}|{NOT_FUSED.pattern}")
        found += [kernel for kernel in kernels if wanted.search(kernel.name) and "4-d" not in kernel.name]
    return list(dict.fromkeys(found))


# -- what they become


def compiled(kernel: Kernel, sms: Iterable[str]) -> Iterator[Row]:
    """Compile a kernel for some architectures."""
    from nbdlpack.kernels.numba_cuda import compile_ptx

    capabilities = [ARCHITECTURES[sm] for sm in sms]
    counted = kernel.name == FUSED or NOT_FUSED.search(kernel.name) is not None
    unfused = compile_ptx(kernel, *capabilities, fused=False) if counted else []
    for i, (sm, ptx) in enumerate(zip(sms, compile_ptx(kernel, *capabilities), strict=True)):
        code, log = assembled(ptx, sm)
        usage = [sum(map(int, re.findall(rf"(\d+) bytes {word}", log))) for word in ("stack frame", r"spill \w+")]
        yield Row(
            kernel.name,
            sm,
            max(map(int, re.findall(r"Used (\d+) registers", log))),
            *usage,
            re.findall(r"\.extern\s+\.func[^;]*?(\w+)\s*\(", ptx),
            len(re.findall(r"ld\.global(?:\.\w+)*\.v4\.[bu]32", ptx)),
            len(re.findall(r"st\.global(?:\.\w+)*\.v4\.[bu]32", ptx)),
            multiply_adds(code) - multiply_adds(assembled(unfused[i], sm)[0]) if counted else None,
        )


def assembled(ptx: str, sm: str) -> tuple[bytes, str]:
    """Return the machine code of a kernel, and what the assembler says about it."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    arch = f"sm_{sm}{''.join(map(str, ARCHITECTURES[sm][2:]))}"
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=LinkerOptions(arch=arch, ptxas_options=["-v"]))
    code = linker.link("cubin").code
    return bytes(code), linker.get_info_log()


def multiply_adds(code: bytes) -> int:
    """Return how many fused multiplications and additions of floating-point numbers are in machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        listing = subprocess.run([disassembler(), "-c", file.name], capture_output=True, text=True, check=True).stdout
    return len(re.findall(r"\b(?:FFMA|DFMA|HFMA2)\b", listing))


def disassembler() -> str:
    """Return the path of nvdisasm.  Raises FileNotFoundError if there is none."""
    for folder in (*[Path(p) / "nvidia/cu13/bin" for p in sys.path], Path("/usr/local/cuda/bin")):
        if (folder / "nvdisasm").exists():
            return str(folder / "nvdisasm")
    found = shutil.which("nvdisasm")
    if found is None:
        msg = "nvdisasm is not there: pip install nvidia-cuda-nvdisasm"
        raise FileNotFoundError(msg)
    return found


def main() -> None:
    """Compile what the arguments say."""
    parser = argparse.ArgumentParser(description="Compile all kernels for several architectures, without a GPU.")
    parser.add_argument("--sm", nargs="+", choices=ARCHITECTURES, default=list(ARCHITECTURES))
    parser.add_argument("--sample", action="store_true", help="compile only a few kernels of each family")
    parser.add_argument("--part", default="0/1", help="I/N: the I-th of N parts, counted from 0")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    kernels = some_kernels() if options.sample else all_kernels()
    random.Random(1).shuffle(kernels)  # so that the parts take about the same time
    for kernel in kernels[part::parts]:
        for row in compiled(kernel, options.sm):
            print(json.dumps(row._asdict()), flush=True)


if __name__ == "__main__":
    main()
