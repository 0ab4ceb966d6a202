"""What the module refuses: the message names the argument, what came and what is accepted."""

import math
import re
from fractions import Fraction
from numbers import Integral

import numpy as np
import pytest
import torch

from rope_kernels import RotaryPositionEmbedding

D = 8
POSITIVE = "accepted: a positive number below infinity"
NO_SHARES = 0.0, -0.5, 1.5, math.nan, None, "1", True
SHARE = "accepted: a number above 0, up to 1; a base is rotary_base"
OF_A_CONFIGURATION = "accepted: a positive integer; pass a configuration to huggingface.from_config"
NOT_POSITIVE = (0.0, -1.0, None, True, "1e4", math.nan, math.inf, np.True_, np.float32(-1))
NOT_POSITIVE += (Fraction(10**400), Fraction(1, 10**400), np.float64(0))
OF_THE_CONSTRUCTOR = [
    *[({"dim": x}, f"dim is {x!r}; accepted: a positive integer") for x in (None, "8", 8.7, True)],
    ({"dim": math.inf}, "dim is inf; accepted: a positive integer"),
    # such as frequencies, which are inv_freq
    *[
        ({name: torch.ones(64)}, f"{name} is a tensor of shape (64,); accepted: a ")
        for name in ("dim", "rotary_percent", "rotary_base", "attention_factor")
    ],
    # A module of transformers is made of a model's configuration.
    ({"dim": {"head_dim": 8}}, f"dim is of type dict; {OF_A_CONFIGURATION}"),
    ({"dim": type("LlamaConfig", (), {})()}, f"dim is of type LlamaConfig; {OF_A_CONFIGURATION}"),
    *[({"dim": x}, f"dim = {x} and rotary_percent = 1.0 give {x} rotary") for x in (0, -8, 7, 1)],
    ({"dim": 10, "rotary_percent": 0.5}, "dim = 10 and rotary_percent = 0.5 give 5 rotary"),
    ({"rotary_percent": 0.2}, "dim = 8 and rotary_percent = 0.2 give 1 rotary dimensions; acc"),
    *[({"rotary_percent": x}, f"rotary_percent is {x!r}; {SHARE}") for x in NO_SHARES],
    *[({"rotary_base": x}, f"rotary_base is {x!r}; {POSITIVE}") for x in NOT_POSITIVE],
    ({"rotary_base": 1e-300}, "inv_freq has the value inf; accepted: finite numbers"),
    ({"attention_factor": True}, f"attention_factor is True; {POSITIVE}"),
    ({"persistent": "no"}, "persistent is 'no'; accepted: False, True"),
    ({"inv_freq": [1.0] * 4}, "inv_freq is of type list; accepted: torch.Tensor"),
    ({"inv_freq": torch.ones(3)}, "inv_freq has shape (3,), but d2 is 8; accepted: (4,)"),
    *[
        ({"inv_freq": torch.tensor([1, 1, x, 1])}, f"inv_freq has the value {x}; accepted: finite")
        for x in (math.nan, math.inf, -math.inf)
    ],
    (
        {"inv_freq": torch.ones(4, device="meta")},
        "inv_freq is on meta, without values; accepted: frequencies created with device='cpu'",
    ),
    ({"inv_freq": torch.ones(4).to_sparse()}, "inv_freq has layout torch.sparse_coo; accepted: "),
    (
        {"inv_freq": torch.nested.nested_tensor([torch.ones(4)])},
        "inv_freq has layout of a nested tensor; accepted: torch.strided",
    ),
    (
        {"inv_freq": torch.ones(4), "rotary_base": 500.0},
        "rotary_base is 500.0, and inv_freq was passed; accepted: one of them",
    ),
]


@pytest.mark.parametrize("arguments, message", OF_THE_CONSTRUCTOR, ids=lambda x: str(x)[:40])
def test_of_the_constructor(arguments, message):
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(message)}"):
        RotaryPositionEmbedding(**{"dim": D, **arguments})


# assigned later


def test_an_assignment_that_is_refused_changes_nothing():
    module = RotaryPositionEmbedding(D, attention_factor=1.5)
    before = module.inv_freq.clone()
    with pytest.raises(TypeError, match=r"^inv_freq is of type list; accepted: torch.Tensor$"):
        module.inv_freq = [1.0] * 4
    for value in (0, "2"):
        message = f"attention_factor is {value!r}; {POSITIVE}"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            module.attention_factor = value
    assert module.attention_factor == 1.5 and torch.equal(module.inv_freq, before)


CHOSEN_ONCE = {
    "dim": 16,
    "rotary_percent": 0.5,
    "rotary_dim": 4,
    "rotary_base": 5e5,
    "persistent": False,
    "config": {},
    "layer_type": "full_attention",
    "seq_len": 2**17,
}


@pytest.mark.parametrize("name", CHOSEN_ONCE)
def test_what_an_assignment_would_not_change_is_refused(name):
    module = RotaryPositionEmbedding(D, rotary_base=500.0)
    message = f"^{name} was assigned, which has no effect; accepted: a new module"
    for value in (CHOSEN_ONCE[name], None):
        with pytest.raises(AttributeError, match=message):
            setattr(module, name, value)
    assert not hasattr(module, name) or name == "rotary_dim"
    assert module.rotary_dim == D and "rotary_base=500.0" in repr(module)


def test_interleaved_may_be_assigned():
    module, other = RotaryPositionEmbedding(D), RotaryPositionEmbedding(D, interleaved=True)
    with pytest.raises(TypeError, match=r"^interleaved is 'yes'; accepted: False, True$"):
        module.interleaved = "yes"
    module.interleaved = True
    assert torch.equal(module(5), other(5)) and repr(module) == repr(other)


