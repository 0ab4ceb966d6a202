"""What `from_config` refuses: each error says the key, what came and what is accepted.

Above all what is easily overlooked: keys that nobody reads, what a class would add, two widths.
"""

import importlib
import math
from collections import UserDict
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rope_kernels import RotaryPositionEmbedding

from_config = RotaryPositionEmbedding.from_config
SIZES = {"hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 2048}
PLAIN = SIZES | {"rope_theta": 1e4}
LINEAR = {"rope_type": "linear", "factor": 2.0}
YARN = {"rope_type": "yarn", "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4}
LONG = {"rope_type": "longrope", "short_factor": [2.0] * 64, "long_factor": [3.0] * 64}
ORIGINAL = "original_max_position_embeddings"


def of_a_class(config):
    """The keys are defaults of a class, as in a configuration of one's own."""
    return type("Configuration", (), config)()


def as_fields(config):
    return make_dataclass("Configuration", config)(**config)


HOLDERS = {
    "dict": dict,
    "mapping": UserDict,
    "namespace": lambda config: SimpleNamespace(**config),
    "class": of_a_class,
    "dataclass": as_fields,
}
each_holder = pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)


def check_refused(config, came, accepted, layer_type=None):
    """Whoever holds these keys is told what came, and how what is accepted begins."""
    for hold in HOLDERS.values():
        with pytest.raises((ValueError, TypeError)) as caught:
            from_config(hold(config), layer_type)
        before, _, after = str(caught.value).partition("; accepted")
        assert before == came and after.removeprefix(":").lstrip().startswith(accepted), after


# what nobody reads


@each_holder
@pytest.mark.parametrize(
    "key, value",
    [
        ("rotary_pct", 0.25),
        ("rope_pct", 0.25),
        ("rotary_percent", 0.25),
        ("attn_rotary_emb", 32),
        ("rotary_emb_fraction", 0.5),
        ("partial_rotary_facter", 0.5),
        ("rope_type", "yarn"),
        ("mrope_section", [16, 24, 24]),
        ("use_dynamic_ntk", True),
        ("use_rope", False),  # says something, too
        ("rope_scalings", {"full_attention": YARN}),
        ("layer_rope_theta", [1e4, 0]),
        ("RotaryBase", 500),
    ],
)
def test_a_name_that_speaks_of_a_rotation_is_read_or_refused(key, value, hold):
    with pytest.raises(ValueError) as caught:
        from_config(hold(PLAIN | {key: value}))
    said = str(caught.value)
    assert said.startswith(f"{key} is ") and "which is not read here; accepted: partial_rot" in said
    assert "or" in said and "pass the model's own (cos, sin)" in said
    unsaid = from_config(hold(PLAIN | {key: None}))
    assert torch.equal(unsaid.inv_freq, RotaryPositionEmbedding(128).inv_freq)


@each_holder
def test_other_names_are_the_models_own(hold):
    """A rotation's own word is not in every name that has its letters."""
    others = {"property_count": 3, "no_rope_layers": [1, 0], "rope_interleave": True, "factor": 4}
    module = from_config(hold(PLAIN | others))
    assert torch.equal(module.inv_freq, RotaryPositionEmbedding(128).inv_freq)


@each_holder
@pytest.mark.parametrize("generation", ("rope_parameters", "rope_scaling"))
@pytest.mark.parametrize(
    "rope, key",
    [
        (YARN | {"attn_factor": 0.5}, "attn_factor"),
        (LINEAR | {"factr": 4.0}, "factr"),
        (LINEAR | {"ntk_by_parts": True}, "ntk_by_parts"),
        ({"rope_type": "default", "factor": 4.0}, "factor"),
        ({"factor": 4.0}, "factor"),
        (LINEAR | {ORIGINAL: 1024}, ORIGINAL),
        (YARN | {"short_factor": [1.0] * 64}, "short_factor"),
        (YARN | {"alpha": 1e3}, "alpha"),
        (LONG | {"short_mscale": 1.24}, "short_mscale"),  # PhiMoE's, which follows the length
        ({"xdrope_section": [16, 16, 16, 16]}, "xdrope_section"),  # HunYuan-VL's: no rotation
        (DYNAMIC | {"beta_fast": 32}, "beta_fast"),
    ],
)
def test_a_key_of_a_rotation_is_read_or_refused(rope, key, generation, hold):
    """By its name. That another one is spelled alike says nothing of what it means."""
    rope_type = rope.get("rope_type", "default")
    config = PLAIN | {generation: rope}
    with pytest.raises(ValueError) as caught:
        from_config(hold(config))
    came, _, accepted = str(caught.value).partition("; accepted: ")
    assert came.startswith(f"{generation}[{key!r}] is ")
    assert came.endswith(f"which {rope_type!r} does not read")
    names = accepted.partition(". ")[0].split(", ")
    assert names == sorted(names) and {"rope_theta", "rope_type"} < {*names} and key not in names
    without = {name: value for name, value in rope.items() if name != key}
    from_config(hold(PLAIN | {generation: without | {key: None}}))


def test_a_key_beside_dicts_of_layers_is_refused():
    config = SIZES | {"rope_parameters": {"full": LINEAR | {"rope_theta": 1e4}, "rope_theta": 5e5}}
    came = "rope_parameters['rope_theta'] is 500000.0, beside dicts of types of layers"
    check_refused(config, came, "full", "full")


@each_holder
@pytest.mark.parametrize("type_key", ({}, {"type": "mrope"}, {"rope_type": "default"}), ids=str)
def test_sections_change_no_frequency(type_key, hold):
    rope = {"rope_theta": 1e4, "mrope_section": [16, 24, 24], "mrope_interleaved": True}
    module = from_config(hold(SIZES | {"rope_parameters": rope | type_key}))
    assert torch.equal(module.inv_freq, RotaryPositionEmbedding(128).inv_freq)


# how many elements turn


@each_holder
@pytest.mark.parametrize(
    "keys, rotary_dim",
    [
        ({"rotary_dim": 64}, 64),
        ({"head_dim": 128, "rotary_dim": 64}, 64),
        ({"head_dim": 256, "rotary_dim": 64, "partial_rotary_factor": 0.25}, 64),
        ({"head_dim": 512, "qk_rope_head_dim": 64, "rotary_dim": 64}, 64),
        ({"head_dim": 512, "qk_rope_head_dim": 64, "partial_rotary_factor": 0.125}, 64),
        ({"head_dim": 64, "qk_rope_head_dim": 64}, 64),
        ({"qk_rope_head_dim": 64}, 64),
        ({"head_dim": 96, "qk_rope_head_dim": 0}, 96),
        ({}, 128),
    ],
)
def test_the_width_that_the_keys_say(keys, rotary_dim, hold):
    module = from_config(hold(PLAIN | keys))
    assert module.rotary_dim == rotary_dim
    assert torch.equal(module.inv_freq, RotaryPositionEmbedding(rotary_dim).inv_freq)


AGREE = "keys that agree, or rotary_dim beside head_dim"


@pytest.mark.parametrize(
    "keys, came",
    [
        (
            {"head_dim": 512, "qk_rope_head_dim": 64},
            "qk_rope_head_dim says that 64 elements of a head turn, and head_dim that 512 do",
        ),
        (
            {"head_dim": 128, "rotary_dim": 64, "partial_rotary_factor": 0.25},
            "rotary_dim says that 64 elements of a head turn, and partial_rotary_factor = 0.25 of "
            "head_dim = 128 that 32 do",
        ),
        (
            {"head_dim": 512, "rotary_dim": 128, "qk_rope_head_dim": 64},
            "rotary_dim says that 128 elements of a head turn, and qk_rope_head_dim that 64 do",
        ),
        (
            {"qk_rope_head_dim": 64, "partial_rotary_factor": 0.5},
            "qk_rope_head_dim says that 64 elements of a head turn, and partial_rotary_factor = 0.5"
            " of head_dim = 64 that 32 do",
        ),
    ],
)
def test_two_widths_are_refused(keys, came):
    check_refused(PLAIN | keys, came, AGREE)


def test_two_shares_are_refused():
    config = PLAIN | {"partial_rotary_factor": 0.5, "rope_scaling": {"partial_rotary_factor": 0.25}}
    came = "partial_rotary_factor is 0.5, and rope_scaling['partial_rotary_factor'] is 0.25"
    check_refused(config, came, "one of the two")


@pytest.mark.parametrize("rotary_dim", (32, 64, 128))
def test_minimax_m2_turns_what_its_configuration_says(rotary_dim):
    """transformers 5.17 ignores the key: its model turns all 128 (its issue 48241)."""
    transformers = pytest.importorskip("transformers")
    config = transformers.MiniMaxM2Config(head_dim=128, rotary_dim=rotary_dim)
    module, base = from_config(config), config.rope_parameters["rope_theta"]
    assert torch.equal(
        module.inv_freq, RotaryPositionEmbedding(rotary_dim, rotary_base=base).inv_freq
    )


def test_a_key_is_read_whichever_class_holds_it():
    """Llama's class of transformers ignores this one, as the docstring says."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(partial_rotary_factor=0.5, head_dim=128)
    assert from_config(config).rotary_dim == 64
    assert "may ignore a key" in " ".join(from_config.__doc__.split())


# what a class would add


@each_holder
@pytest.mark.parametrize("model", ("llama", "glm", "a_model_of_tomorrow"))
def test_a_model_type_wants_its_class(model, hold):
    """Even if nothing is missing: who holds it cannot know."""
    config = PLAIN | {"head_dim": 128, "model_type": model}
    with pytest.raises(ValueError) as caught:
        from_config(hold(config))
    said = str(caught.value)
    kind = type(hold(config)).__name__
    assert said.startswith(
        f"config is of type {kind} with model_type {model!r}, and lacks what the"
    )
    assert "AutoConfig.for_model(**keys)" in said and "without model_type" in said


def test_whose_class_a_configuration_is():
    """That of its model_type, a subclass of it, or one of one's own; not another, nor the base."""
    transformers = pytest.importorskip("transformers")
    file = {"model_type": "glm", "head_dim": 128, "hidden_size": 512, "num_attention_heads": 4}
    made = transformers.AutoConfig.for_model(**file)  # as the error advises
    assert from_config(made).rotary_dim == 64  # by a default of the class, half of the head

    class Mine(transformers.LlamaConfig):
        model_type = "mine"

    class Same(transformers.LlamaConfig):
        pass

    for kind in (Mine, Same):
        assert from_config(kind(head_dim=64)).rotary_dim == 64
    base = transformers.PretrainedConfig.from_dict(PLAIN | {"model_type": "llama"})
    other = transformers.LlamaConfig()
    other.model_type = "glm"
    for config in (base, other):
        with pytest.raises(ValueError, match="and lacks what the configuration class of that mod"):
            from_config(config)


# keys of a rotation

TWO = torch.tensor([1.0, 2.0])
TYPES = "'default', 'linear', 'dynamic', 'yarn', 'longrope', 'su', 'llama3', 'proportional'; or the"
POSITIVE, FROM_1, OF_64 = "a number above 0", "a number from 1", "64 positive numbers, one for"
NO_NUMBERS = (0, "1e4", math.inf, math.nan, True, 2**70, {"of": 2}, TWO)
OF_A_ROTATION = [
    *[({"rope_theta": x}, f"['rope_theta'] is {x!r}", POSITIVE) for x in NO_NUMBERS],
    ({"rope_theta": None}, "['rope_theta'] is missing", POSITIVE),
    ({"rope_theta": 1e-320}, "['rope_theta'] is 1e-320", "a number above 0, and from 1e-18 to"),
    ({"rope_theta": 1e308}, "['rope_theta'] is 1e+308", "a number above 0, and from 1e-18 to"),
    ({"rope_type": "ntk"}, "['rope_type'] is 'ntk'", TYPES),
    ({"rope_type": 3}, "['rope_type'] is 3", TYPES),
    ({"rope_type": ["yarn"]}, "['rope_type'] is ['yarn']", TYPES),
    ({"type": "mrope"}, "['type'] is 'mrope'", TYPES),
    ({"rope_type": "axial"}, "['rope_type'] is 'axial'", TYPES),
    ({"partial_rotary_factor": 1.5}, "['partial_rotary_factor'] is 1.5", "a number above 0, up to"),
    ({"partial_rotary_factor": 0.0}, "['partial_rotary_factor'] is 0.0", POSITIVE),
    ({"rope_type": "linear"}, "['factor'] is missing", FROM_1),
    (LINEAR | {"factor": 0.5}, "['factor'] is 0.5", FROM_1),
    (DYNAMIC | {"factor": 0}, "['factor'] is 0", FROM_1),
    (YARN | {"factor": 0.9}, "['factor'] is 0.9", FROM_1),
    ({"type": "yarn"}, f"['factor'] is missing, and {ORIGINAL} = 2048", FROM_1),
    ({"type": "yarn", ORIGINAL: 8192}, f"['factor'] is missing, and {ORIGINAL} = 8192", FROM_1),
    (YARN | {"beta_fast": -1}, "['beta_fast'] is -1", POSITIVE),
    (YARN | {"beta_fast": 1, "beta_slow": 2}, "['beta_fast'] is 1", "a number from beta_slow = 2"),
    (YARN | {"truncate": "no"}, "['truncate'] is 'no'", "False, True"),
    (YARN | {"attention_factor": 0}, "['attention_factor'] is 0", POSITIVE),
    (YARN | {"mscale": "1", "mscale_all_dim": 1}, "['mscale'] is '1'", POSITIVE),
    (YARN | {ORIGINAL: 0.5}, f"['{ORIGINAL}'] is 0.5", "a positive integer"),
    (YARN | {"rope_theta": 1}, "['rope_theta'] is 1", "with 'yarn': above 1"),
    (LLAMA3 | {"low_freq_factor": None}, "['low_freq_factor'] is missing", POSITIVE),
    (LLAMA3 | {"high_freq_factor": 1}, "['high_freq_factor'] is 1", "a number above low_freq_fac"),
    (LONG | {"long_factor": None}, "['long_factor'] is missing", OF_64),
    (LONG | {"long_factor": 2.0}, "['long_factor'] is 2.0", OF_64),
    (LONG | {"short_factor": [1.0] * 48}, "['short_factor'] has 48 numbers", OF_64),
    (LONG | {"long_factor": [1.0] * 63 + ["x"]}, "['long_factor'][63] is 'x'", OF_64),
    (LONG | {"factor": 2.0, ORIGINAL: 1}, f"['{ORIGINAL}'] is 1", "with 'longrope': from 2"),
    ({"alpha": -1.0} | DYNAMIC, "['alpha'] is -1.0", POSITIVE),
]


@pytest.mark.parametrize(("rope", "came", "accepted"), OF_A_ROTATION)
def test_a_bad_key_of_a_rotation_is_named(rope, came, accepted):
    config = SIZES | {"rope_parameters": {"rope_theta": 1e4} | rope}
    check_refused(config, f"rope_parameters{came}", accepted)


# keys beside them

TWO_TYPES = {"full_attention": LINEAR, "sliding_attention": {"rope_theta": 500.0}}
LAYERED = SIZES | {"rope_parameters": TWO_TYPES}
HEADS = "hidden_size // num_attention_heads says that"
NO_ROTATION = "rope_theta is missing, and so is rope_parameters"
SEVERAL = "layer_type is None, and rope_parameters has several types"
NAMES = "'full_attention', 'sliding_attention'"
INTEGER, EVEN = "a positive integer", "an even number from 2"
OF_A_CONFIG = [
    (PLAIN | {"head_dim": "64"}, "head_dim is '64'", INTEGER),
    (PLAIN | {"head_dim": 64.5}, "head_dim is 64.5", INTEGER),
    (PLAIN | {"rotary_dim": True}, "rotary_dim is True", INTEGER),
    (PLAIN | {"rotary_dim": 7}, "rotary_dim says that 7 elements of a head turn", EVEN),
    (PLAIN | {"head_dim": 64, "rotary_dim": 96}, "rotary_dim is 96 with head_dim = 64", "up to"),
    (PLAIN | {"head_dim": 2**40}, f"head_dim says that {2**40} elements of a head turn", EVEN),
    ({"rope_theta": 1e4}, "head_dim is missing, and so is hidden_size", "head_dim, or hidden_size"),
    ({"hidden_size": 64}, "head_dim is missing, and so is num_attention_heads", "head_dim, or hid"),
    (PLAIN | {"num_attention_heads": 3000}, f"{HEADS} 1 elements of a head turn", EVEN),
    (
        PLAIN | {"partial_rotary_factor": 0.01},
        "partial_rotary_factor = 0.01 of head_dim = 128 says that 1 elements of a head turn",
        EVEN,
    ),
    (
        PLAIN | {"rotary_dim": 64, "rope_scaling": {"rope_type": "proportional"}},
        "rotary_dim came with 'proportional', where a share of head_dim's pairs turns",
        "partial_rotary_factor",
    ),
    ({"text_config": PLAIN}, "config has a text_config, and no head_dim of its own", "config.text"),
    (SIZES, NO_ROTATION, "the configuration of a model that has one of them"),
    (SIZES | {"rope_parameters": "yarn"}, "rope_parameters is 'yarn'", "a dict"),
    (PLAIN | {"rope_scaling": TWO}, "rope_scaling is tensor([1., 2.])", "a dict"),
    (
        SIZES | {"rope_parameters": {"rope_theta": 1e4}, "rope_scaling": LINEAR},
        "rope_scaling came with rope_parameters",
        "one of the two",
    ),
    (
        {"head_dim": 64, "rope_theta": 1e4, "rope_scaling": DYNAMIC},
        "max_position_embeddings is missing",
        INTEGER,
    ),
    (
        {"head_dim": 64, "rope_theta": 1e4, "rope_scaling": YARN},
        f"rope_scaling['{ORIGINAL}'] is missing",
        INTEGER,
    ),
    (LAYERED, SEVERAL, NAMES),
    (
        PLAIN | {"layer_types": ["full"], "rope_parameters": {"full": None}},
        SEVERAL,
        "'full'",
    ),
    (SIZES | {"rope_parameters": TWO_TYPES | {"rope_theta": 1e4}}, SEVERAL, NAMES),
    (
        PLAIN | {"rope_local_base_freq": 1e4},
        "layer_type is None, and config has a rope_local_base_freq: several types",
        "'sliding_attention', or another one",
    ),
]


@pytest.mark.parametrize(("config", "came", "accepted"), OF_A_CONFIG)
def test_a_bad_configuration_is_named(config, came, accepted):
    check_refused(config, came, accepted)


OF_LAYERS = [
    (LAYERED, "full", "layer_type is 'full'", NAMES),
    (LAYERED, 3, "layer_type is 3", "None, or a str"),
    (PLAIN | {"layer_types": ["a", "b", "a"]}, "c", "layer_type is 'c'", "'a', 'b'"),
]
OF_ITS_LAYER = [  # what the layer has, and what is said of it
    (LINEAR, "['rope_theta'] is missing", POSITIVE),
    ("yarn", " is 'yarn', beside dicts of types of layers", "sliding_attention"),
    ({"factr": 4.0}, "['factr'] is 4.0, which 'default' does not read", "mrope_interleaved"),
]
OF_LAYERS += [
    (
        SIZES | {"rope_parameters": TWO_TYPES | {"full_attention": rope}},
        "full_attention",
        f"rope_parameters['full_attention']{came}",
        accepted,
    )
    for rope, came, accepted in OF_ITS_LAYER
]


@pytest.mark.parametrize(("config", "layer_type", "came", "accepted"), OF_LAYERS)
def test_a_bad_type_of_layers_is_named(config, layer_type, came, accepted):
    check_refused(config, came, accepted, layer_type)


@pytest.mark.parametrize("config", (None, "a/path", Path("config.json"), 3, [PLAIN], dict), ids=str)
def test_what_is_no_configuration_is_named(config):
    came = f"^config is of type {type(config).__name__}; accepted: a model's configuration, or a d"
    with pytest.raises(TypeError, match=came):
        from_config(config)


OF_IMAGES = "^config is of images .*; accepted: the model's own "
OF_CLASSES = {
    "GPT2Config": "^rope_theta is missing, and so is rope_parameters; accepted: ",
    "GPTJConfig": "^rope_theta is missing, and so is rope_parameters; accepted: ",
    "DINOv3ViTConfig": OF_IMAGES,
    "Llama4VisionConfig": OF_IMAGES,
    "PixtralVisionConfig": "(^config is of images|is 'axial').*; or the model's own",
    "Gemma3Config": r"; accepted: config\.text_config$",
    "Gemma3TextConfig": "; accepted: 'sliding_attention', 'full_attention'$",
    "Glm4MoeConfig": "^partial_rotary_factor = 0.5 of head_dim = 42 says that 21 ",
    "EfficientLoFTRConfig": r"\['partial_rotary_factor'\] is 4.0; accepted: .*, up to 1$",
    "SwinConfig": r"^num_attention_heads is \(3, 6, 12, 24\); accepted: a positive integer$",
    "GraniteSWAConfig": r"^layer_rope_theta is \[.*, which is not read here; accepted: ",
    "Zamba2Config": "^use_mem_rope is False, which is not read here; accepted: ",
}


@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_class_of_transformers_that_does_not_fit(name):
    """Such as newcomers try. Of 704 default configurations none raised anything unnamed."""
    transformers = pytest.importorskip("transformers")
    with pytest.raises(ValueError, match=OF_CLASSES[name]):
        from_config(getattr(transformers, name)())
    with pytest.raises(ValueError, match=r"^layer_type is 'sliding'; accepted: 'full_attention'$"):
        from_config(transformers.Qwen2Config(), "sliding")


# rules of one model


@pytest.mark.parametrize("kind, module", [("Dense", "dense"), ("MoE", "moe")])
def test_hunyuans_alpha_has_the_bits_of_transformers(kind, module):
    """At any length: transformers 5.17 drops alpha past the original one, and 5.23 keeps it."""
    transformers = pytest.importorskip("transformers")
    name = f"hunyuan_v1_{module}"
    modeling = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    rope = {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 1e4}
    rope |= {"beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}  # as published
    sizes = {"head_dim": 128, "max_position_embeddings": 4096}
    config = getattr(transformers, f"HunYuan{kind}V1Config")(**sizes, rope_parameters=rope)
    theirs = getattr(modeling, f"HunYuan{kind}V1RotaryEmbedding")(config)
    for given in (config, sizes | {"rope_parameters": rope}):
        for length in (None, 1, 4096, 9000):
            ours = from_config(given, seq_len=length)
            assert torch.equal(ours.inv_freq, theirs.inv_freq)
        assert not torch.equal(ours.inv_freq, RotaryPositionEmbedding(128).inv_freq)
        assert ours.attention_factor == theirs.attention_scaling == 1.0
        assert ours.rotary_base == 1e4 and "alpha=1000.0" in repr(ours)


# numbers


def test_the_largest_factor_and_length_have_finite_frequencies():
    rope = {"rope_type": "dynamic", "factor": 1e6}
    for original in (2, 4096, 10**7 + 1):
        config = PLAIN | {"rope_scaling": rope, "max_position_embeddings": original}
        for last in (original, 2**30, 2**62):
            module = from_config(config, seq_len=last + 1)
            assert module.inv_freq.isfinite().all() and module.inv_freq[0] == 1.0


@pytest.mark.parametrize("number", (np.float32, np.float64, np.int64), ids=lambda n: n.__name__)
def test_numbers_of_numpy(number):
    rope = YARN | {"factor": number(4), "attention_factor": number(2)}
    module = from_config(PLAIN | {"head_dim": number(128), "rope_scaling": rope})
    want = from_config(PLAIN | {"rope_scaling": YARN | {"attention_factor": 2.0}})
    assert torch.equal(module.inv_freq, want.inv_freq)
    module.attention_factor = number(3)
    assert module.attention_factor == 3.0 and type(module.attention_factor) is float
    with pytest.raises(
        ValueError, match=r"^attention_factor is .*nan.*; accepted: a positive number"
    ):
        module.attention_factor = np.float32(math.nan)
