"""What kind of memory an array has, as NumPy's ``x.flags`` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nbdlpack import native

if TYPE_CHECKING:
    from nbdlpack.native import View

_SHOWN: Final = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")
_SHORT: Final = {
    "C": "C_CONTIGUOUS",
    "F": "F_CONTIGUOUS",
    "O": "OWNDATA",
    "W": "WRITEABLE",
    "A": "ALIGNED",
    "X": "WRITEBACKIFCOPY",
    "CONTIGUOUS": "C_CONTIGUOUS",
    "FORTRAN": "F_CONTIGUOUS",
}


class Flags:
    """What kind of memory an array has, by attribute and by NumPy's names in brackets.

    The flags are of the moment that they were asked for.  Only `writeable` can be set, and only to False: this array,
    and what is made of it from then on, cannot be written to any more.  Views that were made before, and other arrays
    on the same memory, still can.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> x = nd.zeros((2, 3))
    >>> x.flags.c_contiguous, x.T.flags["C_CONTIGUOUS"], nd.readonly(x).flags.writeable
    (True, False, False)
    >>> x.flags.writeable = False
    >>> nd.asarray(x).flags.writeable, x.copy().flags.writeable
    (False, True)
    """

    __slots__ = ("_x", "aligned", "c_contiguous", "f_contiguous", "owndata", "writeable")

    _x: View

    c_contiguous: bool
    """Whether the elements lie in C order without gaps."""
    f_contiguous: bool
    """Whether the elements lie in Fortran order without gaps."""
    owndata: bool
    """Whether the memory was allocated by this library, be it for this array or for one that it is a view of."""
    writeable: bool
    """Whether the array may be written to."""
    aligned: bool
    """Whether each element lies where the hardware wants it."""

    def __init__(self, x: View) -> None:
        contiguous = x._contiguous
        state = x._state()
        put = object.__setattr__
        put(self, "_x", x)
        put(self, "c_contiguous", bool(contiguous & 1))
        put(self, "f_contiguous", bool(contiguous & 2))
        put(self, "owndata", bool(state[1] & native.OWN))
        put(self, "writeable", not x._flags & native.READ_ONLY)
        put(self, "aligned", state[0] % x.dtype.alignment == 0)

    @property
    def writebackifcopy(self) -> bool:
        """Whether the array is a copy that is to be written back: never."""
        return False

    @property
    def contiguous(self) -> bool:
        """The same as `c_contiguous`."""
        return self.c_contiguous

    @property
    def fnc(self) -> bool:
        """Whether the array is contiguous in Fortran order and not in C order."""
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self) -> bool:
        """Whether the array is contiguous in either order."""
        return self.f_contiguous or self.c_contiguous

    @property
    def behaved(self) -> bool:
        """Whether the array is aligned and writable."""
        return self.aligned and self.writeable

    @property
    def carray(self) -> bool:
        """Whether the array is aligned, writable, and contiguous in C order."""
        return self.behaved and self.c_contiguous

    @property
    def farray(self) -> bool:
        """Whether the array is aligned, writable, and contiguous in Fortran order and not in C order."""
        return self.behaved and self.fnc

    def __getitem__(self, key: str) -> bool:
        name = _SHORT.get(key, key)
        if name not in _SHOWN and name not in ("FNC", "FORC", "BEHAVED", "CARRAY", "FARRAY"):
            msg = f"no flag is named {key!r}, only {', '.join(_SHOWN)} and their initials"
            raise KeyError(msg)
        found: bool = getattr(self, name.lower())
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if name != "writeable":
            msg = f"the flag {name!r} cannot be set, only 'writeable' can"
            raise AttributeError(msg)
        if not value:
            self._x._seal()
        elif not self._x._flags & native.READ_ONLY:
            return
        else:
            msg = "a read-only array cannot be made writable: write to a copy of it, x.copy()"
            raise ValueError(msg)
        object.__setattr__(self, name, False)

    def __setitem__(self, key: str, value: object) -> None:
        self.__setattr__(_SHORT.get(key, key).lower(), value)

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other) if isinstance(other, Flags) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "".join([f"  {name} : {self[name]}\n" for name in _SHOWN])
