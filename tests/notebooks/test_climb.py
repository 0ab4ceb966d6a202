"""The road lets the reader climb: kernels written and edited in the core, rung after rung."""

import re

import pytest

import notebook_form
import reading_time
from rope_lab.rungs import RUNGS
from test_wrong_answers import GRADED, SOLVED


def core_exercises():
    """(number of the notebook, exercise) of all that belong to the road."""
    found = []
    for name in notebook_form.names_of_notebooks():
        section, cells = 0, notebook_form.load(name).markdown
        _, core = reading_time.stated_time(cells[0].source)
        for cell in cells:
            for line in cell.source.splitlines():
                if heading := re.match(r"## (?:(\d+)\.)?", line):
                    section = int(heading[1] or 0)
                exercise = re.match(r"### Exercise (\d+): .*\(\d+ minutes(.*)\)$", line)
                if exercise and "optional" not in exercise[2] and section in core:
                    found.append((name[:2], int(exercise[1])))
    return found


def rungs():
    """rung -> its stub in the notebooks."""
    asked = {
        key: re.search(r"lab\.check_rung\((\d), my_rope\)$", cell.source)
        for key, cell in GRADED.items()
        if key[2] == "check_rung"
    }
    return {int(found[1]): key for key, found in asked.items()}


def test_every_rung_is_a_core_exercise_of_its_notebook():
    assert sorted(rungs()) == sorted(RUNGS)
    for rung, key in rungs().items():
        assert key[0] == RUNGS[rung].notebook
        assert key[:2] in core_exercises(), (rung, key)


@pytest.mark.parametrize("rung", RUNGS)
def test_its_solution_is_our_kernel(rung):
    assert RUNGS[rung].source.strip() in SOLVED[rungs()[rung]].source


@pytest.mark.parametrize("rung", (4, 5, 6, 7))
def test_its_stub_opens_with_our_kernel_of_the_rung_below(rung):
    stub = GRADED[rungs()[rung]].source
    lines = [line for line in stub.splitlines() if "raise NotImplementedError(" not in line]
    assert lines[0].startswith(f"# lab.mine({rung})")
    text = "\n".join(lines).replace(", transpose=False)", ")")  # which rung 4's launcher has
    assert RUNGS[rung - 1].source.strip().replace(", transpose=False)", ")") in text
