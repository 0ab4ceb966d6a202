"""The model of notebook 12: its cache, its text, how it is patched, and what is found out on it."""

from functools import partial

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

from rope_lab.profiling import model_runs
from rope_lab.profiling.launches import launches_of
from rope_lab.rungs import rung_8_rows
from rope_lab.steps import small_llama
from rope_lab.steps.prose import PATH, batch, prose
from rope_lab.steps.qwen3 import SMALL
from rope_lab.steps.rotations import by_package, by_rung, nothing
from rope_lab.steps.small_llama import Size, rotated_by
from rope_lab.steps.training import new_model, train

TINY = Size(layers=2, width=32, heads=4, kv_heads=2, head_dim=8, mlp=48)
OWN = small_llama.apply_rotary_pos_emb
on_a_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled for the GPU")


def logits(model, tokens, **options):
    with torch.no_grad():
        return model(tokens, **options)


@pytest.mark.parametrize("layer", model_runs.SHAPES)
def test_the_heads_of_a_measured_layer_fill_its_width(layer):
    size, *_ = model_runs.SHAPES[layer]
    assert size.heads * size.head_dim == size.width


def test_the_cache_gives_what_the_whole_sequence_gives():
    model, tokens, cache = new_model(TINY), batch(prose(), 3, 12, seed=0), {}
    parts = [logits(model, tokens[:, :9], cache=cache)]
    parts += [logits(model, tokens[:, n : n + 1], cache=cache) for n in range(9, 12)]
    torch.testing.assert_close(torch.cat(parts, dim=1), logits(model, tokens))
    assert cache[1][0].shape == (3, 2, 12, 8)


def test_only_differences_of_positions_count():
    model, tokens = new_model(TINY).double(), batch(prose(), 2, 10, seed=0)
    moved = torch.arange(10)[None] + 7
    torch.testing.assert_close(logits(model, tokens, positions=moved), logits(model, tokens))
    stretched = 3 * torch.arange(10)[None]
    assert not torch.allclose(logits(model, tokens, positions=stretched), logits(model, tokens))


def test_a_model_in_bf16_keeps_its_frequencies_in_fp32():
    model = new_model(TINY, dtype=torch.bfloat16)
    assert model.rotary.inv_freq.dtype == torch.float32
    cos, sin = model.rotary(torch.arange(5)[None], torch.bfloat16)
    assert cos.dtype == sin.dtype == torch.bfloat16 and cos.shape == (1, 5, 8)


def test_a_rotation_is_put_back_after_an_error():
    with pytest.raises(ZeroDivisionError), rotated_by(nothing):
        assert small_llama.apply_rotary_pos_emb is nothing
        _ = 1 / 0
    assert small_llama.apply_rotary_pos_emb is OWN


def test_training_learns_and_is_the_same_every_time():
    first, second = (train(new_model(TINY), prose(), 30, size=4, length=32) for _ in range(2))
    assert first == second and first[-1] < 0.8 * first[0]


def test_the_text_is_frozen_and_its_parts_do_not_overlap():
    data = PATH.read_bytes()
    assert 100_000 < len(data) <= 500_000
    both = torch.cat((prose(), prose("held out")))
    assert bytes(both.tolist()) == data
    assert 0.09 < len(prose("held out")) / len(data) < 0.11
    with pytest.raises(ValueError, match="part is 'test'; accepted: 'train', 'held out'"):
        prose("test")


@pytest.mark.parametrize("rounding", model_runs.ROUNDINGS)
def test_which_rounding_has_the_bits_of_the_model(rounding):
    run = {"dtype": torch.bfloat16, "size": TINY}
    found = model_runs.results(by_package(rounding, fused=False), **run)
    other = model_runs.different(found, model_runs.results(OWN, **run))
    assert (other == {"logits": 0, "gradients": 0}) is (rounding == "model")


@on_a_cpu
def test_a_kernel_of_the_climb_gives_the_models_values():
    rotate = by_rung(rung_8_rows.my_rope, 6, TINY.head_dim, "cpu")
    run = {"positions": 6, "size": TINY}
    for found, wanted in zip(
        model_runs.results(rotate, **run), model_runs.results(OWN, **run), strict=True
    ):
        torch.testing.assert_close(found, wanted)


@on_a_cpu
def test_every_experiment_runs_small_and_on_a_cpu(monkeypatch):
    """It counts no launches there; what it returns is what JSON can hold."""
    monkeypatch.setattr(model_runs, "_ALONE", 1)
    monkeypatch.setattr(model_runs, "_ROUNDS", 1)
    monkeypatch.setattr(model_runs, "launches_of", partial(launches_of, runs=1, warm_up=0))
    monkeypatch.setattr(model_runs, "COMPILED", False)  # it takes a minute
    shapes = {"tiny": (TINY, 1, 2)}
    found = model_runs.training("cpu", steps=2, b=1, s=2, size=TINY)
    assert found["unpatched, run twice"]["other_losses"] == 0
    assert found["package"]["losses"][0] == pytest.approx(found["unpatched"]["losses"][0], 0.01)
    found = model_runs.shares("cpu", shapes, runs=1)
    assert set(found["tiny"]["alone"]) == {"PyTorch", "rung 8", "package"}
    assert set(found["tiny"]["eager"]) == {"PyTorch", "rung 8", "package", "none"}
    found = model_runs.qwen3("cpu", SMALL, length=4, turns=1)
    assert set(found["eager"]) == {"unpatched", "patched", "with norms"}
    monkeypatch.setattr(model_runs, "SHAPES", shapes)
    assert set(model_runs.launches("cpu", "tiny")) >= {"PyTorch", "rung 8", "package", "none"}
