"""README's lines for a Hugging Face Llama, on a small random model."""

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb

transformers = pytest.importorskip("transformers", reason="needs transformers")


def test_a_llama_gives_the_same_logits_and_gradients(device, monkeypatch):
    import transformers.models.llama.modeling_llama as llama

    config = transformers.LlamaConfig(
        vocab_size=97,
        hidden_size=96,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        attn_implementation="sdpa",
    )
    model = transformers.LlamaForCausalLM(config).to(device)
    tokens = torch.randint(0, 97, (2, 37), device=device)

    def logits_and_gradient():
        model.zero_grad()
        logits = model(tokens).logits
        (logits * torch.linspace(-1, 1, 97, device=device)).sum().backward()
        return logits.detach(), model.model.layers[0].self_attn.q_proj.weight.grad.clone()

    expected = logits_and_gradient()
    angles = RotaryPositionEmbedding(dim=16).to(device)
    torch.testing.assert_close(angles.inv_freq, model.model.rotary_emb.inv_freq)
    calls = []

    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        freqs = angles(q.shape[2])
        calls.append(q.shape)
        return apply_rotary_pos_emb(q, freqs, "bhsd"), apply_rotary_pos_emb(k, freqs, "bhsd")

    monkeypatch.setattr(llama, "apply_rotary_pos_emb", rotate)
    torch.testing.assert_close(logits_and_gradient(), expected, rtol=1e-4, atol=1e-5)
    assert len(calls) == config.num_hidden_layers
