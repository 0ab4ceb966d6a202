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
        (("forward", Bar(at_most=1.3)),),
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
            ("both", Bar(at_most=1.5)),
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
