"""Arrays as arguments of the users' own kernels."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager

import ml_dtypes
import numpy as np
import pytest

import nbdlpack as nd
from nbdlpack.errors import CopyError, DeviceError
from tests import simulator_skips

pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[hostcuda]'")
simulator_skips.skip_module(__name__)

from cuda.core import Device as CoreDevice  # noqa: E402
from numba import cuda  # noqa: E402
from numba.core.errors import TypingError  # noqa: E402
from numba.cuda import dispatcher, types  # noqa: E402

# Small grids are what is wanted here.
pytestmark = [
    pytest.mark.usefixtures("cuda"),
    pytest.mark.filterwarnings("ignore:Grid size", "ignore:Host array used"),
]

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


@cuda.jit
def copy(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i]


@cuda.jit
def copy2(x, out):
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]


@cuda.jit
def axpy(a, x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = a * x[i] + y[i]


@cuda.jit
def fill(x, value):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = value


@cuda.jit
def set0(x, value):
    x[()] = value


@cuda.jit
def describe(x, out):
    out[0] = x.ndim
    out[1] = x.size
    for axis in range(x.ndim):
        out[2 + 2 * axis] = x.shape[axis]
        out[3 + 2 * axis] = x.strides[axis]


@cuda.jit
def of_a_tuple(pair, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = pair[0][i] + pair[1][i]


@pytest.fixture(autouse=True)
def _no_stream_is_kept():
    """Numba keeps the last launch configurations, with their streams, and destroys those of its own later."""
    yield
    dispatcher.CUDADispatcher.configure.cache_clear()
    cuda.current_context().deallocations.clear()


class Foreign:
    """A stream of some other library."""

    def __init__(self):
        self.stream = CoreDevice().create_stream()

    def __cuda_stream__(self):
        return 0, int(self.stream.handle)


@contextmanager
def launching(hook):
    """Call something between the preparation of a launch of a user's kernel and the launch itself."""
    launch = dispatcher.launch

    def hooked(*args):
        hook()
        launch(*args)

    dispatcher.launch = hooked
    try:
        yield
    finally:
        dispatcher.launch = launch


def on_gpu(a):
    return nd.asarray(a, device="cuda")


def moves():
    return nd.copy_stats().moves


class TestTypes:
    @pytest.mark.parametrize("name", DTYPES)
    def test_every_dtype_of_numba_is_copied_by_a_kernel(self, name):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        a = np.array([0, 1, 1, 0, 1]).astype(dtype)
        x, out = on_gpu(a), nd.zeros(5, dtype=dtype, device="cuda")
        copy[1, 32](x, out)
        assert np.array(out).tobytes() == a.tobytes()

    def test_a_dtype_that_numba_does_not_have_is_told_with_a_way_out(self):
        x = nd.zeros(3, dtype=ml_dtypes.float8_e4m3fn, device="cuda")
        with pytest.raises(TypeError, match=r"know no float8_e4m3fn.*x\.view\('uint8'\)"):
            fill[1, 1](x, 1)
        fill[1, 1](x.view("uint8"), 0x38)
        assert np.array(x).astype(float).tolist() == [1, 1, 1]

    @pytest.mark.parametrize(
        ("make", "layout"),
        [
            (lambda x: x, "C"),
            (lambda x: x.T, "F"),
            (lambda x: x[:, ::2], "A"),
            (lambda x: x[::-1], "A"),
            (lambda x: x[0], "C"),
            (lambda x: x[:0], "C"),
            (lambda x: x[0, 0], "C"),
        ],
    )
    def test_layouts_are_numbas(self, make, layout):
        x = make(nd.zeros((3, 4), dtype="float32", device="cuda"))
        assert x._numba_type_ == types.Array(types.float32, x.ndim, layout)
        assert nd.readonly(x)._numba_type_ == types.Array(types.float32, x.ndim, layout, readonly=True)


