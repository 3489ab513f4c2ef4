"""numba-cuda: the one module that imports it, with every private name of it that is relied on.

Importing this module is the start-up check: where numba-cuda is missing, of a release that is not supported, or not
what it was, the import raises the `DeviceError` that says so, and what to install.

A kernel's module takes `cuda` from here as a global of that name: Numba's simulator (NUMBA_ENABLE_CUDASIM=1) swaps the
globals whose value is that module while a kernel runs.
"""

from __future__ import annotations

import importlib
import re
import threading
import warnings
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nbdlpack.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "SIMULATED",
    "SUPPORTED",
    "Kernel",
    "accept",
    "array_type",
    "build",
    "check",
    "compile_ptx",
    "cuda",
    "device_function",
    "fits",
    "intrinsic",
    "is_compiling",
    "python_function",
    "simulate",
    "types",
]

SUPPORTED: Final = ((0, 30, 4), (0, 31))
"""The first release of numba-cuda that is supported, and the first after it that is not."""
_WANTED: Final = "nbdlpack computes on a GPU by numba-cuda >=0.30.4,<0.31: pip install 'nbdlpack[cuda]'"


def _found() -> str:
    """Return what there is of numba-cuda, in words."""
    try:
        return f"numba-cuda {version('numba-cuda')}"
    except PackageNotFoundError:
        return "no numba-cuda"


def _refuse(why: str, error: Exception | None = None) -> None:
    msg = f"{why}; {_WANTED}"
    raise DeviceError(msg) from error


def check() -> None:
    """Raise the DeviceError that says what is wrong with numba-cuda, if anything is.  Importing this module does so."""
    found = _found()
    numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:3])
    if not numbers:
        _refuse("numba-cuda is not installed")
    if not SUPPORTED[0] <= numbers < SUPPORTED[1]:
        _refuse(f"{found} is installed, which is not supported")
    try:
        with _as_numpy_was():
            module = importlib.import_module("numba.cuda")
            if getattr(module, "implementation", "Built-in") != "NVIDIA":
                _refuse(f"{found} is installed, but numba.cuda is Numba's own, without support")
            if not module.config.ENABLE_CUDASIM:
                if module.config.DISABLE_CUDA:
                    msg = "numba-cuda is kept from GPUs by NUMBA_DISABLE_CUDA: unset it, for kernels to be compiled"
                    raise DeviceError(msg)  # noqa: TRY301
                importlib.import_module("numba.cuda.np.arrayobj")
    except DeviceError:
        raise
    except (ImportError, AttributeError, RuntimeError) as error:  # the last of NVIDIA's libraries that are not there
        _refuse(f"{found} is installed, but cannot be imported ({error})", error)


@contextmanager
def _as_numpy_was() -> Iterator[None]:
    """Give NumPy, for an import, the one name that NumPy 2.5 has dropped and numba-cuda 0.30 asks for."""
    missing = not hasattr(np, "row_stack")
    if missing:
        np.row_stack = np.vstack  # noqa: NPY201
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        if missing:
            del np.row_stack  # noqa: NPY201


check()

try:
    from numba import cuda
    from numba.core.compiler_lock import global_compiler_lock
    from numba.cuda import config, types
    from numba.cuda.core import errors as _errors
    from numba.cuda.np.numpy_support import from_dtype

    SIMULATED: Final = bool(config.ENABLE_CUDASIM)
    """Whether kernels run in Numba's simulator, which NUMBA_ENABLE_CUDASIM=1 asks for before the first import."""

    if SIMULATED:
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray, FakeWithinKernelCUDAArray
        from numba.cuda.simulator.kernel import BlockThread, FakeCUDAKernel

        intrinsic = None
        _their_call = FakeCUDAKernel.__call__
    else:
        from cuda.core import Device as _CoreDevice
        from cuda.core import LaunchConfig as _LaunchConfig
        from numba.cuda import compiler as _compiler
        from numba.cuda import dispatcher as _dispatcher
        from numba.cuda.args import ArgHint
        from numba.cuda.cudadrv import driver as _driver
        from numba.cuda.extending import intrinsic
        from numba.cuda.typing.typeof import typeof_impl

        _dispatcher.get_current_device, _dispatcher.launch  # noqa: B018 - replaced in `compile_ptx`, and called
        _their_launch, _their_stream = _dispatcher._Kernel.launch, _driver._to_core_stream
