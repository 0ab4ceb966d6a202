"""`lab.plan_of` says what a call would launch, before it does, and without Triton."""

import pytest
import torch

import rope_lab as lab
from launches import launches_of
from processes import run_python
from rope_kernels import RotaryPositionEmbedding, qk_norm_rope, rope_fw

T, FREQS = torch.empty(5, 2, 3, 8), torch.empty(5, 1, 1, 8)


def test_a_plan_is_what_a_call_launches():
    pytest.importorskip("triton", reason="needs Triton")
    plan, tensors = lab.plan_of(rope_fw, T, FREQS)
    (launch,) = launches_of(rope_fw, T, FREQS)
    assert (plan.kernel, plan.programs) == (launch.name, launch.programs)
    given = dict(zip(launch.kernel.arg_names, launch.arguments, strict=True))
    assert plan.arguments.items() <= given.items() and plan.options == launch.options
    assert [x is None for x in tensors] == [x is None for x in launch.arguments[: len(tensors)]]


def test_planning_loads_no_triton():
    run_python("""
        import sys, torch
        from rope_kernels import rope_fw
        from rope_lab.compiler.plans import plan_of
        plan_of(rope_fw, torch.empty(5, 2, 3, 8), torch.empty(5, 1, 1, 8))
        assert "triton" not in sys.modules
    """)


NORM = {"function": qk_norm_rope, "q": T, "k": T, "q_weight": T[0, 0, 0], "k_weight": T[0, 0, 0]}
NORM["tensor_format"] = "sbhd"
ROPE = {"function": rope_fw, "t": T, "freqs": FREQS}
NO_PLAN = (
    (ROPE | {"fused": False}, ValueError, "the call launches no kernel: fused is False"),
    (ROPE | {"t": T[:, :0]}, ValueError, "its tensors have no elements"),
    (ROPE | {"freqs": FREQS[:4]}, ValueError, "freqs has angles for s2 = 4 positions"),
    (ROPE | {"offset": 1}, TypeError, "got an unexpected keyword argument 'offset'"),
    (
        NORM | {"freqs": RotaryPositionEmbedding(8), "k_weight": None},
        ValueError,
        "the call makes 2 launches",
    ),
    (
        NORM | {"freqs": FREQS.clone().requires_grad_()},
        ValueError,
        "freqs requires a gradient",
    ),
)


@pytest.mark.parametrize(("arguments", "error", "message"), NO_PLAN)
def test_what_has_no_plan_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        lab.plan_of(**arguments)
