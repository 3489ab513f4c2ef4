"""Assignment, casts, fills, and the way from and to the host.

What keeps its dtype moves as bytes: elements are one more dimension, neighbours become one, and the widest word that
fits what is left is what a kernel moves.  So one kernel serves all dtypes of a size, and rows of small elements go by
large words.

Where numba-cuda is missing, what is contiguous still moves: by the driver's copies (`copy_memory`), or from the host.
"""

from __future__ import annotations

import importlib
import warnings
from functools import cache, lru_cache
from itertools import product
from math import ceil, gcd, prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from nbdlpack import layout
from nbdlpack.devices.kernelled import launching
from nbdlpack.dtypes import BOOL
from nbdlpack.errors import DeviceError
from nbdlpack.native import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from nbdlpack.devices.kernelled import KernelDevice
    from nbdlpack.kernels.numba_cuda import Kernel
    from nbdlpack.layout import Shape, Steps

    V = TypeVar("V", bound=View)

BLOCKING: Final = {
    "to_host": "repr, tolist, item, numpy, to_device('cpu'), save and pickle wait for the elements",
    "gather, scatter": "x[i], x[i] = y with an index array on the device wait until its indices have been checked",
    "nonzero": "nonzero, x[mask], x[mask] = y with a mask on the device wait for the number of what it selects",
    "generalized, at": "a ufunc's other methods, and at, are left to NumPy, on copies in host memory",
}
"""The operations that wait for the device, because they need a value of it, and why.

No other does.  Not even ``x[mask] = y``, if y is a scalar, or one element for all that the mask selects; nor what is
indexed by lists or NumPy's arrays.
"""

WIDEST: Final = 16
"""The bytes of the widest word that a GPU loads and stores."""
TRANSPOSED: Final = 8
"""From how many rows and columns on a transpose goes by way of shared memory."""


@cache
def kernels() -> Any:
    """Return the module of the kernels.  Raises DeviceError if numba-cuda is missing."""
    return importlib.import_module("nbdlpack.kernels.copies")


@cache
def have_kernels() -> bool:
    """Return whether kernels can be compiled."""
    try:
        kernels()
    except DeviceError:
        return False
    return True


# -- what a kernel is to visit


class Operand(NamedTuple):
    """What a kernel knows of an array."""

    address: int
    strides: Steps
    """In bytes."""


def operand(device: KernelDevice, x: View, shape: Shape | None = None) -> Operand:
    """Return an array as an operand, broadcast to a shape."""
    strides = x.strides if shape is None or shape == x.shape else layout.broadcast_steps(x.shape, x.strides, shape)
    return Operand(device.address(x), strides)


class Visit(NamedTuple):
    """As few dimensions as operands can be visited by."""

    shape: Shape
    addresses: list[int]
    strides: tuple[Steps, ...]


def visited(shape: Shape, operands: Sequence[Operand]) -> Visit:
    """Return how to visit operands of one shape: in an order in which the addresses of the first one rise."""
    shape, offsets, strides = _visited(shape, tuple([strides for _, strides in operands]), ordered=False)
    return Visit(shape, [address + k for (address, _), k in zip(operands, offsets, strict=True)], strides)


# Much the same is launched over and over, and this arithmetic would take longer than a launch does.
@lru_cache(4096)
def _visited(shape: Shape, several: tuple[Steps, ...], *, ordered: bool) -> tuple[Shape, list[int], tuple[Steps, ...]]:
    """Return how to visit operands, and how far from its first element each of them is then begun with."""
    offsets, strides = [0] * len(several), [list(steps) for steps in several]
    for axis, n in enumerate(shape):
        if strides[0][axis] < 0:
            for i, steps in enumerate(strides):
                offsets[i] += (n - 1) * steps[axis]
                steps[axis] = -steps[axis]
    shape, merged = layout.coalesced(shape, [tuple(steps) for steps in strides], ordered=ordered)
    return shape, offsets, tuple(merged)


