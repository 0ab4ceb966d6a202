"""Whole models, patched and not: logits, every gradient and generated tokens, bit for bit.

Here in plain PyTorch; on a GPU by the kernels, and with the launches of a layer counted.
"""

import pytest
import torch

from counted import gpu_events_of
from hf_models import (
    FAMILIES,
    differences,
    generated,
    in_a_fixed_order,
    inputs_of,
    logits_and_gradients,
)
from pairwise import slow_but
from rope_kernels.huggingface import patch
from rope_lab.compiler.plans import kernel_names

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers, and of torch's determinism


@pytest.fixture(autouse=True)
def fixed_order(monkeypatch, device):
    pytest.importorskip("transformers", reason="needs transformers")
    with in_a_fixed_order(monkeypatch, device):
        yield


@pytest.mark.parametrize("name", FAMILIES)
def test_a_patched_model_has_the_bits_of_its_own_functions(name, device):
    assert not differences(FAMILIES[name], autocast=False, device=device)


@pytest.mark.parametrize("name", slow_but(FAMILIES, "llama"))
def test_a_patched_model_has_these_bits_under_autocast(name, device):
    assert not differences(FAMILIES[name], autocast=True, device=device)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_patched_model_generates_the_same_tokens(name, device):
    """With a cache: after the first step one token at a time, each at a position of its own."""
    model = FAMILIES[name].make(device)
    inputs = inputs_of(FAMILIES[name], device)
    expected = generated(model, inputs)
    with patch(model):
        assert torch.equal(generated(model, inputs), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FAMILIES)
def test_a_layer_of_a_patched_model_has_one_launch(name, device):
    """One in the forward, one in the backward; the tower of Qwen2-VL has its own layers."""
    family = FAMILIES[name]
    model, inputs = family.call(device, autocast=False)
    layers = family.layers * (2 if family.images else 1)
    with patch(model):
        logits_and_gradients(model, inputs, autocast=False)  # compiled, and tuned
        kernels = gpu_events_of(lambda: logits_and_gradients(model, inputs, autocast=False))
    names = kernel_names()
    assert sum(kernel in names for kernel in kernels) == 2 * layers
