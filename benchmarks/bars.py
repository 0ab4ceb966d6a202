"""Sets with bars: every kind of call that has to keep up with a copy, and how near it must come.

A bar is a share of the speed of `copy_` between two contiguous buffers of the same bytes, in the
same run. Backward is `rope_bw` alone; for q and k in one launch, and in place with them, it is the
backward of `rope_qk` that autograd runs, as there is no `rope_bw` for two tensors.
"""

from collections.abc import Iterable

from benchmarks.case import COS_AND_SIN, ON_THE_FLY, Bar, Case, Group
from benchmarks.providers import HUGGING_FACE, KERNELS, TORCH
from benchmarks.providers.norm import OTHERS, TWO_KERNELS

PEERS = (*TORCH, *HUGGING_FACE, *KERNELS)
EVERYBODY = (*PEERS, ON_THE_FLY, COS_AND_SIN)
WITHOUT_MODELS = (*TORCH, *KERNELS, ON_THE_FLY)  # Hugging Face's function rotates whole, dense rows
OF_A_CALL = (*TORCH, "Hugging Face", *KERNELS, ON_THE_FLY)

BOTH_WAYS = ("forward", "backward")
ON_THE_HOST = ("forward", "forward, grad", "both")
DENSE = ("sbhd", "bshd", "bhsd")
PER_PAIR = "angles per pair"

STUDY = (2048, 16, 8, 256)
TINY = ((64, 1, 16, 64), (128, 1, 16, 128), (32, 1, 8, 256))  # the study's wall-time test
LLAMA = (4096, 2, 32, 128)
MODELS = (LLAMA, (8192, 1, 64, 128), (2048, 8, 32, 64))


def _share(forward: float, backward: float | None = None, even: float | None = None) -> tuple:
    backward = forward if backward is None else backward
    shares = {"forward": forward, "backward": backward}
    return tuple((name, Bar(at_least=share, even=even)) for name, share in shares.items())


def _forward(title: str, cases: Iterable[Case], share: float) -> Group:
    return Group(title, tuple(cases), _share(share)[:1], directions=("forward",))


def _both_ways(title: str, cases: Iterable[Case], share: float) -> Group:
    return Group(title, tuple(cases), _share(share), directions=BOTH_WAYS)


def _beside_others(title: str, case: Case, share: float | None, others: tuple[str, ...]) -> Group:
    """A row of the table in README."""
    return Group(title, (case,), _share(share) if share else (), others, in_readme=True)


def _among_ours(
    title: str, cases: Iterable[Case], share: float, even: float | None = None
) -> Group:
    return Group(title, tuple(cases), _share(share, even=even), beside=(ON_THE_FLY,))


def _q_and_k(**options) -> Case:
    return Case(*LLAMA, k_heads=8, **options)


def _packed(sequences: int, **options) -> Case:
    return Case(65536, 1, 32, 128, tensor_format="thd", sequences=sequences, **options)


BARS = (
    Group(
        "the study's shape",
        (Case(*STUDY), Case(*STUDY, dtype="float32")),
        _share(0.98),
        beside=EVERYBODY,
        in_readme=True,
    ),
    _among_ours("the study's shape, fp16", [Case(*STUDY, dtype="float16")], 0.98),
    _beside_others("shapes of models", Case(*LLAMA), 0.97, EVERYBODY),
    _among_ours(
        "shapes of models, each layout",
        [
            Case(*sizes, tensor_format=tensor_format)
            for sizes in MODELS
            for tensor_format in DENSE
            if (sizes, tensor_format) != (LLAMA, "sbhd")
        ],
        0.97,
    ),
    _beside_others(
        "long, angles on the fly", Case(131072, 1, 8, 128, freqs="module"), 0.98, EVERYBODY
    ),
    Group(
        "a million positions, few heads, on the fly",
        (Case(1048576, 1, 2, 128, dtype="float32", freqs="module"),),
        _share(0.98),
    ),
    _beside_others("q and k in one launch", _q_and_k(tensor_format="bhsd"), 0.97, EVERYBODY),
    _beside_others(
        "q and k as projections leave them",  # transposed views of (b, s, h, d) memory
        _q_and_k(tensor_format="bhsd", stored="bshd"),
        None,
        EVERYBODY,
    ),
    _among_ours(
        "q and k in one launch, bshd and in place",
        [
            _q_and_k(tensor_format="bshd"),
            _q_and_k(tensor_format="bshd", inplace=True),
            _q_and_k(tensor_format="bhsd", inplace=True),
        ],
        0.97,
    ),
    _beside_others("half rotary", Case(*LLAMA, rotary_dim=64), 0.97, WITHOUT_MODELS),
    _among_ours(
        "half rotary in place, against a copy of the whole",
        [Case(*LLAMA, rotary_dim=64, inplace=True)],
        1.0,
    ),
    _among_ours("packed sequences", map(_packed, (1, 50, 500, 2401, 8192)), 0.95, even=0.05),
    _beside_others("packed sequences beside others", _packed(50, k_heads=8), None, WITHOUT_MODELS),
    _among_ours(
        "transposed, interleaved, ids, starts",
        [
            Case(*LLAMA, stored="bshd"),
            Case(*LLAMA, interleaved=True),
            Case(*LLAMA, tensor_format="bshd", positions="ids"),
            Case(*LLAMA, tensor_format="bshd", positions="starts"),
        ],
        0.95,
    ),
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
        tuple(
            zip(ON_THE_HOST, (Bar(at_most=2.0), Bar(at_most=3.0), Bar(at_most=1.6)), strict=True)
        ),
        beside=OF_A_CALL,
        directions=ON_THE_HOST,
        in_readme=True,
    ),
    Group(
        "host time of a call, other sizes",
        tuple(Case(*sizes, clock="host") for sizes in TINY[1:]),
        beside=("PyTorch eager", *KERNELS, ON_THE_FLY),
        directions=ON_THE_HOST,
    ),
)

