"""`from_dlpack` beyond the plain case: how each type of producer is asked, and what may be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack import devices, native, storage
from nbdlpack.dlpack.capsules import Capsule, ask, capsule_flags, check_name
from nbdlpack.dlpack.description import is_usable
from nbdlpack.dlpack.enums import IS_COPIED, READ_ONLY, device_words
from nbdlpack.dlpack.producer import checked_copy
from nbdlpack.errors import ExchangeError
from nbdlpack.native import View
from nbdlpack.native.device_types import LEGACY_STREAM, DLDeviceType

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    from nbdlpack.devices import Device

EXCHANGE_ATTRIBUTE: Final = "__dlpack_c_exchange_api__"


def from_dlpack(x: object, /, **options: Any) -> Any:
    """Stand for the native function, until `serve` has made it."""
    raise NotImplementedError


def serve(cls: type[View], module: str) -> Callable[..., Any]:
    """Make `from_dlpack`, of a module, return arrays of a class, as the exchange tables then do; return it."""
    global from_dlpack  # noqa: PLW0603 (the class stands above this package)
    from_dlpack = native.from_dlpack_for(cls, module)
    return from_dlpack


# What a class may define so that its objects export themselves in another way than a table that they inherit would.
# torch asks the last two in its `__dlpack__`, but not in its table.
_EXPORTERS: Final = ("__dlpack__", "__dlpack_device__", "__torch_function__", "__torch_dispatch__")

# Arrays that nobody may write to, but whose capsules, being unversioned, cannot say so.
_IMMUTABLE: Final = (("jaxlib", "ArrayImpl"),)

# What torch's table exports although its bytes are not the tensor's values, or the values are not all there is.
_TORCH_STATES: Final[tuple[tuple[Callable[[Any], bool], str, str], ...]] = (
    (lambda x: x.requires_grad, "requires gradients, which DLPack cannot say", ".detach()"),
    (lambda x: x.is_conj(), "is conjugated, but its memory is not", ".resolve_conj()"),
    (lambda x: x.is_neg(), "is negated, but its memory is not", ".resolve_neg()"),
)


def import_(cls: type[Any], x: Any, /, *, device: object = None, copy: object = None, **unknown: object) -> Any:
    """Return an array over the memory of an object or capsule: `from_dlpack` with all that may be asked of it.

    Parameters
    ----------
    cls
        The class of the result.
    x
        An object with ``__dlpack__``, or a capsule of either kind that has not been consumed.
    device
        The device of the result, or None for that of `x`.
    copy
        True for a copy, False for no copy or an error, None for a copy only if there must be one.

    Returns
    -------
    View
        Of class `cls`, sharing memory with `x` unless it was copied; read-only if `x` is.

    Raises
    ------
    AttributeError
        If `x` has no ``__dlpack__``.
    TypeError
        If `copy` is none of True, False and None, or what `x` returns is no capsule.
    ValueError
        If a capsule has been consumed, or there is no such device.
    BufferError
        If `x` cannot be imported, or not so; it is a ValueError as well if `device` cannot be had without a copy.
    """
    if unknown:
        msg = f"from_dlpack() got an unexpected keyword argument {min(unknown)!r}: it takes device and copy"
        raise TypeError(msg)
    copy = checked_copy(copy)
    target = None if device is None else devices.named(device)  # type: ignore[arg-type]
    kind = type(x)
    if kind is Capsule:
        return _take(cls, x, target, copy=copy)
    if is_plain_view(x):
        # Ours: there is nothing to ask of it, and its strides may be negative.
        return _fit(x._view(cls, 0, x.dtype, x._flags, x.shape, x._steps), target, copy=copy)
    torch = is_torch(kind)
    if torch:
        check_torch(x)
    met = kind in native.producers
    if not met:
        table = find_exchange(kind, checked=torch)
        if table is not None:
            native.producers[kind] = table
    if native.producers.get(kind) is not None and not (met and device is None and copy is None):
        # By its table.  If that refuses we are called again, and ask `__dlpack__`, which may be able to say why.
        return _fit(from_dlpack(x), target, copy=copy)
    wanted: dict[str, object] = {}
    if copy is not None:
        wanted["copy"] = copy
    number = _device_number(x, needed=target is not None)
    if number is not None:
        if not is_usable(*number):
            if target is not None:
                # The producer must move it.  Otherwise we do that, and the producer hears of no device but its own.
                wanted["dl_device"] = target.dlpack
        else:
            stream = devices.numbered(number).consumer_stream()
            if stream is not None and not isinstance(x, np.ndarray):  # on managed memory; NumPy knows no streams
                wanted["stream"] = stream
    capsule, took = _ask(x, wanted)
    ours: Any = wanted.get("stream") if took else None
    result = _take(cls, capsule, target, copy=copy, producer=kind, stream=ours or LEGACY_STREAM)
    if (kind.__module__.partition(".")[0], kind.__name__) in _IMMUTABLE:
        return result if copy else result._view(cls, 0, result.dtype, READ_ONLY, result.shape, result._steps)
    if took and not met and result.__dlpack_device__()[0] == DLDeviceType.kDLCPU:
        # From now on the native half asks it at once.  Devices with streams are asked here, each time.
        native.producers[kind] = None
    return result


def _ask(x: object, wanted: dict[str, object]) -> tuple[Any, bool]:
    """Ask an object for a capsule, and for a copy only if it can make one; tell whether it took all keywords."""
    try:
        return ask(x, wanted)
    except BufferError:
        # Some take the keyword and cannot copy, so we do it.  If it is something else, the second call says so.
        if not wanted.get("copy"):
            raise
    return ask(x, {name: value for name, value in wanted.items() if name != "copy"})


def _take(
    cls: type[Any],
    capsule: Any,
    target: Device | None,
    *,
    copy: bool | None,
    producer: type[Any] | None = None,
    stream: int = LEGACY_STREAM,
) -> Any:
    """Consume a capsule, that of a producer or one that the user has, and do what is left to do with it.

    Its memory is ready on the stream that it was asked for with, or on the default one, as the standard says.
    """
    check_name(capsule)
    flags = capsule_flags(capsule)
    copied = bool(flags & IS_COPIED)
    if copied and copy is False and producer is not None:
        msg = f"{producer.__qualname__}.__dlpack__(copy=False) returned a copy: its memory cannot be shared"
        raise ExchangeError(msg)
    result = cls._import_capsule(capsule)
    memory = result._memory()
    if memory is not None:
        native.watch.imported(memory, stream)
    if copied and producer is not None:
        name, device = producer.__qualname__, str(devices.of(result))
        storage.copied(result.nbytes, device, device, f"{name}.__dlpack__() returned a copy", asked=bool(copy))
    # A copy that may not be written to is none that the caller could have meant.
    return _fit(result, target, copy=copy, copied=copied and not flags & READ_ONLY)


def _fit(x: Any, target: Device | None, *, copy: bool | None, copied: bool = False) -> Any:
    """Return an imported array as it was asked for: on that device, copied if it must be and is not yet."""
    if target is not None and target is not devices.of(x):
        if copy is False:
            own = device_words(*x.__dlpack_device__())
            msg = f"x is on device ({own}) and cannot be had on {str(target)!r} without a copy: pass copy=None or True"
            raise ExchangeError(msg)
        return storage.to_device(x, type(x), target, "from_dlpack(device=...)")
    if copy and not copied:
        return storage.copy(x, type(x), "A", "from_dlpack(copy=True)", asked=True)
    return x


def is_plain_view(x: object) -> TypeGuard[View]:
    """Return whether an object is an array of ours that exports itself as our arrays do."""
    kind: Any = type(x)
    return (
        isinstance(x, View) and kind.__dlpack__ is View.__dlpack__ and kind.__dlpack_device__ is View.__dlpack_device__
    )


def _device_number(x: Any, *, needed: bool) -> tuple[int, int] | None:
    """Return the device on which an object says that its memory is; None if it does not say.

    If that is not `needed`, its ``__dlpack__`` is left to say what is wrong.
    """
    try:
        found = x.__dlpack_device__()
    except AttributeError:
        return None
    except Exception:
        if needed:
            raise
        return None
    try:
        kind, number = map(int, found)
    except (TypeError, ValueError):
        msg = f"{type(x).__qualname__}.__dlpack_device__ returned {found!r}, but must return a pair of integers"
        raise TypeError(msg) from None
    return kind, number


def find_exchange(kind: type[Any], *, checked: bool) -> Any:
    """Return the capsule of the exchange table that exports a type's objects as their ``__dlpack__`` would, or None.

    That is the table of the class that defines one, unless a class derived from that exports in another way.
    """
    for base in kind.__mro__:
        names = vars(base)
        if EXCHANGE_ATTRIBUTE in names:
            capsule = names[EXCHANGE_ATTRIBUTE]
            return native.find_exchange(capsule, checked=checked) if type(capsule) is Capsule else None
        if any(name in names for name in _EXPORTERS):
            return None
    return None


def is_torch(kind: type[Any]) -> bool:
    """Return whether a type is torch's tensor, or one derived from it with the same ``__dlpack__``.

    torch is not imported for this.
    """
    for base in kind.__mro__:
        if base.__name__ == "Tensor" and base.__module__ == "torch":
            return kind.__dlpack__ is base.__dlpack__  # type: ignore[attr-defined]
    return False


def check_torch(x: Any) -> None:
    """Raise BufferError if a torch tensor's memory is not all that there is to its values, naming the remedy.

    torch's exchange table exports such tensors all the same, and its ``__dlpack__`` some of them.
    """
    for is_so, words, remedy in _TORCH_STATES:
        if is_so(x):
            msg = f"the torch tensor {words}: pass x{remedy}"
            raise BufferError(msg)
