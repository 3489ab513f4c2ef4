"""How to drive a library: one small class for each, and the table of them.

To check another library, write a subclass of `Adapter`.  Most need two or three lines; what a method must do stands in
its docstring here.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import importlib.util
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nbdlpack.conformance.header import CPU

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Adapter", "NotAvailable"]


class NotAvailable(Exception):  # noqa: N818 (it is an answer, not an error)
    """Raised by an adapter for what its library does not have; the message says what that is."""


class Adapter:
    """How to make, read, write and import the arrays of a library.

    The checks call nothing of a library but what stands here and DLPack's own methods.

    Attributes
    ----------
    name : str
        What the library is called in reports and on the command line.
    module : str
        The module that is imported, which has `from_dlpack` unless that method is overridden.
    distribution : str
        The installed package that has the version; the name by default.
    device : tuple of int
        Where `from_numpy` puts arrays, as DLPack numbers devices.
    producer, consumer : bool
        Whether the library's arrays export themselves, and whether it imports those of others.
    options : frozenset of str
        Which of the keywords `device` and `copy` its `from_dlpack` takes.
    capsules : bool
        Whether its `from_dlpack` takes bare capsules.
    immutable : bool
        Whether nothing can be written to its arrays.
    fork : bool
        Whether a process that has imported the library may be forked.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    distribution: ClassVar[str] = ""
    device: tuple[int, int] = CPU
    producer: ClassVar[bool] = True
    consumer: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = frozenset({"device", "copy"})
    capsules: ClassVar[bool] = False
    immutable: ClassVar[bool] = False
    fork: ClassVar[bool] = True

    def __init__(self) -> None:
        self.xp: Any = None
        """The module, once `load` was called."""

    def installed(self) -> bool:
        """Return whether the library is there, without importing it."""
        try:
            return importlib.util.find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False

    def load(self) -> None:
        """Import the library.  Called once, before anything else, in the process that runs the checks."""
        self.xp = importlib.import_module(self.module)

    def version(self) -> str:
        """Return the version of the library, without importing it."""
        return importlib.metadata.version(self.distribution or self.name)

    # -- arrays

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        """Return a new array of the library, with memory of its own, of the values and dtype of a NumPy array."""
        return self.xp.asarray(a.copy())

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        """Return the values of an array of the library, on the same memory or in a copy; it is only read."""
        return np.asarray(x)

    def write(self, x: Any, value: Any) -> None:
        """Set every element of an array of the library to a number; raise an exception if it must not be written to."""
        x[...] = value

    def from_dlpack(self, x: Any, **options: Any) -> Any:
        """Import an object or a capsule, with those of the keywords `device` and `copy` that `options` names."""
        return self.xp.from_dlpack(x, **options)

    # -- what not every library has

    def view(self, x: Any, key: Any) -> Any:
        """Return ``x[key]`` as a view, for a key of slices; raise NotAvailable if the library has no views."""
        return x[key]

    def transpose(self, x: Any) -> Any:
        """Return a view with the axes in reverse order."""
        return x.T

    def read_only(self, x: Any) -> Any:  # noqa: ARG002
        """Return what exports an array of the library with the flag READ_ONLY: a view of it, or a wrapper."""
        msg = f"{self.name} has no read-only arrays"
        raise NotAvailable(msg)

    def lazy_copy(self, x: Any) -> Any:  # noqa: ARG002
        """Return a copy of an array that shares its memory until one of the two is written to."""
        msg = f"{self.name} has no lazy copies"
        raise NotAvailable(msg)

    def to_dlpack(self, x: Any) -> Any:  # noqa: ARG002
        """Return an unversioned capsule by the library's function for that, not by the method of the array."""
        msg = f"{self.name} has no function to_dlpack"
        raise NotAvailable(msg)

    def place(self, a: npt.NDArray[Any]) -> tuple[int, Any]:
        """Return the address of a copy of a NumPy array's bytes on the library's device, and what keeps it alive."""
        if self.device != CPU:
            msg = f"the adapter of {self.name} cannot place bytes on {self.device}"
            raise NotAvailable(msg)
        own = a.copy()
        return own.ctypes.data, own

    def settle(self) -> None:
        """Let go of what nobody uses: what the library has put off letting go of, too."""
        gc.collect()


# -- the libraries
