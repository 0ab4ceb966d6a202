"""What notebook 12 puts into models, and finds out about them, small and on a CPU."""

from functools import partial

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

from rope_lab.n12 import model_runs
from rope_lab.n12.models import SMALL, WAYS, by_rung, new_qwen3, nothing, rotated_by
from rope_lab.profiling import steps
from rope_lab.rungs import rung_7_any_input

OWN = modeling_llama.apply_rotary_pos_emb
on_a_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled for the GPU")


def test_a_rotation_is_put_back_after_an_error():
    with pytest.raises(ZeroDivisionError), rotated_by(nothing):
        assert modeling_llama.apply_rotary_pos_emb is nothing
        _ = 1 / 0
    assert modeling_llama.apply_rotary_pos_emb is OWN


@pytest.mark.parametrize("is_compiled", (False, True))
@pytest.mark.parametrize("way", WAYS)
def test_a_way_puts_in_what_it_says_for_a_while(way, is_compiled):
    """Otherwise all would have the same bits, and notebook 12 would prove little."""
    model = new_qwen3("cpu")
    if is_compiled:  # as notebook 12 measures it, too
        model.compile()

    def what_runs():
        return modeling_qwen3.apply_rotary_pos_emb, model.model.layers[1].self_attn.forward

    before = what_runs()
    with WAYS[way](model):
        changed = [x != y for x, y in zip(what_runs(), before, strict=True)]
    assert changed == [way == "patched", way == "with norms"]
    assert what_runs() == before


@on_a_cpu
def test_a_kernel_of_the_climb_gives_the_models_values():
    rotate = by_rung(rung_7_any_input.my_rope, 6, 16, "cpu")
    pairs = zip(
        model_runs.results(rotate, positions=6), model_runs.results(OWN, positions=6), strict=True
    )
    for found, wanted in pairs:
        torch.testing.assert_close(found, wanted)


@on_a_cpu
def test_every_experiment_runs_small_and_on_a_cpu(monkeypatch):
    """It counts no launches there; what it returns is what JSON can hold."""
    one_run = partial(steps.profiled, runs=1, warm_up=0)
    monkeypatch.setattr(steps, "profiled", one_run)
    monkeypatch.setattr(model_runs, "HOW", ("eager",))
    shapes = {"tiny": (SMALL, 1, 2)}
    found = model_runs.shares("cpu", shapes, runs=1, turns=1)
    assert set(found["tiny"]["alone"]) == {"PyTorch", "rung 7", "package"}
    assert set(found["tiny"]["eager"]) == {"PyTorch", "rung 7", "package", "none"}
    found = model_runs.qwen3("cpu", SMALL, length=4, turns=1)
    assert set(found["eager"]) == {"unpatched", "patched", "with norms"}
