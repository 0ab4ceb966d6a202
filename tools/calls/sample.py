"""A sample of calls to compile: every kernel, and each feature that changes them."""

from dataclasses import dataclass

from .call import SPLIT, TO_CACHE, Cache, Call, Module, Norm

FORWARD, BACKWARD, SUM = 0, 1, 2  # the place among the launches of a call
TABLE = {"freqs": "table of module"}
PER_PAIR = TABLE | {"one_column_per_pair": True, "rotary_dim_is_named": True}
ANGLES_PER_PAIR = PER_PAIR | {"module": Module(cos_and_sin=False)}
PACKED = {"tensor_format": "thd", "cu_seqlens": [0, 10, 64], "cu_seqlens_dtype": "int64"}


@dataclass(frozen=True)
class Sample:
    """A call, and which of its launches is compiled."""

    call: Call
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
    return {
        "norm of q and k": Sample(Call("qk_norm_rope", **alone)),
        "norm, bhsd": Sample(Call("norm_rope", "bhsd", **alone)),  # limited of registers, on NVIDIA
        "norm, cosines and sines, packed": Sample(
            Call("norm_rope", **alone, **PER_PAIR, **PACKED)  # limited, too
        ),
        "norm, rounded as in a model, bhsd": Sample(
            Call("norm_rope", "bhsd", norm=Norm(), **model)
        ),
        "norm after, packed": Sample(after),
        "norm of q and k, backward": Sample(q_and_k, BACKWARD),
        "norm after, packed, backward": Sample(after, BACKWARD),
        "norm of head dimension 72, backward": Sample(
            Call("qk_norm_rope", h=3, d=72, norm=Norm()), BACKWARD
        ),
        "norm of q and k, sum of shares": Sample(q_and_k, SUM),
    }


def _rounded() -> dict[str, Sample]:
    """As PyTorch's operators round in a model: no multiply-add is fused."""
    return {"on the fly, rounded as in a model": Sample(Call("rope_fw", rounding="model"))}


def _into_a_cache() -> dict[str, Sample]:
    """Keys and values into pages."""
    sizes = {"h": 32, "k": 8, "positions": "ids", "id_range": 64}
    return {"into a cache": Sample(Call(TO_CACHE, "thd", cache=Cache(), **sizes))}


def _of_a_projection() -> dict[str, Sample]:
    """Split, and back again."""
    split = Call(SPLIT, h=32, k=8, output_format="bhsd")
    grouped = Call(SPLIT, h=32, k=8, packing="grouped", output_format="bhsd")
    return {
        "a projection to bhsd": Sample(split),
        "a projection, grouped": Sample(grouped),
        "a projection, grouped, backward": Sample(grouped, BACKWARD),
    }
