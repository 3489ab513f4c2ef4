"""Fourier transforms: the extension of the array API standard.

Transforms are computed on the cpu alone, by NumPy, in the precision that the array has.  What only moves elements, or
makes frequencies, is there on every device.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nbdlpack import dtypes, engine, layout
from nbdlpack.array import ndarray
from nbdlpack.functions.conversion import asarray, from_host
from nbdlpack.functions.manipulation import roll

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol, TypeAlias

    from nbdlpack.devices import Device
    from nbdlpack.dtypes import DTypeLike

    Norm: TypeAlias = Literal["backward", "ortho", "forward"]

    class Transform(Protocol):
        """A transform of one axis."""

        def __call__(self, x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> ndarray: ...

    class SeveralTransforms(Protocol):
        """A transform of several axes."""

        def __call__(
            self,
            x: Any,
            /,
            *,
            s: Sequence[int] | None = None,
            axes: Sequence[int] | None = None,
            norm: Norm = "backward",
        ) -> ndarray: ...


__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_DOC = """Return {does}.

    Parameters
    ----------
    x : array_like
        The array, {takes}.
{parameters}
    norm : {{'backward', 'ortho', 'forward'}}
        Which of the transform and its inverse is divided by the number of elements that are transformed: the inverse,
        both by the root of it, or the transform.

    Returns
    -------
    ndarray
        {gives}, in the precision of `x`; new.

    Raises
    ------
    AxisError
        If there is no such axis.
    ValueError
        If {length} is less than one, or there is no such `norm`.
    TypeError
        If the dtype is none that it is computed of.
    DeviceError
        If the array is not on the cpu.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.fft.{name}({args})
    {result}
    """
_ONE = """    n : int, optional
        How long {what} is along the axis, which is cut or filled up with zeros{default}.
    axis : int
        Along which axis to transform."""
_SEVERAL = """    s : sequence of int, optional
        How long {what} is along each of the axes, which are cut or filled up with zeros{default}; -1 for the length
        that an axis has.  With it, `axes` must be given.
    axes : sequence of int, optional
        Along which axes to transform, the last one first; all if not given."""
_INPUT = {"what": "what is transformed", "default": ""}
_OUTPUT = {"what": "the result", "default": "; ``2 * (m - 1)`` {last}for m elements if not given"}

_ANY, _REAL = "complex, or of numbers that become so", "real"
_TRANSFORMS: dict[str, tuple[str, str, str, bool, tuple[str, str]]] = {
    "fft": ("the discrete Fourier transform along an axis", _ANY, "Complex", False,
            ("nd.array([1.0, 0, 0, 0])", "array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])")),
    "ifft": ("the inverse of `fft`", _ANY, "Complex", False,
             ("nd.ones(4)", "array([1.+0.j, 0.+0.j, 0.+0.j, 0.+0.j])")),
    "rfft": ("the first half of the Fourier transform of real numbers along an axis", _REAL, "Complex", False,
             ("nd.array([1.0, 0, 0, 0])", "array([1.+0.j, 1.+0.j, 1.+0.j])")),
    "irfft": ("the inverse of `rfft`", _ANY, "Real", True,
              ("nd.ones(3)", "array([1., 0., 0., 0.])")),
    "hfft": ("the Fourier transform of the first half of a signal with Hermitian symmetry", _ANY, "Real", True,
             ("nd.ones(3)", "array([4., 0., 0., 0.])")),
    "ihfft": ("the inverse of `hfft`", _REAL, "Complex", False,
              ("nd.array([4.0, 0, 0, 0])", "array([1.-0.j, 1.-0.j, 1.-0.j])")),
    "fftn": ("the discrete Fourier transform along several axes", _ANY, "Complex", False,
             ("nd.ones((2, 2))", "array([[4.+0.j, 0.+0.j],\n           [0.+0.j, 0.+0.j]])")),
    "ifftn": ("the inverse of `fftn`", _ANY, "Complex", False,
              ("nd.ones((2, 2))", "array([[1.+0.j, 0.+0.j],\n           [0.+0.j, 0.+0.j]])")),
    "rfftn": ("the Fourier transform of real numbers along several axes, its first half along the last of them", _REAL,
              "Complex", False, ("nd.ones((2, 2))", "array([[4.+0.j, 0.+0.j],\n           [0.+0.j, 0.+0.j]])")),
    "irfftn": ("the inverse of `rfftn`", _ANY, "Real", True,
               ("nd.ones((2, 2))", "array([[1., 0.],\n           [0., 0.]])")),
}  # fmt: skip
"""What each transform is, what it takes and gives, whether lengths are those of the result, and an example."""


def _documented(function: Any, name: str, parameters: str, length: str) -> Any:
    does, takes, gives, inverse, (args, result) = _TRANSFORMS[name]
    words = dict(_OUTPUT if inverse else _INPUT)
    words["default"] = words["default"].format(last="" if length == "`n`" else "along the last axis ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _DOC.format(
        does=does,
        takes=takes,
        parameters=parameters.format(**words),
        gives=gives,
        length=length,
        name=name,
        args=args,
        result=result,
    )
    return function


def _checked(name: str, x: Any) -> ndarray:
    """Return the argument of a transform.  Raises TypeError if there is none of it."""
    found = asarray(x)
    if found.dtype in dtypes.EXTENDED:
        msg = f"x is of {found.dtype}, of which there are no transforms: convert it, x.astype(nbdlpack.float32)"
        raise TypeError(msg)
    if found.dtype.kind == "c" and _TRANSFORMS[name][1] is _REAL:
        msg = f"x is of {found.dtype}, but {name}() transforms real numbers: pass nbdlpack.real(x), or use fft()"
        raise TypeError(msg)
    return found


def _single(name: str) -> Transform:
    def function(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
        found = _checked(name, x)
        options = n if n is None else index(n), layout.normalize_axis(axis, found.ndim), norm
        return engine.compute(ndarray, f"fft.{name}", (found,), options)

    documented: Transform = _documented(function, name, _ONE, "`n`")
    return documented


def _several(name: str) -> SeveralTransforms:
    def function(
        x: Any,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: Norm = "backward",
    ) -> Any:
        found = _checked(name, x)
        if s is not None and axes is None:
            msg = f"s is {s!r}, and axes is None: name the axes that the lengths are for"
            raise ValueError(msg)
        chosen = layout.normalize_axes(axes if axes is None else tuple(axes), found.ndim, "axes")
        return engine.compute(ndarray, f"fft.{name}", (found,), (s, chosen, norm))

    documented: SeveralTransforms = _documented(function, name, _SEVERAL, "a length")
    return documented


fft = _single("fft")
ifft = _single("ifft")
rfft = _single("rfft")
irfft = _single("irfft")
hfft = _single("hfft")
ihfft = _single("ihfft")
fftn = _several("fftn")
ifftn = _several("ifftn")
rfftn = _several("rfftn")
irfftn = _several("irfftn")


# -- frequencies


def _frequencies(n: int, d: float, dtype: DTypeLike | None, device: Device | str | None, *, half: bool) -> ndarray:
    kind = dtypes.FLOAT64 if dtype is None else dtypes.canonical(dtype)
    if kind not in dtypes.KINDS["real floating"]:
        msg = f"dtype is {kind}, but frequencies have a real floating one"
        raise TypeError(msg)
    n = index(n)
    if n < 1:
        msg = f"n is {n}, but must be at least one"
        raise ValueError(msg)
    found = (np.fft.rfftfreq if half else np.fft.fftfreq)(n, d)
    return from_host(found.astype(kind), device)


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> ndarray:
    """Return the frequencies that the elements of a transform belong to.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance between them.
    dtype : dtype, optional
        A real floating one; float64 if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        Of shape (n,): 0, the positive frequencies, the negative ones; new.

    Raises
    ------
    TypeError
        If the dtype is not a real floating one.
    ValueError
        If `n` is less than one, or the device does not exist.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.fft.fftfreq(4)
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _frequencies(n, d, dtype, device, half=False)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> ndarray:
    """Return the frequencies that the elements of a transform of real numbers belong to.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance between them.
    dtype : dtype, optional
        A real floating one; float64 if not given.
    device : Device or str, optional
        The default device if not given.

    Returns
    -------
    ndarray
        Of shape (n // 2 + 1,): 0 and the positive frequencies; new.

    Raises
    ------
    TypeError
        If the dtype is not a real floating one.
    ValueError
        If `n` is less than one, or the device does not exist.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.fft.rfftfreq(4)
    array([0.  , 0.25, 0.5 ])
    """
    return _frequencies(n, d, dtype, device, half=True)


