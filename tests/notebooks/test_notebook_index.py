"""README, the map and the first and last cells say what notebooks/index.toml says.

A mismatch is mended by `make index`.
"""

import difflib
import json
import shutil
import sys
import types

import pytest

import notebook_index
from notebook_form import INDEX, ROOT, names_of_detours, names_of_notebooks

START, MATH, HALF = names_of_notebooks()[:3]
LAST = names_of_notebooks()[-1]
MATH_TIME = f"{INDEX.road[1].minutes} min"
# together they are in no other table of the index
MATH_CORE = f'core = "{INDEX.road[1].core}"\n'
MATH_MINUTES = f"{MATH_CORE}minutes = {INDEX.road[1].minutes}\n"
TOTAL = INDEX.minutes_of_the_road


def names_of_stale_files(root):
    return [path.relative_to(root).as_posix() for path in notebook_index.stale(root)]


def test_every_place_says_what_the_index_says():
    stale = names_of_stale_files(ROOT)
    assert stale == [], f"{', '.join(stale)} differ from {notebook_index.INDEX}: run `make index`"


@pytest.fixture
def copy_of_repository(tmp_path):
    """The files that the tool reads and writes."""
    (tmp_path / "notebooks" / "deeper").mkdir(parents=True)
    names = [f"notebooks/{name}" for name in [*names_of_notebooks(), *names_of_detours()]]
    for name in ["README.md", "CITATION.cff", notebook_index.INDEX, *names]:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def replace_in(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path.name}: the sample no longer breaks anything"
    path.write_text(text.replace(old, new), encoding="utf-8")


# Every place put wrong: found, and mended without a trace


def test_places_that_deviate_are_found_and_mended(copy_of_repository):
    """A row of README's table, one of the map, and each line of the first and the last cell."""
    for name, good, bad in [
        ("README.md", f" | {MATH_TIME.replace(' ', notebook_index.NBSP)} |", " | 99 min |"),
        ("README.md", "| all of it |", "| all |"),
        ("README.md", "\n<!-- notebooks: end -->", "\n| 99 | Why? |\n<!-- notebooks: end -->"),
        (f"notebooks/{START}", f"Why rotate at all? | {MATH_TIME}", "Why rotate at all? | 5 min"),
        (f"notebooks/{START}", "| this is the first ·", "| none ·"),
        (f"notebooks/{MATH}", "ipynb#Exercise-3:-A-table-of-scores)", "ipynb#Exercise-4:-A-table)"),
        (f"notebooks/{MATH}", "# 01 · RoFormer's math", "# 01 · The math"),
        (f"notebooks/{MATH}", "**Why rotate at all?**", "**Why turn at all?**"),
        (f"notebooks/{MATH}", "| You need | [00 Start here]", "| You need | [00]"),
        (f"notebooks/{MATH}", "| Time | ", "| Time | about "),
        (f"notebooks/{MATH}", "| Hardware | any;", "| Hardware | a GPU;"),
        (f"notebooks/{MATH}", "Previous · next", "Next · previous"),
        (f"notebooks/{MATH}", "**Next:** [02 Rotate half]", "**Next:** [02]"),
        (f"notebooks/{LAST}", "**Next:** your own kernel.", "**Next:** notebook 99."),
    ]:
        replace_in(copy_of_repository / name, good, bad)
        assert names_of_stale_files(copy_of_repository) == [name]
        assert notebook_index.write(copy_of_repository) == [name]
        assert (copy_of_repository / name).read_bytes() == (ROOT / name).read_bytes()


def lines_of_diff(root, name, sign):
    """What the copy has more (+) or less (-) than the repository, without the JSON around it."""
    before = (ROOT / name).read_text(encoding="utf-8").splitlines()
    after = (root / name).read_text(encoding="utf-8").splitlines()
    found = [line[1:] for line in difflib.unified_diff(before, after, n=0) if line[0] == sign]
    return [line.strip(' ",').removesuffix("\\n") for line in found[1:]]  # [0] names the file


def changed_lines(root, name):
    new = lines_of_diff(root, name, "+")
    assert len(new) == len(lines_of_diff(root, name, "-"))
    return new


def test_an_edit_of_the_index_changes_its_lines_and_no_others(copy_of_repository):
    root = copy_of_repository
    replace_in(root / notebook_index.INDEX, MATH_MINUTES, f"{MATH_CORE}minutes = 60\n")
    changed = ["README.md", f"notebooks/{START}", f"notebooks/{MATH}"]
    assert notebook_index.write(root) == changed
    name = "| [01 RoFormer's math]({}01_roformer_math.ipynb) | Why rotate at all? | "
    row, total = changed_lines(root, "README.md")
    assert row.startswith(name.format("notebooks/")) and row.endswith(
        f" | 60{notebook_index.NBSP}min |"
    )
    assert total == f"| | | all of it | {TOTAL - INDEX.road[1].minutes + 60} min |"
    assert changed_lines(root, f"notebooks/{START}") == [name.format("") + "60 min | any |"]
    (time,) = changed_lines(root, f"notebooks/{MATH}")
    assert time.startswith("| Time | 60 minutes")


