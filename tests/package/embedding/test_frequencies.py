"""The table of angles: its values. A module: what survives copies, casts, files and new memory."""

import copy
import io
import pickle
from functools import partial

import pytest
import torch
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import set_model_state_dict

from inputs import OTHER_DEFAULTS, other_defaults
from rope_kernels import RotaryPositionEmbedding, rope_fw
from test_turns import AT_ONCE, CHANGES


def table_of_transformer_engine(module, base, max_seq_len, offset=0):
    """The arithmetic of TransformerEngine's forward, in its order, on its dtypes."""
    inv_freq = 1.0 / (
        base ** (torch.arange(0, module.rotary_dim, 2, dtype=torch.float32) / module.rotary_dim)
    )
    seq = torch.arange(max_seq_len, dtype=inv_freq.dtype) + offset
    freqs = torch.einsum("i,j->ij", seq, inv_freq)
    if module.interleaved:
        emb = torch.stack((freqs.view(-1, 1), freqs.view(-1, 1)), dim=-1).view(max_seq_len, -1)
    else:
        emb = torch.cat((freqs, freqs), dim=-1)
    return emb.reshape(max_seq_len, 1, 1, -1)


CASES = {
    "plain": {},
    "partial": {"rotary_percent": 0.5},
    "base": {"rotary_base": 500000.0},
    "interleaved": {"interleaved": True},
}


@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES.keys())
def test_bit_equal_to_transformer_engines_arithmetic(arguments):
    module = RotaryPositionEmbedding(36, **arguments)
    base = arguments.get("rotary_base", 10000.0)
    for length in range(1, 100):
        for offset in (0, 1000):
            want = table_of_transformer_engine(module, base, length, offset)
            assert torch.equal(module(length, offset), want), length


@pytest.mark.parametrize("dtype, device", OTHER_DEFAULTS)
def test_defaults_of_pytorch_change_no_angle(dtype, device):
    module = RotaryPositionEmbedding(36, rotary_base=500.0)
    ids = torch.tensor([3, 10**9])
    want = module(9), *module.cos_sin(9), *module.cos_sin(ids), *module.cos_sin(ids.double())
    with other_defaults(dtype, device):
        made = RotaryPositionEmbedding(36, rotary_base=500.0)
        got = module(9), *module.cos_sin(9), *module.cos_sin(ids), *module.cos_sin(ids.double())
    for x, y in zip(got, want, strict=True):
        assert x.dtype == torch.float32 and torch.equal(x, y)
    made = made.to_empty(device="cpu") if device == "meta" else made
    assert torch.equal(made.inv_freq, module.inv_freq)


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


# what happens to a module


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


GIVEN = torch.linspace(1, 0.1, 8)
Saved = partial(RotaryPositionEmbedding, persistent=True)
KINDS = {
    "a base": partial(Saved, 16, rotary_base=500.0, interleaved=True),
    "a part": partial(Saved, 32, 0.5),
    "a factor": partial(RotaryPositionEmbedding, 16, attention_factor=1.2),
    "given": partial(Saved, 16, inv_freq=GIVEN),
    "given with a factor": partial(  # as a configuration's
        RotaryPositionEmbedding, 16, attention_factor=1.2, inv_freq=GIVEN
    ),
    "a subclass that assigns": partial(Slower, 16, persistent=True),
    "a subclass that writes": partial(Even, 16, persistent=True),
}
SAVED = tuple(name for name in KINDS if "factor" not in name)


