"""The script for a machine with a GPU comes out whole: rehearsed where hostcuda stands for one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu, gpu_check
from benchmarks.gpu import plugin, sanitizer, start, suite
from tests import hostcuda

ROOT = Path(__file__).parents[1]
REAL = os.environ.get("NBDLPACK_TEST_GPU", "0") not in ("", "0")


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """Run stages 0, 1, 3 and 4 once; return what was printed, and the folder of the results."""
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[hostcuda]'")
    pytest.importorskip("cuda.core", reason="cuda-core is not installed: pip install -e '.[hostcuda]'")
    if not REAL and (reason := hostcuda.why_not()):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("gpu-check")
    launcher = [] if REAL else ["-m", "tests.hostcuda"]
    command = [sys.executable, *launcher, "benchmarks/gpu_check.py", "--quick", "--stages=1,3,4", f"--out={folder}"]
    # What is compiled for hostcuda is nothing for a GPU.
    cache = {"NBDLPACK_CACHE_DIR": str(tmp_path_factory.mktemp("kernels"))}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | cache, capture_output=True, text=True, check=False)
    log = (folder / gpu_check.LOG_FILE).read_text() if (folder / gpu_check.LOG_FILE).exists() else ""
    assert (done.returncode, done.stderr) == (0, ""), f"{done.stdout}\n{done.stderr}\n{log[-5000:]}"
    return done.stdout, folder


def results_of(folder, stage):
    """Return the results of a stage by check, without those of the stage itself."""
    found = gpu_check.read(folder / gpu_check.RESULTS_FILE)
    return {line["check"]: line for line in found if line["stage"] == stage and line["check"] != gpu_check.ENDED}


def test_what_is_here_is_said_first(rehearsed):
    found = results_of(rehearsed[1], 0)
    assert "numba-cuda 0.30" in found["versions"]["detail"]
    assert "of CUDA" in found["GPU and driver"]["detail"]
    assert "with PTX" in found["libNVVM"]["detail"]
    assert found["import nbdlpack"]["detail"].endswith("with it: nothing")
    assert found[start.DEVICE]["detail"]
    assert set(found[start.REMEDY]["environment"]) <= {"LD_PRELOAD", "CUDA_HOME"}


def test_the_first_kernel_copy_and_export_are_right(rehearsed):
    found = results_of(rehearsed[1], 1)
    assert {"memory", "one kernel", "one copy", "one export", "one kernel of a user's"} <= found.keys()
    assert {line["outcome"] for line in found.values()} == {gpu.PASSED}


def test_exchange_says_who_is_absent(rehearsed):
    outcomes = {name: line["outcome"] for name, line in results_of(rehearsed[1], 3).items()}
    assert {outcomes[name] for name in ("cuda.core", "Numba", "capture and replay")} == {gpu.PASSED}
    assert {f"{name}{rest}" for name in ("torch", "CuPy", "JAX") for rest in (" takes ours", "'s is taken")} < set(
        outcomes
    )
    assert gpu.FAILED not in outcomes.values()


def test_each_speed_is_measured(rehearsed):
    lines = [line for line in gpu_check.read(rehearsed[1] / gpu_check.RESULTS_FILE) if "times" in line]
    assert len({line["table"] for line in lines}) == 3
    for line in lines:
        assert line["times"]["nbdlpack"] > 0, line
        assert set(line["times"]) <= set(gpu.LIBRARIES)
    assert {"copy", "transpose", "sum", "empty(1000)"} <= {line["check"] for line in lines}


def test_the_report_has_all_of_it(rehearsed):
    printed, folder = rehearsed
    report = (folder / gpu_check.REPORT_FILE).read_text()
    assert report in printed
    assert report.startswith("# GPU check: ")
    for number in (0, 1, 3, 4):
        assert f"\n## {number}: {gpu_check.STAGES[number].title}\n" in report
    assert "| copy | " in report
    assert "GB/s (" in report
    assert {path.name for path in folder.iterdir()} == {
        gpu_check.RESULTS_FILE,
        gpu_check.REPORT_FILE,
        gpu_check.LOG_FILE,
    }


# ---- stages end as they like -----------------------------------------------------------------------------------------


def test_a_crash_or_a_hang_does_not_stop_the_next_stage(tmp_path, monkeypatch, capsys):
    first = "import benchmarks.gpu as g; g.say('begun', g.PASSED); import os; os.abort()"
    stages = (
        gpu_check.Stage("crashes", ["-c", first], 60),
        gpu_check.Stage("hangs", ["-c", "import time; time.sleep(600)"], 1),
        gpu_check.Stage("fails", ["-c", "import benchmarks.gpu as g; g.say('a|b', g.FAILED, 'why\\nso'); exit(1)"], 60),
        gpu_check.Stage("works", ["-c", "import benchmarks.gpu as g; g.main({'check': lambda: 'all well'})"], 60),
    )
    monkeypatch.setattr(gpu_check, "STAGES", stages)
    assert gpu_check.main([f"--out={tmp_path}", "--stages=0,1,2,3"]) == 1
    assert "SIGABRT" in capsys.readouterr().out
    ends = {
        line["stage"]: line for line in gpu_check.read(tmp_path / "results.jsonl") if line["check"] == gpu_check.ENDED
    }
    assert [ends[n]["outcome"] for n in range(4)] == [gpu.FAILED, gpu.FAILED, gpu.FAILED, gpu.PASSED]
    assert "longer than 1 s" in ends[1]["detail"]
    report = (tmp_path / "report.md").read_text()
    assert "| begun | passed |" in report
    assert "| a\\|b | FAILED |  | why so |" in report
    assert "| check | passed |" in report


def test_no_stage_is_begun_when_the_time_is_over(tmp_path, monkeypatch, capsys):
    stages = (
        gpu_check.Stage("slow", ["-c", "import time; time.sleep(600)"], 60),
        gpu_check.Stage("next", ["-c", ""], 60),
    )
    monkeypatch.setattr(gpu_check, "STAGES", stages)
    assert gpu_check.main([f"--out={tmp_path}", "--seconds=1.5"]) == 1
    assert "| 1 | next | not run |" in capsys.readouterr().out


@pytest.mark.skipif(REAL or Path("/proc/driver/nvidia").exists(), reason="there is a driver on this machine")
def test_without_a_gpu_only_that_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu_check.main([f"--out={tmp_path}", "--stages=1"]) == 1
    assert "there is no GPU that can be used" in capsys.readouterr().out
    report = (tmp_path / "report.md").read_text()
    assert report.startswith("# GPU check: no GPU was found\n")
    assert "| 1 | one kernel, one copy, one export | not run |" in report
    assert "| import nbdlpack | passed |" in report


def test_all_stages_together_take_less_than_ten_minutes():
    assert sum(stage.seconds for stage in gpu_check.STAGES) <= 600


def test_what_a_stage_chooses_is_given_to_the_next(tmp_path, monkeypatch):
    choose = "import benchmarks.gpu as g; g.say('remedy', g.FACT, environment={'CHOSEN': 'this'})"
    see = "import os, benchmarks.gpu as g; g.say('seen', g.PASSED, os.environ['CHOSEN'])"
    monkeypatch.setattr(gpu_check, "STAGES", tuple(gpu_check.Stage("", ["-c", code], 60) for code in (choose, see)))
    assert gpu_check.main([f"--out={tmp_path}"]) == 0
    assert results_of(tmp_path, 1)["seen"]["detail"] == "this"


@pytest.mark.parametrize("stages", ["6", "one", "-1"])
def test_stages_that_there_are_not(stages, capsys):
    with pytest.raises(SystemExit):
        gpu_check.parse([f"--stages={stages}"])
    assert "must be numbers from 0 to 5" in capsys.readouterr().err


# ---- the remedy ------------------------------------------------------------------------------------------------------

FOUND = {"nvvm": "libnvvm.so.4", "nvrtc": "libnvrtc.so.13", "nvJitLink": "libnvJitLink.so.13", "ptx": "9.0"}
TOO_NEW = FOUND | {
    "ptx": "9.5",
    "refused": "the driver: RuntimeError: cuModuleLoadData: CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
}
ALONE = FOUND | {"nvrtc": "not found (DynamicLibNotFoundError)"}


@pytest.mark.parametrize(
    ("as_it_is", "toolkit", "chosen"),
    [
        (FOUND, None, "as it is"),
        (TOO_NEW, FOUND, "toolkit"),
        (ALONE, FOUND, "toolkit"),
        (ALONE, ALONE, "as it is"),
        (ALONE, None, "as it is"),
        (TOO_NEW, ALONE, "toolkit"),
        (TOO_NEW, TOO_NEW, None),
        ({"refused": "DynamicLibNotFoundError"}, None, None),
    ],
)
def test_the_libnvvm_that_is_chosen(as_it_is, toolkit, chosen, tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvvm", reason="cuda-bindings is not installed")
    places = [] if toolkit is None else [tmp_path]
    monkeypatch.setattr(start, "toolkits", lambda: iter(places))
    monkeypatch.setattr(start, "library", lambda place: place / "libnvvm.so.4")
    monkeypatch.setattr(start, "attempt", lambda environment: toolkit if environment else as_it_is)
    monkeypatch.setenv(gpu.RESULTS, str(tmp_path / "results"))
    if chosen is None:
        with pytest.raises(RuntimeError, match=r"is refused by .*pip install 'nbdlpack\[cuda\]'"):
            start.remedy()
        return
    detail = start.remedy()
    (line,) = (tmp_path / "results").read_text().splitlines()
    given = {"LD_PRELOAD": str(tmp_path / "libnvvm.so.4"), "CUDA_HOME": str(tmp_path)}
    assert json.loads(line)["environment"] == (given if chosen == "toolkit" else {})
    assert "chosen: libnvvm.so.4 with PTX 9.0" in detail
    assert ("is refused by" in detail) == (as_it_is is TOO_NEW)


# ---- what only a GPU has ---------------------------------------------------------------------------------------------


def test_the_tests_that_need_a_gpu():
    class Item:
        def __init__(self, nodeid, **params):
            self.nodeid = nodeid
            if params:
                self.callspec = type("Callspec", (), {"params": params})

    assert plugin.needs_gpu(Item("tests/cuda/test_streams.py::test_a"))
    assert plugin.needs_gpu(Item("tests/test_array.py::test_a[cuda]", device="cuda"))
    assert not plugin.needs_gpu(Item("tests/test_array.py::test_a[cpu]", device="cpu"))
    assert not plugin.needs_gpu(Item("tests/test_array.py::test_a"))


def test_a_second_gpu_is_not_missed(tmp_path):
    """Run the stage's plugin on a test that asks for one, one that fails, and one that is no GPU's."""
    folder = tmp_path / "tests" / "cuda"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text("""
