"""What the library says about itself, as the array API standard asks."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from nbdlpack import devices as _devices
from nbdlpack import dtypes as _dtypes
from nbdlpack.errors import DeviceError

if TYPE_CHECKING:
    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DType

__all__ = ["__array_namespace_info__"]


class Info:
    """What can be asked about the library: what `__array_namespace_info__` returns."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Return what the library can do.

        Returns
        -------
        dict
            ``"boolean indexing"`` and ``"data-dependent shapes"``: True.  ``"max dimensions"``: 64.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device on which arrays are made where none is named, as `nbdlpack.get_default_device`."""
        return _devices.default()

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, DType]:
        """Return the dtypes that arrays have where none is named.

        Parameters
        ----------
        device : Device or str, optional
            For which device; they are the same for all.

        Returns
        -------
        dict
            For each of ``"real floating"``, ``"complex floating"``, ``"integral"`` and ``"indexing"`` the dtype.
        """
        _devices.default(device)
        return {
            "real floating": _dtypes.FLOAT64,
            "complex floating": _dtypes.NAMES["complex128"],
            "integral": _dtypes.INT64,
            "indexing": _dtypes.INT64,
        }

    def dtypes(
        self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the dtypes of the standard that arrays can have.  There are others, as `nbdlpack.bfloat16`.

        Parameters
        ----------
        device : Device or str, optional
            For which device; they are the same for all.
        kind : str or tuple of str, optional
            Of which kinds, as in `nbdlpack.isdtype`; all if not given.

        Returns
        -------
        dict
            The dtypes by their names.

        Raises
        ------
        ValueError
            If there is no such kind.
        """
        _devices.default(device)
        kinds = tuple(_dtypes.KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for one in kinds:
            if one not in _dtypes.KINDS:
                msg = f"kind is {one!r}, but must be one of {', '.join(map(repr, _dtypes.KINDS))}"
                raise ValueError(msg)
        chosen = frozenset[Any]().union(*[_dtypes.KINDS[one] for one in kinds])
        return {dtype.name: dtype for dtype in _dtypes.STANDARD if dtype in chosen}

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that compute: the cpu and the GPUs there are.  This starts the CUDA driver."""
        found = [_devices.host]
        for number in count():
            try:
                found.append(_devices.named(f"cuda:{number}"))  # type: ignore[arg-type]
            except DeviceError:
                return tuple(found)
        raise AssertionError


def __array_namespace_info__() -> Info:  # noqa: N807 - the standard's name
    """Return what says what the library can do, as the array API standard asks.

    Returns
    -------
    Info
        With the methods `capabilities`, `default_device`, `default_dtypes`, `devices` and `dtypes`.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.__array_namespace_info__().dtypes(kind="complex floating")
    {'complex64': dtype('complex64'), 'complex128': dtype('complex128')}
    """
    return Info()