except (ImportError, AttributeError) as _error:
    _refuse(f"{_found()} is installed, but not as expected ({_error})", _error)


# -- what kernels are written with


def device_function(function: Callable[..., Any]) -> Any:
    """Make a function callable from kernels of any module.  In the simulator most functions are that already."""
    if SIMULATED:
        names = function.__code__.co_names
        return FakeCUDAKernel(function, device=True) if "cuda" in names else function
    return cuda.jit(function, device=True, debug=False, opt=True, lto=False)


class Kernel:
    """A kernel that is not compiled yet: the function and the types of its parameters.

    It is made once, by a cached function, and hashed by identity.

    Parameters
    ----------
    name : str
        A unique name, the same in every process, which caches of compiled kernels rely on.
    function : callable
        What Numba compiles.  It uses the global `cuda` of its module.
    signature : tuple of types
        Numba's types of its parameters: ``types.uint64`` for addresses, ``types.int64`` for sizes and strides in bytes,
        ``types.UniTuple(types.int64, 4)`` for shapes and strides, others for values.  A launch is given one C value for
        each, but two for a complex number and as many for a tuple as it has items.
    """

    __slots__ = ("__weakref__", "function", "name", "signature")

    def __init__(self, name: str, function: Callable[..., None], signature: tuple[Any, ...]) -> None:
        # What profilers show.
        function.__name__ = function.__qualname__ = re.sub(r"\W+", "_", name).strip("_")
        self.name, self.function, self.signature = name, function, signature

    def __repr__(self) -> str:
        return f"Kernel({self.name!r})"


# -- from a kernel to what can be launched


def _compiled(kernel: Kernel) -> Any:
    """Return numba-cuda's own kernel, compiled and loaded for the current device."""
    # Nothing is linked to it, so it need not go through the link-time optimiser, which would compile it again.
    return cuda.jit(kernel.function, debug=False, opt=True, lto=False).compile(kernel.signature)


def is_compiling() -> bool:
    """Return whether this thread is amid a compilation, which other threads then have to wait for."""
    return bool(global_compiler_lock.is_locked())


def build(kernel: Kernel) -> tuple[Any, str, bytes]:
    """Compile and load a kernel for the current device.

    Returns
    -------
    kernel : cuda.core.Kernel
        What can be launched.
    entry : str
        The name of its entry point.
    code : bytes
        Its machine code, a cubin.
    """
    found = _compiled(kernel)
    library = found._codelibrary
    return library.get_cufunc().kernel, found.entry_name, bytes(library.get_cubin().code)


def compile_ptx(kernel: Kernel, *ccs: tuple[Any, ...], fused: bool = True) -> list[str]:
    """Return a kernel in NVIDIA's assembly language, for each of some compute capabilities; no GPU is needed.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    *ccs : tuple
        Compute capabilities, as (8, 0) or (9, 0, "a").
    fused : bool
        Whether the compiler may make one operation, rounded once, of a product and a sum.  It may in what is launched.
    """
    # Numba asks the current device when it compiles a function that the kernel calls.
    before = _dispatcher.get_current_device
    _dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=ccs[0][:2], id=0)
    try:
        library, _ = _compiler._compile_pyfunc_with_fixup(
            kernel.function, kernel.signature, debug=False, device=False, cc=ccs[0], opt=True, abi="numba"
        )
    finally:
        _dispatcher.get_current_device = before
    if not fused:
        library._nvvm_options["fma"] = False
    return [library.get_asm_str(cc) for cc in ccs]


