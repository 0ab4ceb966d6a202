"""The exercises, a file for each notebook: what a reader's function, number or choice is judged by.

A function is judged by a specification: plain PyTorch, and no more than a definition. A number or
a choice is compared with one that the stub computes, or with one that is kept here, where the
stub's cell does not have the recipe in it. Both know likely mistakes and what to say of them.

To add an exercise to notebook 05:

1. Write its specification in `notebook_05.py`, whose `noqa: F821` is for the letters of its shapes.
   `spec.py` explains these and the options of `@spec`. What several notebooks need is in
   `definitions.py`. For a number or a choice, write words -> the wrong answer that they explain;
   for several answers a list, with None where the words do not apply.
2. Write the task and a stub in the notebook. The stub ends in
   `lab.check_exercise(mine, lab.exercises.NAME)`, or in
   `lab.check_answer(answer, right, mistakes=lab.exercises.NAME)`. The solution is in
   `notebooks/solutions/`.
   The id of the stub's cell is like `05-ex3`; ids need not follow the exercises' numbers.
3. Write mistakes, at least two, and what each must be told, in
   `tests/notebooks/mistakes/notebook_05.py`.

If a verdict does not name the mistake: one that only this exercise knows goes into the `mistakes`
of its specification, words of the verdict -> a function that makes it (`notebook_05.py` has one).
One that any kernel may make goes into `diagnose/`. What is asked beyond a right result, such as
half a table loaded, is in `counts.py`.

Two tests in `tests/notebooks/` prove it; try `-k 05` first. `test_exercises.py` holds tasks, stubs
and solutions together, and `test_answers_in_notebooks.py` has answers judged in their notebook.
"""

import ast
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules


def __getattr__(name: str):
    """`lab.exercises.NAME`; of the files, only the one that makes it is imported."""
    if name.startswith("_") or name not in _file_of():
        raise AttributeError(f"no exercise has the name {name!r}")
    return getattr(import_module(_file_of()[name]), name)


@cache
def _file_of() -> dict[str, str]:
    """What the files make -> the module that makes it, by their sources: no two have one name."""
    found = {}
    for module in (f"{__name__}.{file.name}" for file in iter_modules(__path__)):
        for line in ast.parse(find_spec(module).loader.get_source(module)).body:
            made = [line.name] if isinstance(line, ast.FunctionDef) else []
            if isinstance(line, ast.Assign):
                made = [target.id for target in line.targets if isinstance(target, ast.Name)]
            found |= dict.fromkeys(made, module)
    return found
