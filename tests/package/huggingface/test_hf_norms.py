"""`patch(model, norms=True)`: norms and rotation in one launch, and what runs as it was."""

import importlib
import inspect
from itertools import product

import pytest
import torch
from torch import nn

import hugging_face
from hf_attention import attentions, inputs_of_attention, q_and_k_of, stand_in
from hf_models import FAMILIES, Family, generated, inputs_of, logits_and_gradients
from rope_kernels.huggingface import Left, patch, unpatch
from rope_kernels.huggingface import norms as package_norms
from rope_kernels.huggingface.calls import one_tensor

QWEN3 = "transformers.models.qwen3.modeling_qwen3"
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers


@pytest.fixture(autouse=True)
def nothing_stays_patched():
    pytest.importorskip("transformers", reason="needs transformers")
    yield
    unpatch()


@pytest.fixture
def fused(monkeypatch):
    """Grows by one with every call that normalizes and rotates."""
    calls, normalize_by = [], package_norms.normalize_by

    def counting(*args, **options):
        calls.append(args)
        return normalize_by(*args, **options)

    monkeypatch.setattr(package_norms, "normalize_by", counting)
    return calls


@pytest.fixture
def qwen3(device):
    model = with_other_weights(FAMILIES["qwen3"].make(device))
    return model, inputs_of(FAMILIES["qwen3"], device)


