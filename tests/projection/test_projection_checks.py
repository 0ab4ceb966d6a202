"""What `split_qkv_rope` refuses: a sentence with the argument's name, before any launch."""

import pytest
import torch

from projections import HEADS, KV_HEADS, D, projection
from rope_kernels import RotaryPositionEmbedding, split_qkv_rope

WIDTH = (HEADS + 2 * KV_HEADS) * D
REFUSED = {
    "no tensor": ({"qkv": lambda x: x.tolist()}, TypeError, "qkv is of type list"),
    "integers": ({"qkv": lambda x: x.long()}, TypeError, "qkv has dtype int64"),
    "heads apart": (
        {"qkv": lambda x: x.unflatten(-1, (-1, D))},
        ValueError,
        r"qkv has shape \(7, 2, 12, 20\); accepted: \(s, b, heads of q, k and v together \* d\)",
    ),
    "a width that heads don't divide": (
        {"qkv": lambda x: x[..., 1:]},
        ValueError,
        rf"\(7, 2, {WIDTH - 1}\); accepted: a last dimension of 12 heads, 6 of q and 3 each",
    ),
    "no such packing": ({"packing": "kqv"}, ValueError, "packing is 'kqv'; accepted: qkv, grouped"),
    "a packing that is no word": ({"packing": 3}, ValueError, "packing is 3"),
    "bhsd in": ({"tensor_format": "bhsd"}, ValueError, "tensor_format is 'bhsd'; accepted: sbhd,"),
    "thd out of sbhd": ({"output_format": "thd"}, ValueError, "output_format is 'thd'"),
    "no heads": ({"num_heads": 0}, ValueError, "num_heads is 0; accepted: an integer from 1, bel"),
    "a bool": ({"num_kv_heads": True}, TypeError, "num_kv_heads is True"),
    "half a head": ({"num_kv_heads": 1.5}, ValueError, "num_kv_heads is 1.5"),
    "groups of unequal size": (
        {"packing": "grouped", "num_heads": 4, "num_kv_heads": 3},
        ValueError,
        "num_heads is 4, and num_kv_heads 3; accepted: with packing='grouped'",
    ),
    "a norm": ({"q_weight": torch.ones(D)}, TypeError, "unexpected keyword argument 'q_weight'"),
    "a rounding of a norm": (
        {"rounding": "model_cast_last"},
        ValueError,
        "rounding is 'model_cast_last'",
    ),
    "in place": ({"inplace": True}, TypeError, "unexpected keyword argument 'inplace'"),
    "too short a table": ({"freqs": lambda x: torch.zeros(6, 1, 1, D)}, ValueError, "s2 = 6"),
    "no freqs": ({"freqs": None}, TypeError, "freqs is of type NoneType"),
    "too wide a table": ({"freqs": lambda x: torch.zeros(7, 1, 1, D + 2)}, ValueError, "d2 = 22"),
    "positions of other tokens": (
        {"position_ids": torch.zeros(7, 2, dtype=torch.long)},
        ValueError,
        r"position_ids has shape \(7, 2\)",
    ),
    "an unknown format, with a start": (
        {"tensor_format": "shdb", "start_positions": 1},
        ValueError,
        "tensor_format is 'shdb'",
    ),
    "a nested tensor, with a start": (
        {"qkv": lambda qkv: torch.nested.nested_tensor([*qkv]), "start_positions": 1},
        ValueError,
        "qkv has layout of a nested tensor",
    ),
    "sequences of a dense batch": (
        {"cu_seqlens": torch.tensor([0, 7])},
        ValueError,
        "cu_seqlens came with tensor_format 'sbhd'",
    ),
}


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_refused_before_a_launch(case, fused, device, monkeypatch):
    from rope_kernels.launch import launch

    monkeypatch.setattr(launch, "run", lambda *given: pytest.fail("launched"))
    changes, error, words = case
    qkv = projection("sbhd", torch.float32, device)
    given = {
        "qkv": qkv,
        "freqs": RotaryPositionEmbedding(D).to(device),
        "num_heads": HEADS,
        "num_kv_heads": KV_HEADS,
        "fused": fused,
    }
    for name, change in changes.items():
        value = change(qkv) if callable(change) else change
        given[name] = value.to(device) if isinstance(value, torch.Tensor) else value
    with pytest.raises(error, match=words):
        split_qkv_rope(**given)


def test_a_position_past_the_table_is_an_error_on_the_cpu():
    qkv, ids = projection("bshd", torch.float32, "cpu"), torch.full((2, 7), 9)
    with pytest.raises(ValueError, match="the last position in use needs 10"):
        table = torch.zeros(8, 1, 1, D)
        options = {"tensor_format": "bshd", "position_ids": ids}
        split_qkv_rope(qkv, table, HEADS, KV_HEADS, **options)
