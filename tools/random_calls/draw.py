"""Draw a call: plain data, from the seed and the number alone."""

import random
from itertools import accumulate, pairwise
from operator import add

FUNCTIONS = {  # and how often each is drawn
    "apply_rotary_pos_emb": 4,
    "rope_qk": 3,
    "rope_fw": 1,
    "rope_bw": 1.5,
    "norm_rope": 2.2,
    "qk_norm_rope": 1.9,
}
OF_NORMS = "norm_rope", "qk_norm_rope"
OF_TWO = "rope_qk", "qk_norm_rope"
FLOATS = ("float32", "bfloat16", "float16", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DIMS = ((64, 64), (16, 16), (30, 30), (80, 80), (96, 96), (100, 100), (128, 64), (100, 30), (34, 2),
        (48, 46), (256, 128), (72, 72), (96, 32), (192, 64))  # fmt: skip
LAYOUTS = ("contiguous", "contiguous", "transposed", "head dim strided", "offset", "packed",
           "expanded heads", "expanded", "negative")  # fmt: skip
# Each changes the arguments of a call into something to be refused; `mistakes.py` says how.
MISTAKES = (
    "no tensor", "integer tensor", "rank", "dtype of k", "shape of k", "format", "short table",
    "odd width", "wide table", "half table", "no freqs", "one table", "dtypes of cos and sin",
    "batch of cos", "module pairing", "interleaved type", "cp_rank", "cp_size", "cu_seqlens start",
    "cu_seqlens falls", "cu_seqlens end", "cu_seqlens dtype", "cu_seqlens rank", "cu_seqlens",
    "ids and starts", "negative id", "large id", "shape of ids", "dtype of ids", "negative start",
    "shape of starts", "start is True", "start is 1.5", "unknown option", "meta", "sparse",
    "odd rotary_dim", "large rotary_dim", "half rotary_dim", "rotary_dim is a float",
    "negative rotary_start", "large rotary_start", "inverse is 1", "output_pairing",
    "output_pairing in place",
)  # fmt: skip
NORM_MISTAKES = (
    "eps -1e-06", "eps inf", "eps nan", "eps None", "eps True", "eps '1e-6'", "weight_offset nan",
    "weight_offset None", "weight_offset True", "norm_after 1", "norm_after None",
    "rounding 'twice'", "rounding True", "norm_dim 0", "norm_dim -3", "norm_dim True",
    "norm_dim 30.0", "norm_dim 2147483648", "norm_dim (8,)", "norm_dim [8, 8]",
    "norm_dim (8, None)", "norm_dim 7", "no norm_dim", "weight is a list", "integer weight",
    "other dtype of weight", "short weight", "rank of weight", "weight of other heads",
    "weight on meta", "sumsq is a float", "half sumsq", "sumsq of rank 5", "sumsq of other heads",
    "sumsq on meta", "one sumsq", "three sums", "sumsq is a tensor",
)  # fmt: skip
# Calls that a checkout is known to answer otherwise: drawn only where `--include` names them
KNOWN = ("bf16-inv-freq", "flags", "nonfinite-inv-freq", "overlap")
KNOWN_MISTAKES = {
    "bf16 inv_freq": "bf16-inv-freq",
    "fp16 inv_freq": "bf16-inv-freq",
    "inplace is a str": "flags",
    "inplace is 1": "flags",
    "fused is a str": "flags",
    "cp_size is True": "flags",
    "NaN in inv_freq": "nonfinite-inv-freq",
    "infinite inv_freq": "nonfinite-inv-freq",
    "k overlaps q": "overlap",
    "windows": "overlap",
}


def draw(seed: int, index: int, include: tuple[str, ...] = ()) -> dict:
    """Describe call number `index`."""
    rng = random.Random(f"{seed}/{index}")
    call = {
        "function": _one_of(rng, FUNCTIONS),
        "dtype": _one_of(rng, {"float32": 4, "bfloat16": 4, "float16": 2, "float64": 1}),
        "tensor_format": rng.choice(("sbhd", "bshd", "bhsd", "thd")),
        "sizes": {
            "s": rng.randint(1, 7),
            "b": rng.choice((1, 1, 2, 3)),
            "h": rng.choice((1, 1, 2, 3)),
            "k": rng.choice((1, 1, 2)),
        },
        "layouts": rng.choices(LAYOUTS, k=2),
        "interleaved": rng.random() < 0.4,
        "inplace": rng.random() < 0.25,
        "fused": rng.random() < 0.85,
        "mode": _one_of(
            rng, {"grad": 60, "no_grad": 24, "inference": 8, "make_fx": 3, "vmap": 2, "jvp": 3}
        ),
        "times": rng.choice((1, 1, 1, 2)),
        "special values": rng.random() < 0.05,
    }
    call["sizes"]["d"], call["rotary_dim"] = rng.choice(DIMS)
    if is_norm := call["function"] in OF_NORMS:
        call["inplace"] &= rng.random() < 0.6
        call["mode"] = rng.choice((call["mode"], "grad"))  # the backward has kernels of its own
        if rng.random() < 0.4:  # more than a tile's rows, or positions
            larger = {"h": 9}, {"h": 6}, {"h": 8, "k": 4}, {"k": 5}, {"s": 16}
            call["sizes"] |= rng.choice(larger)
    if rng.random() < 0.03:
        call["sizes"][rng.choice("sbh")] = 0
    _draw_positions(rng, call)
    _draw_freqs(rng, call)
    _draw_slice(rng, call)
    _draw_gradients(rng, call)
    call["norm"] = _draw_norm(rng, call) if is_norm else None
    call["mistake"] = _draw_mistake(rng, is_norm, include)
    call["rounding"] = _one_of(rng, {None: 5, "model": 2, "promoted": 1, "upcast": 1, "once": 1})
    _draw_cp_order(rng, call)
    _draw_more_of_module(rng, call)
    return call


def _one_of(rng: random.Random, weights: dict):
    """A key, as often as its value says."""
    return rng.choices(list(weights), list(weights.values()))[0]


def _draw_positions(rng: random.Random, call: dict) -> None:
    packed, sizes = call["tensor_format"] == "thd", call["sizes"]
    call["cp"] = None
    if rng.random() < 0.25:
        size = rng.choice((2, 3))
        call["cp"] = (size, rng.randrange(size))
    last = "ids, cu_seqlens" if packed else "shared ids"
    call["positions"] = _one_of(rng, {"index": 12, "starts": 3, "one start": 1, "ids": 4, last: 2})
    call["positions dtype"] = rng.choice(INTEGERS)
    call["cu_seqlens"] = None
    if packed and call["positions"] != "ids":
        unit = 2 if call["cp"] else 1
        lengths = [unit * rng.choice((0, 0, 1, 2, 4)) for _ in range(rng.randint(1, 4))]
        padding = rng.choice((0, 0, 1, 3))
        sizes["s"] = sum(lengths) + padding
        call["cu_seqlens"] = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        call["cu_seqlens dtype"] = rng.choice(INTEGERS[:2])
    elif call["cp"] and rng.random() < 0.9:
        sizes["s"] += sizes["s"] % 2


def _draw_cp_order(rng: random.Random, call: dict) -> None:
    """In which order ranks share a sequence. Drawn last: calls in zigzag's order stay as they were.

    The other orders have no two chunks: a rank may hold an odd number of a sequence's tokens.
    """
    call["cp_order"], sizes = "zigzag", call["sizes"]
    if not call["cp"]:
        return
    call["cp_order"] = _one_of(rng, {"zigzag": 2, "contiguous": 1, "round_robin": 1})
    if call["cp_order"] == "zigzag" or rng.random() < 0.5:
        return
    if call["cu_seqlens"] is None:
        sizes["s"] |= sizes["s"] > 0  # odd, but for 0
    else:
        lengths = [end - start for start, end in pairwise(call["cu_seqlens"])]
        more = [rng.choice((0, 1)) if length else 0 for length in lengths]
        call["cu_seqlens"] = list(accumulate(map(add, lengths, more), initial=0))
        sizes["s"] += sum(more)


def _draw_freqs(rng: random.Random, call: dict) -> None:
    kinds = {"table": 4, "cos, sin": 2, "cos, sin 3-D": 2, "module": 4, "table of module": 1.5}
    call["freqs"] = _one_of(rng, kinds)
    call["one column per pair"] = call["freqs"] != "module" and rng.random() < 0.35
    call["freqs dtype"] = rng.choice(FLOATS)
    layouts = "contiguous", "offset", "strided", "expanded", "mismatched", "negative"
    call["freqs layout"] = _one_of(rng, dict(zip(layouts, (6, 2, 2, 1, 1, 1), strict=True)))
    call["extra rows"] = rng.choice((0, 0, 1, 7))
    call["first id"] = rng.choice((0, 0, 5, 100))
    left_open = call["positions"] != "index" or call["tensor_format"] == "thd"
    if left_open and rng.random() < 0.9:
        interpolation = None  # it depends on the number of positions, and would be refused
    else:
        interpolation = rng.choice((None, None, (2.0, 4), (1.5, 1000)))
    call["module"] = {
        "rotary_percent": rng.random() < 0.5,
        "interpolation": interpolation,
        "rotary_base": rng.choice((10000.0, 10000.0, 500000.0, 100)),
        "changed": _one_of(rng, {None: 8, "assigned": 1, "in place": 1, "cast": 1}),
        "cos_sin_per_pair": rng.random() < 0.5,  # of a table with one column per pair
    }


def _draw_more_of_module(rng: random.Random, call: dict) -> None:
    """Axes, an attention factor, frequencies of its own. Drawn last, as `_draw_cp_order` is."""
    drawn = call["module"]
    drawn |= {"axes": None, "ids of axes": False, "attention_factor": None, "inv_freq": None}
    is_module, per_pair = call["freqs"] == "module", call["one column per pair"]
    if is_module and rng.random() < 0.5:
        count = rng.choice((1, 2, 3, 16))
        drawn["axes"] = [rng.randrange(count) for _ in range(call["rotary_dim"] // 2)]
        drawn["ids of axes"] = "ids" in call["positions"] and rng.random() < 0.7
    if is_module or (per_pair and drawn["cos_sin_per_pair"]):  # no table of angles holds it
        drawn["attention_factor"] = rng.choice((None, None, 1.25, 0.5))
    if rng.random() < 0.25:
        drawn["inv_freq"] = rng.choice(("float32", "float64"))


def _draw_slice(rng: random.Random, call: dict) -> None:
    """Which elements turn, which way, and in which order they are written."""
    room = call["sizes"]["d"] - call["rotary_dim"]
    call["rotary_start"] = rng.randint(0, room) if rng.random() < 0.4 else 0
    named = 0.9 if call["one column per pair"] else 0.3  # unnamed, such a table turns half of it
    call["rotary_dim is named"] = rng.random() < named
    call["inverse"] = rng.random() < 0.2
    likely = (0.3 if call["interleaved"] else 0.1) if not call["inplace"] else 0.02
    call["output_pairing"] = "half" if rng.random() < likely else "same"


def _draw_gradients(rng: random.Random, call: dict) -> None:
    call["grad of"] = {
        "t": rng.random() < 0.7,
        "k": rng.random() < 0.7,
        "freqs": rng.random() < (0.05 if call["inplace"] else 0.35),
    }
    upstream = {"random": 6, "expanded": 2, "expanded heads": 1, "transposed": 2, "one output": 1}
    call["upstream"] = _one_of(rng, upstream)
    call["double backward"] = rng.random() < 0.12
    call["leaf in place"] = rng.random() < 0.15
    call["storage"] = _one_of(rng, {"separate": 4, "packed heads": 2, "packed dims": 1})


def _draw_norm(rng: random.Random, call: dict) -> dict:
    """What `norm_rope` and `qk_norm_rope` take beside the rotation."""
    grad_of, weights = call["grad of"], {"row": 6, "per head": 3, "none": 2}
    if call["function"] in OF_TWO:
        weights |= {"row and none": 1, "row and per head": 1}
    grad_of["freqs"] &= rng.random() < 0.4  # then no kernel normalizes
    grad_of["t"] |= rng.random() < 0.5
    grad_of |= {name: rng.random() < 0.7 for name in ("weight", "k_weight", "sumsq", "k_sumsq")}
    if call["inplace"] and rng.random() < 0.85:  # with a gradient it is refused
        grad_of |= dict.fromkeys(grad_of, False)
    sums = _one_of(rng, {"own": 5, "each head": 3, "all heads": 3})
    return {
        "weight": _one_of(rng, weights),
        "weight dtype": _one_of(rng, {"of t": 3, "float32": 1, "exact": 1}),
        "weight layout": _one_of(rng, {"contiguous": 4, "strided": 1, "expanded": 1}),
        "eps": rng.choice((1e-6, 1e-6, 1e-5, 1.0, 0, 0.0)),
        "weight_offset": rng.choice((0.0, 0.0, 1.0, 1, -0.25)),
        "norm_after": rng.random() < 0.3,
        "rounding": _one_of(rng, {"once": 3, "model": 0.5, "model_cast_last": 0.5}),
        "sums": sums,
        "sums of the rows": rng.random() < 0.4,  # then their gradient is one of the rows
        "sums layout": _one_of(rng, {"contiguous": 3, "transposed": 1, "expanded": 1}),
        "norm_dim is named": sums == "all heads" or rng.random() < 0.2,
        "norm_dim is a pair": rng.random() < 0.3,
    }


def _draw_mistake(rng: random.Random, is_norm: bool, include: tuple[str, ...]) -> str | None:
    if rng.random() < 0.08 + 0.04 * is_norm:
        return rng.choice(NORM_MISTAKES if is_norm and rng.random() < 0.6 else MISTAKES)
    if include and rng.random() < 0.3:
        return rng.choice([m for m, name in KNOWN_MISTAKES.items() if name in include])
    return None
