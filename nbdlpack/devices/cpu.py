"""The cpu device: host memory, computed on by NumPy through zero-copy views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

from nbdlpack import dtypes
from nbdlpack.devices.base import NARROW, REDUCTIONS, SEARCHING, Device
from nbdlpack.devices.routines import ROUTINES
from nbdlpack.native import View
from nbdlpack.ufuncs import COMPUTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    V = TypeVar("V", bound=View)


def read(value: Any) -> Any:
    """Return an operand as NumPy takes it: a View as a read-only NumPy array on its memory, others as they are."""
    return value._host(0) if isinstance(value, View) else value


def write(value: Any) -> Any:
    """Return an output as NumPy takes it."""
    return value._host(1) if isinstance(value, View) else value


@final
class CPU(Device):
    """Host memory."""

    __slots__ = ()

    kind = "cpu"
    hosted = True

    def __new__(cls) -> CPU:
        self = object.__new__(cls)
        self._name = "cpu"
        self._dlpack = (1, 0)  # kDLCPU, and there is one
        return self

    def empty(self, cls: type[V], shape: tuple[int, ...], dtype: np.dtype[Any], *, zeros: bool = False) -> V:
        return cls._empty(shape, dtype, int(zeros))

    def elementwise(
        self, ufunc: np.ufunc, inputs: tuple[Any, ...], outputs: tuple[Any, ...], options: Mapping[str, Any]
    ) -> None:
        COMPUTED.get(ufunc, ufunc)(*[read(x) for x in inputs], **_options(options, outputs))

    def reduce(self, name: str, x: View, out: Any, axes: tuple[int, ...], options: Mapping[str, Any]) -> None:
        function, a, target = REDUCTIONS[name], read(x), write(out)
        options = _options(options, None)
        if name in SEARCHING:
            # These take one axis or, in C order, all.
            function(a, axes[0] if len(axes) == 1 else None, target, **options)
        elif x.dtype in NARROW.get(name, ()):
            # Added up in a type as narrow as these, a sum stops growing as soon as it is large: a bfloat16 at 256.
            options["dtype"] = options.get("dtype") or dtypes.FLOAT32
            target[...] = function(a, axes, **options)
        else:
            function(a, axes, out=target, **options)

    def generalized(self, method: Any, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        return method(*[read(x) for x in inputs], **_options(options, options.get("out")))

    def compute(self, cls: type[V], name: str, inputs: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[V, npt.NDArray[Any]]:
            x = cls._empty(shape, dtype, 0)
            return x, x._host(1)

        arguments: list[Any] = [new]
        for x in inputs:
            arguments.append(x._host(0) if isinstance(x, View) else x)  # noqa: PERF401 (that is slower, for so few)
        arguments += options
        return ROUTINES[name].compute(*arguments)

    def assign(self, target: View, value: Any) -> None:
        target._host(1)[...] = read(value)

    def to_host(self, x: View) -> npt.NDArray[Any]:
        return x._host(0)

    def from_host(self, cls: type[V], a: npt.NDArray[Any]) -> V:
        new = cls._empty(a.shape, a.dtype, 0)
        new._host(1)[...] = a
        return new

    def nonzero(self, cls: type[V], x: View) -> tuple[V, ...]:
        return tuple([self.from_host(cls, positions) for positions in x._host(0).nonzero()])

    def gather(self, cls: type[V], x: View, key: Any) -> V:
        return self.from_host(cls, np.asarray(x._host(0)[_read_key(key)]))

    def scatter(self, x: View, key: Any, value: Any) -> None:
        x._host(1)[_read_key(key)] = read(value)

    def at(self, ufunc: np.ufunc, x: Any, key: Any, values: tuple[Any, ...]) -> None:
        ufunc.at(write(x), _read_key(key), *[read(value) for value in values])

    def numba_type(self, x: View) -> Any:
        from nbdlpack.devices import kernelled, njit  # noqa: PLC0415 - it imports Numba

        kernelled.take_part()  # a kernel refuses it
        return njit.type_of(x)

    def synchronize(self) -> None:
        """Do nothing: the CPU is done with an operation when the call returns."""


def _options(options: Mapping[str, Any], outputs: tuple[Any, ...] | None) -> dict[str, Any]:
    """Return a ufunc's options as NumPy takes them."""
    found = {key: read(value) for key, value in options.items()}
    if outputs is not None:
        found["out"] = tuple([write(x) for x in outputs])
    return found


def _read_key(key: Any) -> Any:
    return tuple([read(k) for k in key]) if isinstance(key, tuple) else read(key)
