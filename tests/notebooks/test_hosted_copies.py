"""Copies for hosted services: what is in them, and that each runs alone in an empty folder."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import nbformat
import pytest

import hosted
import hosted_copies
import pairwise
from processes import ROOT
from readers_copies import ANSWER

SOURCE = hosted_copies.Source("somebody/rope", "0123456789" * 4, "https://host/rope")
ORIGINALS = {path.relative_to(ROOT).as_posix(): path for path in hosted_copies.originals()}
START, FIRST_TRITON = "notebooks/00_start_here.ipynb", "notebooks/03_first_triton_kernel.ipynb"
HOSTED = [name for name in ORIGINALS if "/solutions/" not in name]
LEADS_BACK = re.compile(
    r"https://(?:github\.com|raw\.githubusercontent\.com)/somebody/rope/"
    r"(?:(?:blob|tree)/)?([0-9a-f]{40}|hosted)/([^)#?\s]+)"
)


def copy_of(name):
    return nbformat.reads(hosted_copies.hosted_copy(ORIGINALS[name], SOURCE), as_version=4)


# What is in a copy


def test_the_road_its_detours_and_its_solutions_are_copied(tmp_path):
    made = hosted_copies.make_hosted_copies(tmp_path, SOURCE)
    assert [path.relative_to(tmp_path).as_posix() for path in made] == list(ORIGINALS)
    folders = {path.parent.name for path in made}
    assert len(made) > 30 and folders == {"notebooks", "deeper", "solutions"}
    assert "0123456789 of [somebody/rope]" in (tmp_path / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", ORIGINALS)
def test_a_copy_has_the_cells_of_its_original_badges_and_one_cell_more(name):
    copy, original = copy_of(name), nbformat.read(ORIGINALS[name], as_version=4)
    nbformat.validate(copy)
    title, setup, *others = copy.cells
    assert [cell.id for cell in (title, *others)] == [cell.id for cell in original.cells]
    for mine, theirs in zip((title, *others), original.cells, strict=True):
        if mine.cell_type == "code":  # an answer is replaced by its task
            is_an_answer = ANSWER in theirs.metadata.get("tags", ())
            assert (mine.source == theirs.source) != is_an_answer
    assert not [cell.id for cell in copy.cells if cell.get("outputs")]
    heading, empty, badges = title.source.splitlines()[:3]
    assert heading == original.cells[0].source.splitlines()[0] and not empty
    assert badges.count(f"github.com/somebody/rope/blob/hosted/{name})") == 1  # Kaggle's
    assert badges.count(f"/github/somebody/rope/blob/hosted/{name})") == 1  # Colab's
    compile(setup.source, name, "exec")
    assert setup.id == "setup" and SOURCE.commit in setup.source and SOURCE.clone in setup.source
    assert ("worked_solutions=True" in setup.source) == ("/solutions/" in name)


@pytest.mark.parametrize("name", ORIGINALS)
def test_a_copys_links_lead_back(name):
    for cell in copy_of(name).cells:
        if cell.cell_type != "markdown":
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", cell.source):
            assert target.startswith(("https://", "http://", "#")), (cell.id, target)
            found = LEADS_BACK.match(target)
            if not found:
                continue
            branch, path = found.groups()
            assert (ROOT / path).exists(), (cell.id, target)
            assert branch == ("hosted" if path in HOSTED else SOURCE.commit)


def test_solutions_are_read_where_their_outputs_are_and_pictures_come_as_pictures():
    task = next(cell for cell in copy_of(START).cells if cell.id == "00-ex1-task")
    blob = f"https://github.com/somebody/rope/blob/{SOURCE.commit}/notebooks/solutions/"
    assert f"]({blob}00_start_here_solutions.ipynb#Exercise-1" in task.source
    pictures = "".join(cell.source for cell in copy_of(FIRST_TRITON).cells)
    raw = f"https://raw.githubusercontent.com/somebody/rope/{SOURCE.commit}/docs/images/gpu.svg"
    assert f"]({raw}?sanitize=true)" in pictures


def test_the_command_asks_for_the_address_while_it_is_unknown(tmp_path):
    command = [sys.executable, ROOT / "tools/hosted_copies.py", tmp_path, "--repository", ""]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert done.returncode == 2 and "address is not known yet" in done.stderr
    assert not list(tmp_path.iterdir())


# What the first cell does


@pytest.mark.parametrize(
    ("torch", "triton"),
    [
        ("2.9.1", "3.5.1"),
        ("2.11.0+cpu", "3.6.0"),
        ("2.13.0+cu130", "3.7.1"),
        ("2.14.1", "3.8.0"),
        ("3.0", "3.8.0"),
    ],
)
def test_triton_is_that_of_torch(torch, triton):
    assert hosted.triton_for(torch) == triton


def test_the_pinned_torch_gets_the_pinned_triton():
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    torch, triton = (re.search(rf"^{name}==(\S+)", pins, re.M)[1] for name in ("torch", "triton"))
    assert hosted.triton_for(torch) == triton


@pytest.mark.parametrize(
    "missing", [(), ("triton",), ("matplotlib",), ("ipywidgets", "matplotlib")]
)
def test_what_is_missing_is_installed(missing, monkeypatch):
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: asked.append(command))
    monkeypatch.setattr(hosted, "version", lambda name: "2.11.0+cpu")
    found = lambda name: None if name in missing else object()  # noqa: E731
    monkeypatch.setattr(hosted.importlib.util, "find_spec", found)
    hosted.install_missing()
    if missing == ("triton",):
        ((*_, wanted),) = asked
        assert wanted == "triton==3.6.0" and "--no-deps" in asked[0]  # never another torch
    else:
        wanted = [word for command in asked for word in command[command.index("--quiet") + 1 :]]
        assert wanted == sorted(missing)


def test_kernels_are_kept_where_the_variable_says_else_on_a_mounted_drive(
    monkeypatch, tmp_path, capsys
):
    from rope_lab.rungs import kept

    assert hosted.RUNGS == kept.FOLDER
    monkeypatch.delenv(kept.FOLDER, raising=False)
    monkeypatch.setattr(hosted, "DRIVE", tmp_path / "none")
    hosted.keep_kernels(worked_solutions=False)
    assert kept.FOLDER not in os.environ and "mount Google Drive" in capsys.readouterr().out
    monkeypatch.setattr(hosted, "DRIVE", tmp_path)
    hosted.keep_kernels(worked_solutions=False)
    assert kept.folder() == tmp_path / "rope_in_triton" / "rungs"
    assert str(kept.folder()) in capsys.readouterr().out
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "mine"))
    hosted.keep_kernels(worked_solutions=False)
    assert kept.folder() == tmp_path / "mine"
    hosted.keep_kernels(worked_solutions=True)  # which are no reader's
    assert tmp_path not in kept.folder().parents


# Alone in an empty folder


def git(*arguments, **variables):
    done = subprocess.run(
        ["git", *arguments],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def working_tree(tmp_path_factory):
    """A commit of all that is here and not ignored; no branch, index or file is changed."""
    index = tmp_path_factory.mktemp("git") / "index"
    who = {
        f"GIT_{role}_{what}": "x@x"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    try:
        variables = who | {"GIT_INDEX_FILE": str(index)}
        git("read-tree", "HEAD", **variables)
        git("add", "--all", **variables)
        return git("commit-tree", "-m", "x", git("write-tree", **variables), **variables)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("git has no clone here to fetch from")


@pytest.fixture(scope="module")
def copies(tmp_path_factory, working_tree):
    folder = tmp_path_factory.mktemp("copies")
    source = hosted_copies.Source("somebody/rope", working_tree, ROOT.as_uri())
    hosted_copies.make_hosted_copies(folder, source)
    return folder


@pytest.fixture(scope="module")
def without_the_lab(tmp_path_factory):
    """A Python with all packages of this one, but where `rope_lab` can't be imported.

    A path that a .pth file adds has no .pth files that count, so an editable install has no effect.
    """
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, symlinks=os.name != "nt")
    scheme = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", scheme))
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (packages / "packages_of_the_tests.pth").write_text("\n".join(paths), encoding="utf-8")
    return Path(sysconfig.get_path("scripts", "venv", scheme)) / "python"


EXECUTE = "from nbclient.cli import main; main()"  # as the command `jupyter execute`


def run_as_hosted(python, notebook):
    """Run a notebook that is alone in its folder."""
    variables = {name: x for name, x in os.environ.items() if name != "PYTHONPATH"}
    for name in ("TRITON_INTERPRET", "ROPE_LAB_RUNGS"):
        variables.pop(name, None)
    command = [python, "-c", EXECUTE, "--timeout=600", notebook]
    return subprocess.run(command, env=variables, capture_output=True, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ORIGINALS if pairwise.EVERY else [FIRST_TRITON])
def test_a_copy_runs_alone(name, copies, without_the_lab, tmp_path):
    alone = tmp_path / Path(name).name
    alone.write_text((copies / name).read_text("utf-8"), encoding="utf-8")
    done = run_as_hosted(without_the_lab, alone)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_an_exercise_of_a_copy_is_judged_right(copies, without_the_lab, tmp_path):
    """With the lines of its solution; any other verdict is an error of the cell."""
    solutions = nbformat.read(
        ORIGINALS["notebooks/solutions/00_start_here_solutions.ipynb"], as_version=4
    )
    answer = next(cell.source for cell in solutions.cells if cell.id == "00-ex1")
    notebook = json.loads((copies / START).read_text("utf-8"))
    (exercise,) = (cell for cell in notebook["cells"] if cell["id"] == "00-ex1")
    judged = "lab.check_exercise(scaled_copy, exercises.scaled_copy)"
    assert answer.endswith(judged)
    exercise["source"] = answer.replace(judged, f"verdict = {judged}\nassert verdict, verdict")
    alone = tmp_path / "00_start_here.ipynb"
    alone.write_text(json.dumps(notebook), encoding="utf-8")
    done = run_as_hosted(without_the_lab, alone)
    assert done.returncode == 0, done.stdout + done.stderr
