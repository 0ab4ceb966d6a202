"""`from_config` and what is easily overlooked: a model's own keys, class defaults, near keys."""

import copy
import importlib
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rope_kernels import RotaryPositionEmbedding
from rope_kernels.embedding.class_defaults import ADDED
from rope_kernels.embedding.configuration import read_layer

from_config = RotaryPositionEmbedding.from_config
PLAIN = {"head_dim": 128, "max_position_embeddings": 4096, "rope_theta": 1e4}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


# rules of one model


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("HunYuanDenseV1", "hunyuan_v1_dense"),
        ("HunYuanMoEV1", "hunyuan_v1_moe"),
    ],
)
def test_hunyuans_alpha_has_the_bits_of_transformers(kind, module):
    """At any length: transformers 5.17 drops alpha past the original one, and 5.23 keeps it."""
    transformers = pytest.importorskip("transformers")
    modeling = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    rope = {"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0, "rope_theta": 1e4}
    rope |= {"beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}  # as published
    sizes = {"head_dim": 128, "max_position_embeddings": 4096}
    config = getattr(transformers, f"{kind}Config")(**sizes, rope_parameters=rope)
    theirs = getattr(modeling, f"{kind}RotaryEmbedding")(config)
    plain = RotaryPositionEmbedding(128).inv_freq
    for given in (config, config.to_dict()):
        ours = from_config(given)
        assert not torch.equal(ours.inv_freq, plain)
        for length in (1, 4096, 9000):
            ours.adapt(torch.arange(length)[None])
            assert torch.equal(ours.inv_freq, theirs.inv_freq)
        assert ours.attention_factor == theirs.attention_scaling == 1.0
        assert ours.rotary_base == 1e4 and "alpha=1000.0" in repr(ours)


OF_ONE_MODEL = [
    ({"alpha": 1000.0, "rope_type": "yarn"}, {}, r"\['alpha'\] is 1000.0 with type 'yarn'; acc"),
    (
        {"alpha": 1e3, "rope_type": "dynamic"},
        {"model_type": "llama"},
        r"\['alpha'\] is 1000.0 for model_type 'llama', which ignores it; accepted: ",
    ),
    ({"alpha": -1.0, "rope_type": "dynamic"}, {}, r"\['alpha'\] is -1.0; accepted: a number above"),
    ({"alpha": 1e18, "rope_type": "dynamic"}, {"head_dim": 4}, r"\['alpha'\] is 1e\+18; accepted"),
    ({"short_mscale": 1.24}, {}, r"\['short_mscale'\] is 1.24.*; accepted: the model's own \(cos"),
    ({"long_mscale": 1.24}, {}, r"\['long_mscale'\] is 1.24.*; accepted: the model's own \(cos"),
]


@pytest.mark.parametrize(("rope", "beside", "message"), OF_ONE_MODEL)
def test_a_rule_of_one_model_is_refused_elsewhere(rope, beside, message):
    with pytest.raises(ValueError, match=message):
        from_config(
            PLAIN | {"rope_scaling": {"factor": 2.0, "rope_type": "linear"} | rope} | beside
        )


# what a file leaves to the class of its model

LEFT_OUT = [
    ("bamba", {"hidden_size": 4096, "num_attention_heads": 32}, "partial_rotary_factor"),
    ("glm", {"head_dim": 128}, "partial_rotary_factor"),
    ("phi", {"hidden_size": 2048, "num_attention_heads": 32}, "partial_rotary_factor"),
    ("nemotron", {"hidden_size": 6144, "num_attention_heads": 48}, "partial_rotary_factor"),
    ("qwen3_next", {"head_dim": 256}, "partial_rotary_factor"),
    ("recurrent_gemma", {"head_dim": 256}, "partial_rotary_factor"),
    ("qwen3", {"hidden_size": 2048, "num_attention_heads": 32}, "head_dim"),
    ("deepseek_v3", {"head_dim": 128}, "qk_rope_head_dim"),
    ("gpt_oss", {"head_dim": 64}, "rope_parameters"),
    ("phi3", {"head_dim": 96}, "original_max_position_embeddings"),
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


SCALED = {
    None: {},
    "yarn": YARN,
    "dynamic": {"type": "dynamic", "factor": 2.0},
    "longrope": {"type": "longrope", "short_factor": [1.5] * 10, "long_factor": [2.5] * 10},
}


def files_of(full):
    """Files of a class with other sizes than its own, with and without each key that it may add."""
    left_out = {"rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor"}
    left_out |= {
        "head_dim",
        "qk_rope_head_dim",
        "original_max_position_embeddings",
    }
    sizes = {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 8}
    base = {key: value for key, value in full.items() if key not in left_out}
    base |= {key: value for key, value in sizes.items() if key in full}
    heads = ({}, {"head_dim": 20}, {"qk_rope_head_dim": 20})
    shares = ({}, {"partial_rotary_factor": 1.0})
    originals = ({}, {"original_max_position_embeddings": 1024})
    for head in heads:
        for share in shares:
            for original in originals:
                for rope in SCALED.values():
                    beside = {"rope_theta": 5e5}
                    file = copy.deepcopy(base | head | original)
                    yield file | share | beside | {"rope_scaling": rope or None}
                    rope = {"rope_type": "default"} | beside | share | rope
                    if rope.get("type"):
                        del rope["rope_type"]
                    yield file | {"rope_parameters": rope}
                    yield file | share | beside | {"rope_local_base_freq": 3e3}


def class_of(transformers, model_type):
    try:
        return transformers.CONFIG_MAPPING[model_type]
    except KeyError:  # of a part of a model, which has no name of its own there
        return None


@pytest.mark.parametrize("model_type", ADDED)
def test_a_file_has_the_frequencies_of_its_class_or_is_refused(model_type):
    transformers = pytest.importorskip("transformers")
    if (kind := class_of(transformers, model_type)) is None:
        pytest.skip(f"this release of transformers has no {model_type}")
    same = 0
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


# near a key, and not one

NEAR = [
    ({"rope_parameters": {"rope_type": "linear", "factr": 4.0}}, r"\['factr'\].*: 'factor'$"),
    (
        {"rope_parameters": YARN | {"original_max_position_embedding": 1024}},
        r"\['original_max_position_embedding'\].*; accepted: 'original_max_position_embeddings'$",
    ),
    ({"rope_parameters": {"full_attention": {"factr": 4.0}}}, r"\['full_attention'\]\['factr'\]"),
    ({"rope_parameters": {"full_attention": {}, "factr": 4.0}}, r"^rope_parameters\['factr'\]"),
    (
        {"original_max_position_embedding": 1024, "rope_scaling": {"type": "yarn", "factor": 4.0}},
        "^original_max_position_embedding is .* accepted: 'original_max_position_embeddings'$",
    ),
    ({"partial_rotary_facter": 0.5}, "^partial_rotary_facter is .* 'partial_rotary_factor'$"),
    ({"rope_type": "yarn"}, "^rope_type came beside rope_parameters; accepted: rope_type within"),
    ({"factor": 4.0}, "^factor came beside rope_parameters; accepted: factor within"),
    ({"low_freq_factor": 1.0}, "^low_freq_factor came beside rope_parameters; accepted: low_fr"),
    ({"mrope_section": [16, 24, 24]}, "^mrope_section came beside rope_parameters; accepted: mr"),
    ({"rope_scalling": YARN}, "^rope_scalling .*; accepted: rope_parameters, or rope_scaling$"),
    ({"scaling": YARN}, "^scaling is a dict with rope_type.*; accepted: rope_parameters"),
    (
        {"rope_scalings": {"full_attention": YARN}},
        "^rope_scalings is .*; accepted: 'rope_scaling'$",
    ),
    ({"rotary_pct": 0.25}, "^rotary_pct is 0.25, without partial_rotary_factor; accepted: part"),
    ({"attn_rotary_emb": 64}, "^attn_rotary_emb is 64, without partial_rotary_factor; accepted"),
    ({"global_head_dim": 512}, "^global_head_dim came, a head_dim of its own; accepted: "),
    (
        {"per_layer_config": {"5": {"head_dim": 512}}},
        "^per_layer_config came, a head_dim of its own; accepted: ",
    ),
    (
        {"rope_parameters": {"rope_theta": 1e4, "low_freq_factor": 1.0, "high_freq_factor": 4.0}},
        r"^rope_parameters\['rope_type'\] is missing, and low_freq_factor came; accepted: ",
    ),
    ({"rope_scaling": {"type": "yarn"}}, r"^rope_scaling\['factor'\] is missing; accepted: a num"),
    (
        {"rope_scaling": {"type": "yarn", "factor": 2.0, "short_factor": [1.0] * 64}},
        r"^rope_scaling\['short_factor'\] came with 'yarn'; accepted with 'longrope'$",
    ),
]


@pytest.mark.parametrize(("keys", "message"), NEAR)
def test_what_is_near_a_key_is_refused(keys, message):
    layer_type = "full_attention" if "full_attention" in str(keys) else None
    for given in (PLAIN | keys, SimpleNamespace(**PLAIN | keys)):
        with pytest.raises(ValueError, match=message):
            from_config(given, layer_type)


def test_an_unknown_key_of_a_rotation_is_named():
    rope = {"rope_type": "linear", "factor": 4.0}
    with pytest.warns(UserWarning, match=r"^rope_scaling\['ntk_by_parts'\] is ignored") as told:
        scaled = from_config(PLAIN | {"rope_scaling": rope | {"ntk_by_parts": True}})
    assert told[0].filename == __file__
    assert torch.equal(scaled.inv_freq, from_config(PLAIN | {"rope_scaling": rope}).inv_freq)


# numbers

TWO = torch.tensor([1.0, 2.0])
BAD_NUMBERS = [
    ({"head_dim": 1e308}, {}, r"^head_dim is 1e\+308; accepted: "),
    ({"head_dim": 2**40}, {}, "^head_dim is 1099511627776; accepted: up to 65536"),
    ({}, {"factor": 1e308, "rope_type": "dynamic"}, r"\['factor'\] is 1e\+308; accepted: "),
    (
        {},
        {"factor": 1e9, "rope_type": "dynamic"},
        r"\['factor'\] is 1000000000.0; accepted with 'dynamic': up to 1e\+06$",
    ),
    ({}, YARN | {"beta_slow": 1e-320}, r"\['beta_slow'\] is 1e-320; accepted: "),
    ({}, YARN | {"beta_slow": TWO}, r"\['beta_slow'\] is tensor\(\[1., 2.\]\); accepted: "),
    ({}, YARN | {"mscale": TWO, "mscale_all_dim": 1}, r"\['mscale'\] is tensor\(\[1., 2.\]\); acc"),
    ({}, {"factor": TWO, "rope_type": "linear"}, r"\['factor'\] is tensor\(\[1., 2.\]\); accepted"),
    (
        {},
        YARN | {"original_max_position_embeddings": 1e308},
        r"\['original_max_position_embeddings'\] is 1e\+308; accepted: ",
    ),
    ({}, {"rope_type": TWO}, r"\['rope_type'\] is tensor\(\[1., 2.\]\); accepted: 'default', "),
    ({}, {"rope_type": ["yarn"]}, r"\['rope_type'\] is \['yarn'\]; accepted: 'default', "),
    ({"rope_scaling": TWO}, {}, r"^rope_scaling is tensor\(\[1., 2.\]\); accepted: a dict"),
]


@pytest.mark.parametrize(("beside", "rope", "message"), BAD_NUMBERS)
def test_a_number_out_of_range_is_named(beside, rope, message):
    section = {"rope_scaling": rope} if rope else {}
    with pytest.raises((ValueError, TypeError), match=message):
        from_config(PLAIN | section | beside)


def test_the_largest_factor_adapts_to_finite_frequencies():
    rope = {"rope_type": "dynamic", "factor": 1e6}
    for original in (2, 4096, 10**7 + 1):
        config = PLAIN | {"rope_scaling": rope, "max_position_embeddings": original}
        for last in (original, 2**30, 2**62):
            module = from_config(config)
            module.adapt(torch.tensor([last]))
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


def test_the_base_of_dynamic_has_the_default_dtype():
    """docs/kernels.md says it: transformers has these bits, and they are far from fp32's."""
    config = PLAIN | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}
    exact, rounded = from_config(config), from_config(config)
    exact.adapt(torch.tensor([8999]))
    torch.set_default_dtype(torch.bfloat16)
    try:
        rounded.adapt(torch.tensor([8999]))
    finally:
        torch.set_default_dtype(torch.float32)
    off = 9000 * (exact.inv_freq - rounded.inv_freq).abs().max()
    assert rounded.inv_freq.dtype == torch.float32 and 0.4 < off < 100
