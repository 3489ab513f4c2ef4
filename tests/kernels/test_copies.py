# mypy: disable-error-code="no-untyped-def"
"""Copies, casts and fills on a device that computes by kernels, against NumPy's."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from nbdlpack.devices.kernelled import moving
from nbdlpack.native import View
from tests import hostcuda
from tests.arrays import DTYPES, LAYOUTS, bits, values
from tests.kernels import harness

BIG = 20 if harness.SIMULATED else 3000
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
COMPUTED = [np.dtype(c) for c in "?bhilBHILefdFD"] + [BFLOAT16]
WORDS = [np.dtype(kind) for kind in ("u1", "u2", "u4", "u8", "c16")]
WRITABLE = [name for name in LAYOUTS if name != "broadcast"]

pytestmark = pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")


def numbered(shape, dtype, start=1):
    """Return different numbers."""
    a = np.arange(start, start + int(np.prod(shape))).reshape(shape)
    return (a + 1j * (a + 1) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def check(device, x, a):
    """Check that an array has NumPy's values, bit for bit but for NaN."""
    found = device.to_host(x)
    assert found.shape == a.shape
    assert found.dtype == a.dtype
    assert not found.flags.writeable
    if a.dtype.kind in "fcV":
        nan = np.isnan(a.astype(a.dtype if a.dtype.kind == "c" else np.float64))
        found, a = np.where(nan, np.ones_like(a), found), np.where(nan, np.ones_like(a), a)
    assert bits(found) == bits(a), (found, a)


# -- assignment between layouts


@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("target", WRITABLE)
def test_layouts(standin, target, source):
    """Each layout to each other one that it can be broadcast to, in words of each size; nothing else is touched."""
    for dtype in WORDS if not harness.SIMULATED else WORDS[1::2]:
        a, b = LAYOUTS[target](numbered((4, 6), dtype)), LAYOUTS[source](numbered((4, 6), dtype, 100))
        try:
            np.broadcast_to(b, a.shape)
        except ValueError:
            continue
        x, y = standin.view(a), standin.view(b)
        before = standin.surroundings(x)
        standin.assign(x, y)
        a[...] = b
        check(standin, x, a)
        check(standin, y, b)
        assert (standin.surroundings(x) == before).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_moves(standin, dtype):
    a = values(dtype)
    for name in ("C", "F", "strided", "negative"):
        x = standin.from_host(View, LAYOUTS[name](a))
        check(standin, x, np.ascontiguousarray(LAYOUTS[name](a)))
        y = standin.view(LAYOUTS[name](a))
        check(standin, y, LAYOUTS[name](a))
        standin.assign(y, a[0, 0])
        check(standin, y, np.full_like(LAYOUTS[name](a), a[0, 0]))


@pytest.mark.parametrize("residue", range(16))
@pytest.mark.parametrize("n", [0, 1, 3, 15, 16, 17, 100, BIG * 50 + 5])
def test_every_alignment(standin, residue, n):
    """Contiguous bytes at each distance from a multiple of 16, from each of a few others, and of each length."""
    for other in sorted({residue, (residue + 8) % 16, (residue + 3) % 16, 0} if not harness.SIMULATED else {residue}):
        a, b = np.zeros(n, np.uint8), np.random.default_rng(n).integers(0, 255, n).astype(np.uint8)
        x, y = standin.view(a, residue), standin.view(b, other)
        around = standin.surroundings(x)
        standin.assign(x, y)
        check(standin, x, b)
        standin.assign(x, np.uint8(7))
        check(standin, x, np.full_like(b, 7))
        assert (standin.surroundings(x) == around).all()


@pytest.mark.parametrize("residue", range(16))
@pytest.mark.parametrize("dtype", WORDS[1:], ids=str)
def test_elements_that_are_not_aligned(standin, dtype, residue):
    """Every word that is loaded or stored is at a multiple of its size."""
    a, b = numbered((6, 8), dtype), numbered((6, 8), dtype, 200)
    x, y, z = standin.view(a, residue), standin.view(b), standin.view(b[::2, ::2], (residue * 3) % 16)
    standin.assign(x, y)
    check(standin, x, b)
    part, small = x._view(View, 0, dtype, 0, (3, 4), (16, 2)), a[::2, ::2]
    a[...] = b
    for value, expected in ((z, b[::2, ::2]), (dtype.type(5), 5)):
        standin.assign(part, value)
        small[...] = expected
        check(standin, x, a)
    wide = np.dtype("f8")
    standin.assign(part, standin.from_host(View, np.full((3, 4), 9, wide)))
    small[...] = 9
    check(standin, x, a)
    c = standin.empty(View, (6, 8), wide)
    standin.assign(c, x)
    check(standin, c, a.astype(wide))


