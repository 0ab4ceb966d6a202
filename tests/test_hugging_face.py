"""README's lines for a Hugging Face Llama: by themselves, and on a small random model."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from rope_kernels import rotate_half

README = Path(__file__).parent.parent / "README.md"
PARENTS = ("transformers", "transformers.models", "transformers.models.llama")
LLAMA = "transformers.models.llama.modeling_llama"


def patch_llama():
    """Run README's lines, which replace the function in `LLAMA`."""
    (lines,) = re.findall(
        rf"```python\n(import {LLAMA} as llama\n.*?)```", README.read_text(), re.S
    )
    exec(lines, {})


@pytest.fixture
def llama(monkeypatch):
    """The module that README's lines patch, given back as it was afterwards."""
    pytest.importorskip("transformers", reason="needs transformers")
    import transformers.models.llama.modeling_llama as llama

    monkeypatch.setattr(llama, "apply_rotary_pos_emb", llama.apply_rotary_pos_emb)
    return llama


def patch_and_note_calls(llama, noted):
    """Run README's lines; the shape of q in each call goes to `noted`."""
    patch_llama()
    rotate = llama.apply_rotary_pos_emb

    def noting(q, *args, **kwargs):
        noted.append(q.shape)
        return rotate(q, *args, **kwargs)

    llama.apply_rotary_pos_emb = noting


@pytest.mark.parametrize("unsqueeze_dim", (None, 1, 2))
def test_the_dimension_of_the_heads_is_the_callers(unsqueeze_dim, device, monkeypatch):
    """As many heads as positions: no shape tells one from the other."""
    llama = ModuleType(LLAMA)
    for name in PARENTS:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, LLAMA, llama)
    for parent, child in zip((*PARENTS, LLAMA), (*PARENTS[1:], LLAMA), strict=False):
        setattr(sys.modules[parent], child.rpartition(".")[2], sys.modules[child])
    patch_llama()
    q, k = torch.randn(2, 2, 5, 5, 8, device=device)
    cos, sin = torch.randn(2, 2, 5, 8, device=device)
    where = {} if unsqueeze_dim is None else {"unsqueeze_dim": unsqueeze_dim}
    got = llama.apply_rotary_pos_emb(q, k, cos, sin, **where)
    cos, sin = (x.unsqueeze(unsqueeze_dim or 1) for x in (cos, sin))
    for one, x in zip(got, (q, k), strict=True):
        torch.testing.assert_close(one, x * cos + rotate_half(x) * sin)


def small_llama():
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    config = transformers.LlamaConfig(
        vocab_size=97,
        hidden_size=96,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        attn_implementation="sdpa",
    )
    return transformers.LlamaForCausalLM(config)


def test_a_llama_gives_the_same_logits_and_gradients(device, llama):
    model = small_llama().to(device)
    tokens = torch.randint(0, 97, (2, 37), device=device)

    def logits_and_gradient():
        model.zero_grad()
        logits = model(tokens).logits
        (logits * torch.linspace(-1, 1, 97, device=device)).sum().backward()
        return logits.detach(), model.model.layers[0].self_attn.q_proj.weight.grad.clone()

    expected = logits_and_gradient()
    calls = []
    patch_and_note_calls(llama, calls)
    torch.testing.assert_close(logits_and_gradient(), expected, rtol=1e-4, atol=1e-5)
    assert len(calls) == model.config.num_hidden_layers


def test_a_llama_generates_the_same_tokens(device, llama):
    """With a cache: after the first step, one token at a time, at positions of its own."""
    model = small_llama().to(device).eval()
    tokens = torch.randint(1, 97, (3, 11), device=device)
    padding = torch.ones_like(tokens)
    padding[0, :4] = padding[2, :1] = 0  # on the left: each text has positions of its own

    def generated():
        with torch.no_grad():
            return model.generate(
                tokens, attention_mask=padding, max_new_tokens=8, do_sample=False, pad_token_id=0
            )

    expected, calls = generated(), []
    patch_and_note_calls(llama, calls)
    assert torch.equal(generated(), expected)
    assert {length for _, _, length, _ in calls} == {11, 1}