def test_second(): raise RuntimeError("there is no cuda:1: this machine has one GPU, cuda:0")
def test_wrong(): assert 1 == 2, "words"
""")
    (tmp_path / "tests" / "test_other.py").write_text("def test_it(): pass")
    command = [
        sys.executable,
        "-m",
        "pytest",
        *[one for one in suite.options() if one not in ("-n", str(suite.PROCESSES))],
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), gpu.RESULTS: str(tmp_path / "results.jsonl")}
    environment.pop("PYTEST_XDIST_WORKER", None)  # this process is not one of the main one's
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    found = {line["check"]: line for line in gpu_check.read(tmp_path / "results.jsonl")}
    assert found["tests"]["detail"] == "1 failed, 1 skipped"
    assert found["1 skipped"]["detail"] == "there is no second GPU"
    assert "words" in found["tests/cuda/test_it.py::test_wrong"]["detail"]


def test_the_sanitizer_may_be_absent(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    with pytest.raises(gpu.Absent, match="not installed: compute-sanitizer"):
        sanitizer.tool()


@pytest.mark.parametrize(
    ("status", "text"), [(0, "ERROR SUMMARY: 0 errors"), (9, "Invalid __global__ read of size 4 bytes")]
)
def test_what_the_sanitizer_finds(status, text, tmp_path, monkeypatch):
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\necho '========= COMPUTE-SANITIZER'\necho '========= {text}'\nexit {status}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(sanitizer, "tool", lambda: str(tool))
    if status:
        with pytest.raises(AssertionError, match=f"exit status 9: .*{text}"):
            sanitizer.watched("memcheck")
    else:
        assert sanitizer.watched("memcheck") == text
