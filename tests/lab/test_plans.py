"""`lab.plan_of` says what a call would launch, before it does, and without a GPU."""

import pytest
import torch

import rope_lab as lab
from ops import OPS
from rope_kernels import RotaryPositionEmbedding, rope_fw
from rope_kernels.norms import qk_norm_rope
from rope_lab.compiler.launches import launched_by
from rope_lab.compiler.plans import kernel_names, plans_of

pytest.importorskip("triton", reason="needs Triton")

T, FREQS = torch.empty(5, 2, 3, 8), torch.empty(5, 1, 1, 8)


@pytest.mark.parametrize("place", ("cpu", "meta"))
def test_a_plan_is_what_a_call_launches(place, device, whole_way):
    """Tensors without memory will do. An interpreter has no fast sine."""
    plan, launches = lab.plan_of(rope_fw, T.to(place), FREQS.to(place)), []
    with launched_by(launches.append):
        rope_fw(T.to(device), FREQS.to(device))
    (launch,) = launches
    assert (plan.name, plan.grid, plan.options) == (launch.name, launch.grid, launch.options)
    launched = launch.named
    del launched["tensors"]
    constants = vars(launched.pop("C"))
    assert plan.settings == launched | constants | {"fast_sine": True}


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


def test_all_kernels_have_names_that_are_known(device):
    """Those that calls launch, forward and backward, and no others."""
    launched = set()
    for op in OPS:
        for d in (64, 72):  # rows that fill a power of two, and that do not
            sample = op.sample(device, d=d)
            leaves = sample.leaves() if op.differentiable else {}
            launched |= {plan.name for plan in plans_of(sample.call, leaves)}
    assert launched == kernel_names()