def with_other_weights(model):
    """Norms that are not all ones: one that is skipped or doubled shows."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator).to(weight))
    return model


def first_attention(model):
    return model.model.layers[0].self_attn


def assert_close(got, wanted, dtype):
    """By the norm of the difference: a sum over tokens has large and small terms."""
    bound = {torch.float32: 2e-6, torch.float16: 3e-3, torch.bfloat16: 2e-2}[dtype]
    assert got.keys() == wanted.keys()
    for name, x in wanted.items():
        off = (got[name].double() - x.double()).norm() / x.double().norm().clamp(min=1e-30)
        assert off < bound, (name, off.item())


# Every forward that is known


def families():
    """By the list that `test_hf_page.py` holds against all files, which takes long to search."""
    try:
        return sorted(hugging_face.fused())
    except ImportError:
        return []


@pytest.mark.parametrize("family", families())
def test_every_known_attention(family, device, fused, monkeypatch):
    """q and k as its own norms and rotation give them, their strides, and all gradients."""
    known = attentions(family)
    assert known
    for attention, dtype in product(known, (torch.float32, torch.float16)):
        module = stand_in(attention, dtype, device)
        hidden, table = inputs_of_attention(attention, dtype, device)
        outs, grads = q_and_k_of(module, attention, hidden, table, monkeypatch)
        fused.clear()
        with patch(attention.module, norms=True, strict=True):
            got, got_grads = q_and_k_of(module, attention, hidden, table, monkeypatch)
        times = 2 if attention.normed.rule.form is one_tensor else 1
        assert len(fused) == times, attention.name
        for x, wanted in zip(got, outs, strict=True):
            torch.testing.assert_close(x, wanted, rtol=2e-3, atol=2e-3 * (dtype != torch.float32))
            assert (x != wanted).float().mean() < (5e-3 if dtype == torch.float16 else 1)
            assert x.stride() == wanted.stride(), attention.name
        assert_close(got_grads, grads, dtype)


CONDITIONS = {
    "exaone4.Exaone4Attention": {"is_sliding": False},
    "exaone_moe.ExaoneMoeAttention": {"is_sliding": False},
    "afmoe.AfmoeAttention": {"is_local_attention": False},
    "flint.FlintAttention": {"sliding_window": None},
    "glm4_moe.Glm4MoeAttention": {"use_qk_norm": False},
    "gemma3n.Gemma3nTextAttention": {"is_kv_shared_layer": True},
}
NOWHERE = ("beam.BeamAttention",)  # without positions


@pytest.mark.parametrize("name", [*CONDITIONS, *NOWHERE])
def test_layers_without_a_rotation_or_without_norms(name, device, monkeypatch):
    """Norms without a rotation, a rotation without norms, keys of another layer."""
    family = name.split(".")[0]
    if family not in hugging_face.fused():
        pytest.skip(f"this transformers has no {name}")
    (attention,) = [x for x in attentions(family) if str(x) == name]
    module = stand_in(attention, torch.float32, device, **CONDITIONS.get(name, {}))
    hidden, table = inputs_of_attention(attention, torch.float32, device)
    table = None if name in NOWHERE else table
    keys = torch.ones(2, 2, 7, 16, device=device, requires_grad=True)
    shared = {name: (keys, keys) for name in ("full_attention", 0)}
    if family == "glm4_moe":  # as a model with that flag is made
        del module.q_norm, module.k_norm
    if family == "gemma3n":
        module.kv_shared_layer_index = 0
        del module.k_norm
    given = attention, hidden, table, monkeypatch, shared
    outs, grads = q_and_k_of(module, *given)
    with patch(attention.module, norms=True):
        got, got_grads = q_and_k_of(module, *given)
    torch.testing.assert_close(got, outs, rtol=1e-5, atol=1e-5)
    assert_close(got_grads, grads, torch.float32)


# Norms of all heads stay the model's own


def test_a_norm_of_all_heads_is_left_and_the_rotation_is_ours():
    cls = importlib.import_module("transformers.models.olmo2.modeling_olmo2").Olmo2Attention
    forward = cls.forward
    patched = patch("olmo2", norms=True, strict=False)
    assert cls.forward is forward and patched.replaced
    (left,) = [x for x in patched.left if x.is_forward]
    assert left.function == "Olmo2Attention.forward"
    unpatch()
    with pytest.raises(ValueError, match=r"but found: .*Olmo2Attention"):
        patch("olmo2", norms=True)


# Whole models

SMALL_MOE = {
    "use_qk_norm": True,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
THREE = {
    "qwen3": FAMILIES["qwen3"],
    "gemma3": FAMILIES["gemma3"],
    "glm4_moe": Family("Glm4MoeConfig", "Glm4MoeForCausalLM", SMALL_MOE),
}


@pytest.mark.parametrize("name", THREE)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16), ids=str)
def test_whole_models(name, dtype, device, fused, plain_on_a_cpu):
    """Logits, all gradients, and tokens with a cache."""
    family = THREE[name]
    model = with_other_weights(family.make(device, dtype))
    inputs = inputs_of(family, device)
    wanted = logits_and_gradients(model, inputs, autocast=False)
    if dtype == torch.float16 and not all(x.isfinite().all() for x in wanted.values()):
        pytest.skip("overflows by itself")
    tokens = generated(model, inputs)
    with patch(model, norms=True, strict=True):
        fused.clear()
        got = logits_and_gradients(model, inputs, autocast=False)
        assert len(fused) == family.layers
        if dtype == torch.float32:
            assert torch.equal(generated(model, inputs), tokens)
    assert_close(got, wanted, dtype)


@pytest.fixture
def plain_on_a_cpu(monkeypatch, device):
    """NumPy has no bf16, and the interpreter rounds it toward zero."""
    if device == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "0")


def test_in_autocast_a_cache_has_keys_of_the_same_dtype(qwen3, device, plain_on_a_cpu):
    """fp32, because the norm's weight is."""
    model, inputs = qwen3

    def dtype_of_keys():
        with torch.autocast(device, torch.bfloat16), torch.no_grad():
            return model(**inputs, use_cache=True).past_key_values.layers[0].keys.dtype

    wanted = dtype_of_keys()
    with patch(model, norms=True):
        assert dtype_of_keys() == wanted == torch.float32


# When the forward is as it was


def hook(*args):
    return None


