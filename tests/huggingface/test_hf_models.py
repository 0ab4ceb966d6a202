"""Whole models, patched and not: logits, every gradient and generated tokens, bit for bit.

Here in plain PyTorch; on a GPU by the kernels, and with the launches of a layer counted.
"""

import pytest
import torch

from hf_models import (
    FAMILIES,
    differences,
    generated,
    in_a_fixed_order,
    inputs_of,
    logits_and_gradients,
)
from rope_kernels.huggingface import patch
from rope_kernels.launch import launch

SIX = ("llama", "qwen3", "glm4", "gemma3", "deepseek_v3", "qwen2_vl")

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers, and of torch's determinism


@pytest.fixture(autouse=True)
def fixed_order(monkeypatch, device):
    pytest.importorskip("transformers", reason="needs transformers")
    with in_a_fixed_order(monkeypatch, device):
        yield


@pytest.mark.parametrize("name", FAMILIES)
def test_a_patched_model_has_the_bits_of_its_own_functions(name, device):
    """In autocast; six of them in bf16, too."""
    for autocast in (True, False) if name in SIX else (True,):
        assert not differences(FAMILIES[name], autocast, device), autocast


@pytest.mark.parametrize("name", SIX)
def test_a_patched_model_generates_the_same_tokens(name, device):
    """With a cache: after the first step one token at a time, each at a position of its own."""
    model = FAMILIES[name].make(device)
    inputs = inputs_of(FAMILIES[name], device)
    expected = generated(model, inputs)
    with patch(model):
        assert torch.equal(generated(model, inputs), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("autocast", (False, True), ids=("bf16", "autocast"))
@pytest.mark.parametrize("name", SIX)
def test_a_layer_of_a_patched_model_has_one_launch(name, autocast, device, monkeypatch):
    """One in the forward, one in the backward; the tower of Qwen2-VL has its own layers."""
    launches, rotate = [], launch.rotate

    def counting(tensors, rotation, *rest):
        launches.append(rotation.transpose)
        return rotate(tensors, rotation, *rest)

    monkeypatch.setattr(launch, "rotate", counting)
    family = FAMILIES[name]
    model, inputs = family.call(device, autocast)
    layers = family.layers * (2 if family.images else 1)
    with patch(model):
        logits_and_gradients(model, inputs, autocast)
    assert launches.count(False) == launches.count(True) == layers * family.launches
