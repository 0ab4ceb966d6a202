"""What `from_config` refuses: each error says the key, what came and what is accepted.

Above all what is easily overlooked: keys that nobody reads, what a class would add, two widths.
"""

import json
import math
import re
from collections import UserDict
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hugging_face import families_of
from rope_kernels import RotaryPositionEmbedding
from rope_kernels.huggingface.config import ROTATE_NEIGHBORS
from rope_kernels.huggingface.rules import RULES

from_config = RotaryPositionEmbedding.from_config
SIZES = {"hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 2048}
PLAIN = SIZES | {"rope_theta": 1e4}
LINEAR = {"rope_type": "linear", "factor": 2.0}
YARN = {"rope_type": "yarn", "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4}
LONG = {"rope_type": "longrope", "short_factor": [2.0] * 64, "long_factor": [3.0] * 64}
ORIGINAL = "original_max_position_embeddings"


HOLDERS = {
    "dict": dict,
    "mapping": UserDict,
    "namespace": lambda config: SimpleNamespace(**config),
    "dataclass": lambda config: make_dataclass("Configuration", config)(**config),
}
each_holder = pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)


# what nobody reads


@each_holder
@pytest.mark.parametrize(
    "key, value",
    [
        ("rotary_pct", 0.25),
        ("rope_pct", 0.25),
        ("partial_rotary_facter", 0.5),
        ("rope_type", "yarn"),
        ("mrope_section", [16, 24, 24]),
        ("use_dynamic_ntk", True),
        ("use_rope", False),  # says something, too
        ("RotaryBase", 500),
        ("rope_local_base_freq", 1e4),  # Gemma 3's, as first published
    ],
)
def test_a_name_that_speaks_of_a_rotation_is_read_or_refused(key, value, hold):
    said = f"^{key} is .*, which is not read here; accepted: .* rope_theta, .*the model's own "
    with pytest.raises(ValueError, match=said):
        from_config(hold(PLAIN | {key: value}))
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
        ({"factor": 4.0}, "factor"),
        (LINEAR | {ORIGINAL: 1024}, ORIGINAL),
        (YARN | {"alpha": 1e3}, "alpha"),
        (LONG | {"short_mscale": 1.24}, "short_mscale"),  # PhiMoE's, which follows the length
        ({"xdrope_section": [16, 16, 16, 16]}, "xdrope_section"),  # HunYuan-VL's: no rotation
        (DYNAMIC | {"beta_fast": 32}, "beta_fast"),
        (DYNAMIC | {"alpha": 1e3}, "alpha"),  # HunYuan's larger base, whatever the length
    ],
)
def test_a_key_of_a_rotation_is_read_or_refused(rope, key, generation, hold):
    """By its name. That another one is spelled alike says nothing of what it means."""
    with pytest.raises(ValueError) as caught:
        from_config(hold(PLAIN | {generation: rope}))
    came, _, accepted = str(caught.value).partition("; accepted: ")
    assert came.startswith(f"{key} is ")
    assert came.endswith(f"which is not read by {rope.get('rope_type', 'default')!r}")
    names = accepted.partition(". ")[0].split(", ")
    assert names == sorted(set(names)) and {"rope_theta", "rope_type"} < {*names}
    assert key not in names
    from_config(hold(PLAIN | {generation: rope | {key: None}}))


@pytest.mark.parametrize("type_key", ({}, {"type": "mrope"}, {"rope_type": "default"}), ids=str)
def test_sections_change_no_frequency(type_key):
    rope = {"rope_theta": 1e4, "mrope_section": [16, 24, 24], "mrope_interleaved": True}
    module = from_config(SIZES | {"rope_parameters": rope | type_key})
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
        ({"qk_rope_head_dim": 64}, 64),
        ({"head_dim": 96, "qk_rope_head_dim": 0}, 96),
        ({}, 128),
    ],
)
def test_the_width_that_the_keys_say(keys, rotary_dim, hold):
    module = from_config(hold(PLAIN | keys))
    assert module.rotary_dim == rotary_dim
    assert torch.equal(module.inv_freq, RotaryPositionEmbedding(rotary_dim).inv_freq)


