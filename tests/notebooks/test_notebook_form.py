"""What holds of every notebook; `notebook_form.py` has the checks."""

import pytest

from notebook_form import (
    CHECKS_OF_WHAT_IS_STORED,
    CHECKS_OF_WHAT_IS_WRITTEN,
    FOLDER,
    THREE_EDITS,
    load,
    load_stored,
    names_of_detours,
    names_of_notebooks,
)


def faults(checks, notebook):
    return [f"{check.__name__}: {fault}" for check in checks for fault in check(notebook)]


SOLUTIONS = [f"solutions/{path.name}" for path in FOLDER.glob("solutions/*.ipynb")]


@pytest.mark.parametrize(
    "name", [THREE_EDITS, *names_of_notebooks(), *names_of_detours(), *SOLUTIONS]
)
def test_form(name):
    found = faults(CHECKS_OF_WHAT_IS_WRITTEN, load(name))
    if stored := load_stored(name):  # what git has: a reader may have saved the file
        found += faults(CHECKS_OF_WHAT_IS_STORED, stored)
    assert found == [], "\n".join(found)
