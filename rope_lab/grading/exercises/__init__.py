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

from importlib import import_module
from pkgutil import iter_modules

_FILES = sorted(file.name for file in iter_modules(__path__))


def __getattr__(name: str):
    """`lab.exercises.NAME`, whichever file has it; no file has another one's name."""
    if not name.startswith("_"):
        for file in _FILES:
            found = vars(import_module(f".{file}", __name__))
            if name in found:
                return found[name]
    raise AttributeError(f"no exercise has the name {name!r}")