class TestShapes:
    @pytest.mark.parametrize(
        "key",
        [np.s_[:], np.s_[::-1], np.s_[:, ::-2], np.s_[1:, 1:2], np.s_[:0], np.s_[:, :0], np.s_[::2, ::3]],
        ids=str,
    )
    def test_views_are_taken_as_they_are(self, key):
        a = np.arange(20.0).reshape(4, 5)
        x, target = on_gpu(a)[key], nd.zeros((5, 4), device="cuda").T[key]
        copy2[2, 3](x, target)
        assert target.tolist() == a[key].tolist()

    def test_a_kernel_sees_numpys_shape_and_strides(self):
        x = nd.zeros((4, 6, 2), dtype="int16", device="cuda")[::-1, 1::2]
        out = nd.zeros(8, dtype="int64", device="cuda")
        describe[1, 1](x, out)
        assert out.tolist() == [3, 24, 4, -24, 3, 8, 2, 2]

    def test_arrays_without_dimensions_and_without_elements(self):
        x, empty = nd.zeros((), device="cuda"), nd.zeros((0,), device="cuda")
        set0[1, 1](x, 2.5)
        fill[1, 4](empty, 1.0)
        copy[1, 4](empty, empty)
        assert x.item() == 2.5

    def test_two_views_of_one_storage_and_one_array_twice(self):
        x = nd.arange(8.0, device="cuda")
        copy[1, 4](x[:4], x[4:])
        assert x.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
        axpy[1, 8](2.0, x, x)
        assert x.tolist() == [0, 3, 6, 9, 0, 3, 6, 9]

    def test_tuples_of_arrays(self):
        x, out = nd.arange(4.0, device="cuda"), nd.zeros(2, device="cuda")
        of_a_tuple[1, 2]((x[:2], nd.readonly(x)[2:]), out)
        assert out.tolist() == [2, 4]

    def test_beside_numpys_and_numbas_arrays_and_scalars(self):
        a, d = np.arange(4.0), cuda.to_device(np.ones(4))
        y = nd.ones(4, device="cuda")
        axpy[1, 4](np.float64(2), a, y)
        axpy[1, 4](1, y, d)
        assert y.tolist() == [1, 3, 5, 7]
        assert d.copy_to_host().tolist() == [2, 4, 6, 8]

    def test_subclasses(self):
        class Sub(nd.ndarray):
            pass

        x = nd.zeros(3, device="cuda")
        sub = x._view(Sub, 0, x.dtype, 0, x.shape, x._steps)
        fill[1, 4](sub, 4.0)
        assert x.tolist() == [4, 4, 4]


class TestCopyOnWrite:
    def test_what_a_kernel_may_write_to_moves_first_once(self):
        x = nd.arange(4.0, device="cuda")
        y, before, began = x.copy(), x._state()[0], moves()
        fill[1, 4](y, 7.0)
        fill[1, 4](y, 8.0)
        assert moves() == began + 1
        assert (x.tolist(), y.tolist()) == ([0, 1, 2, 3], [8, 8, 8, 8])
        assert x._state()[0] == before != y._state()[0]

    def test_what_is_read_only_neither_moves_nor_splits(self):
        x, out = nd.arange(4.0, device="cuda"), nd.zeros(4, device="cuda")
        y, before, began = x.copy(), x._state()[0], moves()
        copy[1, 4](nd.readonly(x), out)
        assert moves() == began
        assert nd.is_shared(x)
        assert nd.is_shared(y)
        assert x._state()[0] == before
        assert out.tolist() == [0, 1, 2, 3]

    def test_what_is_read_only_moves_with_a_view_of_it_that_is_written_to(self):
        x = nd.arange(4.0, device="cuda")
        y = x.copy()
        axpy[1, 4](1.0, nd.readonly(x), x)
        assert (x.tolist(), y.tolist()) == ([0, 2, 4, 6], [0, 1, 2, 3])

    def test_views_move_together(self):
        x = nd.arange(4.0, device="cuda")
        part, y = x[1:3], x.copy()
        fill[1, 4](part, 9.0)
        assert (x.tolist(), y.tolist()) == ([0, 9, 9, 3], [0, 1, 2, 3])

    def test_a_kernel_that_writes_to_what_is_read_only_does_not_compile(self):
        x = nd.readonly(nd.zeros(4, device="cuda"))
        with pytest.raises(TypingError, match="[Cc]annot .*readonly|read-?only"):
            fill[1, 4](x, 1.0)
        assert x.tolist() == [0, 0, 0, 0]

    def test_no_copies_refuses_before_the_launch(self):
        x = nd.arange(4.0, device="cuda")
        y = x.copy()
        with nd.no_copies(), pytest.raises(CopyError, match="no_copies"):
            fill[1, 4](x, 1.0)
        assert nd.is_shared(x)
        assert y.tolist() == [0, 1, 2, 3]
        with nd.copy_log() as log:
            fill[1, 4](x, 1.0)
        assert [(copied.nbytes, copied.source) for copied in log] == [(32, "cuda")]
        assert __file__ in log[0].where


