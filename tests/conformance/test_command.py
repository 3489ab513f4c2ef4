"""`python -m nbdlpack conformance`: what can be asked for, what comes out, and with which exit status."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from nbdlpack.__main__ import main
from nbdlpack.conformance import CHECKS
from nbdlpack.conformance.adapters import ADAPTERS
from nbdlpack.conformance.command import chosen
from nbdlpack.conformance.pairs import DTYPES, LAYOUTS, TRIPS

TOY, BROKEN, MISSING, WRONG = (f"tests.conformance.toys:{name}" for name in ("Toy", "Broken", "Missing", "Wrong"))
ONE, *_ = CHECKS
"""A check that the toy passes and the broken one, which exports no capsules, fails."""


def run(capsys, *arguments: str) -> tuple[int, str]:
    """Run the command here, which checks in other processes; return the exit status and what it prints."""
    status = main(["conformance", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    return status, out


def refused(capsys, *arguments: str) -> str:
    """Return what the command says is wrong with its arguments."""
    with pytest.raises(SystemExit, match="2"):
        main(["conformance", *arguments])
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()[-1]


def test_text_is_the_default(capsys):
    status, out = run(capsys, TOY, BROKEN, "--only", ONE)
    assert status == 0
    assert out.startswith("DLPack conformance: nbdlpack ")
    (row,) = [line for line in out.splitlines() if line.startswith(f"{ONE} ")]
    assert row.split()[:3] == [ONE, "pass", "FAIL"]
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((TOY, "--require", TOY), 0),
        ((TOY, "--require", BROKEN), 1),
        ((TOY, "--require", MISSING), 1),
        ((TOY, BROKEN, "--require", TOY, "--require", BROKEN), 1),
        ((BROKEN, "--require", TOY), 0),
    ],
)
def test_required_libraries_are_checked_and_decide_the_status(capsys, arguments, status):
    assert run(capsys, "--only", ONE, *arguments)[0] == status


def test_known_failures_do_not_decide_the_status(capsys):
    assert run(capsys, "--require", BROKEN, "--only", ONE)[0] == 1
    assert run(capsys, "--require", BROKEN, "--only", ONE, "--xfail", ONE)[0] == 0
    assert "there is no check Q1" in refused(capsys, "--require", BROKEN, "--xfail", "Q1")


def test_what_is_required_alone_is_checked_alone(capsys):
    _, out = run(capsys, "--require", TOY, "--only", ONE, "--format", "json")
    assert len(json.loads(out)["reports"]) == 1


def test_a_library_that_cannot_be_imported_is_reported_alone(capsys):
    status, out = run(capsys, MISSING, "--only", ONE)
    assert status == 0
    assert "ImportError: libtoy.so.3" in out


def test_an_adapter_that_makes_no_array_is_at_fault_itself(capsys):
    status, out = run(capsys, "--require", "tests.conformance.toys:Mistaken", "--only", ONE)
    assert status == 1
    assert "TypeError: it has no such argument" in out


def test_json_names_each_library_once(capsys):
    status, out = run(capsys, TOY, TOY, BROKEN, "--require", TOY, "--format", "json", "--only", ONE)
    assert status == 0
    assert [report["names"] for report in json.loads(out)["reports"]] == [["toy"], ["broken"]]


def test_the_report_can_be_a_file(capsys, tmp_path):
    page = tmp_path / "matrix.html"
    assert run(capsys, TOY, "--only", ONE, "--format", "html", "-o", str(page)) == (0, "")
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_reports_from_elsewhere_are_added(capsys, tmp_path):
    """Another version of the same library is named with it."""
    file = tmp_path / "other.json"
    run(capsys, TOY, BROKEN, "--only", ONE, "--format", "json", "-o", str(file))
    older = json.loads(file.read_text())
    older["reports"][0]["versions"] = ["0.1"]
    file.write_text(json.dumps(older))
    _, out = run(capsys, TOY, "--only", ONE, "--also", str(file), "--format", "json")
    here, there, broken = json.loads(out)["reports"]
    assert there["names"] == [f"{here['names'][0]} 0.1"]
    assert there["results"] == here["results"] == older["reports"][0]["results"]
    assert broken == older["reports"][1]


@pytest.mark.parametrize("text", ["", "[]", '{"reports": [{"names": ["a"]}]}'])
def test_what_is_no_report_is_refused(capsys, tmp_path, text):
    file = tmp_path / "other.json"
    file.write_text(text)
    assert f"--also {file}: it is no report of checks in JSON" in refused(capsys, TOY, "--also", str(file))
    assert "No such file" in refused(capsys, TOY, "--also", str(tmp_path / "none.json"))


def test_pairs(capsys):
    only = "float64/C order,bool/0-d"
    status, out = run(capsys, TOY, WRONG, "--pairs", "--only", only, "--format", "json", "--require", WRONG)
    assert status == 1
    found = {tuple(report["names"]): report["results"] for report in json.loads(out)["reports"]}
    assert list(found) == [("toy", "toy"), ("toy", "wrong"), ("wrong", "toy"), ("wrong", "wrong")]
    assert [result["id"] for result in found["toy", "wrong"]] == ["bool/0-d", "float64/C order"]
    assert [result["outcome"] for result in found["toy", "wrong"]] == ["refused", "fail"]
    assert {result["reason"] for result in found["toy", "toy"]} == {"shared"}


def test_unknown_libraries_are_refused_with_the_known_ones(capsys):
    said = refused(capsys, "tensorfolw")
    assert "'tensorfolw'" in said
    assert all(name in said for name in ADAPTERS)
    assert "'numpi'" in refused(capsys, TOY, "--require", "numpi")
    assert "no_such_module" in refused(capsys, "no_such_module:Toy")


def test_a_module_that_fails_is_refused_with_its_error(capsys, tmp_path, monkeypatch):
    (tmp_path / "failing_adapter.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    said = refused(capsys, "failing_adapter:Mine")
    assert "cannot be imported: ModuleNotFoundError: No module named 'no_such_dependency'" in said


def test_unknown_checks_are_refused_with_the_known_ones(capsys):
    said = refused(capsys, TOY, "--only", f"{ONE},Q17")
    assert "there is no check Q17, but " in said
    assert all(id in said for id in CHECKS)
    assert all(word in refused(capsys, TOY, "--pairs", "--only", "P01") for word in (*DTYPES, *LAYOUTS))


def test_adapters_that_do_not_exist_are_named(capsys):
    assert "tests.conformance.toys has no Toi" in refused(capsys, "tests.conformance.toys:Toi")
    assert "does not say its name and module" in refused(capsys, "tests.conformance.toys:Nameless")


def test_wrong_usage_is_refused_before_anything_is_checked(capsys, tmp_path):
    assert "is a folder itself" in refused(capsys, TOY, "-o", str(tmp_path))
    assert "there is no folder" in refused(capsys, TOY, "-o", str(tmp_path / "none" / "matrix.html"))
    assert "invalid choice: 'pdf'" in refused(capsys, TOY, "--format", "pdf")


def test_checks_are_chosen_by_id_or_family():
    every = list(CHECKS.values())
    assert chosen("", every) == every
    assert chosen(f" {ONE} ,", every) == [CHECKS[ONE]]
    assert chosen(ONE[0], every) == [check for check in every if check.id.startswith(ONE[0])]
    assert len(chosen(ONE[0], every)) > 1


def test_trips_are_chosen_by_dtype_or_layout():
    every = list(TRIPS.values())
    assert [check.id for check in chosen("int8", every)] == [f"int8/{layout}" for layout in LAYOUTS]
    assert [check.id for check in chosen("0-d", every)] == [f"{dtype}/0-d" for dtype in DTYPES]
    assert [check.id for check in chosen("int8/0-d", every)] == ["int8/0-d"]


def test_the_list_has_all_checks_and_libraries(capsys):
    status, out = run(capsys, "--list")
    assert status == 0
    assert all(f"{check.id}  {check.statement}\n" in out and check.source in out for check in CHECKS.values())
    assert all(f"\n{name} " in out for name in ADAPTERS)
    assert f"numpy {ADAPTERS['numpy']().version()}" in " ".join(out.split())


def test_without_names_all_that_are_installed_are_checked(capsys, monkeypatch):
    from nbdlpack.conformance import adapters
    from tests.conformance import toys

    monkeypatch.setattr(adapters, "installed", lambda: [toys.Toy(), toys.Broken()])
    status, out = run(capsys, "--only", ONE, "--format", "json")
    assert status == 0
    assert [report["names"][0] for report in json.loads(out)["reports"]] == ["toy", "broken"]


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "numpy:ones(3)"], ["--largest", "0"]])
def test_the_kit_is_imported_by_its_own_command_alone(arguments):
    program = (
        "import sys, contextlib\nfrom nbdlpack.__main__ import main\n"
        f"with contextlib.suppress(SystemExit): main({arguments!r})\n"
        "sys.exit([name for name in sys.modules if 'conformance' in name] or None)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_terminal_is_shown_progress_and_colours():
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "nbdlpack", "conformance", TOY, BROKEN, "--only", ONE]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"COLUMNS": "60"}
    subprocess.run(command, stdout=follower, stderr=follower, env=environment, check=True)
    os.close(follower)
    shown = os.read(leader, 1 << 16).decode()
    os.close(leader)
    before, clear, report = shown.rpartition("\r\x1b[K")
    assert f"] toy: {ONE}" in before
    assert f"] broken: {ONE}" in before
    assert clear
    assert report.startswith("DLPack conformance")
    assert "\x1b[31mFAIL\x1b[0m" in report
    assert "…" in report
