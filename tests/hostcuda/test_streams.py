"""hostcuda does the work in streams in an order that CUDA allows, and in no other."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import tests.hostcuda as host
from tests.hostcuda.tools import STREAM_MODES, call, contents, refused


@pytest.mark.hostcuda_modes("lazy", "reverse", "random:3", "random:12345")
def test_streams_wait_only_for_what_they_are_told_to(hostcuda_modes, hostcuda, stream, event, memory):
    s, t, e = stream(), stream(), event()
    mode = hostcuda_modes
    for waits in (True, False):
        a, b = memory(1024), memory(1024)
        call("cuMemsetD8Async", a, 5, 1024, s)
        assert hostcuda.stats()["pending"] == 1
        if waits:
            call("cuEventRecord", e, s)
            call("cuStreamWaitEvent", t, e, 0)
        call("cuMemcpyDtoDAsync", b, a, 1024, t)
        call("cuStreamSynchronize", t)
        right = (contents(b, 1024, "u1") == 5).all()
        if waits or not mode.startswith("random"):
            assert right == waits
    # the legacy default stream waits for blocking streams, and they for it
    blocking = stream(0)
    a, b = memory(64), memory(64)
    call("cuMemsetD8Async", a, 1, 64, blocking)
    call("cuMemcpyDtoDAsync", b, a, 64, 0)
    call("cuMemsetD8Async", a, 2, 64, blocking)
    assert (contents(b, 64, "u1") == 1).all()
    assert (contents(a, 64, "u1") == 2).all()
    call("cuEventRecord", e, t)
    while hostcuda.stats()["pending"]:  # polling ends
        call("cuCtxSynchronize")


@pytest.mark.hostcuda_modes("lazy", "reverse")
def test_polling_ends(hostcuda_modes, drv, hostcuda, stream, event, memory):
    s, e, p = stream(), event(), memory(64)
    call("cuMemsetD8Async", p, 1, 64, s)
    call("cuEventRecord", e, s)
    answers = []
    while not answers or answers[-1] != "CUDA_SUCCESS":
        answers.append(drv.cuEventQuery(e)[0].name)
    assert set(answers[:-1]) == {"CUDA_ERROR_NOT_READY"}


def test_copies_take_pageable_sources_at_once_and_pinned_ones_when_they_run(hostcuda, stream, memory, pinned):
    s, p, pageable = stream(), memory(64), np.full(16, 1, "f4")
    source = pinned(16)
    source[:] = 1
    with hostcuda.option(**{"async": "lazy"}):
        call("cuMemcpyHtoDAsync", p, pageable.ctypes.data, 64, s)
        pageable[:] = 2
        call("cuStreamSynchronize", s)
        assert (contents(p, 16) == 1).all()
        call("cuMemcpyHtoDAsync", p, source.ctypes.data, 64, s)
        with hostcuda.option(protect=0):  # which does what is pending, too
            pass
        assert hostcuda.stats()["pending"] == 0
        call("cuMemcpyHtoDAsync", p, source.ctypes.data, 64, s)
        out = np.zeros(16, "f4")
        call("cuMemcpyDtoHAsync", out.ctypes.data, p, 64, s)  # to pageable memory: done when the call returns
        assert (out == 1).all()
        call("cuMemcpyHtoD", p, pageable.ctypes.data, 64)  # from pageable memory: it may still be on its way
        assert hostcuda.stats()["pending"] == 1
        call("cuCtxSynchronize")


@pytest.mark.hostcuda_modes("lazy")
@pytest.mark.hostcuda_nocheck("faults")
def test_stream_ordered_memory_is_there_only_between_its_allocation_and_its_free(hostcuda_modes, stream, drv):
    s, t = stream(), stream()
    p = int(call("cuMemAllocAsync", 64, s))
    call("cuMemsetD8Async", p, 0, 64, t)  # in another stream, without waiting for the allocation
    refused("ILLEGAL_ADDRESS", "cuStreamSynchronize", t)
    assert "not yet allocated in stream order" in host.last_error()
    host.clear_error()
    call("cuStreamSynchronize", s)
    call("cuMemsetD8Async", p, 0, 64, t)
    call("cuMemFreeAsync", p, s)
    call("cuStreamSynchronize", s)
    refused("ILLEGAL_ADDRESS", "cuStreamSynchronize", t)
    assert "already freed" in host.last_error()
    host.clear_error()
    q = int(call("cuMemAlloc", 64))  # but what cuMemFree frees stays until queued work is done
    call("cuMemsetD8Async", q, 0, 64, t)
    call("cuMemFree", q)
    call("cuStreamSynchronize", t)


@pytest.mark.hostcuda_modes(*STREAM_MODES)
def test_work_before_a_stream_ordered_free_may_use_the_memory(hostcuda_modes, stream, memory):
    s, out = stream(), memory(64)
    p = int(call("cuMemAllocAsync", 64, s))
    call("cuMemsetD8Async", p, 3, 64, s)
    call("cuMemcpyDtoDAsync", out, p, 64, s)
    call("cuMemFreeAsync", p, s)
    assert (contents(out, 64, "u1") == 3).all()


@pytest.mark.hostcuda_modes(*STREAM_MODES)
def test_events_of_a_context(hostcuda_modes, drv, hostcuda, stream, event, memory, pinned):
    mode, ctx, mark, late = hostcuda_modes, call("cuCtxGetCurrent"), event(), event()
    streams = [stream(), stream(), stream(0)]
    arrays, outs = [memory(64) for _ in streams], [pinned(16, "i4") for _ in streams]
    for s, a, out in zip(streams, arrays, outs, strict=True):
        call("cuMemsetD32Async", a, 7, 16, s)
        call("cuMemcpyDtoHAsync", out.ctypes.data, a, 64, s)
    call("cuCtxRecordEvent", ctx, mark)
    call("cuMemsetD32Async", arrays[0], 9, 16, streams[0])  # after it: not waited for
    call("cuEventSynchronize", mark)
    assert all((out == 7).all() for out in outs)
    assert mode != "lazy" or hostcuda.stats()["pending"] == 1
    call("cuCtxSynchronize")
    # all later work, of new streams too, waits for an event
    a, first, second = memory(64), streams[0], streams[1]
    call("cuMemsetD32Async", a, 1, 16, first)
    call("cuEventRecord", late, first)
    call("cuCtxWaitEvent", ctx, late)
    for s in (second, stream()):
        call("cuMemcpyDtoDAsync", arrays[1], a, 64, s)
        call("cuStreamSynchronize", s)
        assert (contents(arrays[1], 16, "i4") == 1).all()
    assert call("cuEventElapsedTime", mark, late) >= 0
    refused("INVALID_CONTEXT", "cuCtxRecordEvent", drv.CUcontext(8), mark)
    refused("INVALID_HANDLE", "cuEventElapsedTime", event(2), late)


@pytest.mark.hostcuda_modes(*STREAM_MODES)
def test_synchronising_a_device_of_cuda_core(hostcuda_modes, hostcuda, stream, memory):
    from cuda.core import Device

    call("cuMemsetD8Async", memory(64), 3, 64, stream())
    Device(0).sync()
    assert hostcuda.stats()["pending"] == 0


def test_cuda_core_allocates_and_copies(drv):
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    s = device.create_stream()
    a, b = device.allocate(1024, stream=s), device.allocate(1024, stream=s)
    a.fill(7, stream=s)
    a.copy_to(b, stream=s)
    s.sync()
    assert (contents(int(b.handle), 1024, "u1") == 7).all()
    assert b.__dlpack_device__()[0] == 2
    a.close(s)
    b.close(s)
    s.record().sync()


def test_stream_ids(drv, stream):
    contexts = [call("cuDevicePrimaryCtxRetain", d) for d in range(call("cuDeviceGetCount"))]
    ids = {}

    def look(name, context):
        call("cuCtxSetCurrent", context)
        assert call("cuStreamGetId", 0) == call("cuStreamGetId", 1)
        assert call("cuStreamGetId", 2) == call("cuStreamGetId", 2)
        ids.setdefault("legacy", {}).setdefault(int(context), int(call("cuStreamGetId", 1)))
        assert ids["legacy"][int(context)] == call("cuStreamGetId", 1)
        ids.setdefault(name, {})[int(context)] = int(call("cuStreamGetId", 2))

    for context in contexts:
        look("here", context)
        thread = threading.Thread(target=look, args=("there", context))
        thread.start()
        thread.join()
    every = [i for of_name in ids.values() for i in of_name.values()]
    assert len(set(every)) == len(every) == 3 * len(contexts)


def test_destroyed_streams(drv, hostcuda, stream, event, memory):
    with hostcuda.option(**{"async": "lazy"}, reuse_streams=0):
        s, p, e = call("cuStreamCreate", 1), memory(64), event()
        call("cuMemsetD8Async", p, 2, 64, s)
        call("cuStreamDestroy", s)  # its work is still done
        relaxed = drv.CUstreamCaptureMode(2)
        for name, *args in (
            ("cuStreamSynchronize", s), ("cuStreamQuery", s), ("cuStreamDestroy", s), ("cuStreamGetId", s),
            ("cuStreamIsCapturing", s), ("cuMemAllocAsync", 64, s), ("cuMemsetD8Async", p, 0, 8, s),
            ("cuStreamBeginCapture", s, relaxed), ("cuStreamWaitEvent", s, e, 0), ("cuEventRecord", e, s),
        ):  # fmt: skip
            refused("INVALID_HANDLE", name, *args)
        assert int(s) not in {int(stream()) for _ in range(20)}
        assert (contents(p, 64, "u1") == 2).all()
        with hostcuda.option(reuse_streams=1):
            old = call("cuStreamCreate", 1)
            id = call("cuStreamGetId", old)
            call("cuStreamDestroy", old)
            assert int(stream()) == int(old)
            assert call("cuStreamGetId", old) != id
    context = call("cuCtxCreate", None, 0, 0)
    s, e = call("cuStreamCreate", 0), call("cuEventCreate", 0)
    call("cuCtxDestroy", context)
    refused("CONTEXT_IS_DESTROYED", "cuStreamSynchronize", s)
    refused("INVALID_HANDLE", "cuEventRecord", e, 0)  # of another context
    call("cuStreamDestroy", s)
    call("cuEventDestroy", e)


@pytest.mark.hostcuda_modes(*STREAM_MODES)
@pytest.mark.parametrize("add", ["cuLaunchHostFunc", "cuStreamAddCallback"])
def test_callbacks_may_not_call_the_driver(hostcuda_modes, drv, stream, add):
    seen, s = [], stream()

    def look(*_):
        calls = (("cuMemAlloc", 64), ("cuCtxSynchronize",), ("cuCtxGetCurrent",), ("cuStreamQuery", 0))
        seen.extend(getattr(drv, name)(*args)[0].name for name, *args in calls)

    if add == "cuLaunchHostFunc":
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(look)
        call(add, s, ctypes.cast(callback, ctypes.c_void_p).value, 0)
    else:
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(look)
        call(add, s, drv.CUstreamCallback(ctypes.cast(callback, ctypes.c_void_p).value), 0, 0)
    call("cuStreamSynchronize", s)
    assert seen == ["CUDA_ERROR_NOT_PERMITTED"] * 4
    call("cuMemFree", call("cuMemAlloc", 64))


def test_callbacks_are_called_even_if_nobody_waits(drv, hostcuda, stream):
    called = threading.Event()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: called.set())
    with hostcuda.option(**{"async": "lazy"}):
        call("cuLaunchHostFunc", stream(), ctypes.cast(callback, ctypes.c_void_p).value, 0)
        assert called.wait(10)