# Head dimensions of models, and how near to a copy each must come, in every layout.
HEAD_DIMS = {
    **{64: 0.95, 72: 0.87, 80: 0.90, 88: 0.92, 96: 0.95},
    **{100: 0.78, 112: 0.94, 120: 0.95, 160: 0.95, 192: 0.95},
}
TABLE_OR_NONE = (PER_PAIR, "module")


def _of_head_dim(d: int) -> list[Case]:
    return [Case(4096, 2, 32, d, freqs=freqs) for freqs in TABLE_OR_NONE]


def _of_head_dim_elsewhere(d: int) -> list[Case]:
    dense = [
        Case(4096, 2, 32, d, tensor_format=tensor_format, freqs=freqs, inplace=inplace)
        for inplace in (False, True)
        for freqs in TABLE_OR_NONE
        for tensor_format in DENSE
        if inplace or tensor_format != "sbhd"
    ]
    packed = [
        Case(32768, 1, 32, d, tensor_format="thd", sequences=16, freqs=freqs)
        for freqs in TABLE_OR_NONE
    ]
    return [*dense, *packed]


def _q_and_k_by(freqs: str) -> list[Case]:
    return [
        _q_and_k(tensor_format=tensor_format, inplace=inplace, freqs=freqs)
        for tensor_format in ("bshd", "bhsd")
        for inplace in (False, True)
    ]


HEADS = (
    *(_both_ways(f"head dimension {d}", _of_head_dim(d), share) for d, share in HEAD_DIMS.items()),
    *(
        _forward(
            f"head dimension {d}, in other layouts and in place", _of_head_dim_elsewhere(d), share
        )
        for d, share in HEAD_DIMS.items()
    ),
    _forward(
        "a key head that queries share, in place",  # DeepSeek's: the last 64 of 192
        [
            Case(8192, 1, 1, 192, rotary_dim=64, rotary_start=128, inplace=True, freqs=freqs)
            for freqs in TABLE_OR_NONE
        ],
        0.85,
    ),
    _both_ways(
        "one angle per pair: the study's shape",
        [Case(*STUDY, freqs=PER_PAIR), Case(*STUDY, dtype="float32", freqs=PER_PAIR)],
        0.98,
    ),
    _forward(
        "one angle per pair: shapes of models",
        [
            Case(*sizes, tensor_format=tensor_format, freqs=PER_PAIR)
            for sizes in MODELS
            for tensor_format in DENSE
        ],
        0.97,
    ),
    _both_ways("one angle per pair: a long table", [Case(131072, 1, 8, 128, freqs=PER_PAIR)], 0.95),
    _forward("one angle per pair: q and k", _q_and_k_by(PER_PAIR), 0.95),
    _forward("on the fly: q and k", _q_and_k_by("module"), 0.97),
    _forward(
        "packed sequences, on the fly",
        [_packed(count, freqs="module") for count in (1, 50, 8192)],
        0.95,
    ),
)


# Normalize and rotate q and k. The bar is a share of `copy_` of q and k forward, and of one and a
# half such copies backward, with the gradients of both weights: what each has to move.
def _norm(tensor_format: str) -> Case:
    sizes, cuts = (8192, 1, 32, 128), ()
    if tensor_format == "thd":
        cuts = tuple(8192 * i // 50 for i in range(51))
    return Case(*sizes, k_heads=8, tensor_format=tensor_format, freqs="module", cu_seqlens=cuts)


NORM = (
    Group(
        "beside others, in the layout that suits them",
        (_norm("sbhd"),),
        _share(0.93, 0.80),
        beside=tuple(provider.name for provider in OTHERS),
        directions=BOTH_WAYS,
    ),
    Group(
        "other layouts",
        (_norm("bhsd"), _norm("thd")),
        _share(0.90, 0.77),
        beside=(TWO_KERNELS,),
        directions=BOTH_WAYS,
    ),
)