class OtherNorm(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.weight = norm.weight
        self.variance_epsilon = norm.variance_epsilon

    def forward(self, x):
        return self.weight * x


class OwnParameter(nn.Parameter):
    pass


def of_a_class_with(module, **members):
    """A class derived from the module's own."""
    module.__class__ = type("Derived", (type(module),), members)


def weight_is_no_parameter(attention):
    weight = attention.q_norm.weight.detach()
    del attention.q_norm.weight
    attention.q_norm.weight = weight


ASIDE = {
    "another class": lambda x: setattr(x, "q_norm", OtherNorm(x.q_norm)),
    "a __call__ of its own": lambda x: of_a_class_with(
        x.q_norm, __call__=lambda self, t: 2 * nn.Module.__call__(self, t)
    ),
    "scripted": lambda x: setattr(x, "q_norm", torch.jit.script(x.q_norm)),
    "a forward of its own": lambda x: setattr(x.k_norm, "forward", lambda t: 2 * t),
    "unlike eps": lambda x: setattr(x.q_norm, "variance_epsilon", 0.5),
    "a weight that is no Parameter": weight_is_no_parameter,
    "a weight of another dtype": lambda x: x.q_norm.bfloat16(),
    "a weight of another class": lambda x: setattr(
        x.k_norm, "weight", OwnParameter(x.k_norm.weight.detach())
    ),
    "a hook": lambda x: x.q_norm.register_forward_hook(hook),
    "a hook before": lambda x: x.k_norm.register_forward_pre_hook(hook),
    "a backward hook": lambda x: x.k_norm.register_full_backward_hook(hook),
    "a backward hook before": lambda x: x.q_norm.register_full_backward_pre_hook(hook),
}


@pytest.mark.parametrize("what", ASIDE)
def test_norms_that_have_to_run_themselves(what, qwen3, fused):
    """Also if the first call was fused."""
    model, inputs = qwen3
    with torch.no_grad():
        with patch(model, norms=True):
            model(**inputs)
        assert len(fused) == 2
        for layer in model.model.layers:
            ASIDE[what](layer.self_attn)
        wanted = model(**inputs).logits
        fused.clear()
        with patch(model, norms=True):
            got = model(**inputs).logits
    assert not fused
    assert torch.equal(got, wanted)


def test_rows_without_a_batch(device):
    """q is (s, d, h) there: the norms' dimension is the last but one."""
    config = {"num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 1}
    family = Family("Qwen3Config", "Qwen3ForCausalLM", config)
    attention = first_attention(with_other_weights(family.make(device)))
    assert attention.head_dim == 16
    hidden = torch.randn(5, 64, device=device)
    table = [torch.rand(5, 16, device=device) for _ in range(2)]
    found = []

    def attend(module, q, k, v, *args, **kwargs):
        found.append((q, k))
        return v, None

    attention.config._attn_implementation = "found"
    qwen3 = importlib.import_module(QWEN3)
    with pytest.MonkeyPatch.context() as patching, torch.no_grad():
        patching.setitem(qwen3.ALL_ATTENTION_FUNCTIONS._local_mapping, "found", attend)
        for norms in (False, True):
            with patch(attention, norms=norms):
                attention(hidden, tuple(table), None)
    torch.testing.assert_close(found[1], found[0])


def test_a_global_hook_sees_the_norms(qwen3, fused):
    model, inputs = qwen3
    seen = []
    with patch(model, norms=True):
        handle = nn.modules.module.register_module_forward_hook(lambda m, *x: seen.append(type(m)))
        try:
            model(**inputs)
        finally:
            handle.remove()
    assert not fused
    assert seen.count(type(first_attention(model).q_norm)) == 2 * 4 + 1


def test_a_forward_of_a_class_that_is_replaced_later(qwen3, fused, monkeypatch):
    model, inputs = qwen3
    with torch.no_grad(), patch(model, norms=True):
        model(**inputs)
        fused.clear()
        monkeypatch.setattr(type(first_attention(model).q_norm), "forward", lambda self, x: 3 * x)
        got = model(**inputs).logits
        unpatch()
        assert not fused and torch.equal(model(**inputs).logits, got)


@pytest.mark.parametrize("part", ("norm", "attention"))
def test_a_forward_that_is_given_other_code_later(part, qwen3, fused, monkeypatch):
    """As IPython's autoreload does: it keeps the functions, and replaces their code."""
    model, inputs = qwen3
    with torch.no_grad():
        before = model(**inputs).logits
        attention = first_attention(model)
        forward = type(attention.q_norm if part == "norm" else attention).forward
        others = {
            "norm": lambda self, hidden_states: 3 * hidden_states,
            "attention": lambda self, hidden_states, *args, **kwargs: (hidden_states, None),
        }
        patch(model, norms=True)
        model(**inputs)
        fused.clear()
        monkeypatch.setattr(forward, "__code__", others[part].__code__)
        got = model(**inputs).logits
        assert not fused and not torch.equal(got, before)
        unpatch()
        assert torch.equal(model(**inputs).logits, got)
        monkeypatch.undo()
        patch(model, norms=True)
        torch.testing.assert_close(model(**inputs).logits, before)


def test_a_rotation_that_is_replaced_later(qwen3, fused, monkeypatch):
    model, inputs = qwen3
    with torch.no_grad():
        patch(model, norms=True)
        module = importlib.import_module(QWEN3)
        monkeypatch.setattr(module, "apply_rotary_pos_emb", lambda q, k, *table: (q, -k))
        got = model(**inputs).logits
        unpatch(model)
        assert not fused and torch.equal(model(**inputs).logits, got)


@pytest.mark.parametrize("dtype", (torch.float64, torch.float16), ids=str)
def test_what_no_kernel_takes_runs_apart(dtype, qwen3, fused):
    """A table that requires a gradient, and fp64: norms, then the rotation, as the model does."""
    model, _ = qwen3
    attention = first_attention(model).to(dtype)
    hidden = torch.randn(2, 5, 64, dtype=dtype, device=model.device)
    table = [torch.rand(2, 5, 16, dtype=dtype, device=model.device) for _ in range(2)]
    table[0].requires_grad_(dtype != torch.float64)
    wanted, _ = attention(hidden, tuple(table), None)
    with patch(model, norms=True):
        got, _ = attention(hidden, tuple(table), None)
    assert not fused and torch.equal(got, wanted)


# What a model goes through


# What is replaced, what is left


def test_what_is_replaced_and_comes_back():
    cls = importlib.import_module(QWEN3).Qwen3Attention
    original = vars(cls)["forward"]
    with patch("qwen3", norms=True) as patched:
        assert [str(x) for x in patched.replaced] == [
            f"{QWEN3}.apply_rotary_pos_emb",
            f"{QWEN3}.Qwen3Attention.forward",
        ]
        ours = vars(cls)["forward"]
        assert ours is not original
        assert patch("qwen3", norms=True).replaced == patched.replaced
        assert vars(cls)["forward"] is ours
    assert vars(cls)["forward"] is original
    patch("qwen3", norms=True)
    assert vars(cls)["forward"] is ours, "a compiled model finds what it was compiled with"
    unpatch("qwen3")
    assert vars(cls)["forward"] is original
    patch("qwen3")
    assert vars(cls)["forward"] is original


def test_another_code_is_left(made_of_qwen3, fused):
    edits = {
        "scaled": ("        key_states = self.k_norm", "        query_states = query_states * 2\n"),
        "with_an_argument": ("        input_shape = ", "        scaling = self.scaling\n"),
    }
    for name, (before, line) in edits.items():
        module = made_of_qwen3(name, before, line + before)
        assert patch(module, norms=True, strict=False).left == (
            Left(name, "Qwen3Attention.forward", "its code is not that of a known function"),
        )
    after = "        attn_output = attn_output.reshape"
    module = made_of_qwen3("after", after, "        attn_output = 2 * attn_output\n" + after)
    assert not patch(module, norms=True, strict=True).left


@pytest.fixture
def made_of_qwen3(tmp_path, monkeypatch):
    """Makes a module of Python from Qwen 3's, with one edit."""
    monkeypatch.syspath_prepend(tmp_path)
    source = inspect.getsource(importlib.import_module(QWEN3))

    def make(name, before, after):
        text = source.replace("from ...", "from transformers.").replace("from .conf", "from conf")
        text = text.replace("from conf", "from transformers.models.qwen3.conf")
        assert text.count(before) == 1
        (tmp_path / f"{name}.py").write_text(text.replace(before, after), encoding="utf-8")
        return importlib.import_module(name)

    return make


@pytest.mark.parametrize(
    "target, norms, told",
    (
        ("bert", False, "no function that rotates was found; strict=False accepts that"),
        ("llama4", False, "no function that rotates is known, but found: .*apply_rotary_emb: its"),
        ("llama", True, "no forward that normalizes q and k was found; norms=False patches the"),
        ("olmoe", True, "no forward that normalizes q and k is known, but found: .*OlmoeAttention"),
        ("hunyuan_vl", True, "no forward that normalizes q and k is known, but found: .*HunYuanVL"),
    ),
)
def test_strict_says_what_is_missing(target, norms, told):
    module = importlib.import_module(f"transformers.models.{target}.modeling_{target}")
    before = dict(vars(module))
    with pytest.raises(ValueError, match=rf"target is \S*{target}.* where .*{told}"):
        patch(target, norms=norms)
    assert vars(module) == before, "nothing stays replaced"
    patch(target, norms=norms, strict=False)


def test_a_model_that_rotates_nothing_is_an_error():
    model = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"^target is Linear, where no function that rotates was"):
        patch(model)
    assert not patch(model, strict=False).replaced


def test_flags_are_bools():
    for flag in ("norms", "strict"):
        with pytest.raises(TypeError, match=f"{flag} is 1; accepted: False, True"):
            patch("qwen3", **{flag: 1})
