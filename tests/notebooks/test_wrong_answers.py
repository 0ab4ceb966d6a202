"""Every exercise has two wrong answers at least, whose verdicts name different mistakes.

`test_answers_in_notebooks.py` has them judged, each in its notebook.
"""

import ast
import contextlib
import functools
import io
import re
import tempfile
from pathlib import Path

import nbformat
import pytest

import notebook_form
import rope_lab as lab
import wrong_answers
import wrong_answers_first
from wrong_numbers import WRONG_NUMBERS
from wrong_rungs import WRONG_RUNGS

ENOUGH = 2
EXAM = "10", 2, "check_exercise"  # its solution is not among the solutions
SOLUTIONS = notebook_form.FOLDER / "solutions"
TITLE = re.compile(r"^##+ Exercise (\d): ", re.MULTILINE)
CHECK = re.compile(r"\b(check_(?:answer|choices|exercise|norm|rung|timer)|inspect)\(")
TOO_VAGUE = ("too small", "too large", "a sign", "a wrong stride", "out of bounds", "unwritten")


def graded(path):
    """(notebook's number, exercise, check) -> cell, for each cell that asks for a verdict."""
    found, exercise = {}, None
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown" and TITLE.search(cell.source):
            exercise = int(TITLE.search(cell.source)[1])
        elif cell.cell_type == "code" and "-ex" in cell.id and CHECK.search(cell.source):
            found.setdefault((path.name[:2], exercise, CHECK.search(cell.source)[1]), cell)
    return found


def of_all(folder, pattern="[0-9]*.ipynb"):
    return {
        key: cell for path in sorted(folder.glob(pattern)) for key, cell in graded(path).items()
    }


GRADED = of_all(notebook_form.FOLDER) | of_all(notebook_form.FOLDER / "deeper")
SOLVED = of_all(SOLUTIONS)


def of_rung(cell):
    """The mistakes of the rung that a cell asks for."""
    rung = int(re.search(r"check_rung\((\d)", cell.source)[1])
    return [wrong for wrong in WRONG_RUNGS if wrong.rung == rung]


def phrases():
    """(notebook's number, exercise, check) -> what the wrong answers are told."""
    found = {}
    for wrong in (*wrong_answers.WRONG_ANSWERS, *wrong_answers_first.WRONG_ANSWERS):
        place = wrong.notebook, wrong.exercise
        (check,) = {
            check
            for *there, check in GRADED
            if (*there,) == place and check in ("check_exercise", "inspect")
        }
        found.setdefault((*place, check), []).append(wrong.told)
    for key, cell in GRADED.items():
        if key[2] == "check_rung":
            found[key] = [wrong.told for wrong in of_rung(cell)]
    found["10", 2, "check_exercise"] = [repair.told for repair in wrong_answers.WRONG_REPAIRS]
    found["08", 2, "check_timer"] = [wrong.told for wrong in wrong_answers.WRONG_TIMERS]
    for (notebook, exercise), wrong in WRONG_NUMBERS.items():
        (check,) = {
            check
            for number, k, check in GRADED
            if (number, k) == (notebook, exercise) and check in ("check_answer", "check_choices")
        }
        found[notebook, exercise, check] = [told for _, told in wrong]
    return found


PHRASES = phrases()


def complaints(told):
    """What is missing: wrong answers, told apart by words that say what is wrong."""
    found = []
    apart = [one for one in set(told) if not any(one in other for other in set(told) - {one})]
    if len(apart) < ENOUGH:
        found.append(f"{len(apart)} wrong answers told apart, {ENOUGH} are needed")
    found += [f"{one!r} names no mistake" for one in told if one in TOO_VAGUE or len(one) < 8]
    return found


@pytest.mark.parametrize("key", GRADED, ids=lambda key: "-".join(map(str, key)))
def test_an_exercise_has_wrong_answers_told_apart(key):
    assert complaints(PHRASES.get(key, [])) == []


def test_there_are_no_wrong_answers_to_what_nobody_asks():
    assert set(PHRASES) == set(GRADED)
    assert len(GRADED) > 30


# choices


@functools.cache
def solved(notebook, exercise):
    """Names of the worked solution, up to its check; the check; the name of the answer."""
    (key,) = (key for key in SOLVED if key[:2] == (notebook, exercise) and "exercise" not in key[2])
    (path,) = SOLUTIONS.glob(f"{notebook}_*_solutions.ipynb")
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    places = [c.id for c in cells].index(SOLVED[key].id)
    body = ast.parse(SOLVED[key].source).body
    before = [
        statement
        for cell in cells[:places]
        for statement in ast.parse(cell.source).body
        if isinstance(statement, ast.FunctionDef | ast.Import | ast.ImportFrom | ast.Assign)
        and "check_" not in ast.unparse(statement)
    ]
    source = "\n\n".join(ast.unparse(statement) for statement in (*before, *body[:-1]))
    file = Path(tempfile.mkdtemp()) / f"solved_{notebook}_{exercise}.py"
    file.write_text(source)  # Triton reads kernels from a file
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, file, "exec"), names)
    check = body[-1].value
    return names, ast.unparse(check), check.args[0].id


def verdict_on(notebook, exercise, answer):
    names, check, given = solved(notebook, exercise)
    return eval(check, names | {given: answer})


@pytest.mark.parametrize("key", [key for key in SOLVED if key[2] == "check_choices"], ids=str)
def test_every_wrong_choice_has_an_explanation_of_its_own(key):
    notebook, exercise, _ = key
    names, check, given = solved(notebook, exercise)
    right = names[given]
    call = ast.parse(check, mode="eval").body
    options = [k for k in call.keywords if k.arg is None]
    choices = (
        eval(ast.unparse(options[0].value), names)["choices"]
        if options
        else eval(ast.unparse(call.args[2]), names)
    )
    several = right if isinstance(right, list) else [right]
    for place, wanted in enumerate(several):
        reasons = []
        for choice in set(choices) - {wanted}:
            answer = [*several[:place], choice, *several[place + 1 :]]
            verdict = verdict_on(notebook, exercise, answer if right is several else choice)
            assert verdict.because, (key, place, choice)
            reasons.append(verdict.because)
        assert len(set(reasons)) == len(reasons), (key, place)


@pytest.mark.parametrize("key", [("03", 1)], ids=str)
def test_a_cell_to_fill_in_does_not_compute_the_answer_in_plain_sight(key):
    """Nothing but the reader's answer and the check."""
    (cell,) = (cell for graded_key, cell in GRADED.items() if graded_key[:2] == key)
    statements = [type(statement) for statement in ast.parse(cell.source).body]
    assert statements == [ast.Assign, ast.Expr]


# the same words everywhere


def test_verdicts_look_alike():
    """State and place first; then a line each, in this order, for what helps."""
    number = lab.check_answer(
        [1, 3], [1, 2], hint="the mask", mistakes={"a mask that is missing": [None, 3]}
    )
    assert repr(number).splitlines() == [
        "WRONG in answer 2 of 2: 3 is too large",
        "  looks like: a mask that is missing",
        "  think of: the mask",
    ]
    choice = lab.check_choices(
        ["a", "a"], ["a", "b"], ("a", "b"), hint="the grid", mistakes={"a is small": ["a", "a"]}
    )
    assert repr(choice).splitlines() == [
        "WRONG in answer 2 of 2: it is not a",
        "  because: a is small",
        "  think of: the grid",
    ]
    kernel = lab.check_exercise(lab.exercises.rotate_half.function, lab.exercises.rope)
    assert repr(kernel).startswith("WRONG: ") or repr(kernel).startswith("WRONG in the case '")
