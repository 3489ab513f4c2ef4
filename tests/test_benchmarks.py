"""The benchmarks come out whole: table, times and plot.  What they say is not looked at, since no time is promised."""

from __future__ import annotations

import re
import subprocess
import sys
import types
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pyperf = pytest.importorskip("pyperf", reason="pyperf is not installed: pip install -e '.[bench]'")
pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install -e '.[bench]'")

from benchmarks import harness, report  # noqa: E402 - needs the two

ROOT = Path(__file__).parents[1]
TINY = harness.Settings(processes=2, rounds=1, repeats=1, seconds=1e-6, largest=1 << 12)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Run the command once, in next to no time; return what it printed, and the folder that it wrote to."""
    folder = tmp_path_factory.mktemp("benchmarks") / "made"
    options = [f"--{name}={value}" for name, value in TINY._asdict().items()]
    command = [sys.executable, "-m", "benchmarks", "--quick", f"--output={folder}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout, folder


def test_the_table_has_every_row(output):
    printed, _ = output
    for name in harness.subjects():
        module = harness.subject(name)
        for row in module.rows(TINY.largest):
            line = re.search(rf"^{re.escape(row.name)}  .*$", printed, re.MULTILINE)
            assert line, row.name
            numbers = len(re.findall(r"\d s|\d [mnµ]s|\d to \d", line[0]))
            assert numbers >= 2 or "not installed: " in line[0]
            assert row.target is None or re.search(r"<= .* (met|MISSED)$", line[0]) or "not installed: " in line[0]
    assert "nan" not in printed
    assert re.search(r"^\d+ of \d+ targets met$", printed, re.MULTILINE)


def test_the_times_are_kept_with_machine_and_versions(output):
    suite = pyperf.BenchmarkSuite.load(str(output[1] / "results.json"))
    about = suite.get_metadata()
    assert {"cpu_count", "platform", "python_version", "numpy_version", "nbdlpack_version"} <= set(about)
    times = {benchmark.get_name(): benchmark for benchmark in suite}
    first = times["exchange: x.__dlpack__() [ours]"]
    assert first.get_nrun() == TINY.processes
    assert first.get_metadata().keys() >= {"ratio", "target", "target_met"}
    assert "exchange: x.__dlpack__() [peer]" in times


def test_the_plot_is_an_image_with_a_legend(output):
    image = ET.parse(output[1] / "copy_or_zero_copy.svg").getroot()
    assert image.tag == "{http://www.w3.org/2000/svg}svg"
    assert image.find(".//*[@id='legend_1']") is not None
    assert len([group for group in image.iter() if re.match(r"line2d_\d+$", group.get("id", ""))]) > 4


# -- what is made of the times


def result_of(row, ours, peer, monkeypatch):
    """Return the result of a row whose statements took so long, in each process."""
    subject = types.SimpleNamespace(rows=lambda largest: [row], WORDS={})
    monkeypatch.setattr(harness, "subject", lambda name: subject)
    benchmarks = [
        pyperf.Benchmark([pyperf.Run(values, metadata={"name": f"s: {row.name} [{side}]"}) for values in runs])
        for side, runs in (("ours", ours), ("peer", peer))
        if runs
    ]
    (result,) = harness.results("s", TINY, pyperf.BenchmarkSuite(benchmarks))
    return result


def test_the_ratio_is_the_median_over_processes_of_that_of_the_minima(monkeypatch):
    row = harness.Row("r", "1", "2", 0.5)
    result = result_of(row, [[1.0, 9.0], [2.0, 3.0], [8.0, 8.0]], [[4.0, 2.0], [9.0, 5.0], [1.0, 2.0]], monkeypatch)
    assert result.ratios == (0.5, 0.4, 8.0)
    assert result.ratio == 0.5
    assert result.met
    assert report.line(result)[-4:] == ("0.500", "0.400 to 8.00", "<= 0.5", "met")


def test_without_a_peer_the_time_stands_for_the_ratio(monkeypatch):
    result = result_of(harness.Row("r", "1", None, 5e-6), [[7e-6, 6e-6]], [], monkeypatch)
    assert report.line(result)[1:] == ("6.00 µs", "", "6.00 µs", "6.00 µs to 6.00 µs", "<= 5.00 µs", "MISSED")


def test_a_peer_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(harness.MODULES, "torch", "no_such_library")
    lines = [report.line(result) for result in harness.results("exchange", TINY, None) if result.missing]
    assert lines
    assert all(line[3].startswith("not installed: ") and "no_such_library" in line[3] for line in lines)
    assert "not installed: no_such_library" in report.table("", harness.results("exchange", TINY, None))


def test_a_statement_that_fails_ends_the_run(monkeypatch):
    monkeypatch.setattr(harness, "ROOT", ROOT / "tests")  # where there are no benchmarks to be found
    with pytest.raises(RuntimeError, match="'import' ended with exit status 1"):
        harness.run(["import"], TINY, lambda text: None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5.73e-8, "57.3 ns"), (1e-6, "1.00 µs"), (0.25, "250 ms"), (12, "12.0 s")],
)
def test_times_have_three_digits(seconds, words):
    assert report.in_seconds(seconds) == words


def test_the_same_numbers_give_the_same_plot(tmp_path):
    rows = [harness.Row(f"{size}", "", "", curve=("a curve", size)) for size in (1024, 4096)]
    results = [harness.Result(row, 1e-6, 2e-6, (0.5,)) for row in rows]
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    assert report.plot(results, one)
    assert report.plot(results, other)
    assert one.read_bytes() == other.read_bytes()
    assert not report.plot([harness.Result(rows[0])], tmp_path / "none.svg")


def test_every_subject_is_explained():
    explained = re.findall(r"^\| `(\w+)` \|", (ROOT / "benchmarks" / "README.md").read_text(), re.MULTILINE)
    assert sorted(explained) == harness.subjects()
