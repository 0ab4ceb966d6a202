"""What the module refuses: the message names the argument, what came and what is accepted."""

import math

import numpy as np
import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, sum_of_squares

D = 8
POSITIVE = "accepted: a positive number below infinity"
AXES = r"accepted: a list or tensor of d2 / 2 = 4 integers from 0 to 15"
OF_THE_CONSTRUCTOR = [
    ({"dim": None}, "dim is None; accepted: a positive integer"),
    ({"dim": "8"}, "dim is '8'; accepted: a positive integer"),
    ({"dim": 8.7}, r"dim is 8\.7; accepted: a positive integer"),
    ({"dim": True}, "dim is True; accepted: a positive integer"),
    ({"dim": math.inf}, "dim is inf; accepted: a positive integer"),
    ({"dim": torch.tensor([8, 8])}, r"dim is tensor\(\[8, 8\]\); accepted: a positive integer"),
    ({"rotary_percent": None}, "rotary_percent is None; accepted: a number above 0, up to 1"),
    ({"rotary_percent": "1"}, "rotary_percent is '1'; accepted: a number above 0, up to 1"),
    ({"rotary_base": True}, f"rotary_base is True; {POSITIVE}"),
    ({"rotary_base": "1e4"}, f"rotary_base is '1e4'; {POSITIVE}"),
    ({"attention_factor": True}, f"attention_factor is True; {POSITIVE}"),
    ({"inv_freq": torch.ones(4).to_sparse()}, "inv_freq has layout torch.sparse_coo; accepted: "),
    ({"axes": torch.zeros(2, 2).int()}, rf"axes has shape \(2, 2\); {AXES}"),
    ({"axes": torch.zeros(4, device="meta").int()}, f"axes is on meta; {AXES}"),
]


@pytest.mark.parametrize("arguments, message", OF_THE_CONSTRUCTOR, ids=lambda x: str(x)[:40])
def test_of_the_constructor(arguments, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        RotaryPositionEmbedding(**{"dim": D, **arguments})


@pytest.mark.parametrize("dim", (8.0, np.int64(8), torch.tensor(8).item()))
def test_a_head_dimension_that_is_whole(dim):
    assert RotaryPositionEmbedding(dim).rotary_dim == 8
    assert type(RotaryPositionEmbedding(dim).rotary_dim) is int


@pytest.mark.parametrize("value", (0, -1.0, math.nan, "2", [2], True), ids=str)
@pytest.mark.parametrize(
    "name", ("seq_len_interpolation_factor", "pretrained_max_position_embeddings")
)
def test_an_assigned_interpolation(name, value):
    module = RotaryPositionEmbedding(
        D, seq_len_interpolation_factor=2.0, pretrained_max_position_embeddings=4
    )
    before = getattr(module, name)
    with pytest.raises(ValueError, match=f"^{name} is .*; {POSITIVE}$"):
        setattr(module, name, value)
    assert getattr(module, name) == before
    setattr(module, name, None)
    assert torch.equal(module(9), RotaryPositionEmbedding(D)(9))


@pytest.mark.parametrize("value", (None, [1.0] * 4, 3), ids=str)
def test_assigned_frequencies_that_are_no_tensor(value):
    module = RotaryPositionEmbedding(D)
    with pytest.raises(TypeError, match=r"^inv_freq is of type .*; accepted: torch.Tensor$"):
        module.inv_freq = value
    module(3)


@pytest.mark.parametrize("value", (None, "5", 5.5, True, math.inf, torch.tensor(2.5)), ids=str)
@pytest.mark.parametrize("make", ("__call__", "angles_per_pair", "cos_sin_per_pair"))
def test_a_length_that_is_no_integer(make, value):
    make = getattr(RotaryPositionEmbedding(D), make)
    with pytest.raises(TypeError, match=r"^max_seq_len is .*; accepted: an integer from 0$"):
        make(value)
    with pytest.raises(TypeError, match=r"^offset is .*; accepted: an integer$"):
        make(3, offset=value)
    assert len(make(np.int64(3), offset=torch.tensor(-2))[0]) in (1, 3)


@pytest.mark.parametrize("dtype", (None, torch.int64, torch.complex64, "float32"), ids=str)
def test_a_dtype_that_holds_no_cosines(dtype):
    module = RotaryPositionEmbedding(D)
    for make, where in ((module.cos_sin_per_pair, 3), (module.cos_sin_at, torch.arange(3))):
        with pytest.raises(TypeError, match=r"^dtype is .*; accepted: float32, float16, bfloat16"):
            make(where, dtype=dtype)


@pytest.mark.parametrize("ids", ("x", None, torch.rand(3)), ids=("str", "None", "float"))
def test_adapt_of_frequencies_that_do_not_adapt(ids):
    """Otherwise the mistake shows once the configuration asks for 'dynamic'."""
    with pytest.raises(TypeError, match=r"^position_ids is .*; accepted: a tensor of integers$"):
        RotaryPositionEmbedding(D).adapt(ids)


@pytest.mark.parametrize(
    "t, error, message",
    [
        ([1.0], TypeError, "t is of type list; accepted: torch.Tensor"),
        (torch.ones(2, 3).long(), TypeError, "t has dtype int64; accepted: float32, float16"),
        (torch.ones(2, 3).to_sparse(), ValueError, "t has layout torch.sparse_coo; accepted: "),
    ],
    ids=("list", "integers", "sparse"),
)
def test_sum_of_squares(t, error, message):
    with pytest.raises(error, match=f"^{message}"):
        sum_of_squares(t)
