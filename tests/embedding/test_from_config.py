"""`from_config`: the frequencies of transformers, bit for bit, and errors that name the key."""

import copy
import math
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, mrope_axes, rope_fw

from_config = RotaryPositionEmbedding.from_config
LLAMA = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}


def config_of(rope, **changes):
    """A plain dict, with `rope_parameters` of its own."""
    return LLAMA | {"rope_parameters": {"rope_theta": 10000.0} | rope} | changes


def with_attributes(config):
    return SimpleNamespace(**config)


# transformers' own arithmetic, for random numbers


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


def random_config(rope_type, rng):
    """A flat configuration, as a dict: sizes, theta and every key of the type, often left out."""
    head_dim = rng.choice((32, 64, 80, 96, 128, 192, 256))
    share = rng.choice((None, None, 0.25, 0.5, 0.75))
    dim = int(head_dim * (share or 1.0))
    original = rng.choice((2048, 4096, 8192, 32768))
    rope = {"rope_type": rope_type, "rope_theta": rng.choice((1e4, 10000, 5e5, 1e6, 150000.0))}
    if share is not None:
        rope["partial_rotary_factor"] = share
    factor = rng.choice((1.0, 2, 4.0, 8.0, 32, 40, round(rng.uniform(1, 64), 3)))
    if rope_type != "default":
        rope["factor"] = factor
    if rope_type in ("yarn", "longrope", "llama3"):
        rope["original_max_position_embeddings"] = original
    if rope_type == "llama3":
        rope |= {
            "low_freq_factor": rng.choice((1.0, 2, 1.5)),
            "high_freq_factor": rng.choice((4, 8.0)),
        }
    if rope_type == "yarn":
        rope |= rng.choice(({}, {"beta_fast": 1000, "beta_slow": 2}, {"beta_fast": 64.0}))
        rope |= rng.choice(({}, {"truncate": False}, {"truncate": True}))
        scales = {"mscale": 0.707, "mscale_all_dim": 1.0}
        rope |= rng.choice(({}, scales, {"mscale": 1.0}, {"mscale": 0, "mscale_all_dim": 1}))
        rope["factor"] = rng.choice((factor, None))
    if rope_type == "longrope":
        for key in ("short_factor", "long_factor"):
            rope[key] = [round(rng.uniform(1, 60), 6) for _ in range(dim // 2)]
        if rng.random() < 0.5:
            del rope["factor"]
    if rope_type in ("yarn", "longrope"):
        rope |= rng.choice(({}, {}, {"attention_factor": 1.19}))
    sizes = {"head_dim": head_dim, "hidden_size": 8 * head_dim, "num_attention_heads": 8}
    return sizes | {"max_position_embeddings": 16 * original, "rope_parameters": rope}


def assert_same_as(transformers, config, layer_type=None):
    """`inv_freq` and the attention factor of our module, and of transformers' function."""
    rope = config.rope_parameters if layer_type is None else config.rope_parameters[layer_type]
    module = from_config(config, layer_type)
    if rope["rope_type"] == "default":
        head_dim = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        dim = int(head_dim * (rope.get("partial_rotary_factor") or 1.0))
        exponent = torch.arange(0, dim, 2, dtype=torch.float) / dim
        want, factor = 1.0 / (rope["rope_theta"] ** exponent), 1.0
    else:
        functions = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS
        want, factor = functions[rope["rope_type"]](
            config, torch.device("cpu"), layer_type=layer_type
        )
    assert module.inv_freq.dtype == torch.float32
    assert torch.equal(module.inv_freq, want)
    assert module.attention_factor == factor and type(factor) is float
    return module


SCALED = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")


@pytest.mark.parametrize("rope_type", SCALED)
def test_transformers_bits(rope_type, transformers):
    rng, seen = random.Random(rope_type), set()
    for _ in range(60):
        config = random_config(rope_type, rng)
        theirs = transformers.LlamaConfig(**copy.deepcopy(config))
        module = assert_same_as(transformers, theirs)
        for given in (config, with_attributes(config)):
            again = from_config(given)
            assert torch.equal(again.inv_freq, module.inv_freq)
            assert again.attention_factor == module.attention_factor
        seen.add(tuple(module.inv_freq.tolist()))
    assert len(seen) > 15


# configurations of published models

PHI_3_SHORT = [1.0 + 0.01 * i for i in range(48)]
PHI_3_LONG = [1.0 + 1.3 * i for i in range(48)]
PUBLISHED = {
    "Llama 3.1 8B": (
        "LlamaConfig",
        {
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
            "rope_theta": 500000.0,
            "rope_scaling": {
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            },
        },
    ),
    "DeepSeek V3": (
        "DeepseekV3Config",
        {
            "hidden_size": 7168,
            "num_attention_heads": 128,
            "qk_rope_head_dim": 64,
            "max_position_embeddings": 163840,
            "rope_theta": 10000,
            "rope_scaling": {
                "beta_fast": 32,
                "beta_slow": 1,
                "factor": 40,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096,
                "type": "yarn",
            },
        },
    ),
    "Phi-3 mini 128k": (
        "Phi3Config",
        {
            "hidden_size": 3072,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "rope_theta": 10000.0,
            "rope_scaling": {
                "short_factor": PHI_3_SHORT,
                "long_factor": PHI_3_LONG,
                "type": "longrope",
            },
        },
    ),
    "Phi-4 mini": (
        "Phi3Config",
        {
            "hidden_size": 3072,
            "num_attention_heads": 24,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "partial_rotary_factor": 0.75,
            "rope_theta": 10000.0,
            "rope_scaling": {
                "short_factor": PHI_3_SHORT,
                "long_factor": PHI_3_LONG,
                "type": "longrope",
            },
        },
    ),
    "Qwen2.5 with YaRN": (
        "Qwen2Config",
        {
            "hidden_size": 5120,
            "num_attention_heads": 40,
            "max_position_embeddings": 131072,
            "rope_theta": 1000000.0,
            "rope_scaling": {
                "factor": 4.0,
                "original_max_position_embeddings": 32768,
                "type": "yarn",
            },
        },
    ),
    "gpt-oss": (
        "GptOssConfig",
        {
            "head_dim": 64,
            "hidden_size": 2880,
            "num_attention_heads": 64,
            "max_position_embeddings": 131072,
            "rope_theta": 150000,
            "rope_scaling": {
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "factor": 32.0,
                "original_max_position_embeddings": 4096,
                "rope_type": "yarn",
                "truncate": False,
            },
        },
    ),
    "GLM-4": (
        "Glm4Config",
        {
            "head_dim": 128,
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "max_position_embeddings": 32768,
            "partial_rotary_factor": 0.5,
            "rope_theta": 10000.0,
        },
    ),
}
MODULES = {
    "LlamaConfig": ("llama", "LlamaRotaryEmbedding"),
    "DeepseekV3Config": ("deepseek_v3", "DeepseekV3RotaryEmbedding"),
    "Phi3Config": ("phi3", "Phi3RotaryEmbedding"),
    "Qwen2Config": ("qwen2", "Qwen2RotaryEmbedding"),
    "GptOssConfig": ("gpt_oss", "GptOssRotaryEmbedding"),
    "Glm4Config": ("glm4", "Glm4RotaryEmbedding"),
    "Gemma3TextConfig": ("gemma3", "Gemma3RotaryEmbedding"),
    "Gemma4TextConfig": ("gemma4", "Gemma4TextRotaryEmbedding"),
}


def rotary_of(transformers, theirs):
    """The module with cos and sin that the model itself makes."""
    folder, name = MODULES[type(theirs).__name__]
    module = pytest.importorskip(f"transformers.models.{folder}.modeling_{folder}")
    return getattr(module, name)(theirs)


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_published_model(model, transformers):
    """As its file says it, and as transformers understands that file."""
    kind, config = PUBLISHED[model]
    theirs = getattr(transformers, kind)(**copy.deepcopy(config))
    rotary = rotary_of(transformers, theirs)
    for given in (config, with_attributes(config), theirs, theirs.to_dict()):
        module = from_config(given)
        assert torch.equal(module.inv_freq, rotary.inv_freq)
        assert module.attention_factor == rotary.attention_scaling
        assert list(module.state_dict()) == []


GEMMA_3 = {
    "head_dim": 256,
    "hidden_size": 2560,
    "num_attention_heads": 8,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}


@pytest.mark.parametrize("layer_type", ("sliding_attention", "full_attention"))
@pytest.mark.parametrize("kind", ("Gemma3TextConfig", "Gemma4TextConfig"))
def test_a_model_with_two_types_of_layers(kind, layer_type, transformers):
    config = GEMMA_3 if kind == "Gemma3TextConfig" else {}
    theirs = getattr(transformers, kind)(**copy.deepcopy(config))
    rotary = rotary_of(transformers, theirs)
    given = [theirs, config] if config else [theirs]
    for one in given:
        module = from_config(one, layer_type)
        assert torch.equal(module.inv_freq, getattr(rotary, f"{layer_type}_inv_freq"))
        assert module.attention_factor == 1.0


def test_gemma_4s_full_attention_turns_the_first_pairs_of_each_half(transformers):
    """`proportional` is not partial: other pairs are there, at rest."""
    module = from_config(transformers.Gemma4TextConfig(), "full_attention")
    turning = module.inv_freq > 0
    assert module.rotary_dim == 512 and turning.sum() == 64 and turning[:64].all()


def test_truncate_is_read_for_each_type_of_layer(transformers):
    """transformers reads it beside the types of layers, where nobody writes it."""
    rope = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "truncate": False}
    flat = config_of(rope)
    nested = LLAMA | {"rope_parameters": {"full_attention": flat["rope_parameters"]}}
    want = from_config(flat).inv_freq
    assert torch.equal(from_config(nested, "full_attention").inv_freq, want)
    theirs = transformers.LlamaConfig(**copy.deepcopy(flat))
    assert_same_as(transformers, theirs)
    theirs.layer_types = ["full_attention"]
    theirs.rope_parameters = {"full_attention": theirs.rope_parameters}
    function = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["yarn"]
    ignored, _ = function(theirs, torch.device("cpu"), layer_type="full_attention")
    assert not torch.equal(ignored, want)
    rope["truncate"] = True
    assert torch.equal(ignored, from_config(config_of(rope)).inv_freq)


# values that transformers' own tests expect, to their five digits

DEFAULT = 10000.0 ** -(torch.arange(64) / 64)
DYNAMIC = {0: 1.0, 1: 8.0931e-01, 63: 1.6265e-06}
YARN = {16: 1.0000e-01, 17: 8.3479e-02, 40: 4.3007e-04, 63: 1.1548e-05}
LLAMA_3 = {30: 1.3335e-02, 31: 1.0730e-02, 40: 3.4539e-04, 63: 1.1548e-05}


def assert_expected(inv_freq, want):
    if isinstance(want, dict):
        inv_freq, want = inv_freq[list(want)], torch.tensor(list(want.values()))
    torch.testing.assert_close(inv_freq, want, rtol=1e-4, atol=0)


def test_default_and_linear_frequencies_as_expected():
    assert_expected(from_config(config_of({})).inv_freq, DEFAULT)
    for factor in (2.0, 10.0, 20.0):
        linear = from_config(config_of({"rope_type": "linear", "factor": factor}))
        assert_expected(linear.inv_freq, DEFAULT / factor)


def test_dynamic_frequencies_as_expected():
    module = from_config(config_of({"rope_type": "dynamic", "factor": 10.0}))
    assert_expected(module.inv_freq, DEFAULT)
    module.adapt(torch.tensor([[16383]]))
    assert_expected(module.inv_freq, DYNAMIC)


def test_yarn_frequencies_as_expected():
    rope = {"rope_type": "yarn", "factor": 10.0, "beta_fast": 32, "beta_slow": 1}
    assert_expected(from_config(config_of(rope)).inv_freq, YARN)
    rope["beta_fast"] = 1000
    assert_expected(from_config(config_of(rope)).inv_freq[-20:], DEFAULT[-20:] / 10)


def test_the_attention_factor_as_expected():
    rope = {"rope_type": "yarn", "factor": 10.0}
    assert from_config(config_of(rope)).attention_factor == 0.1 * math.log(10) + 1
    assert from_config(config_of(rope | {"attention_factor": 0.5})).attention_factor == 0.5
    scales = {"mscale": 2.0, "mscale_all_dim": 1.0}
    want = (0.2 * math.log(10) + 1) / (0.1 * math.log(10) + 1)
    assert from_config(config_of(rope | scales)).attention_factor == want
    assert from_config(config_of(rope | {"factor": 1.0})).attention_factor == 1.0


def test_longrope_frequencies_as_expected():
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 2048, "factor": 10.0}
    rope |= {"short_factor": [2.0] * 64, "long_factor": [float(i + 1) for i in range(64)]}
    module = from_config(config_of(rope))
    assert_expected(module.inv_freq, DEFAULT / 2)
    assert module.attention_factor == math.sqrt(1 + math.log(10) / math.log(2048))
    module.adapt(torch.tensor([[2048]]))
    assert_expected(module.inv_freq, DEFAULT / torch.arange(1, 65))


