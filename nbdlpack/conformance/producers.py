"""Tensors made by hand, of which every field can be set, and objects that export them.

Their deleters are machine code that counts: whoever lets go of a tensor twice, or never, is found out.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64
from typing import Any, Final

import numpy as np

from nbdlpack.conformance.capsules import name_of, new_capsule
from nbdlpack.conformance.header import (
    CODES,
    CPU,
    EXCHANGE,
    IS_COPIED,
    LEGACY,
    VERSION,
    VERSIONED,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
)
from nbdlpack.conformance.native import Count, code

__all__ = [
    "ANY_AGE",
    "OLD",
    "BareProducer",
    "CopyingProducer",
    "ForwardingProducer",
    "LegacyProducer",
    "Producer",
    "RaisingProducer",
    "StreamProducer",
    "Tensor",
    "VersionProducer",
    "exchange_type",
]

_DELETERS: Final = {False: code["conformance_delete_legacy"], True: code["conformance_delete_versioned"]}
_DESTRUCTORS: Final = {False: code["conformance_drop_legacy"], True: code["conformance_drop_versioned"]}
_NAMES: Final = {False: LEGACY, True: VERSIONED}
_kept: Final[dict[int, tuple[Any, ...]]] = {}
"""What a tensor consists of, by its address: it is there for as long as the process, so that misuse is seen."""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))  # after the interpreter has ended, too


class Tensor:
    """A tensor of which every field can be set, over the memory of a NumPy array.

    Parameters
    ----------
    data : array_like
        The memory; its dtype, shape and strides are what is exported unless something else is set.
    address : int or None
        Instead of the data's address; None for a null pointer.
    shape, strides : tuple of int or None
        None for a null pointer.  Strides are in elements.
    ndim, dtype, device, byte_offset, version, flags
        As in DLPack's header; dtype is ``(code, bits, lanes)``, device and version are pairs.
    null_deleter : bool
        Export without a deleter.
    poison : bool
        Overwrite the data when the deleter is called.
    name : str
        Of the capsules, instead of DLPack's.

    Attributes
    ----------
    made : list of int
        The addresses of the tensors made so far.
    capsules : list
        The capsules made so far; `drop` forgets them.
    """

    def __init__(self, data: Any = (0.0, 1.0, 2.0, 3.0), **fields: Any) -> None:
        a = self.data = np.asarray(data)
        self.fields: dict[str, Any] = {
            "address": a.ctypes.data,
            "device": CPU,
            "ndim": None,
            "dtype": (CODES.get(a.dtype.kind, 2), a.dtype.itemsize * 8, 1),
            "shape": a.shape,
            "strides": tuple([n // a.itemsize for n in a.strides]),
            "byte_offset": 0,
            "version": VERSION,
            "flags": 0,
            "null_deleter": False,
            "poison": False,
            "name": None,
        }
        unknown = fields.keys() - self.fields.keys()
        if unknown:
            msg = f"a tensor has no field {', '.join(sorted(unknown))}, only {', '.join(self.fields)}"
            raise TypeError(msg)
        self.fields.update(fields)
        self.made: list[int] = []
        self.capsules: list[Any] = []
        self._counts: list[Count] = []

    @property
    def deleted(self) -> int:
        """How often a deleter was called, over all the tensors made."""
        return sum(count.deleted for count in self._counts)

    @property
    def kept(self) -> int:
        """How many of the capsules that are held here were not consumed."""
        return sum(not name_of(capsule).startswith("used_") for capsule in self.capsules)

    def drop(self) -> None:
        """Forget the capsules; those that nobody consumed delete what they hold."""
        self.capsules.clear()

    def managed(self, versioned: bool) -> int:  # noqa: FBT001 (it says which of two)
        """Make a managed tensor; return its address."""
        f = self.fields
        managed = DLManagedTensorVersioned() if versioned else DLManagedTensor()
        tensor = managed.dl_tensor
        count = Count(0, self.data.ctypes.data if f["poison"] else None, self.data.nbytes)
        keep: list[Any] = [managed, count, self.data]
        tensor.data, tensor.byte_offset = f["address"], f["byte_offset"]
        tensor.device.device_type, tensor.device.device_id = f["device"]
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = f["dtype"]
        for name in ("shape", "strides"):
            if f[name] is not None:
                numbers = (c_int64 * max(len(f[name]), 1))(*f[name])
                keep.append(numbers)
                setattr(tensor, name, numbers)
        tensor.ndim = len(f["shape"] or ()) if f["ndim"] is None else f["ndim"]
        managed.manager_ctx = ctypes.addressof(count)
        managed.deleter = None if f["null_deleter"] else _DELETERS[versioned]
        if isinstance(managed, DLManagedTensorVersioned):
            managed.version.major, managed.version.minor = f["version"]
            managed.flags = f["flags"]
        address = ctypes.addressof(managed)
        _kept[address] = tuple(keep)
        self.made.append(address)
        self._counts.append(count)
        return address

    def capsule(self, versioned: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Return a new capsule with a new tensor.  It is held here too, until `drop`."""
        name = self.fields["name"] or _NAMES[versioned]
        self.capsules.append(new_capsule(self.managed(versioned), name, _DESTRUCTORS[versioned]))
        return self.capsules[-1]


