"""The adapters: of every library that is installed, and what others may write."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance import Adapter, NotAvailable, adapters
from nbdlpack.conformance.adapters import ADAPTERS, find
from nbdlpack.conformance.capsules import Capsule, peek
from nbdlpack.conformance.header import READ_ONLY, VERSION
from nbdlpack.conformance.producers import Producer

DTYPES = (
    *(
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
    ),
    *("complex64", "complex128", "bfloat16", "float8_e5m2"),
)
INSTALLED = [adapter.name for adapter in adapters.installed()]


@pytest.fixture(scope="module", params=[*INSTALLED, "nbdlpack@cuda"])
def adapter(request) -> Adapter:
    if "@" in request.param:
        request.getfixturevalue("_gpus")
        if not nd.is_available("cuda"):
            pytest.skip("there is no GPU, and no driver for the tests")
    (found,) = find([request.param])
    try:
        found.load()
    except NotAvailable as reason:
        pytest.skip(str(reason))
    return found


def sample(adapter: Adapter) -> np.ndarray:
    """Return an array that the library can have, of two dimensions if it can."""
    for a in (np.arange(6.0).reshape(2, 3), np.arange(6.0), np.arange(6, dtype=np.int8)):
        try:
            adapter.from_numpy(a)
        except NotAvailable:
            continue
        return a
    raise AssertionError(adapter.name)


def available(call: Any, *args: Any) -> Any:
    """Return what a method of an adapter gives, or None if it says that the library has no such thing."""
    try:
        return call(*args)
    except NotAvailable:
        return None


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_has_the_values_and_dtype_of_the_numpy_array(adapter, dtype):
    a = sample(adapter).astype(dtype)
    try:
        x = available(adapter.from_numpy, a)
    except NotImplementedError:  # which a check takes for the same
        x = None
    if x is not None:
        b = adapter.to_numpy(x)
        assert b.dtype == a.dtype
        assert np.array_equal(b, a)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1), (2, 3, 4)], ids=str)
def test_an_array_has_the_shape_of_the_numpy_array(adapter, shape):
    a = np.ones(shape, sample(adapter).dtype)
    x = available(adapter.from_numpy, a)
    if x is not None:
        b = adapter.to_numpy(x)
        assert b.shape == shape
        assert (b == 1).all()


def test_an_array_of_any_layout_has_its_values(adapter):
    a = sample(adapter)
    for layout in (a[::-1], a[..., ::2], a.T, np.asfortranarray(a)):
        assert np.array_equal(adapter.to_numpy(adapter.from_numpy(layout)), layout)


def test_an_array_has_memory_of_its_own(adapter):
    a = sample(adapter)
    b = a.copy()
    x = adapter.from_numpy(a)
    a[...] = 9
    assert np.array_equal(adapter.to_numpy(x), b)


def test_writing_sets_every_element_or_is_refused(adapter):
    x = adapter.from_numpy(sample(adapter))
    if adapter.immutable:
        with pytest.raises(TypeError, match="not written to"):
            adapter.write(x, 9)
    else:
        adapter.write(x, 9)
        assert (adapter.to_numpy(x) == 9).all()


def test_a_view_shares_memory(adapter):
    a = sample(adapter)
    for key in (np.s_[1:], np.s_[::2], np.s_[::-1], (np.s_[:],) * a.ndim):
        x = adapter.from_numpy(a)
        try:
            view = adapter.view(x, key)
        except NotAvailable:
            continue
        assert np.array_equal(adapter.to_numpy(view), a[key])
        if not adapter.immutable:
            adapter.write(view, 9)
            assert (adapter.to_numpy(x)[key] == 9).all()


def test_a_transposed_view_shares_memory(adapter):
    a = sample(adapter)
    x = adapter.from_numpy(a)
    view = available(adapter.transpose, x)
    if view is not None:
        assert np.array_equal(adapter.to_numpy(view), a.T)
        adapter.write(view, 9)
        assert (adapter.to_numpy(x) == 9).all()


def test_a_read_only_export_says_so(adapter):
    x = adapter.from_numpy(sample(adapter))
    source = available(adapter.read_only, x)
    if source is not None:
        assert peek(capsule := source.__dlpack__(max_version=VERSION)).flags & READ_ONLY, capsule


def test_a_lazy_copy_is_apart(adapter):
    a = sample(adapter)
    x = adapter.from_numpy(a)
    y = available(adapter.lazy_copy, x)
    if y is not None:
        assert np.array_equal(adapter.to_numpy(y), a)
        adapter.write(y, 9)
        assert np.array_equal(adapter.to_numpy(x), a)
        assert (adapter.to_numpy(y) == 9).all()


def test_reading_does_not_end_the_sharing_of_a_lazy_copy(adapter):
    x = adapter.from_numpy(sample(adapter))
    y = available(adapter.lazy_copy, x)
    if y is not None:
        adapter.to_numpy(x)
        shared = nd.is_shared if isinstance(x, nd.ndarray) else adapter.xp._C._is_cow_tensor
        assert shared(x)
        assert shared(y)


def test_the_function_to_dlpack_exports(adapter):
    capsule = available(adapter.to_dlpack, adapter.from_numpy(sample(adapter)))
    if capsule is not None:
        assert type(capsule) is Capsule
        assert peek(capsule).name == "dltensor"


@pytest.mark.hostcuda_nocheck("live")  # what is placed stays until the process ends
def test_what_others_export_is_imported(adapter):
    if not adapter.consumer:
        return
    a = sample(adapter).astype(np.float32)
    address, keep = adapter.place(a)
    source = Producer(a, address=address, device=adapter.device)
    x = adapter.from_dlpack(source)
    assert np.array_equal(adapter.to_numpy(x), a)
    del x, keep
    adapter.settle()
    source.drop()
    assert source.deleted == len(source.made)


def test_the_options_are_taken(adapter):
    a = sample(adapter)
    x = adapter.from_numpy(a)
    if adapter.consumer and "copy" in adapter.options:
        assert np.array_equal(adapter.to_numpy(adapter.from_dlpack(x, copy=True)), a)
    elif adapter.consumer:
        with pytest.raises(TypeError):
            adapter.from_dlpack(x, copy=True)


@pytest.mark.hostcuda_nocheck("live")  # what is placed stays until the process ends
def test_bare_capsules_are_taken_if_it_says_so(adapter):
    a = sample(adapter)
    address, _keep = adapter.place(a)
    source = Producer(a, address=address, device=adapter.device)
    if adapter.capsules:
        assert np.array_equal(adapter.to_numpy(adapter.from_dlpack(source.capsule(False))), a)
    elif adapter.consumer:
        with pytest.raises((TypeError, AttributeError)):
            adapter.from_dlpack(source.capsule(False))


def test_the_device_is_that_of_its_arrays(adapter):
    assert adapter.from_numpy(sample(adapter)).__dlpack_device__() == adapter.device


def test_the_version_is_that_of_the_library(adapter):
    assert adapter.version()[0].isdigit()
    assert adapter.installed()


# -- the table, and what is found by name


def test_every_row_has_the_name_of_its_class():
    assert all(name == kind.name and kind().name == name for name, kind in ADAPTERS.items())
    assert set(ADAPTERS) >= {"nbdlpack", "numpy", "torch", "jax", "tvm-ffi", "cupy", "pyarrow", "tensorflow", "paddle"}
    assert set(ADAPTERS) >= {"cuda.core", "mlx", "dpctl", "warp", "nanobind", "array-api-strict"}


def test_no_library_is_imported_to_know_which_are_installed():
    program = (
        "import sys; from nbdlpack.conformance import adapters; print([a.name for a in adapters.installed()]); "
        "print({'torch', 'jax', 'tvm_ffi', 'pyarrow', 'cuda', 'cupy', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{INSTALLED}\nset()\n"


def test_adapters_are_found_by_name():
    first, second = find(["numpy", "nbdlpack@cuda"])
    assert (first.name, first.device, first.fork) == ("numpy", (1, 0), True)
    assert (second.name, second.device, second.fork) == ("nbdlpack@cuda", (2, 0), False)


@pytest.mark.parametrize(
    "name", ["nunpy", "", "../x", "@cuda", "no.such:Adapter", "numpy@tpu", "json:Nothing", "json", "json:dumps"]
)
def test_a_name_that_is_none_is_refused_in_words(name):
    with pytest.raises(ValueError, match="json|numpy") as error:
        find([name])
    assert not isinstance(error.value, UnicodeError)


THIRD = """
import numpy as np
from nbdlpack.conformance import Adapter

