"""README's lines for a Hugging Face Llama, on a small random model."""

import pytest
import torch

from rope_kernels import rope_qk

transformers = pytest.importorskip("transformers", reason="needs transformers")


def small_llama():
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


def test_a_llama_gives_the_same_logits_and_gradients(device, monkeypatch):
    import transformers.models.llama.modeling_llama as llama

    model = small_llama().to(device)
    tokens = torch.randint(0, 97, (2, 37), device=device)

    def logits_and_gradient():
        model.zero_grad()
        logits = model(tokens).logits
        (logits * torch.linspace(-1, 1, 97, device=device)).sum().backward()
        return logits.detach(), model.model.layers[0].self_attn.q_proj.weight.grad.clone()

    expected = logits_and_gradient()
    calls = []

    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        calls.append(q.shape)
        return rope_qk(q, k, (cos, sin), "bhsd")

    monkeypatch.setattr(llama, "apply_rotary_pos_emb", rotate)
    torch.testing.assert_close(logits_and_gradient(), expected, rtol=1e-4, atol=1e-5)
    assert len(calls) == model.config.num_hidden_layers


def test_a_llama_generates_the_same_tokens(device, monkeypatch):
    """With a cache: after the first step, one token at a time, at positions of its own."""
    import transformers.models.llama.modeling_llama as llama

    model = small_llama().to(device).eval()
    tokens = torch.randint(1, 97, (3, 11), device=device)
    padding = torch.ones_like(tokens)
    padding[0, :4] = padding[2, :1] = 0  # on the left: each text has positions of its own

    def generated():
        with torch.no_grad():
            return model.generate(
                tokens, attention_mask=padding, max_new_tokens=8, do_sample=False, pad_token_id=0
            )

    expected, lengths = generated(), set()

    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        lengths.add(q.shape[2])
        return rope_qk(q, k, (cos, sin), "bhsd")

    monkeypatch.setattr(llama, "apply_rotary_pos_emb", rotate)
    assert torch.equal(generated(), expected)
    assert lengths == {11, 1}