class Producer(Tensor):
    """An object that exports itself as the array API standard says.

    Parameters
    ----------
    data, **fields
        As for `Tensor`.
    claims : tuple of int, optional
        The device that it says it is on; that of the tensor by default.

    Attributes
    ----------
    asked : list of dict
        The keywords of each call of ``__dlpack__`` that were not None.
    asked_device : int
        How often ``__dlpack_device__`` was called.
    """

    def __init__(
        self, data: Any = (0.0, 1.0, 2.0, 3.0), *, claims: tuple[int, int] | None = None, **fields: Any
    ) -> None:
        super().__init__(data, **fields)
        self.claims = claims
        self.asked: list[dict[str, Any]] = []
        self.asked_device = 0

    def _managed(self) -> int:
        """Export for an exchange table, see `exchange_type`."""
        return self.managed(True)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        self.asked.append({name: value for name, value in asked.items() if value is not None})
        return self.capsule(max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        self.asked_device += 1
        device: tuple[int, int] = self.claims or self.fields["device"]
        return device


class LegacyProducer(Producer):
    """Takes everything and exports an unversioned capsule all the same, as JAX's arrays do."""

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked.append(asked)
        return self.capsule(False)


class BareProducer(Producer):
    """From the time before the standard: no keywords at all."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        self.asked.append({})
        return self.capsule(False)


class StreamProducer(Producer):
    """From the first version of the standard: a stream, by position or keyword."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        self.asked.append({} if stream is None else {"stream": stream})
        return self.capsule(False)


class VersionProducer(Producer):
    """Knows of versions, but neither of copies nor of devices."""

    def __dlpack__(self, stream: Any = None, max_version: Any = None) -> Any:  # type: ignore[override]
        self.asked.append({} if max_version is None else {"max_version": max_version})
        return self.capsule(max_version is not None)


class ForwardingProducer(Producer):
    """Passes what it is given on to something old."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.inner = StreamProducer(self.data, **fields)

    def __dlpack__(self, *args: Any, **asked: Any) -> Any:
        self.asked.append(asked)
        return self.inner.__dlpack__(*args, **asked)

    @property
    def deleted(self) -> int:
        """How often a deleter was called."""
        return self.inner.deleted

    @property
    def kept(self) -> int:
        """How many capsules were not consumed."""
        return self.inner.kept

    def drop(self) -> None:
        """Forget the capsules."""
        self.inner.drop()


class RaisingProducer(Producer):
    """Raises an error whenever it is asked."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def _managed(self) -> int:
        raise self.error

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        self.asked.append({})
        raise self.error


class CopyingProducer(Producer):
    """Makes a copy if asked to, and says so; `copies` are the producers of what was copied."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.copies: list[Producer] = []

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        self.asked.append({"copy": copy})
        if copy:
            self.copies.append(Producer(self.data.copy(), flags=IS_COPIED))
            return self.copies[-1].capsule(max_version is not None)
        return self.capsule(max_version is not None)


OLD: Final = (BareProducer, StreamProducer, ForwardingProducer)
ANY_AGE: Final = (*OLD, VersionProducer, LegacyProducer, Producer)
"""Producers as they have been written since there is DLPack."""


def exchange_type(
    *,
    version: tuple[int, int] = VERSION,
    previous: int | None = None,
    slot: bool = True,
    base: type[Producer] = Producer,
) -> Any:
    """Return a subclass of a producer's class whose objects also export themselves through an exchange table.

    The table's export calls the method `_managed` of the object: `through_table` of the class counts how often.

    Parameters
    ----------
    version : tuple of int
        That of the table.
    previous : int, optional
        The address of an older table; `ctypes.addressof(kind.api)` of another such class.
    slot : bool
        Whether the table has the function that exports.
    base : type
        The class to derive from.  The objects of `RaisingProducer` raise from the table as well.
    """

    class WithTable(base):  # type: ignore[misc, valid-type]
        through_table = 0

        def _managed(self) -> Any:
            WithTable.through_table += 1
            return super()._managed()

    api = WithTable.api = DLPackExchangeAPI()  # with the type, and there as long
    api.version.major, api.version.minor = version
    api.prev_api = previous
    api.managed_tensor_allocator = code["conformance_allocate"]
    api.managed_tensor_from_py_object_no_sync = code["conformance_from_py"] if slot else None
    api.managed_tensor_to_py_object_no_sync = code["conformance_to_py"]
    api.current_work_stream = code["conformance_stream"]
    _kept[ctypes.addressof(api)] = (api,)
    WithTable.__dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(api), EXCHANGE)
    return WithTable
