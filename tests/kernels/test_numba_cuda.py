"""The start-up check of numba-cuda, and what kernels are made of."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from nbdlpack.dtypes import NAMES
from nbdlpack.errors import DeviceError
from nbdlpack.native import View
from tests.kernels import harness

REMEDY = r"pip install 'nbdlpack\[cuda\]'"


@pytest.fixture
def numba_cuda(standin):
    """The module, where there is a numba-cuda that passes the check."""
    from nbdlpack.kernels import numba_cuda

    return numba_cuda


@pytest.mark.parametrize("found", ["0.29.0", "0.30.3", "0.31.0", "1.0"])
def test_unsupported_release(numba_cuda, monkeypatch, found):
    monkeypatch.setattr(numba_cuda, "version", lambda name: found)
    message = f"^numba-cuda {found} is installed, which is not supported; .* numba-cuda >=0.30.4,<0.31: {REMEDY}$"
    with pytest.raises(DeviceError, match=message):
        numba_cuda.check()


@pytest.mark.parametrize("found", ["0.30.4", "0.30.5.dev1"])
def test_supported_release(numba_cuda, monkeypatch, found):
    monkeypatch.setattr(numba_cuda, "version", lambda name: found)
    numba_cuda.check()


def test_missing(numba_cuda, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(numba_cuda, "version", missing)
    with pytest.raises(DeviceError, match=f"^numba-cuda is not installed; .*{REMEDY}$"):
        numba_cuda.check()


def test_numbas_own(numba_cuda, monkeypatch):
    """Without numba-cuda's redirection, ``numba.cuda`` is what Numba still ships."""
    monkeypatch.setattr(numba_cuda.cuda, "implementation", "Built-in")
    with pytest.raises(DeviceError, match=f"numba.cuda is Numba's own.*{REMEDY}$"):
        numba_cuda.check()


def run(program):
    """Run a program in a process of its own, where numba-cuda has not been imported."""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_import_without_it(numba_cuda):
    """Importing any module of kernels raises the error, each time; importing the library does not."""
    run("""
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("numba.cuda", "numba_cuda")):
            raise ImportError(f"no module named {name}")

sys.meta_path.insert(0, Block())
import nbdlpack
from nbdlpack.errors import DeviceError
for module in ("numba_cuda", "access", "elementwise", "elementwise"):
    try:
        __import__(f"nbdlpack.kernels.{module}")
    except DeviceError as error:
        assert "cannot be imported (no module named numba.cuda)" in str(error), error
        assert str(error).endswith("pip install 'nbdlpack[cuda]'"), error
    else:
        raise AssertionError
assert float(nbdlpack.ones(3).sum()) == 3
""")


@pytest.mark.skipif(harness.SIMULATED, reason="the simulator does without the name")
def test_a_name_that_has_moved(numba_cuda):
    run("""
import numba.cuda.args
del numba.cuda.args.ArgHint
from nbdlpack.errors import DeviceError
try:
    import nbdlpack.kernels.numba_cuda
except DeviceError as error:
    assert "is installed, but not as expected" in str(error), error
    assert "ArgHint" in str(error), error
else:
    raise AssertionError
""")


@pytest.mark.skipif(harness.SIMULATED, reason="the simulator does without what needs the name")
def test_numpy_without_row_stack(numba_cuda):
    """NumPy 2.5 has dropped a name that numba-cuda asks for when it is imported; NumPy is left as it was found."""
    run("""
import warnings
import numpy as np
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    if hasattr(np, "row_stack"):
        del np.row_stack
assert "row_stack" not in vars(np)
import nbdlpack.kernels.numba_cuda
import numba.cuda.np.arrayobj
assert "row_stack" not in vars(np)
""")


def test_names_of_kernels(numba_cuda):
    kernel = numba_cuda.Kernel("add(f4, f4) 1-d", lambda: None, ())
    assert repr(kernel) == "Kernel('add(f4, f4) 1-d')"
    assert kernel.function.__name__ == "add_f4_f4_1_d"
    assert kernel != numba_cuda.Kernel("add(f4, f4) 1-d", lambda: None, ())


# -- loads and stores


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats(numba_cuda, standin, dtype):
    """Every number of 16 bits, and float32 around them and half way between, bit for bit but for NaN's payload."""
    from nbdlpack.kernels.elementwise import elementwise_kernel

    kind, single = NAMES[dtype], np.dtype(np.float32)
    step = 997 if harness.SIMULATED else 1
    bits = np.arange(0, 1 << 16, step, dtype=np.uint16)

    def cast(x, to):
        out = standin.empty(View, x.shape, to)
        kernel = elementwise_kernel("positive", (x.dtype, to), "1-d")
        y = standin.view(x)
        args = standin.address(out), standin.address(y), x.size, to.itemsize, x.itemsize, 0
        standin.launch(kernel, x.size, *args)
        return standin.to_host(out)

    a = bits.view(kind)
    wide = cast(a, single)
    np.testing.assert_array_equal(wide.view(np.uint32), a.astype(single).view(np.uint32))
    around = wide.view(np.uint32)[:, None] + np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001], np.uint32)
    some = around.reshape(-1).view(single)
    with np.errstate(all="ignore"):
        expected = some.astype(kind)
    found = cast(some, kind)
    nan = np.isnan(some)
    np.testing.assert_array_equal(found.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])
    assert np.isnan(found[nan].astype(single)).all()
    np.testing.assert_array_equal(np.signbit(found[nan]), np.signbit(some[nan]))


def test_odd_rounding(numba_cuda, standin):
    """A float64 becomes a float16 by way of a float32 as if rounded once."""
    rng = np.random.default_rng(1)
    n = 50 if harness.SIMULATED else 5000
    x = np.ldexp(1 + rng.integers(0, 4096, n) / 2048 + 2.0**-40 * rng.integers(-1, 2, n), rng.integers(-26, 18, n))
    x = np.concatenate([x, -x, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 65519.99999999999, 65520, 5e-324]])
    out = standin.empty(View, x.shape, np.dtype(np.float16))
    standin.assign(out, standin.view(x))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(standin.to_host(out).view(np.uint16), x.astype(np.float16).view(np.uint16))
