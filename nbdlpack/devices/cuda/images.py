"""The user's cache of compiled kernels: files that spare a fresh process the compiler.

They are in the directory that NBDLPACK_CACHE_DIR names, else in ``~/.cache/nbdlpack``; an empty NBDLPACK_CACHE_DIR, or
``0``, turns the cache off.  A file is found by all that its content depends on: the kernel's name and types, the
bytecode of its function and of what that refers to, the GPU's architecture, and the versions of what compiles it.

A cache is never in the way: a file that is damaged is as good as none, and where none can be written, none is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import BuiltinFunctionType, CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from cuda.bindings import nvvm
from cuda.pathfinder import load_nvidia_dynamic_lib

from nbdlpack.kernels.numba_cuda import python_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbdlpack.kernels.numba_cuda import Kernel

__all__ = ["Image", "directory", "find", "keep", "key_of", "read", "write"]


class Image(NamedTuple):
    """A compiled kernel."""

    entry: str
    """The name of its entry point."""
    code: bytes
    """Machine code, a cubin."""


def directory() -> Path | None:
    """Return where the cache is, or None if there is none."""
    name = os.environ.get("NBDLPACK_CACHE_DIR")
    if name is not None:
        return None if name in ("", "0") else Path(name)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "nbdlpack")
    except RuntimeError:  # there is no home
        return None


# -- keys


class _UnknownError(Exception):
    """A function refers to something of which nobody can tell whether it is the same in another process."""


_OWN: Final = "nbdlpack."
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype)
_VERSIONED: Final = ("numba.", "llvmlite.", "numpy.", "ml_dtypes.")
"""Packages whose versions stand for what their functions do, and whose values are what they are printed as."""


def _describe(value: Any, tell: Callable[[str], None], seen: dict[int, Any]) -> None:
    """Tell all that a function depends on, in words that are the same in every process."""
    if isinstance(value, _PLAIN):
        tell(f"{type(value).__name__} {value!r}")
        return
    function = python_function(value)
    home = f"{getattr(function or value, '__module__', None) or type(value).__module__}."
    if not isinstance(value, tuple):
        if id(value) in seen:
            tell(f"again {list(seen).index(id(value))}")
            return
        seen[id(value)] = value  # also so that no other gets its id
    if isinstance(value, ModuleType):
        tell(f"module {value.__name__}")
    elif home.startswith(_VERSIONED):
        words = f"{home}{getattr(value, '__qualname__', value)}"
        if " at 0x" in words:
            raise _UnknownError(words)
        tell(words)
    elif function is not None:
        tell(f"function {function.__name__}")
        _describe_code(function.__code__, function.__globals__, tell, seen)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        _describe([cells, function.__defaults__, function.__kwdefaults__], tell, seen)
    elif isinstance(value, (tuple, list)):
        tell(f"{len(value)} items")
        for item in value:
            _describe(item, tell, seen)
    elif isinstance(value, (set, frozenset)):
        _describe(sorted(value, key=repr), tell, seen)
    elif isinstance(value, dict):
        _describe(list(value.items()), tell, seen)
    elif isinstance(value, (type, BuiltinFunctionType)):
        tell(f"{home}{value.__qualname__}")
    else:
        raise _UnknownError(repr(value))


def _describe_code(code: CodeType, names: dict[str, Any], tell: Callable[[str], None], seen: dict[int, Any]) -> None:
    tell(f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_flags}")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _describe_code(constant, names, tell, seen)
        else:
            _describe(constant, tell, seen)
    for name in code.co_names:
        if name not in names:
            continue
        value = names[name]
        _describe(value, tell, seen)
        if isinstance(value, ModuleType) and value.__name__.startswith(_OWN):
            for attribute in code.co_names:
                if hasattr(value, attribute):
                    _describe(getattr(value, attribute), tell, seen)


@cache
def _versions() -> str:
    """Return the versions of what has a part in compiling."""
    found = [f"python {sys.version_info[:2]}"]
    for name in ("nbdlpack", "numba", "numba-cuda", "llvmlite"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} unknown")
    try:
        library = load_nvidia_dynamic_lib("nvvm").abs_path
        found.append(f"nvvm {nvvm.version()} {nvvm.ir_version()} {Path(library or '').stat().st_size}")
    except Exception:  # noqa: BLE001 - whatever it is, there is no compiler; what the cache has may still do
        found.append("nvvm unknown")
    return "\n".join(found)


def key_of(kernel: Kernel, architecture: str) -> str | None:
    """Return the key of a kernel's image for an architecture, or None if it cannot be told what it depends on."""
    found = hashlib.sha256()

    def tell(words: str) -> None:
        found.update(words.encode(errors="backslashreplace"))
        found.update(b"\n")

    for words in (kernel.name, str(kernel.signature), architecture, _versions()):
        tell(words)
    try:
        _describe(kernel.function, tell, {})
    except _UnknownError:
        return None
    return found.hexdigest()


# -- files: a line that says what it is, the digest of the rest, the name of the entry point, the code

_MAGIC: Final = b"nbdlpack image 1\n"
_DIGEST: Final = 32


def _path(key: str | None) -> Path | None:
    place = directory()
    return None if key is None or place is None else place / f"{key}.bin"


def find(key: str | None) -> Image | None:
    """Return the image of a key, or None if the cache has none that is whole."""
    path = _path(key)
    return None if path is None else read(path)


def keep(key: str | None, image: Image) -> None:
    """Put an image in the cache."""
    path = _path(key)
    if path is not None:
        write(path, image)


def read(path: Path) -> Image | None:
    """Return the image in a file, or None if there is none that is whole."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head, rest = data[: len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
    entry, zero, code = rest.partition(b"\0")
    if head != _MAGIC + hashlib.sha256(rest).digest() or not zero:
        return None
    return Image(entry.decode(), code)


def write(path: Path, image: Image) -> None:
    """Put an image in a file, all of it at once, so that who looks at the same time finds it whole or not at all."""
    rest = image.entry.encode() + b"\0" + image.code
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - an open file's number
                file.write(_MAGIC + hashlib.sha256(rest).digest() + rest)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
