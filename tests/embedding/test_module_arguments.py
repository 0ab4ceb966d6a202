"""What the module refuses: the message names the argument, what came and what is accepted."""

import math
import re

import numpy as np
import pytest
import torch

from rope_kernels import RotaryPositionEmbedding

D = 8
POSITIVE = "accepted: a positive number below infinity"
NO_SHARES = 0.0, -0.5, 1.5, math.nan, None, "1", True
SHARE = "accepted: a number above 0, up to 1"
IN_FP32 = "accepted: finite numbers that fp32 can hold, up to 3.4e+38"
BEYOND_FP32 = torch.full((D // 2,), -1e39, dtype=torch.float64)
NOT_POSITIVE = (0.0, -1.0, None, True, "1e4", math.nan, math.inf)
OF_THE_CONSTRUCTOR = [
    *[({"dim": x}, f"dim is {x!r}; accepted: a positive integer") for x in (None, "8", 8.7, True)],
    ({"dim": math.inf}, "dim is inf; accepted: a positive integer"),
    ({"dim": torch.tensor([8, 8])}, "dim is tensor([8, 8]); accepted: a positive integer"),
    *[({"dim": x}, f"dim = {x} and rotary_percent = 1.0 give {x} rotary") for x in (0, -8, 7, 1)],
    ({"dim": 10, "rotary_percent": 0.5}, "dim = 10 and rotary_percent = 0.5 give 5 rotary"),
    ({"rotary_percent": 0.2}, "dim = 8 and rotary_percent = 0.2 give 1 rotary dimensions; acc"),
    *[({"rotary_percent": x}, f"rotary_percent is {x!r}; {SHARE}") for x in NO_SHARES],
    *[({"rotary_base": x}, f"rotary_base is {x!r}; {POSITIVE}") for x in NOT_POSITIVE],
    ({"rotary_base": 1e-300}, "inv_freq has the value inf; accepted: finite numbers"),
    ({"attention_factor": True}, f"attention_factor is True; {POSITIVE}"),
    ({"persistent": "no"}, "persistent is 'no'; accepted: False, True"),
    ({"inv_freq": [1.0] * 4}, "inv_freq is of type list; accepted: torch.Tensor"),
    ({"inv_freq": torch.ones(4).half()}, "inv_freq has dtype float16; accepted: float32, float64"),
    ({"inv_freq": torch.full((4,), math.nan)}, "inv_freq has the value nan; accepted: finite"),
    ({"inv_freq": BEYOND_FP32}, f"inv_freq has the value -1e+39; {IN_FP32}"),
    ({"inv_freq": torch.ones(3)}, "inv_freq has shape (3,), and d2 is 8; accepted: (4,)"),
    (
        {"inv_freq": torch.ones(4), "rotary_base": 500.0},
        "rotary_base is 500.0, and inv_freq was given; accepted: one of the two",
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


@pytest.mark.parametrize("dim", (8.0, np.int64(8), torch.tensor(8).item()))
def test_a_head_dimension_that_is_whole(dim):
    assert RotaryPositionEmbedding(dim).rotary_dim == 8
    assert type(RotaryPositionEmbedding(dim).rotary_dim) is int


NO_LENGTHS = (None, "5", 5.5, True, math.inf, torch.tensor(2.5))


def test_a_length_that_is_none():
    make = RotaryPositionEmbedding(D)
    for value in NO_LENGTHS:
        with pytest.raises(TypeError, match=r"^max_seq_len is .*; accepted: an integer$"):
            make(value)
        with pytest.raises(TypeError, match=r"^offset is .*; accepted: an integer$"):
            make(3, offset=value)
    with pytest.raises(ValueError, match=r"^max_seq_len is -1; accepted: "):
        make(-1)
    came = r"^max_seq_len is a tensor of shape \(2, 5, 3, 8\); accepted: a number of positions"
    how = r".* apply_rotary_pos_emb\(t, freqs, tensor_format\)"
    with pytest.raises(TypeError, match=came + how):
        make(torch.randn(2, 5, 3, D))  # as one calls a layer


@pytest.mark.parametrize("dtype", (None, torch.int64, torch.complex64, "float32"), ids=str)
def test_a_dtype_that_holds_no_cosines(dtype):
    module = RotaryPositionEmbedding(D)
    with pytest.raises(TypeError, match=r"^dtype is .*; accepted: float32, float16, bfloat16"):
        module.cos_sin(3, dtype=dtype)
