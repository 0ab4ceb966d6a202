"""Which exercises a reader has solved: kept for each cell, whatever the notebooks become."""

import json
import re
import shutil
from collections import Counter
from types import SimpleNamespace

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

import rope_lab as lab
from exercise_form import NUMBERS, exercises_in
from notebook_form import FOLDER, load, names_of_notebooks
from rope_lab import solved
from rope_lab.judge.verdict import AS_INTERPRETED, WRONG, Verdict
from rope_lab.records import QUIET
from rope_lab.rungs import kept


@pytest.fixture(autouse=True)
def folder(monkeypatch, kept_here):
    monkeypatch.delenv(QUIET, raising=False)
    return kept_here


@pytest.fixture
def run(monkeypatch):
    """Run cells as a notebook does, in an IPython that the lab was imported in."""
    shell = InteractiveShell()
    monkeypatch.setattr(solved, "get_ipython", lambda: shell)
    solved.note_cells_from_now_on()
    return lambda source: shell.run_cell(source, store_history=True).raise_error()


def done():
    """Notebook and number of each exercise that is done."""
    return [f"{one.notebook[:2]}.{one.title[0]}" for one in solved.progress().done]


def test_exercises_of_three_notebooks_stay_solved_after_an_update(run, folder, monkeypatch):
    for cell in ("01-ex1", "02-ex5", "03-ex2"):
        exercises = exercises_in(cell[:2])
        run(exercises.book.code[0].source)
        if cell == "02-ex5":
            run(exercises.stubs[cell].source)
            assert done() == ["01.1"]  # NOT YET is not done
        run(exercises.solutions[cell].source)
    assert done() == ["01.1", "02.2", "03.1"]

    new = folder.with_name("notebooks")
    new.mkdir()
    for name in names_of_notebooks():
        shutil.copy(FOLDER / name, new)
    notebook = nbformat.read(new / "02_rotate_half.ipynb", as_version=4)
    task = nbformat.v4.new_markdown_cell("### Exercise 3: A new one (2 minutes)", id="02-ex6-task")
    stub = nbformat.v4.new_code_cell("lab.check_answer(answer, 3)", id="02-ex6")
    notebook.cells[1:1] = [nbformat.v4.new_markdown_cell("A word more.")]
    notebook.cells += [task, stub]
    nbformat.write(notebook, new / "02_rotate_half.ipynb")
    monkeypatch.setattr(solved, "ORIGINALS", new)
    assert done() == ["01.1", "02.2", "03.1"]
    shown = solved.progress()
    assert "02 Rotate half\n  ○ Exercise 1: The whole function\n" in repr(shown)
    assert "\n  ○ Exercise 3: A new one\n" in repr(shown)
    assert shown.next.stubs.keys() == {"00-ex1"}
    run("import rope_lab as lab\nanswer = 3\nlab.check_answer(answer, 3)  # mine")
    assert "02.3" not in done()  # not the line of the stub
    run("lab.check_answer(answer, 3)")
    assert "02.3" in done()


def test_an_exercise_is_known_by_its_check():
    cells = [cell for name in names_of_notebooks() for cell in load(name).code]
    checks = Counter(solved.check_in(cell.source) for cell in cells)
    found = solved.exercises_in(FOLDER)
    stubs = [check for one in found for check in one.stubs.values()]
    assert [check for check in stubs if checks[check] != 1] == []
    cells = {cell for number in NUMBERS for cell in exercises_in(number).stubs}
    assert {cell for one in found for cell in one.stubs} == cells
    assert all(one.stubs for one in found)


def test_an_exercise_of_two_cells_is_done_when_both_are():
    (walk,) = [one for one in solved.exercises_in(FOLDER) if "10-ex3" in one.stubs]
    right = SimpleNamespace(state=AS_INTERPRETED)
    for check in walk.stubs.values():
        solved.note(check, Verdict(state=WRONG))
        assert "10.1" not in done()
        solved.note(check, right)
    assert "10.1" in done()


def test_a_worked_solution_is_not_the_readers(monkeypatch, tmp_path):
    (tmp_path / "solutions").mkdir()
    monkeypatch.delenv(kept.FOLDER)
    monkeypatch.chdir(tmp_path / "solutions")
    monkeypatch.setattr(kept, "folder", lambda: tmp_path / "rungs")
    solved.note("lab.check_rung(2, my_rope)", SimpleNamespace(state=AS_INTERPRETED))
    assert done() == []


def test_links_lead_to_cells_where_the_notebooks_are(monkeypatch, tmp_path):
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    assert "href" not in solved.progress()._repr_html_()
    for name in names_of_notebooks():
        (tmp_path / name).touch()
    page = solved.progress()._repr_html_()
    ids = {name: {cell.id for cell in load(name).node.cells} for name in names_of_notebooks()}
    links = re.findall(r'href="\.\./([^"#]+)#cell-id=([^"]+)"', page)
    assert len(links) == len(solved.exercises_in(FOLDER)) + 1  # and the next one
    assert all(cell in ids[name] for name, cell in links)


@pytest.mark.parametrize("folder_of_copies", (".", "solutions"))
def test_a_copy_from_before_a_rung_changed_its_number_is_told_so(
    folder_of_copies, monkeypatch, tmp_path
):
    """Its kernel would be judged by the edit of another rung."""
    book = load("05_fused_half_split.ipynb").node
    name = "05_fused_half_split" + "_solutions" * (folder_of_copies == "solutions") + ".ipynb"
    place = tmp_path / folder_of_copies
    place.mkdir(exist_ok=True)
    monkeypatch.chdir(place)
    nbformat.write(book, name)
    assert solved.older_copy(2) == ""
    (stub,) = [cell for cell in book.cells if "lab.check_rung(2, my_rope)" in cell.source]
    stub.id = "05-before"
    nbformat.write(book, name)
    told = repr(lab.check_rung(2, abs))
    assert told.startswith(f"NOT YET: this copy of {name} is old, and rung 2 is another kernel now")
    assert solved.older_copy(3) == "" and solved.older_copy(4) == ""


@pytest.mark.parametrize(
    "line, told",
    (
        ("from rope_lab.rungs.gone import rung", True),
        ("from rope_lab.n05 import gone", True),
        ("from rope_lab import gone", True),
        ("import rope_lab_of_mine", False),
        ("from torch import gone", False),
        ("raise ImportError", False),
    ),
)
def test_a_copy_that_imports_what_the_lab_no_longer_has_is_told_so(line, told, run, capsys):
    with pytest.raises(ImportError):
        run(f"import rope_lab as lab\n{line}")
    said = "this copy of the notebook is old. Rename the copy, and open the lab again"
    assert (said in capsys.readouterr().out) == told


def test_what_is_kept_is_a_list_of_cells(folder):
    solved.note("lab.check_rung(1, my_rope)", SimpleNamespace(state=AS_INTERPRETED))
    assert json.loads((folder / "exercises.json").read_text(encoding="utf-8")) == ["04-ex5"]
