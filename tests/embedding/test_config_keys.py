"""`from_config` and what it refuses: each error says the key, what came and what is accepted.

Also what is easily overlooked: a model's own keys, defaults of its class, names close to a key.
"""

import copy
import importlib
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, mrope_axes
from rope_kernels.embedding.config_checks import ADDED
from rope_kernels.embedding.configuration import read_layer

from_config = RotaryPositionEmbedding.from_config
SIZES = {"hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 2048}
PLAIN = SIZES | {"rope_theta": 1e4}
LINEAR = {"rope_type": "linear", "factor": 2.0}
YARN = {"rope_type": "yarn", "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4}
LONG = {"rope_type": "longrope", "short_factor": [2.0] * 64, "long_factor": [3.0] * 64}
ORIGINAL = "original_max_position_embeddings"


def check_refused(config, came, accepted, layer_type=None):
    """A dict and an object with these keys are told what came, and how what is accepted begins."""
    for given in (config, SimpleNamespace(**config)):
        with pytest.raises((ValueError, TypeError)) as caught:
            from_config(given, layer_type)
        before, _, after = str(caught.value).partition("; accepted")
        assert before == came and after.removeprefix(":").lstrip().startswith(accepted), after


# keys of a rotation

TWO = torch.tensor([1.0, 2.0])
TYPES = "'default', 'linear', 'dynamic', 'yarn', 'longrope', 'su', 'llama3', 'proportional'"
TABLES = "the model's own (cos, sin) as freqs, without a module"
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
    ({"rope_type": "axial"}, "['rope_type'] is 'axial', each model's own rule", TABLES),
    ({"factor": 4.0}, "['rope_type'] is missing, and factor came", TYPES),
    ({"low_freq_factor": 1.0}, "['rope_type'] is missing, and low_freq_factor came", TYPES),
    ({"partial_rotary_factor": 1.5}, "['partial_rotary_factor'] is 1.5", "a number above 0, up to"),
    ({"partial_rotary_factor": 0.0}, "['partial_rotary_factor'] is 0.0", POSITIVE),
    ({"rope_type": "linear"}, "['factor'] is missing", FROM_1),
    (LINEAR | {"factor": 0.5}, "['factor'] is 0.5", FROM_1),
    (DYNAMIC | {"factor": 0}, "['factor'] is 0", FROM_1),
    (DYNAMIC | {"factor": 1e9}, "['factor'] is 1000000000.0", "with 'dynamic': up to 1e+06"),
    (YARN | {"factor": 0.9}, "['factor'] is 0.9", FROM_1),
    ({"type": "yarn"}, "['factor'] is missing", FROM_1),
    (YARN | {"beta_fast": -1}, "['beta_fast'] is -1", POSITIVE),
    (YARN | {"beta_fast": 1, "beta_slow": 2}, "['beta_fast'] is 1", "a number from beta_slow = 2"),
    (YARN | {"truncate": "no"}, "['truncate'] is 'no'", "False, True"),
    (YARN | {"attention_factor": 0}, "['attention_factor'] is 0", POSITIVE),
    (YARN | {"mscale": "1", "mscale_all_dim": 1}, "['mscale'] is '1'", POSITIVE),
    (YARN | {ORIGINAL: 0.5}, f"['{ORIGINAL}'] is 0.5", "a positive integer"),
    (YARN | {"short_factor": [1.0] * 64}, "['short_factor'] came with 'yarn'", "with 'longrope'"),
    (
        {"rope_type": "yarn", ORIGINAL: 8192},
        f"['{ORIGINAL}'] is 8192 without factor",
        "up to max_position_embeddings = 2048, or a factor from 1",
    ),
    (LLAMA3 | {"low_freq_factor": None}, "['low_freq_factor'] is missing", POSITIVE),
    (LLAMA3 | {"high_freq_factor": 1}, "['high_freq_factor'] is 1", "a number above low_freq_fac"),
    (LONG | {"long_factor": None}, "['long_factor'] is missing", OF_64),
    (LONG | {"long_factor": 2.0}, "['long_factor'] is 2.0", OF_64),
    (LONG | {"short_factor": [1.0] * 48}, "['short_factor'] has 48 numbers", OF_64),
    (LONG | {"long_factor": [1.0] * 63 + ["x"]}, "['long_factor'][63] is 'x'", OF_64),
    (LONG | {"factor": 2.0, ORIGINAL: 1}, f"['{ORIGINAL}'] is 1", "with 'longrope': an integer fr"),
    # of several axes
    (
        {"mrope_section": [16, 24, 23]},
        "['mrope_section'] is [16, 24, 23], 63 pairs",
        "numbers that",
    ),
    (
        {"mrope_section": [20, 24, 20], "mrope_interleaved": True},
        "['mrope_section'] is [20, 24, 20]",
        "a first section that is no smaller than the others",
    ),
    (
        {"mrope_section": [24, 20, 20], "mrope_interleaved": "no"},
        "['mrope_interleaved'] is 'no'",
        "False, True",
    ),
    # of one model each
    ({"xdrope_section": [16]}, "['xdrope_section'] is [16], which makes no rotation", TABLES),
    ({"alpha": 1e3} | YARN, "['alpha'] is 1000.0 with type 'yarn'", "with 'dynamic'"),
    ({"alpha": -1.0} | DYNAMIC, "['alpha'] is -1.0", POSITIVE),
    ({"alpha": 1e18} | DYNAMIC, "['alpha'] is 1e+18", "a number with which the base stays below"),
    ({"short_mscale": 1.24}, "['short_mscale'] is 1.24, PhiMoE's own rule", TABLES),
    ({"long_mscale": 1.24}, "['long_mscale'] is 1.24, PhiMoE's own rule", TABLES),
    # near a key, and not one
    ({"factr": 4.0} | LINEAR, "['factr'] is no key, and close to one", "'factor'"),
    (
        {ORIGINAL[:-1]: 1} | YARN,
        f"['{ORIGINAL[:-1]}'] is no key, and close to one",
        f"'{ORIGINAL}'",
    ),
]


@pytest.mark.parametrize(("rope", "came", "accepted"), OF_A_ROTATION)
def test_a_bad_key_of_a_rotation_is_named(rope, came, accepted):
    config = SIZES | {"rope_parameters": {"rope_theta": 1e4} | rope}
    check_refused(config, f"rope_parameters{came}", accepted)


# keys beside them

TWO_TYPES = {"full_attention": LINEAR, "sliding_attention": {"rope_theta": 500.0}}
LAYERED = SIZES | {"rope_parameters": TWO_TYPES}
HEADS = "head_dim = hidden_size // num_attention_heads ="
NO_ROTATION = "rope_theta is missing, and so is rope_parameters"
SEVERAL = "layer_type is None, and rope_parameters has several types"
NAMES = "'full_attention', 'sliding_attention'"
INTEGER, CLASS = "a positive integer", "the configuration that the model's class makes of it, not a"
SCALED = "rope_parameters, or rope_scaling"
OF_A_CONFIG = [
    (PLAIN | {"head_dim": "64"}, "head_dim is '64'", INTEGER),
    (PLAIN | {"head_dim": 64.5}, "head_dim is 64.5", INTEGER),
    (PLAIN | {"head_dim": 2**40}, "head_dim is 1099511627776", "up to 65536"),
    ({"rope_theta": 1e4}, "head_dim is missing, and so is hidden_size", "head_dim, or hidden_size"),
    ({"hidden_size": 64}, "head_dim is missing, and so is num_attention_heads", "head_dim, or hid"),
    (
        PLAIN | {"num_attention_heads": 3000},
        f"{HEADS} 1 and partial_rotary_factor = 1.0 give 1 rotary dimensions",
        "an even number, at least 2",
    ),
    (
        PLAIN | {"partial_rotary_factor": 0.01},
        f"{HEADS} 128 and partial_rotary_factor = 0.01 give 1 rotary dimensions",
        "an even number, at least 2",
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
    (SIZES | {"rope_parameters": TWO_TYPES | {"rope_theta": 1e4}}, SEVERAL, NAMES),
    (
        PLAIN | {"rope_local_base_freq": 1e4},
        "layer_type is None, and config has a rope_local_base_freq: several types",
        "'sliding_attention', or another one",
    ),
    (
        PLAIN | {"rope_scaling": DYNAMIC | {"alpha": 1e3}, "model_type": "llama"},
        "rope_scaling['alpha'] is 1000.0 for model_type 'llama', which ignores it",
        "HunYuan's, or no alpha",
    ),
    (
        PLAIN
        | {"rope_scaling": {"mrope_section": [22, 22, 20]}, "model_type": "ernie4_5_vl_moe_text"},
        "rope_scaling['mrope_section'] is [22, 22, 20] for model_type 'ernie4_5_vl_moe_text', "
        "whose rule is its own",
        "Qwen, GLM, PaddleOCR-VL; or the argument axes=",
    ),
    # near a key, in another place, or by an older name
    (
        PLAIN | {ORIGINAL[:-1]: 1024, "rope_scaling": YARN},
        f"{ORIGINAL[:-1]} is no key, and close to one",
        f"'{ORIGINAL}'",
    ),
    (
        PLAIN | {"partial_rotary_facter": 0.5},
        "partial_rotary_facter is no key, and close to one",
        "'partial_rotary_factor'",
    ),
    *[
        (PLAIN | {key: value}, f"{key} came beside rope_parameters", f"{key} within rope_param")
        for key, value in (("rope_type", "yarn"), ("factor", 4.0), ("mrope_section", [16, 24, 24]))
    ],
    (PLAIN | {"scaling": YARN}, "scaling is a dict with rope_type, and it isn't read", SCALED),
    (
        PLAIN | {"rope_scalings": {"full_attention": YARN}},
        "rope_scalings is no key, and close to one",
        "'rope_scaling'",
    ),
    *[
        (PLAIN | {key: 0.25}, f"{key} is 0.25, without partial_rotary_factor", "partial_rotary_fac")
        for key in ("rotary_pct", "attn_rotary_emb")
    ],
    (PLAIN | {"global_head_dim": 512}, "global_head_dim came, a head_dim of its own", CLASS),
    (
        PLAIN | {"per_layer_config": {"5": {"head_dim": 512}}},
        "per_layer_config came, a head_dim of its own",
        CLASS,
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
    ("yarn", " is 'yarn'", "a dict, or None"),
    ({"factr": 4.0}, "['factr'] is no key, and close to one", "'factor'"),
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
OF_LAYERS.append(
    (
        PLAIN | {"rope_parameters": {"full_attention": {}, "factr": 4.0}},
        "full_attention",
        "rope_parameters['factr'] is no key, and close to one",
        "'factor'",
    )
)


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
    "GPT2Config": f"^{NO_ROTATION}; accepted: ",
    "GPTJConfig": f"^{NO_ROTATION}; accepted: ",
    "DINOv3ViTConfig": OF_IMAGES,
    "Llama4VisionConfig": OF_IMAGES,
    "PixtralVisionConfig": "(^config is of images|is 'axial').* own rule; accepted: the model",
    "Gemma3Config": r"; accepted: config\.text_config$",
    "Gemma3TextConfig": "; accepted: 'sliding_attention', 'full_attention'$",
    "Glm4MoeConfig": "^head_dim = hidden_size // num_attention_heads = 42 and .* give 21 ",
    "EfficientLoFTRConfig": r"\['partial_rotary_factor'\] is 4.0; accepted: .*, up to 1$",
    "SwinConfig": r"^num_attention_heads is \(3, 6, 12, 24\); accepted: a positive integer$",
}


@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_class_of_transformers_that_does_not_fit(name):
    """Such as newcomers try. Of 704 default configurations none raised anything unnamed."""
    transformers = pytest.importorskip("transformers")
    with pytest.raises(ValueError, match=OF_CLASSES[name]):
        from_config(getattr(transformers, name)())
    with pytest.raises(ValueError, match=r"^layer_type is 'sliding'; accepted: 'full_attention'$"):
        from_config(transformers.Qwen2Config(), "sliding")


def test_an_unknown_key_of_a_rotation_is_named():
    with pytest.warns(UserWarning, match=r"^rope_scaling\['ntk_by_parts'\] is ignored") as told:
        scaled = from_config(PLAIN | {"rope_scaling": LINEAR | {"ntk_by_parts": True}})
    assert told[0].filename == __file__
    assert torch.equal(scaled.inv_freq, from_config(PLAIN | {"rope_scaling": LINEAR}).inv_freq)


# what a file leaves to the class of its model

LEFT_OUT = [
    ("glm", {"head_dim": 128}, "partial_rotary_factor"),
    ("qwen3", {"hidden_size": 2048, "num_attention_heads": 32}, "head_dim"),
    ("deepseek_v3", {"head_dim": 128}, "qk_rope_head_dim"),
    ("gpt_oss", {"head_dim": 64}, "rope_parameters"),
    ("phi3", {"head_dim": 96}, ORIGINAL),
    ("gemma3_text", {"head_dim": 256}, "rope_local_base_freq"),
    ("a_model_of_tomorrow", {"head_dim": 256}, "partial_rotary_factor"),
]


@pytest.mark.parametrize(("model_type", "sizes", "key"), LEFT_OUT)
def test_a_default_of_the_class_is_asked_for(model_type, sizes, key):
    file = {"model_type": model_type, "rope_theta": 1e4, "max_position_embeddings": 4096} | sizes
    for given in (file, SimpleNamespace(**file)):
        with pytest.raises(
            ValueError, match=rf"^config is a dict of model_type '{model_type}'.*{key}"
        ):
            from_config(given)


COMPLETE = {"head_dim": 20, "partial_rotary_factor": 1.0, ORIGINAL: 1024}
LEFT = {  # of a complete file: what is changed, and what isn't there
    "nothing": ({}, ()),
    "heads of DeepSeek": ({"qk_rope_head_dim": 20}, ("head_dim", "partial_rotary_factor")),
    **{key: ({}, (key,)) for key in COMPLETE},
    "all": ({}, tuple(COMPLETE)),
}
SCALINGS = (
    {},
    {"rope_type": "yarn", "factor": 4.0, ORIGINAL: 1024},
    {"type": "dynamic", "factor": 2.0},
    {"type": "longrope", "short_factor": [1.5] * 10, "long_factor": [2.5] * 10},
)


def files_of(full):
    """Files of a class with other sizes than its own, with and without each key that it may add."""
    left_out = {"rope_parameters", "rope_scaling", "rope_theta", "qk_rope_head_dim", *COMPLETE}
    sizes = {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 8}
    base = {key: value for key, value in full.items() if key not in left_out}
    base |= {key: value for key, value in sizes.items() if key in full}
    for changed, left in LEFT.values():
        file = base | {k: v for k, v in (COMPLETE | changed).items() if k not in left}
        file["rope_theta"] = 5e5
        yield file | {"rope_local_base_freq": 3e3}
        for rope in SCALINGS:
            yield file | {"rope_scaling": rope or None}
            of_rope = {"rope_theta", "partial_rotary_factor"} & file.keys()
            inside = {key: file[key] for key in of_rope} | ({"rope_type": "default"} | rope)
            if "type" in rope:
                del inside["rope_type"]
            yield {k: v for k, v in file.items() if k not in of_rope} | {"rope_parameters": inside}


@pytest.mark.parametrize("model_type", ADDED)
def test_a_file_has_the_frequencies_of_its_class_or_is_refused(model_type):
    transformers = pytest.importorskip("transformers")
    if model_type not in transformers.CONFIG_MAPPING:  # or it is a part of a model, without a name
        pytest.skip(f"this release of transformers has no {model_type}")
    kind, same = transformers.CONFIG_MAPPING[model_type], 0
    full = kind().get_text_config().to_dict() | {"model_type": model_type}
    of_parts = kind().get_text_config().model_type != model_type  # in one file, without head_dim
    for file in files_of(full):
        if of_parts and "head_dim" in file:
            continue
        try:
            config = kind.from_dict(copy.deepcopy(file)).get_text_config()
        except Exception:  # the class refuses such a file, by whatever error
            continue
        for layer_type in {None, *(getattr(config, "layer_types", None) or ())}:
            try:
                ours = read_layer(copy.deepcopy(file), layer_type)
            except ValueError:
                continue
            assert ours == read_layer(config, layer_type), file
            same += 1
    assert same


# rules of one model, and of several axes


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
    plain = RotaryPositionEmbedding(128).inv_freq
    for given in (config, config.to_dict()):
        ours = from_config(given)
        assert not torch.equal(ours.inv_freq, plain)
        for length in (None, 1, 4096, 9000):
            ours = from_config(given, seq_len=length)
            assert torch.equal(ours.inv_freq, theirs.inv_freq)
        assert ours.attention_factor == theirs.attention_scaling == 1.0
        assert ours.rotary_base == 1e4 and "alpha=1000.0" in repr(ours)


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
    rope = {"rope_theta": 1e4, "mrope_section": sections} | key
    config = SIZES | {"rope_parameters": rope, "model_type": model_type}
    assert list(from_config(config).axes) == mrope_axes(sections, interleaved=interleaved)


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
    assert replace(read_layer(PLAIN, None), attention_factor=1.0) == read_layer(PLAIN, None)