# -- the order of frequencies


def _shifted(x: Any, axes: int | Sequence[int] | None, *, inverse: bool) -> ndarray:
    found = asarray(x)
    chosen = layout.normalize_axes(axes if axes is None or isinstance(axes, int) else tuple(axes), found.ndim, "axes")
    shifts = [-(found.shape[axis] // 2) if inverse else found.shape[axis] // 2 for axis in chosen]
    return roll(found, shifts, axis=chosen) if chosen else found.copy()


def fftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> ndarray:
    """Return a transform with frequency 0 in the middle of each axis.

    Parameters
    ----------
    x : array_like
        The transform.
    axes : int or sequence of int, optional
        Which axes to shift; all if not given.

    Returns
    -------
    ndarray
        Of the same shape and dtype; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.fft.fftshift(nd.fft.fftfreq(4))
    array([-0.5 , -0.25,  0.  ,  0.25])
    """
    return _shifted(x, axes, inverse=False)


def ifftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> ndarray:
    """Return what `fftshift` was given, from what it returned.

    Parameters
    ----------
    x : array_like
        The transform, with frequency 0 in the middle.
    axes : int or sequence of int, optional
        Which axes to shift; all if not given.

    Returns
    -------
    ndarray
        Of the same shape and dtype; new, on the same device.

    Raises
    ------
    AxisError
        If there is no such axis.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.fft.ifftshift(nd.fft.fftshift(nd.arange(5)))
    array([0, 1, 2, 3, 4])
    """
    return _shifted(x, axes, inverse=True)
