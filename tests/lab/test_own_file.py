"""A kernel in a file of the reader's own."""

import os
import sys

import pytest

import rope_lab as lab
from cells import Cell
from rope_lab.judge.spec import STRIDED, spec

pytest.importorskip("triton", reason="needs Triton")

CHECK = "torch.testing.assert_close(doubled(torch.ones(100)), torch.ones(100))\nprint('right')\n"
SQUARES = f"{Cell('y = x * x').text}\n{CHECK}"


@spec(leave_out=STRIDED)
def squared(x: "(n)"):  # noqa: F821 (a letter of shapes)
    return x * x


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SQUARES, encoding="utf-8")
    return path


def test_a_function_of_a_file_is_judged_like_one_of_a_cell(file, capsys):
    assert lab.check_exercise(lab.from_file(file, "doubled"), squared)
    assert capsys.readouterr().out == "right\n"
    file.write_text(SQUARES.replace("x * x", "x + x"), encoding="utf-8")
    verdict = lab.check_exercise(lab.from_file(file, "doubled"), squared)
    assert repr(verdict).startswith("NOT YET: mine.py stops with AssertionError: Tensor-likes are")
    file.write_text(SQUARES.replace("x * x", "x + x").partition(CHECK)[0])
    verdict = lab.check_exercise(lab.from_file(file, "doubled"), squared)
    assert repr(verdict).startswith("WRONG") and "at: tl.store(out_ptr" in repr(verdict)


def test_what_is_not_there_is_said(file):
    for mine, said in (
        (lab.from_file(file.parent / "other.py", "doubled"), "there is no other.py in this folder"),
        (lab.from_file(file, "cubes"), "mine.py has no function cubes"),
    ):
        assert repr(lab.check_exercise(mine, squared)) == f"NOT YET: {said}"


def test_a_file_that_chooses_the_interpreter_is_told_where_to_choose_it(file):
    """Its kernels couldn't be compiled any more."""
    text = 'import os\n\nos.environ["TRITON_INTERPRET"] = "1"\n' + SQUARES
    file.write_text(text, encoding="utf-8")
    verdict = lab.check_exercise(lab.from_file(file, "doubled"), squared)
    assert repr(verdict).startswith("NOT YET: mine.py sets TRITON_INTERPRET: remove that line")
    assert "TRITON_INTERPRET" not in os.environ


@pytest.mark.slow
def test_a_file_alone_needs_a_gpu_or_the_interpreter(file):
    squares = lab.from_file(file, "doubled")
    assert lab.run_alone(squares).startswith("RuntimeError: 0 active drivers")
    assert lab.run_alone(squares, TRITON_INTERPRET="1") == "right"


def test_a_script_does_not_run_itself_alone(file, monkeypatch):
    squares = lab.from_file(file, "doubled")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(file), raising=False)
    with pytest.raises(ValueError, match="which runs now; accepted: one of another file"):
        lab.run_alone(squares)
