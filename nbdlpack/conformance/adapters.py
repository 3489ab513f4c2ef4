"""How to drive a library: one small class for each, and the table of them.

To check another library, write a subclass of `Adapter`.  Most need two or three lines; what a method must do stands in
its docstring here::

    class MyLibrary(Adapter):
        name = "my-library"
        module = "my.library"
        options = frozenset({"copy"})

        def to_numpy(self, x):
            return x.to_host()

It is named on the command line as ``package.module:MyLibrary``, or ``package.module`` if that has no other.  A module
that has `asarray` and `from_dlpack` as the array API standard says needs none.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.metadata
import importlib.util
import inspect
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import numpy as np

from nbdlpack.conformance.capsules import Capsule, peek
from nbdlpack.conformance.header import CPU, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

__all__ = ["ADAPTERS", "Adapter", "NotAvailable", "find", "installed"]


class NotAvailable(Exception):  # noqa: N818 (it is an answer, not an error)
    """Raised by an adapter for what its library does not have; the message says what that is."""


class Adapter:
    """How to make, read, write and import the arrays of a library.

    The checks call nothing of a library but what stands here and DLPack's own methods.

    Parameters
    ----------
    device : str, optional
        One of `devices`; the first if not given.  Reports call the library "name@device" if it is another.

    Attributes
    ----------
    name : str
        What the library is called in reports and on the command line.
    module : str
        The module that is imported, which has `from_dlpack` unless that method is overridden.
    distribution : str
        The installed package that has the version; by default the one that has the module.
    devices : mapping of str to tuple of int
        Where `from_numpy` can put arrays: what the library calls the device, and how DLPack numbers it.
    place_name, device : str, tuple of int
        The one where it does.
    producer, consumer : bool
        Whether the library's arrays export themselves, and whether it imports those of others.
    options : frozenset of str
        Which of the keywords `device` and `copy` its `from_dlpack` takes.
    capsules : bool
        Whether its `from_dlpack` takes bare capsules.
    immutable : bool
        Whether nothing can be written to its arrays.
    borrows : bool
        Whether the arrays that `from_numpy` makes are on memory that NumPy has allocated.
    fork : bool
        Whether a process that has imported the library may be forked.
    """

    name: str
    module: ClassVar[str]
    distribution: ClassVar[str] = ""
    devices: ClassVar[Mapping[str, tuple[int, int]]] = MappingProxyType({"cpu": CPU})
    producer: ClassVar[bool] = True
    consumer: ClassVar[bool] = True
    options: frozenset[str] = frozenset({"device", "copy"})
    capsules: ClassVar[bool] = False
    immutable: ClassVar[bool] = False
    borrows: ClassVar[bool] = False
    fork: bool = True

    def __init__(self, device: str = "") -> None:
        first, *others = self.devices
        if device not in ("", first, *others):
            msg = f"the adapter of {self.name} knows the devices {', '.join(self.devices)}, not {device!r}"
            raise ValueError(msg)
        self.place_name = device or first
        self.device = self.devices[self.place_name]
        if self.place_name != first:
            self.name = f"{self.name}@{self.place_name}"
        if self.device != CPU:
            self.fork = False  # whoever has talked to a GPU must not be forked
        self.xp: Any = None
        """The module, once `load` was called."""

    def installed(self) -> bool:
        """Return whether the library is there, without importing it."""
        return is_installed(self.module)

    def load(self) -> None:
        """Import the library.  Called once, before anything else, in the process that runs the checks.

        It may raise NotAvailable if the library cannot be used here, for want of a GPU, say.
        """
        self.xp = importlib.import_module(self.module)

    def version(self) -> str:
        """Return the version of the library, without importing it."""
        return version_of(self.distribution, self.module.partition(".")[0])

    # -- arrays

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        """Return a new array of the library, with memory of its own, of the values and dtype of a NumPy array."""
        return self.xp.asarray(a.copy())

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        """Return the values of an array of the library, on the same memory or in a copy; it is only read."""
        return np.asarray(x)

    def write(self, x: Any, value: Any) -> None:
        """Set every element of an array of the library to a number; raise an exception if it must not be written to."""
        x[...] = value

    def from_dlpack(self, x: Any, **options: Any) -> Any:
        """Import an object or a capsule, with those of the keywords `device` and `copy` that `options` names."""
        return self.xp.from_dlpack(x, **options)

    def shape(self, x: Any) -> tuple[int, ...]:
        """Return the shape that an array of the library says it has."""
        return tuple(x.shape)

    # -- what not every library has

    def view(self, x: Any, key: Any) -> Any:
        """Return ``x[key]`` as a view, for a key of slices; raise NotAvailable if the library has no views."""
        return x[key]

    def transpose(self, x: Any) -> Any:
        """Return a view with the axes in reverse order."""
        return x.T

    def alter(self, x: Any) -> None:  # noqa: ARG002
        """Give an array of two rows of three another shape or other strides, in place."""
        self.lacks("arrays of which the shape changes")

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return a view of another shape that repeats elements; raise NotAvailable if the library has none."""
        broadcast_to = getattr(self.xp, "broadcast_to", None)
        return self.lacks("broadcast views") if broadcast_to is None else broadcast_to(x, shape)

    def read_only(self, x: Any) -> Any:  # noqa: ARG002
        """Return what exports an array of the library with the flag READ_ONLY: a view of it, or a wrapper."""
        self.lacks("read-only arrays")

    def lazy_copy(self, x: Any) -> Any:  # noqa: ARG002
        """Return a copy of an array that shares its memory until one of the two is written to."""
        self.lacks("lazy copies")

    def to_dlpack(self, x: Any) -> Any:  # noqa: ARG002
        """Return an unversioned capsule by the library's function for that, not by the method of the array."""
        self.lacks("function to_dlpack")

    def unexportable(self, x: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return arrays that `__dlpack__` refuses, made of one that it exports, by what they are."""
        return {}

    def place(self, a: npt.NDArray[Any]) -> tuple[int, Any]:
        """Return the address of a copy of a NumPy array's bytes on the library's device, and what keeps it alive."""
        if self.device == CPU:
            own = a.copy()
            return own.ctypes.data, own
        x = self.from_numpy(np.ascontiguousarray(a).reshape(-1).view(np.uint8))
        capsule = x.__dlpack__()
        return peek(capsule).address, (x, capsule)

    def settle(self) -> None:
        """Let go of what nobody uses: what the library has put off letting go of, too."""
        gc.collect()

    def lacks(self, what: str) -> NoReturn:
        """Raise NotAvailable: the library has no such thing."""
        msg = f"{self.name} has no {what}"
        raise NotAvailable(msg)


# -- what adapters are made of


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing anything: neither it nor the packages it is in."""
    if module in sys.modules:
        return True
    top, *parts = module.split(".")
    if not all(part.isidentifier() for part in (top, *parts)):
        return False
    spec = importlib.util.find_spec(top)
    path = top
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return False
        path = f"{path}.{part}"
        spec = PathFinder.find_spec(path, spec.submodule_search_locations)
    return spec is not None


def version_of(distribution: str, top: str) -> str:
    """Return the version of a distribution, else of the one that has the top-level module, else what that says."""
    names = [distribution] if distribution else [top, *importlib.metadata.packages_distributions().get(top, ())]
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return str(getattr(sys.modules.get(top), "__version__", "unknown"))


DTYPES: Final = {0: "int", 1: "uint", 2: "float", 5: "complex"}
OTHER_DTYPES: Final = {
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}
"""The names of NumPy and ml_dtypes for what DLPack numbers: by the code, with the number of bits behind it; by both."""


def look(x: Any) -> npt.NDArray[Any]:
    """Return a copy of the values that an array in host memory exports, read as the header has it."""
    try:
        capsule = x.__dlpack__(max_version=VERSION)
    except TypeError:  # from before there were versions
        capsule = x.__dlpack__()
    t = peek(capsule)
    code, bits, _ = t.dtype
    dtype = np.dtype(OTHER_DTYPES.get((code, bits)) or f"{DTYPES[code]}{bits}")
    shape = t.shape or ()
    if 0 in shape:
        return np.empty(shape, dtype)
    steps = t.strides
    if steps is None:
        steps = tuple(n // dtype.itemsize for n in np.empty(shape, dtype).strides)
    reach = [(n - 1) * step for n, step in zip(shape, steps, strict=True)]
    low, high = (sum(n for n in reach if (n < 0) is below) * dtype.itemsize for below in (True, False))
    memory = (ctypes.c_char * (high - low + dtype.itemsize)).from_address(t.address + low)
    return np.ndarray(shape, dtype, memory, -low, [n * dtype.itemsize for n in steps]).copy()


def is_foreign(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is one of ml_dtypes, of which other libraries know the bits but not the dtype."""
    return dtype.isbuiltin == 2  # of user-defined types, as NumPy says


def goes_back(key: Any) -> bool:
    """Return whether a key of slices has a negative step."""
    keys = key if isinstance(key, tuple) else (key,)
    return any(isinstance(k, slice) and k.step is not None and k.step < 0 for k in keys)


def bits_of(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a copy of an array as integers of its item size."""
    return a.copy().view(f"i{a.itemsize}")


CUDA: Final = {"cuda": (2, 0), "cuda:1": (2, 1)}
HOST_OR_CUDA: Final = MappingProxyType({"cpu": CPU, **CUDA})


class Values(Adapter):
    """A library whose arrays are values: nothing can be written to them, so there is no use for views."""

    immutable = True

    def write(self, x: Any, value: Any) -> None:  # noqa: ARG002
        """Refuse."""
        msg = f"arrays of {self.name} are not written to"
        raise TypeError(msg)

    def view(self, x: Any, key: Any) -> Any:  # noqa: ARG002
        """Say that there are none."""
        self.lacks("views")

    def transpose(self, x: Any) -> Any:  # noqa: ARG002
        """Say that there are none."""
        self.lacks("views")


# -- the libraries


class Nbdlpack(Adapter):
    """The library that the kit is a part of, on any of its devices."""

    name = "nbdlpack"
    module = "nbdlpack"
    devices = HOST_OR_CUDA
    capsules = True

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        return self.xp.array(a, device=self.place_name)

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        return np.array(self.xp.readonly(x))  # as NumPy asks for what may be written to, which would end the sharing

    def read_only(self, x: Any) -> Any:
        return self.xp.readonly(x)

    def lazy_copy(self, x: Any) -> Any:
        return x.copy()

    def to_dlpack(self, x: Any) -> Any:
        return self.xp.dlpack.to_dlpack(x)

    def place(self, a: npt.NDArray[Any]) -> tuple[int, Any]:
        if self.device == CPU:
            return super().place(a)
        # Memory of its own would be recognised when it comes home, so this is the driver's, as long as the
        # process: a test producer may be gone before what was made of it.
        importlib.import_module("cuda.core").Device(self.device[1]).set_current()
        cu = importlib.import_module("cuda.bindings.driver")
        error, address = cu.cuMemAlloc(max(a.nbytes, 1))
        if error or (a.nbytes and cu.cuMemcpyHtoD(address, np.ascontiguousarray(a).ctypes.data, a.nbytes)[0]):
            self.lacks("memory left on the GPU")
        return int(address), None

    def settle(self) -> None:
        gc.collect()
        self.xp.empty(1, device=self.place_name)  # the next allocation does what deleters could not
        self.xp.synchronize(self.place_name)
        self.xp.release_cached_memory(self.place_name)


class Numpy(Adapter):
    """NumPy, about which there is almost nothing to say."""

    name = "numpy"
    module = "numpy"

    def alter(self, x: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of doing so
            x.shape = x.shape[::-1]

    def unexportable(self, x: Any) -> dict[str, Any]:
        records = self.xp.zeros(4, [("mark", "i1"), ("number", x.dtype)])
        records["number"] = [1, 2, 3, 4]
        return {f"a field of records of {records.itemsize} bytes": records["number"]}

    def read_only(self, x: Any) -> Any:
        view = x.view()
        view.flags.writeable = False
        return view


class ArrayApiStrict(Adapter):
    """The strict implementation of the standard, which is NumPy's underneath."""

    name = "array-api-strict"
    module = "array_api_strict"
    distribution = "array-api-strict"
    borrows = True

    def view(self, x: Any, key: Any) -> Any:
        return x[(*key, ...) if isinstance(key, tuple) else (key, ...)]

    def transpose(self, x: Any) -> Any:
        return self.xp.permute_dims(x, tuple(reversed(range(x.ndim))))


class Torch(Adapter):
    """PyTorch: read-only wrappers since 2.14, lazy copies by a function that is not public."""

    name = "torch"
    module = "torch"
    devices = HOST_OR_CUDA
    capsules = True

    def load(self) -> None:
        super().load()
        if self.device != CPU and not self.xp.cuda.is_available():
            self.lacks("GPU here")

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if is_foreign(a.dtype):
            kind = getattr(self.xp, a.dtype.name, None)
            if kind is None:
                self.lacks(f"dtype {a.dtype.name}")
            x = self.xp.tensor(bits_of(a)).view(kind)
        else:
            x = self.xp.tensor(a.copy())  # which copies again: only memory of its own can be copied lazily
        return x if self.device == CPU else x.to(self.place_name)

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        x = x.detach().clone().cpu()  # since numpy() is an access for writing, which ends the sharing
        dtype = np.dtype(str(x.dtype).removeprefix("torch."))
        if is_foreign(dtype):
            bits: npt.NDArray[Any] = x.view(getattr(self.xp, f"int{8 * dtype.itemsize}")).numpy()
            return bits.view(dtype)
        values: npt.NDArray[Any] = x.numpy()
        return values

    def view(self, x: Any, key: Any) -> Any:
        return self.lacks("negative strides") if goes_back(key) else x[key]

    def transpose(self, x: Any) -> Any:
        return x.permute(*reversed(range(x.ndim)))

    def alter(self, x: Any) -> None:
        x.t_()

    def read_only(self, x: Any) -> Any:
        wrapper = getattr(self.xp.utils.dlpack, "ReadOnlyTensorWrapper", None)
        return self.lacks("read-only exports") if wrapper is None else wrapper(x)

    def lazy_copy(self, x: Any) -> Any:
        clone = getattr(self.xp, "_lazy_clone", None)
        return self.lacks("lazy copies") if clone is None else clone(x)

    def to_dlpack(self, x: Any) -> Any:
        return self.xp.utils.dlpack.to_dlpack(x)

    def unexportable(self, x: Any) -> dict[str, Any]:
        return {
            "a tensor with the conjugate bit set": (x + 1j).conj(),
            "a tensor with the negative bit set": (x + 1j).conj().imag,
        }


class Jax(Values):
    """JAX, with 64-bit numbers."""

    name = "jax"
    module = "jax.numpy"
    devices = HOST_OR_CUDA
    fork = False  # it has threads

    def load(self) -> None:
        super().load()
        jax = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        kind, _, index = self.place_name.partition(":")
        try:
            self.where = jax.devices(kind)[int(index or 0)]
        except (RuntimeError, IndexError):
            self.lacks(f"device {self.place_name} here")

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        return self.xp.array(a, device=self.where).block_until_ready()


class TvmFfi(Adapter):
    """TVM FFI, whose tensors are for passing on: they are made of NumPy's arrays, and read and written as such."""

    name = "tvm-ffi"
    module = "tvm_ffi"
    distribution = "apache-tvm-ffi"
    options = frozenset()
    capsules = True
    borrows = True

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        try:
            return self.xp.from_dlpack(a.copy())
        except BufferError as error:
            raise NotAvailable(str(error)) from error

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        return look(x)

    def write(self, x: Any, value: Any) -> None:
        np.from_dlpack(x)[...] = value

    def view(self, x: Any, key: Any) -> Any:  # noqa: ARG002
        self.lacks("views")

    def transpose(self, x: Any) -> Any:  # noqa: ARG002
        self.lacks("views")


class Cupy(Adapter):
    """CuPy, where there is a GPU."""

    name = "cupy"
    module = "cupy"
    devices = MappingProxyType(CUDA)
    options = frozenset({"copy"})
    capsules = True

    def load(self) -> None:
        super().load()
        if not self.xp.cuda.is_available():
            self.lacks("GPU here")

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        with self.xp.cuda.Device(self.device[1]):
            x = self.xp.array(a)
        self.xp.cuda.get_current_stream().synchronize()
        return x

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = self.xp.asnumpy(x)
        return values

    def to_dlpack(self, x: Any) -> Any:
        old = getattr(x, "toDlpack", None)
        return self.lacks("function to_dlpack") if old is None else old()

    def settle(self) -> None:
        gc.collect()
        self.xp.cuda.Device().synchronize()
        self.xp.get_default_memory_pool().free_all_blocks()


class PyarrowTensor(Adapter):
    """Arrow's Tensor, which exports and imports."""

    name = "pyarrow"
    module = "pyarrow"
    borrows = True

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if a.dtype == bool:
            self.lacks("tensors of bool")
        return self.xp.Tensor.from_numpy(a.copy())

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = x.to_numpy()
        return values

    def write(self, x: Any, value: Any) -> None:
        if not x.is_mutable:
            msg = "the tensor is not mutable"
            raise TypeError(msg)
        x.to_numpy()[...] = value

    def from_dlpack(self, x: Any, **options: Any) -> Any:
        return self.xp.Tensor.from_dlpack(x, **options)

    def view(self, x: Any, key: Any) -> Any:
        return self.lacks("negative strides") if goes_back(key) else self.xp.Tensor.from_numpy(x.to_numpy()[key])

    def transpose(self, x: Any) -> Any:
        return self.xp.Tensor.from_numpy(x.to_numpy().T)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self.xp.Tensor.from_numpy(np.broadcast_to(x.to_numpy(), shape))

    def unexportable(self, x: Any) -> dict[str, Any]:
        records = np.zeros(4, [("mark", "i1"), ("number", x.to_numpy().dtype)])
        records["number"] = [1, 2, 3, 4]
        return {f"a field of records of {records.itemsize} bytes": self.xp.Tensor.from_numpy(records["number"])}

    def read_only(self, x: Any) -> Any:
        view = x.to_numpy().view()
        view.flags.writeable = False
        return self.xp.Tensor.from_numpy(view)


class PyarrowArray(Values):
    """Arrow's Array, which has one dimension and only exports."""

    name = "pyarrow-array"
    module = "pyarrow"
    consumer = False
    borrows = True

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if a.ndim != 1:
            self.lacks("arrays but those of one dimension")
        if a.dtype.kind not in "iufb":
            self.lacks(f"arrays of {a.dtype}")
        return self.xp.array(a.copy())

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = x.to_numpy(zero_copy_only=False)
        return values

    def view(self, x: Any, key: Any) -> Any:
        if isinstance(key, slice) and key.step in (None, 1):
            return x[key]
        return self.lacks("strides")

    def read_only(self, x: Any) -> Any:
        return x  # every one is

    def unexportable(self, x: Any) -> dict[str, Any]:  # noqa: ARG002
        missing = self.xp.array([1.0, None, 3.0])
        return {"an array with a value that is missing": missing, "an array of strings": self.xp.array(["one"])}


class Tensorflow(Values):
    """TensorFlow, which imports bare capsules of the old kind alone, by a function of its own."""

    name = "tensorflow"
    module = "tensorflow"
    options = frozenset()
    capsules = True
    fork = False  # it has threads

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        with self.xp.device("CPU:0"):
            return self.xp.constant(a.copy())

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = x.numpy()
        return values

    def from_dlpack(self, x: Any, **options: Any) -> Any:
        capsule = x if type(x) is Capsule else x.__dlpack__()
        return self.xp.experimental.dlpack.from_dlpack(capsule, **options)

    def to_dlpack(self, x: Any) -> Any:
        return self.xp.experimental.dlpack.to_dlpack(x)


class Paddle(Adapter):
    """PaddlePaddle."""

    name = "paddle"
    module = "paddle"
    capsules = True

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if is_foreign(a.dtype):
            if not hasattr(self.xp, a.dtype.name):
                self.lacks(f"dtype {a.dtype.name}")
            return self.xp.to_tensor(bits_of(a), place=self.xp.CPUPlace()).view(a.dtype.name)
        if a.dtype == np.uint16:
            self.lacks("uint16, but for bfloat16")
        return self.xp.to_tensor(a.copy(), place=self.xp.CPUPlace())

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        return look(x)

    def write(self, x: Any, value: Any) -> None:
        x.fill_(value)

    def view(self, x: Any, key: Any) -> Any:
        return self.lacks("negative strides") if goes_back(key) else x[key]

    def transpose(self, x: Any) -> Any:
        return x.transpose(list(reversed(range(x.ndim)))) if x.ndim else x

    def to_dlpack(self, x: Any) -> Any:
        return self.xp.utils.dlpack.to_dlpack(x)


class CudaCore(Adapter):
    """cuda.core's StridedMemoryView, which takes what others export and exports it again."""

    name = "cuda.core"
    module = "cuda.core"
    distribution = "cuda-core"
    options = frozenset()
    borrows = True

    def load(self) -> None:
        self.xp = importlib.import_module("cuda.core.utils")

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if is_foreign(a.dtype):
            self.lacks(f"arrays of {a.dtype}")
        return self.from_dlpack(a.copy())

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        return look(x)

    def write(self, x: Any, value: Any) -> None:
        if x.readonly:
            msg = "the view is read-only"
            raise TypeError(msg)
        np.from_dlpack(x)[...] = value

    def from_dlpack(self, x: Any, **options: Any) -> Any:
        return self.xp.StridedMemoryView.from_dlpack(x, stream_ptr=-1, **options)

    def view(self, x: Any, key: Any) -> Any:
        return self.from_dlpack(np.from_dlpack(x)[key])

    def transpose(self, x: Any) -> Any:
        return self.from_dlpack(np.from_dlpack(x).T)

    def read_only(self, x: Any) -> Any:
        view = np.from_dlpack(x).view()
        view.flags.writeable = False
        return self.from_dlpack(view)


class CudaCoreBuffer(Values):
    """cuda.core's Buffer, which is bytes and only exports; here of a memory resource of the host."""

    name = "cuda.core-buffer"
    module = "cuda.core"
    distribution = "cuda-core"
    consumer = False
    immutable = False
    borrows = True

    def load(self) -> None:
        super().load()
        buffer = self.xp.Buffer

        class Host(self.xp.MemoryResource):  # type: ignore[misc, name-defined]
            is_device_accessible, is_host_accessible, device_id = False, True, -1

            def __init__(self) -> None:
                self.blocks: dict[int, Any] = {}

            def allocate(self, size: int, *, stream: Any = None) -> Any:  # noqa: ARG002
                block = np.empty(size, np.int8)
                self.blocks[block.ctypes.data] = block
                return buffer.from_handle(block.ctypes.data, size, self)

            def deallocate(self, ptr: int, size: int, *, stream: Any = None) -> None:  # noqa: ARG002
                del self.blocks[int(ptr)]

        self.host = Host()

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if a.dtype != np.int8 or a.ndim != 1 or not a.size:
            self.lacks("arrays but rows of int8")
        x = self.host.allocate(a.size)
        np.from_dlpack(x)[...] = a
        return x

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        return look(x)

    def write(self, x: Any, value: Any) -> None:
        np.from_dlpack(x)[...] = value


class Mlx(Values):
    """MLX on the CPU.  What looks like writing to an array gives it other memory."""

    name = "mlx"
    module = "mlx.core"
    options = frozenset({"copy"})
    fork = False  # it has threads

    def load(self) -> None:
        super().load()
        self.xp.set_default_device(self.xp.cpu)

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if is_foreign(a.dtype):
            self.lacks(f"arrays of {a.dtype} from NumPy's")
        kind = "bool_" if a.dtype == bool else a.dtype.name
        if not hasattr(self.xp, kind):
            self.lacks(f"dtype {kind}")
        x = self.xp.array(a.copy(), dtype=getattr(self.xp, kind))
        self.xp.eval(x)
        return x

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        return np.array(x)

    def from_dlpack(self, x: Any, **options: Any) -> Any:
        take = getattr(self.xp, "from_dlpack", self.xp.array)  # before 0.32 only the latter
        y = take(x, **options)
        self.xp.eval(y)
        return y


class Dpnp(Adapter):
    """Intel's arrays, on the device that SYCL chooses."""

    name = "dpnp"
    module = "dpnp"
    devices: ClassVar[Mapping[str, tuple[int, int]]] = MappingProxyType({"default": (14, 0)})

    def load(self) -> None:
        super().load()
        try:
            self.device = tuple(map(int, self.from_numpy(np.zeros(1, np.int8)).__dlpack_device__()))  # type: ignore[assignment]
        except Exception as error:
            msg = f"{self.name} has no device here: {error}"
            raise NotAvailable(msg) from error

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = self.xp.asnumpy(x)
        return values

    def settle(self) -> None:
        gc.collect()


class Dpctl(Dpnp):
    """The same arrays as dpctl had them, up to 0.21."""

    name = "dpctl"
    module = "dpctl.tensor"


class Warp(Adapter):
    """Warp: one function that imports, unversioned exports."""

    name = "warp"
    module = "warp"
    distribution = "warp-lang"
    devices = HOST_OR_CUDA
    options = frozenset()
    capsules = True

    def load(self) -> None:
        super().load()
        self.xp.config.quiet, self.xp.config.log_level = True, 40  # not a word on starting, in any release
        self.xp.init()
        if self.device != CPU and not self.xp.is_cuda_available():
            self.lacks("GPU here")

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if a.ndim == 0:
            self.lacks("arrays of no dimension")
        if is_foreign(a.dtype) or a.dtype.kind == "c":
            self.lacks(f"dtype {a.dtype.name}")
        return self.xp.array(a.copy(), dtype=self.xp.dtype_from_numpy(a.dtype), device=self.place_name, copy=True)

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = x.numpy()
        return values

    def write(self, x: Any, value: Any) -> None:
        x.fill_(value)

    def view(self, x: Any, key: Any) -> Any:
        return self.lacks("negative strides") if goes_back(key) else x[key]

    def transpose(self, x: Any) -> Any:
        return x.transpose()

    def to_dlpack(self, x: Any) -> Any:
        return self.xp.to_dlpack(x)


NANOBIND_SOURCE: Final = r"""
#include <memory>
#include <vector>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
namespace nb = nanobind;

// What was taken is held by the array that is returned, and let go of with it.
template <typename Taken, typename Given> nb::object pass_on(const Taken &taken) {
    auto held = std::make_unique<Taken>(taken);
    nb::capsule owner(held.get(), [](void *p) noexcept { delete (Taken *) p; });
    Taken &a = *held.release();
    std::vector<size_t> shape(a.ndim());
    std::vector<int64_t> strides(a.ndim());
    for (size_t i = 0; i < a.ndim(); ++i) {
        shape[i] = a.shape(i);
        strides[i] = a.stride(i);
    }
    Given given(a.data(), a.ndim(), shape.data(), owner, strides.data(), a.dtype(), a.device_type(), a.device_id());
    return nb::cast(given, nb::rv_policy::reference);
}

NB_MODULE(nbdlpack_nanobind, m) {
    m.def("from_dlpack", [](nb::object x) {
        nb::ndarray<> writable;
        nb::ndarray<nb::ro> any;
        if (nb::try_cast(x, writable, false))
            return pass_on<nb::ndarray<>, nb::ndarray<nb::array_api>>(writable);
        if (nb::try_cast(x, any, false))
            return pass_on<nb::ndarray<nb::ro>, nb::ndarray<nb::ro, nb::array_api>>(any);
        throw nb::buffer_error("nanobind makes no ndarray of it");
    });
}
"""


class Nanobind(Adapter):
    """Arrays of extension modules that are written with nanobind: of one that takes arrays and hands them back.

    The module is compiled when it is loaded, which takes a C++ compiler and some seconds.
    """

    name = "nanobind"
    module = "nanobind"
    options = frozenset()
    capsules = True
    borrows = True

    def installed(self) -> bool:
        return super().installed() and shutil.which("c++") is not None

    def load(self) -> None:
        package = importlib.import_module("nanobind")
        source, include = Path(package.source_dir()), Path(package.include_dir())
        robin_map = source.parent / "ext" / "robin_map" / "include"
        with tempfile.TemporaryDirectory(prefix="nbdlpack-nanobind-") as name:
            file, built = Path(name, "module.cpp"), Path(name, "nbdlpack_nanobind.so")
            file.write_text(NANOBIND_SOURCE)
            folders = [include, robin_map, sysconfig.get_path("include")]
            command = ["c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing"]
            command += [
                *[f"-I{folder}" for folder in folders],
                str(file),
                f"{source}/nb_combined.cpp",
                "-o",
                str(built),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                msg = f"the module for nanobind does not compile here: {done.stderr.strip()[-400:]}"
                raise NotAvailable(msg)
            loader = ExtensionFileLoader("nbdlpack_nanobind", str(built))
            self.xp = importlib.util.module_from_spec(ModuleSpec(loader.name, loader, origin=str(built)))
            loader.exec_module(self.xp)

    def from_numpy(self, a: npt.NDArray[Any]) -> Any:
        if is_foreign(a.dtype):
            self.lacks(f"arrays of {a.dtype} from NumPy's")
        return self.from_dlpack(a.copy())

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        return look(x)

    def write(self, x: Any, value: Any) -> None:
        np.from_dlpack(x)[...] = value

    def view(self, x: Any, key: Any) -> Any:
        return self.from_dlpack(np.from_dlpack(x)[key])

    def transpose(self, x: Any) -> Any:
        return self.from_dlpack(np.from_dlpack(x).T)

    def read_only(self, x: Any) -> Any:
        view = np.from_dlpack(x).view()
        view.flags.writeable = False
        return self.from_dlpack(view)


ADAPTERS: Final[dict[str, type[Adapter]]] = {
    kind.name: kind
    for kind in (
        Nbdlpack,
        Numpy,
        ArrayApiStrict,
        Torch,
        Jax,
        TvmFfi,
        Cupy,
        PyarrowTensor,
        PyarrowArray,
        Tensorflow,
        Paddle,
        CudaCore,
        CudaCoreBuffer,
        Mlx,
        Dpctl,
        Dpnp,
        Warp,
        Nanobind,
    )
}
"""The libraries there are adapters for, by name."""


# -- which are used


class ArrayApiModule(Adapter):
    """A module with `asarray` and `from_dlpack` as the array API standard says: see `find`."""

    def load(self) -> None:
        super().load()
        try:
            keywords = inspect.signature(self.xp.from_dlpack).parameters
        except ValueError:  # it does not say, so it is to have both
            return
        self.options = frozenset(name for name in ("device", "copy") if name in keywords)


def find(names: Iterable[str]) -> list[Adapter]:
    """Return the adapters of libraries, which are yet to be loaded.

    Parameters
    ----------
    names : iterable of str
        Each is a key of `ADAPTERS`, or ``package.module:ClassName`` with a subclass of `Adapter`, or
        ``package.module``, which has an attribute ``ADAPTER``, or one such class, or else `asarray` and `from_dlpack`.
        "@" and one of the adapter's `devices` may follow.

    Returns
    -------
    list of Adapter
        In the order of the names.

    Raises
    ------
    ValueError
        If there is no such adapter.
    """
    found = []
    for name in names:
        library, _, device = name.partition("@")
        found.append((ADAPTERS.get(library) or _elsewhere(library))(device))
    return found


def installed() -> list[Adapter]:
    """Return the adapters in the table of the libraries that are installed."""
    adapters = [kind() for kind in ADAPTERS.values()]
    return [adapter for adapter in adapters if adapter.installed()]


def _elsewhere(name: str) -> type[Adapter]:
    """Return the adapter that a module has."""
    path, _, attribute = name.partition(":")
    if not is_installed(path):
        msg = (
            f"there is no adapter and no module {name!r}: name one of {', '.join(ADAPTERS)}, or your own as "
            "package.module:ClassName"
        )
        raise ValueError(msg)
    module = importlib.import_module(path)
    kind = getattr(module, attribute or "ADAPTER", None)
    if kind is None and not attribute:
        kinds = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Adapter) and value.__module__ == path
        ]
        if len(kinds) > 1:
            msg = f"{path} has several adapters: name one, as {path}:{kinds[0].__name__}, or call it ADAPTER"
            raise ValueError(msg)
        if kinds:
            return kinds[0]
        if hasattr(module, "from_dlpack") and hasattr(module, "asarray"):
            return type(path, (ArrayApiModule,), {"name": path, "module": path})
        msg = f"{path} has no subclass of nbdlpack.conformance.Adapter, and not both from_dlpack and asarray"
        raise ValueError(msg)
    if kind is None:
        msg = f"{path} has no {attribute}"
        raise ValueError(msg)
    if not (isinstance(kind, type) and issubclass(kind, Adapter)):
        msg = f"{name} is {kind!r}, not a subclass of nbdlpack.conformance.Adapter"
        raise ValueError(msg)  # noqa: TRY004 (it is the name that is wrong)
    missing = [word for word in ("name", "module") if not hasattr(kind, word)]
    if missing:
        msg = f"the adapter {name} does not say its {' and '.join(missing)}: see nbdlpack.conformance.Adapter"
        raise ValueError(msg)
    return kind
