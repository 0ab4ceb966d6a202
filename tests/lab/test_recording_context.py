"""Notebook 12's long context, small and on a CPU: what is trained, scaled, and evaluated where."""

import pytest
import torch

from recording import long_context
from recording.long_context import Plan
from rope_kernels import RotaryPositionEmbedding
from rope_lab.steps.long_context import SCALINGS, TRAINED, configuration
from rope_lab.steps.prose import prose
from rope_lab.steps.small_llama import Size
from rope_lab.steps.training import new_model

TINY = Size(layers=1, width=32, heads=2, kv_heads=1, mlp=48)
PLAN = Plan(
    seeds=2, steps=2, batch=2, tuning_steps=1, tuning_batch=2, windows=3, generated=4, device="cpu"
)


def test_losses_are_means_over_windows_at_each_position():
    model, text = new_model(TINY), prose("held out")
    found = long_context.losses(model, text, PLAN, TRAINED)
    begins = 0, (len(text) - TRAINED - 1) // 2, len(text) - TRAINED - 1
    windows = torch.stack([text[begin : begin + TRAINED + 1] for begin in begins])
    assert found.shape == (TRAINED,)
    torch.testing.assert_close(found.mean().float(), model.loss(windows).detach())
    with torch.no_grad():
        first = -model(windows[:, :1])[:, 0].log_softmax(-1).gather(1, windows[:, 1:2]).mean()
    torch.testing.assert_close(found[0].float(), first)


def test_bins_are_means_of_neighbors():
    assert long_context.by_position(torch.arange(8.0), 4) == [0.5, 2.5, 4.5, 6.5]


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_scaling_is_what_the_configuration_says(scaling):
    model = new_model(TINY)
    long_context.scale(model, scaling)
    rope = RotaryPositionEmbedding.from_config(configuration(scaling))
    assert torch.equal(model.rotary.inv_freq, rope.inv_freq)
    assert model.rotary.attention_factor == rope.attention_factor
    unscaled = new_model(TINY).rotary.inv_freq
    assert torch.allclose(model.rotary.inv_freq, unscaled, atol=0) is (scaling == "none")
    assert (model.rotary.attention_factor == 1) is (scaling != "yarn")


def test_training_changes_the_model_and_depends_on_the_seed():
    weights = []
    for seed in (0, 0, 1):
        model = new_model(TINY)
        long_context.train(model, prose(), 2, 2, 32, 1e-3, seed)
        weights.append(model.head.weight.detach())
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[0], new_model(TINY).head.weight)


def test_the_first_byte_is_right_even_if_positions_are_forgotten(monkeypatch):
    model, seen = new_model(TINY), []
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda *a: seen.append(a[1]) or forward(*a))
    right, forgotten = (long_context.generated(model, PLAN, forgets) for forgets in (False, True))
    assert right[0] == forgotten[0]
    assert seen[:5] == 5 * [None] and all(torch.equal(p, torch.zeros_like(p)) for p in seen[5:])
