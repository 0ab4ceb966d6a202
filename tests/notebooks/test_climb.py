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
    source = RUNGS[rung].source.strip()
    if rung == 3:  # whose kernel is in the cell of rung 2
        kernel, _, launcher = source.partition("\n\n\n")
        assert kernel in SOLUTIONS[2]
        source = launcher
    assert source in SOLUTIONS[rung]


def code_before(stub_id):
    """The code cell before a stub."""
    code = exercises_in(stub_id[:2]).book.code
    return code[[cell.id for cell in code].index(stub_id) - 1].source


@pytest.mark.parametrize("rung", (1, 2, 7))
def test_a_reader_writes_the_kernel_from_its_signature(rung):
    signature, colon, _ = RUNGS[rung].source.partition("\n):\n")
    assert f"{signature}{colon}    pass  # your lines\n" in STUBS[rung]


@pytest.mark.parametrize("rung", (4, 5, 6))
def test_a_reader_begins_with_a_copy_of_the_rung_below(rung):
    (cell,) = [cell for number, cell in CELLS if number == rung]
    assert code_before(cell) == f"lab.show_rung({rung - 1})"
    assert f"paste rung {rung - 1} over these two lines" in STUBS[rung]