def test_llama3_frequencies_as_expected():
    rope = {"rope_type": "llama3", "factor": 10.0, "original_max_position_embeddings": 2048}
    rope |= {"low_freq_factor": 1, "high_freq_factor": 4}
    assert_expected(from_config(config_of(rope)).inv_freq, LLAMA_3)


# where keys stand

LINEAR = {"rope_type": "linear", "factor": 2.0}


@pytest.mark.parametrize(
    "config",
    [
        LLAMA | {"rope_theta": 500.0, "rope_parameters": LINEAR},
        LLAMA | {"rope_theta": 500.0, "rope_scaling": LINEAR},
        LLAMA | {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        LLAMA | {"rope_theta": 7.0, "rope_parameters": LINEAR | {"rope_theta": 500.0}},
        LLAMA
        | {"head_dim": 128, "hidden_size": 64, "rope_parameters": LINEAR | {"rope_theta": 500}},
        LLAMA | {"rope_parameters": {"a": LINEAR | {"rope_theta": 500.0}, "b": None}},
        LLAMA | {"rope_theta": 500.0, "rope_parameters": {"a": LINEAR, "b": {"factor": "no"}}},
    ],
)
def test_keys_in_every_place(config):
    want = RotaryPositionEmbedding(128, rotary_base=500.0).inv_freq / 2
    layer_type = "a" if "a" in config.get("rope_parameters", ()) else None
    for given in (config, with_attributes(config)):
        before = copy.deepcopy(config)
        assert torch.equal(from_config(given, layer_type).inv_freq, want)
        assert config == before


def test_a_partial_rotation_and_its_pairing():
    for place in ({"partial_rotary_factor": 0.25}, {}):
        config = config_of({} if place else {"partial_rotary_factor": 0.25}, **place)
        module = from_config(config, interleaved=True)
        assert module.rotary_dim == 32 and module.interleaved
        assert torch.equal(module.inv_freq, RotaryPositionEmbedding(32).inv_freq)


def test_a_layer_that_does_not_rotate():
    config = LLAMA | {"rope_parameters": {"full_attention": None, "sliding_attention": LINEAR}}
    assert from_config(config, "full_attention") is None
    assert (
        from_config(LLAMA | {"rope_parameters": {"full_attention": None}}, "full_attention") is None
    )


def test_su_is_longrope():
    rope = {"short_factor": [2.0] * 64, "long_factor": [3.0] * 64, "type": "su"}
    config = LLAMA | {"rope_theta": 1e4, "rope_scaling": rope}
    assert torch.equal(from_config(config).inv_freq, RotaryPositionEmbedding(128).inv_freq / 2)


# errors

YARN_KEYS = {"rope_type": "yarn", "factor": 4.0}
LLAMA3_KEYS = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4}
LONG_KEYS = {"rope_type": "longrope", "short_factor": [2.0] * 64, "long_factor": [3.0] * 64}
ROPE = r"^rope_parameters\['{}'\] is {}; accepted: {}"
FROM_1, POSITIVE = "a number from 1$", "a number above 0$"
BAD_KEYS = [
    ({"rope_type": "ntk"}, ROPE.format("rope_type", "'ntk'", "'default', 'linear', 'dynamic', ")),
    ({"type": "mrope"}, ROPE.format("type", "'mrope'", "'default', ")),
    ({"rope_type": 3}, ROPE.format("rope_type", "3", "'default', ")),
    ({"rope_theta": 0}, ROPE.format("rope_theta", "0", POSITIVE)),
    ({"rope_theta": "1e4"}, ROPE.format("rope_theta", "'1e4'", POSITIVE)),
    ({"rope_theta": math.inf}, ROPE.format("rope_theta", "inf", POSITIVE)),
    ({"rope_theta": True}, ROPE.format("rope_theta", "True", POSITIVE)),
    ({"partial_rotary_factor": 1.5}, ROPE.format("partial_rotary_factor", "1.5", "a number above")),
    ({"partial_rotary_factor": 0.0}, ROPE.format("partial_rotary_factor", "0.0", "a number above")),
    (
        {"partial_rotary_factor": 0.01},
        r"^head_dim = .* = 128 and partial_rotary_factor = 0.01 give 1 ",
    ),
    (
        {"rope_type": "linear"},
        r"^rope_parameters\['factor'\] is missing; accepted: a number from 1",
    ),
    (LINEAR | {"factor": 0.5}, ROPE.format("factor", "0.5", FROM_1)),
    (LINEAR | {"factor": "2"}, ROPE.format("factor", "'2'", FROM_1)),
    (LINEAR | {"factor": math.nan}, ROPE.format("factor", "nan", FROM_1)),
    ({"rope_type": "dynamic", "factor": 0}, ROPE.format("factor", "0", FROM_1)),
    (YARN_KEYS | {"factor": 0.9}, ROPE.format("factor", "0.9", FROM_1)),
    (YARN_KEYS | {"beta_fast": -1}, ROPE.format("beta_fast", "-1", POSITIVE)),
    (
        YARN_KEYS | {"beta_fast": 1, "beta_slow": 2},
        ROPE.format("beta_fast", "1", ".*beta_slow = 2"),
    ),
    (YARN_KEYS | {"truncate": "no"}, ROPE.format("truncate", "'no'", "False, True$")),
    (YARN_KEYS | {"attention_factor": 0}, ROPE.format("attention_factor", "0", POSITIVE)),
    (YARN_KEYS | {"mscale": "1", "mscale_all_dim": 1}, ROPE.format("mscale", "'1'", POSITIVE)),
    (
        YARN_KEYS | {"original_max_position_embeddings": 0.5},
        ROPE.format("original_max_position_embeddings", "0.5", "a positive integer$"),
    ),
    (
        LLAMA3_KEYS | {"low_freq_factor": None},
        r"^rope_parameters\['low_freq_factor'\] is missing; ",
    ),
    (
        LLAMA3_KEYS | {"high_freq_factor": 1},
        ROPE.format("high_freq_factor", "1", "a number above low"),
    ),
    (
        LONG_KEYS | {"long_factor": None},
        r"^rope_parameters\['long_factor'\] is missing; accepted: 64 ",
    ),
    (
        LONG_KEYS | {"short_factor": [1.0] * 48},
        r"^rope_parameters\['short_factor'\] has 48 numbers; accepted: 64 positive numbers",
    ),
    (
        LONG_KEYS | {"long_factor": [1.0] * 63 + ["x"]},
        r"\['long_factor'\]\[63\] is 'x'; accepted: 64",
    ),
    (LONG_KEYS | {"long_factor": 2.0}, ROPE.format("long_factor", "2.0", "64 positive numbers")),
    (
        {"mrope_section": [16, 24, 23]},
        r"^rope_parameters\['mrope_section'\] is \[16, 24, 23\], 63 pairs; accepted: .* 64$",
    ),
    (
        {"mrope_section": [20, 24, 20], "mrope_interleaved": True},
        r"^rope_parameters\['mrope_section'\] is \[20, 24, 20\]; accepted: a first section ",
    ),
    (
        {"xdrope_section": [16, 16, 16, 16]},
        r"^rope_parameters\['xdrope_section'\] is .*, which makes no rotation; accepted: ",
    ),
    (
        {"rope_type": "axial"},
        ROPE.format("rope_type", "'axial', each model's own rule", "the model"),
    ),
    (
        {"factor": 4.0},
        r"^rope_parameters\['rope_type'\] is missing, and factor came; accepted: 'default', ",
    ),
    ({"rope_theta": 2**70}, ROPE.format("rope_theta", "1180591620717411303424", POSITIVE)),
    ({"rope_theta": None}, r"^rope_parameters\['rope_theta'\] is missing; "),
    (LINEAR | {"factor": {"of": 2}}, ROPE.format("factor", r"\{'of': 2\}", FROM_1)),
    (
        {"mrope_section": [24, 20, 20], "mrope_interleaved": "no"},
        ROPE.format("mrope_interleaved", "'no'", "False, True$"),
    ),
    (
        {"rope_type": "yarn", "original_max_position_embeddings": 8192},
        r"^rope_parameters\['original_max_position_embeddings'\] is 8192 without factor; accepted: "
        "up to max_position_embeddings = 2048, or a factor from 1$",
    ),
    (
        LONG_KEYS | {"factor": 2.0, "original_max_position_embeddings": 1},
        ROPE.format("original_max_position_embeddings", "1", "").replace("accepted", "accepted .*"),
    ),
]


