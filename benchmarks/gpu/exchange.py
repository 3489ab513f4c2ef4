"""Stage 3: exchange with other libraries, each side working on a stream of its own; and a capture.

Each side has a row of slow work on its stream when the other one takes the array, so that an order that is missing
shows as wrong numbers.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import nbdlpack as nd
from benchmarks.gpu import Absent, call, context, here, main, needed, quick

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpu import Check

N, STEPS = (1 << 12, 5) if quick() else (1 << 24, 60)
"""How many elements, and how often they are worked on before the other side gets them."""


class Peer(NamedTuple):
    """A library, as far as this stage needs it."""

    take: Callable[[Any], Any]
    """Its `from_dlpack`."""
    zeros: Callable[[], Any]
    """N elements of float32."""
    on_stream: Callable[[], AbstractContextManager[object]]
    """A context in which its work goes to a stream of its own."""
    host: Callable[[Any], np.ndarray]
    address: Callable[[Any], int]
    synchronize: Callable[[Any], object]
    """Wait for its work."""


def torch() -> Peer:
    """Return PyTorch."""
    torch = here("torch", "cuda.is_available")
    return Peer(
        take=torch.from_dlpack,
        zeros=lambda: torch.zeros(N, dtype=torch.float32, device="cuda"),
        on_stream=lambda: torch.cuda.stream(torch.cuda.Stream()),
        host=lambda t: t.cpu().numpy(),
        address=lambda t: t.data_ptr(),
        synchronize=lambda _: torch.cuda.synchronize(),
    )


def cupy() -> Peer:
    """Return CuPy."""
    cupy = here("cupy", "is_available")
    return Peer(
        take=cupy.from_dlpack,
        zeros=lambda: cupy.zeros(N, dtype=cupy.float32),
        on_stream=lambda: cupy.cuda.Stream(non_blocking=True),
        host=cupy.asnumpy,
        address=lambda c: c.data.ptr,
        synchronize=lambda _: cupy.cuda.Device().synchronize(),
    )


def jax() -> Peer:
    """Return JAX, which chooses streams by itself."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of the memory
    jax = needed("jax")
    if jax.default_backend() not in ("gpu", "cuda"):
        msg = f"JAX {jax.__version__} finds no GPU"
        raise Absent(msg)
    return Peer(
        take=jax.dlpack.from_dlpack,
        zeros=lambda: jax.numpy.zeros(N, dtype=jax.numpy.float32),
        on_stream=nullcontext,
        host=np.asarray,
        address=lambda a: a.unsafe_buffer_pointer(),
        synchronize=lambda a: a.block_until_ready(),
    )


def expect(found: np.ndarray, wanted: float) -> None:
    """Raise AssertionError unless all elements are this."""
    np.testing.assert_array_equal(found, np.full(N, wanted, np.float32))


def ours(wanted: nd.ndarray) -> np.ndarray:
    """Return the elements of an array of ours."""
    return np.asarray(wanted.to_device("cpu"))


def where(same: bool) -> str:  # noqa: FBT001
    """Return in words whether memory was shared."""
    return "without a copy" if same else "by a copy"


def given(find: Callable[[], Peer]) -> str:
    """Let a library take an array of ours that is still worked on, and take it back."""
    peer = find()
    with nd.Stream() as stream:
        x = nd.zeros(N, dtype=nd.float32, device="cuda")
        for _ in range(STEPS):
            x += 1
    with peer.on_stream():
        t = peer.take(x)
        u = t + 1
        with stream:
            y = nd.from_dlpack(u)
            z = y + 1
        peer.synchronize(u)
        expect(peer.host(u), STEPS + 1)
        expect(ours(z), STEPS + 2)
        return where(peer.address(t) == x.ptr)


def taken(find: Callable[[], Peer]) -> str:
    """Take an array of a library that still works on it, and give it back."""
    peer = find()
    stream = nd.Stream()
    with peer.on_stream():
        t = peer.zeros()
        for _ in range(STEPS):
            t = t + 1
        with stream:
            x = nd.from_dlpack(t)
            y = x
            for _ in range(STEPS):
                y = y + 1
            u = peer.take(y) + 1
        peer.synchronize(u)
        expect(peer.host(u), 2 * STEPS + 1)
        expect(ours(y), 2 * STEPS)
        return where(peer.address(t) == nd.readonly(x).ptr)


def cuda_core() -> str:
    """Exchange with cuda.core: a view of our array, a buffer of theirs."""
    core = needed("cuda.core", "cuda-core")
    view = needed("cuda.core.utils", "cuda-core").StridedMemoryView
    with nd.Stream() as stream:
        x = nd.zeros(N, dtype=nd.float32, device="cuda")
        for _ in range(STEPS):
            x += 1
        seen = view.from_any_interface(x, stream_ptr=stream.handle)
    device = core.Device(0)
    device.set_current()
    theirs = device.create_stream()
    buffer = device.allocate(4 * N, stream=theirs)
    theirs.sync()
    call(context().cuMemcpyDtoDAsync, int(buffer.handle), seen.ptr, 4 * N, stream.handle)
    stream.synchronize()
    y = nd.from_dlpack(buffer)
    expect(ours(y).view(np.float32), STEPS)
    return where(seen.ptr == x.ptr)


def numba_array() -> str:
    """Let Numba take an array of ours by the interface that it has for it."""
    needed("nbdlpack.kernels.numba_cuda", "numba-cuda")
    cuda = needed("numba.cuda", "numba-cuda")
    with nd.Stream():
        x = nd.zeros(N, dtype=nd.float32, device="cuda")
        for _ in range(STEPS):
            x += 1
        d = cuda.as_cuda_array(x)
    expect(d.copy_to_host(), STEPS)
    return where(d.device_ctypes_pointer.value == x.ptr)


def capture() -> str:
    """Capture two operations, and replay them on other numbers."""
    driver = context()
    x = nd.zeros(N, dtype=nd.float32, device="cuda")
    out = nd.zeros(N, dtype=nd.float32, device="cuda")
    stream = nd.Stream()

    def work() -> None:
        nd.add(x, 1, out=out)
        nd.multiply(out, 3, out=out)

    with stream:
        work()  # compiles, and gives `out` memory of its own
        stream.synchronize()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        call(driver.cuStreamBeginCapture, stream.handle, mode)
        try:
            work()
        finally:
            graph = call(driver.cuStreamEndCapture, stream.handle)
        replay = call(driver.cuGraphInstantiate, graph, 0)
        for number in range(3):
            x[...] = number
            call(driver.cuGraphLaunch, replay, stream.handle)
            stream.synchronize()
            expect(ours(out), 3 * (number + 1))
        call(driver.cuGraphExecDestroy, replay)
        call(driver.cuGraphDestroy, graph)
    return "replayed 3 times"


def both_ways(name: str, find: Callable[[], Peer]) -> dict[str, Check]:
    """Return the checks with a library."""
    return {f"{name} takes ours": lambda: given(find), f"{name}'s is taken": lambda: taken(find)}


CHECKS: dict[str, Check] = {
    "cuda.core": cuda_core,
    "Numba": numba_array,
    "capture and replay": capture,
    **both_ways("torch", torch),
    **both_ways("CuPy", cupy),
    **both_ways("JAX", jax),
}

if __name__ == "__main__":
    main(CHECKS)