def test_a_key_is_read_whichever_class_holds_it():
    """transformers 5.17 ignores both: MiniMax-M2's model turns all 128 (its issue 48241)."""
    transformers = pytest.importorskip("transformers")
    assert from_config(transformers.MiniMaxM2Config(head_dim=128, rotary_dim=32)).rotary_dim == 32
    config = transformers.LlamaConfig(partial_rotary_factor=0.5, head_dim=128)
    assert from_config(config).rotary_dim == 64


# what a class would add


@each_holder
@pytest.mark.parametrize("model", ("llama", "a_model_of_tomorrow"))
def test_a_model_type_wants_its_class(model, hold):
    """Even if nothing is missing: who holds it cannot know."""
    config = hold(PLAIN | {"head_dim": 128, "model_type": model})
    said = f"^config is of type {type(config).__name__} with model_type '{model}', and lacks .*"
    said += r"AutoConfig.*\.for_model\(\*\*config\).*without model_type"
    with pytest.raises(ValueError, match=said):
        from_config(config)


def test_what_the_error_about_a_file_advises_works(tmp_path):
    """Of a `config.json` as it is downloaded, read by hand."""
    transformers = pytest.importorskip("transformers")
    rope = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0, ORIGINAL: 1024}
    want = transformers.LlamaConfig(head_dim=64, rope_parameters=rope)
    want.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match=r"^config is of type dict with model_type ") as error:
        from_config(config)
    ways = {
        "AutoConfig.from_pretrained(folder)": transformers.AutoConfig.from_pretrained(tmp_path),
        ".for_model(**config) of a dict": transformers.AutoConfig.for_model(**config),
        "its keys without model_type": {x: y for x, y in config.items() if x != "model_type"},
    }
    for advice, given in ways.items():
        assert advice in str(error.value)
        module = from_config(given)
        assert torch.equal(module.inv_freq, from_config(want).inv_freq)
        assert module.attention_factor == from_config(want).attention_factor


def test_whose_class_a_configuration_is():
    """That of its model_type, a subclass of it, or one of one's own; not another, nor the base."""
    transformers = pytest.importorskip("transformers")
    file = {"model_type": "glm", "head_dim": 128, "hidden_size": 512, "num_attention_heads": 4}
    made = transformers.AutoConfig.for_model(**file)  # as the error advises
    module = from_config(made, interleaved=True)
    assert module.rotary_dim == 64  # by a default of the class, half of the head

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
        with pytest.raises(ValueError, match="and lacks what that model's class adds; accepted: "):
            from_config(config)


# values that don't fit