def through_a_file(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def in_new_memory(module):
    """From the meta device; PyTorch's deterministic mode fills new memory with NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        nn.Sequential(module).to_empty(device="cpu")
    finally:
        torch.use_deterministic_algorithms(False)
    return module


def made_on_the_meta_device(make):
    with torch.device("meta"):
        module = make()
    module.reset_parameters()
    assert module.inv_freq.is_meta
    return in_new_memory(module)


def made_in_inference_mode(make):
    with torch.inference_mode():
        return make()


def in_a_model(make):
    model = nn.Sequential(nn.Linear(3, 3), make())
    copy.deepcopy(model).to("meta", torch.bfloat16)
    model.to(torch.bfloat16)
    assert model[0].weight.dtype == torch.bfloat16
    return model[1]


def loaded(make):
    """Of whatever it may save. As weights of TransformerEngine's module."""
    module, state = make(), make().state_dict()
    if state:
        module.inv_freq = torch.rand(8)
    model = nn.Sequential(nn.Linear(2, 2), module)
    model.load_state_dict(nn.Sequential(nn.Linear(2, 2)).state_dict(), strict=not state)
    module.load_state_dict(state)
    return module


def changed_and_reset(make):
    module = make()
    module.inv_freq = torch.rand(8)
    module.reset_parameters()
    return module


WAYS = {
    "half": lambda make: make().half(),
    "double": lambda make: make().double(),
    "float": lambda make: make().float().to("cpu"),
    "deepcopy": lambda make: copy.deepcopy(make()),
    "pickle": lambda make: pickle.loads(pickle.dumps(make())),
    "a file": lambda make: through_a_file(make()),
    "to meta": lambda make: in_new_memory(make().to("meta")),
    "made on meta": made_on_the_meta_device,
    "inference mode": made_in_inference_mode,
    "shared memory": lambda make: make().share_memory(),
    "in a model": in_a_model,
    "a state dict": loaded,
    "reset": changed_and_reset,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_what_survives(way, kind, device):
    """Frequencies in fp32, and all that the module says."""
    want, got = KINDS[kind](), WAYS[way](KINDS[kind])
    assert got.inv_freq.dtype == torch.float32 and torch.equal(got.inv_freq, want.inv_freq)
    assert repr(got) == repr(want) and got.attention_factor == want.attention_factor
    assert list(got.state_dict()) == list(want.state_dict()) and not [*got.parameters()]
    assert list(got.state_dict()) == ["inv_freq"] * (kind in SAVED)
    ids = torch.tensor([[1, 90]], device=device)
    t = torch.randn(2, 1, 2, want.rotary_dim, device=device)
    where = {"position_ids": ids, "interleaved": want.interleaved}
    assert torch.equal(rope_fw(t, got.to(device), **where), rope_fw(t, want.to(device), **where))


@pytest.mark.parametrize("learnt", (False, True))
def test_a_cast_leaves_a_parameter_in_its_place_exact(learnt, device):
    module = RotaryPositionEmbedding(32)
    module.inv_freq = nn.Parameter(module.inv_freq, requires_grad=learnt)
    before = module(1000).detach()
    module.to(device, torch.bfloat16)
    assert isinstance(module.inv_freq, nn.Parameter) and module.inv_freq.requires_grad is learnt
    assert module.inv_freq.dtype == torch.float32 and module.inv_freq.device.type == device
    torch.testing.assert_close(module(1000).detach().cpu(), before, rtol=1e-6, atol=1e-6)


# what a module prints


REPLACED = AT_ONCE | {"in place": CHANGES["in place"]}
CHANGED = "RotaryPositionEmbedding(rotary_dim=8, inv_freq changed)"


@pytest.mark.parametrize("change", REPLACED.values(), ids=REPLACED)
def test_a_module_prints_its_base_while_its_frequencies_are_those(change, device):
    module = RotaryPositionEmbedding(8, rotary_base=500.0).to(device)
    before, text = module.inv_freq.clone(), repr(module)
    assert text == "RotaryPositionEmbedding(rotary_dim=8, rotary_base=500.0)"
    change(module, torch.rand(4, device=device))
    for now in (module, copy.copy(module), copy.deepcopy(module), through_a_file(module)):
        assert repr(now) == CHANGED
    change(module, before.clone())
    assert repr(module) == text
    change(module, torch.rand(4, device=device))
    module.reset_parameters()
    assert repr(module) == text
    module.inv_freq = before[:2]
    assert repr(module) == CHANGED
    module.inv_freq = nn.Parameter(before.double())
    assert repr(module) == text


# in a checkpoint


def through_a_folder(model, state, folder):
    """As a distributed checkpoint, of which only keys of the model's state are read."""
    checkpoint.save(state, checkpoint_id=folder)
    read = model.state_dict()
    checkpoint.load(read, checkpoint_id=folder)
    model.load_state_dict(read)


LOADERS = {
    "copied": lambda model, state, folder: model.load_state_dict(state),
    "assigned": lambda model, state, folder: model.load_state_dict(state, assign=True),
    "set": lambda model, state, folder: set_model_state_dict(model, state),
    "distributed": through_a_folder,
}


@pytest.mark.parametrize("is_saved", (False, True), ids=("without", "with"))
@pytest.mark.parametrize("persistent", (False, True))
@pytest.mark.parametrize("load", LOADERS)
def test_strict_loading(load, persistent, is_saved, tmp_path):
    """Of a checkpoint with frequencies that were assigned, and without: both ways round."""
    old, model = (
        nn.Sequential(nn.Linear(2, 2), RotaryPositionEmbedding(16, persistent=x))
        for x in (is_saved, persistent)
    )
    before, new = model[1].inv_freq.clone(), torch.rand(8)
    old[1].inv_freq = new
    state = old.state_dict()
    assert ("1.inv_freq" in state) == is_saved
    if persistent and not is_saved:
        with pytest.raises((RuntimeError, CheckpointException), match="Missing key"):
            LOADERS[load](model, state, tmp_path)
        return
    LOADERS[load](model, state, tmp_path)
    assert torch.equal(model[0].weight, old[0].weight)
    is_read = is_saved and (persistent or load != "distributed")
    assert torch.equal(model[1].inv_freq, new if is_read else before)
    assert ("1.inv_freq" in model.state_dict()) == persistent
    keys = model.load_state_dict(state | {"1.other": new}, strict=False)
    assert keys.unexpected_keys == ["1.other"] and not keys.missing_keys


def test_learned_frequencies_are_saved_as_a_parameter():
    module, new = RotaryPositionEmbedding(16), torch.rand(8)
    module.inv_freq = nn.Parameter(new)
    state = module.state_dict()
    assert list(state) == ["inv_freq"]
    for options in ({}, {"persistent": True}):
        other = RotaryPositionEmbedding(16, **options)
        other.load_state_dict(state)
        assert torch.equal(other.inv_freq, new) and not [*other.parameters()]
    other = RotaryPositionEmbedding(16)
    other.load_state_dict(module.state_dict(keep_vars=True), assign=True)
    assert list(other.state_dict()) == list(dict(other.named_parameters())) == ["inv_freq"]
    with pytest.raises(RuntimeError, match="Missing key"):
        module.load_state_dict({})


def test_a_hook_that_stops_the_loading_changes_nothing_of_what_is_saved():
    module = RotaryPositionEmbedding(16)
    module.register_load_state_dict_pre_hook(lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        module.load_state_dict({"inv_freq": torch.rand(8)})
    assert not module.state_dict()
