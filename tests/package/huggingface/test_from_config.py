"""`from_config`: the frequencies of transformers, bit for bit, or an error that names the key.

Above all what is easily overlooked: keys that are not read, what a class would add, two widths.
"""

import copy
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from hugging_face import families_of
from inputs import OTHER_DEFAULTS, other_defaults
from rope_kernels import RotaryPositionEmbedding
from rope_kernels.huggingface import from_config
from rope_kernels.huggingface.config import ROTATE_NEIGHBORS
from rope_kernels.huggingface.rules import RULES

ORIGINAL = "original_max_position_embeddings"

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


def either(*values):
    return st.sampled_from(values)


FACTOR = either(1.0, 2, 4.0, 8.0, 32, 40) | st.floats(1, 64)
ALWAYS = {  # keys of a type; those of the others: a factor
    "default": {},
    "longrope": {},
    "llama3": {
        "factor": FACTOR,
        "low_freq_factor": either(1.0, 2, 1.5),
        "high_freq_factor": either(4, 8.0),
    },
}
OFTEN = {
    "yarn": {
        "beta_fast": either(8.0, 64.0, 1000),
        "beta_slow": either(2, 8.0),
        "truncate": st.booleans(),
        "mscale": either(0.707, 1.0),
        "mscale_all_dim": either(1, 1.0),
        "attention_factor": st.just(1.19),
    },
    "longrope": {"factor": FACTOR, "attention_factor": st.just(1.19)},
}


@st.composite
def configs(draw, rope_type):
    """A flat configuration, as a dict: sizes, theta and keys of the type, some of them left out."""
    keys = ALWAYS.get(rope_type, {"factor": FACTOR})
    rope = draw(st.fixed_dictionaries(keys, optional=OFTEN.get(rope_type)))
    rope |= {"rope_type": rope_type, "rope_theta": draw(either(1e4, 10000, 5e5, 1e6, 150000.0))}
    head_dim, share = draw(either(32, 64, 80, 96, 128, 192, 256)), draw(either(None, 0.25, 0.75))
    original = draw(either(2048, 4096, 8192, 32768))
    if share is not None:
        rope["partial_rotary_factor"] = share
    if rope_type in ("yarn", "longrope", "llama3"):
        rope["original_max_position_embeddings"] = original
    if rope_type == "longrope":
        pairs = int(head_dim * (share or 1.0)) // 2
        divisors = st.lists(st.floats(1, 60), min_size=pairs, max_size=pairs)
        rope |= {"short_factor": draw(divisors), "long_factor": draw(divisors)}
    sizes = {"head_dim": head_dim, "hidden_size": 8 * head_dim, "num_attention_heads": 8}
    return sizes | {"max_position_embeddings": 16 * original, "rope_parameters": rope}


def assert_same_as(transformers, config, layer_type=None, seq_len=None):
    """`inv_freq` and the attention factor of our module, and of transformers' function."""
    rope = config.rope_parameters if layer_type is None else config.rope_parameters[layer_type]
    module = from_config(config, layer_type, seq_len=seq_len)
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
            config, torch.device("cpu"), seq_len, layer_type=layer_type
        )
    assert module.inv_freq.dtype == torch.float32
    assert torch.equal(module.inv_freq, want)
    assert module.attention_factor == factor and type(factor) is float
    return module


SCALED = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")


@pytest.mark.parametrize("rope_type", SCALED)
def test_transformers_bits(rope_type, transformers):
    """Also of a dict or an object, and whatever PyTorch's defaults are: transformers sets the dtype
    while it loads a model, and on the meta device nothing has a value until `to_empty`."""
    depends = []

    @hypothesis.settings(max_examples=2 * hypothesis.settings.default.max_examples)
    @hypothesis.given(configs(rope_type))
    def has_their_bits(config):
        theirs = transformers.LlamaConfig(**copy.deepcopy(config))
        module = assert_same_as(transformers, theirs)
        most = config["max_position_embeddings"]
        original = theirs.rope_parameters.get(ORIGINAL, most)
        for length in (1, original, original + 1, most + 1, 3 * most):
            long = assert_same_as(transformers, theirs, seq_len=length)
            depends.append(not torch.equal(long.inv_freq, module.inv_freq))
        for given in (config, with_attributes(config)):
            again = from_config(given)
            assert torch.equal(again.inv_freq, module.inv_freq) and repr(again) == repr(module)
        for dtype, device in OTHER_DEFAULTS:
            with other_defaults(dtype, device):
                again = from_config(config)
            assert again.inv_freq.device.type == device and again.inv_freq.dtype == torch.float32
            again = again.to_empty(device="cpu") if device == "meta" else again
            assert torch.equal(again.inv_freq, module.inv_freq)

    has_their_bits()
    assert any(depends) == (rope_type in ("dynamic", "longrope"))


