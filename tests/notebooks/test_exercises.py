"""Exercises: a kind stub, a hint, and a solution of the same name with the same check.

What stubs and solutions print is stored in the notebooks, and nbval holds it.
`test_answers_in_notebooks.py` has wrong answers judged.
"""

import re

import nbformat
import pytest

import make_site
import notebook_form
import rope_lab as lab
from test_wrong_answers import CHECK, EXAM, GRADED, SOLUTIONS, SOLVED

NUMBERS = sorted({number for number, _, _ in GRADED})
TITLE = re.compile(r"^###? (Exercise (\d): .+?)(?: \(\d+ minutes.*\))?$", re.MULTILINE)


def notebook(number):
    (name,) = (n for n in notebook_form.names_of_notebooks() if n.startswith(number))
    return notebook_form.load(name)


def solutions(number):
    (path,) = SOLUTIONS.glob(f"{number}_*_solutions.ipynb")
    node = nbformat.read(path, as_version=4)
    return notebook_form.Notebook(path.name, node, SOLUTIONS)


def tasks(book):
    """title -> cell of each exercise, in order."""
    return {TITLE.search(c.source)[1]: c for c in book.markdown if TITLE.search(c.source)}


def check_of(cell):
    """The lines of a cell from the check on."""
    return cell.source[re.search(r"lab\.(check|inspect)", cell.source).start() :]


# stubs and solutions


@pytest.mark.parametrize("number", NUMBERS)
def test_every_exercise_has_a_hint_and_a_solution_of_its_name(number):
    asked, solved = tasks(notebook(number)), tasks(solutions(number))
    numbers = [int(re.search(r"\d", title)[0]) for title in asked]
    assert numbers == list(range(1, len(asked) + 1))
    if number == EXAM[0]:
        asked = dict(list(asked.items())[: EXAM[1] - 1])
    assert list(asked) == list(solved)
    for title, cell in asked.items():
        assert "<details><summary>Hint</summary>\n\n" in cell.source
        link = f"solutions/{solutions(number).name}#{make_site.anchor(title)}"
        assert f"[Solution]({link})" in cell.source


@pytest.mark.parametrize("number", NUMBERS)
def test_a_stub_says_in_its_id_that_it_is_one(number):
    """Or no test would look at it."""
    is_task, nameless = False, []
    for cell in notebook(number).node.cells:
        if cell.cell_type == "markdown":
            is_task = bool(TITLE.search(cell.source))
        elif is_task and CHECK.search(cell.source) and "-ex" not in cell.id:
            nameless.append(cell.id)
    assert not nameless, f"give these cells ids like {number}-ex3"


@pytest.mark.parametrize(
    "key", [key for key in GRADED if key in SOLVED], ids=lambda key: "-".join(map(str, key))
)
def test_a_solution_has_the_check_of_its_stub(key):
    assert check_of(GRADED[key]) == check_of(SOLVED[key])


# numbers that a reader predicts


@pytest.mark.parametrize(
    "answer, right, said",
    [
        (None, 3, "NOT YET: put your answer in place of None"),
        ([8, None], [8, 2], "NOT YET: put your answer in place of each None"),
        (16384, 16384, "RIGHT: 16 384 bytes"),
        (990, 1000, "WRONG: 990 is too small, but not far off"),
        (4000, 1000, "WRONG: 4 000 is too large, by far"),
        ([8, 4], [8, 2], "WRONG in answer 2 of 2: 4 is too large"),
        ([8], [8, 2], "WRONG: 2 answers are wanted, in a list; 1 came"),
        (8, [8, 2], "WRONG: 2 answers are wanted, in a list; 1 came"),
        (True, 1, "WRONG: a number is wanted, True came"),
    ],
)
def test_an_answer(answer, right, said):
    verdict = lab.check_answer(answer, right, unit="bytes")
    assert repr(verdict) == said
    assert bool(verdict) is said.startswith("RIGHT")


def test_an_answer_may_be_a_little_off_where_that_is_allowed():
    assert lab.check_answer(990, 1000, tolerance=0.01)
    assert not lab.check_answer(989, 1000, tolerance=0.01)
    assert lab.check_answer([990, 2], [1000, 2], tolerance=0.01)


def test_a_verdict_does_not_give_the_answer_away():
    for answer in (None, 7, "x", [1, 2], True):
        assert "12345" not in repr(lab.check_answer(answer, 12345))
