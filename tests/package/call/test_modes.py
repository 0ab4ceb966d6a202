"""Under modes that watch operators, a call does what it does without: a launch is no operator.

`allow_mutation_on_saved_tensors` copies what is saved before an operator overwrites it, and a
selective checkpoint pairs the operators of a forward with those of its recomputation. A kernel that
they don't see gives wrong gradients there, and no error.
"""

from functools import partial

import pytest
import torch
from torch.autograd.graph import allow_mutation_on_saved_tensors
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from counted import Operators
from ops import DIFFERENTIABLE, FEW, OPS, all_equal, by_turns
from rope_kernels import RotaryPositionEmbedding, launch

OVERWRITING = [op for op in OPS if op.inplace]
STEPS = range(3)  # the first call of a kind, and calls that it has been remembered for


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    """So a test's first call is the first of its kind."""
    launch.forget()


def overwritten_by(op, sample, saved):
    """Call a function in place, with copies of what it overwrites that something has saved."""
    given = {name: saved[name] for name in op.inplace}
    written = {name: saved[name] for name in sample.written}
    sample.call(given, written, inplace=True)


@by_turns(OVERWRITING, FEW)
@pytest.mark.parametrize("recorded", (False, True))
def test_what_was_saved_before_it_is_overwritten_has_its_gradient(recorded, op, case, device):
    """The square of a tensor needs the tensor as it was, whatever overwrites it afterwards."""
    if recorded and (op.weights or not op.differentiable):
        pytest.skip("it overwrites nothing that requires a gradient")
    sample = op.sample(device, **case | {"output_pairing": "same", "layout": "contiguous"})
    for _ in STEPS:
        originals = {n: sample.given[n] for n in op.inplace} | sample.written
        want = overwritten_without_a_mode(op, sample)
        with allow_mutation_on_saved_tensors():
            leaves = {n: x.detach().clone().requires_grad_() for n, x in originals.items()}
            saved = {n: x * 1 for n, x in leaves.items()}
            squares = [x * x for x in saved.values()]
            with torch.set_grad_enabled(recorded):
                overwritten_by(op, sample, saved)
            got = {n: x.detach().clone() for n, x in saved.items()}
            ups = [torch.randn_like(x) for x in squares]
            gradients = torch.autograd.grad(squares, [*leaves.values()], ups)
        for x, up, gradient in zip(leaves.values(), ups, gradients, strict=True):
            torch.testing.assert_close(gradient, 2 * x.detach() * up)
        assert all_equal(got.values(), want.values()), "a mode changed what is written"


def overwritten_without_a_mode(op, sample):
    with torch.no_grad():
        copies = {n: sample.given[n].clone() for n in op.inplace}
        copies |= {n: x.clone() for n, x in sample.written.items()}
        overwritten_by(op, sample, copies)
    return copies


def saves_views(context, operator, *arguments, **options):
    views = torch.ops.aten.permute.default, torch.ops.aten.view.default, torch.ops.aten.slice.Tensor
    return CheckpointPolicy.MUST_SAVE if operator in views else CheckpointPolicy.PREFER_RECOMPUTE


@by_turns(DIFFERENTIABLE, FEW)
def test_a_selective_checkpoint_that_saves_views_keeps_gradients(op, case, device):
    """In the first step, whose first call looks at more than those after it, and in later ones."""
    sample = op.sample(device, **case)
    contexts = partial(create_selective_checkpoint_contexts, saves_views)
    leaves = sample.leaves()

    def layer(*given):
        """Views of its own beside the call, which a wrong pairing would confuse with ours."""
        turned = [x.sin().flatten().view(x.shape) for x in given]
        outs = sample.call(dict(zip(leaves, turned, strict=True)))
        return tuple(out.permute(*reversed(range(out.dim()))).cos() for out in outs)

    for _ in STEPS:
        outs = checkpoint(layer, *leaves.values(), use_reentrant=False, context_fn=contexts)
        ups = [torch.randn_like(out) for out in outs]
        got = torch.autograd.grad(outs, [*leaves.values()], ups)
        want = torch.autograd.grad(layer(*leaves.values()), [*leaves.values()], ups)
        assert all_equal(got, want)


def test_a_table_in_a_selective_checkpoint_keeps_gradients(device):
    rope = RotaryPositionEmbedding(8).to(device)
    contexts = partial(create_selective_checkpoint_contexts, saves_views)

    def layer(x):
        x = x.sin().view(4, 8)
        cos, sin = rope.cos_sin(4)
        return (x.chunk(2, -1)[0].cos() * cos + sin).view(16).sin()

    for _ in STEPS:
        x = torch.randn(32, device=device, requires_grad=True)
        out = checkpoint(layer, x, use_reentrant=False, context_fn=contexts)
        up = torch.randn_like(out)
        (got,), (want,) = (torch.autograd.grad(y, x, up) for y in (out, layer(x)))
        assert torch.equal(got, want)


@by_turns(OPS, FEW)
def test_a_mode_sees_the_same_in_a_first_call_and_in_later_ones(op, case, device):
    sample, seen = op.sample(device, **case), []
    for _ in STEPS:
        written = {n: x.clone() for n, x in sample.written.items()}
        with Operators() as operators:
            sample.call(None, written)
        seen.append(operators.names)
    assert seen[0] == seen[1] == seen[2]
