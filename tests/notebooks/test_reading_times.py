"""The minutes that notebooks and pages say are those that are computed from what is in them."""

import pytest

import reading_times
from notebook_form import FOLDER, names_of_detours, names_of_notebooks
from reading_times import times_of

STALE = "run `make times`, which writes the minutes of now"


@pytest.mark.parametrize("name", [*names_of_notebooks(), *names_of_detours()])
def test_a_notebook_says_what_is_computed(name):
    times = times_of(FOLDER / name)
    assert f"\n{times.row}\n" in times.node.cells[0].source, STALE
    said = {part.name: part.stated for part in times.parts if part.name}
    assert said == {part.name: part.exercise_minutes for part in times.parts if part.name}, STALE


@pytest.mark.parametrize("page", reading_times.PAGES, ids=lambda page: page.name)
def test_a_page_says_what_is_computed(page):
    text = page.read_text(encoding="utf-8")
    assert reading_times.PAGES[page](text) == text, STALE
