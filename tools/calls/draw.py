"""Draw a call from a seed and a number alone."""

import random
from itertools import accumulate

from .call import OF_NORMS, OF_TWO, SPLIT, TO_CACHE, Cache, Call, Module, Norm

FUNCTIONS = {  # and how often each is drawn
    "apply_rotary_pos_emb": 4,
    "rope_qk": 3,
    "rope_fw": 1,
    "rope_bw": 1.5,
    "norm_rope": 2.2,
    "qk_norm_rope": 1.9,
    SPLIT: 1.5,
    TO_CACHE: 1.5,
}
FLOATS = ("float32", "bfloat16", "float16", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DIMS = ((64, 64), (16, 16), (30, 30), (80, 80), (96, 96), (100, 100), (128, 64), (100, 30), (34, 2),
        (48, 46), (256, 128), (72, 72), (96, 32), (192, 64))  # fmt: skip
LAYOUTS = ("contiguous", "contiguous", "transposed", "head dim strided", "offset", "packed",
           "expanded heads", "expanded", "negative")  # fmt: skip
MODES = {"grad": 60, "no_grad": 24, "inference": 8, "make_fx": 3, "vmap": 2, "jvp": 3}


def draw(seed: int, index: int) -> Call:
    """Call number `index`. Some are refused: then the types of the errors are compared."""
    rng = random.Random(f"{seed}/{index}")
    d, rotary_dim = rng.choice(DIMS)
    call = Call(
        function=_one_of(rng, FUNCTIONS),
        tensor_format=rng.choice(("sbhd", "bshd", "bhsd", "thd")),
        s=rng.randint(1, 7),
        b=rng.choice((1, 1, 2, 3)),
        h=rng.choice((1, 1, 2, 3)),
        k=rng.choice((1, 1, 2)),
        d=d,
        rotary_dim=rotary_dim,
        dtype=_one_of(rng, {"float32": 4, "bfloat16": 4, "float16": 2, "float64": 1}),
        layouts=rng.choices(LAYOUTS, k=3),
        storage=_one_of(rng, {"separate": 4, "packed heads": 2, "packed dims": 1}),
        special_values=rng.random() < 0.05,
        interleaved=rng.random() < 0.4,
        inplace=rng.random() < 0.25,
        fused=rng.random() < 0.85,
        mode=_one_of(rng, MODES),
        times=rng.choice((1, 1, 1, 2)),
    )
    is_norm = call.function in OF_NORMS
    if is_norm:
        call.inplace &= rng.random() < 0.6
        call.mode = rng.choice((call.mode, "grad"))  # the backward has kernels of its own
        call.mode = "grad" if call.mode == "make_fx" else call.mode  # which records PyTorch's
        if rng.random() < 0.4:  # more than a tile's rows, or positions
            larger = {"h": 9}, {"h": 6}, {"h": 8, "k": 4}, {"k": 5}, {"s": 16}
            vars(call).update(rng.choice(larger))
    if call.function == TO_CACHE:
        call.tensor_format = "thd"
    if rng.random() < 0.03:
        setattr(call, rng.choice("sbh"), 0)
    _draw_positions(rng, call)
    _draw_freqs(rng, call)
    _draw_slice(rng, call)
    _draw_gradients(rng, call)
    call.rounding = _one_of(rng, {None: 5, "model": 2, "promoted": 1, "upcast": 1, "once": 1})
    if is_norm:
        _draw_norm(rng, call)
    if call.function == SPLIT:
        _draw_split(rng, call)
    if call.function == TO_CACHE:
        _draw_cache(rng, call)
    return call


def _one_of(rng: random.Random, weights: dict):
    """A key, as often as its value says."""
    return rng.choices(list(weights), list(weights.values()))[0]


def _draw_positions(rng: random.Random, call: Call) -> None:
    if rng.random() < 0.25 and call.function != TO_CACHE:
        size = rng.choice((2, 3))
        call.cp = (size, rng.randrange(size))
        call.cp_order = _one_of(rng, {"zigzag": 2, "contiguous": 1, "round_robin": 1})
    last = "ids, cu_seqlens" if call.packed else "shared ids"
    call.positions = _one_of(rng, {"index": 12, "starts": 3, "one start": 1, "ids": 4, last: 2})
    call.positions_dtype = rng.choice(INTEGERS)
    call.first_id = rng.choice((0, 0, 5, 100))
    # a rank has two chunks of a sequence in zigzag's order; in the others any number of tokens
    even = call.cp is not None and (call.cp_order == "zigzag" or rng.random() < 0.5)
    if call.packed and call.positions != "ids":
        lengths = [rng.choice((0, 0, 1, 2, 4)) * (1 + even) for _ in range(rng.randint(1, 4))]
        call.s = sum(lengths) + rng.choice((0, 0, 1, 3))  # padding
        call.cu_seqlens = list(accumulate(lengths, initial=0))
        call.cu_seqlens_dtype = rng.choice(INTEGERS[:2])
    elif even and rng.random() < 0.9:
        call.s += call.s % 2


def _draw_freqs(rng: random.Random, call: Call) -> None:
    kinds = {"table": 4, "cos, sin": 2, "cos, sin 3-D": 2, "module": 4, "table of module": 1.5}
    call.freqs = _one_of(rng, kinds)
    is_module = call.freqs == "module"
    call.one_column_per_pair = not is_module and rng.random() < 0.35
    call.freqs_dtype = rng.choice(FLOATS)
    layouts = "contiguous", "offset", "strided", "expanded", "mismatched", "negative"
    call.freqs_layout = _one_of(rng, dict(zip(layouts, (6, 2, 2, 1, 1, 1), strict=True)))
    call.extra_rows = rng.choice((0, 0, 1, 7))
    call.module = drawn = Module(
        rotary_percent=rng.random() < 0.5,
        rotary_base=rng.choice((10000.0, 10000.0, 500000.0, 100)),
        changed=_one_of(rng, {None: 8, "assigned": 1, "in place": 1, "cast": 1}),
        cos_and_sin=rng.random() < 0.5,
        inv_freq=rng.choice(("float32", "float64")) if rng.random() < 0.25 else None,
    )
    if is_module:
        drawn.attention_factor = rng.choice((None, None, 1.25, 0.5))  # no table of angles holds it


def _draw_slice(rng: random.Random, call: Call) -> None:
    """Which elements turn, which way, and in which order they are written."""
    call.rotary_start = rng.randint(0, call.d - call.rotary_dim) if rng.random() < 0.4 else 0
    named = 0.9 if call.one_column_per_pair else 0.3  # unnamed, such a table turns half of it
    call.rotary_dim_is_named = rng.random() < named
    call.inverse = rng.random() < 0.2
    likely = (0.3 if call.interleaved else 0.1) if not call.inplace else 0.02
    call.output_pairing = "half" if rng.random() < likely else "same"


def _draw_gradients(rng: random.Random, call: Call) -> None:
    call.grad_of = {"t": rng.random() < 0.7, "k": rng.random() < 0.7}
    upstream = {"random": 6, "expanded": 2, "expanded heads": 1, "transposed": 2, "one output": 1}
    call.upstream = _one_of(rng, upstream)
    call.double_backward = rng.random() < 0.12
    call.leaf_in_place = rng.random() < 0.15


def _draw_norm(rng: random.Random, call: Call) -> None:
    """What `norm_rope` and `qk_norm_rope` take beside the rotation."""
    grad_of, weights = call.grad_of, {"row": 6, "none": 2}
    if call.function in OF_TWO:
        weights["row and none"] = 1
    call.double_backward = False
    grad_of["t"] |= rng.random() < 0.5
    grad_of |= {name: rng.random() < 0.7 for name in ("weight", "k_weight")}
    if call.inplace and rng.random() < 0.85:  # with a gradient it is refused
        grad_of |= dict.fromkeys(grad_of, False)
    call.rounding = _one_of(rng, {"once": 3, "model": 0.5, "model_cast_last": 0.5})
    call.norm = Norm(
        weight=_one_of(rng, weights),
        weight_dtype=_one_of(rng, {"of t": 3, "float32": 1, "exact": 1}),
        weight_layout=_one_of(rng, {"contiguous": 4, "strided": 1, "expanded": 1}),
        eps=rng.choice((1e-6, 1e-6, 1e-5, 1.0, 0, 0.0)),
        weight_offset=rng.choice((0.0, 0.0, 1.0, 1, -0.25)),
        norm_after=rng.random() < 0.3,
    )


def _draw_split(rng: random.Random, call: Call) -> None:
    """How a projection packs its heads, and what its parts look like."""
    call.inplace = False
    call.tensor_format = "bshd" if call.tensor_format == "bhsd" else call.tensor_format
    call.packing = rng.choice(("qkv", "grouped"))
    if call.packing == "grouped":
        call.h *= call.k
    formats = "sbhd", "bshd", "bhsd", *(["thd"] if call.packed else [])
    call.output_format = rng.choice((None, *formats))


def _draw_cache(rng: random.Random, call: Call) -> None:
    """Which cache is written, by which slots; a cache has no gradient."""
    call.output_pairing = "same"
    call.mode = _one_of(rng, {"no_grad": 4, "inference": 1, "grad": 3, "make_fx": 1})
    if rng.random() < 0.9:
        call.grad_of = {}
    call.cache = Cache(
        layout=rng.choice(("pages", "heads first", "slots", "sequences")),
        left_out=rng.choice((0, 0, 1)),
        slots_dtype=rng.choice(INTEGERS[:2]),
    )