def words_of(calls):
    """Return for each launch the bytes of a word, and the numbers that must be multiples of it."""
    for name, *args in calls:
        kind, *_, word = name.removesuffix(" byte words").split()
        word = int(word)
        flat = [n for arg in args for n in (arg if isinstance(arg, tuple) else (arg,))]
        if "contiguous" in name:
            head = args[2] if kind == "copy" else args[1]
            yield word, [n + head for n in args[:2] if n > 1 << 30]
        elif kind == "transpose":
            yield word, [n for i, n in enumerate(flat) if i not in (2, 3, 4)]
        elif "1-d" in name:
            yield word, [*args[:2], *args[3:]] if kind == "copy" else [args[0], args[2]]
        else:
            yield word, [n for i, n in enumerate(flat) if not 2 <= i < 7] if kind == "copy" else [flat[0], *flat[6:10]]


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_words_are_aligned(standin, dtype):
    """The widest word is used that fits, and never a wider one."""
    a = numbered((8, 24), dtype)
    keys = [np.s_[:], np.s_[:, 1:], np.s_[1:, 3:7], np.s_[::2, ::3], np.s_[:, 8:16], np.s_[::-1], np.s_[:, ::-1]]
    for (key, residue), flip in itertools.product(itertools.product(keys, (0, 4, 8, 1)), (False, True)):
        b = a.T[key[::-1] if isinstance(key, tuple) else key] if flip else a[key]
        x, y = standin.view(b.copy(), residue), standin.view(b, residue)
        standin.calls.clear()
        standin.assign(x, y)
        standin.assign(y, dtype.type(1))
        for word, numbers in words_of(standin.calls):
            assert all(n % word == 0 for n in numbers), (standin.calls, word)
    x, y = standin.view(a[:, 8:16]), standin.view(a[:, 8:16])
    standin.calls.clear()
    standin.assign(x, y)
    assert [word for word, _ in words_of(standin.calls)] == [16 if dtype.itemsize > 1 else 8]


TRANSPOSES = {
    "square": ((40, 40), (1, 0)),
    "tall": ((70, 9), (1, 0)),
    "batch": ((3, 33, 20), (0, 2, 1)),
    "reversed": ((9, 33, 20), (2, 1, 0)),
    "last": ((20, 3, 40), (2, 1, 0)),
    "small": ((33, 3), (1, 0)),
    "5-d": ((2, 3, 4, 5, 6), (4, 1, 2, 0, 3)),
    "6-d": ((2, 3, 2, 3, 2, 3), (5, 2, 4, 0, 3, 1)),
}


@pytest.mark.parametrize("dtype", WORDS, ids=str)
@pytest.mark.parametrize("name", TRANSPOSES)
def test_transposes(standin, name, dtype):
    shape, axes = TRANSPOSES[name]
    a = numbered(shape, dtype)
    x, y = standin.view(np.zeros_like(a.transpose(axes), order="C")), standin.view(a.transpose(axes))
    standin.calls.clear()
    standin.assign(x, y)
    check(standin, x, a.transpose(axes))
    tiled = any(call[0].startswith("transpose") for call in standin.calls)
    assert tiled == (dtype.itemsize < 16 and name in ("square", "tall", "batch", "reversed", "last"))


@pytest.mark.skipif(harness.SIMULATED, reason="too slow in the simulator")
@pytest.mark.parametrize("order", ["forward", "reverse", "random:5"])
@pytest.mark.parametrize("grid", [(1, 1), (3, 32), (2, 96), (5, 1024)])
def test_any_grid_and_order(standin, grid, order, monkeypatch):
    monkeypatch.setattr(standin, "grid", grid)
    a = numbered((67, 90), np.float32)
    with harness.option(order=order):
        for view in (a, a.T, a[::2, ::-1], a.reshape(67, 9, 10).transpose(2, 0, 1)):
            for dtype in (np.float32, np.float64):
                x = standin.empty(View, view.shape, np.dtype(dtype))
                standin.assign(x, standin.view(view))
                check(standin, x, view.astype(dtype))
                standin.assign(x, 3)
                check(standin, x, np.full(view.shape, 3, dtype))
        check(standin, standin.arange(View, 0, 5000, 1, None), np.arange(5000))


