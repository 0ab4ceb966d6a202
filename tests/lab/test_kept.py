"""A reader's own kernel: kept when it is right, and put where the next rung begins."""

import runpy
import types

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from rope_lab.grading.judge import QUIET
from rope_lab.rungs import RUNGS, kept, rung_of

pytest.importorskip("triton", reason="needs Triton")

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n"
HELPER = "@triton.jit\ndef turn(x, other, cos, sin):\n    return x * cos + other * sin\n\n\n"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "kept"))
    return tmp_path / "kept"


def written(text, folder):
    path = folder / "answer.py"
    path.write_text(HEADER + text)
    module = types.ModuleType("answer")
    exec(compile(path.read_text(), path, "exec"), module.__dict__)
    return module.my_rope


def test_a_kernel_is_kept_as_a_module_with_all_that_it_uses(folder, tmp_path):
    text = RUNGS[1].source.replace(
        "x * tl.cos(angle) + quarter * tl.sin(angle)",
        "turn(x, quarter, tl.cos(angle), tl.sin(angle))",
    )
    assert "turn(" in text
    kept.keep(1, written(HELPER + text, tmp_path))
    assert kept.climbed() == [1]
    names = runpy.run_path(str(folder / "rung_1.py"))
    assert callable(names["my_rope"]) and "turn" in names
    stored = kept.source_of(1)
    assert stored.startswith(HEADER.strip()) and "as torch" not in stored
    for comment in ("# angles (s2, 1, 1, d2), contiguous", "# strides of t in elements"):
        assert comment in stored


def test_ours_comes_where_there_is_none_of_the_reader(capsys):
    kept.mine(4)
    shown = capsys.readouterr().out
    assert (
        shown.startswith("# none of your kernels is kept yet") and RUNGS[3].source.strip() in shown
    )
    assert shown.strip().endswith("lab.check_rung(4, my_rope)")


def test_the_readers_own_comes_first_and_ours_is_a_line_away(capsys, tmp_path):
    kept.keep(2, written(RUNGS[2].source.replace("exists", "is_there"), tmp_path))
    kept.mine(4)  # rung 3 was left out
    shown = capsys.readouterr().out
    assert shown.startswith("# lab.ours(4)") and "is_there = pair < HALF" in shown
    assert "import triton" not in shown
    kept.ours(4)
    assert RUNGS[3].source.strip() in capsys.readouterr().out


@pytest.mark.parametrize("rung", (2, 3))
def test_where_arguments_change_the_cell_gets_the_frame_and_ones_own_lines(rung, capsys, tmp_path):
    own = RUNGS[rung - 1].source.replace("exists", "is_there")
    kept.keep(rung - 1, written(own, tmp_path))
    kept.mine(rung)
    shown = capsys.readouterr().out
    first, kernel = shown.split("@triton.jit", 1)
    assert first.startswith(f"# lab.ours({rung})") and "):\n    pass  # your lines\n" in kernel
    for line in (
        "HALF: tl.constexpr,  # d / 2",
        "def my_rope(t, freqs, out=None):",
        "# @triton.jit",
    ):
        assert line in kernel
    assert "is_there" not in kernel.split("# @triton.jit")[0] and "#     x" in kernel
    compile(shown, "a cell", "exec")


def test_the_last_rung_can_be_brought_without_a_check(capsys):
    kept.mine(9)
    shown = capsys.readouterr().out
    assert RUNGS[8].source.strip() in shown and "check_rung" not in shown
    for number in (1, 10):
        with pytest.raises(ValueError, match="accepted: 1 to 8"):
            kept.mine(number)


def test_who_has_not_begun_is_told_that_a_kernel_is_kept(tmp_path):
    assert kept.offer(3) == ""
    kept.keep(2, written(RUNGS[2].source, tmp_path))
    assert "your own kernel of rung 2 is kept" in kept.offer(3)
    assert kept.offer(2) == ""


@pytest.mark.parametrize("number", (0, 9, "3", None))
def test_there_are_eight_rungs(number):
    with pytest.raises(ValueError, match=r"accepted: 1 to 8"):
        rung_of(number)


def test_copies_originals_and_lone_notebooks_keep_in_one_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(kept.FOLDER)
    root = tmp_path / "clone"
    for place in ("notebooks/deeper", "my_notebooks/deeper"):
        (root / place).mkdir(parents=True)
    (root / "notebooks" / "index.toml").touch()
    for place in ("notebooks", "notebooks/deeper", "my_notebooks", "my_notebooks/deeper", "."):
        monkeypatch.chdir(root / place)
        assert kept.folder() == root / "my_notebooks" / "rungs"
    monkeypatch.chdir(tmp_path)  # a copy of a notebook alone: with the lab's own clone
    assert kept.folder().parent.name == "my_notebooks"


def test_a_worked_solution_is_not_the_readers(monkeypatch, tmp_path):
    monkeypatch.delenv(kept.FOLDER)
    place = tmp_path / "my_notebooks" / "solutions"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    kept.keep(2, written(RUNGS[2].source, tmp_path))
    assert kept.climbed() == []


CELLS = (
    "import rope_lab as lab\nimport torch\nimport triton\nimport triton.language as tl",
    RUNGS[2].source + "\n\nlab.check_rung(2, my_rope)",
    "lab.mine(3)",
)


def test_in_a_notebook_the_cell_gets_the_readers_kernel(monkeypatch, folder):
    """The kernel of Jupyter asks the page to replace the cell's text; nothing is shown."""
    monkeypatch.delenv(QUIET)
    manager, client = start_new_kernel()
    try:
        shown = []
        for source in CELLS:
            reply = client.execute_interactive(source, output_hook=shown.append, timeout=120)
            assert reply["content"]["status"] == "ok", reply
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert kept.climbed() == [2]
    kinds = [message["header"]["msg_type"] for message in shown]
    assert kinds.count("execute_result") == 1  # the verdict
    (asked,) = reply["content"]["payload"]
    assert asked["source"] == "set_next_input" and asked["replace"] is True
    assert asked["text"].startswith("# lab.ours(3)") and "def my_rope_kernel(" in asked["text"]


def test_what_is_compared_keeps_nothing(monkeypatch):
    """`pytest --nbval` and `make notebooks` run the worked solutions, which are not a reader's."""
    monkeypatch.setenv(QUIET, "1")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS[:2]])
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    assert "RIGHT: rung 2" in notebook.cells[1].outputs[0]["data"]["text/plain"]
    assert kept.climbed() == []


def test_a_model_gets_the_readers_last_kernel_that_has_a_backward(tmp_path):
    assert kept.mine_or_ours() is RUNGS[8].module.my_rope
    kept.keep(3, written(RUNGS[3].source, tmp_path))
    assert kept.mine_or_ours() is RUNGS[8].module.my_rope  # rung 3 has no backward
    for rung in (5, 4):
        kept.keep(rung, written(RUNGS[rung].source.replace("exists", f"is_{rung}"), tmp_path))
    assert "is_5" in kept.source_of(5)
    assert kept.mine_or_ours().__code__.co_filename.endswith("rung_5.py")
