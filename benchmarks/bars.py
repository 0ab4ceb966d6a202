"""The default set: every kind of call that has to keep up with a copy, and how near it must come.

A bar is a share of the speed of `copy_` between two contiguous buffers of the same bytes, in the
same run. Backward is `rope_bw` alone; for q and k in one launch, and in place with them, it is the
backward of `rope_qk` that autograd runs, as there is no `rope_bw` for two tensors.
"""

from benchmarks.case import Bar, Case, Group

ON_THE_FLY = "rope_kernels, on the fly"
COS_AND_SIN = "rope_kernels, cos and sin"
TORCH = ("PyTorch eager", "torch.compile")
HUGGING_FACE = ("Hugging Face", "Hugging Face, compiled")
KERNELS = ("Liger-Kernel", "TransformerEngine", "FlashAttention", "flashinfer", "Unsloth")
PEERS = (*TORCH, *HUGGING_FACE, *KERNELS)
EVERYBODY = (*PEERS, ON_THE_FLY, COS_AND_SIN)

TINY = ((64, 1, 16, 64), (128, 1, 16, 128), (32, 1, 8, 256))  # the study's wall-time test


def _share(share: float, even: float | None = None) -> tuple[tuple[str, Bar], ...]:
    bar = Bar(at_least=share, even=even)
    return ("forward", bar), ("backward", bar)


def _q_and_k(**options) -> Case:
    return Case(4096, 2, 32, 128, k_heads=8, **options)


def _packed(sequences: int) -> Case:
    return Case(65536, 1, 32, 128, tensor_format="thd", sequences=sequences)


_STUDY = {
    dtype: Case(2048, 16, 8, 256, dtype=dtype) for dtype in ("bfloat16", "float32", "float16")
}
_LAYOUTS = ((4096, 2, 32, 128), (8192, 1, 64, 128), (2048, 8, 32, 64))
_LLAMA = Case(4096, 2, 32, 128)
_ODD_WAYS = (
    Case(4096, 2, 32, 128, stored="bshd"),
    Case(4096, 2, 32, 128, interleaved=True),
    Case(4096, 2, 32, 128, tensor_format="bshd", positions="ids"),
    Case(4096, 2, 32, 128, tensor_format="bshd", positions="starts"),
)

# Head dimensions of models, and how near to a copy each must come, in every layout.
HEAD_DIMS = {
    **{64: 0.95, 72: 0.87, 80: 0.90, 88: 0.92, 96: 0.95},
    **{100: 0.78, 112: 0.94, 120: 0.95, 160: 0.95, 192: 0.95},
}
PER_PAIR = "angles per pair"


def _of_head_dim(d: int) -> tuple[Case, ...]:
    return tuple(Case(4096, 2, 32, d, freqs=freqs) for freqs in (PER_PAIR, "module"))


def _of_head_dim_elsewhere(d: int) -> tuple[Case, ...]:
    dense = [
        Case(4096, 2, 32, d, tensor_format=tensor_format, freqs=freqs, inplace=inplace)
        for inplace in (False, True)
        for freqs in (PER_PAIR, "module")
        for tensor_format in ("sbhd", "bshd", "bhsd")
        if inplace or tensor_format != "sbhd"
    ]
    packed = [
        Case(32768, 1, 32, d, tensor_format="thd", sequences=16, freqs=freqs)
        for freqs in (PER_PAIR, "module")
    ]
    return *dense, *packed


HEADS = (
    *(
        Group(
            f"head dimension {d}",
            _of_head_dim(d),
            _share(share),
            directions=("forward", "backward"),
        )
        for d, share in HEAD_DIMS.items()
    ),
    *(
        Group(
            f"head dimension {d}, in other layouts and in place",
            _of_head_dim_elsewhere(d),
            _share(share)[:1],
            directions=("forward",),
        )
        for d, share in HEAD_DIMS.items()
    ),
    Group(
        "a key head that queries share, in place",  # DeepSeek's: the last 64 of 192
        tuple(
            Case(8192, 1, 1, 192, rotary_dim=64, rotary_start=128, inplace=True, freqs=freqs)
            for freqs in (PER_PAIR, "module")
        ),
        (("forward", Bar(at_least=0.85)),),
        directions=("forward",),
    ),
    Group(
        "one angle per pair: the study's shape",
        (
            Case(2048, 16, 8, 256, freqs=PER_PAIR),
            Case(2048, 16, 8, 256, dtype="float32", freqs=PER_PAIR),
        ),
        _share(0.98),
        directions=("forward", "backward"),
    ),
    Group(
        "one angle per pair: shapes of models",
        tuple(
            Case(*sizes, tensor_format=tensor_format, freqs=PER_PAIR)
            for sizes in _LAYOUTS
            for tensor_format in ("sbhd", "bshd", "bhsd")
        ),
        _share(0.97)[:1],
        directions=("forward",),
    ),
    Group(
        "one angle per pair: a long table",
        (Case(131072, 1, 8, 128, freqs=PER_PAIR),),
        _share(0.95),
        directions=("forward", "backward"),
    ),
    Group(
        "one angle per pair: q and k",
        tuple(
            _q_and_k(tensor_format=tensor_format, inplace=inplace, freqs=PER_PAIR)
            for tensor_format in ("bshd", "bhsd")
            for inplace in (False, True)
        ),
        _share(0.95)[:1],
        directions=("forward",),
    ),
    Group(
        "on the fly: q and k",
        tuple(
            _q_and_k(tensor_format=tensor_format, inplace=inplace, freqs="module")
            for tensor_format in ("bshd", "bhsd")
            for inplace in (False, True)
        ),
        _share(0.97)[:1],
        directions=("forward",),
    ),
    Group(
        "packed sequences, on the fly",
        tuple(
            Case(65536, 1, 32, 128, tensor_format="thd", sequences=count, freqs="module")
            for count in (1, 50, 8192)
        ),
        _share(0.95)[:1],
        directions=("forward",),
    ),
)

