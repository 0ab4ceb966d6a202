"""A reader's copies of the notebooks, and what `make test` makes of a reader's work."""

import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

import readers_copies
from processes import ROOT

LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)[^)\s]*\)")  # the path of a file here
INTO_ITS_CELL = re.compile(r"\]\(([^)\s#]+\.ipynb#[^)\s]+)\)")  # the whole link
INTO_A_NOTEBOOK = re.compile(r"(?<=\.ipynb)#[^)\s]*(?=\))")  # where in it a link leads
NOTEBOOKS = "00_start.ipynb", "deeper/00_more.ipynb", "solutions/00_start_solutions.ipynb"


def save(path, *sources, printed=()):
    """A notebook as it is stored: executed, with an output for each cell."""
    node = nbformat.v4.new_notebook()
    for number, source in enumerate(sources):
        text = printed[number] if printed else f"output {number}\n"
        outputs = [nbformat.v4.new_output("stream", text=text)]
        cell = nbformat.v4.new_code_cell(source, execution_count=number + 1, outputs=outputs)
        node.cells.append(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(node, path)


@pytest.fixture
def checkout(tmp_path):
    """A small repository: a notebook, a solution, a detour, records."""
    root = tmp_path / "checkout"
    for name in (*NOTEBOOKS, ".ipynb_checkpoints/00_start-checkpoint.ipynb"):
        save(root / "notebooks" / name, "a = 1", "print(a)")
    (root / "notebooks/records").mkdir()
    (root / "notebooks/records/00.json").write_text("{}", encoding="utf-8")
    (root / "notebooks/deeper/picture.png").write_text("a picture", encoding="utf-8")
    return root


@pytest.fixture
def originals(checkout):
    return checkout / "notebooks"


@pytest.fixture
def copies(checkout):
    """Where they have been made once."""
    readers_copies.make_copies(checkout)
    return checkout / "my_notebooks"


def cells(path):
    return nbformat.read(path, as_version=4).cells


def edit(path, source):
    """Change the first cell, as a reader or the next version would."""
    node = nbformat.read(path, as_version=4)
    node.cells[0].source = source
    nbformat.write(node, path)


def run_again(path):
    """Other outputs, and what JupyterLab adds."""
    node = nbformat.read(path, as_version=4)
    node.metadata.language_info = {"name": "python", "version": "3.13.1"}
    for cell in node.cells:
        cell.metadata.trusted, cell.outputs, cell.execution_count = True, [], 20
    nbformat.write(node, path)


# the copies


def named_cell(link, original):
    """The first line of the cell that a copy's link leads to, as a link names a heading."""
    path, cell = re.fullmatch(r"([^#]+)#cell-id=(.+)", link).groups()
    (source,) = [x.source for x in cells(original.parent / path) if x.id == cell]
    return f"{path}#{source.splitlines()[0].lstrip('# ').replace(' ', '-')}"


def test_every_notebook_of_this_repository_is_copied_without_what_running_added(tmp_path):
    """And every link of it leads somewhere from there, too.

    One to a heading of another notebook names its cell: JupyterLab would open that notebook at its
    top (issue 15207).
    """
    for path in ROOT.iterdir():
        if not path.name.startswith((".", "my_notebooks")):
            (tmp_path / path.name).symlink_to(path)
    originals, copies = tmp_path / "notebooks", tmp_path / "my_notebooks"
    made, _ = readers_copies.make_copies(tmp_path)
    found = (path.relative_to(originals) for path in originals.rglob("*.ipynb"))
    assert {*map(Path, made)} == {x for x in found if ".ipynb_checkpoints" not in x.parts}
    for name in made:
        nbformat.validate(nbformat.read(copies / name, as_version=4))
        for mine, theirs in zip(cells(copies / name), cells(originals / name), strict=True):
            assert (mine.id, mine.cell_type) == (theirs.id, theirs.cell_type)
            same = INTO_A_NOTEBOOK.sub("", mine.source) == INTO_A_NOTEBOOK.sub("", theirs.source)
            assert same != (readers_copies.ANSWER in theirs.metadata.get("tags", ()))
            assert mine.metadata.get("tags") == theirs.metadata.get("tags")
            assert mine.get("outputs", []) == [] and mine.get("execution_count") is None
            if mine.cell_type == "markdown":
                for link in LINK.findall(mine.source):
                    assert ((copies / name).parent / link).exists(), (name, link)
                to_cells = INTO_ITS_CELL.findall(mine.source)
                headings = [named_cell(link, originals / name) for link in to_cells]
                assert headings == INTO_ITS_CELL.findall(theirs.source), (name, mine.id)


def test_copies_from_the_first_run_to_the_last(checkout, copies, originals):
    """Solutions are hidden until a reader opens them, and what a reader has is left alone."""
    assert {path.relative_to(copies).as_posix() for path in copies.rglob("*.ipynb")} == {*NOTEBOOKS}
    for name in NOTEBOOKS:
        hidden = [cell.metadata.get("jupyter") for cell in cells(copies / name)]
        assert hidden == [{"source_hidden": True} if "solutions" in name else None] * 2
    for name in ("records", "deeper/picture.png"):
        assert (copies / name).is_symlink() and (copies / name).samefile(originals / name)

    start = copies / "00_start.ipynb"
    edit(start, "my answer")
    (copies / "deeper/00_more.ipynb").unlink()
    save(originals / "01_next.ipynb", "new")
    run_again(originals / "00_start.ipynb")  # which changes no cell
    before = start.read_bytes()
    made_now = readers_copies.make_copies(checkout)
    assert made_now == (["01_next.ipynb", "deeper/00_more.ipynb"], [])
    assert readers_copies.make_copies(checkout) == ([], [])

    edit(originals / "00_start.ipynb", "a = 2")
    for _ in range(2):  # it is named until the copy is taken again
        assert readers_copies.make_copies(checkout) == ([], ["00_start.ipynb"])
        assert start.read_bytes() == before
    start.rename(start.with_name("mine.ipynb"))
    assert readers_copies.make_copies(checkout) == (["00_start.ipynb"], [])
    assert cells(start)[0].source == "a = 2"
    assert readers_copies.make_copies(checkout) == ([], [])


def test_where_links_cannot_be_made_the_notebooks_are_copied_all_the_same(checkout, monkeypatch):
    def refused(*_):
        raise OSError("A required privilege is not held by the client")  # Windows says so

    monkeypatch.setattr(Path, "symlink_to", refused)
    made, _ = readers_copies.make_copies(checkout)
    assert set(made) == set(NOTEBOOKS)
    assert not (checkout / "my_notebooks/records").exists()  # the lab has its own


def test_nothing_of_the_readers_is_overwritten(checkout, originals):
    """Files, folders and links, where ours would be, before the first run and after it."""
    copies = checkout / "my_notebooks"
    (originals / "notes.md").write_text("ours", encoding="utf-8")
    (copies / "00_start.ipynb").mkdir(parents=True)
    (copies / "records").write_text("the reader's", encoding="utf-8")
    (copies / "notes.md").write_text("the reader's", encoding="utf-8")
    (checkout / "elsewhere").mkdir()
    (copies / "deeper").symlink_to(checkout / "elsewhere")
    for _ in range(2):
        made, stale = readers_copies.make_copies(checkout)
        assert "00_start.ipynb" not in (*made, *stale)
        for name in ("records", "notes.md"):
            assert (copies / name).read_text(encoding="utf-8") == "the reader's"
        assert (copies / "deeper").readlink() == checkout / "elsewhere"
        (originals / "notes.md").write_text("ours, newer", encoding="utf-8")
    assert (originals / "records/00.json").read_text(encoding="utf-8") == "{}"


# the command


COPIED = "Copied into my_notebooks: 3 notebooks, without outputs."
UP_TO_DATE = "Your copies in my_notebooks are up to date."
STALE = "Changed since they were copied, and left as you have them: 00_start."


def test_the_command_says_what_it_has_done(checkout, originals, monkeypatch, capsys):
    make_copies = readers_copies.make_copies
    monkeypatch.setattr(readers_copies, "make_copies", lambda: make_copies(checkout))
    for said in (COPIED, UP_TO_DATE, STALE):
        if said is STALE:
            edit(originals / "00_start.ipynb", "a = 2")
        readers_copies.main()
        assert capsys.readouterr().out.startswith(said)
    (originals / "00_start.ipynb").write_text("<<<<<<< ours", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"00_start.ipynb is not a notebook"):
        readers_copies.main()


def test_the_lab_opens_the_readers_own_copies(monkeypatch):
    called = []
    server = SimpleNamespace(wait=lambda: 0)
    monkeypatch.setattr(subprocess, "call", lambda command, cwd: called.append(command) or 0)
    monkeypatch.setattr(subprocess, "Popen", lambda command, cwd: called.append(command) or server)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert runpy.run_path(str(ROOT / "lab.py"))["open_lab"]("python", ["--port=9"]) == 0
    copying, opening = called
    assert copying == ["python", "tools/readers_copies.py"]
    assert "--LabApp.default_url=/lab/tree/my_notebooks/00_start_here.ipynb" in opening
    assert opening[-1] == "--port=9"  # a reader's options come last


def test_every_command_finds_an_environment_whose_path_has_a_space(tmp_path):
    """Its path is one word to the shell."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    (tmp_path / "my venv/bin").mkdir(parents=True)
    targets = ("lab", "test", "test-all", "mutants", "notebooks", "hugging_face", "bench", "record")
    venv = f"VENV={tmp_path}/my venv"
    # `make test` may run this test, and its make would tell this one what it was told
    env = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    called = ["make", "--dry-run", *targets, "site", venv]
    planned = subprocess.run(called, cwd=ROOT, env=env, capture_output=True, encoding="utf-8")
    assert planned.returncode == 0, planned.stderr
    one_line_each = planned.stdout.replace("\\\n", "")  # as the shell reads them
    words = shlex.split(one_line_each, comments=True)
    called = [word.strip("()") for word in words if "venv/bin/" in word]
    assert len(called) > len(targets)
    assert all(word.startswith(f"{tmp_path}/my venv/bin/") for word in called), called


# what git and nbval do with copies, backups and checkpoints


@pytest.mark.parametrize("folder", ("my_notebooks", "my_notebooks-2026-11-20-142501"))
def test_git_does_not_see_a_readers_folder(folder):
    """Not even `git clean` touches it."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git, in a clone")
    asked = ["git", "check-ignore", "--quiet", f"{folder}/mine.ipynb"]
    assert subprocess.run(asked, cwd=ROOT).returncode == 0


