# Calls that the annotations of NumPy, or our own, do not allow are part of what is tested.
# mypy: disable-error-code="arg-type"
"""Devices: values, defaults, and what each must be able to do."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import devices, native
from nbdlpack.conformance.producers import Tensor
from nbdlpack.devices import base
from tests.arrays import DTYPES, assert_same, values
from tests.pretend import Pretend


def test_values():
    cpu = nd.Device("cpu")
    assert cpu is nd.Device(cpu)
    assert cpu == "cpu"
    assert cpu != "cuda"
    assert cpu != 3
    assert len({cpu, nd.zeros(1).device, "cpu"}) == 1
    assert (str(cpu), repr(cpu), cpu.index, cpu.kind, cpu.dlpack) == ("cpu", "Device('cpu')", 0, "cpu", (1, 0))
    assert isinstance(cpu, nd.Device)
    assert nd.zeros(1).__dlpack_device__() == cpu.dlpack


def test_unknown_devices():
    with pytest.raises(ValueError, match="there is no device named 'tape', only: cpu"):
        nd.Device("tape")
    with pytest.raises(TypeError, match="must be a Device or its name as a str"):
        nd.zeros(3, device=1)
    with pytest.raises(TypeError, match="must be a Device or its name as a str"):
        nd.zeros(3, device=["cpu"])


def test_default(device):
    assert nd.get_default_device() is device
    assert nd.empty(1).device is device
    for function in (nd.zeros, nd.ones, nd.empty, nd.arange, nd.eye):
        assert function(2, device=device).device is device
    nd.set_default_device(device)
    nd.set_default_device(None)
    with pytest.raises(ValueError, match="no device"):
        nd.set_default_device("tape")
    with pytest.raises(ValueError, match="no device"):
        nd.device("tape")


class Tape(base.Device):
    """A device that only has a name."""

    __slots__ = ()
    kind = "tape"

    def __new__(cls):
        self = object.__new__(cls)
        self._name, self._dlpack = "tape", (12, 0)
        return self


@pytest.fixture
def tape(monkeypatch):
    tape = Tape()
    monkeypatch.setitem(base._named, "tape", tape)
    return tape


def test_scopes(tape):
    assert nd.get_default_device() == "cpu"
    with nd.device("tape") as outer:
        assert outer is tape is nd.get_default_device()
        with nd.device("cpu"):
            assert nd.get_default_device() == "cpu"
            found = []
            thread = threading.Thread(target=lambda: found.append(nd.get_default_device()))
            nd.set_default_device(tape)
            thread.start()
            thread.join()
            assert found == [tape], "a context is a thread's own, the default is all threads'"
            assert nd.get_default_device() == "cpu"
            nd.set_default_device(None)
        assert nd.get_default_device() is tape
        with pytest.raises(NotImplementedError):
            nd.zeros(3)
    assert nd.get_default_device() == "cpu"


def test_the_contract_is_what_a_device_may_leave_out():
    methods = {name for name, value in vars(base.Device).items() if callable(value) and not name.startswith("_")}
    assert not {name for name in methods if getattr(Tape, name) is not getattr(base.Device, name)}
    must = {name for name in methods if "raise NotImplementedError" in inspect.getsource(getattr(base.Device, name))}
    assert {"empty", "elementwise", "synchronize"} <= must
    assert not {name for name in must if getattr(type(devices.host), name) is getattr(base.Device, name)}


@pytest.mark.parametrize(
    ("name", "expected"), [("cpu", "cpu"), ("", "cpu"), ("tape", "there is no device named 'tape'")]
)
def test_environment(name, expected):
    code = "import nbdlpack as nd\ntry: print(nd.get_default_device())\nexcept ValueError as e: print(e)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NBDLPACK_DEVICE": name},
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in run.stdout
    assert ("NBDLPACK_DEVICE" in run.stdout) == (name == "tape")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_contract(device, dtype):
    """What a device does, on arrays that were made with nothing but it."""
    a = values(dtype)
    x = device.from_host(nd.ndarray, a)
    assert_same(x, a)
    assert np.array_equal(device.to_host(x), a)
    y = device.empty(nd.ndarray, (4, 6), x.dtype)
    device.assign(y, x)
    assert_same(y, a)
    device.assign(y, 1)
    assert_same(y, np.ones_like(a))
    assert_same(device.empty(nd.ndarray, (2,), x.dtype, zeros=True), np.zeros(2, dtype))
    computed = device.kind == "cpu" or not dtype.name.startswith("float8")
    if computed:
        device.elementwise(np.add, (x, x), (y,), {})
        assert_same(y, np.add(a, a))
    else:
        with pytest.raises(TypeError, match="does not compute 'add' in float8.*to_device"):
            device.elementwise(np.add, (x, x), (y,), {})
    assert_same(device.gather(nd.ndarray, x, [1, 0]), a[[1, 0]])
    device.scatter(y, [0], x[1])
    assert_same(y[0], a[1])
    out = device.empty(nd.ndarray, (6,), x.dtype)
    if x.dtype.kind != "c" and computed:
        device.reduce("max", x, out, (0,), {})
        assert_same(out, a.max(0))
    device.synchronize()
    nd.synchronize(device)


# -- a second device: what stands above the devices knows none of them by name


@pytest.fixture
def pretend():
    device = Pretend()
    base.register(device)
    yield device
    del base._named["pretend"], base._placed[device.place]
    native.importable[device.dlpack[0]] = 0


def test_operands_on_several_devices(pretend):
    x, y = nd.zeros(2), nd.zeros(2, device=pretend)
    assert np.add(x, x).tolist() == [0, 0]  # so that its result's dtype is known
    for operands in ((x, y), (x, 1, y), (x, y[0])):
        with pytest.raises(
            nd.errors.DeviceError, match=r"on devices cpu and pretend: bring them together, x\.to_device"
        ):
            nd.where(*operands) if len(operands) > 2 else np.add(*operands)


def written(change):
    """Return a function that makes a change of an array in place and returns it."""

    def function(x):
        change(x)
        return x

    return function


ON_ONE_DEVICE = {
    "binary": lambda x: x + x,
    "comparison": lambda x: x < x[::-1],
    "scalar": lambda x: x * 2,
    "scalar again": lambda x: [x * 2, x * 2][1],  # the second time result types are known
    "unary": lambda x: [-x, -x][1],
    "power": lambda x: x**2,
    "in place": written(lambda x: x.__iadd__(x)),
    "in place, by a scalar": written(lambda x: x.__imul__(2)),
    "function": lambda x: nd.sqrt(x),
    "out": lambda x: nd.add(x, 1, out=nd.empty_like(x)),
    "where": lambda x: nd.add(x, 1, out=x, where=x > 2),
    "matmul": lambda x: x @ x.T,
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "argmax": lambda x: x.argmax(1),
    "ufunc.reduce": lambda x: np.multiply.reduce(x),
    "ufunc.at": written(lambda x: np.add.at(x, ([0, 0], [1, 1]), 1)),
    "slice": lambda x: x[:, ::-2],
    "gather": lambda x: x[[1, 0, 1]],
    "mask": lambda x: x[x > 1],
    "set": written(lambda x: x.__setitem__((slice(None), 1), 7)),
    "set part of a mask": written(lambda x: x.__setitem__(x > 2, 0)),
    "fill": written(lambda x: x.fill(3)),
    "copy": lambda x: x.copy(),
    "copy in another order": lambda x: x.copy("F"),
    "reshape by a copy": lambda x: x.T.reshape(-1),
    "astype": lambda x: x.astype(nd.float32),
    "like": lambda x: nd.ones_like(x),
    "concat": lambda x: nd.concat([x, x]),
    "imag": lambda x: x.imag,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "pickle of Fortran's order": lambda x: pickle.loads(pickle.dumps(x.T)),
    "deepcopy": copy.deepcopy,
    "from_dlpack": lambda x: nd.from_dlpack(x),
    "from_dlpack of a capsule": lambda x: nd.from_dlpack(x.__dlpack__()),
    "from_dlpack with a copy": lambda x: nd.from_dlpack(x, copy=True),
    "read-only": lambda x: nd.from_dlpack(nd.dlpack.ReadOnlyTensorWrapper(x)),
}


@pytest.mark.parametrize("case", ON_ONE_DEVICE)
def test_every_operation_stays_on_the_device(pretend, case):
    a = np.arange(6.0).reshape(2, 3)
    function = ON_ONE_DEVICE[case]
    found = function(nd.asarray(a, device=pretend, copy=True))
    assert found.device is pretend
    assert_same(found, function(nd.asarray(a, copy=True)).to_device("cpu"))


def test_arrays_are_made_on_the_device(pretend):
    with nd.device(pretend):
        for x in (nd.zeros(3), nd.arange(3), nd.eye(2), nd.linspace(0, 1, 3), nd.full(2, 7), nd.array([1, 2])):
            assert x.device is pretend
            assert repr(x).endswith(", device='pretend')")


def test_between_devices(pretend):
    x = nd.arange(6).reshape(2, 3)
    y = x.to_device("pretend")
    assert y.device is pretend
    for back in (y.to_device("cpu"), nd.from_dlpack(y, device="cpu"), nd.from_dlpack(y.__dlpack__(dl_device=(1, 0)))):
        assert back.device == "cpu"
        assert_same(back, x.to_device("cpu"))
    assert nd.from_dlpack(x, device=pretend).device is pretend
    with pytest.raises(BufferError, match="without a copy"):
        nd.from_dlpack(y, device="cpu", copy=False)
    with pytest.raises(BufferError, match="cannot be exported to"):
        y.__dlpack__(dl_device=(1, 0), copy=False)
    for operate in (lambda: x + y, lambda: x.__iadd__(y), lambda: y.__iadd__(x)):
        with pytest.raises(nd.errors.DeviceError, match="bring them together"):
            operate()
    with pytest.raises(BufferError, match="not in host memory"):
        np.asarray(y)
    with pytest.raises(BufferError, match="not in host memory"):
        memoryview(y)


def test_host_memory_is_the_cpus_whatever_its_number():
    x = nd.from_dlpack(Tensor(np.arange(3), device=(1, 7)).capsule())
    assert x.device == "cpu"
    assert repr(x) == "array([0, 1, 2])"
    assert_same(x + 1, np.arange(1, 4))
    assert nd.from_dlpack(x, device="cpu", copy=False).device == "cpu"
