"""Functions about dtypes, and what the library says about itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack import dtypes
from tests.arrays import DTYPES, EXTENDED, NUMPY_DTYPES


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_limits(dtype):
    kind = nd.float32 if dtype.kind == "c" and dtype.itemsize == 8 else dtype
    for asked in (dtype, dtype.type, nd.zeros(2, dtype), np.zeros(2, dtype)):
        if dtype.kind in "iu":
            found = nd.iinfo(asked)
            assert (found.bits, found.max, found.min, found.dtype) == (
                dtype.itemsize * 8, np.iinfo(dtype).max, np.iinfo(dtype).min, dtype,
            )  # fmt: skip
            assert [type(n) for n in found[:3]] == [int] * 3
            with pytest.raises(TypeError, match="use iinfo"):
                nd.finfo(asked)
        elif dtype.kind == "b":
            for function in (nd.iinfo, nd.finfo):
                with pytest.raises(TypeError, match=f"type is bool, but {function.__name__}"):
                    function(asked)
        else:
            numpys = (ml_dtypes.finfo if dtype in EXTENDED else np.finfo)(dtype)
            info = nd.finfo(asked)
            assert (info.bits, info.dtype) == (numpys.bits, np.dtype(kind) if dtype != np.complex128 else np.float64)
            for name in ("eps", "max", "min", "smallest_normal"):
                assert type(getattr(info, name)) is float
                assert getattr(info, name) == float(getattr(numpys, name))
            with pytest.raises(TypeError, match="use finfo"):
                nd.iinfo(asked)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kinds(dtype):
    names = [name for name in dtypes.KINDS if nd.isdtype(dtype, name)]
    if dtype in NUMPY_DTYPES:
        assert names == [name for name in dtypes.KINDS if np.isdtype(dtype, name)]
    else:
        assert names == ["real floating", "numeric"]
    assert nd.isdtype(dtype, tuple(names))
    assert nd.isdtype(dtype.type, (dtype, "bool"))
    assert not nd.isdtype(dtype, ())
    assert nd.isdtype(dtype, nd.float32) == (dtype == np.float32)


def test_there_are_no_other_kinds():
    with pytest.raises(ValueError, match="kind is 'float', but must be a dtype or one of 'bool'"):
        nd.isdtype(nd.float32, "float")
    with pytest.raises(TypeError, match="an array can have only one of"):
        nd.isdtype("U1", "bool")


def test_can_cast():
    for one in NUMPY_DTYPES:
        for other in NUMPY_DTYPES:
            assert nd.can_cast(one, other) == np.can_cast(one, other)
            assert nd.can_cast(nd.zeros(1, one), other) == np.can_cast(one, other)
    assert nd.can_cast(nd.bfloat16, nd.float32)
    assert not nd.can_cast(nd.float32, nd.bfloat16)


def test_result_types_are_those_of_operations():
    for one in DTYPES:
        for other in [*DTYPES, True, 2, 2.5, 1j]:
            values = nd.ones(2, one), (nd.ones(2, other) if isinstance(other, np.dtype) else other)
            try:
                expected = nd.where(True, *values).dtype
            except TypeError:
                with pytest.raises(TypeError):
                    nd.result_type(one, other)
                continue
            assert nd.result_type(one, other) == nd.result_type(*values) == nd.result_type(values[1], one) == expected
    assert nd.result_type(1, 2.5) == np.float64
    assert nd.result_type("int8", np.zeros(3, np.int16), 1) == np.int16
    with pytest.raises(ValueError, match="needs an array"):
        nd.result_type()


def test_astype():
    x = nd.array([1.5, 2.5])
    assert nd.astype(x, nd.float64, copy=False) is x
    assert nd.astype(x, nd.float64) is not x
    assert nd.astype(x, nd.complex64).tolist() == [1.5, 2.5]
    assert nd.astype(x + 0j, bool).tolist() == [True, True]
    with pytest.raises(TypeError, match="but x is complex: convert one of its parts"):
        nd.astype(x + 0j, nd.float32)


# -- what the library says about itself


def test_inspection():
    info = nd.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert nd.zeros((1,) * 64).ndim == 64
    with pytest.raises(ValueError, match="64"):
        nd.zeros((1,) * 65)
    with nd.device("cpu"):
        assert info.default_device() == "cpu"
    assert {name: dtype.name for name, dtype in info.default_dtypes().items()} == {
        "real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64",
    }  # fmt: skip
    assert nd.ones(1).dtype == info.default_dtypes(device="cpu")["real floating"]
    assert nd.argsort(nd.ones(1)).dtype == info.default_dtypes()["indexing"]


def test_inspection_of_dtypes():
    info = nd.__array_namespace_info__()
    assert list(info.dtypes()) == [
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
        "complex64", "complex128",
    ]  # fmt: skip
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"]
    assert list(info.dtypes(kind=("bool", "complex floating"), device="cpu")) == ["bool", "complex64", "complex128"]
    assert info.dtypes(kind=()) == {}
    for name, dtype in info.dtypes().items():
        assert getattr(nd, name) == dtype
    with pytest.raises(ValueError, match="kind is 'float', but must be one of"):
        info.dtypes(kind="float")


def test_devices_are_those_that_arrays_can_be_made_on(cuda):
    found = nd.__array_namespace_info__().devices()
    assert found[0] == "cpu"
    assert cuda in found
    for device in found:
        assert nd.zeros(2, device=device).device == device


def test_namespace():
    x = nd.ones(2)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2025.12") is nd
    assert nd.__array_api_version__ == "2025.12"
    assert x.__array_namespace__(api_version="2021.12") is nd
    with pytest.raises(ValueError, match="api_version is '2020.01', but must be one of 2021.12"):
        x.__array_namespace__(api_version="2020.01")