def test_nbval_runs_the_notebooks_alone_and_accepts_another_machines_engine(tmp_path):
    """Each cell prints a line, and what another machine stored differs from it."""
    pytest.importorskip("nbval")
    stored = {
        "print('Engine: interpreted, on the CPU')": "Engine: compiled, on cuda (NVIDIA H200)\n",
        "print('Engine: interpreted\\nsum 3')": "Engine: compiled\nsum 3\n",
        "print('Motor: interpreted')": "Engine: compiled\n",
        "print('Engine: interpreted\\nsum 4')": "Engine: compiled\nsum 3\n",
    }
    save(tmp_path / "notebooks/engines.ipynb", *stored, printed=[*stored.values()])
    for left_behind in ("notebooks/.ipynb_checkpoints", "my_notebooks"):
        save(tmp_path / left_behind / "mine.ipynb", "print('mine')")
    for name in ("conftest.py", "tools/nbval_sanitize.cfg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--nbval"]
    command += ["--rootdir", str(tmp_path), "-o", "norecursedirs=", str(tmp_path)]
    folder = tmp_path / "elsewhere"
    ran = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8").stdout
    found = re.findall(r"^(PASSED|FAILED) .*?(\w+\.ipynb)::Cell (\d)", ran, re.MULTILINE)
    states = ("PASSED", "PASSED", "FAILED", "FAILED")
    wanted = [(state, "engines.ipynb", str(i)) for i, state in enumerate(states)]
    assert sorted(found) == sorted(wanted), ran
