"""Round trips: what arrives is looked at, and who shares memory with whom is found out by writing to it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nbdlpack.conformance import Adapter
from nbdlpack.conformance.pairs import DTYPES, LAYOUTS, TRIPS, Pair, contents, lies_as, pairs_of, trip
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused
from nbdlpack.conformance.results import Outcome
from nbdlpack.conformance.running import run
from nbdlpack.conformance.subject import Subject
from tests.conformance import toys


def send(producer: type[Adapter], consumer: type[Adapter], dtype: str, layout: str) -> str:
    """Make a trip in this process."""
    pair = Pair(producer(), consumer())
    pair.load()
    return trip(Subject(pair), dtype=dtype, layout=layout)


NUMPYS = [name for name, dtype in DTYPES.items() if dtype.isbuiltin == 1]


@pytest.mark.parametrize("dtype", NUMPYS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_shares_all_that_it_has(dtype, layout):
    shared = {"empty": "", "broadcast": "shared, read-only"}
    assert send(toys.Toy, toys.Toy, dtype, layout) == shared.get(layout, "shared")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nbdlpack_shares_all_that_there_is(dtype, layout):
    from nbdlpack.conformance.adapters import ADAPTERS

    shared = {"empty": "", "broadcast": "shared, read-only"}
    assert send(ADAPTERS["nbdlpack"], ADAPTERS["nbdlpack"], dtype, layout) == shared.get(layout, "shared")


def test_copies_are_told():
    assert send(toys.Toy, toys.Copying, "float32", "strided") == "copied"
    assert send(toys.Toy, toys.Frozen, "float32", "strided") == "copied"


def test_where_addresses_are_unknown_writing_tells():
    assert send(toys.Toy, toys.Quiet, "float32", "C order") == "shared"
    assert send(toys.Frozen, toys.Quiet, "float32", "C order") == "not told"


def test_values_that_do_not_arrive_are_a_failure():
    with pytest.raises(Failure, match=r"wrong reads \[\[6.0, 7.0, 8.0\], \[3.0, .*, where \[\[3.0, .* was exported"):
        send(toys.Toy, toys.Wrong, "float64", "C order")
    with pytest.raises(Failure, match="mixed has made int32 of float32"):
        send(toys.Toy, toys.Mixed, "float32", "C order")
    with pytest.raises(Failure, match=r"mixed has made the shape \(12,\) of \(6,\)|int32 of int64"):
        send(toys.Toy, toys.Mixed, "int64", "one axis")


def test_writes_that_are_not_seen_are_a_failure():
    with pytest.raises(Failure, match="stale is on the memory of toy, but does not see what that writes"):
        send(toys.Toy, toys.Stale, "int16", "C order")
    with pytest.raises(Failure, match="stale is on the memory of toy, but does not see what that writes"):
        send(toys.Stale, toys.Toy, "int16", "C order")


def test_what_the_consumer_declines_is_refused():
    with pytest.raises(Refused, match="BufferError: no bool"):
        send(toys.Toy, toys.Wrong, "bool", "C order")
    with pytest.raises(Refused, match="BufferError"):
        send(toys.Toy, toys.Toy, "bfloat16", "C order")


def test_what_the_producer_does_not_have_is_not_applicable():
    with pytest.raises(NotApplicable, match="viewless has no views"):
        send(toys.Viewless, toys.Toy, "int8", "strided")
    with pytest.raises(NotApplicable, match="secret imports it, but does not let its values be seen: BufferError: no"):
        send(toys.Toy, toys.Secret, "int8", "C order")
    with pytest.raises(NotApplicable, match="viewless has no such array: AttributeError"):
        send(toys.Viewless, toys.Toy, "int8", "Fortran order")
    with pytest.raises(NotApplicable, match=r"viewless lays it out in another way, with strides \(3, 1\)"):
        send(toys.Viewless, toys.Toy, "int8", "broadcast")


def test_elements_differ_from_each_other_and_a_single_one_from_what_is_written():
    for dtype in DTYPES.values():
        a = contents(dtype, (4, 6))
        assert (a.dtype, a.shape) == (dtype, (4, 6))
        numbers = a.reshape(-1).astype(complex)
        assert np.isfinite(numbers).all()
        assert len(set(numbers)) == (2 if dtype.kind == "b" else 24)
        assert numbers[0] not in (1, 2)


def test_the_layouts_are_different_ones():
    numpy = toys.Toy()
    numpy.load()
    found = {name: layout.arrange(numpy, contents(np.dtype("i1"), layout.shape)) for name, layout in LAYOUTS.items()}
    assert {name: (a.shape, a.strides) for name, a in found.items()} == {
        "C order": ((2, 3), (3, 1)),
        "Fortran order": ((2, 3), (1, 2)),
        "strided": ((2, 3), (12, 2)),
        "negative": ((2, 3), (-3, -1)),
        "broadcast": ((2, 3), (0, 1)),
        "one axis": ((6,), (1,)),
        "0-d": ((), ()),
        "empty": ((0, 3), (3, 1)),
        "size-1 axes": ((1, 3, 1), (6, 2, 1)),
    }
    for (one, a), (other, b) in itertools.product(found.items(), repeat=2):
        if a.shape == b.shape and a.size > 1:
            assert lies_as(a, tuple(n // b.itemsize for n in b.strides)) is (one == other)


def test_strides_matter_where_there_are_several_elements():
    assert lies_as(np.ones((1, 3)), (77, 1))
    assert not lies_as(np.ones((2, 3)), (77, 1))
    assert lies_as(np.ones((2, 3)), None)
    assert not lies_as(np.ones((2, 3)).T, None)
    assert lies_as(np.ones((0, 3)), (5, 7))


def test_pairs_are_of_those_who_export_and_those_who_import():
    class Source(toys.Toy):
        name, consumer = "source", False

    class Sink(toys.Toy):
        name, producer = "sink", False

    names = [pair.name for pair in pairs_of([toys.Toy(), Source(), Sink()])]
    assert names == ["toy → toy", "toy → sink", "source → toy", "source → sink"]


def test_a_pair_is_forked_if_both_may_be():
    pairs = pairs_of([toys.Toy(), toys.Unforkable()])
    assert [pair.fork for pair in pairs] == [True, False, False, False]


def test_pairs_run_in_processes_as_libraries_do():
    checks = [TRIPS["float32", layout] for layout in ("C order", "negative", "0-d")]
    absent, wrong = run([Pair(toys.Absent(), toys.Toy()), Pair(toys.Toy(), toys.Wrong())], checks)
    assert (absent.name, absent.error, absent.results) == ("absent → toy", "absent has no GPU here", ())
    assert wrong.versions == 2 * (toys.Toy().version(),)
    assert [result.outcome for result in wrong.results] == [Outcome.FAIL, Outcome.CRASH, Outcome.PASS]
    assert [result.reason for result in wrong.results][1:] == ["SIGABRT: stride must be positive", "shared"]


def test_there_is_a_trip_for_each_dtype_and_layout():
    assert list(TRIPS) == list(itertools.product(DTYPES, LAYOUTS))
    assert len({check.id for check in TRIPS.values()}) == len(TRIPS)
    assert {"bool", "int8", "uint64", "float16", "complex128", "bfloat16", "float8_e5m2"} < set(DTYPES)