def python_function(value: Any) -> Any:
    """Return the Python function of one that Numba compiles, of a kind known here, or None."""
    for name in ("py_func", "_defn"):  # of a dispatcher, and of an intrinsic
        value = (
            getattr(value, "__dict__", {}).get(name, value) if type(value).__module__.startswith("numba.") else value
        )
    return value if isinstance(value, FunctionType) else None


_simulating: Final = threading.Lock()  # the simulator runs one kernel at a time


class _Quiet:
    """A kernel's function for the simulator, in which arithmetic overflows without a warning, as on a GPU."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.__globals__ = function.__globals__

    def __call__(self, *args: Any) -> None:
        with np.errstate(all="ignore"):
            self._function(*args)


def _typed(kind: Any, value: Any) -> Any:
    """Return a value as the simulator's kernels get it: a NumPy scalar, or a tuple of them."""
    if isinstance(kind, types.UniTuple):
        return tuple([_typed(kind.dtype, item) for item in value])
    return np.dtype(kind.name if kind != types.boolean else "bool").type(value)


def simulate(kernel: Kernel, grid: int, block: int, args: tuple[Any, ...]) -> None:
    """Run a kernel in the simulator, with one argument for each type of its signature."""
    typed = [_typed(kind, value) for kind, value in zip(kernel.signature, args, strict=True)]
    with _simulating:
        _their_call(FakeCUDAKernel(_Quiet(kernel.function), device=False)[grid, block], *typed)


# -- arguments of the users' kernels


def array_type(dtype: np.dtype[Any], ndim: int, layout: str, *, readonly: bool) -> Any:
    """Return Numba's type of an array argument, or None if it knows no such elements.

    `layout` is 'C', 'F' or 'A'.
    """
    try:
        element = from_dtype(dtype)
    except _errors.NumbaNotImplementedError:
        return None
    return types.Array(element, ndim, layout, readonly=readonly)


def fits(given: Any, contiguous: int, wanted: Any) -> bool:
    """Return whether an array of a type can be passed where a kernel that is compiled has a parameter of another.

    Numba does not look if it was told the one signature that a kernel has.  `contiguous` is as in `View._contiguous`.
    """
    return given is wanted or (
        isinstance(wanted, types.Array)
        and (given.dtype, given.ndim) == (wanted.dtype, wanted.ndim)
        and (wanted.layout == "A" or bool(contiguous & {"C": 1, "F": 2}[wanted.layout]))
        and (given.mutable or not wanted.mutable)
    )


if SIMULATED:

    def argument(a: np.ndarray[Any, Any]) -> Any:
        """Return an array as kernels in the simulator see it, from a NumPy array on its memory."""
        return FakeWithinKernelCUDAArray(FakeCUDAArray(a))

else:

    class _Argument(ArgHint):
        """An array, by the values of its parameters, for where a launch takes nothing simpler."""

        is_contiguous_c, is_contiguous_f = True, False  # asked where strides are empty
        _layout = property(lambda self: self)

        def __init__(self, values: tuple[int, ...]) -> None:
            _, _, self.size, self.itemsize, self.ptr, *dims = values
            n = len(dims) // 2
            self.shape, self.strides_in_bytes = tuple(dims[:n]), tuple(dims[n:])
            self.dtype = self  # of which only the itemsize is asked for

        def to_device(self, *_: Any) -> Any:
            """Return what has the attributes that a launch asks for."""
            return self


def _find(cls: type, kinds: Any, values: Any, found: list[tuple[Any, Any]]) -> bool:
    """List the instances of a class among arguments, with the types of the parameters; return whether tuples have any.

    In the simulator, which has no types, `kinds` is None.
    """
    deep = False
    for i, value in enumerate(values):
        if isinstance(value, cls):
            found.append((value, kinds and kinds[i]))
        elif isinstance(value, tuple):
            n = len(found)
            deep = _find(cls, kinds and tuple(kinds[i]), value, found) or len(found) > n or deep
    return deep


