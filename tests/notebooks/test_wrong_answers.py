"""What every wrong choice is told, of a stub that asks for choices.

`test_answers_in_notebooks.py` has wrong answers judged, each in its notebook.
"""

import ast
import contextlib
import functools
import io
import tempfile
from pathlib import Path

import pytest

from exercise_form import NUMBERS, exercises_in

EXERCISES = {number: exercises_in(number) for number in NUMBERS}
CHOICES = [
    cell
    for exercises in EXERCISES.values()
    for cell, stub in exercises.stubs.items()
    if "lab.check_choices(" in stub.source
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


def verdict_on(cell, answer):
    names, check, given = solved(cell)
    return eval(check, names | {given: answer})


@pytest.mark.parametrize("cell", CHOICES)
def test_every_wrong_choice_has_an_explanation_of_its_own(cell):
    names, check, given = solved(cell)
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
            verdict = verdict_on(cell, answer if right is several else choice)
            assert verdict.because, (cell, place, choice)
            reasons.append(verdict.because)
        assert len(set(reasons)) == len(reasons), (cell, place)
