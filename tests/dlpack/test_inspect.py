"""`nd.dlpack.inspect`."""

from __future__ import annotations

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance.capsules import name_of, new_capsule, peek
from nbdlpack.conformance.header import IS_COPIED, READ_ONLY
from nbdlpack.conformance.producers import BareProducer, Producer, RaisingProducer, Tensor, exchange_type
from tests.arrays import Thing
from tests.dlpack.tools import flat

inspect = nd.dlpack.inspect
WAYS = ["__dlpack__()", "__dlpack__(max_version=(1, 3))", "__dlpack_c_exchange_api__"]


def test_an_array():
    x = nd.arange(6, dtype=nd.float32).reshape((2, 3)).T
    look = inspect(x)
    assert [export.way for export in look.exports] == WAYS
    for export, kind in zip(look.exports, ("unversioned", "versioned", "versioned"), strict=True):
        assert (export.kind, export.error, export.note) == (kind, None, "")
        assert (export.version, export.flags) == ((None, None) if kind == "unversioned" else ((1, 3), 0))
        assert (export.device, export.dtype, export.shape, export.strides) == ((1, 0), (2, 32, 1), (3, 2), (1, 3))
        assert (export.data, export.byte_offset, export.address) == (x._state()[0], 0, x._state()[0])
        assert export.alignment >= 256
        assert export.has_deleter
    assert look.shape == (3, 2)
    assert look[WAYS[2]].flags == 0
    assert look[0] is look.exports[0]
    assert x._state()[3] == 0  # all is let go of again


def test_what_it_prints():
    x = nd.readonly(nd.zeros((2, 3), dtype=nd.bfloat16))
    words = repr(inspect(x))
    for word in (
        "nbdlpack",
        *WAYS,
        "BufferError: a read-only array",
        "READ_ONLY",
        "DLPack 1.3",
        "kDLCPU, 0",
        "bfloat16",
        "(2, 3)",
        "(3, 1)",
        hex(x._state()[0]),
        "aligned to",
    ):
        assert word in words


def test_a_capsule_is_not_consumed():
    for versioned in (False, True):
        p = Tensor(np.arange(4.0), byte_offset=8, shape=(3,), strides=None, flags=READ_ONLY | IS_COPIED | 1 << 9)
        capsule = p.capsule(versioned)
        before = peek(capsule)
        look = inspect(capsule)
        assert look.exports[0].kind == ("versioned" if versioned else "unversioned")
        assert (look.shape, look.strides, look.byte_offset) == ((3,), None, 8)
        assert look.address == p.data.ctypes.data + 8
        assert "null, which stands for C order" in repr(look)
        assert "byte_offset 8" in repr(look)
        if versioned:
            assert "READ_ONLY | IS_COPIED | unknown 0x200" in repr(look)
        assert peek(capsule) == before
        np.testing.assert_array_equal(nd.from_dlpack(capsule), [1, 2, 3])
        assert "consumed" in repr(inspect(capsule))
        assert inspect(capsule).shape is None


def test_capsules_of_other_names():
    assert "no DLPack tensor" in repr(inspect(new_capsule(1, "other")))
    assert name_of(nd.ndarray.__dlpack_c_exchange_api__) == "dlpack_exchange_api"
    assert "no DLPack tensor" in repr(inspect(nd.ndarray.__dlpack_c_exchange_api__))


def test_nonsense_is_described():
    words = repr(inspect(Tensor(dtype=(99, 7, 3), device=(55, 4), null_deleter=True).capsule()))
    for word in ("unknown code 99 of 7 bits in vectors of 3", "unknown device type 55, 4", "deleter    none"):
        assert word in words
    look = inspect(Tensor(version=(2, 7), ndim=-5).capsule())
    assert look.version == (2, 7)
    assert look.shape is None
    assert "not understood" in repr(look)
    assert inspect(Tensor(ndim=-5).capsule()).exports[0].kind == "versioned"
    assert "null" in repr(inspect(Tensor(shape=(0,), strides=(1,), address=None).capsule()))


def test_other_producers():
    look = inspect(np.arange(3))
    assert [export.way for export in look.exports] == WAYS[:2]
    assert look["__dlpack__(max_version=(1, 3))"].version == (1, 0)
    p = RaisingProducer(BufferError("not today"))
    look = inspect(p)
    assert [str(export.error) for export in look.exports] == ["not today"] * 2
    assert look.shape is None
    assert "BufferError: not today" in repr(look)
    look = inspect(BareProducer())
    assert look[0].error is None
    assert isinstance(look[1].error, TypeError)
    assert look.shape == (4,)


def test_tables_of_others():
    p = exchange_type()()
    look = inspect(p)
    assert look[WAYS[2]].shape == (4,)
    assert p.deleted == 1
    assert "why" in repr(inspect(exchange_type(base=RaisingProducer)(BufferError("why")))[WAYS[2]])
    assert "refers to no table" in repr(inspect(exchange_type(version=(2, 0))()))
    for value in (None, 5):
        look = inspect(type("Odd", (Producer,), {"__dlpack_c_exchange_api__": value})())
        assert len(look.exports) == (2 if value is None else 3)


def test_a_look_moves_nothing():
    # a read of a shared array never moves it
    x = nd.arange(1000)
    y = x.copy()
    with nd.no_copies():
        look = inspect(y)
    assert nd.is_shared(x)
    assert [export.kind for export in look.exports] == ["unversioned", "versioned", "versioned"]
    assert [export.flags for export in look.exports] == [None, 0, 0]
    assert all("moves" in export.note for export in look.exports)
    assert look.address == x._state()[0]
    with flat(x), flat(y):
        inspect(y)


def test_negative_strides():
    look = inspect(nd.arange(3)[::-1])
    assert all(isinstance(export.error, BufferError) for export in look.exports)
    with nd.dlpack.allow_negative_strides():
        assert inspect(nd.arange(3)[::-1]).strides == (-1,)


@pytest.mark.parametrize("x", [3, [1], Thing(), None], ids=repr)
def test_what_speaks_no_dlpack(x):
    with pytest.raises(AttributeError, match="__dlpack__"):
        inspect(x)


def test_attributes_that_there_are_not():
    look = inspect(nd.arange(3))
    with pytest.raises(AttributeError, match="exports"):
        look.colour
    with pytest.raises(KeyError, match="there is no"):
        look["by post"]


def test_the_wrapper():
    look = inspect(nd.dlpack.ReadOnlyTensorWrapper(nd.arange(3)))
    assert [export.flags for export in look.exports] == [READ_ONLY] * 3


@pytest.mark.parametrize("ndim", [-1, 65, 1 << 20, (1 << 31) - 1])
def test_dimensions_that_cannot_be(ndim):
    look = inspect(Producer(ndim=ndim))
    assert (look.shape, look.strides, look.dtype) == (None, None, (2, 64, 1))
    assert f"ndim is {ndim}" in repr(look)
