"""What a check is given: a library by its adapter, with what most checks need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack.conformance.adapters import NotAvailable
from nbdlpack.conformance.capsules import Capsule, name_of, peek
from nbdlpack.conformance.header import VERSION
from nbdlpack.conformance.producers import Producer
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused

if TYPE_CHECKING:
    from types import SimpleNamespace

    import numpy.typing as npt

    from nbdlpack.conformance.adapters import Adapter
    from nbdlpack.conformance.producers import Tensor

__all__ = ["Subject"]

REFUSALS: Final = (BufferError, NotImplementedError)
"""What a library may raise where the standard lets it decline."""


class Subject:
    """A library that is checked.

    Parameters
    ----------
    adapter : Adapter
        How to drive it; it has been loaded.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.name, self.device = adapter.name, adapter.device

    # -- arrays of the library

    def array(self, a: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Any:
        """Return a new array of the library; NotApplicable if it has no such dtype."""
        if not self.adapter.producer:
            msg = f"{self.name} exports nothing"
            raise NotApplicable(msg)
        source = np.asarray(a, dtype)
        try:
            return self.adapter.from_numpy(source)
        except NotAvailable as reason:
            raise NotApplicable(str(reason)) from None
        except (TypeError, ValueError, RuntimeError, OverflowError, BufferError) as error:
            msg = f"{self.name} makes no array of {source.dtype}, shape {source.shape}: {error}"
            raise NotApplicable(msg) from error

    def ask(self, method: str, *args: Any) -> Any:
        """Return what a method of the adapter gives; NotApplicable if the library has no such thing."""
        try:
            return getattr(self.adapter, method)(*args)
        except NotAvailable as reason:
            raise NotApplicable(str(reason)) from None

    def values(self, x: Any) -> npt.NDArray[Any]:
        """Return a copy of the values of an array of the library."""
        return np.array(self.adapter.to_numpy(x))

    # -- what goes out

    def export(self, x: Any, **options: Any) -> Any:
        """Return what ``x.__dlpack__(**options)`` gives, a capsule; `max_version` is that of DLPack unless given."""
        asked = options.get("max_version") is not None
        options.setdefault("max_version", VERSION)
        try:
            capsule = x.__dlpack__(**options)
        except TypeError:
            if asked:
                raise
            del options["max_version"]  # which it may not know, and then consumers ask without it
            capsule = x.__dlpack__(**options)
        if type(capsule) is not Capsule:
            msg = f"__dlpack__ returned a {type(capsule).__name__}, not a capsule"
            raise Failure(msg)
        return capsule

    def look(self, x: Any, **options: Any) -> SimpleNamespace:
        """Return the fields of what an array exports, as `peek` does; they are not kept alive: see `export`."""
        capsule = self.export(x, **options)
        found = peek(capsule)
        found.capsule = capsule  # now they are
        return found

    # -- what comes in

    def producer(self, data: Any = (0.0, 1.0, 2.0, 3.0), kind: type[Producer] = Producer, **fields: Any) -> Producer:
        """Return a test producer on the library's device, of float64 unless the data says else."""
        source = np.asarray(data)
        if self.device != (1, 0) and "address" not in fields:
            fields["address"], keep = self.ask("place", np.ascontiguousarray(source))
            fields.setdefault("device", self.device)
            made = kind(source, **fields)
            made.there = keep  # type: ignore[attr-defined]
            return made
        return kind(source, **fields)

    def take(self, x: Any, **options: Any) -> Any:
        """Import an object; NotApplicable if the library imports nothing, or has no such keyword."""
        if not self.adapter.consumer:
            msg = f"{self.name} imports nothing"
            raise NotApplicable(msg)
        for name in options:
            if name not in self.adapter.options:
                msg = f"from_dlpack of {self.name} has no {name}="
                raise NotApplicable(msg)
        return self.adapter.from_dlpack(x, **options)

    def take_capsule(self, capsule: Any, **options: Any) -> Any:
        """Import a bare capsule; NotApplicable if the library takes none."""
        if not self.adapter.capsules:
            msg = f"from_dlpack of {self.name} takes no bare capsules"
            raise NotApplicable(msg)
        return self.take(capsule, **options)

    def take_or_refuse(self, x: Any, *allowed: type[BaseException], **options: Any) -> Any:
        """Import an object; Refused if the library raises BufferError or one of the others that are allowed."""
        refusals: tuple[type[BaseException], ...] = REFUSALS + allowed
        try:
            return self.take(x, **options)
        except refusals as error:
            msg = f"{type(error).__name__}: {error}"
            raise Refused(msg) from error

    def raises(self, error: type[BaseException] | tuple[type[BaseException], ...], call: Any) -> BaseException:
        """Call a function that must raise; return the exception.  Fails if it returns, or raises something else."""
        wanted = " or ".join([kind.__name__ for kind in (error if isinstance(error, tuple) else (error,))])
        try:
            call()
        except (NotApplicable, Refused, Failure):
            raise
        except error as found:
            return found
        except Exception as found:
            msg = f"raises {type(found).__name__} ({found}), not {wanted}"
            raise Failure(msg) from found
        msg = f"raises nothing, where {wanted} is due"
        raise Failure(msg)

    def released(self, tensor: Tensor, times: int = 1) -> None:
        """Fail unless a test producer's tensor was deleted so often, once all its capsules are dropped.

        Whoever imported it must have let go of it before.
        """
        self.adapter.settle()
        tensor.drop()
        self.adapter.settle()
        if tensor.deleted != times:
            msg = f"the deleter was called {tensor.deleted} times, not {times}"
            raise Failure(msg)


def is_consumed(capsule: Any) -> bool:
    """Return whether a capsule has the name of one that was consumed."""
    return name_of(capsule).startswith("used_")
