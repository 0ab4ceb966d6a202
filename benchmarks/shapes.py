"""Sets of shapes by name: ours with its bars, and those that others measure or test with.

Where each comes from is said beside it. What a set leaves open (a storage order, a base) is taken
from the same source. Sets of others have no bars: they are there to be compared with.
"""

from benchmarks.bars import BARS, BOTH_WAYS, HEADS, PEERS, WITHOUT_MODELS
from benchmarks.case import COS_AND_SIN, ON_THE_FLY, Case, Group
from benchmarks.providers import EVERY_WAY, HUGGING_FACE, KERNELS, TORCH

FASTEST = ("Liger-Kernel", "TransformerEngine", "FlashAttention")

# meta-pytorch/tritonbench, tritonbench/operators/rope/operator.py (2026): hidden size 8192 and
# T 2^10 to 2^14, then T 2048 and hidden sizes 512 to 8192; b 1, 32 heads of q, 8 of k, contiguous
# (b, h, s, d); no precision is named there, so PyTorch's fp32.
_SIZES = (
    *((2**n, 8192 // 32) for n in range(10, 15)),
    *((2048, hidden // 32) for hidden in (512, 2048)),
)
_TRITONBENCH = (
    Case(s, 1, 32, d, k_heads=8, dtype="float32", tensor_format="bhsd") for s, d in _SIZES
)

# linkedin/Liger-Kernel, benchmark/scripts/benchmark_rope.py: the same sizes in bf16, as transposed
# views of (b, s, h, d) memory.
_LIGER = (Case(s, 1, 32, d, k_heads=8, tensor_format="bhsd", stored="bshd") for s, d in _SIZES)

# NVIDIA/TransformerEngine, tests/pytorch/test_fused_rope.py: b 2, h 64; packed ones with the
# boundaries below.
_TE_DTYPES = ("float32", "bfloat16", "float16")
_TE_CU_SEQLENS = (0, 400, 542, 711, 727, 752, 1270, 1426, 1450, 1954, 2044, 2048)
_TE_DENSE = (
    Case(s, 2, 64, d, dtype=dtype, tensor_format=tensor_format, rotary_dim=rotary_dim)
    for dtype in _TE_DTYPES
    for s in (2048, 4096)
    for d in (128, 256)
    for rotary_dim in (0, d // 2)
    for tensor_format in ("sbhd", "bshd")
)
_TE_PACKED = (
    Case(
        *(2048, 1, 64, d),
        **dict(dtype=dtype, rotary_dim=rotary_dim),
        **dict(tensor_format="thd", cu_seqlens=_TE_CU_SEQLENS),
    )
    for dtype in _TE_DTYPES
    for d in (128, 256)
    for rotary_dim in (0, d // 2)
)

# flashinfer-ai/flashinfer, benchmarks/bench_rope.py: b 2, s 2 to 65536, 32 heads of q and 8 of k,
# d 128, base 500000, in place; its tensors are the tokens of both batch entries in a row.
_FLASHINFER = (
    Case(2**n, 2, 32, 128, k_heads=8, tensor_format="bshd", inplace=True, base=500000.0)
    for n in range(1, 17)
)

# sjjeong94/ai_compiler_study, scripts/benchmark.py: b 16, h 8, d 256 in fp32, s from 64; there up
# to 2048 in steps of 64, in zetwhite/triton-practice up to 16384. Here: the powers of two.
_SEEDS = (Case(2**n, 16, 8, 256, dtype="float32") for n in range(6, 15))

# Our own: as many tokens in ever more sequences; with q and k, for who takes both.
_PACKED = (
    Case(65536, 1, 32, 128, k_heads=8, tensor_format="thd", sequences=count)
    for count in (1, 50, 500, 2401, 8192)
)


def _beside(title: str, cases, *others: str, **options) -> Group:
    return Group(title, tuple(cases), beside=others, **options)


_TE_RIVALS = "TransformerEngine", "FlashAttention"
SETS: dict[str, tuple[Group, ...]] = {
    "bars": BARS,
    "heads": HEADS,
    "seeds": (
        _beside(
            *("bandwidth against sequence length", _SEEDS, *TORCH, *FASTEST, ON_THE_FLY),
            directions=BOTH_WAYS,
        ),
    ),
    "tritonbench": (_beside("tritonbench's rope operator", _TRITONBENCH, *PEERS, ON_THE_FLY),),
    "liger": (_beside("Liger-Kernel's benchmark", _LIGER, *PEERS, ON_THE_FLY),),
    "te": (
        _beside("TransformerEngine's test, dense", _TE_DENSE, *_TE_RIVALS),
        _beside("TransformerEngine's test, packed", _TE_PACKED, *_TE_RIVALS),
    ),
    "flashinfer": (
        _beside(
            *("flashinfer's benchmark", _FLASHINFER, "PyTorch eager", *KERNELS, ON_THE_FLY),
            directions=("forward",),
        ),
    ),
    "thd": (_beside("packed sequences, q and k", _PACKED, *WITHOUT_MODELS),),
}
RECORD = ("bars", "seeds")  # what a run measures if nothing is said, and a record holds

# Everybody from their sources: the study's shape is where it compared with TransformerEngine.
EVERYBODY_FROM_SOURCES = (
    Group(
        "everybody, from their sources",
        (
            Case(4096, 2, 32, 128),
            Case(2048, 16, 8, 256),
            Case(2048, 16, 8, 256, dtype="float32"),
            Case(8192, 1, 64, 128),
            Case(131072, 1, 8, 128),
            Case(65536, 1, 32, 128, tensor_format="thd", sequences=50),
        ),
        beside=(*EVERY_WAY, *HUGGING_FACE, ON_THE_FLY, COS_AND_SIN),
        directions=BOTH_WAYS,
    ),
)

# What a rank of many rotates. Tensor parallelism over 8 ranks leaves 8 heads of q and 1 of k of 64
# and 8, and 4 and 1 of 32 and 8. Under context parallelism in zigzag order a rank holds 131072 / n
# tokens.
_FORMATS = ("sbhd", "bshd", "bhsd", "thd")


def _of_a_rank(heads: int, tokens: int, tensor_format: str, cp_size: int = 1) -> Case:
    whole = tokens * cp_size
    cuts = tuple(range(0, whole + 1, whole // 16)) if tensor_format == "thd" else ()
    options = {"tensor_format": tensor_format, "cu_seqlens": cuts, "cp_size": cp_size}
    return Case(tokens, 1, heads, 128, k_heads=1, base=500000.0, **options)


OF_A_RANK = (
    Group(
        "few heads",
        tuple(_of_a_rank(heads, 8192, name) for heads in (8, 4) for name in _FORMATS),
        directions=BOTH_WAYS,
    ),
    Group(
        "a part of long sequences",
        tuple(_of_a_rank(8, 131072 // n, name, n) for name in _FORMATS for n in (1, 2, 4, 8)),
        directions=BOTH_WAYS,
    ),
)