def test_many_blocks(standin):
    a = numbered((BIG, 100), np.int32)
    x = standin.empty(View, a.shape, a.dtype)
    standin.assign(x, standin.view(a))
    check(standin, x, a)
    y = standin.empty(View, a.shape[::-1], a.dtype)
    standin.assign(y, x._view(View, 0, a.dtype, 0, a.T.shape, (1, 100)))
    check(standin, y, a.T)
    standin.assign(x, standin.view(a[:, ::-1]))
    check(standin, x, a[:, ::-1])
    standin.assign(x, 5)
    check(standin, x, np.full_like(a, 5))


# -- broadcasting and overlap


def test_values_of_all_kinds(standin):
    for value in (
        3,
        2.5,
        True,
        np.float64(2),
        [1, 2, 3],
        [[1], [2]],
        np.ones((1, 3)),
        np.ones((1, 1, 2, 3)),
        np.int8(-1),
    ):
        for kind in (np.float32, np.int16, np.complex64, BFLOAT16):
            a = np.zeros((2, 3), kind)
            x = standin.view(a)
            value = np.asarray(value, kind) if isinstance(value, list) else value
            standin.assign(x, value)
            a[...] = value
            check(standin, x, a)
            if isinstance(value, np.ndarray):
                standin.assign(x, 0)
                standin.assign(x, standin.from_host(View, value))
                check(standin, x, a)


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.complex128])
def test_overlap_reads_first(standin, kind):
    keys = {
        "forwards": (np.s_[1:], np.s_[:-1]),
        "backwards": (np.s_[:-1], np.s_[1:]),
        "reversed": (np.s_[:], np.s_[::-1]),
        "strided": (np.s_[:6], np.s_[::2]),
        "apart": (np.s_[::2], np.s_[1::2]),
        "broadcast": (np.s_[:], np.s_[3:4]),
        "itself": (np.s_[:], np.s_[:]),
    }
    for to, of in keys.values():
        a = numbered(12, kind)
        x = standin.view(a)

        def part(key, a=a, x=x):
            b = a[key]
            offset = b.__array_interface__["data"][0] - a.__array_interface__["data"][0]
            return x._view(View, offset, a.dtype, 0, b.shape, (b.strides[0] // a.itemsize,))

        standin.assign(part(to), part(of))
        a[to] = a[of].copy()
        check(standin, x, a)
    m = numbered((7, 7), kind)
    x = standin.view(m)
    standin.assign(x, x._view(View, 0, m.dtype, 0, (7, 7), (1, 7)))
    check(standin, x, m.T)


def test_cast_onto_itself(standin):
    a = numbered(40, np.float64)
    x = standin.view(a)
    for kind in (np.int32, np.float32, np.complex128, np.int64):
        y = standin.view(a)
        target = y._view(View, 0, np.dtype(kind), 0, (a.nbytes // np.dtype(kind).itemsize,), (1,))
        n = min(target.size, 40)
        target = target._view(View, 0, target.dtype, 0, (n,), (1,))
        standin.assign(target, y._view(View, 0, y.dtype, 0, (n,), (1,)))
        check(standin, target, a[:n].astype(kind))
    standin.assign(x, x)
    check(standin, x, a)


def test_nothing_is_launched_for_nothing(standin):
    x = standin.empty(View, (0, 3), np.dtype("f4"))
    standin.assign(x, standin.empty(View, (3,), np.dtype("f4")))
    standin.assign(x, 3)
    standin.assign(x, np.ones(3, np.float32))
    standin.assign(x, standin.empty(View, (1, 3), np.dtype("i8")))
    check(standin, x, np.zeros((0, 3), np.float32))
    assert not standin.calls


# -- casts


def samples(kind):
    """Return what is likely to go wrong, that each dtype has in its way."""
    if kind == np.bool:
        return np.array([False, True])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        some = [0, 1, 2, 3, 100, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, info.min, info.min // 2]
        some += [
            n
            for n in (-1, -2, -100, 255, 256, 65535, 65536, 65519, 65520, 2**24 + 1, 2**24 + 3, 2**31)
            if info.min <= n <= info.max
        ]
        some += [n for n in (2**53 + 1, 2**62 + 2**38, 2**62 + 2**38 + 1, 2**40 + 2**32 + 1) if n <= info.max]
        return np.array(some, kind)
    text = (
        "0 -0. 1 -1 0.5 -0.5 2.5 3.75 100.7 -100.7 255 256 1e-3 1e-5 6e-8 2.98e-8 2.99e-8 1e-40 1e-300 65504 65519.999 "
        "65520 1e5 3.4e38 3.5e38 1e300 inf -inf nan"
    )
    # Next to the middle between two neighbours: of float16, of bfloat16, of float32.
    middles = [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-24]
    real = np.array([*text.split(), 2.0**31, -(2.0**31), 2.0**40, *middles], np.float64)
    with np.errstate(all="ignore"):
        if kind.kind == "c":
            return (real + 1j * real[::-1]).astype(kind)
        return real.astype(kind)


def representable(a, kind):
    """Return the numbers that NumPy has a defined result for."""
    if kind.kind not in "iu" or a.dtype.kind in "biu":
        return a
    real = a.real if a.dtype.kind == "c" else a.astype(np.float64)
    limit = {"i": 2.0 ** (8 * kind.itemsize - 1), "u": 2.0 ** (8 * kind.itemsize)}[kind.kind]
    # What is next to the smaller integer types wraps around in NumPy, too, but not by a promise.
    return a[(np.trunc(real) >= (-limit if kind.kind == "i" else 0)) & (real < limit)]


@pytest.mark.parametrize("source", COMPUTED, ids=str)
def test_casts(standin, source):
    for target in COMPUTED:
        a = representable(samples(source), target)
        with np.errstate(all="ignore"):
            expected = a.astype(target)
        x = standin.empty(View, a.shape, target)
        standin.assign(x, standin.view(a))
        check(standin, x, expected)


@pytest.mark.parametrize("source", ["?", "i1", "u8", "f2", "f8", "c8", "c16", BFLOAT16], ids=str)
def test_casts_between_layouts(standin, source):
    a = values(np.dtype(source))
    for target in (np.dtype(kind) for kind in ("u1", "i4", "f2", "f4", "c8")):
        for view in LAYOUTS.values():
            b = view(a)
            x = standin.view(np.zeros_like(b, target))
            standin.assign(x, standin.view(b))
            check(standin, x, b.astype(target))


def test_negative_floats_wrap_as_unsigned(standin):
    a = np.array([-1.0, -2.5, 300.0, -300.0])
    for kind, expected in (("u1", [255, 254, 44, 212]), ("u4", [2**32 - 1, 2**32 - 2, 300, 2**32 - 300])):
        x = standin.empty(View, (4,), np.dtype(kind))
        standin.assign(x, standin.view(a))
        assert standin.to_host(x).tolist() == expected
    x = standin.empty(View, (4,), np.dtype("u8"))
    standin.assign(x, standin.view(a))
    assert standin.to_host(x).tolist() == [2**64 - 1, 2**64 - 2, 300, 2**64 - 300]


def test_any_byte_but_zero_is_true(standin):
    a = np.array([0, 1, 2, 255], np.uint8)
    x = standin.view(a)._view(View, 0, np.dtype(bool), 0, (4,), (1,))
    y = standin.empty(View, (4,), np.dtype("i4"))
    standin.assign(y, x)
    assert standin.to_host(y).tolist() == [0, 1, 1, 1]


def test_casts_of_other_dtypes_name_the_remedy(standin):
    x, y = standin.empty(View, (3,), np.dtype(ml_dtypes.float8_e4m3)), standin.empty(View, (3,), np.dtype("f4"))
    for target, source in ((x, y), (y, x)):
        with pytest.raises(
            TypeError, match=r"cannot cast from .*float.* to .* on device standin, .*x\.to_device\('cpu'\)"
        ):
            standin.assign(target, source)
    standin.assign(x, 1.5)
    check(standin, x, np.full(3, 1.5, x.dtype))
    standin.assign(x, np.array([1.0, 2, 3]))
    check(standin, x, np.array([1, 2, 3], x.dtype))


def test_complex_to_real_warns(standin):
    x, y = standin.view(np.array([1 + 2j])), standin.view(np.array([0.0]))
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        standin.assign(y, x)
    check(standin, y, np.array([1.0]))


def test_few_kernels_serve_all_pairs():
    pairs = {moving._simplified(a, b) for a in COMPUTED for b in COMPUTED if a != b}
    assert len({pair for pair in pairs if pair[0] != pair[1]}) < 150


# -- arange, and the host


@pytest.mark.parametrize("dtype", [None, *COMPUTED[1:]], ids=str)
def test_arange(standin, dtype):
    for args in ((0, 5, 1), (3, 50, 7), (5, -9, -3), (0, 2, 1), (0, 0, 1), (7, 8, 3), (1, 40, 2), (0, BIG, 1)):
        if dtype is not None and dtype.kind == "u" and args[2] < 0:
            continue
        if dtype is not None and dtype.itemsize == 1 and args[1] > 127:
            continue
        check(standin, standin.arange(View, *args, dtype), np.arange(*args, dtype=dtype))
    if dtype is None or dtype.kind not in "iu":
        for args in ((0.1, 20.3, 0.7), (1e-3, 2e-3, 1e-5), (np.float32(1), 9, np.float32(0.3))):
            check(standin, standin.arange(View, *args, dtype), np.arange(*args, dtype=dtype))
    for args in ((0, 3, 0.5), (0.5, 9, 1.6)):
        check(standin, standin.arange(View, *args, np.dtype("i4")), np.arange(*args, dtype="i4"))


@pytest.mark.parametrize(
    "args", [(0, 1e30, 1), (0, 5, 0), (0, float("nan"), 1), (True, False, True), (0, 2j, 1j)], ids=str
)
def test_arange_of_the_unusual(standin, args):
    try:
        expected = np.arange(*args)
    except Exception as error:  # noqa: BLE001
        with pytest.raises(type(error)):
            standin.arange(View, *args, None)
    else:
        check(standin, standin.arange(View, *args, None), expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_host_gets_what_there_is(standin, name):
    """What has no gaps comes as it is; what has some is made compact first, and no more is copied than there is."""
    a = LAYOUTS[name](values(np.float32))
    x = standin.view(a)
    standin.calls.clear()
    check(standin, x, a)
    assert bool(standin.calls) == (name in ("strided", "negative", "offset"))


def test_bytes_are_copied(standin):
    a = np.arange(100, dtype=np.uint8)
    x, y = standin.view(a), standin.view(np.zeros(100, np.uint8))
    moving.copy_bytes(standin, y._state()[0] + 3, x._state()[0] + 7, 50)
    moving.copy_bytes(standin, y._state()[0], x._state()[0], 0)
    assert standin.to_host(y).tolist() == [0] * 3 + list(range(7, 57)) + [0] * 47


def test_without_numba(standin, monkeypatch):
    """What is contiguous moves by the driver alone; what needs a kernel says in a sentence what is missing."""
    from nbdlpack.errors import DeviceError

    def missing():
        msg = "numba-cuda is not installed"
        raise DeviceError(msg)

    monkeypatch.setattr(moving, "kernels", missing)
    monkeypatch.setattr(moving, "have_kernels", lambda: False)
    a = values(np.float32)
    x, y = standin.from_host(View, a), standin.from_host(View, np.zeros_like(a))
    standin.assign(y, x)
    check(standin, y, a)
    standin.assign(y, 0)
    check(standin, y, np.zeros_like(a))
    standin.assign(y, 2.5)
    check(standin, y, np.full_like(a, 2.5))
    check(standin, standin.view(a[::2, ::-2]), a[::2, ::-2])
    check(standin, standin.arange(View, 0, 50, 2, None), np.arange(0, 50, 2))
    assert not standin.calls
    with pytest.raises(DeviceError, match="numba-cuda is not installed"):
        standin.assign(standin.view(a[::2]), standin.view(a[::2]))
    with pytest.raises(DeviceError, match="numba-cuda is not installed"):
        standin.assign(x, standin.from_host(View, a.astype(np.float64)))
    with pytest.raises(DeviceError, match="numba-cuda is not installed"):
        standin.assign(standin.view(a[::2]), 3)


@pytest.mark.skipif(harness.SIMULATED or not hostcuda.installed(), reason="nothing counts what waits")
def test_nothing_waits(standin):
    a = values(np.float32)
    x, y, z = standin.view(a), standin.view(a.T), standin.view(a.astype(np.float64))
    hostcuda.reset_stats()
    standin.assign(x, y._view(View, 0, y.dtype, 0, (4, 6), (1, 4)))
    standin.assign(x, z)
    standin.assign(x, 3)
    standin.assign(x, a)
    standin.assign(x, a[0])
    standin.arange(View, 0, 100, 1, None)
    assert hostcuda.stats()["syncs"] == 0
    assert hostcuda.stats()["d2h"] == 0
