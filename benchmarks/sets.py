"""Sets of cases by name: what is measured, and beside whom.

Backward is `rope_bw` alone; for q and k in one launch, and in place with them, it is the backward
of `rope_qk` that autograd runs, as there is no `rope_bw` for two tensors.
"""

from benchmarks.case import COS_AND_SIN, ON_THE_FLY, Case, Group
from benchmarks.providers import EVERY_WAY, HUGGING_FACE, KERNELS, TORCH
from benchmarks.providers.norm import OTHERS, TWO_KERNELS

EVERYBODY = (*TORCH, *HUGGING_FACE, *KERNELS, ON_THE_FLY, COS_AND_SIN)
WITHOUT_MODELS = (*TORCH, *KERNELS, ON_THE_FLY)  # Hugging Face's function rotates whole, dense rows

BOTH_WAYS = ("forward", "backward")
ON_THE_HOST = ("forward", "forward, grad", "both")
DENSE = ("sbhd", "bshd", "bhsd")

STUDY = (2048, 16, 8, 256)
TINY = ((64, 1, 16, 64), (128, 1, 16, 128), (32, 1, 8, 256))  # the study's wall-time test
LLAMA = (4096, 2, 32, 128)
MODELS = (LLAMA, (8192, 1, 64, 128), (2048, 8, 32, 64))


def _among_ours(title: str, *cases: Case) -> Group:
    return Group(title, cases, beside=(ON_THE_FLY,))


def _beside_others(title: str, *cases: Case, others: tuple[str, ...] = EVERYBODY) -> Group:
    """Rows of the table on the benchmark's page."""
    return Group(title, cases, beside=others, in_readme=True)


def _q_and_k(tensor_format: str, **options) -> Case:
    return Case(*LLAMA, k_heads=8, tensor_format=tensor_format, **options)


def _packed(sequences: int, **options) -> Case:
    return Case(65536, 1, 32, 128, tensor_format="thd", sequences=sequences, **options)


# Every kind of call.
CALLS = (
    _beside_others("the study's shape", Case(*STUDY), Case(*STUDY, dtype="float32")),
    _among_ours("the study's shape, fp16", Case(*STUDY, dtype="float16")),
    _beside_others("shapes of models", Case(*LLAMA)),
    _among_ours(
        "shapes of models, each layout",
        *(
            Case(*sizes, tensor_format=tensor_format)
            for sizes in MODELS
            for tensor_format in DENSE
            if (sizes, tensor_format) != (LLAMA, "sbhd")
        ),
    ),
    _beside_others("long, angles on the fly", Case(131072, 1, 8, 128, freqs="module")),
    Group(
        "a million positions, few heads, on the fly",
        (Case(1048576, 1, 2, 128, dtype="float32", freqs="module"),),
    ),
    _beside_others("q and k in one launch", _q_and_k("bhsd")),
    # transposed views of (b, s, h, d) memory
    _beside_others("q and k as projections leave them", _q_and_k("bhsd", stored="bshd")),
    _among_ours(
        "q and k in one launch, bshd and in place",
        *(_q_and_k("bshd"), _q_and_k("bshd", inplace=True), _q_and_k("bhsd", inplace=True)),
    ),
    _beside_others("half rotary", Case(*LLAMA, rotary_dim=64), others=WITHOUT_MODELS),
    _among_ours(
        "half rotary in place, against a copy of the whole",
        Case(*LLAMA, rotary_dim=64, inplace=True),
    ),
    _among_ours("packed sequences", *map(_packed, (1, 50, 500, 2401, 8192))),
    _beside_others("packed sequences beside others", _packed(50, k_heads=8), others=WITHOUT_MODELS),
    _among_ours(
        "transposed, interleaved, ids, starts",
        Case(*LLAMA, stored="bshd"),
        Case(*LLAMA, interleaved=True),
        Case(*LLAMA, tensor_format="bshd", positions="ids"),
        Case(*LLAMA, tensor_format="bshd", positions="starts"),
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
        beside=EVERYBODY,
        directions=("forward",),
        in_readme=True,
    ),
    Group(
        "host time of a call",
        (Case(*TINY[0], clock="host"),),
        beside=(*TORCH, "Hugging Face", *KERNELS, ON_THE_FLY),
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

# Everybody from their sources: the study's shape is where it compared with TransformerEngine.
PEERS = (
    Group(
        "everybody, from their sources",
        (
            Case(*LLAMA),
            Case(*STUDY),
            Case(*STUDY, dtype="float32"),
            Case(8192, 1, 64, 128),
            Case(131072, 1, 8, 128),
            _packed(50),
        ),
        directions=BOTH_WAYS,
        beside=(*EVERY_WAY, *HUGGING_FACE, ON_THE_FLY, COS_AND_SIN),
    ),
)


def _norm(tensor_format: str) -> Case:
    packed = tensor_format == "thd"
    cuts = tuple(8192 * i // 50 for i in range(51)) if packed else ()
    options = {"tensor_format": tensor_format, "freqs": "module", "cu_seqlens": cuts}
    return Case(8192, 1, 32, 128, k_heads=8, **options)


# Normalize and rotate q and k.
NORM = (
    Group(
        "beside others, in the layout that suits them",
        (_norm("sbhd"),),
        directions=BOTH_WAYS,
        beside=tuple(provider.name for provider in OTHERS),
    ),
    Group(
        "other layouts",
        (_norm("bhsd"), _norm("thd")),
        directions=BOTH_WAYS,
        beside=(TWO_KERNELS,),
    ),
)