@pytest.mark.parametrize("length", (0, -1, True, "4096", 2**63, torch.tensor(3)), ids=str)
def test_a_length_that_is_none(length):
    """Also for frequencies that don't depend on it: the next configuration's may."""
    with pytest.raises(ValueError, match=r"^seq_len is .*; accepted: a positive number below "):
        from_config(config_of({}), seq_len=length)


# configurations of published models

PHI_4_MINI = {  # without the sizes that don't matter
    "hidden_size": 3072,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "partial_rotary_factor": 0.75,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "short_factor": [1.0 + 0.01 * i for i in range(48)],
        "long_factor": [1.0 + 1.3 * i for i in range(48)],
        "type": "longrope",
    },
}
MODULES = {
    "LlamaConfig": ("llama", "LlamaRotaryEmbedding"),
    "Phi3Config": ("phi3", "Phi3RotaryEmbedding"),
    "Gemma3TextConfig": ("gemma3", "Gemma3RotaryEmbedding"),
    "Gemma4TextConfig": ("gemma4", "Gemma4TextRotaryEmbedding"),
}


def rotary_of(transformers, theirs):
    """The module with cos and sin that the model itself makes."""
    folder, name = MODULES[type(theirs).__name__]
    module = pytest.importorskip(f"transformers.models.{folder}.modeling_{folder}")
    return getattr(module, name)(theirs)


def test_a_published_model(transformers):
    """As its file says it, and as transformers understands that file."""
    theirs = transformers.Phi3Config(**copy.deepcopy(PHI_4_MINI))
    rotary = rotary_of(transformers, theirs)
    complete = {key: x for key, x in theirs.to_dict().items() if key != "model_type"}
    everywhere = PHI_4_MINI, with_attributes(PHI_4_MINI), complete, with_attributes(complete)
    for given in (theirs, *everywhere):
        module = from_config(given)
        assert torch.equal(module.inv_freq, rotary.inv_freq)
        assert module.attention_factor == rotary.attention_scaling
        assert list(module.state_dict()) == []


@pytest.mark.parametrize("is_saved", (False, True))
@pytest.mark.parametrize("persistent", (False, True))
def test_from_pretrained(persistent, is_saved, transformers, tmp_path):
    """It makes the model on the meta device, and reads only keys of the model's state."""

    class Model(transformers.PreTrainedModel):
        config_class = transformers.LlamaConfig

        def __init__(self, config, persistent=persistent):
            super().__init__(config)
            self.rope = RotaryPositionEmbedding(8, persistent=persistent)
            self.proj = torch.nn.Linear(2, 2)
            self.post_init()

        def _init_weights(self, module):
            if isinstance(module, RotaryPositionEmbedding):
                module.reset_parameters()

    old = Model(transformers.LlamaConfig(), persistent=is_saved)
    initial, new = old.rope.inv_freq.clone(), torch.rand(4)
    old.rope.inv_freq = new
    old.save_pretrained(tmp_path)
    model, keys = Model.from_pretrained(tmp_path, output_loading_info=True)
    assert torch.equal(model.rope.inv_freq, new if is_saved and persistent else initial)
    key = {"rope.inv_freq"}
    assert keys["unexpected_keys"] == (key if is_saved and not persistent else set())
    assert keys["missing_keys"] == (key if persistent and not is_saved else set())


