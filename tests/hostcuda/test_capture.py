"""hostcuda captures streams, and replays them."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import tests.hostcuda as host
from tests.hostcuda.tools import ACTIVE, INVALIDATED, NONE, STREAM_MODES, call, contents, numba_stream, refused, view

pytestmark = pytest.mark.filterwarnings("ignore:Grid size")


@pytest.fixture
def modes(drv):
    """The capture modes GLOBAL, THREAD_LOCAL and RELAXED."""
    return [drv.CUstreamCaptureMode(i) for i in range(3)]


def status(s):
    return int(call("cuStreamIsCapturing", s))


@pytest.mark.hostcuda_modes(*STREAM_MODES)
def test_capture_and_replay(hostcuda_modes, hostcuda, kernels, modes, stream, event, memory, pinned):
    n, mode = 64, hostcuda_modes
    kernels.plus[1, n](view(memory(4 * n), n), view(memory(4 * n), n), 0)  # compiled and loaded before the capture
    source, out, a, b, calls = pinned(n), pinned(n), memory(4 * n), memory(4 * n), []
    on_host = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: calls.append(1))
    source[:], out[:] = 1, 0
    call("cuMemsetD8", a, 0, 4 * n)
    s, t, fork, join = stream(), stream(0), event(2), event(2)
    call("cuCtxSynchronize")
    hostcuda.reset_stats()
    graphs = hostcuda.stats()["graphs"]
    assert status(s) == NONE
    call("cuStreamBeginCapture", s, modes[0])
    assert (status(s), status(t), hostcuda.stats()["captures"]) == (ACTIVE, NONE, 1)
    call("cuMemcpyHtoDAsync", a, source.ctypes.data, 4 * n, s)
    call("cuEventRecord", fork, s)
    call("cuStreamWaitEvent", t, fork, 0)  # t joins the capture
    assert status(t) == ACTIVE
    assert int(call("cuStreamGetCaptureInfo", t)[1]) == int(call("cuStreamGetCaptureInfo", s)[1])
    between = call("cuMemAllocAsync", 4 * n, t)
    kernels.plus[1, n, numba_stream(t)](view(a, n), view(between, n), 1)
    call("cuEventRecord", join, t)
    call("cuMemsetD32Async", b, 0, n, s)
    call("cuStreamWaitEvent", s, join, 0)
    kernels.plus[1, n, numba_stream(s)](view(between, n), view(b, n), 1)
    call("cuMemFreeAsync", between, s)
    call("cuMemcpyDtoHAsync", out.ctypes.data, b, 4 * n, s)
    call("cuLaunchHostFunc", s, ctypes.cast(on_host, ctypes.c_void_p).value, 0)
    done = hostcuda.stats()
    assert (done["launches"], done["pending"], calls) == (0, 0, [])
    graph = call("cuStreamEndCapture", s)
    assert (status(s), status(t)) == (NONE, NONE)
    kinds = [int(call("cuGraphNodeGetType", node)) for node in call("cuGraphGetNodes", graph, 8)[0]]
    assert kinds == [1, 10, 0, 2, 0, 11, 1, 3]  # copy, allocation, kernel, set, kernel, free, copy, host
    assert (contents(a, n) == 0).all()
    assert (out == 0).all()
    run, live = call("cuGraphInstantiate", graph, 0), hostcuda.stats()["live"]
    call("cuGraphDestroy", graph)
    for k in (1, 5):
        source[:] = k  # a graph reads its sources when it runs
        call("cuGraphLaunch", run, s)
        assert mode != "lazy" or hostcuda.stats()["pending"] > 0
        call("cuStreamSynchronize", s)
        assert (out == k + 2).all()
        assert hostcuda.stats()["live"] == live
    assert hostcuda.stats()["launches"] == 4
    assert len(calls) == 2
    source[:], other = 9, stream()
    call("cuGraphLaunch", run, s)
    call("cuGraphLaunch", run, other)  # not before the one in s
    call("cuStreamSynchronize", other)
    assert (out == 11).all()
    assert len(calls) == 4
    call("cuGraphExecDestroy", run)
    assert hostcuda.stats()["graphs"] == graphs
    refused("INVALID_VALUE", "cuGraphLaunch", run, s)


def test_graph_memory_outlives_the_launch(drv, hostcuda, modes, stream):
    s, live = stream(), hostcuda.stats()["live"]
    call("cuStreamBeginCapture", s, modes[1])
    p = call("cuMemAllocAsync", 256, s)
    call("cuMemsetD8Async", p, 4, 256, s)
    graph = call("cuStreamEndCapture", s)
    run = call("cuGraphInstantiate", graph, 0)
    call("cuGraphDestroy", graph)
    assert hostcuda.stats()["live"] == live
    call("cuGraphLaunch", run, s)
    assert (contents(p, 256, "u1") == 4).all()
    assert hostcuda.stats()["live"] == live + 1
    refused("INVALID_VALUE", "cuGraphLaunch", run, s)  # what it allocated is not free yet
    call("cuMemFreeAsync", p, s)
    assert hostcuda.stats()["live"] == live
    call("cuGraphLaunch", run, s)
    call("cuMemFree", p)
    call("cuGraphExecDestroy", run)
    assert hostcuda.stats()["live"] == live


@pytest.mark.hostcuda_nocheck("faults")
def test_a_graph_of_freed_memory_fails(drv, modes, stream):
    s, p = stream(), call("cuMemAlloc", 64)
    call("cuStreamBeginCapture", s, modes[2])
    call("cuMemsetD8Async", p, 1, 64, s)
    graph = call("cuStreamEndCapture", s)
    run = call("cuGraphInstantiate", graph, 0)
    call("cuMemFree", p)
    refused("ILLEGAL_ADDRESS", "cuGraphLaunch", run, s)
    assert "already freed" in host.last_error()
    host.clear_error()
    call("cuGraphExecDestroy", run)
    call("cuGraphDestroy", graph)


def test_what_a_capture_refuses(drv, modes, stream, event, memory):
    every_mode, (whole, own, relaxed) = modes, modes
    ctx, p, host_array = call("cuCtxGetCurrent"), memory(64), np.zeros(64, "u1")
    s, other, inside, outside = stream(0), stream(), event(2), event(2)
    call("cuEventRecord", outside, other)

    def broken_by(error, name, *args, mode=whole, on=s):
        call("cuStreamBeginCapture", on, mode)
        call("cuMemsetD8Async", p, 1, 64, on)
        call("cuEventRecord", inside, on)
        refused(error, name, *args)
        assert status(on) == INVALIDATED, name
        refused("STREAM_CAPTURE_INVALIDATED", "cuMemsetD8Async", p, 1, 64, on)
        refused("STREAM_CAPTURE_INVALIDATED", "cuStreamEndCapture", on)
        assert status(on) == NONE

    for mode in every_mode:
        broken_by("STREAM_CAPTURE_UNSUPPORTED", "cuStreamSynchronize", s, mode=mode)
        broken_by("STREAM_CAPTURE_UNSUPPORTED", "cuStreamQuery", s, mode=mode)
        broken_by("STREAM_CAPTURE_UNSUPPORTED", "cuCtxSynchronize", mode=mode)
        broken_by("STREAM_CAPTURE_UNSUPPORTED", "cuCtxRecordEvent", ctx, outside, mode=mode)
        broken_by("STREAM_CAPTURE_UNSUPPORTED", "cuCtxWaitEvent", ctx, outside, mode=mode)
        broken_by("CAPTURED_EVENT", "cuEventQuery", inside, mode=mode)
        broken_by("CAPTURED_EVENT", "cuEventSynchronize", inside, mode=mode)
        broken_by("STREAM_CAPTURE_ISOLATION", "cuStreamWaitEvent", s, outside, 0, mode=mode)
        broken_by("STREAM_CAPTURE_IMPLICIT", "cuMemsetD8Async", p, 0, 64, 0, mode=mode)  # the legacy stream
        broken_by("STREAM_CAPTURE_IMPLICIT", "cuMemcpyDtoH", host_array.ctypes.data, p, 64, mode=mode)
    for name, *args in (
        ("cuMemAlloc", 64),
        ("cuMemAllocManaged", 64, 1),
        ("cuMemHostAlloc", 64, 0),
        ("cuMemFree", p),
        ("cuEventQuery", outside),
        ("cuStreamSynchronize", other),
    ):
        broken_by("STREAM_CAPTURE_UNSUPPORTED", name, *args)
        if name == "cuMemFree":
            continue
        call("cuStreamBeginCapture", s, relaxed)
        if got := call(name, *args) if "Alloc" in name else drv.__dict__[name](*args) and None:
            call("cuMemFreeHost" if "Host" in name else "cuMemFree", got)
        call("cuGraphDestroy", call("cuStreamEndCapture", s))
    broken_by("STREAM_CAPTURE_UNSUPPORTED", "cuMemcpyDtoH", host_array.ctypes.data, p, 64, on=other)
    call("cuStreamBeginCapture", other, whole)
    call("cuMemsetD8Async", p, 0, 64, 0)  # the legacy stream has no part in it
    call("cuGraphDestroy", call("cuStreamEndCapture", other))

    # asking, and what was asked before, breaks nothing
    call("cuStreamBeginCapture", s, whole)
    refused("STREAM_CAPTURE_IMPLICIT", "cuStreamIsCapturing", 0)
    refused("ILLEGAL_STATE", "cuStreamBeginCapture", s, whole)
    assert status(s) == ACTIVE

    def elsewhere(*calls):
        errors = []

        def work():
            try:
                call("cuCtxSetCurrent", ctx)
                for function in calls:
                    function()
            except AssertionError as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert not errors, errors

    allocate = lambda: call("cuMemFree", call("cuMemAlloc", 64))
    elsewhere(lambda: refused("STREAM_CAPTURE_WRONG_THREAD", "cuStreamEndCapture", s))
    elsewhere(lambda: call("cuThreadExchangeStreamCaptureMode", own), allocate)
    assert call("cuThreadExchangeStreamCaptureMode", relaxed) == whole
    allocate()
    assert call("cuThreadExchangeStreamCaptureMode", whole) == relaxed
    assert status(s) == ACTIVE
    elsewhere(lambda: refused("STREAM_CAPTURE_UNSUPPORTED", "cuMemAlloc", 64))
    assert status(s) == INVALIDATED
    refused("STREAM_CAPTURE_INVALIDATED", "cuStreamEndCapture", s)
    call("cuStreamBeginCapture", s, own)
    elsewhere(allocate)
    refused("STREAM_CAPTURE_UNSUPPORTED", "cuMemAlloc", 64)
    refused("STREAM_CAPTURE_INVALIDATED", "cuStreamEndCapture", s)

    # forks
    call("cuStreamBeginCapture", s, whole)
    call("cuEventRecord", inside, s)
    call("cuStreamWaitEvent", other, inside, 0)
    call("cuMemsetD8Async", p, 0, 64, other)
    refused("STREAM_CAPTURE_UNJOINED", "cuStreamEndCapture", s)
    refused("CAPTURED_EVENT", "cuStreamWaitEvent", other, inside, 0)  # its capture is over
    call("cuStreamBeginCapture", s, whole)
    call("cuEventRecord", inside, s)
    call("cuStreamWaitEvent", other, inside, 0)
    refused("STREAM_CAPTURE_UNMATCHED", "cuStreamEndCapture", other)
    refused("STREAM_CAPTURE_INVALIDATED", "cuStreamEndCapture", s)
    call("cuStreamBeginCapture", s, whole)
    call("cuEventRecord", inside, s)
    call("cuStreamBeginCapture", other, whole)
    refused("STREAM_CAPTURE_MERGE", "cuStreamWaitEvent", other, inside, 0)
    refused("STREAM_CAPTURE_INVALIDATED", "cuStreamEndCapture", s)
    refused("STREAM_CAPTURE_INVALIDATED", "cuStreamEndCapture", other)
    refused("STREAM_CAPTURE_UNSUPPORTED", "cuStreamBeginCapture", 0, whole)
    refused("ILLEGAL_STATE", "cuStreamEndCapture", s)


def test_graphs_keep_user_objects(drv, modes, stream):
    gone, s = [], stream()
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(gone.append)
    no_sync = drv.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
    address = drv.CUhostFn(ctypes.cast(destroy, ctypes.c_void_p).value)
    thing = call("cuUserObjectCreate", 5, address, 1, no_sync)
    call("cuStreamBeginCapture", 2, modes[0])  # this thread's default stream
    graph = call("cuStreamEndCapture", 2)
    call("cuGraphRetainUserObject", graph, thing, 1, drv.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE)
    run = call("cuGraphInstantiate", graph, 0)
    call("cuGraphDestroy", graph)
    call("cuGraphLaunch", run, s)
    assert not gone
    call("cuGraphExecDestroy", run)
    assert gone == [5]
