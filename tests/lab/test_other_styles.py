"""Right kernels in other styles than ours are right, and what can't be judged is said by its name.

The kernels are in `tests/support/other_styles.py`.
"""

from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

import other_styles as styles
import rope_lab as lab
from processes import run_python
from rope_lab.interpreter.reductions import let_reductions_take_blocks
from rope_lab.judge.spec import STRIDED, spec
from rope_lab.records import QUIET

pytestmark = pytest.mark.usefixtures("kept_here")

ON_RUNG_1 = {
    "block pointers": styles.by_block_pointers,
    "descriptors": styles.by_descriptors,
    "libdevice of CUDA": partial(styles.by_functions, whose="CUDA's"),
    "methods of a block": partial(styles.by_functions, whose="the block's"),
    "a tuner": styles.by_a_tuner,
}


@pytest.mark.parametrize("style", ON_RUNG_1)
def test_a_right_kernel_is_on_its_rung(style):
    verdict = lab.check_rung(1, ON_RUNG_1[style])
    assert verdict and verdict.reason.startswith("rung 1, ") and not verdict.remark, verdict


def test_what_cannot_be_kept_is_right_all_the_same(monkeypatch):
    monkeypatch.delenv(QUIET, raising=False)
    verdict = lab.check_rung(1, partial(styles.by_functions))
    assert verdict and "it is not kept for the next notebook: my_rope is" in verdict.remark, verdict


def test_an_error_of_ours_is_a_sentence(monkeypatch):
    monkeypatch.setattr("rope_lab.judge.climb.check_rung.readings_of", lambda *_: min([]))
    verdict = lab.check_rung(1, styles.by_gather)
    assert verdict.state == "not yet" and "raises ValueError: min()" in verdict.reason, verdict


WRONG = {
    "a series": (
        partial(styles.by_functions, whose="Taylor's"),
        "in the case 'several sequences'",  # the first with large angles
    ),
}


@pytest.mark.parametrize("style", WRONG)
def test_a_wrong_kernel_is_told_why(style):
    candidate, told = WRONG[style]
    verdict = lab.check_rung(1, candidate)
    assert verdict.state == "wrong" and told in repr(verdict), verdict


def test_functions_of_libdevice_are_those_of_numpy():
    wanted = spec(leave_out=STRIDED, tolerance=(1e-5, 1e-5))(styles.several_in_pytorch)
    verdict = lab.check_exercise(styles.several_functions, wanted)
    assert verdict and "half precision" in verdict.cases.right, verdict
    verdict = lab.check_exercise(partial(styles.several_functions, casts=False), wanted)
    assert "libdevice.fma takes no fp16, fp16, fp32; cast before" in repr(verdict), verdict


def test_a_function_of_ones_own_reduces_and_scans_blocks():
    wanted = spec(leave_out=STRIDED, tolerance=(1e-4, 1e-4))(styles.reductions_in_pytorch)
    verdict = lab.check_exercise(styles.by_reductions, wanted)
    assert verdict, verdict


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled there")
@pytest.mark.parametrize("name", ("larger", "larger_by_a_branch"))
def test_a_function_of_ones_own_is_called_a_few_times(name, monkeypatch):
    """For each element, it would take minutes; only one with branches takes single elements."""
    let_reductions_take_blocks()
    function, calls = getattr(styles, name), []
    original = function.fn

    def counted(*given):
        calls.append(given)
        return original(*given)

    monkeypatch.setattr(function, "fn", counted)
    x, out = torch.randint(4, (8, 16)).float(), torch.zeros(9, dtype=torch.int32)
    styles.largest_kernel[(1,)](x, out, FUNCTION=function, R=8, C=16)
    first = x.numpy().argmax(1) + 16 * np.arange(8)  # of those that are equal
    assert out.tolist() == [*first, x.numpy().argmax()]
    assert (len(calls) == 4 + 7) == (name == "larger"), len(calls)


def test_what_standard_output_cannot_encode_is_escaped():
    said = run_python(
        """
        import other_styles as styles, rope_lab as lab
        from rope_lab.judge.spec import spec
        print(lab.check_exercise(styles.in_microseconds, spec(styles.reductions_in_pytorch)))
        """,
        **{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert "\n5 \\xb5s\n" in said and "raises ValueError: 6 \\xb5s" in said


def test_what_the_interpreter_lacks_is_said_with_what_to_do_instead():
    verdict = lab.check_rung(1, partial(styles.by_functions, whose="assembly's"))
    assert verdict.state == "not yet", verdict
    assert "tl.inline_asm_elementwise does not run in Triton's interpreter" in verdict.reason
    assert "write it with functions of triton.language" in verdict.reason
