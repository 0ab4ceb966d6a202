"""The lines of docs/kernels.md for a Llama: by themselves, and on a small random model."""

import importlib
import sys
from types import ModuleType

import pytest
import torch

from rope_kernels import rotate_half
from test_readme import BLOCKS, LLAMA


def lines_of_the_page():
    """The names that they define; they have replaced the function in `LLAMA`."""
    (lines,) = (code for code in BLOCKS.values() if "transformers" in code)
    names = {}
    exec(lines, names)
    return names


@pytest.fixture
def llama(monkeypatch):
    """The module that the lines patch, given back as it was afterwards."""
    pytest.importorskip("transformers", reason="needs transformers")
    import transformers.models.llama.modeling_llama as llama

    monkeypatch.setattr(llama, "apply_rotary_pos_emb", llama.apply_rotary_pos_emb)
    return llama


@pytest.fixture
def lines(monkeypatch):
    """What the lines define, with a stand-in for transformers."""
    monkeypatch.setitem(sys.modules, LLAMA, ModuleType(LLAMA))
    return lines_of_the_page()


def patch_and_note_calls(llama, noted):
    """Run the lines; the shape of q in each call goes to `noted`."""
    rotate = lines_of_the_page()["rotate"]

    def noting(q, *args, **kwargs):
        noted.append(q.shape)
        return rotate(q, *args, **kwargs)

    llama.apply_rotary_pos_emb = noting


@pytest.mark.parametrize("unsqueeze_dim", (None, 1, 2, -3, -2))
def test_the_dimension_of_the_heads_is_the_callers(unsqueeze_dim, device, lines):
    """As many heads as positions: no shape tells one from the other."""
    q, k = torch.randn(2, 2, 5, 5, 8, device=device)
    cos, sin = torch.randn(2, 2, 5, 8, device=device)
    where = {} if unsqueeze_dim is None else {"unsqueeze_dim": unsqueeze_dim}
    got = sys.modules[LLAMA].apply_rotary_pos_emb(q, k, cos, sin, **where)
    cos, sin = (x.unsqueeze(unsqueeze_dim or 1) for x in (cos, sin))
    for one, x in zip(got, (q, k), strict=True):
        torch.testing.assert_close(one, x * cos + rotate_half(x) * sin)


@pytest.mark.parametrize("unsqueeze_dim", (0, -1))
def test_another_dimension_is_refused(unsqueeze_dim, lines):
    x = torch.randn(2, 5, 5, 8)
    sentence = rf"unsqueeze_dim is {unsqueeze_dim}; \[1, -3, 2, -2\] are accepted"
    with pytest.raises(ValueError, match=sentence):
        lines["rotate"](x, x, x[0], x[0], unsqueeze_dim)


@pytest.mark.parametrize("family", ("glm4", "gpt_oss", "cohere2", "nanochat", "helium", "bert"))
def test_another_family_is_refused(family, lines):
    with pytest.raises(ValueError, match=rf"{family} may not rotate as Llama does; \['llama', "):
        lines["patch"](family)


def test_the_families_that_are_named_rotate_as_these_lines_do(device, llama):
    q, k = (torch.randn(2, heads, 5, 8, device=device) for heads in (3, 1))
    angles = torch.randn(2, 5, 4, device=device).repeat(1, 1, 2)
    call = q, k, angles.cos(), angles.sin()
    expected = llama.apply_rotary_pos_emb(*call)
    lines = lines_of_the_page()
    for family in lines["FAMILIES"]:
        modeling = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        torch.testing.assert_close(modeling.apply_rotary_pos_emb(*call), expected)


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
