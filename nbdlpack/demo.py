"""Show what the library does: exchange, lazy copies, read-only exports, and what a copy costs."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import textwrap
import timeit
from typing import TYPE_CHECKING, Any

import numpy as np

import nbdlpack as nd
from nbdlpack.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

__all__ = ["add_arguments", "run"]

WIDTH = 80
KIB, MIB = 1 << 10, 1 << 20
SIZES = [1 * KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB, 256 * MIB]
UNITS = [("s ", 1.0), ("ms", 1e-3), ("us", 1e-6)]


class Transcript:
    """Python lines that are shown as in an interactive session, with what they really print.

    Parameters
    ----------
    **names : object
        What the lines may use.
    """

    def __init__(self, **names: object) -> None:
        self.names: dict[str, Any] = dict(names)

    def __call__(self, *statements: str) -> None:
        """Show and run statements, one after the other.  An exception is shown as the line that says what is wrong."""
        print()
        for statement in statements:
            print(">>>", statement.replace("\n", "\n... "))
            # "single" prints the value of an expression, as the interpreter does.
            code = compile(statement + "\n", "<demonstration>", "single")
            try:
                exec(code, self.names)
            except Exception as error:  # noqa: BLE001
                print(textwrap.fill(f"{type(error).__name__}: {error}", WIDTH, subsequent_indent="    "))


def heading(text: str) -> None:
    """Begin a part of the demonstration."""
    print(f"\n\n{text}\n{'-' * len(text)}")


def say(text: str) -> None:
    """Print a paragraph, within the width of a small terminal."""
    print("", textwrap.fill(text, WIDTH), sep="\n")


def show_array() -> None:
    """Make an array on the default device, and look at it."""
    heading("An array")
    show = Transcript(nd=nd, np=np)
    show("x = nd.arange(12, dtype=nd.float32).reshape(3, 4)", "x", "x[1:, ::2] * 10", "x.device")


def show_exchange() -> None:
    """Exchange an array with NumPy, and with torch if it is installed: an edit on one side is seen on the other."""
    heading("Exchanged without a copy")
    show = Transcript(nd=nd, np=np)
    show("x = nd.arange(4.0)", "a = np.from_dlpack(x)", "a[0] = 100; x[1] = 200", "x, a", "nd.from_dlpack(np.eye(2))")
    if importlib.util.find_spec("torch") is None:
        say("torch is not installed; with it, this part goes on.")
        return
    progress = Progress(1)
    progress.step("importing torch")
    importlib.import_module("torch")
    progress.clear()
    show("import torch", "t = torch.from_dlpack(x)", "t[2] = 300", "x", "t", "nd.shares_memory(x, nd.from_dlpack(t))")


def show_lazy_copy() -> None:
    """Copy an array, and see the copy move away when it is first written to."""
    heading("A copy is made when it is needed")
    show = Transcript(nd=nd, np=np)
    addresses = "hex(nd.dlpack.inspect(x).address), hex(nd.dlpack.inspect(y).address)"
    say("copy() takes the same time at any size: both arrays stay on one block of memory.")
    show("x = nd.ones(1_000_000)", "y = x.copy()", "nd.is_shared(x)", addresses)
    say("The first write to either gives it memory of its own; the log says who copied, and why.")
    show(
        "with nd.copy_log() as log:\n    y[0] = 7",
        "[(copy.nbytes, copy.cause) for copy in log]",
        "nd.is_shared(x)",
        addresses,
        "x[0], y[0]",
    )


def show_read_only() -> None:
    """Export an array read-only, and see a write through the export refused."""
    heading("What is read-only stays read-only")
    show = Transcript(nd=nd, np=np)
    show("x = nd.arange(3)", "r = np.from_dlpack(nd.dlpack.ReadOnlyTensorWrapper(x))", "r[0] = 1")
    say("It is a view of the same memory, and remains read-only wherever it goes.")
    show("x[0] = 5", "r", "nd.from_dlpack(r)[0] = 1")


def seconds(call: Callable[[], object]) -> float:
    """Return what a call takes: the best of five rounds of about ten milliseconds each."""
    timer = timeit.Timer(call)
    once = timer.timeit(1)
    number = max(1, round(0.01 / max(once, 1e-7)))
    return min(timer.repeat(5, number)) / number


def costs(size: int) -> tuple[float, float, float]:
    """Return the seconds that a copy, an exchange and a lazy copy of so many bytes take."""
    a = np.ones(size // 8)
    x = nd.ones(size // 8)
    return seconds(lambda: nd.from_dlpack(a, copy=True)), seconds(lambda: nd.from_dlpack(a)), seconds(x.copy)


def show_costs(largest: int) -> None:
    """Print what a copy, an exchange and a lazy copy take, for sizes up to a number of bytes."""
    heading("Copy against zero-copy")
    say("The shortest of several runs each. `a` is a NumPy array, `x` one of ours.")
    print(f"\n{'':>9} {'from_dlpack(a,':>16} {'from_dlpack(a)':>16} {'x.copy()':>16} {'a copy takes':>16}")
    print(f"{'size':>9} {'copy=True)':>16} {'zero-copy':>16} {'lazy':>16} {'times as long':>16}")
    sizes = [size for size in SIZES if size <= largest]
    progress = Progress(len(sizes))
    for size in sizes:
        progress.step(f"measuring {in_bytes(size)}")
        copy, exchange, lazy = costs(size)
        progress.clear()
        times = (in_seconds(time) for time in (copy, exchange, lazy))
        print(f"{in_bytes(size):>9}", *(f"{time:>16}" for time in times), f"{copy / exchange:>16,.0f}", flush=True)


def in_bytes(size: int) -> str:
    """Return a size in words: "16 KiB"."""
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def in_seconds(time: float) -> str:
    """Return a time in words, to three digits: "0.12 us", "83.1 ms"."""
    unit, length = next((row for row in UNITS if time >= row[1]), UNITS[-1])
    return f"{time / length:.3g} {unit}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.add_argument(
        "--largest",
        metavar="MIB",
        type=int,
        default=SIZES[-1] // MIB,
        help="the largest size to measure, in MiB; three times that memory is used (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the demonstration, and return the exit status."""
    print(f"nbdlpack {nd.__version__}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"device in use: {nd.empty(0).device}")
    show_array()
    show_exchange()
    show_lazy_copy()
    show_read_only()
    show_costs(options.largest * MIB)
    return 0