BARS = (
    Group(
        "the study's shape",
        (_STUDY["bfloat16"], _STUDY["float32"]),
        _share(0.98),
        beside=EVERYBODY,
        in_readme=True,
    ),
    Group("the study's shape, fp16", (_STUDY["float16"],), _share(0.98), beside=(ON_THE_FLY,)),
    Group("shapes of models", (_LLAMA,), _share(0.97), beside=EVERYBODY, in_readme=True),
    Group(
        "shapes of models, each layout",
        tuple(
            Case(*sizes, tensor_format=tensor_format)
            for sizes in _LAYOUTS
            for tensor_format in ("sbhd", "bshd", "bhsd")
            if (sizes, tensor_format) != ((4096, 2, 32, 128), "sbhd")
        ),
        _share(0.97),
        beside=(ON_THE_FLY,),
    ),
    Group(
        "long, angles on the fly",
        (Case(131072, 1, 8, 128, freqs="module"),),
        _share(0.98),
        beside=EVERYBODY,
        in_readme=True,
    ),
    Group(
        "a million positions, few heads, on the fly",
        (Case(1048576, 1, 2, 128, dtype="float32", freqs="module"),),
        _share(0.98),
    ),
    Group(
        "q and k in one launch",
        (_q_and_k(tensor_format="bhsd"),),
        _share(0.97),
        beside=EVERYBODY,
        in_readme=True,
    ),
    Group(
        "q and k as projections leave them",  # transposed views of (b, s, h, d) memory
        (_q_and_k(tensor_format="bhsd", stored="bshd"),),
        beside=EVERYBODY,
        in_readme=True,
    ),
    Group(
        "q and k in one launch, bshd and in place",
        (
            _q_and_k(tensor_format="bshd"),
            _q_and_k(tensor_format="bshd", inplace=True),
            _q_and_k(tensor_format="bhsd", inplace=True),
        ),
        _share(0.97),
        beside=(ON_THE_FLY,),
    ),
    Group(
        "half rotary",
        (Case(4096, 2, 32, 128, rotary_dim=64),),
        _share(0.97),
        beside=(*TORCH, *KERNELS, ON_THE_FLY),
        in_readme=True,
    ),
    Group(
        "half rotary in place, against a copy of the whole",
        (Case(4096, 2, 32, 128, rotary_dim=64, inplace=True),),
        _share(1.0),
        beside=(ON_THE_FLY,),
    ),
    Group(
        "packed sequences",
        tuple(_packed(count) for count in (1, 50, 500, 2401, 8192)),
        _share(0.95, even=0.05),
        beside=(ON_THE_FLY,),
    ),
    Group(
        "packed sequences beside others",
        (Case(65536, 1, 32, 128, k_heads=8, tensor_format="thd", sequences=50),),
        beside=(*TORCH, *KERNELS, ON_THE_FLY),
        in_readme=True,
    ),
    Group("transposed, interleaved, ids, starts", _ODD_WAYS, _share(0.95), beside=(ON_THE_FLY,)),
    Group(
        "decoding, q and k in place",
        (
            Case(
                *(1, 64, 32, 128),
                **dict(k_heads=8, tensor_format="bshd", positions="starts", inplace=True),
                clock="replay",
            ),
        ),
        (("forward", Bar(at_most=1.2)),),
        beside=EVERYBODY,
        directions=("forward",),
        in_readme=True,
    ),
    Group(
        "host time of a call",
        (Case(*TINY[0], clock="host"),),
        (
            ("forward", Bar(at_most=2.0)),
            ("forward, grad", Bar(at_most=3.0)),
            ("both", Bar(at_most=1.6)),
        ),
        beside=(*TORCH, "Hugging Face", *KERNELS, ON_THE_FLY),
        directions=("forward", "forward, grad", "both"),
        in_readme=True,
    ),
    Group(
        "host time of a call, other sizes",
        tuple(Case(*sizes, clock="host") for sizes in TINY[1:]),
        beside=("PyTorch eager", *KERNELS, ON_THE_FLY),
        directions=("forward", "forward, grad", "both"),
    ),
)
