"""What every wrong choice is told, and every number that a mistake leads to.

`test_answers_in_notebooks.py` has wrong functions judged, each in its notebook.
"""

import ast
import contextlib
import functools
import io
import tempfile
from pathlib import Path

import pytest
import torch

from exercise_form import NUMBERS, exercises_in

EXERCISES = {number: exercises_in(number) for number in NUMBERS}


def stubs_with(check):
    return [
        cell
        for exercises in EXERCISES.values()
        for cell, stub in exercises.stubs.items()
        if f"lab.{check}(" in stub.source
    ]


@functools.cache
def solved(cell):
    """Names of the worked solution, up to its check; the check; the name of the answer."""
    exercises = EXERCISES[cell[:2]]
    cells = exercises.solved.code
    place = [c.id for c in cells].index(cell)
    body = ast.parse(cells[place].source).body
    before = [
        statement
        for earlier in cells[:place]
        for statement in ast.parse(earlier.source).body
        if isinstance(statement, ast.FunctionDef | ast.Import | ast.ImportFrom | ast.Assign)
        and "check_" not in ast.unparse(statement)
    ]
    source = "\n\n".join(ast.unparse(statement) for statement in (*before, *body[:-1]))
    file = Path(tempfile.mkdtemp()) / f"solved_{cell.replace('-', '_')}.py"
    file.write_text(source, encoding="utf-8")  # Triton reads kernels from a file
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, file, "exec"), names)
    check = body[-1].value
    return names, ast.unparse(check), check.args[0].id


def option(cell, name):
    """What its check gets by this name, or of `check_choices` as its third argument."""
    names, check, _ = solved(cell)
    call = ast.parse(check, mode="eval").body
    given = {key.arg: ast.unparse(key.value) for key in call.keywords}
    if None in given:
        return eval(given[None], names)[name]
    return eval(given[name] if name in given else ast.unparse(call.args[2]), names)


def verdict_on(cell, answer):
    names, check, given = solved(cell)
    return eval(check, names | {given: answer})


@pytest.mark.parametrize("cell", stubs_with("check_choices"))
def test_every_wrong_choice_has_an_explanation_of_its_own(cell):
    names, _, given = solved(cell)
    right, choices = names[given], option(cell, "choices")
    several = right if isinstance(right, list) else [right]
    for place, wanted in enumerate(several):
        reasons = []
        for choice in set(choices) - {wanted}:
            answer = [*several[:place], choice, *several[place + 1 :]]
            verdict = verdict_on(cell, answer if right is several else choice)
            assert verdict.because, (cell, place, choice)
            reasons.append(verdict.because)
        assert len(set(reasons)) == len(reasons), (cell, place)


@pytest.mark.parametrize("cell", stubs_with("check_answer"))
def test_every_number_that_a_mistake_leads_to_is_told(cell):
    names, _, given = solved(cell)
    right = names[given]
    for words, wrong in option(cell, "mistakes").items():
        for place, number in (wrong if isinstance(wrong, dict) else {0: wrong}).items():
            answer = [*right[: place - 1], number, *right[place:]] if place else number
            assert verdict_on(cell, answer).looks_like == words, (cell, words, place)


COMPUTED = (  # words or numbers that an exercise computes, and a choice that it doesn't know
    (
        "04-ex1",
        ["right", "wrong", "right", "wrong", "maybe"],
        "'maybe' is not one of right, wrong,",
    ),
    ("06-ex3", [2, 2, 1, 4, 3], "passes test 2"),
    ("06-ex3", [4, 2, 1, 4, 3], "fails test 4, but another one fails before that"),
    ("08-ex5", [34.5, 5.0], "and its table read?"),
    ("08-ex5", [19.6, 5.0], "not both"),
    ("09-ex4", ["instructions"] * 2 + ["programs", "bytes"], "its instructions take 7 us"),
    ("09-ex4", ["bytes"] * 2 + ["programs", "bytes"], "its bytes take 30 us"),
)
MEASURED = "08-ex5"  # the exercise whose right answer a GPU measures


@pytest.mark.parametrize("cell, answer, told", COMPUTED, ids=str)
def test_what_an_exercise_computes_of_a_wrong_answer(cell, answer, told):
    if cell == MEASURED and torch.cuda.is_available():
        pytest.skip("on a GPU of its own another number may be right")
    verdict = verdict_on(cell, answer)
    assert not verdict and told in repr(verdict)