@pytest.mark.hostcuda_modes("sync/forward", "lazy/forward")
@pytest.mark.parametrize("kind", ["cuda_host", "cuda_managed"])
class TestHostMemory:
    def test_every_gpu_takes_it(self, kind):
        x = nd.zeros(4, device=kind)
        y = x.copy()
        fill[1, 4](x, 2.0)
        if nd.is_available("cuda:1"):
            with cuda.gpus[1]:
                axpy[1, 4](1.0, nd.readonly(x), x)
        assert (x.tolist(), y.tolist()) == ([4, 4, 4, 4] if nd.is_available("cuda:1") else [2, 2, 2, 2], [0, 0, 0, 0])

    def test_the_cpu_waits_for_the_kernel(self, kind):
        x, stream = nd.zeros(1000, device=kind), nd.Stream()
        fill[4, 32, stream](x, 2.0)
        assert x.tolist() == [2.0] * 1000

    def test_the_cpu_waits_before_it_writes(self, kind):
        x, out, stream = nd.ones(1000, device=kind), nd.zeros(1000, device="cuda"), nd.Stream()
        copy[4, 32, stream](nd.readonly(x), out)
        x[...] = 5
        assert out.tolist() == [1.0] * 1000


def test_a_launch_waits_for_nothing_and_copies_nothing_by_itself(hostcuda):
    x, out = nd.arange(100.0, device="cuda"), nd.zeros(100, device="cuda")
    kept = x.copy()  # noqa: F841 - so that x has to move
    copy[1, 32](nd.readonly(x), out)
    hostcuda.reset_stats()
    copy[1, 32](nd.readonly(x), out)
    stats = hostcuda.stats()
    assert (stats["syncs"], stats["launches"], stats["allocs"], stats["d2d"], stats["h2d"]) == (0, 1, 0, 0, 0)
    fill[1, 32](x, 1.0)
    stats = hostcuda.stats()
    assert (stats["syncs"], stats["launches"], stats["allocs"]) == (0, 3, 1)  # the copy is a kernel of the library's


class TestSignatures:
    def test_a_kernel_of_one_signature(self):
        kernel = cuda.jit("void(float32[:], float32)")(fill.py_func)
        x = nd.zeros(4, dtype="float32", device="cuda")
        y = x.copy()
        kernel[1, 4](x, 3)
        kernel[1, 4](x[::2], 4)
        assert (x.tolist(), y.tolist()) == ([4, 3, 4, 3], [0, 0, 0, 0])

    def test_what_does_not_fit_the_signature_is_refused(self):
        kernel = cuda.jit("void(float32[::1], float32)")(fill.py_func)
        x = nd.zeros((4, 4), dtype="float32", device="cuda")
        with pytest.raises(TypeError, match="takes 2 arguments, and 1 were given"):
            kernel[1, 4](x)
        for wrong in (x, x[0, ::2], x[0].astype("float64"), nd.readonly(x[0])):
            y = wrong.copy()
            with pytest.raises(TypeError, match="but the kernel was compiled for"):
                kernel[1, 4](wrong, 1)
            assert nd.is_shared(wrong) == nd.is_shared(y)
        kernel[1, 4](x[0], 1)
        assert x[0].tolist() == [1, 1, 1, 1]

    def test_a_parameter_that_is_read_only_takes_what_can_be_written_to_and_moves_nothing(self):
        source = types.Array(types.float64, 1, "A", readonly=True)
        kernel = cuda.jit(types.void(source, types.float64[:]))(copy.py_func)
        x, out = nd.arange(4.0, device="cuda"), nd.zeros(4, device="cuda")
        y, began = x.copy(), moves()
        kernel[1, 4](x, out)
        assert moves() == began
        assert nd.is_shared(y)
        assert out.tolist() == [0, 1, 2, 3]

    def test_several_signatures_specializations_and_forall(self):
        kernel = cuda.jit(["void(float32[:], float32)", "void(float64[:], float64)"])(fill.py_func)
        for dtype in ("float32", "float64"):
            x = nd.zeros(4, dtype=dtype, device="cuda")
            kernel[1, 4](x, x.dtype.type(2))
            assert x.tolist() == [2, 2, 2, 2]
        x, y = nd.arange(4.0, device="cuda"), nd.zeros(4, device="cuda")
        copy.specialize(x, y)[1, 4](x, y)
        axpy.forall(4)(3.0, x, y)
        assert y.tolist() == [0, 4, 8, 12]

    def test_kernels_that_check_for_exceptions(self):
        @cuda.jit(debug=True, opt=False)
        def checked(x, i):
            if i > 3:
                raise ValueError("too large")
            x[i] = 1

        x = nd.zeros(4, device="cuda")
        y = x.copy()
        checked[1, 1](x, 2)
        with pytest.raises(ValueError, match="too large"):
            checked[1, 1](x, 4)
        x[0] = 5
        assert (x.tolist(), y.tolist()) == ([5, 0, 1, 0], [0, 0, 0, 0])

    def test_numbas_arrays_over_ours(self):
        x = nd.arange(4.0, device="cuda")
        d = cuda.as_cuda_array(x)
        fill[1, 4](d, 2.0)
        assert x.tolist() == [2, 2, 2, 2]