NUMBER, INTEGER = "a positive number", "a positive integer"
TYPES = "'default', 'linear', 'dynamic', 'yarn', "
SHARE = "a positive number, at most 1"
OF_PAIRS = "64 positive numbers, one for each pair that turns"
OF_A_ROTATION = [
    *[
        ({"rope_theta": x}, f"rope_theta is {x!r}; accepted: {NUMBER}")
        for x in (0, "1e4", math.inf, math.nan, True, torch.ones(2))
    ],
    *[({"rope_type": x}, f"rope_type is {x!r}; accepted: {TYPES}") for x in ("axial", 3, ["yarn"])],
    ({"rope_theta": None}, f"rope_theta is missing; accepted: {NUMBER}"),
    ({"type": "axial"}, f"rope_type is 'axial'; accepted: {TYPES}"),
    ({"partial_rotary_factor": 1.5}, f"partial_rotary_factor is 1.5; accepted: {SHARE}"),
    ({"partial_rotary_factor": 0.0}, f"partial_rotary_factor is 0.0; accepted: {SHARE}"),
    ({"rope_type": "linear"}, f"factor is missing; accepted: {NUMBER}"),
    (DYNAMIC | {"factor": 0}, f"factor is 0; accepted: {NUMBER}"),
    (YARN | {"factor": -2}, f"factor is -2; accepted: {NUMBER}"),
    ({"type": "yarn"}, f"factor is missing; accepted: {NUMBER}"),
    (YARN | {"beta_fast": -1}, f"beta_fast is -1; accepted: {NUMBER}"),
    (YARN | {"truncate": "no"}, "truncate is 'no'; accepted: False, True"),
    (YARN | {"attention_factor": 0}, f"attention_factor is 0; accepted: {NUMBER}"),
    (YARN | {"mscale": "1", "mscale_all_dim": 1}, f"mscale is '1'; accepted: {NUMBER}"),
    (
        YARN | {"rope_theta": 1.0},
        "yarn divides by 0 with rope_theta = 1.0 and d2 = 128; accepted: ",
    ),
    (YARN | {ORIGINAL: 2.5}, f"{ORIGINAL} is 2.5; accepted: {INTEGER}"),
    (LLAMA3 | {"low_freq_factor": None}, f"low_freq_factor is missing; accepted: {NUMBER}"),
    (LONG | {"long_factor": 2.0}, f"long_factor is 2.0; accepted: {OF_PAIRS}"),
    (LONG | {"long_factor": None}, f"long_factor is missing; accepted: {OF_PAIRS}"),
    (LONG | {"short_factor": [1.0] * 48}, "short_factor is [1.0, 1.0, 1.0, "),
    (LONG | {"long_factor": [1.0, "x"] * 32}, "long_factor is [1.0, 'x', 1.0, 'x', "),
    (LONG | {"factor": "8", "attention_factor": 1.0}, f"factor is '8'; accepted: {NUMBER}"),
]
BARE = {"head_dim": 64, "rope_theta": 1e4}
TWO_TYPES = {"full_attention": LINEAR, "sliding_attention": {"rope_theta": 500.0}}
LAYERED = SIZES | {"rope_parameters": TWO_TYPES}
NESTED = SIZES | {"rope_parameters": {"full": LINEAR | {"factr": 4.0}}}
BESIDE = SIZES | {"rope_parameters": {"full": LINEAR, "rope_theta": 5e5}}
NAMES = "'full_attention', 'sliding_attention'"
OF_A_CONFIG = [
    (PLAIN | {"head_dim": "64"}, f"head_dim is '64'; accepted: {INTEGER}"),
    (PLAIN | {"rotary_dim": True}, f"rotary_dim is True; accepted: {INTEGER}"),
    ({"rope_theta": 1e4}, f"hidden_size is missing; accepted: {INTEGER}"),
    (BARE | {"rope_scaling": DYNAMIC}, f"max_position_embeddings is missing; accepted: {INTEGER}"),
    (BARE | {"rope_scaling": YARN}, f"{ORIGINAL} is missing; accepted: {INTEGER}"),
    ({"text_config": PLAIN}, "config has a text_config, and no head_dim of its own; accepted: con"),
    (SIZES, f"rope_theta is missing; accepted: {NUMBER}"),
    (SIZES | {"rope_parameters": "yarn"}, "rope_parameters is 'yarn'; accepted: a dict"),
    (PLAIN | {"rope_scaling": "yarn"}, "rope_scaling is 'yarn'; accepted: a dict"),
    (PLAIN | {"layer_types": 3}, "layer_types is 3; accepted: a list of names"),
    (LAYERED, f"layer_type is None; accepted: {NAMES}"),
    (
        PLAIN | {"layer_types": ["full"], "rope_parameters": {"full": None}},
        "layer_type is None; accepted: 'full'",
    ),
]
WIDTHS = [
    ({"rotary_dim": 7}, "7 elements of a head turn, by rotary_dim"),
    ({"num_attention_heads": 3000}, "1 elements of a head turn, by hidden_size"),
    ({"head_dim": 6, "partial_rotary_factor": 0.5}, "3 elements of a head turn, by head_dim"),
]
OF_LAYERS = [
    (LAYERED, "full", f"layer_type is 'full'; accepted: {NAMES}"),
    (LAYERED, 3, f"layer_type is 3; accepted: {NAMES}"),
    (PLAIN | {"layer_types": ["a", "b", "a"]}, "c", "layer_type is 'c'; accepted: None, 'a', 'b'"),
    (LAYERED, "full_attention", "rope_theta is missing; accepted: "),
    (NESTED, "full", "factr is 4.0, which is not read by 'linear'; accepted: "),
    (
        BESIDE,
        "full",
        "rope_theta is 500000.0, which is not read beside the dicts of types of layers",
    ),
]
REFUSED = [
    (SIZES | {"rope_parameters": {"rope_theta": 1e4} | rope}, None, said)
    for rope, said in OF_A_ROTATION
]
REFUSED += [(config, None, said) for config, said in OF_A_CONFIG] + OF_LAYERS


