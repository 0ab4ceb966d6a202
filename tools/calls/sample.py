"""A sample of calls for the compile matrix: every kernel, and each feature that changes them."""

from dataclasses import dataclass
from functools import partial

from .call import Call, Module, Norm

FORWARD, BACKWARD, SUM = 0, 1, 2  # the place among the launches of a norm's call
TABLE = {"freqs": "table of module"}
PER_PAIR = TABLE | {"one_column_per_pair": True, "rotary_dim_is_named": True}
ANGLES_PER_PAIR = PER_PAIR | {"module": Module(cos_sin_per_pair=False)}
PACKED = {"tensor_format": "thd", "cu_seqlens": [0, 10, 64], "cu_seqlens_dtype": "int64"}


@dataclass(frozen=True)
class Sample:
    """A call, and which of its launches is compiled."""

    call: Call | partial  # what no `Call` draws is bound
    launch: int = FORWARD


def sample_calls() -> dict[str, Sample]:
    """The sample by name."""
    rotated = _one_tensor() | _pairings_and_positions() | _q_and_k() | _parts_of_rows()
    alone = {name: Sample(call) for name, call in rotated.items()}
    return alone | _with_norm() | _rounded() | _into_a_cache() | _of_a_projection()


def _one_tensor() -> dict[str, Call]:
    """Each kind of frequencies, each width of elements."""
    return {
        "table of angles": Call("rope_fw", **TABLE),
        "table of angles, backward": Call("rope_bw", **TABLE),
        "table of angles, fp32": Call("rope_fw", dtype="float32", **TABLE),
        "table of angles, fp64": Call("rope_fw", dtype="float64", **TABLE),
        "one angle per pair": Call("rope_fw", **ANGLES_PER_PAIR),
        "cosines and sines": Call("rope_fw", **PER_PAIR),
        "on the fly": Call("rope_fw"),
        "on the fly, input at an odd address": Call("rope_fw", layouts=["odd address"]),
    }


def _pairings_and_positions() -> dict[str, Call]:
    """Neighbors as pairs, orders of memory, and positions that are looked up or computed."""
    to_half = {"interleaved": True, "output_pairing": "half"}
    return {
        "interleaved": Call("rope_fw", interleaved=True),
        "interleaved to half-split, fp16": Call("rope_fw", dtype="float16", **to_half, **TABLE),
        "bhsd": Call("rope_fw", "bhsd", **TABLE),
        "half of the heads": Call("rope_fw", layouts=["half of the heads"]),
        "start positions": Call("rope_fw", positions="starts"),
        "packed sequences": Call("rope_fw", **PACKED),
        "context parallel": Call("rope_fw", cp=(2, 1)),
    }


def _q_and_k() -> dict[str, Call]:
    """Two tensors in one launch."""
    qkv = {"storage": "packed heads", "k": 8}
    return {
        "q and k of a packed qkv, in place": Call("rope_qk", "bhsd", inplace=True, **qkv),
        "q and k, position ids": Call("rope_qk", "bshd", positions="ids", id_range=64, **TABLE),
    }


def _parts_of_rows() -> dict[str, Call]:
    """Rows of which a part turns, and rows whose halves are badly aligned."""
    at_the_end = {"rotary_start": 128, "rotary_dim": 64, "inverse": True}
    return {
        "half rotary": Call("rope_fw", rotary_dim=64),
        "rotary_start 128 of 192, inverse": Call("rope_fw", d=192, **at_the_end, **ANGLES_PER_PAIR),
        "head dimension 72, q and k": Call("rope_qk", h=3, d=72, **TABLE),
        "head dimension 72, half rotary": Call("rope_fw", d=72, rotary_dim=36),
        "head dimension 80, in place": Call("rope_fw", h=40, d=80, inplace=True),
        "head dimension 100, backward": Call("rope_bw", d=100, **PER_PAIR),
        "head dimension 80, packed": Call("rope_fw", h=40, d=80, **PACKED),
        "head dimension 160": Call("rope_fw", d=160),
    }


