"""A cell that a reader runs again, after all others, shows what it showed before.

`tools/rerun.py` lists names that a cell reads and that a later cell gives another value.
"""

import pytest

import rerun
from notebook_form import FOLDER, names_of_detours, names_of_notebooks


def test_no_later_cell_changes_what_a_cell_reads():
    names = [*names_of_notebooks(), *names_of_detours()]
    assert [line for name in names for line in rerun.complaints(FOLDER / name)] == []


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        (("N = 1", "print(N)", "N = 2"), [("1", "N", "2")]),
        (("N = 1", "print(N)", "for N in range(3):\n    pass"), [("1", "N", "2")]),
        (("N = 1", "print(N)", "import os as N"), [("1", "N", "2")]),
        (("N = 1", "print(N)", "def N():\n    pass"), [("1", "N", "2")]),
        (("N = 1", "print([N for _ in 'ab'])", "N = 2"), [("1", "N", "2")]),
        (("N = 1", "def f(x=N):\n    return x", "N = 2"), [("1", "N", "2")]),
        (("N = 1", "def f():\n    return N", "print(f())", "N = 2"), [("1", "N", "3")]),
        # a value that the cell itself replaces
        (("N = 1", "N = N + 1"), [("1", "N", "1")]),
        (("N = 1", "N += 1"), [("1", "N", "1")]),
        # and what is no such thing
        (("N = 1", "N = 3\nprint(N)", "N = 2"), []),
        (("N = 1", "print(N)", "N = 1"), []),
        (("N = 1", "print(N)", "def f(N):\n    N = 2"), []),
        (("N = 1", "print(N)", "[N for N in 'ab']"), []),
        (("for N in 'ab':\n    print(N)", "N = 2"), []),
        (("def f(N):\n    return N", "print(f(1))", "N = 2"), []),
    ],
)
def test_a_changed_name_is_found(sources, found):
    changed = rerun.changed_names(sources)
    assert [(str(cell), name, str(later)) for cell, name, later in changed] == found