GEMMA_3 = {
    "head_dim": 256,
    "hidden_size": 2560,
    "num_attention_heads": 8,
    "max_position_embeddings": 131072,
    "rope_parameters": {
        "sliding_attention": {"rope_theta": 10000.0},
        "full_attention": {"rope_theta": 1000000.0, "factor": 8.0, "rope_type": "linear"},
    },
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


# where keys stand

LINEAR = {"rope_type": "linear", "factor": 2.0}
SU = {"type": "su", "short_factor": [2.0] * 64, "long_factor": [3.0] * 64}  # Phi 3's longrope


@pytest.mark.parametrize(
    "config",
    [
        LLAMA | {"rope_theta": 500.0, "rope_parameters": LINEAR},
        LLAMA | {"rope_theta": 500.0, "rope_scaling": LINEAR},
        LLAMA | {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        LLAMA | {"rope_theta": 500.0, "rope_scaling": SU},
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


@pytest.mark.parametrize("theta", ({}, {"rope_theta": 500.0}), ids=str)
@pytest.mark.parametrize("newer", ({}, {"rope_theta": 7.0}, LINEAR), ids=str)
@pytest.mark.parametrize("older", ({}, {"type": "linear", "factor": 4.0}), ids=str)
def test_both_places_of_a_scaling(older, newer, theta, transformers):
    """The older one wins whole, with `rope_theta` outside."""
    config = LLAMA | {"rope_theta": 1e4, "rope_parameters": newer, "rope_scaling": older | theta}
    theirs = transformers.LlamaConfig(**copy.deepcopy(config))
    want = rotary_of(transformers, theirs).inv_freq
    for given in (config, with_attributes(config), theirs):
        assert torch.equal(from_config(given).inv_freq, want)


def test_the_original_length_beside_the_dict_counts(transformers):
    """Phi 3 has it in both places."""
    config = config_of({"rope_type": "yarn", "factor": 4.0, ORIGINAL: 512}, **{ORIGINAL: 1024})
    theirs = transformers.LlamaConfig(**copy.deepcopy(config))
    module = assert_same_as(transformers, theirs)
    assert torch.equal(from_config(config).inv_freq, module.inv_freq)
    config[ORIGINAL] = None
    assert not torch.equal(from_config(config).inv_freq, module.inv_freq)


def test_a_layer_that_does_not_rotate():
    for others in ({}, {"sliding_attention": LINEAR}):
        config = LLAMA | {"rope_parameters": {"full_attention": None} | others}
        assert from_config(config, "full_attention") is None


# how many elements turn

PLAIN = LLAMA | {"rope_theta": 1e4}


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
        # Sections change no frequency, and other names are the model's own.
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, 128),
        (
            {"property_count": 3, "no_rope_layers": [1, 0], "rope_interleave": True, "factor": 4},
            128,
        ),
    ],
)
def test_the_width_that_the_keys_say(keys, rotary_dim):
    for given in (PLAIN | keys, with_attributes(PLAIN | keys)):
        want = RotaryPositionEmbedding(rotary_dim).inv_freq
        assert torch.equal(from_config(given).inv_freq, want)


def test_a_key_is_read_whichever_class_holds_it(transformers):
    """transformers 5.17 ignores both: MiniMax-M2's model turns all 128 (its issue 48241)."""
    assert from_config(transformers.MiniMaxM2Config(head_dim=128, rotary_dim=32)).rotary_dim == 32
    config = transformers.LlamaConfig(partial_rotary_factor=0.5, head_dim=128)
    assert from_config(config).rotary_dim == 64


# what a class would add


def test_what_the_error_about_a_file_advises_works(tmp_path, transformers):
    """Of a `config.json` as it is downloaded, read by hand."""
    rope = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0, ORIGINAL: 1024}
    want = transformers.LlamaConfig(head_dim=64, rope_parameters=rope)
    want.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match=r"^config is of type dict with model_type ") as error:
        from_config(config)
    ways = {
        "AutoConfig.from_pretrained(folder)": transformers.AutoConfig.from_pretrained(tmp_path),
        ".for_model(**config) of a dict": transformers.AutoConfig.for_model(**config),
        "the same keys without model_type": {x: y for x, y in config.items() if x != "model_type"},
    }
    for advice, given in ways.items():
        assert advice in str(error.value)
        assert torch.equal(from_config(given).inv_freq, from_config(want).inv_freq)