def _with_norm() -> dict[str, Sample]:
    """Norm and rotation: the forward, the backward, and the sum of the weights' gradients."""
    alone = {"norm": Norm(), "mode": "no_grad"}  # keeps nothing for a backward
    rounded = {"freqs": "cos, sin", "freqs_dtype": "bfloat16", "one_column_per_pair": True}
    model = rounded | {"rotary_dim_is_named": True, "rounding": "model", "mode": "no_grad"}
    q_and_k = Call("qk_norm_rope", norm=Norm())
    after = Call("norm_rope", norm=Norm(norm_after=True), **PACKED)
    all_heads = Norm(weight="per head", sums="all heads", norm_dim_is_named=True)
    return {
        "norm of q and k": Sample(Call("qk_norm_rope", **alone)),
        "norm, bhsd": Sample(Call("norm_rope", "bhsd", **alone)),  # limited of registers, on NVIDIA
        "norm, cosines and sines, packed": Sample(
            Call("norm_rope", **alone, **PER_PAIR, **PACKED)  # limited, too
        ),
        "norm, rounded as in a model, bhsd": Sample(
            Call("norm_rope", "bhsd", norm=Norm(weight="per head"), **model)
        ),
        "norm after, packed": Sample(after),
        "norm of q and k, backward": Sample(q_and_k, BACKWARD),
        "norm after, packed, backward": Sample(after, BACKWARD),
        "norm of head dimension 72, backward": Sample(
            Call("qk_norm_rope", h=3, d=72, norm=Norm()), BACKWARD
        ),
        "norm over all heads, backward": Sample(Call("norm_rope", norm=all_heads), BACKWARD),
        "norm of q and k, sum of shares": Sample(q_and_k, SUM),
    }


def _rounded() -> dict[str, Sample]:
    """As PyTorch's operators round in a model: no multiply-add is fused."""
    return {"on the fly, rounded as in a model": Sample(Call("rope_fw", rounding="model"))}


def _into_a_cache() -> dict[str, Sample]:
    """Keys and values into pages of 16 positions, with a norm and without."""
    import torch

    from rope_kernels import RotaryPositionEmbedding, rope_to_cache

    bf16 = {"dtype": torch.bfloat16}
    q, (k, v) = torch.empty(64, 32, 128, **bf16), torch.empty(2, 64, 8, 128, **bf16)
    caches = torch.empty(2, 8, 16, 8, 128, **bf16)
    given = q, k, v, RotaryPositionEmbedding(128), *caches, torch.arange(64)
    write = partial(rope_to_cache, *given, position_ids=torch.arange(64))
    weight = torch.ones(128, **bf16)
    normalize = {"q_weight": weight, "k_weight": weight, "return_k": True}
    return {
        "into a cache": Sample(write),
        "norm, into a cache, keys returned": Sample(partial(write, **normalize)),
    }


def _of_a_projection() -> dict[str, Sample]:
    """Split, with a norm and without, and back again."""
    import torch

    from rope_kernels import RotaryPositionEmbedding, split_qkv_rope

    bf16 = {"dtype": torch.bfloat16}
    qkv, rope = torch.empty(64, 2, 48 * 128, **bf16), RotaryPositionEmbedding(128)
    split = partial(split_qkv_rope, qkv, rope, 32, 8, output_format="bhsd")
    q_weight, k_weight = torch.ones(2, 128, **bf16, requires_grad=True).unbind()
    norm = {"packing": "grouped", "q_weight": q_weight, "k_weight": k_weight}
    trained = partial(split_qkv_rope, qkv.clone().requires_grad_(), *split.args[1:])
    with_norm = partial(trained, **norm)
    return {
        "a projection to bhsd": Sample(split),
        "a projection, grouped, with a norm": Sample(with_norm),
        "a projection, grouped, with a norm, backward": Sample(with_norm, BACKWARD),
    }
