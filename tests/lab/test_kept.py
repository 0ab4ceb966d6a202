"""A reader's own kernel: kept when it is right, and put where the next rung begins."""

import runpy
import types
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from rope_lab.grading.judge import QUIET
from rope_lab.rungs import RUNGS, kept

pytest.importorskip("triton", reason="needs Triton")

ROOT = Path(__file__).resolve().parents[2]
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
    kept.mine(8)
    shown = capsys.readouterr().out
    assert RUNGS[7].source.strip() in shown and "check_rung" not in shown
    for number in (1, 9):
        with pytest.raises(ValueError, match="accepted: 1 to 7"):
            kept.mine(number)


def test_who_has_not_begun_is_told_that_a_kernel_is_kept(tmp_path):
    assert kept.offer(3) == ""
    kept.keep(2, written(RUNGS[2].source, tmp_path))
    assert "your own kernel of rung 2 is kept" in kept.offer(3)
    assert kept.offer(2) == ""


def test_copies_originals_and_lone_notebooks_keep_in_one_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(kept.FOLDER)
    root = tmp_path / "clone"
    for place in ("notebooks/deeper", "my_notebooks/deeper"):
        (root / place).mkdir(parents=True)
    (root / "notebooks" / "00_start_here.ipynb").touch()
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


class Notebook:
    """Cells that a kernel of Jupyter runs."""

    def __init__(self, client):
        self.client = client

    def run(self, source):
        """What the cell shows, and the text that the page is asked to give it; '' for none."""
        shown = []
        reply = self.client.execute_interactive(source, output_hook=shown.append, timeout=120)
        assert reply["content"]["status"] == "ok", reply
        words = [
            message["content"].get("text") or message["content"]["data"]["text/plain"]
            for message in shown
            if message["header"]["msg_type"] in ("stream", "execute_result")
        ]
        texts = [asked["text"] for asked in reply["content"]["payload"] if asked["replace"]]
        return "".join(words), "".join(texts)


@pytest.fixture(scope="module")
def kernel():
    manager, client = start_new_kernel()
    try:
        notebook = Notebook(client)
        notebook.run(CELLS[0])
        yield notebook
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(kernel, folder):
    kernel.run(f"import os\nos.environ[{kept.FOLDER!r}] = {str(folder)!r}")
    kernel.run(f"os.environ.pop({QUIET!r}, None)")
    return kernel


def test_in_a_notebook_the_cell_gets_the_readers_kernel(notebook):
    """The kernel of Jupyter asks the page to replace the cell's text."""
    assert "RIGHT: rung 2" in notebook.run(CELLS[1])[0]
    assert kept.climbed() == [2]
    said, text = notebook.run(CELLS[2])
    assert text.startswith("# lab.ours(3)") and "def my_rope_kernel(" in text
    assert said.startswith(
        "This cell now has your own kernel of rung 2, as comments below an empty"
    )


def stub_of(rung):
    """As in the notebook, its first line uncommented, as it asks a reader to."""
    (path,) = (ROOT / "notebooks").glob(f"{RUNGS[rung].notebook}_*.ipynb")
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    (stub,) = (cell for cell in cells if f"lab.check_rung({rung}, my_rope)" in cell)
    return stub.removeprefix("# ")


def test_no_verdict_contradicts_the_cell_that_got_a_kernel(notebook, tmp_path):
    kept.keep(2, written(RUNGS[2].source, tmp_path))
    for rung, brought in ((2, "our kernel of rung 1, as"), (6, "your own kernel of rung 2. Edit")):
        said, text = notebook.run(stub_of(rung))
        assert text and said.startswith(f"This cell now has {brought}"), said
        assert "NOT YET: this cell has another text now" in said and "delete" not in said
    said, _ = notebook.run(stub_of(6).replace("lab.mine(6)", "# lab.mine(6)"))
    assert "NOT YET: take cos and sin before" in said and "uncomment lab.mine(6)" in said


def test_what_a_cell_had_is_kept(notebook, folder):
    """Whatever it was: a stub, or a reader's lines, and both if it happens twice."""
    for rung in (2, 5, 5):
        edited = stub_of(rung).replace("    row =", f"    mine = {rung}\n    row =")
        said, text = notebook.run(edited)
        assert "def my_rope(" in text and f"replaced_{rung}.py" in said
        assert (folder / f"replaced_{rung}.py").read_text().endswith(f"{edited.strip()}\n\n\n")
    assert (folder / "replaced_5.py").read_text().count("mine = 5") == 2
    assert kept.climbed() == []


def test_what_is_compared_keeps_nothing(notebook):
    """`pytest --nbval` and `make notebooks` run the worked solutions, which are not a reader's."""
    notebook.run(f"os.environ[{QUIET!r}] = '1'")
    assert "RIGHT: rung 2" in notebook.run(CELLS[1])[0]
    assert kept.climbed() == []


def test_a_model_gets_the_readers_last_kernel_that_has_a_backward(tmp_path):
    assert kept.mine_or_ours() is RUNGS[7].module.my_rope
    kept.keep(3, written(RUNGS[3].source, tmp_path))
    assert kept.mine_or_ours() is RUNGS[7].module.my_rope  # rung 3 has no backward
    for rung in (5, 4):
        kept.keep(rung, written(RUNGS[rung].source.replace("exists", f"is_{rung}"), tmp_path))
    assert "is_5" in kept.source_of(5)
    assert kept.mine_or_ours().__code__.co_filename.endswith("rung_5.py")