@pytest.mark.parametrize(("rope", "message"), BAD_KEYS)
def test_a_bad_key_is_named(rope, message):
    for given in (config_of(rope), with_attributes(config_of(rope))):
        with pytest.raises((ValueError, TypeError), match=message):
            from_config(given)


@pytest.mark.parametrize(
    ("model_type", "key", "interleaved"),
    [
        (None, {}, False),
        ("qwen2_5_vl_text", {}, False),
        ("qwen3_vl_text", {}, True),
        (None, {"mrope_interleaved": True}, True),
        ("qwen2_vl", {"type": "mrope"}, False),
    ],
)
def test_sections_become_axes(model_type, key, interleaved):
    sections = [24, 20, 20]
    config = config_of({"mrope_section": sections} | key) | {"model_type": model_type}
    assert list(from_config(config).axes) == mrope_axes(sections, interleaved=interleaved)


def test_sections_with_a_rule_of_their_own_are_refused():
    config = config_of({"mrope_section": [22, 22, 20]}) | {"model_type": "ernie4_5_vl_moe_text"}
    with pytest.raises(ValueError, match="ernie4_5_vl_moe_text', whose rule is its own"):
        from_config(config)


TYPES = {"full_attention": LINEAR, "sliding_attention": {"rope_theta": 500.0}}
BAD_CONFIGS = [
    (
        {"max_position_embeddings": 9},
        None,
        "^head_dim is missing, and so is hidden_size; accepted: h",
    ),
    ({"hidden_size": 64}, None, "^head_dim is missing, and so is num_attention_heads; accepted: h"),
    (LLAMA | {"head_dim": "64"}, None, "^head_dim is '64'; accepted: a positive integer"),
    (LLAMA | {"head_dim": 64.5}, None, "^head_dim is 64.5; accepted: a positive integer"),
    (LLAMA, None, "^rope_theta is missing, and so is rope_parameters; accepted: the conf"),
    (LLAMA | {"rope_parameters": "yarn"}, None, "^rope_parameters is 'yarn'; accepted: a dict"),
    (
        LLAMA | {"rope_parameters": TYPES},
        None,
        "^layer_type is None, and rope_parameters has several types; accepted: 'full_attention', ",
    ),
    (
        LLAMA | {"rope_parameters": TYPES},
        "full",
        "^layer_type is 'full'; accepted: 'full_attention', 'sliding_attention'$",
    ),
    (
        config_of({}) | {"layer_types": ["a", "b", "a"]},
        "c",
        "^layer_type is 'c'; accepted: 'a', 'b'$",
    ),
    (LLAMA | {"rope_parameters": TYPES}, 3, "^layer_type is 3; accepted: None, or a str"),
    (
        LLAMA | {"rope_parameters": TYPES},
        "full_attention",
        r"^rope_parameters\['full_attention'\]\['rope_theta'\] is missing; accepted: a number ",
    ),
    (GEMMA_3, None, "^layer_type is None, and config has a rope_local_base_freq: several types"),
    (
        {"text_config": LLAMA},
        None,
        "^config has a text_config, and no head_dim .*: config.text_conf",
    ),
    (
        {"head_dim": 64, "rope_theta": 1e4, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        None,
        "^max_position_embeddings is missing; accepted: a positive integer",
    ),
    (
        {"head_dim": 64, "rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 2.0}},
        None,
        r"^rope_scaling\['original_max_position_embeddings'\] is missing; accepted: ",
    ),
    (
        config_of({}) | {"rope_scaling": {"type": "linear", "factor": 4.0}},
        None,
        "^rope_scaling came with rope_parameters; accepted: one of the two$",
    ),
    (
        LLAMA | {"rope_parameters": TYPES | {"rope_theta": 1e4}},
        None,
        "^layer_type is None, and .* types; accepted: 'full_attention', 'sliding_attention'$",
    ),
    (
        LLAMA | {"rope_parameters": TYPES | {"full_attention": "yarn"}},
        "full_attention",
        r"^rope_parameters\['full_attention'\] is 'yarn'; accepted: a dict, or None$",
    ),
    (
        config_of({}) | {"num_attention_heads": 3000},
        None,
        "^head_dim = hidden_size // num_attention_heads = 1 and partial_rotary_factor = 1.0 give",
    ),
]


@pytest.mark.parametrize(("config", "layer_type", "message"), BAD_CONFIGS)
def test_a_bad_configuration_is_named(config, layer_type, message):
    for given in (config, with_attributes(config)):
        with pytest.raises((ValueError, TypeError), match=message):
            from_config(given, layer_type)


@pytest.mark.parametrize("config", (None, "a/path", Path("config.json"), 3, [LLAMA], dict), ids=str)
def test_what_is_no_configuration_is_named(config):
    came = f"^config is of type {type(config).__name__}; accepted: a model's configuration, or a d"
    with pytest.raises(TypeError, match=came):
        from_config(config)


NO_ROTATION = "^rope_theta is missing, and so is rope_parameters; accepted: "
OF_IMAGES = "^config is of images .*; accepted: the model's own "
OF_CLASSES = [
    ("BertConfig", None, NO_ROTATION),
    ("GPT2Config", None, NO_ROTATION),
    ("GPTJConfig", None, NO_ROTATION),
    ("DINOv3ViTConfig", None, OF_IMAGES),
    ("EomtDinov3Config", None, OF_IMAGES),
    ("Sapiens2Config", None, OF_IMAGES),
    ("Llama4VisionConfig", None, OF_IMAGES),
    (
        "PixtralVisionConfig",
        None,
        "(^config is of images|is 'axial').* own rule; accepted: the model",
    ),
    (
        "Glm4vVisionConfig",
        None,
        "(^config is of images|is 'axial').* own rule; accepted: the model",
    ),
    ("Gemma3Config", None, r"; accepted: config\.text_config$"),
    ("Gemma3TextConfig", None, "; accepted: 'sliding_attention', 'full_attention'$"),
    ("Gemma3TextConfig", "full", "^layer_type is 'full'; accepted: 'sliding_attention', 'full_"),
    ("Qwen2Config", "sliding", "^layer_type is 'sliding'; accepted: 'full_attention'$"),
    ("Glm4MoeConfig", None, "^head_dim = hidden_size // num_attention_heads = 42 and .* give 21 "),
    ("EfficientLoFTRConfig", None, r"\['partial_rotary_factor'\] is 4.0; accepted: .*, up to 1$"),
    (
        "SwinConfig",
        None,
        r"^num_attention_heads is \(3, 6, 12, 24\); accepted: a positive integer$",
    ),
]


@pytest.mark.parametrize(("name", "layer_type", "message"), OF_CLASSES)
def test_a_class_of_transformers_that_does_not_fit(name, layer_type, message, transformers):
    """Such as newcomers try. Of 704 default configurations none raised anything unnamed."""
    with pytest.raises(ValueError, match=message):
        from_config(getattr(transformers, name)(), layer_type)


# the module that comes of it


def scaled(rope_type="yarn"):
    rng = random.Random(3)
    return from_config(random_config(rope_type, rng))


def built_on_the_meta_device(config):
    with torch.device("meta"):
        return from_config(config).to_empty(device="cpu")


@pytest.mark.parametrize("rope_type", SCALED)
def test_frequencies_survive_what_happens_to_modules(rope_type, device):
    config = random_config(rope_type, random.Random(5))
    module = from_config(config)
    others = [built_on_the_meta_device(config), copy.deepcopy(module), module.half().to(device)]
    others[-1].reset_parameters()
    for other in others:
        assert torch.equal(other.inv_freq.cpu(), from_config(config).inv_freq)
        assert other.attention_factor == module.attention_factor
        assert other.rotary_base == config["rope_parameters"]["rope_theta"]


@pytest.mark.parametrize("rope_type", SCALED)
def test_an_assigned_base_scales_the_same_way(rope_type):
    config = random_config(rope_type, random.Random(7))
    module = from_config(config)
    module.rotary_base = 777.0
    config["rope_parameters"]["rope_theta"] = 777.0
    assert torch.equal(module.inv_freq, from_config(config).inv_freq)
    assert "other frequencies" not in repr(module)
    position = torch.tensor([10**6])
    for one in (module, other := from_config(config)):
        one.adapt(position)
    assert torch.equal(module.inv_freq, other.inv_freq)


WORDS = {
    "rotary_dim=128, rotary_base=10000.0, persistent=False": {},
    "rotary_dim=128, rotary_base=10000.0, rope_type='linear', factor=2.0, persistent=False": LINEAR,
    "rotary_dim=128, rotary_base=10000.0, rope_type='yarn', factor=4.0, beta_fast=32, beta_slow=1, "
    "original_max_position_embeddings=2048, truncate=True, "
    "attention_factor=1.138629436111989, persistent=False": YARN_KEYS,
}


@pytest.mark.parametrize("words", WORDS)
def test_the_module_says_what_it_is(words):
    assert repr(from_config(config_of(WORDS[words]))) == f"RotaryPositionEmbedding({words})"


def test_calls_take_the_module(device):
    module, t = scaled().to(device), torch.randn(5, 1, 2, 256, device=device)
    cos, sin = module.cos_sin_per_pair(5)
    want = rope_fw(t, (cos, sin), rotary_dim=module.rotary_dim)
    torch.testing.assert_close(rope_fw(t, module), want, rtol=1e-5, atol=2e-6)


# frequencies that the caller gives


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("interleaved", (False, True))
def test_given_frequencies(interleaved, dtype, device):
    given = torch.rand(4, dtype=dtype, device=device)
    module = RotaryPositionEmbedding(16, 0.5, interleaved=interleaved, inv_freq=given)
    kept = given.clone()
    given.zero_()
    assert torch.equal(module.inv_freq.to(device), kept) and module.inv_freq.dtype == dtype
    assert math.isnan(module.rotary_base)
    assert repr(module).startswith("RotaryPositionEmbedding(rotary_dim=8, inv_freq given")
    module.inv_freq = torch.ones(4)
    assert "other frequencies" in repr(module)
    module.reset_parameters()
    torch.testing.assert_close(module.inv_freq.to(kept), kept, rtol=1e-6, atol=0)
    with torch.device("meta"):
        on_meta = RotaryPositionEmbedding(16, 0.5, inv_freq=kept)
    assert on_meta.inv_freq.is_meta
    for other in (on_meta.to_empty(device="cpu"), copy.deepcopy(on_meta)):
        if not other.inv_freq.is_meta:
            assert torch.equal(other.inv_freq, kept.cpu())


def test_a_base_of_given_frequencies_cannot_be_assigned():
    module = RotaryPositionEmbedding(8, inv_freq=torch.ones(4))
    message = "^rotary_base was assigned to a module whose inv_freq was given; accepted: "
    with pytest.raises(ValueError, match=message):
        module.rotary_base = 500.0
    assert math.isnan(module.rotary_base)


BAD_GIVEN = [
    ({"inv_freq": [1.0] * 4}, TypeError, "^inv_freq is of type list; accepted: torch.Tensor"),
    (
        {"inv_freq": torch.ones(4).half()},
        TypeError,
        "^inv_freq has dtype float16; accepted: float32",
    ),
    ({"inv_freq": torch.full((4,), math.nan)}, ValueError, "^inv_freq has the value nan; accepted"),
    (
        {"inv_freq": torch.ones(3)},
        ValueError,
        r"^inv_freq has shape \(3,\); accepted with dim = 8 and rotary_percent = 1.0: \(4,\)$",
    ),
    ({"inv_freq": torch.ones(4, device="meta")}, ValueError, "^inv_freq is on meta; accepted: "),
    (
        {"inv_freq": torch.ones(4), "rotary_base": 500.0},
        ValueError,
        "^rotary_base is 500.0, and inv_freq was given; accepted: one of the two$",
    ),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD_GIVEN)
def test_bad_given_frequencies_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        RotaryPositionEmbedding(8, **arguments)