def _put(cls: type, stand: Callable[[Any], Any], values: Any) -> Any:
    """Return a tuple of arguments with what stands for the instances of a class in their place."""
    items = [_put(cls, stand, x) if isinstance(x, tuple) else stand(x) if isinstance(x, cls) else x for x in values]
    return values._make(items) if hasattr(values, "_make") else tuple(items)


@lru_cache(256)
def _config(grid: Any, block: Any, shared: int, cooperative: bool) -> Any:  # noqa: FBT001
    return _LaunchConfig(grid=grid, block=block, shmem_size=shared, is_cooperative=cooperative)


def accept(cls: type, kind_of: Callable[[Any], Any], taking: Callable[[list[tuple[Any, Any]], Any], Any]) -> None:
    """Let the users' kernels take instances of a class, and streams of any library.

    Parameters
    ----------
    cls : type
        The class.
    kind_of : callable
        Returns Numba's type of an instance, or raises an error that tells why it is no argument.
    taking : callable
        Given a list of instances, each with the type of the parameter, and the stream of the launch, it returns a
        context manager around the launch.  That gives a function which returns the parameters that stand for an
        instance: ``(0, 0, size, itemsize, address, *shape, *strides)``, and the number of the GPU, which is current.
        In the simulator the type is None, and the function returns an `argument`.
    """
    if SIMULATED:
        _accept_simulated(cls, taking)
        return

    def launch(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> None:
        found: list[tuple[Any, Any]] = []
        kinds = self.signature.args
        if len(args) != len(kinds):
            msg = f"the kernel takes {len(kinds)} arguments, and {len(args)} were given"
            raise TypeError(msg)
        deep = _find(cls, kinds, args, found)
        if not found:
            _their_launch(self, args, griddim, blockdim, stream, sharedmem)
            return
        if type(stream) is int:
            stream = _their_stream(stream)
        with taking(found, stream) as (values, index):
            if deep or self.debug or self.extensions:
                stand = _put(cls, lambda x: _Argument(values(x)), args)
                _their_launch(self, stand, griddim, blockdim, stream, sharedmem)
                return
            # What follows is what their launch does, but for the detours to what is known of an array already.
            parameters: list[Any] = []
            after: list[Callable[[], object]] = []
            for kind, value in zip(kinds, args, strict=True):
                if isinstance(value, cls):
                    parameters += values(value)
                else:
                    self._prepare_args(kind, value, stream, after, parameters)
            library = self._codelibrary
            loaded = library._cufunc_cache.get(index) or library.get_cufunc()
            config = _config(griddim, blockdim, sharedmem, self.cooperative)
            _dispatcher.launch(stream, config, loaded.kernel, *parameters)
        for write_back in after:
            write_back()

    def to_core_stream(stream: Any) -> Any:
        try:
            return _their_stream(stream)
        except TypeError:
            if not hasattr(stream, "__cuda_stream__"):
                raise
        return _CoreDevice().create_stream(stream)

    typeof_impl.register(cls, lambda value, _: kind_of(value))
    _dispatcher._Kernel.launch = launch
    _driver._to_core_stream = to_core_stream


def _accept_simulated(cls: type, taking: Callable[[list[tuple[Any, Any]], Any], Any]) -> None:
    def call(self: Any, *args: Any) -> None:
        if self._device or isinstance(threading.current_thread(), BlockThread):
            return _their_call(self, *args)  # a function that a kernel calls
        found: list[tuple[Any, Any]] = []
        _find(cls, None, args, found)
        if not found:
            with _simulating:
                return _their_call(self, *args)
        with taking(found, None) as (stand, _), _simulating:
            return _their_call(self, *_put(cls, stand, args))

    FakeCUDAKernel.__call__ = call
