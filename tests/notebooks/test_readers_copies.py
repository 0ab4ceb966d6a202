"""A reader's copies of the notebooks, and what `make test` makes of a reader's work."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import readers_copies

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)[^)\s]*\)")  # the path of a file here


def notebook(*sources, **metadata):
    """A notebook as it is stored: executed, with an output for each cell."""
    cells = [
        nbformat.v4.new_code_cell(
            source,
            id=f"cell-{number}",
            execution_count=number,
            outputs=[nbformat.v4.new_output("stream", text=f"output {number}\n")],
        )
        for number, source in enumerate(sources, start=1)
    ]
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


@pytest.fixture
def checkout(tmp_path):
    """A small repository: a notebook, a solution, a detour, records."""
    root = tmp_path / "checkout"
    for name in ("00_start", "solutions/00_start_solutions", "deeper/00_more"):
        path = root / f"notebooks/{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook("a = 1", "print(a)"), path)
    (root / "notebooks/records").mkdir()
    (root / "notebooks/records/00.json").write_text("{}")
    (root / "notebooks/deeper/picture.png").write_text("a picture")
    checkpoints = root / "notebooks/.ipynb_checkpoints"
    checkpoints.mkdir()
    nbformat.write(notebook("old"), checkpoints / "00_start-checkpoint.ipynb")
    return root


def cells(path):
    return nbformat.read(path, as_version=4).cells


def edit(path, source):
    """Change the first cell, as a reader or the next version would."""
    node = nbformat.read(path, as_version=4)
    node.cells[0].source = source
    nbformat.write(node, path)


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.ipynb")}


# the copies


def test_every_notebook_of_this_repository_is_copied_without_what_running_added(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    shutil.rmtree(tmp_path / "notebooks/records")
    (tmp_path / "notebooks/records").mkdir()
    report = readers_copies.make_copies(tmp_path)
    originals = tmp_path / "notebooks"
    wanted = {
        path.relative_to(originals).as_posix()
        for path in originals.rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    }
    assert set(report.made) == wanted and len(wanted) > 15
    for name in wanted:
        copy, original = tmp_path / "my_notebooks" / name, originals / name
        nbformat.validate(nbformat.read(copy, as_version=4))
        fields = ("id", "cell_type", "source")
        pairs = zip(cells(copy), cells(original), strict=True)
        for mine, theirs in pairs:
            assert [mine[field] for field in fields] == [theirs[field] for field in fields]
            assert mine.metadata.get("tags") == theirs.metadata.get("tags")
            assert mine.get("outputs", []) == [] and mine.get("execution_count") is None


def test_every_link_leads_somewhere_from_the_copies_too(tmp_path):
    """To other notebooks, to solutions, to code and the README."""
    for path in ROOT.iterdir():
        if not path.name.startswith((".", "my_notebooks")):
            (tmp_path / path.name).symlink_to(path)
    readers_copies.make_copies(tmp_path)
    links = [
        (path, link)
        for path in (tmp_path / "my_notebooks").rglob("*.ipynb")
        for cell in cells(path)
        if cell.cell_type == "markdown"
        for link in LINK.findall(cell.source)
    ]
    assert len(links) > 50
    assert [(path.name, link) for path, link in links if not (path.parent / link).exists()] == []


def test_what_is_no_notebook_is_linked_and_checkpoints_stay_behind(checkout):
    readers_copies.make_copies(checkout)
    copies = checkout / "my_notebooks"
    assert set(files(copies)) == {
        "00_start.ipynb",
        "solutions/00_start_solutions.ipynb",
        "deeper/00_more.ipynb",
    }
    for name in ("records", "deeper/picture.png"):
        assert (copies / name).is_symlink()
        assert not (copies / name).readlink().is_absolute(), "a checkout may be moved"
        assert (copies / name).resolve() == (checkout / "notebooks" / name).resolve()


@pytest.mark.parametrize("when", ["before the first run", "after it"])
def test_no_file_of_the_readers_is_overwritten(checkout, when):
    (checkout / "notebooks/notes.md").write_text("ours")
    own = {name: checkout / "my_notebooks" / name for name in ("notes.md", "records/00.json")}
    if when == "after it":
        readers_copies.make_copies(checkout)
        (checkout / "my_notebooks/records").rename(checkout / "my_notebooks/theirs")
        own["notes.md"].unlink()
    for path in own.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the reader's")
    for _ in range(2):
        readers_copies.make_copies(checkout)
        assert [path.read_text() for path in own.values()] == ["the reader's"] * 2
        (checkout / "notebooks/notes.md").write_text("ours, newer")
    assert (checkout / "notebooks/records/00.json").read_text() == "{}"


def test_what_is_in_the_way_of_a_copy_stays(checkout):
    """A file where a folder would be, and folders where files would be."""
    copies = checkout / "my_notebooks"
    (copies / "00_start.ipynb").mkdir(parents=True)
    (copies / "deeper/picture.png").mkdir(parents=True)
    (copies / "records").write_text("the reader's")
    for _ in range(2):
        assert "00_start.ipynb" not in readers_copies.make_copies(checkout).made
        assert (copies / "records").read_text() == "the reader's"
        assert list((copies / "deeper/picture.png").iterdir()) == []


def test_a_link_of_the_readers_stays(checkout, tmp_path):
    (checkout / "my_notebooks").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (checkout / "my_notebooks/deeper").symlink_to(tmp_path / "elsewhere")
    readers_copies.make_copies(checkout)
    assert (checkout / "my_notebooks/deeper").readlink() == tmp_path / "elsewhere"


def test_a_folder_that_was_linked_may_get_a_notebook_later(checkout):
    readers_copies.make_copies(checkout)
    nbformat.write(notebook("b = 2"), checkout / "notebooks/records/how.ipynb")
    report = readers_copies.make_copies(checkout)
    assert report.made == ["records/how.ipynb"]
    assert not (checkout / "my_notebooks/records").is_symlink()
    assert (checkout / "my_notebooks/records/00.json").is_symlink()
    assert cells(checkout / "notebooks/records/how.ipynb")[0].outputs != []


def test_where_jupyterlab_is_elsewhere_a_copy_says_less_of_its_kernel(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel.ipkernel", None)
    said = readers_copies.of_the_kernel.__wrapped__()
    assert said["language_info"] == {"name": "python"}
    assert said["kernelspec"]["display_name"] == "Python 3"


# later runs


def test_a_later_run_adds_what_is_missing_and_overwrites_nothing(checkout):
    readers_copies.make_copies(checkout)
    copies = checkout / "my_notebooks"
    edit(copies / "00_start.ipynb", "my answer")
    (copies / "deeper/00_more.ipynb").unlink()
    nbformat.write(notebook("new"), checkout / "notebooks/01_next.ipynb")
    before = (copies / "00_start.ipynb").read_bytes()
    report = readers_copies.make_copies(checkout)
    assert report.made == ["01_next.ipynb", "deeper/00_more.ipynb"]
    assert report.stale == []
    assert (copies / "00_start.ipynb").read_bytes() == before
    assert readers_copies.make_copies(checkout) == readers_copies.Report()


def test_a_changed_original_is_named_until_the_copy_is_taken_again(checkout):
    readers_copies.make_copies(checkout)
    original = checkout / "notebooks/00_start.ipynb"
    copy = checkout / "my_notebooks/00_start.ipynb"
    edit(copy, "my answer")
    edit(original, "a = 2")
    before = copy.read_bytes()
    for _ in range(2):
        report = readers_copies.make_copies(checkout)
        assert (report.made, report.stale) == ([], ["00_start.ipynb"])
        assert copy.read_bytes() == before
    copy.rename(copy.with_name("mine.ipynb"))
    assert readers_copies.make_copies(checkout).made == ["00_start.ipynb"]
    assert cells(copy)[0].source == "a = 2"
    assert readers_copies.make_copies(checkout) == readers_copies.Report()


def test_a_copy_that_already_says_the_same_is_not_stale(checkout):
    readers_copies.make_copies(checkout)
    for folder in ("notebooks", "my_notebooks"):
        edit(checkout / folder / "00_start.ipynb", "a = 2")
    assert readers_copies.make_copies(checkout) == readers_copies.Report()


def test_an_untouched_copy_is_replaced_silently(checkout):
    """Opening and saving it changes no cell; an output or an edited cell is work."""
    readers_copies.make_copies(checkout)
    copies, originals = checkout / "my_notebooks", checkout / "notebooks"
    run_and_save(copies / "solutions/00_start_solutions.ipynb")
    run_and_save(copies / "00_start.ipynb")
    clear(copies / "00_start.ipynb")
    for name in files(originals):
        edit(originals / name, "a = 2")
    report = readers_copies.make_copies(checkout)
    assert (report.made, report.stale) == ([], ["solutions/00_start_solutions.ipynb"])
    for name in ("00_start.ipynb", "deeper/00_more.ipynb"):
        assert cells(copies / name)[0].source == "a = 2"
    edit(copies / "00_start.ipynb", "my answer")
    edit(originals / "00_start.ipynb", "a = 3")
    assert "00_start.ipynb" in readers_copies.make_copies(checkout).stale
    assert cells(copies / "00_start.ipynb")[0].source == "my answer"


def test_an_original_that_was_run_and_saved_makes_nothing_stale(checkout):
    readers_copies.make_copies(checkout)
    run_and_save(checkout / "notebooks/00_start.ipynb")
    assert readers_copies.make_copies(checkout) == readers_copies.Report()


def run_and_save(path):
    """What JupyterLab leaves in a notebook, beside other outputs."""
    node = nbformat.read(path, as_version=4)
    node.metadata.language_info = {"name": "python", "version": "3.13.1", "file_extension": ".py"}
    node.metadata.widgets = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    for cell in node.cells:
        cell.metadata |= {"trusted": True, "collapsed": False, "execution": {"idle": "now"}}
        cell.outputs = [nbformat.v4.new_output("stream", text="another machine's\n")]
        cell.execution_count = 20 + (cell.execution_count or 0)
    nbformat.write(node, path)


@pytest.mark.parametrize("memory", [None, "{half", "[]"], ids=["lost", "broken", "no table"])
def test_without_its_memory_a_run_leaves_what_it_cannot_judge(checkout, memory):
    readers_copies.make_copies(checkout)
    copies = checkout / "my_notebooks"
    edit(copies / "00_start.ipynb", "my answer")
    remembered = copies / readers_copies.MEMORY
    remembered.unlink()
    if memory is not None:
        remembered.write_text(memory)
    assert readers_copies.make_copies(checkout) == readers_copies.Report()
    assert cells(copies / "00_start.ipynb")[0].source == "my answer"
    assert set(json.loads(remembered.read_text())) == {
        "deeper/00_more.ipynb",
        "solutions/00_start_solutions.ipynb",
    }


# the command


@pytest.fixture
def command(checkout):
    """Run the script of a checkout; what it ends with, says and complains of."""
    (checkout / "tools").mkdir()
    shutil.copy(ROOT / "tools/readers_copies.py", checkout / "tools")

    def run(*arguments):
        script = [sys.executable, "tools/readers_copies.py", *arguments]
        return subprocess.run(script, cwd=checkout, capture_output=True, text=True)

    return run


def test_a_fresh_start_keeps_a_dated_backup(checkout, command):
    assert command().stdout == "Copied into my_notebooks: 3 notebooks, without outputs.\n"
    assert command().stdout == "Your copies in my_notebooks are up to date.\n"
    (checkout / "my_notebooks/deeper/00_more.ipynb").unlink()
    assert command().stdout == "Copied into my_notebooks: 1 notebook, without outputs.\n"
    edit(checkout / "my_notebooks/00_start.ipynb", "my answer")
    rung = checkout / "my_notebooks/rungs/rung_1.py"
    rung.parent.mkdir()
    rung.write_text("my kernel")
    mine = files(checkout / "my_notebooks")
    ran = command("--fresh")
    (backup,) = checkout.glob("my_notebooks-*")
    assert re.fullmatch(r"my_notebooks-\d{4}-\d\d-\d\d-\d{6}", backup.name)
    assert files(backup) == mine
    assert (backup / "records/00.json").exists()
    assert (backup / "rungs/rung_1.py").read_text() == rung.read_text() == "my kernel"
    assert ran.returncode == 0 and f"Your notebooks so far are in {backup.name}." in ran.stdout
    assert cells(checkout / "my_notebooks/00_start.ipynb")[0].source == "a = 1"


def test_a_fresh_start_needs_nothing_to_be_there(checkout, command):
    assert command("--fresh").returncode == 0
    assert list(checkout.glob("my_notebooks-*")) == []


def test_what_is_stale_is_said_in_few_lines_with_the_way_out(checkout, command):
    for number in range(1, 9):
        nbformat.write(notebook("a = 1"), checkout / f"notebooks/0{number}.ipynb")
    command()
    for number in range(1, 9):
        edit(checkout / f"notebooks/0{number}.ipynb", "a = 2")
    assert command().stdout == "Your copies in my_notebooks are up to date.\n"
    for number in range(1, 9):
        edit(checkout / f"my_notebooks/0{number}.ipynb", "my answer")
        edit(checkout / f"notebooks/0{number}.ipynb", "a = 3")
    said = command().stdout
    assert "01.ipynb, 02.ipynb, 03.ipynb, 04.ipynb and 4 more" in said
    assert "make lab FRESH=1" in said and said.count("\n") <= 5


def test_an_original_that_is_no_notebook_is_named(checkout, command):
    (checkout / "notebooks/00_start.ipynb").write_text("<<<<<<< ours")
    ran = command()
    assert ran.returncode == 1
    assert "00_start.ipynb is not a notebook" in ran.stderr and "Traceback" not in ran.stderr


def test_a_folder_that_cannot_be_renamed_is_explained(checkout, monkeypatch, capsys):
    """As where Docker has mounted it."""

    def refuse(*_):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(readers_copies, "move_to_backup", refuse)
    assert readers_copies.main(["--fresh"]) == 1
    complaint = capsys.readouterr().err
    assert "cannot be renamed (Device or resource busy)" in complaint
    assert "mounted into a container" in complaint


@pytest.fixture
def make(checkout):
    """Run make in the checkout, with this Python, a ruff that fails, and a JupyterLab that ends."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    (checkout / "tools").mkdir()
    for name in ("Makefile", "tools/readers_copies.py"):
        shutil.copy(ROOT / name, checkout / name)
    commands = checkout / "venv/bin"
    commands.mkdir(parents=True)
    (commands / "python").symlink_to(sys.executable)
    (commands / "ruff").symlink_to(shutil.which("false"))
    (commands / "jupyter").symlink_to(shutil.which("echo"))

    def run(*arguments):
        return subprocess.run(
            ["make", *arguments, "VENV=venv"],
            cwd=checkout,
            # `make test` may run this test, and its make would tell ours what it was told
            env={name: value for name, value in os.environ.items() if "MAKE" not in name},
            capture_output=True,
            text=True,
        )

    return run


