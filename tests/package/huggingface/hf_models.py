"""Small models of many families with random weights, and what is compared of them."""

from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from rope_kernels import paths
from rope_kernels.huggingface import patch

TEXT = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
QWEN_VL = {
    "text_config": {
        **TEXT,
        "vocab_size": 100,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "mrope_section": [2, 3, 3],
        },
    },
    "vision_config": {
        "depth": 2,
        "embed_dim": 32,
        "hidden_size": 64,
        "num_heads": 2,
        "mlp_ratio": 2,
        "patch_size": 4,
    },
    "image_token_id": 95,
    "video_token_id": 96,
    "vision_start_token_id": 93,
    "vision_end_token_id": 94,
}


@contextmanager
def in_a_fixed_order(monkeypatch, device):
    """Attention and sums that give a model the same bits twice; on a CPU no kernel at all."""
    if device == "cpu":
        monkeypatch.setattr(paths, "_INTERPRETS_ON_A_CPU", False)
        yield
        return
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    with sdpa_kernel(SDPBackend.MATH):
        yield
    torch.use_deterministic_algorithms(False)


@dataclass(frozen=True)
class Family:
    """How a small model is made."""

    config: str
    model: str
    options: dict = field(default_factory=dict)
    layers: int = 2  # of the text; and as many of a tower
    images: bool = False

    def make(self, device, dtype=torch.float32):
        import transformers

        options = self.options if self.images else TEXT | self.options
        config = getattr(transformers, self.config)(**options)
        torch.manual_seed(7)
        model = getattr(transformers, self.model)._from_config(config, attn_implementation="sdpa")
        return model.to(device, dtype).eval()  # no dropout

    def call(self, device, autocast):
        """A model with parameters in fp32 for autocast, else in bf16, and its inputs."""
        inputs = inputs_of(self, device)
        if self.images and not autocast:
            inputs["pixel_values"] = inputs["pixel_values"].bfloat16()
        return self.make(device, torch.float32 if autocast else torch.bfloat16), inputs


FAMILIES = {
    "llama": Family("LlamaConfig", "LlamaForCausalLM"),
    "qwen3": Family("Qwen3Config", "Qwen3ForCausalLM"),
    "glm4": Family("Glm4Config", "Glm4ForCausalLM"),
    "gemma3": Family("Gemma3TextConfig", "Gemma3ForCausalLM"),
    "qwen2_vl": Family("Qwen2VLConfig", "Qwen2VLForConditionalGeneration", QWEN_VL, images=True),
}


def inputs_of(family, device):
    """Tokens with padding on the left; with one image for the models that see."""
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(3, 90, (2, 21), generator=generator)
    mask = torch.ones_like(tokens)
    tokens[0, :4] = mask[0, :4] = 0
    found = {"input_ids": tokens, "attention_mask": mask}
    if family.images:
        tokens[:, 5], tokens[:, 6:10], tokens[:, 10] = 93, 95, 94  # 4 x 4 patches, merged by 2 x 2
        found["pixel_values"] = torch.randn(2 * 16, 3 * 2 * 4 * 4, generator=generator)
        found["image_grid_thw"] = torch.tensor([[1, 4, 4]] * 2)
        found["mm_token_type_ids"] = (tokens == 95).int()
    return {name: x.to(device) for name, x in found.items()}


def logits_and_gradients(model, inputs, autocast):
    """The logits and the gradient of every parameter, by name."""
    model.zero_grad()
    device = next(model.parameters()).device.type
    with torch.autocast(device, torch.bfloat16, enabled=autocast):
        logits = model(**inputs).logits
    weight = torch.linspace(-1, 1, logits.shape[-1], device=device)
    (logits.float() * weight).sin().sum().backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return {"logits": logits.detach()} | found


def differences(family, autocast, device):
    """The names of what a patched model has other bits of.

    A model that differs from itself has an operator that adds in no fixed order.
    """
    model, inputs = family.call(device, autocast)
    wanted = logits_and_gradients(model, inputs, autocast)
    with patch(model) as patched:
        got = logits_and_gradients(model, inputs, autocast)
    assert patched.replaced
    if found := unequal(got, wanted):
        again = logits_and_gradients(model, inputs, autocast)
        assert not unequal(again, wanted), "this model differs from itself"
    return found


def unequal(got, wanted):
    """The names of what differs in a bit."""
    assert got.keys() == wanted.keys() and len(got) > 10
    assert all(x.isfinite().all() for x in wanted.values())
    return [name for name, x in wanted.items() if not torch.equal(got[name], x)]


def generated(model, inputs):
    with torch.no_grad():
        return model.generate(**inputs, max_new_tokens=8, do_sample=False)