def test_a_new_title_reaches_the_neighbors(copy_of_repository):
    root = copy_of_repository
    replace_in(root / notebook_index.INDEX, 'title = "Rotate half"', 'title = "Half of it"')
    *before, after = [f"notebooks/{name}" for name in names_of_notebooks()[:4]]
    detours = [f"notebooks/{entry.file}" for entry in INDEX.deeper if entry.number == HALF[:2]]
    assert notebook_index.write(root) == ["README.md", *before, *detours, after]
    assert changed_lines(root, f"notebooks/{HALF}") == ["# 02 · Half of it"]
    assert changed_lines(root, f"notebooks/{MATH}") == [
        "| Previous · next | [00 Start here](00_start_here.ipynb)"
        " · [02 Half of it](02_rotate_half.ipynb) |",
        "**Next:** [02 Half of it](02_rotate_half.ipynb):"
        " what does the PyTorch function do, and what does it cost?",
    ]


# What may come: a next notebook, a detour

NEW = """
[[{kind}]]
number = "{number}"
file = "{file}"
title = "One more"
question = "What else?"
minutes = 20
you_need = "{{02}}"
hardware = "any"
hardware_in_brief = "any"
"""
EMPTY_CELLS = ["# x\n\n**x?**\n\n| | |\n|---|---|", "## Recap\n\n**Next:** x"]


def add(root, kind="notebook", number="16", file="16_one_more.ipynb", more="", cells=EMPTY_CELLS):
    with (root / notebook_index.INDEX).open("a", encoding="utf-8") as index:
        index.write(NEW.format(kind=kind, number=number, file=file) + more)
    path = root / "notebooks" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": [{"source": [cell]} for cell in cells]}))
    return path


def source(path, place):
    return "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][place]["source"])


def test_a_new_notebook_gets_its_cells_and_its_neighbors_lead_to_it(copy_of_repository):
    root = copy_of_repository
    path = add(root)
    changed = [
        "README.md",
        f"notebooks/{START}",
        f"notebooks/{LAST}",
        "notebooks/16_one_more.ipynb",
    ]
    assert notebook_index.write(root) == changed
    assert source(path, 0) == (
        "# 16 · One more\n\n**What else?**\n\n| | |\n|---|---|\n"
        "| You need | [02 Rotate half](02_rotate_half.ipynb) |\n"
        "| Time | 20 minutes |\n| Hardware | any |\n"
        "| Previous · next | [14 Into the cache](14_into_the_cache.ipynb) · "
        "none: this is the last one so far, [00](00_start_here.ipynb) has the map |"
    )
    assert source(path, -1).endswith("\n\n**Next:** your own kernel.")
    last = root / "notebooks" / LAST
    assert "· [16 One more](16_one_more.ipynb) |" in source(last, 0)
    assert source(last, -1).endswith("**Next:** [16 One more](16_one_more.ipynb): what else?")
    row = "[16 One more](notebooks/16_one_more.ipynb) | What else? |  | 20\u00a0min |\n"
    assert row in (root / "README.md").read_text(encoding="utf-8")


def test_a_detour_follows_its_notebook_and_leads_back(copy_of_repository):
    root = copy_of_repository
    path = add(root, "deeper", "02", "deeper/02_one_more.ipynb")
    changed = [f"notebooks/{START}", "notebooks/deeper/02_one_more.ipynb"]
    assert notebook_index.write(root) == changed
    assert source(path, 0) == (
        "# 02+ · One more\n\n**What else?**\n\n| | |\n|---|---|\n"
        "| You need | [02 Rotate half](../02_rotate_half.ipynb) |\n"
        "| Time | 20 minutes |\n| Hardware | any |\n"
        "| Back to | [02 Rotate half](../02_rotate_half.ipynb) |"
    )
    assert source(path, -1) == EMPTY_CELLS[-1]
    assert lines_of_diff(root, f"notebooks/{START}", "+") == [
        "| [02+ One more](deeper/02_one_more.ipynb) | What else? | 20 min | any |"
    ]


# What is refused

