"""Views of an array in other shapes, and copies of it: what shape and steps alone decide."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nbdlpack import devices, dtypes, engine, layout, storage
from nbdlpack.native import READ_ONLY, View

if TYPE_CHECKING:
    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DTypeLike
    from nbdlpack.layout import Order


class Shaped(View):
    """The part of an array that has a shape.  What it returns is of the array's own class."""

    __slots__ = ()

    def _restepped(self, shape: tuple[int, ...], steps: tuple[int, ...], flags: int | None = None) -> Self:
        """Return a view from the same first element, with other shape and steps."""
        view: Self = self._view(type(self), 0, self.dtype, self._flags if flags is None else flags, shape, steps)
        return view

    def _slice(self, axis: int, start: int, stop: int) -> Self:
        """Return a view of the positions from `start` up to `stop` along an axis, which are there."""
        shape, steps, dtype = self.shape, self._steps, self.dtype
        new = (*shape[:axis], max(stop - start, 0), *shape[axis + 1 :])
        offset = 0 if 0 in new else start * steps[axis] * dtype.itemsize
        part: Self = self._view(type(self), offset, dtype, self._flags, new, steps)
        return part

    @property
    def T(self) -> Self:  # noqa: N802
        """The array with its axes in reverse order: a view."""
        return self._restepped(self.shape[::-1], self._steps[::-1])

    @property
    def mT(self) -> Self:  # noqa: N802
        """The array with its last two axes exchanged: a view.  Raises ValueError if it has fewer than two."""
        if self.ndim < 2:
            msg = f"matrix transpose needs at least 2 dimensions, and the array has {self.ndim}"
            raise ValueError(msg)
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> Self:
        """The real part: a view, that can be written to if the array can."""
        return self._part(0)

    @real.setter
    def real(self, value: Any) -> None:
        engine.assign(self._part(0), value)

    @property
    def imag(self) -> Self:
        """The imaginary part: a view; of a real array new zeros, which cannot be written to."""
        if self.dtype.kind == "c":
            return self._part(1)
        zeros = devices.of(self).empty(type(self), self.shape, self.dtype, zeros=True)
        return zeros._restepped(zeros.shape, zeros._steps, flags=READ_ONLY)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            msg = f"an array of {self.dtype} has no imaginary part that could be set: use x.astype(complex)"
            raise TypeError(msg)
        engine.assign(self._part(1), value)

    def _part(self, which: int) -> Self:
        dtype = self.dtype
        if dtype.kind != "c":
            return self._restepped(self.shape, self._steps)
        half = np.dtype(f"f{dtype.itemsize // 2}")
        steps = tuple([2 * step for step in self._steps])
        part: Self = self._view(type(self), which * half.itemsize, half, self._flags, self.shape, steps)
        return part

    # -- shape

    def reshape(self, *shape: Any, order: Order = "C", copy: bool | None = None) -> Self:
        """Return the elements in another shape: a view where one can show it, else a copy.

        Parameters
        ----------
        *shape : int or tuple of int
            The new lengths; one may be -1 and is found.
        order : {'C', 'F', 'A'}
            The order in which elements are read and placed; 'A' is 'F' if the array is contiguous so alone, else 'C'.
        copy : bool or None
            True for a copy in any case, False for a view or a ValueError.
        """
        order = layout.check_order(order, "CFA")  # type: ignore[assignment]
        if order == "A":
            order = "F" if self._contiguous == 2 else "C"
        wanted = layout.as_integers(shape[0] if len(shape) == 1 else shape, "shape")
        old = self.shape
        new = layout.resolve_shape(wanted, prod(old), old)
        if order == "C" and self._contiguous & 1:
            steps: tuple[int, ...] | None = layout.c_steps(new)
        else:
            steps = layout.reshape_steps(old, self._steps, new, order)
        if steps is not None and not copy:
            return self._restepped(new, steps)
        if copy is False:
            msg = f"no view shows shape {old} with strides {self.strides} as shape {new}: pass copy=None for a copy"
            raise ValueError(msg)
        if steps is None:
            x = storage.copy(
                self, type(self), order, "reshape() of an array whose strides allow no view", asked=bool(copy)
            )
        else:
            x = self.copy(order)
        steps = layout.c_steps(new) if order == "C" else layout.f_steps(new)
        return x._restepped(new, steps)

    def ravel(self, order: Order = "C") -> Self:
        """Return the elements in one dimension: a view if one can show it, else a copy.  'K' reads as they lie."""
        if layout.check_order(order) == "K":
            return self.transpose(layout.k_axes(self.shape, self._steps)).reshape(-1)
        return self.reshape(-1, order=order)

    def flatten(self, order: Order = "C") -> Self:
        """Return a copy of the elements in one dimension."""
        x = self.ravel(order)
        return x if x._state()[-1] != self._state()[-1] else x.copy()

    def transpose(self, *axes: Any) -> Self:
        """Return a view with the axes in another order: reversed if none is given."""
        if not axes or (len(axes) == 1 and axes[0] is None):
            return self.T
        given = layout.as_integers(axes[0] if len(axes) == 1 else axes, "axes")
        order = layout.normalize_axes(given, self.ndim, "axes")
        if len(order) != self.ndim:
            msg = f"axes are {given}, but must name each of the {self.ndim} axes once"
            raise ValueError(msg)
        shape, steps = self.shape, self._steps
        return self._restepped(tuple([shape[axis] for axis in order]), tuple([steps[axis] for axis in order]))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return a view with two axes exchanged."""
        order = list(range(self.ndim))
        i, j = layout.normalize_axis(axis1, self.ndim), layout.normalize_axis(axis2, self.ndim)
        order[i], order[j] = j, i
        return self.transpose(order)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Self:
        """Return a view without axes of length one: without all, or those given, which must be of length one."""
        shape, steps = self.shape, self._steps
        if axis is None:
            axes = tuple([i for i, n in enumerate(shape) if n == 1])
        else:
            axes = layout.normalize_axes(axis, len(shape))
        if any(shape[i] != 1 for i in axes):
            msg = f"axis is {axis}, but only axes of length one can be squeezed away, and the shape is {shape}"
            raise ValueError(msg)
        kept = [i for i in range(len(shape)) if i not in axes]
        return self._restepped(tuple([shape[i] for i in kept]), tuple([steps[i] for i in kept]))

    # -- copies and other types

    def copy(self, order: Order = "C") -> Self:
        """Return a copy: lazily, without copying, where the array is all of its memory and in that order.

        Parameters
        ----------
        order : {'C', 'F', 'A', 'K'}
            The layout of the copy: C's, Fortran's, 'A' for Fortran's if the array is contiguous so alone and else C's,
            'K' for the array's own.

        Returns
        -------
        ndarray
            Of the same dtype, on the same device, writable.  The memory is shared until either is written to.

        Examples
        --------
        >>> import nbdlpack as nd
        >>> x = nd.zeros(3)
        >>> y = x.copy()
        >>> nd.is_shared(y)
        True
        >>> y[0] = 1
        >>> nd.is_shared(y), x
        (False, array([0., 0., 0.]))
        """
        if order != "C" or not self._contiguous & 1:
            order = layout.check_order(order)  # type: ignore[assignment]
            fits = layout.is_laid_out(self._contiguous, order)
            if not fits:
                return storage.copy(self, type(self), order, "copy() in another layout", asked=True)
        lazy: Self | None = self._lazy_copy(type(self))
        if lazy is not None:
            return lazy
        cause = "a copy was asked for, of memory that a lazy copy cannot share"
        return storage.copy(self, type(self), order, cause, asked=True)

    def astype(
        self, dtype: DTypeLike, order: Order = "K", casting: Any = "unsafe", *, copy: bool = True, device: Any = None
    ) -> Self:
        """Return the elements converted to a dtype, in new memory.

        Parameters
        ----------
        dtype : dtype
            The new type.
        order : {'C', 'F', 'A', 'K'}
            The layout of the result, as in `copy`.
        casting : {'no', 'equiv', 'safe', 'same_kind', 'unsafe'}
            Which conversions are allowed; TypeError for others.
        copy : bool
            False returns the array itself if it has the dtype and the layout.
        device : Device or str, optional
            The device of the result.
        """
        new = dtypes.canonical(dtype)
        old = self.dtype
        order = layout.check_order(order)  # type: ignore[assignment]
        if device is not None and devices.named(device) is not devices.of(self):
            return self.to_device(device).astype(new, order, casting, copy=False)
        if not np.can_cast(old, new, casting):
            msg = f"cannot cast array data from {old!r} to {new!r} according to the rule {casting!r}"
            raise TypeError(msg)
        if new is not old:
            return storage.copy(self, type(self), order, f"astype({new.name}) was called", asked=True, dtype=new)
        return self if layout.is_laid_out(self._contiguous, order) and not copy else self.copy(order)

    def view(self, dtype: Any = None) -> Any:
        """Return a view: of the bytes as another dtype, or of the array as one of a subclass.

        Parameters
        ----------
        dtype : dtype or subclass of ndarray, optional
            With items of another size the last axis changes its length, and must be contiguous.
        """
        if dtype is None:
            return self._restepped(self.shape, self._steps)
        if isinstance(dtype, type) and issubclass(dtype, View):
            return self._view(dtype, 0, self.dtype, self._flags, self.shape, self._steps)
        new, old = dtypes.canonical(dtype), self.dtype
        found = layout.view_steps(self.shape, self._steps, old.itemsize, new.itemsize, self._contiguous)
        if found is None:
            msg = (
                f"an array of {old.name}, shape {self.shape} and strides {self.strides} cannot be viewed as "
                f"{new.name}: "
                "the last axis must be contiguous and a multiple of the new items, as it is in x.copy()"
            )
            raise ValueError(msg)
        return self._view(type(self), 0, new, self._flags, *found)

    def to_device(self, device: Device | str, /, *, stream: object = None) -> Self:
        """Return the array on a device: itself if it is there, else a copy.

        Parameters
        ----------
        device : Device or str
            Where it is to be.
        stream : optional
            What work on a GPU is put into, in place of the current stream: a stream, or its handle.  The cpu has none.

        Returns
        -------
        ndarray
            Of the same dtype, C-contiguous if it is a copy.
        """
        target, source = devices.named(device), devices.of(self)
        streamed = target if target.streamed else source
        with streamed.working_on(stream):
            return storage.to_device(self, type(self), target, "to_device() was called")

    def fill(self, value: Any) -> None:
        """Set all elements to a value, which is a number or an array without dimensions."""
        engine.assign(self, engine.element(value))