class TestRefusals:
    def test_an_array_on_the_cpu_is_refused_before_the_launch(self):
        x, out = nd.zeros(4, device="cpu"), nd.zeros(4, device="cuda")
        z = out.copy()
        for _ in range(2):
            with pytest.raises(DeviceError, match=r"an array on cpu .* launched on cuda.* x\.to_device\('cuda'\)"):
                copy[1, 4](x, out)
        assert nd.is_shared(z)
        kernel = cuda.jit("void(float64[:], float64[:])")(copy.py_func)
        with pytest.raises(DeviceError, match="an array on cpu"):
            kernel[1, 4](x, out)
        assert nd.is_shared(z)

    def test_an_array_of_another_gpu_is_refused_and_taken_there(self):
        if not nd.is_available("cuda:1"):
            pytest.skip("there is one GPU")
        x, y = nd.zeros(4, device="cuda"), nd.zeros(4, device="cuda:1")
        with pytest.raises(DeviceError, match=r"an array on cuda:1 .* launched on cuda: .*x\.to_device\('cuda'\)"):
            copy[1, 4](y, x)
        with cuda.gpus[1]:
            fill[1, 4](y, 3.0)
            with pytest.raises(DeviceError, match="an array on cuda was passed to a kernel .* launched on cuda:1"):
                fill[1, 4](x, 3.0)
        assert (x.tolist(), y.tolist()) == ([0, 0, 0, 0], [3, 3, 3, 3])

    def test_without_memory_to_move_to_nothing_is_launched_and_nothing_changes(self, hostcuda):
        x = nd.arange(1000.0, device="cuda")
        y = x.copy()
        fill[1, 1](nd.zeros(1, device="cuda"), 1.0)  # compiled
        hostcuda.reset_stats()
        hostcuda.fail_alloc(1, 0)
        with pytest.raises(MemoryError, match="8000 bytes"):
            fill[1, 4](x, 1.0)
        hostcuda.clear_fail_alloc()
        assert hostcuda.stats()["launches"] == 0
        assert nd.is_shared(x)
        fill[1, 4](x, 1.0)
        assert x.tolist() == [1.0] * 1000
        assert y.tolist() == list(range(1000))

    def test_after_a_launch_that_fails_all_is_as_before(self):
        x = nd.arange(4.0, device="cuda")
        y = x.copy()
        with pytest.raises(Exception, match=r"(?i)invalid"):
            fill[1, 4096](x, 1.0)
        written = threading.Thread(target=lambda: x.__setitem__(0, 5))
        written.start()
        written.join(10)
        assert not written.is_alive()
        assert (x.tolist(), y.tolist()) == ([5, 1, 2, 3], [0, 1, 2, 3])

    def test_an_error_of_another_argument_lets_go_of_the_arrays(self):
        x = nd.zeros(4, device="cuda")
        with pytest.raises(Exception):  # noqa: B017 - whatever Numba says of it
            fill[1, 4](x, object())
        written = threading.Thread(target=lambda: x.__setitem__(0, 5))
        written.start()
        written.join(10)
        assert x.tolist() == [5, 0, 0, 0]

    def test_an_array_that_is_dropped_at_once_is_kept_until_the_kernel_has_run(self):
        out = nd.zeros(1000, device="cuda")
        for n in range(5):
            copy[1, 32](nd.full(1000, n, dtype="float64", device="cuda"), out)
            gc.collect()
        assert out.tolist() == [4] * 1000


