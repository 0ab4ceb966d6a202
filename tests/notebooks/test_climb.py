"""The road lets the reader climb: kernels written and edited in the core, rung after rung."""

import re

import pytest

from exercise_form import NUMBERS, exercises_in
from rope_lab.rungs import RUNGS


def cells_of_rungs():
    """(rung, id of its stub's cell) -> stub and solution."""
    return {
        (int(check[1]), cell): (stub.source, exercises.solutions[cell].source)
        for exercises in map(exercises_in, NUMBERS)
        for cell, stub in exercises.stubs.items()
        if (check := re.search(r"\nlab\.check_rung\((\d), my_rope\)$", stub.source))
    }


CELLS = cells_of_rungs()
STUBS = {rung: stub for (rung, _), (stub, _) in CELLS.items()}
SOLUTIONS = {rung: solution for (rung, _), (_, solution) in CELLS.items()}


def test_every_rung_is_an_exercise_of_its_notebook():
    assert sorted((rung, cell[:2]) for rung, cell in CELLS) == [
        (rung.number, rung.notebook) for rung in RUNGS.values()
    ]


@pytest.mark.parametrize("rung", RUNGS)
def test_its_solution_is_our_kernel(rung):
    assert RUNGS[rung].source.strip() in SOLUTIONS[rung]


def code_before(stub_id):
    """The code cell before a stub."""
    code = exercises_in(stub_id[:2]).book.code
    return code[[cell.id for cell in code].index(stub_id) - 1].source


@pytest.mark.parametrize("rung", (4, 5, 6, 7))
def test_a_reader_begins_with_our_kernel_of_the_rung_below(rung):
    (cell,) = [cell for number, cell in CELLS if number == rung]
    if code_before(cell) == f"lab.show_rung({rung - 1})":  # and the stub asks for a copy
        assert f"paste rung {rung - 1} over these two lines" in STUBS[rung]
        return
    text, below = STUBS[rung], RUNGS[rung - 1].source.strip()
    if rung == 4:  # its stub has the flag already, which no line uses
        text = text.replace(", transpose=False)", ")")
        text = "\n".join(line for line in text.splitlines() if "TRANSPOSE" not in line)
    lines = [line for line in text.splitlines() if "raise NotImplementedError(" not in line]
    assert below in "\n".join(lines)
