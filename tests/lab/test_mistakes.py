"""Mistakes in solutions: what the judge computes of them.

That each gets its own message, even behind a wrong address, is checked by the answers in notebooks
with `--every`.
"""

from importlib import import_module

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

import rope_lab as lab
from exercise_form import NUMBERS
from rope_lab.judge.mistakes import Mistake, Mistaken, Solution
from rope_lab.judge.spec import MANY, Spec, laid_out_alike, spec

MODULES = [f"rope_lab.n{number}.exercises" for number in NUMBERS]
KNOWN = {  # name -> specification, of all that know mistakes
    name: wanted
    for module in ("rope_lab.judge.climb.specifications", *MODULES)
    for name, wanted in vars(import_module(module)).items()
    if isinstance(wanted, Spec) and wanted.mistakes
}


def results_of(function, wanted):
    """Of all cases in which the judge compares mistakes."""
    cases = [case for case in wanted.cases if case.name != MANY]
    return [
        function(*(laid_out_alike(x, torch.float64) for x in wanted.inputs(case))) for case in cases
    ]


@pytest.mark.parametrize("name", KNOWN)
def test_a_solution_without_a_mistake_computes_what_is_wanted(name):
    wanted = KNOWN[name]
    made = [one for one in wanted.mistakes.values() if isinstance(one, Mistaken)]
    for solution in {one.solution.cell: one.solution for one in made}.values():
        right = Mistaken(solution, Mistake("none"))
        got, want = results_of(right, wanted), results_of(wanted, wanted)
        # 11-ex3 adds its shares in fp32
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_a_load_past_the_end_gives_nan():
    (doubled,) = (
        mistaken
        for words, mistaken in KNOWN["scaled_copy"].mistakes.items()
        if words.startswith("the load's address is doubled")
    )
    x = torch.arange(8.0, dtype=torch.float64)
    assert doubled(x)[:4].equal(4 * x[:4]) and doubled(x)[4:].isnan().all()


@spec(mistakes=Solution("00-ex1").with_mistakes(Mistake("gone", {"no text of the solution": ""})))
def doubled(x: "(n)"):  # noqa: F821
    return 2 * x


def test_a_solution_that_a_reader_has_edited_stops_no_verdict():
    verdict = lab.check_exercise(lambda x: -2 * x, doubled)
    assert "a sign: every element has the opposite sign" in repr(verdict), verdict
