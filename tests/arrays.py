"""What the tests make arrays of: dtypes, layouts, and a comparison that looks at everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import nbdlpack as nd
from nbdlpack import devices, dtypes

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = [row.dtype for row in dtypes.TABLE]
NUMPY_DTYPES = [dtype for dtype in DTYPES if dtype not in dtypes.EXTENDED]
EXTENDED = [dtype for dtype in DTYPES if dtype in dtypes.EXTENDED]


def values(dtype: Any, shape: tuple[int, ...] = (4, 6)) -> np.ndarray[Any, Any]:
    """Return a NumPy array of small numbers, none of them zero, that each dtype has, in some disorder."""
    n = int(np.prod(shape))
    base = (np.arange(n) * 7 % 5 + 1).reshape(shape)
    if np.dtype(dtype).kind == "c":
        return (base - 1j * base.T.reshape(shape)).astype(dtype)
    if np.dtype(dtype) in dtypes.EXTENDED:
        return np.exp2(base - 2).astype(dtype)  # not 16, which float8_e3m4 does not have
    return (base % 2 == 0) if np.dtype(dtype) == np.bool else np.exp2(base - 1).astype(dtype)


def _zero_dimensional(a: Any) -> Any:
    return a[1:2, 2:3].reshape(())


# Each takes an array of shape (4, 6), of NumPy or of ours, and returns a view of it.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda a: a,
    "F": lambda a: a.T,
    "strided": lambda a: a[::2, 1::2],
    "negative": lambda a: a[::-1, ::-2],
    "broadcast": lambda a: (np if isinstance(a, np.ndarray) else nd).broadcast_to(a[:, None, 2:4], (4, 3, 2)),
    "0-d": _zero_dimensional,
    "empty": lambda a: a[:0],
    "offset": lambda a: a[1:, 2:5],
    "3-d": lambda a: a.reshape(2, 2, 6).transpose(1, 2, 0),
}


def pair(dtype: Any, layout: str = "C") -> tuple[nd.ndarray, np.ndarray[Any, Any]]:
    """Return an array of ours and one of NumPy's with the same values and layout."""
    a = values(dtype)
    x = nd.array(a)
    assert x.flags.owndata
    return LAYOUTS[layout](x), LAYOUTS[layout](a)


def bits(a: Any) -> Any:
    """Return values that compare equal if the bytes do, NaN or not."""
    a = np.ascontiguousarray(devices.of(a).to_host(a) if isinstance(a, nd.ndarray) else a)
    return a.reshape(-1).view(np.uint8).tolist()


def assert_same(x: Any, a: Any) -> None:
    """Check that an array of ours has the shape, the dtype and, bit for bit, the values of NumPy's."""
    assert type(x) is nd.ndarray, type(x)
    a = np.asarray(a)
    assert x.shape == a.shape
    assert x.dtype == a.dtype
    assert bits(x) == bits(a), (x, a)


def same_outcome(ours: Callable[[], Any], numpys: Callable[[], Any]) -> None:
    """Check that two calls give the same, or raise errors of which ours is one that expects NumPy's."""
    with np.errstate(all="ignore"):
        try:
            expected = numpys()
        except Exception as error:  # noqa: BLE001 - whatever it is, ours must be one of it
            expected = error
        try:
            found = ours()
        except Exception as error:  # noqa: BLE001
            found = error
    if isinstance(expected, Exception):
        kinds = tuple([k for k in (TypeError, IndexError, ValueError, OverflowError) if isinstance(expected, k)])
        assert isinstance(found, kinds), (found, expected)
    elif isinstance(expected, tuple):
        for x, a in zip(found, expected, strict=True):
            assert_same(x, a)
    elif isinstance(found, Exception):
        raise found
    else:
        assert_same(found, expected)


class Thing:
    """An object that is nothing in particular, of a name that is the same in each process."""

    def __repr__(self) -> str:
        return "thing"