class Matrix:
    def __init__(self, a): self.a = a
    def __dlpack__(self, **options): return self.a.__dlpack__(**options)
    def __dlpack_device__(self): return (1, 0)

class Third(Adapter):
    name = "third"
    module = "thirds"
    options = frozenset()
    def from_numpy(self, a): return Matrix(a.copy())
    def to_numpy(self, x): return x.a
    def write(self, x, value): x.a[...] = value
    def from_dlpack(self, x): return Matrix(np.from_dlpack(x))
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)

    yield write
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("name", ["thirds", "thirds:Third"])
def test_an_adapter_of_others_is_found_in_their_module(modules, name):
    modules("thirds", THIRD)
    (third,) = find([name])
    third.load()
    x = third.from_dlpack(third.from_numpy(np.arange(3.0)))
    third.write(x, 2)
    assert third.to_numpy(x).tolist() == [2, 2, 2]
    assert third.version() == "unknown"


def test_a_module_with_two_adapters_has_to_say_which(modules):
    modules("fourths", THIRD + "\nclass Other(Third): pass\n")
    with pytest.raises(ValueError, match="name one, as fourths:Third, or call it ADAPTER"):
        find(["fourths"])
    modules("fifths", THIRD + "\nclass Other(Third): name = 'other'\nADAPTER = Other\n")
    assert find(["fifths"])[0].name == "other"


def test_a_module_of_the_standard_needs_no_adapter(modules):
    modules(
        "sixths",
        "from numpy import asarray\ndef from_dlpack(x, /, *, copy=None):\n    return asarray(x)\n__version__ = '6'",
    )
    (adapter,) = find(["sixths"])
    adapter.load()
    assert (adapter.name, adapter.options, adapter.version()) == ("sixths", {"copy"}, "6")
    assert adapter.to_numpy(adapter.from_numpy(np.arange(3))).tolist() == [0, 1, 2]
