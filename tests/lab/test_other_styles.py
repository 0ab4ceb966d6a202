"""Right kernels in other styles than ours are right, and what can't be judged is said by its name.

The kernels are in `tests/other_styles.py`.
"""

from functools import partial

import pytest

pytest.importorskip("triton", reason="needs Triton")

import other_styles as styles
import rope_lab as lab
from rope_lab.grading import exercises
from rope_lab.rungs import kept


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "kept"))


ON_RUNG_2 = {
    "block pointers": styles.by_block_pointers,
    "descriptors": styles.by_descriptors,
    "descriptors of the launcher": styles.by_descriptors_of_the_launcher,
    "gather": styles.by_gather,
    "libdevice": styles.by_functions,
    "libdevice of CUDA": partial(styles.by_functions, whose="cuda's"),
    "half turns": partial(styles.by_functions, whose="half turns"),
    "heuristics": styles.by_heuristics,
    "a tuner": styles.by_a_tuner,
    "three axes": styles.by_three_axes,
    "keywords": styles.by_keywords,
}


@pytest.mark.parametrize("style", ON_RUNG_2)
def test_a_right_kernel_is_on_its_rung(style):
    verdict = lab.check_rung(2, ON_RUNG_2[style])
    assert verdict and verdict.reason.startswith("rung 2, "), verdict


IN_AN_EXERCISE = {
    "a loop over heads": (styles.by_a_loop_over_heads, exercises.rope_of_q_and_k),
    "while": (partial(styles.by_a_loop_over_heads, whiles=True), exercises.rope_of_q_and_k),
    "interleave": (styles.by_interleaving, exercises.rope_of_neighbors_in_place),
    "join": (partial(styles.by_interleaving, joins=True), exercises.rope_of_neighbors_in_place),
}


@pytest.mark.parametrize("style", IN_AN_EXERCISE)
def test_a_right_kernel_solves_an_exercise(style):
    candidate, wanted = IN_AN_EXERCISE[style]
    verdict = lab.check_exercise(candidate, wanted)
    assert verdict, verdict


def test_what_is_told_to_the_compiler_changes_no_verdict():
    verdict = lab.check_rung(2, styles.by_what_is_told)
    assert verdict.state == "not yet" and "rung 2 wants bytes requested" in verdict.reason, verdict