@pytest.mark.parametrize("config, layer_type, said", REFUSED)
def test_what_does_not_fit_is_named(config, layer_type, said):
    for hold in HOLDERS.values():
        with pytest.raises((ValueError, TypeError), match=f"^{re.escape(said)}.*") as caught:
            from_config(hold(config), layer_type)
        assert "; accepted: " in str(caught.value)


@pytest.mark.parametrize("keys, said", WIDTHS)
def test_a_width_that_is_not_even_is_named(keys, said):
    with pytest.raises(ValueError, match=f"^{said}; accepted: an even number"):
        from_config(PLAIN | keys)


@pytest.mark.parametrize("config", (None, "a/path", Path("config.json"), 3, [PLAIN], dict), ids=str)
def test_what_is_no_configuration_is_named(config):
    came = f"^config is of type {type(config).__name__}; accepted: a model's configuration, or a d"
    with pytest.raises(TypeError, match=came):
        from_config(config)


OF_CLASSES = {
    "GPT2Config": "^rope_theta is missing; accepted: ",
    "DINOv3ViTConfig": "^config is of images .*; accepted: the model's own ",
    "PixtralVisionConfig": "^config is of images .*; accepted: the model's own ",
    "Gemma3Config": r"; accepted: config\.text_config$",
    "Gemma3TextConfig": "; accepted: 'sliding_attention', 'full_attention'$",
    "SwinConfig": "^config is of images .*; accepted: the model's own ",
    "GraniteSWAConfig": r"^layer_rope_theta is \[.*, which is not read here; accepted: ",
}


def test_models_that_rotate_neighbors_ask_for_the_pairing():
    """Frequencies alone would silently turn the wrong pairs."""
    transformers = pytest.importorskip("transformers")

    class Derived(transformers.CohereConfig):
        pass

    for config in (transformers.GlmConfig(), Derived(), transformers.Llama4TextConfig()):
        words = "^interleaved is missing, .* rotate neighbors; accepted: interleaved=True"
        with pytest.raises(TypeError, match=words):
            from_config(config)
        for interleaved in (True, False):
            assert from_config(config, interleaved=interleaved).interleaved is interleaved
    assert not from_config(transformers.LlamaConfig()).interleaved


def test_all_families_that_rotate_neighbors_are_known():
    by_rules = {name for rule in RULES if rule.interleaved for name in families_of(rule)}
    without_a_rule = {"codegen", "deepseek_v2", "gptj", "llama4"}  # two of them by complex products
    assert set(ROTATE_NEIGHBORS) == by_rules | without_a_rule


@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_class_of_transformers_that_does_not_fit(name):
    """Such as newcomers try."""
    transformers = pytest.importorskip("transformers")
    with pytest.raises(ValueError, match=OF_CLASSES[name]):
        from_config(getattr(transformers, name)())
