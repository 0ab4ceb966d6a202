"""Copies for hosted services: what is in them, and that each runs alone in an empty folder."""

import importlib
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
from exercise_form import exercises_in
from processes import ROOT
from readers_copies import ANSWER
from rope_lab.rungs import kept

SOURCE = hosted_copies.Source("somebody/rope", "0123456789" * 4, "https://host/rope")
ORIGINALS = {path.relative_to(ROOT).as_posix(): path for path in hosted_copies.originals()}
START = "notebooks/00_start_here.ipynb"
LEADS_BACK = re.compile(
    r"https://(?:github\.com|raw\.githubusercontent\.com)/somebody/rope/"
    r"(?:(?:blob|tree)/)?([0-9a-f]{40}|hosted)/([^)#?\s]+)"
)


def check_links(cell):
    """Those to notebooks lead to copies, all others to the commit; pictures come as pictures."""
    for target in re.findall(r"\]\(([^)\s]+)\)", cell.source):
        assert target.startswith(("https://", "http://", "#")), (cell.id, target)
        if found := LEADS_BACK.match(target):
            branch, path = found.groups()
            is_copied = path in ORIGINALS and "/solutions/" not in path
            assert (ROOT / path).exists(), (cell.id, target)
            assert branch == ("hosted" if is_copied else SOURCE.commit), (cell.id, target)
            assert ("raw." in target and "sanitize" in target) == path.endswith((".svg", ".png"))


@pytest.mark.parametrize("name", ORIGINALS)
def test_a_copy_has_the_cells_of_its_original_badges_and_one_cell_more(name):
    text = hosted_copies.hosted_copy(ORIGINALS[name], SOURCE)
    copy, original = nbformat.reads(text, as_version=4), nbformat.read(ORIGINALS[name], 4)
    nbformat.validate(copy)
    title, setup, *others = copy.cells
    for mine, theirs in zip((title, *others), original.cells, strict=True):
        assert mine.id == theirs.id and not mine.get("outputs")
        if mine.cell_type == "code":  # an answer is replaced by its task
            is_an_answer = ANSWER in theirs.metadata.get("tags", ())
            assert (mine.source == theirs.source) != is_an_answer
        else:
            check_links(mine)
    heading, empty, badges = title.source.splitlines()[:3]
    assert heading == original.cells[0].source.splitlines()[0] and not empty
    assert badges.count(f"github.com/somebody/rope/blob/hosted/{name})") == 1  # Kaggle's
    assert badges.count(f"/github/somebody/rope/blob/hosted/{name})") == 1  # Colab's
    compile(setup.source, name, "exec")
    assert setup.id == "setup" and SOURCE.commit in setup.source and SOURCE.clone in setup.source
    assert ("worked_solutions=True" in setup.source) == ("/solutions/" in name)


def test_the_command_asks_for_the_address_while_it_is_unknown(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["hosted_copies.py", str(tmp_path), "--repository", ""])
    with pytest.raises(SystemExit):
        hosted_copies.main()
    assert "address is not known yet" in capsys.readouterr().err and not [*tmp_path.iterdir()]


# what the first cell does


def pinned(name):
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return re.search(rf"^{name}==(\S+)", pins, re.MULTILINE)[1]


@pytest.mark.parametrize(
    ("torch", "triton"),
    [("2.9.1", "3.5.1"), ("2.11.0+cpu", "3.6.0"), (pinned("torch"), pinned("triton"))],
)
def test_triton_is_that_of_torch(torch, triton):
    assert hosted.triton_for(torch) == triton
    assert hosted.triton_for("3.0") == hosted.triton_for("2.14.1")  # the newest that is known


WANTED = {  # what is missing, and what pip is asked for
    "nothing": ((), []),
    "Triton": (("triton",), ["--no-deps", "triton==3.6.0"]),  # never another torch
    "figures": (("ipywidgets", "matplotlib"), ["ipywidgets", "matplotlib"]),
}


@pytest.mark.parametrize("missing, wanted", WANTED.values(), ids=WANTED)
def test_what_is_missing_is_installed(missing, wanted, monkeypatch):
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: asked.extend(command[5:]))
    monkeypatch.setattr(hosted, "version", lambda name: "2.11.0+cpu")
    monkeypatch.setattr(importlib.util, "find_spec", lambda x: None if x in missing else object())
    hosted.install_missing()
    assert asked == wanted


def test_kernels_are_kept_where_the_variable_says_else_on_a_mounted_drive(
    monkeypatch, tmp_path, capsys
):
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


# alone in an empty folder


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Of this checkout with its changes; no branch, index or file of it is changed."""
    commit = ""
    for command in (("stash", "create"), ("rev-parse", "HEAD")):
        who = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
        done = subprocess.run([*who, *command], cwd=ROOT, capture_output=True, encoding="utf-8")
        commit = commit or done.stdout.strip()
    if not commit:
        pytest.skip("git has no clone here to fetch from")
    folder = tmp_path_factory.mktemp("copies")
    source = hosted_copies.Source("somebody/rope", commit, ROOT.as_uri())
    made = hosted_copies.make_hosted_copies(folder, source)
    assert [path.relative_to(folder).as_posix() for path in made] == list(ORIGINALS)
    assert f"{commit[:10]} of [somebody/rope]" in (folder / "README.md").read_text("utf-8")
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
JUDGED = "lab.check_exercise(scaled_copy, exercises.scaled_copy)"


@pytest.mark.slow
@pytest.mark.parametrize("name", ORIGINALS if pairwise.EVERY else [START])
def test_a_copy_runs_alone(name, copies, without_the_lab, tmp_path):
    """The first exercise with its solution: any other verdict is an error of the cell."""
    notebook = json.loads((copies / name).read_text("utf-8"))
    for cell in notebook["cells"] if name == START else ():
        if cell["id"] == "00-ex1":
            answer = exercises_in("00").solutions["00-ex1"].source
            assert answer.endswith(JUDGED)
            cell["source"] = answer.replace(JUDGED, f"verdict = {JUDGED}\nassert verdict, verdict")
    alone = tmp_path / Path(name).name
    alone.write_text(json.dumps(notebook), encoding="utf-8")
    hidden = ("PYTHONPATH", "TRITON_INTERPRET", kept.FOLDER)
    variables = {name: x for name, x in os.environ.items() if name not in hidden}
    command = [without_the_lab, "-c", EXECUTE, "--timeout=600", alone]
    done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