def test_make_lab_says_what_it_does_and_shows_no_command(checkout, make):
    opening = (
        "Opening notebook 00 in JupyterLab, which prints its address below. Ctrl+C here ends it."
    )
    for arguments, first in (
        ([], "Copied into my_notebooks: 3 notebooks, without outputs."),
        ([], "Your copies in my_notebooks are up to date."),
        (["FRESH=0"], "Your copies in my_notebooks are up to date."),
        (["FRESH=1"], "Your notebooks so far are in my_notebooks-"),
    ):
        ran = make("lab", "LAB_FLAGS=--port=9", *arguments)
        *said, then, started = ran.stdout.splitlines()
        assert said[0].startswith(first) and then == opening and ran.stderr == ""
        assert started.startswith("lab ")
        assert started.endswith("default_url=/lab/tree/my_notebooks/00_start_here.ipynb --port=9")
    options = make().stdout
    assert all(f"\n{x}" in options for x in ("CPU=1", "PYTHON=", "FRESH=1", "LAB_FLAGS=", "VENV="))


# what git, ruff and nbval do with copies, backups and checkpoints


def test_git_and_ruff_leave_a_readers_folders_alone(checkout):
    ruff = pytest.importorskip("ruff").find_ruff_bin()
    for name in (".gitignore", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    folders = ("my_notebooks", "my_notebooks-2026-11-20-142501", "notebooks/.ipynb_checkpoints")
    for folder in folders:
        (checkout / folder).mkdir(exist_ok=True)
        nbformat.write(notebook("import os,sys\nx = [ 1 ]"), checkout / folder / "mine.ipynb")
    for command in (["check"], ["format", "--check"]):
        ran = subprocess.run([ruff, *command], cwd=checkout, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout
    git(checkout, "init", "--quiet")
    listed = git(checkout, "status", "--porcelain", "--untracked-files=all")
    assert "notebooks/00_start.ipynb" in listed
    assert not [line for line in listed.splitlines() if "mine.ipynb" in line]


def git(root, *arguments):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    identity = ["-c", "user.name=a reader", "-c", "user.email=reader@example.com"]
    ran = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return ran.stdout


def nbval(root, *arguments):
    """pytest with nbval in a checkout, started from another folder."""
    pytest.importorskip("nbval")
    for name in ("conftest.py", "tools/nbval_sanitize.cfg"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "elsewhere").mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval"]
    command += ["--rootdir", str(root), "-o", "norecursedirs=", *arguments]
    return subprocess.run(command, cwd=root / "elsewhere", capture_output=True, text=True)


def test_nbval_collects_neither_checkpoints_nor_copies(checkout):
    readers_copies.make_copies(checkout)
    ran = nbval(checkout, "--collect-only", str(checkout))
    collected = set(re.findall(r"^(\S+\.ipynb)::", ran.stdout, re.MULTILINE))
    assert collected == {
        "notebooks/00_start.ipynb",
        "notebooks/solutions/00_start_solutions.ipynb",
        "notebooks/deeper/00_more.ipynb",
    }


def test_the_engine_of_another_machine_is_accepted_and_nothing_else(tmp_path):
    """Each cell prints a line; what another machine stored differs from it."""
    stored = {
        "print('Engine: interpreted, on the CPU')": "Engine: compiled, on cuda (NVIDIA H200)\n",
        "print('Engine: interpreted\\nsum 3')": "Engine: compiled\nsum 3\n",
        "print('Motor: interpreted')": "Engine: compiled\n",
        "print('Engine: interpreted\\nsum 4')": "Engine: compiled\nsum 3\n",
        "print('The Engine: interpreted')": "The Engine: compiled\n",
        "pass": "Engine: compiled\n",
    }
    node = notebook(*stored)
    for cell, text in zip(node.cells, stored.values(), strict=True):
        cell.outputs = [nbformat.v4.new_output("stream", text=text)]
    nbformat.write(node, tmp_path / "engines.ipynb")
    ran = nbval(tmp_path, "-rA", str(tmp_path / "engines.ipynb"))
    passed = re.findall(r"^PASSED .*::Cell (\d)", ran.stdout, re.MULTILINE)
    failed = re.findall(r"^FAILED .*::Cell (\d)", ran.stdout, re.MULTILINE)
    assert (passed, failed) == (["0", "1"], ["2", "3", "4", "5"]), ran.stdout


# originals that were edited


def clear(path):
    """Clear the outputs of all cells, as JupyterLab does."""
    node = nbformat.read(path, as_version=4)
    for cell in node.cells:
        cell.outputs, cell.execution_count = [], None
    nbformat.write(node, path)


def test_a_failing_make_test_says_how_to_get_the_original_back(checkout, make):
    git(checkout, "init", "--quiet")
    git(checkout, "add", "--all")
    edit(checkout / "notebooks/00_start.ipynb", "a = 3")
    ran = make("test")
    assert ran.returncode != 0
    assert "notebooks/00_start.ipynb |" in ran.stderr
    assert "'git restore notebooks' brings them back" in ran.stderr