AIMS_ONLY = ["# x\n\n**x?**\n\nYou will be able to", EMPTY_CELLS[1]]
NO_WAY_ON = [EMPTY_CELLS[0], "## Recap"]


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        (
            "afterwards =",
            "afterward =",
            "00_start_here.ipynb in .* unexpected .* 'afterward'",
        ),
        (MATH_MINUTES, MATH_CORE, "01_roformer_math.ipynb in .* missing .* 'minutes'"),
        (
            MATH_MINUTES,
            f'{MATH_CORE}minutes = "5"\n',
            "01_roformer_math.ipynb is not .* has minutes, a",
        ),
        ("rotate at all?", "rotate.", "is not a notebook that has a question with a question mark"),
        ("RoFormer's math", "RoFormer | math", "title has a | or a line break"),
        (
            'number = "01"',
            'number = "1"',
            "01_roformer_math.ipynb is not .* named 1_",
        ),
        ('"01_roformer_math.ipynb"', '"01_gone.ipynb"', "01_gone.ipynb is in .* not exist"),
        ('"{01}"', '"{99}"', r"\{99\} in .*: there is no notebook 99"),
        ("[ends]", "[ends", "Expected ']'"),
    ],
)
def test_a_wrong_index_is_refused(copy_of_repository, good, bad, complaint):
    replace_in(copy_of_repository / notebook_index.INDEX, good, bad)
    with pytest.raises(ValueError, match=complaint):
        notebook_index.write(copy_of_repository)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"number": "14", "file": "14_x.ipynb"}, "'15', '14'.*; each has to be above the last"),
        ({"kind": "deeper", "number": "99", "file": "deeper/x.ipynb"}, "belongs to notebook 99"),
        ({"kind": "deeper", "number": "02"}, "is not a notebook that is named deeper/"),
        ({"cells": AIMS_ONLY}, "16_one_more.ipynb: the table has to be there exactly once"),
        ({"cells": NO_WAY_ON}, '16_one_more.ipynb: the "Next" line has to be there exactly once'),
    ],
)
def test_a_notebook_that_does_not_fit_is_refused(copy_of_repository, arguments, complaint):
    add(copy_of_repository, **arguments)
    with pytest.raises(ValueError, match=complaint):
        notebook_index.write(copy_of_repository)


def test_nothing_is_written_when_one_place_is_missing(copy_of_repository):
    root = copy_of_repository
    replace_in(root / notebook_index.INDEX, MATH_MINUTES, f"{MATH_CORE}minutes = 60\n")
    replace_in(root / "notebooks" / LAST, "**Next:**", "Then")
    before = (root / "README.md").read_bytes()
    with pytest.raises(ValueError, match=f"notebooks/{LAST}: the "):
        notebook_index.write(root)
    assert (root / "README.md").read_bytes() == before


# Where the project is to be found


def test_without_a_repository_nothing_leads_there(copy_of_repository):
    text = "".join(path.read_text() for path in copy_of_repository.rglob("*.*") if path.is_file())
    assert "colab" not in text.lower() and "repository-code" not in text


def test_a_repository_brings_badges_and_links(copy_of_repository):
    root = copy_of_repository
    before = {path: path.read_bytes() for path in root.rglob("*.*")}
    replace_in(root / notebook_index.INDEX, 'repository = ""', 'repository = "me/rope"')
    notebook_index.write(root)
    readme = (root / "README.md").read_text()
    assert "[![Open in Colab](https://colab.research.google.com/assets/" in readme
    assert "\nrepository-code: https://github.com/me/rope\n" in (root / "CITATION.cff").read_text()
    cells = json.loads((root / "notebooks" / MATH).read_text())["cells"]
    assert f"[GitHub](https://github.com/me/rope/blob/main/notebooks/{MATH})" in "".join(
        cells[0]["source"]
    )
    replace_in(root / notebook_index.INDEX, 'repository = "me/rope"', 'repository = ""')
    notebook_index.write(root)
    assert {path: path.read_bytes() for path in root.rglob("*.*")} == before


def test_the_first_cell_fetches_both_packages_in_colab_alone(tmp_path, monkeypatch):
    lines = notebook_index.FETCH.replace("https://github.com/{repository}", str(ROOT))
    lines = lines.replace("/content/rope", str(tmp_path / "rope"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    exec(lines)
    assert not (tmp_path / "rope").exists()
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    exec(lines)
    assert sys.path[0] == str(tmp_path / "rope")
    assert {"rope_kernels", "rope_lab", "notebooks"} <= {
        x.name for x in (tmp_path / "rope").iterdir()
    }


def test_a_strange_repository_is_refused(copy_of_repository):
    replace_in(copy_of_repository / notebook_index.INDEX, 'repository = ""', 'repository = "x y"')
    with pytest.raises(ValueError, match="has to be owner/name"):
        notebook_index.write(copy_of_repository)