class TestThreads:
    def test_a_copy_that_is_made_at_the_moment_of_the_launch_sees_all_of_it(self):
        x, copies = nd.zeros(100, device="cuda"), []
        threads = []

        def hook():
            threads.append(threading.Thread(target=lambda: copies.append(x.copy())))
            threads[-1].start()
            threads[-1].join(0.05)

        with launching(hook):
            fill[1, 32](x, 3.0)
        for thread in threads:
            thread.join(10)
        fill[1, 32](x, 4.0)
        assert [y.tolist() for y in copies] == [[3.0] * 100]
        assert x.tolist() == [4.0] * 100

    def test_a_write_of_another_thread_comes_before_the_launch_or_after_it(self):
        x, out = nd.zeros(100, device="cuda"), nd.ones(100, device="cuda")
        keep, threads = x.copy(), []

        def hook():
            threads.append(threading.Thread(target=lambda: x.__setitem__(slice(None), 7)))
            threads[-1].start()
            threads[-1].join(0.05)

        with launching(hook):
            copy[1, 32](nd.readonly(x), out)
        for thread in threads:
            thread.join(10)
        assert out.tolist() == [0.0] * 100
        assert x.tolist() == [7.0] * 100
        assert keep.tolist() == [0.0] * 100

    def test_two_threads_that_name_the_same_arrays_in_opposite_order_do_not_wait_for_ever(self):
        x, y = nd.zeros(16, device="cuda"), nd.zeros(16, device="cuda")
        done = []

        def run(first, second):
            for _ in range(50):
                axpy[1, 16](1.0, first, second)
            done.append(1)

        threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in ((x, y), (y, x))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(done) == 2


STREAMS = {
    "numba's": lambda: cuda.stream(),
    "cuda.core's": lambda: CoreDevice().create_stream(),
    "ours": lambda: nd.Stream(),
    "another library's": Foreign,
    "the default": lambda: 0,
}


@pytest.mark.hostcuda_modes
@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
class TestStreams:
    """Each is right only if the launch stream waits for what came before, and others for the launch."""

    def test_a_kernel_waits_for_what_its_arguments_wait_for(self, make):
        stream, other = make(), nd.Stream()
        with other:
            x = nd.full(1000, 3.0, device="cuda")
            out = nd.zeros(1000, device="cuda")
        copy[4, 32, stream](nd.readonly(x), out)
        assert out.tolist() == [3.0] * 1000

    def test_what_a_kernel_writes_is_read_on_another_stream(self, make):
        stream, other = make(), nd.Stream()
        x = nd.zeros(1000, device="cuda")
        fill[4, 32, stream](x, 2.0)
        with other:
            y = x + 1
        assert y.tolist() == [3.0] * 1000

    def test_what_a_kernel_reads_is_not_overwritten_by_another_stream(self, make):
        stream, other = make(), nd.Stream()
        x, out = nd.ones(1000, device="cuda"), nd.zeros(1000, device="cuda")
        copy[4, 32, stream](nd.readonly(x), out)
        with other:
            x[...] = 9
        assert out.tolist() == [1.0] * 1000
        assert x.tolist() == [9.0] * 1000

    def test_a_move_for_a_kernel_is_in_order(self, make):
        stream, other = make(), nd.Stream()
        with other:
            x = nd.arange(1000.0, device="cuda")
            y = x.copy()
        axpy[4, 32, stream](1.0, nd.readonly(y), x)
        with other:
            z = x - y
        assert z.tolist() == list(range(1000))
        assert y.tolist() == list(range(1000))

    def test_memory_is_given_back_after_the_kernel(self, make):
        stream = make()
        out = nd.zeros(1000, device="cuda")
        for n in range(4):
            x = nd.full(1000, float(n), device="cuda")
            axpy[4, 32, stream](1.0, nd.readonly(x), out)
            del x
            nd.full(1000, 100.0, device="cuda")  # what takes its place
        assert out.tolist() == [6.0] * 1000


def test_something_that_is_no_stream_is_refused_as_by_numba():
    with pytest.raises(TypeError, match="Stream"):
        fill[1, 1, "stream"]


LATE = """
import sys
import numpy as np
import nbdlpack as nd

x, s = nd.empty(4, dtype="float32", device="cuda"), nd.Stream()
assert "numba" not in sys.modules
{before}
from numba import cuda
import warnings
warnings.simplefilter("ignore")

@cuda.jit("void(float32[:], float32)")
def fill(x, value):
    x[cuda.grid(1)] = value

fill[1, 4, s](x, 2)
y = x.copy()
fill[1, 4, s](y, 3)
assert (x.tolist(), y.tolist()) == ([2, 2, 2, 2], [3, 3, 3, 3])
try:
    fill[1, 4](nd.zeros(4, dtype="float32", device="cpu"), 1)
except nd.errors.DeviceError:
    print("refused")
assert not any("nbdlpack" in type(finder).__module__ for finder in sys.meta_path)
"""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "nd.Stream()", "import numba; numba.njit(lambda: 0)()"])
def test_numba_may_be_imported_after_the_first_array(hostcuda, before):
    assert hostcuda.python("-c", LATE.format(before=before)) == "refused\n"
