"""Tensors that cannot be imported: an error with the cause in words, the deleter once, never a crash."""

from __future__ import annotations

import contextlib
import gc
import sys
from ctypes import PYFUNCTYPE, c_void_p, cast

import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.conformance.capsules import name_of, new_capsule, peek
from nbdlpack.conformance.producers import LegacyProducer, Producer, Tensor, exchange_type

BIG = 1 << 62

# What is wrong, and a word that the message must have.
FAULTS = {
    # torch up to 2.14 ends the process on a negative ndim
    "ndim -1": ({"ndim": -1}, "ndim"),
    "ndim -2**31": ({"ndim": -(1 << 31)}, "ndim"),
    "ndim 65": ({"shape": (1,) * 65, "strides": (1,) * 65}, "65 dimensions"),
    "ndim 2**31-1": ({"ndim": (1 << 31) - 1}, "dimensions"),
    "null shape": ({"shape": None, "ndim": 1}, "shape"),
    # mohu#328, dpctl#1766
    "negative extent": ({"shape": (-4,)}, "negative"),
    "negative extents, positive product": ({"shape": (-2, -2), "strides": (2, 1)}, "negative"),
    "extent -2**63": ({"shape": (-(1 << 63),)}, "negative"),
    "negative beside zero": ({"shape": (0, -1), "strides": (1, 1)}, "negative"),
    "product overflows": ({"shape": (1 << 32, 1 << 32), "strides": (1 << 32, 1)}, "bytes"),
    "product overflows to 0": ({"shape": (1 << 32, 1 << 32), "strides": None}, "bytes"),
    "bytes overflow": ({"shape": (BIG,)}, "bytes"),
    "stride overflows": ({"shape": (4,), "strides": (BIG,)}, "reach"),
    "stride -2**63": ({"shape": (4,), "strides": (-(1 << 63),)}, "reach"),
    "strides overflow together": ({"shape": (3, 3), "strides": (1 << 60, 1 << 60)}, "reach"),
    # numpy allocates memory of its own and fills it with nothing, torch wraps null
    "null data": ({"address": None}, "null pointer"),
    "null data, no dimensions": ({"address": None, "shape": (), "strides": ()}, "null pointer"),
    "an offset of -8": ({"byte_offset": (1 << 64) - 8}, "byte_offset"),
    "an offset of 2**63": ({"byte_offset": 1 << 63}, "byte_offset"),
    "null data with an offset": ({"address": None, "byte_offset": 64}, "null pointer"),
    # the dtype, in words
    "two lanes": ({"dtype": (2, 32, 2)}, "float32 in vectors of 2"),
    "no lanes": ({"dtype": (2, 32, 0)}, "vectors of 0"),
    "float of 8 bits": ({"dtype": (2, 8, 1)}, "float8"),
    "float of 128 bits": ({"dtype": (2, 128, 1)}, "float128"),
    "int of 4 bits": ({"dtype": (0, 4, 1)}, "int4"),
    "int of 128 bits": ({"dtype": (0, 128, 1)}, "int128"),
    "int of 0 bits": ({"dtype": (0, 0, 1)}, "int0"),
    "int of 12 bits": ({"dtype": (0, 12, 1)}, "int12"),
    "complex of 32 bits": ({"dtype": (5, 32, 1)}, "complex32"),
    "bool of 1 bit": ({"dtype": (6, 1, 1)}, "bool of 1 bits"),  # jax#19352
    "bool of 64 bits": ({"dtype": (6, 64, 1)}, "bool of 64 bits"),
    "bfloat of 32 bits": ({"dtype": (4, 32, 1)}, "bfloat32"),  # cupy#8801
    "opaque": ({"dtype": (3, 64, 1)}, "opaque"),
    "float8 of 16 bits": ({"dtype": (10, 16, 1)}, "float8_e4m3fn of 16 bits"),
    "float6": ({"dtype": (15, 6, 1)}, "float6_e2m3fn"),
    "float6 of 8 bits": ({"dtype": (16, 8, 1)}, "float6_e3m2fn"),
    "float4": ({"dtype": (17, 4, 1)}, "float4_e2m1fn"),
    "float4 of two lanes": ({"dtype": (17, 4, 2)}, "float4_e2m1fn"),  # as torch has it
    "complex bfloat": ({"dtype": (18, 32, 1)}, "code 18"),
    "unknown code": ({"dtype": (99, 8, 1)}, "code 99"),
    "code 255": ({"dtype": (255, 255, 65535)}, "code 255"),
    # the device
    "ROCm": ({"device": (10, 0)}, "kDLROCM"),
    "Metal": ({"device": (8, 0)}, "kDLMetal"),
    "device type 5": ({"device": (5, 0)}, "device type 5"),
    "device type 0": ({"device": (0, 0)}, "device type 0"),
    "device type 99": ({"device": (99, 0)}, "device type 99"),
    "device type -1": ({"device": (-1, 0)}, "device type -1"),
    "device type 2**31-1": ({"device": ((1 << 31) - 1, 0)}, "device type"),
}

fault = pytest.mark.parametrize(("fields", "words"), FAULTS.values(), ids=FAULTS)


def refused(p, x, words, **options):
    """Check that an import is refused in words, and that all that was made for it is deleted once."""
    with pytest.raises(BufferError, match="(?s)" + words):
        nd.from_dlpack(x, **options)
    del x
    nd.zeros(1)  # so that what has ended is released
    assert p.deleted + p.kept == len(p.made)


