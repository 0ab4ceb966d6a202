"""The road lets the reader climb: kernels written and edited in the core, rung after rung."""

import re

import pytest

from rope_lab.rungs import RUNGS
from test_wrong_answers import GRADED, SOLVED


def rungs():
    """rung -> its stub in the notebooks."""
    asked = {
        key: re.search(r"lab\.check_rung\((\d), my_rope\)$", cell.source)
        for key, cell in GRADED.items()
        if key[2] == "check_rung"
    }
    return {int(found[1]): key for key, found in asked.items()}


def test_every_rung_is_an_exercise_of_its_notebook():
    assert sorted(rungs()) == sorted(RUNGS)
    assert all(key[0] == RUNGS[rung].notebook for rung, key in rungs().items())


@pytest.mark.parametrize("rung", RUNGS)
def test_its_solution_is_our_kernel(rung):
    assert RUNGS[rung].source.strip() in SOLVED[rungs()[rung]].source


@pytest.mark.parametrize("rung", (4, 5, 6, 7))
def test_its_stub_opens_with_our_kernel_of_the_rung_below(rung):
    stub = GRADED[rungs()[rung]].source
    lines = [line for line in stub.splitlines() if "raise NotImplementedError(" not in line]
    text = "\n".join(lines).replace(", transpose=False)", ")")  # which rung 4's launcher has
    assert RUNGS[rung - 1].source.strip().replace(", transpose=False)", ")") in text
