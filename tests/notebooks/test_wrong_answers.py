"""The cells that ask for an answer, and what every wrong choice is told.

`test_answers_in_notebooks.py` has wrong answers judged, each in its notebook.
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

EXAM = "10", 2, "check_exercise"  # its solution is not among the solutions
SOLUTIONS = notebook_form.FOLDER / "solutions"
TITLE = re.compile(r"^##+ Exercise (\d): ", re.MULTILINE)
CHECK = re.compile(r"\b(check_(?:answer|choices|exercise|norm|rung|timer)|inspect)\(")


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
