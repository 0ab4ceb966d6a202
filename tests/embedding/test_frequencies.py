"""The table of angles: its values, and that it stays fp32 wherever the module goes."""

import copy
import io
import weakref

import pytest
import torch
from torch import nn

from rope_kernels import RotaryPositionEmbedding, rope_fw

TRAINED, FACTOR = 8, 4.0  # a model trained on 8 positions, interpolated to 32


def table_fp64(positions, rotary_dim, base=10000.0):
    """position * base ** (-2 i / d2) for both halves, by RoFormer's formula in fp64."""
    pair = torch.arange(rotary_dim // 2, dtype=torch.float64)
    angle = positions.double()[:, None] * base ** (-2 * pair / rotary_dim)
    return torch.cat((angle, angle), dim=1)[:, None, None, :]


def table_of_transformer_engine(module, max_seq_len, offset=0):
    """The arithmetic of TransformerEngine's forward, in its order, on its dtypes."""
    inv_freq = 1.0 / (
        module.rotary_base
        ** (torch.arange(0, module.rotary_dim, 2, dtype=torch.float32) / module.rotary_dim)
    )
    seq = torch.arange(max_seq_len, dtype=inv_freq.dtype) + offset
    trained = module.pretrained_max_position_embeddings
    factor = module.seq_len_interpolation_factor
    if trained is not None and factor is not None:
        if max_seq_len > trained * factor:
            seq *= 1 / (max_seq_len / trained)
        else:
            seq *= 1 / factor
    freqs = torch.einsum("i,j->ij", seq, inv_freq)
    if module.interleaved:
        emb = torch.stack((freqs.view(-1, 1), freqs.view(-1, 1)), dim=-1).view(max_seq_len, -1)
    else:
        emb = torch.cat((freqs, freqs), dim=-1)
    return emb.reshape(max_seq_len, 1, 1, -1)


def assert_close_to_fp64(got, want):
    torch.testing.assert_close(got.double().cpu(), want, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("base", (10000.0, 500.0, 1e6))
@pytest.mark.parametrize("dim", (2, 8, 30, 128))
def test_values(dim, base):
    got = RotaryPositionEmbedding(dim, rotary_base=base)(300)
    assert_close_to_fp64(got, table_fp64(torch.arange(300), dim, base))


@pytest.mark.parametrize("percent,rotary_dim", ((1.0, 64), (0.5, 32), (0.25, 16), (0.66, 42)))
def test_rotary_percent_cuts_the_dimension_not_the_frequencies(percent, rotary_dim):
    """The exponent is divided by d2, not by d: the slowest pair stays near 1 / base."""
    got = RotaryPositionEmbedding(64, percent)(5)
    assert got.shape == (5, 1, 1, rotary_dim)
    assert_close_to_fp64(got, table_fp64(torch.arange(5), rotary_dim))


CASES = {
    "plain": {},
    "partial": {"rotary_percent": 0.5},
    "base": {"rotary_base": 500000.0},
    "interleaved": {"interleaved": True},
    "interpolated": {
        "seq_len_interpolation_factor": FACTOR,
        "pretrained_max_position_embeddings": TRAINED,
    },
    "interpolated by thirds": {
        "seq_len_interpolation_factor": 3.0,
        "pretrained_max_position_embeddings": 7,
        "interleaved": True,
    },
}


@pytest.mark.parametrize("max_seq_len,offset", ((1, 0), (21, 0), (22, 0), (32, 3), (333, 1000)))
@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES.keys())
def test_bit_equal_to_transformer_engines_arithmetic(arguments, max_seq_len, offset):
    module = RotaryPositionEmbedding(36, **arguments)
    got = module(max_seq_len, offset=offset)
    assert torch.equal(got, table_of_transformer_engine(module, max_seq_len, offset))


@pytest.mark.parametrize("arguments", (CASES["interpolated"], CASES["interpolated by thirds"]))
def test_interpolated_to_every_length_bit_for_bit(arguments):
    module = RotaryPositionEmbedding(6, **arguments)
    for length in range(1, 400):
        assert torch.equal(module(length), table_of_transformer_engine(module, length)), length


def test_halves_are_alike_and_interleaved_pairs_are_alike():
    half_split = RotaryPositionEmbedding(8)(6)
    assert torch.equal(half_split[..., :4], half_split[..., 4:])
    interleaved = RotaryPositionEmbedding(8, interleaved=True)(6)
    assert torch.equal(interleaved[..., 0::2], half_split[..., :4])
    assert torch.equal(interleaved[..., 1::2], half_split[..., :4])


def test_offset_shifts_the_positions():
    module = RotaryPositionEmbedding(16)
    assert torch.equal(module(5, offset=7), module(12)[7:])
    assert torch.equal(module(5), module(5, offset=0))


# position interpolation


def interpolated():
    return RotaryPositionEmbedding(
        16, seq_len_interpolation_factor=FACTOR, pretrained_max_position_embeddings=TRAINED
    )


@pytest.mark.parametrize("length", (1, 8, 9, 32))
def test_up_to_the_threshold_positions_are_divided_by_the_factor(length):
    assert_close_to_fp64(interpolated()(length), table_fp64(torch.arange(length) / FACTOR, 16))


@pytest.mark.parametrize("length", (33, 40, 100))
def test_past_the_threshold_the_whole_sequence_is_squeezed_into_the_trained_length(length):
    positions = torch.arange(length) / (length / TRAINED)
    assert_close_to_fp64(interpolated()(length), table_fp64(positions, 16))
    assert interpolated()(length).max() < TRAINED


def test_the_offset_is_divided_too():
    got = interpolated()(4, offset=8)
    assert_close_to_fp64(got, table_fp64(torch.arange(8, 12) / FACTOR, 16))


def test_the_trained_length_alone_has_no_effect():
    """Many configurations give it, interpolated or not."""
    module = RotaryPositionEmbedding(16, pretrained_max_position_embeddings=8)
    assert torch.equal(module(100), RotaryPositionEmbedding(16)(100))


def test_the_factor_alone_is_refused():
    """TransformerEngine ignores it, and the model runs without interpolation."""
    message = r"^seq_len_interpolation_factor is 4\.0 without pretrained_max_position_embeddings; "
    with pytest.raises(ValueError, match=message):
        RotaryPositionEmbedding(16, seq_len_interpolation_factor=4.0)


# dtype and device


def test_shape_and_dtype(device):
    table = RotaryPositionEmbedding(24).to(device)(7, 2)
    assert table.shape == (7, 1, 1, 24) and table.dtype == torch.float32
    assert table.device.type == device and not table.requires_grad


@pytest.mark.parametrize("cast", ("half", "bfloat16", "double", "float"))
def test_a_cast_of_the_module_leaves_the_angles_exact(cast):
    module = RotaryPositionEmbedding(32)
    before = module(1000)
    assert getattr(module, cast)() is module
    assert module.inv_freq.dtype == torch.float32
    assert torch.equal(module(1000), before)


@pytest.mark.parametrize("learnt", (False, True))
def test_a_cast_leaves_a_parameter_in_its_place_exact(learnt, device):
    module = RotaryPositionEmbedding(32)
    module.inv_freq = nn.Parameter(module.inv_freq, requires_grad=learnt)
    before = module(1000).detach()
    module.to(device, torch.bfloat16)
    assert isinstance(module.inv_freq, nn.Parameter) and module.inv_freq.requires_grad is learnt
    assert module.inv_freq.dtype == torch.float32 and module.inv_freq.device.type == device
    torch.testing.assert_close(module(1000).detach().cpu(), before, rtol=1e-6, atol=1e-6)


def test_a_cast_of_the_parent_leaves_the_angles_exact(device):
    parent = nn.Sequential(nn.Linear(3, 3), RotaryPositionEmbedding(32))
    before = parent[1](1000)
    parent.to(device, torch.bfloat16)
    assert parent[0].weight.dtype == torch.bfloat16
    assert parent[1].inv_freq.dtype == torch.float32
    assert parent[1].inv_freq.device.type == device
    assert torch.equal(parent[1](1000).cpu(), before)
    assert torch.equal(copy.deepcopy(parent)[1](1000).cpu(), before)
    assert dict(parent.named_buffers())["1.inv_freq"] is parent[1].inv_freq


def test_a_cast_that_moves_too_moves_the_angles():
    module = RotaryPositionEmbedding(8).to("meta", torch.bfloat16)
    assert module.inv_freq.device.type == "meta" and module.inv_freq.dtype == torch.float32


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_autocast_leaves_the_angles_exact(dtype, device):
    module = RotaryPositionEmbedding(32).to(device)
    before = module(1000)
    with torch.autocast(device, dtype=dtype):
        assert torch.equal(module(1000), before)


def test_inv_freq_is_the_one_thing_in_its_state():
    """So weights saved with TransformerEngine's or any earlier module load, bit for bit."""
    module = RotaryPositionEmbedding(16, rotary_base=500.0)
    state = module.state_dict()
    assert list(state) == ["inv_freq"] and not list(module.parameters())
    assert state["inv_freq"].dtype == torch.float32 and state["inv_freq"].shape == (8,)
    other = RotaryPositionEmbedding(16)
    assert not torch.equal(other(100), module(100))
    other.load_state_dict(state)
    assert torch.equal(other(100), module(100))


def test_a_cast_that_loads_nothing_new_keeps_one_tensor():
    """No cast, no copy: whoever holds inv_freq holds the module's."""
    module = RotaryPositionEmbedding(16)
    held = module.inv_freq
    assert module.float().to("cpu").inv_freq is held


def test_moves_with_to(device):
    module = RotaryPositionEmbedding(16)
    before = module(50)
    assert torch.equal(module.to(device)(50).cpu(), before)
    assert module.to("meta")(50).device.type == "meta"


# errors


BAD_ARGUMENTS = [
    ({"dim": 0}, "dim = 0 .* accepted: an even number"),
    ({"dim": -8}, "dim = -8 .* accepted: an even number"),
    ({"dim": 7}, "dim = 7 .* accepted: an even number"),
    ({"dim": 1}, "dim = 1 .* accepted: an even number"),
    ({"dim": 10, "rotary_percent": 0.5}, "dim = 10 and rotary_percent = 0.5 give 5 "),
    ({"dim": 10, "rotary_percent": 0.1}, "rotary_percent = 0.1 give 1 .* at least 2"),
    ({"rotary_percent": 0.0}, "rotary_percent is 0.0; accepted: a number above 0, up to 1"),
    ({"rotary_percent": -0.5}, "rotary_percent is -0.5; accepted: a number above 0, up to 1"),
    ({"rotary_percent": 1.5}, "rotary_percent is 1.5; accepted: a number above 0, up to 1"),
    (
        {"rotary_percent": float("nan")},
        "rotary_percent is nan; accepted: a number above 0, up to 1",
    ),
    ({"rotary_base": 0.0}, "rotary_base is 0.0; accepted: .*positive"),
    ({"rotary_base": None}, "rotary_base is None; accepted: a positive number"),
    ({"rotary_base": -1.0}, "rotary_base is -1.0; accepted: .*positive"),
    ({"seq_len_interpolation_factor": 0.0}, "seq_len_interpolation_factor is 0.0; accepted: "),
    ({"seq_len_interpolation_factor": -2.0}, "seq_len_interpolation_factor is -2.0; accepted: "),
    ({"pretrained_max_position_embeddings": 0}, "pretrained_max_position_embeddings is 0; "),
    ({"pretrained_max_position_embeddings": -1}, "pretrained_max_position_embeddings is -1; "),
    ({"rotary_base": 1e-300}, "inv_freq has the value inf; accepted: finite numbers"),
]


@pytest.mark.parametrize("arguments,message", BAD_ARGUMENTS, ids=lambda value: str(value)[:50])
def test_a_bad_argument_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        RotaryPositionEmbedding(**{"dim": 16, **arguments})


@pytest.mark.parametrize("length", (0, 1))
def test_a_table_of_none_or_one(length):
    for module in (RotaryPositionEmbedding(16), interpolated()):
        assert module(length).shape == (length, 1, 1, 16)


def test_a_negative_length_is_named():
    with pytest.raises(ValueError, match="max_seq_len is -1; accepted: "):
        RotaryPositionEmbedding(16)(-1)


@pytest.mark.parametrize("make", ("__call__", "angles_per_pair", "cos_sin_per_pair"))
def test_a_tensor_in_place_of_a_length_is_told_what_to_do(make):
    """As one calls a layer; it was "Boolean value of Tensor with more than one value"."""
    q = torch.randn(2, 5, 3, 16)
    came = r"^max_seq_len is a tensor of shape \(2, 5, 3, 16\); accepted: a number of positions"
    with pytest.raises(TypeError, match=came + r".* apply_rotary_pos_emb\(t, freqs\)"):
        getattr(RotaryPositionEmbedding(16), make)(q)


def test_a_length_may_be_a_number_in_a_tensor():
    module = RotaryPositionEmbedding(16)
    assert torch.equal(module(torch.tensor(5)), module(5))


def test_persistent_must_be_a_bool():
    with pytest.raises(TypeError, match=r"^persistent is 'no'; accepted: False, True$"):
        RotaryPositionEmbedding(16, persistent="no")


# frequencies of a subclass


class Slower(RotaryPositionEmbedding):
    """Frequencies of rotary_base, divided: assigned."""

    def __init__(self, dim, divisor=8.0, **options):
        self.divisor = divisor
        super().__init__(dim, **options)

    def reset_parameters(self):
        super().reset_parameters()
        self.inv_freq = self.inv_freq / self.divisor


class Even(RotaryPositionEmbedding):
    """Frequencies of its own, written in place, without a call of the method that it overrides."""

    def reset_parameters(self):
        with torch.no_grad():
            self.inv_freq.copy_(torch.linspace(1, 0.1, len(self.inv_freq), device="cpu"))


def built_directly(kind):
    return kind(16)


def built_on_the_meta_device(kind):
    with torch.device("meta"):
        return kind(16).to_empty(device="cpu")


def built_in_inference_mode(kind):
    with torch.inference_mode():
        return kind(16)


OWN = {
    Slower: RotaryPositionEmbedding(16).inv_freq / 8,
    Even: torch.linspace(1, 0.1, 8),
    RotaryPositionEmbedding: 10000.0 ** (-torch.arange(0, 1, 0.125)),
}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize(
    "build", (built_directly, built_on_the_meta_device, built_in_inference_mode)
)
def test_a_subclass_has_its_own_frequencies_however_it_is_built(build, kind, device):
    module, t = build(kind).to(device), torch.randn(5, 1, 2, 16, device=device)
    torch.testing.assert_close(module.inv_freq.cpu(), OWN[kind])
    plain = RotaryPositionEmbedding(16).to(device)
    plain.inv_freq = module.inv_freq.clone()
    assert torch.equal(rope_fw(t, module), rope_fw(t, plain))


def test_a_subclass_follows_rotary_base():
    module = Slower(16)
    module.rotary_base = 500.0
    assert torch.equal(module.inv_freq, RotaryPositionEmbedding(16, rotary_base=500.0).inv_freq / 8)


# rotary_base, and what the module says of itself


def test_an_assigned_rotary_base_sets_the_frequencies(device):
    module, t = RotaryPositionEmbedding(16).to(device), torch.randn(5, 1, 2, 16, device=device)
    inv_freq = module.inv_freq
    rope_fw(t, module)
    module.rotary_base = 5e5
    want = RotaryPositionEmbedding(16, rotary_base=5e5).to(device)
    assert module.rotary_base == 5e5 and module.inv_freq is inv_freq
    assert torch.equal(inv_freq, want.inv_freq)
    assert torch.equal(rope_fw(t, module), rope_fw(t, want))


@pytest.mark.parametrize("bad", (0.0, -1.0, None, "10000", 1e-300), ids=str)
def test_a_bad_rotary_base_changes_nothing(bad):
    module = RotaryPositionEmbedding(16)
    before = module.inv_freq.clone()
    with pytest.raises(
        ValueError, match=r"^(rotary_base is .*positive|inv_freq has the value inf)"
    ):
        module.rotary_base = bad
    assert module.rotary_base == 10000.0 and torch.equal(module.inv_freq, before)


@pytest.mark.parametrize("name", ("rotary_base", "_rotary_base"))
def test_a_module_that_was_saved_when_rotary_base_was_a_plain_attribute(name):
    module = RotaryPositionEmbedding(16, rotary_base=500.0)
    state = module.__getstate__()
    del state["_source"]
    state[name] = 500.0
    older = RotaryPositionEmbedding.__new__(RotaryPositionEmbedding)
    older.__setstate__(state)
    assert older.rotary_base == 500.0
    older.reset_parameters()
    assert torch.equal(older.inv_freq, module.inv_freq)


WORDS = {
    "rotary_dim=16, rotary_base=10000.0": {"dim": 16},
    "rotary_dim=8, rotary_base=500.0, interleaved=True": {
        **{"dim": 16, "rotary_percent": 0.5},
        **{"rotary_base": 500.0, "interleaved": True},
    },
    "rotary_dim=16, rotary_base=10000.0, seq_len_interpolation_factor=4.0, "
    "pretrained_max_position_embeddings=8": {"dim": 16, **CASES["interpolated"]},
    "rotary_dim=16, rotary_base=10000.0, persistent=False": {"dim": 16, "persistent": False},
}


@pytest.mark.parametrize("words", WORDS)
def test_a_module_says_what_it_is(words, device):
    module = RotaryPositionEmbedding(**WORDS[words])
    for kept in (module, module.to(device), copy.deepcopy(module), module.to("meta")):
        assert repr(kept) == f"RotaryPositionEmbedding({words})"


OTHER_FREQUENCIES = {
    "a checkpoint": lambda module, other: module.load_state_dict(other.state_dict()),
    "assigned": lambda module, other: setattr(module, "inv_freq", other.inv_freq),
    "in place": lambda module, other: module.inv_freq.copy_(other.inv_freq),
    "fewer": lambda module, other: setattr(module, "inv_freq", other.inv_freq[:4]),
}


@pytest.mark.parametrize("change", OTHER_FREQUENCIES.values(), ids=OTHER_FREQUENCIES)
def test_a_module_with_frequencies_of_another_base_does_not_say_that_base(change, device):
    module = RotaryPositionEmbedding(16).to(device)
    change(module, RotaryPositionEmbedding(16, rotary_base=10_010.0).to(device))
    assert repr(module).endswith("rotary_base=10000.0 (inv_freq has other frequencies))")
    module.rotary_base = 500.0
    assert repr(module).endswith("rotary_base=500.0)")


# not in the state


def test_frequencies_that_are_not_saved():
    """A checkpoint without them loads, as all of Hugging Face's are."""
    module = RotaryPositionEmbedding(16, rotary_base=500.0, persistent=False)
    assert list(module.state_dict()) == []
    model = nn.Sequential(nn.Linear(2, 2), module)
    model.load_state_dict(nn.Sequential(nn.Linear(2, 2)).state_dict())
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "inv_freq"'):
        module.load_state_dict({"inv_freq": torch.rand(8).bfloat16()})


@pytest.mark.parametrize("persistent", (False, True))
def test_whether_frequencies_are_saved_survives_changes_and_copies(persistent):
    module = RotaryPositionEmbedding(16, persistent=persistent)
    module.inv_freq = torch.rand(8)
    module.reset_parameters()
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    with torch.device("meta"):
        on_meta = RotaryPositionEmbedding(16, persistent=persistent)
    loaded = torch.load(file, weights_only=False)
    for kept in (
        module,
        module.half(),
        copy.deepcopy(module),
        loaded,
        on_meta.to_empty(device="cpu"),
    ):
        assert list(kept.state_dict()) == ["inv_freq"] * persistent


def test_turns_know_frequencies_that_lie_where_others_lay():
    """Same address, same version: a slice of the same memory, or memory that was given back."""
    t, big = torch.randn(5, 1, 2, 8), torch.rand(8)
    module = RotaryPositionEmbedding(8)
    for frequencies in (big[:4], big[::2]):
        module.inv_freq = frequencies
        fresh = RotaryPositionEmbedding(8)
        fresh.inv_freq = frequencies.clone()
        assert torch.equal(rope_fw(t, module), rope_fw(t, fresh))


def test_turns_know_frequencies_that_became_fewer():
    module, t = RotaryPositionEmbedding(8), torch.randn(5, 1, 2, 8)
    rope_fw(t, module)
    module.inv_freq, module.rotary_dim = module.inv_freq[:2], 4
    fresh = RotaryPositionEmbedding(8)
    fresh.inv_freq, fresh.rotary_dim = module.inv_freq.clone(), 4
    assert torch.equal(rope_fw(t, module), rope_fw(t, fresh))


def test_the_frequencies_that_turns_were_made_from_are_kept():
    """Else their address could be taken by the next ones."""
    module, t = RotaryPositionEmbedding(8), torch.randn(5, 1, 2, 8)
    module.inv_freq = module.inv_freq * 1
    rope_fw(t, module)
    made_from = weakref.ref(module.inv_freq)
    module.register_buffer("inv_freq", module.inv_freq * 2)  # which the next call will notice
    assert made_from() is not None
