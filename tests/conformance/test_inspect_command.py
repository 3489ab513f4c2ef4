"""`python -m nbdlpack inspect`: what is exported, or in one line why nothing is."""

from __future__ import annotations

import pytest

from nbdlpack.__main__ import main


def test_it_shows_each_way_to_export(capsys):
    assert main(["inspect", "numpy:arange(6, dtype=int16).reshape(2, 3)[:, ::2]"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("an object of type numpy.ndarray\n__dlpack__()\n")
    assert "__dlpack__(max_version=(1, 3))" in out
    assert "shape      (2, 2)" in out
    assert "strides    (3, 2)" in out


def test_names_are_those_of_the_module_and_of_python(capsys):
    assert main(["inspect", "nbdlpack:array([len('abc') + n for n in range(4)], dtype=int8)"]) == 0
    assert "int8 (0, 8, 1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no_such_module:ones(3)", "the module cannot be imported: ModuleNotFoundError: No module named"),
        ("numpy:ones(3", "the expression fails: SyntaxError: "),
        ("numpy:ones(tree)", "the expression fails: NameError: name 'tree' is not defined"),
        ("numpy:ones(3) / (1, 2)", "the expression fails: ValueError: "),
        ("numpy:sys.exit(3)", "the expression fails: "),
        ("numpy:pi", "this is a float, which exports nothing by DLPack"),
    ],
)
def test_what_goes_wrong_is_one_line(capsys, what, message):
    assert main(["inspect", what]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{what}: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("what", ["numpy", "numpy:", ":ones(3)"])
def test_wrong_usage_is_refused(capsys, what):
    with pytest.raises(SystemExit, match="2"):
        main(["inspect", what])
    assert f"{what!r} is not a module, a colon and an expression" in capsys.readouterr().err


def test_a_producer_that_declines_is_shown(capsys):
    assert main(["inspect", "numpy:array(['a'])"]) == 0
    assert capsys.readouterr().out.count("BufferError") == 2
