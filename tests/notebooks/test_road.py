"""The road leads from each notebook to the next, and README's table says what they say."""

import re
from pathlib import Path

import pytest

from notebook_form import (
    ROOT,
    THREE_EDITS,
    load,
    names_of_detours,
    names_of_notebooks,
    stated_time,
)

ROAD = names_of_notebooks()


def ends(name):
    """The first and the last cell."""
    cells = load(name).node.cells
    return cells[0].source + "\n", cells[-1].source + "\n"


def link(name, folder=""):
    """A notebook's number and title, linked."""
    number, title = re.match(r"# (\d\d) · (.+)\n", ends(name)[0]).groups()
    return f"[{number} {title}]({folder}{name})"


@pytest.mark.parametrize("place", range(len(ROAD)))
def test_a_notebook_leads_to_its_neighbors(place):
    first, last = ends(ROAD[place])
    assert (ROAD[place][:2], first[:7]) == (f"{place:02}", f"# {place:02} · ")
    before = link(ROAD[place - 1]) if place else "this is the first"
    after = link(ROAD[place + 1]) if place + 1 < len(ROAD) else None
    following = after or "none: this is the last one"
    assert f"\n| Previous · next | {before} · {following} |\n" in first
    (way_on,) = re.findall(r"^\*\*Next:\*\* (.*)$", last, re.MULTILINE)
    assert way_on.startswith(f"{after}: ") if after else way_on == "your own kernel."


@pytest.mark.parametrize("name", names_of_detours())
def test_a_detour_leads_back(name):
    number = Path(name).name[:2]
    (back,) = (link(other, "../") for other in ROAD if other.startswith(number))
    first, last = ends(name)
    assert first.startswith(f"# {number}+ · ") and f"\n| Back to | {back} |\n" in first
    assert last.endswith(f"\n**Back to** {back}.\n")


def test_the_index_has_each_detour_with_its_question_and_minutes():
    page, whole = (ROOT / "docs/index.md").read_text(encoding="utf-8"), 0
    for name in names_of_detours():
        first, _ = ends(name)
        number, title, question = re.match(r"# (\d\d\+) · (.+)\n\n\*\*(.+\?)\*\*\n", first).groups()
        minutes = stated_time(first).core
        (back,) = (link(other, "../notebooks/") for other in ROAD if other[:2] == number[:2])
        cells = f"[{number} {title}](../notebooks/{name})", question, back, f"{minutes} min"
        assert f"\n| {' | '.join(cells)} |\n" in page
        whole += minutes
    assert f"\n| | | total | {whole} min |\n" in page


@pytest.mark.parametrize("name", ROAD)
def test_solutions_lead_back(name):
    solutions = f"solutions/{Path(name).stem}_solutions.ipynb"
    first, _ = ends(solutions)
    assert first.startswith(f"# Solutions {ends(name)[0].splitlines()[0].replace('#', 'to')}\n")
    assert f"notebook {name[:2]}](../{name})" in first


@pytest.mark.parametrize("name", [THREE_EDITS, *ROAD, *names_of_detours()])
def test_a_first_cell_links_to_notebooks_by_their_titles(name):
    found = re.findall(r"\[\d\d [^]]+\]\((?:\.\./)?\d\d_\w+\.ipynb\)", ends(name)[0])
    folder = "../" * name.count("/")
    assert found and set(found) <= {link(other, folder) for other in ROAD}


def test_readme_has_each_notebook_once_with_its_question_and_minutes():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    row = r"^\| (\[\d\d .+\]\(.+\)) \| (.+) \| (.+) \| (\d+)\u00a0min \| (\d+)\u00a0min \|$"
    found = re.findall(row, readme, re.MULTILINE)
    wanted, of_the_core, optional = [], [], []
    for (_, _, afterwards, *_), name in zip(found, ROAD, strict=True):
        first, _ = ends(name)
        time = stated_time(first)
        is_core = bool(time.core_sections)
        assert afterwards.startswith("*optional:* ") == (not is_core), name
        (of_the_core if is_core else optional).append(time)
        question = re.match(r".*\n\n\*\*(.+\?)\*\*\n", first)[1]
        minutes = str(time.core), str(time.whole)
        wanted.append((link(name, "notebooks/"), question, afterwards, *minutes))
    assert found == wanted
    for notebooks, times in ("00 to 10", of_the_core), ("11 to 14", optional):
        core, whole = (sum(minutes) for minutes in list(zip(*times, strict=True))[:2])
        assert f"\n| | | *notebooks {notebooks}* | {core}\u00a0min | {whole}\u00a0min |\n" in readme
    minutes = sum(time.core for time in of_the_core)
    assert f" take {minutes} minutes, exercises included. " in readme