def test_whose_class_a_configuration_is(transformers):
    """That of its model_type, a subclass of it, or one of one's own; not another, nor the base."""

    class Mine(transformers.LlamaConfig):
        model_type = "mine"

    class Same(transformers.LlamaConfig):
        pass

    for kind in (Mine, Same):
        assert from_config(kind(head_dim=64)).rotary_dim == 64
    base = transformers.PretrainedConfig.from_dict(PLAIN | {"model_type": "llama"})
    other = transformers.LlamaConfig()
    other.model_type = "glm"
    for config in (base, other, with_attributes(PLAIN | {"model_type": "a_model_of_tomorrow"})):
        with pytest.raises(ValueError, match="without the defaults of its class; accepted: "):
            from_config(config)


# which pairs turn


def test_models_that_rotate_neighbors_ask_for_the_pairing(transformers):
    """Frequencies alone would silently turn the wrong pairs."""

    class Derived(transformers.CohereConfig):
        pass

    for config in (transformers.GlmConfig(), Derived(), transformers.Llama4TextConfig()):
        words = "^interleaved is missing, .* have interleaved pairs; accepted: interleaved=True"
        with pytest.raises(TypeError, match=words):
            from_config(config)
        for interleaved in (True, False):
            assert from_config(config, interleaved=interleaved).interleaved is interleaved
    assert not from_config(transformers.LlamaConfig()).interleaved


def test_all_families_that_rotate_neighbors_are_known():
    by_rules = {name for rule in RULES if rule.interleaved for name in families_of(rule)}
    without_a_rule = {"codegen", "deepseek_v2", "gptj", "llama4"}  # two of them by complex products
    assert set(ROTATE_NEIGHBORS) == by_rules | without_a_rule


# what is refused: keys, a type of layer, the beginning of the message