@pytest.mark.parametrize("versioned", [False, True], ids=["unversioned", "versioned"])
@pytest.mark.parametrize("options", [{}, {"copy": True}], ids=str)
@fault
def test_in_a_capsule(fields, words, options, versioned):
    p = Tensor(np.arange(4, dtype=np.float32), **fields)
    capsule = p.capsule(versioned)
    with pytest.raises(BufferError, match="(?s)" + words):
        nd.from_dlpack(capsule, **options)
    # Decided: what is refused stays the producer's, so that the capsule is as it was.
    assert name_of(capsule) == ("dltensor_versioned" if versioned else "dltensor")
    assert p.deleted == 0


@pytest.mark.parametrize("kind", [Producer, LegacyProducer])
@fault
def test_from_a_producer(fields, words, kind):
    p = kind(np.arange(4, dtype=np.float32), **fields)
    refused(p, p, words)
    refused(p, p, words)
    refused(p, p, words, copy=True)


@fault
def test_through_an_exchange_table(fields, words):
    p = exchange_type()(np.arange(4, dtype=np.float32), **fields)
    refused(p, p, words)
    refused(p, p, words)


@pytest.mark.parametrize("version", [(2, 0), (0, 9), (100, 3), ((1 << 32) - 1, 0)], ids=str)
def test_another_major_version(version):
    # dlpack.h: nothing but the deleter may be known of it; dlpack#113, array-api#602.  All other fields are nonsense.
    nonsense = {
        "ndim": -7, "shape": None, "strides": None, "address": 1, "dtype": (255, 255, 255), "device": (77, 77),
        "flags": (1 << 64) - 1, "byte_offset": (1 << 64) - 1,
    }  # fmt: skip
    for options in ({}, {"copy": True}, {"copy": False}):
        p = Tensor(version=version, **nonsense)
        refused(p, p.capsule(), "version", **options)
        p = Producer(version=version, **nonsense)
        refused(p, p, "version", **options)
    p = exchange_type()(version=version, **nonsense)
    refused(p, p, "version")


@fault
def test_without_a_deleter(fields, words):
    p = Tensor(np.arange(4, dtype=np.float32), null_deleter=True, **fields)
    for versioned in (False, True):
        with pytest.raises(BufferError, match="(?s)" + words):
            nd.from_dlpack(p.capsule(versioned))
    assert p.deleted == 0


@pytest.mark.parametrize("known", [False, True], ids=["new type", "known type"])
def test_a_capsule_whose_destructor_runs_python(known):
    # It runs while the refusal is on its way: it must neither see that nor change it.
    seen = []

    @PYFUNCTYPE(None, c_void_p)
    def destructor(capsule):
        seen.append(sys.exc_info()[0])
        try:
            raise KeyError("of the destructor's own")
        except KeyError:
            pass

    class Destroying(Producer):
        def __dlpack__(self, **asked):
            return new_capsule(self.managed(True), "dltensor_versioned", cast(destructor, c_void_p).value)

    p = Destroying(np.arange(4.0))
    if known:
        nd.from_dlpack(p)
    p.fields["dtype"] = (99, 8, 1)
    n = len(seen)
    with pytest.raises(BufferError, match="code 99"):
        nd.from_dlpack(p)
    assert len(seen) == n + 1


def test_refusals_leave_nothing():
    # dlpack#156: the refusal of an unknown dtype leaked
    p = Producer(dtype=(17, 4, 2))
    info = nd.memory_info()
    for _ in range(300):
        with pytest.raises(BufferError):
            nd.from_dlpack(p)
    assert p.deleted + p.kept == 300
    assert nd.memory_info()[:3] == info[:3]


def test_a_fault_that_does_not_matter_is_none():
    # without elements nothing is read
    for fields in (
        {"address": None},
        {"strides": (1 << 62, 1 << 62)},
        {"strides": (-(1 << 63), 5)},
        {"byte_offset": 1 << 40},
    ):
        p = Tensor(np.zeros(4), **{"shape": (0, 5), "strides": (5, 1), **fields})
        x = nd.from_dlpack(p.capsule())
        assert x.shape == (0, 5)
        assert (x + 1).shape == (0, 5)
        assert peek(x.__dlpack__()).data is None


def test_huge_extents_that_overlap():
    # more elements than memory, but all of them one
    p = Tensor(np.array([7], np.int8), shape=(1 << 40,), strides=(0,))
    x = nd.from_dlpack(p.capsule())
    assert x[1 << 39] == 7
    assert not x.flags.writeable


def test_a_capsule_that_a_finaliser_wants_during_its_import():
    # Python before 3.12 collects while objects are made, and so in the middle of an import
    taken = []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            with contextlib.suppress(ValueError):
                taken.append(nd.from_dlpack(capsule))

    threshold = gc.get_threshold()
    x = nd.arange(5)
    try:
        for allocations in range(40):
            capsule = x.__dlpack__()
            gc.collect()
            gc.disable()
            Cycle()
            gc.set_threshold(gc.get_count()[0] + allocations)
            gc.enable()
            with contextlib.suppress(ValueError):
                taken.append(nd.from_dlpack(capsule))
            gc.set_threshold(*threshold)
            gc.collect()
            assert len(taken) == 1
            taken.clear()
            assert x._state()[2:5] == (1, 0, 0)
    finally:
        gc.set_threshold(*threshold)
