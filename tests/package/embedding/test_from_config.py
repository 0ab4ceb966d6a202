"""`from_config`: the frequencies of transformers, bit for bit. Errors: test_config_keys.py."""

import copy
from types import SimpleNamespace

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from inputs import OTHER_DEFAULTS, other_defaults
from rope_kernels import RotaryPositionEmbedding

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


def either(*values):
    return st.sampled_from(values)


FACTOR = either(1.0, 2, 4.0, 8.0, 32, 40) | st.floats(1, 64)
ALWAYS = {  # keys of a type; those of the others: a factor
    "default": {},
    "yarn": {"factor": FACTOR | st.none()},
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
        "mscale": either(0, 0.707, 1.0),
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
    """With a length, too, which chooses them once for sequences of every length."""
    depends = []

    @hypothesis.settings(max_examples=2 * hypothesis.settings.default.max_examples)
    @hypothesis.given(configs(rope_type))
    def has_their_bits(config):
        theirs = transformers.LlamaConfig(**copy.deepcopy(config))
        module = assert_same_as(transformers, theirs)
        most = config["max_position_embeddings"]
        original = theirs.rope_parameters.get("original_max_position_embeddings", most)
        for length in (1, original, original + 1, most + 1, 3 * most):
            long = assert_same_as(transformers, theirs, seq_len=length)
            depends.append(not torch.equal(long.inv_freq, module.inv_freq))
        for given in (config, with_attributes(config)):
            again = from_config(given)
            assert torch.equal(again.inv_freq, module.inv_freq)
            assert again.attention_factor == module.attention_factor

    has_their_bits()
    assert any(depends) == (rope_type in ("dynamic", "longrope"))


@pytest.mark.parametrize("rope_type", SCALED)
@pytest.mark.parametrize("dtype, device", OTHER_DEFAULTS)
@hypothesis.given(data=st.data())
def test_defaults_of_pytorch_change_nothing(data, dtype, device, rope_type):
    """transformers sets the dtype while it loads a model. On the meta device nothing has a value
    until `to_empty`."""
    config = data.draw(configs(rope_type))
    for length in (None, 2**30):
        want = from_config(config, seq_len=length)
        with other_defaults(dtype, device):
            got = from_config(config, seq_len=length)
        assert got.inv_freq.device.type == device and got.inv_freq.dtype == torch.float32
        assert got.attention_factor == want.attention_factor
        got = got.to_empty(device="cpu") if device == "meta" else got
        assert torch.equal(got.inv_freq, want.inv_freq)


@pytest.mark.parametrize("length", (0, -1, True, "4096", 2**63, torch.tensor(3)), ids=str)
def test_a_length_that_is_none(length):
    """Also for frequencies that don't depend on it: the next configuration's may."""
    with pytest.raises(
        ValueError, match=r"^seq_len is .*; accepted: a positive number below infinity$"
    ):
        from_config(config_of({}), seq_len=length)


@pytest.mark.parametrize("rope_type", SCALED)
@hypothesis.given(data=st.data())
def test_numbers_of_numpy_are_those_of_python(data, rope_type):
    """In a configuration, as an experiment's settings may be, and as a length."""

    def of_numpy(value):
        if isinstance(value, dict):
            return {key: of_numpy(x) for key, x in value.items()}
        if isinstance(value, list):
            return [*map(of_numpy, value)]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        return np.int32(value) if isinstance(value, int) else np.float64(value)

    config = data.draw(configs(rope_type))
    for length in (100, 2**20):
        want = from_config(config, seq_len=length)
        for seq_len in (np.int64(length), np.float32(length), np.int32(length)):
            got = from_config(of_numpy(config), seq_len=seq_len)
            assert torch.equal(got.inv_freq, want.inv_freq)
            assert got.attention_factor == want.attention_factor
            assert type(got.attention_factor) is float and repr(got) == repr(want)


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


def test_the_original_length_beside_a_flat_dict_counts(transformers):
    """Phi 3 has it in both places. A dict for a type of layer has its own."""
    key, rope = "original_max_position_embeddings", {"rope_type": "yarn", "factor": 4.0}
    config = config_of(rope | {key: 512}, **{key: 1024})
    theirs = transformers.LlamaConfig(**copy.deepcopy(config))
    module = assert_same_as(transformers, theirs)
    assert torch.equal(from_config(config).inv_freq, module.inv_freq)
    assert torch.equal(module.inv_freq, from_config(config_of(rope | {key: 1024})).inv_freq)
    own = from_config(config_of(rope | {key: 512})).inv_freq
    assert not torch.equal(module.inv_freq, own)
    config["rope_parameters"] = {"full_attention": config["rope_parameters"]}
    assert torch.equal(from_config(config, "full_attention").inv_freq, own)


def test_a_layer_that_does_not_rotate():
    for others in ({}, {"sliding_attention": LINEAR}):
        config = LLAMA | {"rope_parameters": {"full_attention": None} | others}
        assert from_config(config, "full_attention") is None


# frequencies that the caller gives


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_given_frequencies(dtype, device):
    given = torch.rand(4, dtype=dtype, device=device)
    module = RotaryPositionEmbedding(16, 0.5, inv_freq=given)
    kept = given.clone()
    given.zero_()
    assert torch.equal(module.inv_freq.to(device), kept) and module.inv_freq.dtype == dtype
    assert repr(module).startswith("RotaryPositionEmbedding(rotary_dim=8, inv_freq given")
    module.inv_freq = torch.ones(4)
    module.reset_parameters()
    assert torch.equal(module.inv_freq.to(device), kept)