YARN = {"rope_type": "yarn", "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4}
LONG = {"rope_type": "longrope", "short_factor": [2.0] * 64, "long_factor": [3.0] * 64}
NOT_POSITIVE = "accepted: a positive number below infinity"
OF_PAIRS = "accepted: 64 positive numbers, one per rotated pair"
NOT_WHOLE = "accepted: a positive integer"
TYPES = "accepted: default, linear, dynamic, yarn, "

NOT_READ = [  # A rotation's own word is no key because it looks like one.
    ({"rope_theta": 1e4, "attn_factor": 0.5} | YARN, "attn_factor"),
    (LINEAR | {"factr": 4.0}, "factr"),
    ({"factor": 4.0}, "factor"),
    (LINEAR | {ORIGINAL: 1024}, ORIGINAL),
    (YARN | {"alpha": 1e3}, "alpha"),
    (LONG | {"short_mscale": 1.24}, "short_mscale"),  # PhiMoE's, which follows the length
    ({"xdrope_section": [16, 16, 16, 16]}, "xdrope_section"),  # HunYuan-VL's: no rotation
    (DYNAMIC | {"beta_fast": 32}, "beta_fast"),
    (DYNAMIC | {"alpha": 1e3}, "alpha"),  # HunYuan's larger base, whatever the length
    ({"full_attention": None}, "full_attention"),  # of layers that don't rotate: which are asked?
]
OUTSIDE_NOT_READ = {
    "rotary_pct": 0.25,
    "rope_pct": 0.25,
    "partial_rotary_facter": 0.5,
    "rope_type": "yarn",
    "mrope_section": [16, 24, 24],
    "use_dynamic_ntk": True,
    "use_rope": False,  # says something, too
    "RotaryBase": 500,
    "rope_local_base_freq": 1e4,  # Gemma 3's, as first published
    "per_layer_config": {"05": {"head_dim": 512}},  # Gemma 4's, which a class has read
}
OF_A_ROTATION = [
    *[({"rope_theta": x}, f"rope_theta is {x!r}; {NOT_POSITIVE}") for x in (0, "1e4", True)],
    *[({"rope_theta": x}, f"rope_theta is {x!r}; {NOT_POSITIVE}") for x in (math.inf, math.nan)],
    ({"rope_theta": torch.ones(2)}, f"rope_theta is a tensor of shape (2,); {NOT_POSITIVE}"),
    ({"rope_theta": None}, f"rope_theta is None; {NOT_POSITIVE}"),
    *[({"rope_type": x}, f"rope_type is {str(x)!r}; {TYPES}") for x in ("axial", 3, ["yarn"])],
    ({"type": "axial"}, f"rope_type is 'axial'; {TYPES}"),
    ({"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5; accepted: a positive number"),
    ({"partial_rotary_factor": 0.0}, f"partial_rotary_factor is 0.0; {NOT_POSITIVE}"),
    ({"rope_type": "linear"}, f"factor is None; {NOT_POSITIVE}"),
    (DYNAMIC | {"factor": 0}, f"factor is 0; {NOT_POSITIVE}"),
    (YARN | {"factor": -2}, f"factor is -2; {NOT_POSITIVE}"),
    ({"type": "yarn"}, f"factor is None; {NOT_POSITIVE}"),
    (YARN | {"beta_fast": -1}, f"beta_fast is -1; {NOT_POSITIVE}"),
    (YARN | {"truncate": "no"}, "truncate is 'no'; accepted: False, True"),
    (YARN | {"attention_factor": 0}, f"attention_factor is 0; {NOT_POSITIVE}"),
    (YARN | {"mscale": "1", "mscale_all_dim": 1}, f"mscale is '1'; {NOT_POSITIVE}"),
    (YARN | {ORIGINAL: 0}, f"{ORIGINAL} is 0; {NOT_POSITIVE}"),
    (YARN | {"rope_theta": 1}, "rope_type is 'yarn', whose formula divides by 0; accepted: "),
    (LONG | {ORIGINAL: 1}, "rope_type is 'longrope', whose formula divides by 0; accepted: "),
    (LLAMA3 | {"low_freq_factor": None}, f"low_freq_factor is None; {NOT_POSITIVE}"),
    (LONG | {"long_factor": 2.0}, f"long_factor is 2.0; {OF_PAIRS}"),
    (LONG | {"long_factor": None}, f"long_factor is None; {OF_PAIRS}"),
    (LONG | {"short_factor": [1.0] * 48}, "short_factor is [1.0, 1.0, 1.0, "),
    (LONG | {"long_factor": [1.0, "x"] * 32}, f"long_factor is 'x'; {NOT_POSITIVE}"),
    (LONG | {"factor": "8", "attention_factor": 1.0}, f"factor is '8'; {NOT_POSITIVE}"),
]
BARE = {"head_dim": 64, "rope_theta": 1e4}
TWO_TYPES = {"full_attention": LINEAR, "sliding_attention": {"rope_theta": 500.0}}
LAYERED = LLAMA | {"rope_parameters": TWO_TYPES}
NOT_BESIDE = "which is not read next to dicts of layer types"
OF_LAYERS = "layer_type is {}; accepted: 'full_attention', 'sliding_attention'"
REFUSED = [
    *[
        (PLAIN | {place: rope}, None, f"{key} is .*, which is not read by '.*'; accepted: .*type")
        for rope, key in NOT_READ
        for place in ("rope_parameters", "rope_scaling")
    ],
    *[
        (PLAIN | {key: x}, None, f"{key} is .*, which is not read here; accepted: .* rope_theta")
        for key, x in OUTSIDE_NOT_READ.items()
    ],
    *[(config_of(rope), None, re.escape(said)) for rope, said in OF_A_ROTATION],
    (PLAIN | {"head_dim": "64"}, None, f"head_dim is '64'; {NOT_WHOLE}"),
    (PLAIN | {"head_dim": 64.5}, None, f"head_dim is 64.5; {NOT_WHOLE}"),
    (PLAIN | {"rotary_dim": True}, None, f"rotary_dim is True; {NOT_WHOLE}"),
    (PLAIN | {"num_attention_heads": 2.5}, None, f"num_attention_heads is 2.5; {NOT_WHOLE}"),
    *[
        (
            part | {"rope_theta": 1e4},
            None,
            "config has no head dimension; accepted: head_dim, or hid",
        )
        for part in ({}, {"hidden_size": 64}, {"num_attention_heads": 8}, {"head_dim": None})
    ],
    (BARE | {"rope_scaling": DYNAMIC}, None, f"max_position_embeddings is None; {NOT_POSITIVE}"),
    (
        PLAIN | {"head_dim": 2, "rope_scaling": DYNAMIC},
        None,
        "rope_type is 'dynamic', .* by 0; accepted: other values than rotary_dim=2, rope_theta=1",
    ),
    (BARE | {"rope_scaling": YARN}, None, f"{ORIGINAL} is None; {NOT_POSITIVE}"),
    ({"text_config": PLAIN}, None, "config has a text_config, but no head_dim; acc"),
    (LLAMA, None, f"rope_theta is None; {NOT_POSITIVE}"),
    (LLAMA | {"rope_parameters": "yarn"}, None, "rope_parameters is 'yarn'; accepted: a dict"),
    (PLAIN | {"rope_scaling": "yarn"}, None, "rope_scaling is 'yarn'; accepted: a dict"),
    (LAYERED, None, OF_LAYERS.format(None)),
    (LAYERED, "full", OF_LAYERS.format("'full'")),
    (LAYERED, 3, OF_LAYERS.format(3)),
    (LAYERED, "full_attention", f"rope_theta is None; {NOT_POSITIVE}"),
    (LAYERED | {ORIGINAL: 512}, "full_attention", f"{ORIGINAL} is 512, {NOT_BESIDE}"),
    (
        LLAMA | {"rope_parameters": {"full": LINEAR, "rope_theta": 5e5}},
        "full",
        f"rope_theta is 500000.0, {NOT_BESIDE}",
    ),
    (
        LLAMA | {"rope_parameters": {"full": LINEAR | {"factr": 4.0}}},
        "full",
        "factr is 4.0, which is not read by 'linear'; accepted: ",
    ),
    (PLAIN | {"rotary_dim": 7}, None, "7 elements of a head rotate, by rotary_dim; accepted: an"),
    (PLAIN | {"num_attention_heads": 3000}, None, "1 elements of a head rotate, by hidden_size"),
    (
        PLAIN | {"head_dim": 6, "partial_rotary_factor": 0.5},
        None,
        "3 elements of a head rotate, by head_dim; accepted: an even",
    ),
]


@pytest.mark.parametrize("config, layer_type, said", REFUSED)
def test_what_does_not_fit_is_named(config, layer_type, said):
    for given in (config, with_attributes(config)):
        with pytest.raises((ValueError, TypeError), match=f"^{said}"):
            from_config(given, layer_type)


def test_a_key_outside_the_dict_that_is_none_is_not_there():
    unsaid = from_config(PLAIN | dict.fromkeys(OUTSIDE_NOT_READ))
    assert torch.equal(unsaid.inv_freq, RotaryPositionEmbedding(128).inv_freq)


NO_CONFIGURATIONS = (None, "a/path", Path("config.json"), 3, [PLAIN], torch.nn.Linear(2, 2))


@pytest.mark.parametrize("config", NO_CONFIGURATIONS, ids=str)
def test_what_is_no_configuration_is_named(config):
    came = f"^config is of type {type(config).__name__}; accepted: a model's configuration, or a d"
    with pytest.raises(TypeError, match=came):
        from_config(config)


OF_CLASSES = {
    "GPT2Config": "^rope_theta is None; accepted: ",
    "DINOv3ViTConfig": "^config is for images .*; accepted: the model's own ",
    "Gemma3Config": r"; accepted: config\.text_config$",
    "Gemma3TextConfig": "; accepted: 'sliding_attention', 'full_attention'$",
    "GraniteSWAConfig": r"^layer_rope_theta is \[.*, which is not read here; accepted: ",
}


@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_class_of_transformers_that_does_not_fit(name, transformers):
    """Such as newcomers try."""
    with pytest.raises(ValueError, match=OF_CLASSES[name]):
        from_config(getattr(transformers, name)())