def by_words(
    shape: Shape,
    itemsize: int,
    moved: Sequence[Operand],
    others: Sequence[Operand] = (),
    multiples: Sequence[int] = (),
    *,
    ordered: bool = False,
) -> tuple[int, Visit]:
    """Return by which words to visit the bytes of operands, and how.

    Parameters
    ----------
    shape : tuple of int
        The shape.
    itemsize : int
        The bytes of an element.
    moved : sequence of Operand
        What is loaded or stored by words.
    others : sequence of Operand
        What is looked at as well, once an element.
    multiples : sequence of int
        What must be a multiple of a word, besides.
    ordered : bool
        Whether the dimensions are to stay in their order.

    Returns
    -------
    int
        The bytes of a word, `WIDEST` at most: a power of two.
    Visit
        The words.
    """
    operands = (*moved, *others)
    strides = tuple([strides for _, strides in operands])
    residues = tuple([address % WIDEST for address, _ in moved])
    word, shape, offsets, strides = _by_words(shape, itemsize, strides, residues, tuple(multiples), ordered=ordered)
    return word, Visit(shape, [address + k for (address, _), k in zip(operands, offsets, strict=True)], strides)


@lru_cache(4096)
def _by_words(
    shape: Shape,
    itemsize: int,
    several: tuple[Steps, ...],
    residues: tuple[int, ...],
    multiples: tuple[int, ...],
    *,
    ordered: bool,
) -> tuple[int, Shape, list[int], tuple[Steps, ...]]:
    """Return a word, and how to visit words; `residues` are of the addresses of those operands that move."""
    moved = len(residues)
    along = (1,) * moved + (0,) * (len(several) - moved)
    several = tuple([(*steps, step) for steps, step in zip(several, along, strict=True)])
    shape, offsets, strides = _visited((*shape, itemsize), several, ordered=ordered)
    run = shape[-1] if shape and tuple([steps[-1] for steps in strides]) == along else 1
    outer = len(shape) - (run > 1)
    factors = [step for steps in strides[:moved] for step in steps[:outer]]
    starts = [residue + offset for residue, offset in zip(residues, offsets, strict=False)]
    word = gcd(WIDEST, run, *factors, *multiples, *starts)
    if run > 1:
        rest = (run // word,) if run > word else ()
        strides = tuple(
            [(*steps[:-1], *[step * word for _ in rest]) for steps, step in zip(strides, along, strict=True)]
        )
        shape = (*shape[:-1], *rest)
    return word, shape, offsets, strides


def launch(
    device: KernelDevice, make: Callable[[str], Kernel], visit: Visit, *values: Any, in_flight: int | None = None
) -> None:
    """Launch a strided kernel: once if what it visits has no more dimensions than it takes.

    Parameters
    ----------
    device : KernelDevice
        The device.
    make : callable
        Returns the kernel of a form, '1-d' or '4-d'.
    visit : Visit
        The operands.
    *values : number
        What the kernel is given after them.
    in_flight : int, optional
        How many elements a thread works on at a time: `copies.IN_FLIGHT` if not given.
    """
    shape, addresses, strides = visit
    form, n, steps, outer = _forms(shape, strides)
    kernel, threads = make(form), -(-n // (in_flight or kernels().IN_FLIGHT))
    if not outer:
        device.launch(kernel, threads, *addresses, *steps, *values)
        return
    for index in product(*[range(shape[axis]) for axis in outer]):
        moved = [
            address + sum([i * along[axis] for i, axis in zip(index, outer, strict=True)])
            for address, along in zip(addresses, strides, strict=True)
        ]
        device.launch(kernel, threads, *moved, *steps, *values)


@lru_cache(4096)
def _forms(shape: Shape, strides: tuple[Steps, ...]) -> tuple[str, int, tuple[Any, ...], list[int]]:
    """Return the form of a strided kernel, how much it visits, what it is given, and what is launched one by one."""
    if len(shape) < 2:
        n = prod(shape)
        return "1-d", n, (n, *[sum(steps) for steps in strides]), []
    # The shortest dimensions, if there are too many.
    ndim = kernels().MAX_DIMS
    outer = sorted(sorted(range(len(shape)), key=lambda axis: shape[axis])[: max(len(shape) - ndim, 0)])
    inner = [axis for axis in range(len(shape)) if axis not in outer]
    missing, lengths = ndim - len(inner), [shape[axis] for axis in inner]
    padded = [(0,) * missing + tuple([along[axis] for axis in inner]) for along in strides]
    return "4-d", prod(lengths), (prod(lengths), (1,) * missing + tuple(lengths), *padded), outer


# -- assignment


def assign(device: KernelDevice, target: View, value: Any) -> None:
    """Write a value into an array, broadcast and cast as NumPy's assignment does."""
    if isinstance(value, View):
        extra = max(value.ndim - target.ndim, 0)
        if extra:  # of length one, which NumPy drops
            value = value._view(View, 0, value.dtype, 0, value.shape[extra:], value._steps[extra:])
        if target.size:
            (_copy if value.dtype == target.dtype else _cast)(device, target, value)
        return
    a = np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value, target.dtype)
    a = a.astype(target.dtype, copy=False)
    a = a.reshape(a.shape[max(a.ndim - target.ndim, 0) :])
    if not target.size:
        return
    if a.size == 1:
        _fill(device, target, a)
    elif a.shape == target.shape and target._contiguous & 1:
        with device.accessing((), (target,)):
            device.upload(device.address(target), np.asarray(a, order="C"))
    else:
        _copy(device, target, from_host(device, View, a))


def overlap(device: KernelDevice, x: View, y: View) -> bool:
    """Return whether two arrays may share bytes."""
    if x._contiguous and y._contiguous:
        at, other = device.address(x), device.address(y)
        return at < other + y.nbytes and other < at + x.nbytes
    first, second = [(device.address(z), z.shape, z.strides, z.itemsize) for z in (x, y)]
    return layout.overlap(first, second)


def compact(device: KernelDevice, x: View) -> View:
    """Return a C-contiguous copy."""
    new = device.empty(View, x.shape, x.dtype)
    if x.size:
        _copy(device, new, x)
    return new


def _copy(device: KernelDevice, target: View, source: View) -> None:
    """Copy an array to one of the same dtype."""
    if overlap(device, target, source):
        if device.address(target) == device.address(source) and _strides(target) == _strides(source, target.shape):
            return
        source = compact(device, source)
    with device.accessing((source,), (target,)):
        if source._contiguous & target._contiguous and source.shape == target.shape:
            copy_bytes(device, device.address(target), device.address(source), target.nbytes)
            return
        move(device, target.shape, target.itemsize, operand(device, target), operand(device, source, target.shape))


def _strides(x: View, shape: Shape | None = None) -> list[int]:
    """Return the strides that say where elements are, broadcast to a shape."""
    shape = shape or x.shape
    strides = layout.broadcast_steps(x.shape, x.strides, shape)
    return [stride for n, stride in zip(shape, strides, strict=True) if n != 1]


def move(device: KernelDevice, shape: Shape, itemsize: int, target: Operand, source: Operand) -> None:
    """Launch what copies the first bytes of elements, which do not overlap."""
    word, visit = by_words(shape, itemsize, (target, source))
    words, addresses, strides = visit
    if len(words) < 2 and all(steps in ((), (word,)) for steps in strides):
        copy_bytes(device, addresses[0], addresses[1], word * prod(words))
        return
    copies = kernels()
    rows = _rows(word, words, strides)
    if rows is None:
        launch(device, lambda form: copies.copy(word, form), visit)
        return
    columns = len(words) - 1
    (to, of), batch = strides, 3 - columns - rows if columns == 2 else None
    matrices = (1, 0, 0) if batch is None else (words[batch], to[batch], of[batch])
    tiles = matrices[0] * prod([-(-words[axis] // copies.TILE) for axis in (rows, columns)])
    args = (words[rows], words[columns], matrices[1], to[rows], matrices[2], of[columns])
    device.launch(copies.transpose(word), tiles * launching.BLOCK, *addresses, matrices[0], *args)


def _rows(word: int, shape: Shape, strides: tuple[Steps, ...]) -> int | None:
    """Return the dimension along which the source is contiguous, where the target is along the last; None if not so."""
    to, of = strides
    if word == WIDEST or len(shape) not in (2, 3) or to[-1] != word or of[-1] == word:
        return None
    for axis in range(len(shape) - 1):
        if of[axis] == word and min(shape[axis], shape[-1]) >= TRANSPOSED:
            return axis
    return None


def copy_bytes(device: KernelDevice, target: int, source: int, nbytes: int) -> None:
    """Launch what copies bytes from one address to another."""
    if nbytes == 0:
        return
    if not have_kernels():
        device.copy_memory(target, source, nbytes)
        return
    copies = kernels()
    word = gcd(WIDEST, target - source)
    head = min(-target % word, nbytes)
    words, tail = divmod(nbytes - head, word)
    threads = max(-(-words // copies.IN_FLIGHT), head, tail)
    device.launch(copies.copy(word, "contiguous"), threads, target, source, head, words, tail)


def _fill(device: KernelDevice, target: View, a: npt.NDArray[Any]) -> None:
    """Write one element everywhere."""
    if not have_kernels() and target._contiguous:
        with device.accessing((), (target,)):
            device.upload(device.address(target), np.full(target.size, a.reshape(()), target.dtype))
        return
    copies = kernels()
    sixteen = pattern(a)
    with device.accessing((), (target,)):
        address = device.address(target)
        if target._contiguous:
            nbytes = target.nbytes
            head = min(-address % WIDEST, nbytes)
            words, tail = divmod(nbytes - head, WIDEST)
            # The pattern as it is from the first whole word on.
            words_of = halves(sixteen[head:] + sixteen[:head])
            device.launch(
                copies.fill(WIDEST, "contiguous"), max(words, head, tail), address, head, words, tail, *words_of
            )
            return
        if address % a.itemsize == 0:
            word, visit = by_words(target.shape, a.itemsize, (operand(device, target),))
            launch(device, lambda form: copies.fill(word, form), visit, *halves(sixteen))
            return
    # A word is less than an element.
    _copy(device, target, from_host(device, View, a.reshape(())))


def pattern(a: npt.NDArray[Any]) -> bytes:
    """Return the bytes of one element, as often as they fit into the widest word."""
    return a.tobytes() * (WIDEST // a.itemsize)


def halves(sixteen: bytes) -> tuple[int, int]:
    """Return sixteen bytes as kernels take them."""
    return int.from_bytes(sixteen[:8], "little"), int.from_bytes(sixteen[8:], "little")


# -- casts


def _cast(device: KernelDevice, target: View, source: View) -> None:
    """Copy an array to one of another dtype."""
    copies = kernels()
    for x in (source, target):
        if x.dtype not in copies.ACCESS:
            msg = (
                f"cannot cast from {source.dtype} to {target.dtype} on device {device}, which computes with "
                f"{', '.join([str(dtype) for dtype in copies.ACCESS])}: cast it on the cpu, "
                f"x.to_device('cpu').astype({str(target.dtype)!r})"
            )
            raise TypeError(msg)
    if source.dtype.kind == "c" and target.dtype.kind not in "cb":
        warnings.warn(
            "Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning, stacklevel=1
        )
    given, wanted = _simplified(source.dtype, target.dtype)
    if given != wanted and not is_aligned(device, source):
        source = compact(device, source)
    if overlap(device, target, source) or (given != wanted and not is_aligned(device, target)):
        between = device.empty(View, source.shape, target.dtype)
        _cast_apart(device, between, source, given, wanted)
        _copy(device, target, between)
    else:
        _cast_apart(device, target, source, given, wanted)


def _cast_apart(device: KernelDevice, target: View, source: View, given: np.dtype[Any], wanted: np.dtype[Any]) -> None:
    with device.accessing((source,), (target,)):
        operands = operand(device, target), operand(device, source, target.shape)
        if given == wanted:
            move(device, target.shape, wanted.itemsize, *operands)
        else:
            visit = visited(target.shape, operands)
            launch(device, lambda form: kernels().cast(given, wanted, form), visit)


@cache
def _simplified(source: np.dtype[Any], target: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return dtypes between which a cast does the same, of which there are fewer pairs; equal ones if bytes are copied.

    The real part of a complex number is where the number is, the lower bytes of an integer are where it is, and what
    becomes a signed integer has the bytes of an unsigned one.
    """
    if source.kind == "c" and target.kind not in "cb":
        source = np.dtype(f"f{source.itemsize // 2}")
    if source.kind in "iu" and target.kind in "iu" and target.itemsize <= source.itemsize:
        source = target
    elif target.kind == "i" and (source.kind in "biu" or target.itemsize < 8):
        target = np.dtype(f"u{target.itemsize}")
    return source, target


def is_aligned(device: KernelDevice, x: View) -> bool:
    """Return whether all elements are where kernels can load them; strides are whole elements."""
    return bool(device.address(x) % kernels().ACCESS[x.dtype].alignment == 0)


# -- the host


def to_host(device: KernelDevice, x: View) -> npt.NDArray[Any]:
    """Return the elements for reading, as a NumPy array; blocks until they are there."""
    if not x.size:
        a = np.empty(x.shape, x.dtype)
        a.flags.writeable = False
        return a
    low, high = [end * x.itemsize for end in layout.bounds(x.shape, x._steps)]
    if high - low > x.nbytes and have_kernels():
        x = compact(device, x)
        low, high = 0, x.nbytes
    # There is nothing between the elements, or no kernel to leave it out.
    memory = np.empty(high - low, np.uint8)
    with device.accessing((x,), ()):
        device.download(memory, device.address(x) + low)
    memory.flags.writeable = False
    return np.ndarray(x.shape, x.dtype, memory.data, -low, x.strides)


def from_host(device: KernelDevice, cls: type[V], a: npt.NDArray[Any]) -> V:
    """Return a C-contiguous array in new memory with the elements of a NumPy array."""
    new = device.empty(cls, a.shape, a.dtype)
    if a.size:
        with device.accessing((), (new,)):
            device.upload(device.address(new), np.asarray(a, order="C"))
    return new


def arange(device: KernelDevice, cls: type[V], start: Any, stop: Any, step: Any, dtype: np.dtype[Any] | None) -> V:
    """Return a new array of what `numpy.arange` gives, in the dtype that it chooses if that is None."""
    first: Any
    second: Any
    kinds = [np.asarray(number).dtype for number in (start, stop, step)]
    kind = dtype or np.result_type(*kinds)
    length = float((stop - start) / step) if step and all(k.kind in "iuf" for k in kinds) else 0
    # A few are not worth a launch, and more than there is memory for are refused by NumPy.
    if not 2 < length < layout.MAX_SIZE or kind == BOOL or not have_kernels() or kind not in kernels().ACCESS:
        return from_host(device, cls, np.arange(start, stop, step, dtype=dtype))
    first, second = [np.asarray(number, kind)[()] for number in (start, start + step)]
    if kind.itemsize == 2 and kind.kind not in "iu":  # computed in float32, as NumPy does
        first, second = np.float32(first), np.float32(second)
    n = ceil(length)
    new = device.empty(cls, (n,), kind)
    with np.errstate(all="ignore"), device.accessing((), (new,)):
        device.launch(kernels().arange(kind), n, device.address(new), n, first, second - first)
    return new