def test_a_subclass_may_keep_what_its_own_constructor_is_given():
    """As modules of models do; what this package reads stays read-only."""

    class Rotary(RotaryPositionEmbedding):
        def __init__(self, config):
            self.config, self.dim = config, config["head_dim"]
            super().__init__(self.dim, rotary_base=config["rope_theta"])
            self.rotary_base = config["rope_theta"]
            self.register_buffer("steps", torch.zeros(1))

    module = Rotary({"head_dim": D, "rope_theta": 500.0})
    assert (module.dim, module.rotary_base) == (D, 500.0)
    assert list(module.state_dict()) == ["steps"] and "persistent" not in repr(module)
    assert torch.equal(module(5), RotaryPositionEmbedding(D, rotary_base=500.0)(5))
    with pytest.raises(AttributeError, match=r"^rotary_dim was assigned"):
        module.rotary_dim = 4


OF_NUMPY = {  # numbers of the constructor: an integer of 8 bits overflows in a product, too
    "dim": (np.int8(96), np.uint8(96), np.uint64(96), np.float16(96), np.float32(96)),
    "rotary_percent": (np.float16(0.25), np.float32(0.25), np.float64(0.25), np.uint8(1)),
    "rotary_base": (np.float16(500), np.float32(500), np.longdouble(500), np.int16(500)),
    "attention_factor": (np.float16(1.5), np.float64(1.5), Fraction(3, 2), np.uint8(3)),
}


@pytest.mark.parametrize(
    "name, value", [(name, x) for name, values in OF_NUMPY.items() for x in values], ids=repr
)
def test_numbers_of_numpy_are_those_of_python(name, value):
    """Bit for bit, and as Python's numbers in what is kept and printed."""
    python = int(value) if isinstance(value, Integral) else float(value)
    arguments = {"dim": 192, "rotary_percent": 0.5}
    got, want = (RotaryPositionEmbedding(**arguments | {name: x}) for x in (value, python))
    assert repr(got) == repr(want) and type(got.rotary_dim) is int
    assert torch.equal(got.inv_freq, want.inv_freq)
    assert got.attention_factor == want.attention_factor and type(got.attention_factor) is float
    got.attention_factor = np.float32(0.5)
    assert got.attention_factor == 0.5 and type(got.attention_factor) is float


NO_LENGTHS = (None, "5", 5.5, True, math.inf, torch.tensor(2.5), torch.tensor(True), np.True_)
NO_LENGTHS += (np.float64(5),)
IDS = torch.arange(700)[None]  # as a rotary module of Hugging Face is called, (x, position_ids)
TOO_MANY = {2**62 + 1: 2**62 + 1, 2**70: 2**70, 10**5000: "of type int"}  # which has no repr
OF_A_TABLE = [
    *[((x,), r"max_seq_len is .*; accepted: an integer") for x in NO_LENGTHS],
    *[((3, x), r"offset is .*; accepted: an integer") for x in NO_LENGTHS],
    ((-1,), "max_seq_len is -1; accepted: .*"),
    (
        (torch.randn(2, 5, 3, D),),  # as one calls a layer
        r"max_seq_len is a tensor of shape \(2, 5, 3, 8\); accepted: a number of positions"
        r".* apply_rotary_pos_emb\(t, freqs, tensor_format\).*",
    ),
    ((700, IDS), r"offset is a tensor of shape \(1, 700\); accepted: an.*"),
    *[((x,), rf"max_seq_len is {y}; accepted: .* 0 to 2\^62") for x, y in TOO_MANY.items()],
    *[((2, x), rf"offset is {y}; accepted: .* -2\^62 to 2\^62") for x, y in TOO_MANY.items()],
    *[((2, -x), "offset is .*") for x in TOO_MANY],
]


@pytest.mark.parametrize("arguments, said", OF_A_TABLE, ids=range(len(OF_A_TABLE)))
def test_a_length_that_is_none(arguments, said):
    with pytest.raises((TypeError, ValueError), match=f"^{said}$"):
        RotaryPositionEmbedding(D)(*arguments)


OF_POSITIONS = "accepted: a tensor of positions, or their number, from 0 to 2^62"
BAD_POSITIONS = [
    *[(x, f"is of type {type(x).__name__}; accepted: a tensor of") for x in ([1], None, 5.5, True)],
    *[(x, f"is {y}; {OF_POSITIONS}") for x, y in ({-1: -1} | TOO_MANY).items()],
    (torch.ones(3).bfloat16(), "has dtype bfloat16; accepted: int32, int64, "),
    (torch.ones(3).bool(), "has dtype bool; accepted: int32, int64, "),
    (torch.arange(3).to_sparse(), "has layout torch.sparse_coo; accepted: torch.strided"),
    (
        torch.nested.nested_tensor([torch.ones(4)]),
        "has layout of a nested tensor; accepted: torch.strided",
    ),
    (torch.arange(3, device="meta"), "is on meta; accepted: the device of inv_freq, cpu"),
]


@pytest.mark.parametrize("positions, said", BAD_POSITIONS, ids=range(len(BAD_POSITIONS)))
def test_positions_that_are_none(positions, said):
    with pytest.raises((TypeError, ValueError), match=f"^positions {re.escape(said)}"):
        RotaryPositionEmbedding(D).cos_sin(positions)


@pytest.mark.parametrize("dtype", (None, torch.int64, torch.complex64, "float32", IDS), ids=str)
def test_a_dtype_that_holds_no_cosines(dtype):
    module = RotaryPositionEmbedding(D)
    with pytest.raises(TypeError, match=r"^dtype is .*; accepted: float32, float16, bfloat16"):
        module.cos_sin(3, dtype=dtype)
