"""The test matrices of other projects, as cases of ours: forward, backward and in place, in fp64.

Sizes and options are theirs, and so is which go together. The checks are those of the superset
matrix, which are stricter: one rounding, random gradients, nothing else written. What they test and
a case cannot say is left out: FP8 output, Llama 3.1's frequencies, and their errors.
"""

from itertools import product

import pytest

from test_superset_matrix import PLAIN, check, is_legal, name_of

PLACES = "out_of_place", "in_place"
PAIRINGS = "half_split", "interleaved"
OFFSETS = "none", "int", "tensor"
CACHE = {"freqs": "cos_sin", "table": "one_per_pair"}  # one column per pair


def cases(*more, **axes):
    """Every combination of some values of each axis; all else plain, or as `more` says."""
    fixed = PLAIN | {key: value for some in more for key, value in some.items()}
    combinations = (
        fixed | dict(zip(axes, values, strict=True)) for values in product(*axes.values())
    )
    return [case for case in combinations if is_legal(case)]


# Dao-AILab/flash-attention, tests/test_rotary.py
FLASH_ATTENTION = [
    *cases(
        CACHE | {"format": "bshd", "heads": "4", "s": 217},
        dtype=("fp16", "bf16"),
        rotary=(1.0, 0.5),
        pairing=PAIRINGS,
        offset=OFFSETS,
        place=PLACES,
    ),
    *cases(  # queries and keys of one projection, with fewer key heads or as many
        CACHE | {"format": "bshd", "layout": "packed", "place": "in_place", "s": 512},
        dtype=("fp16", "bf16"),
        rotary=(1.0, 0.5),
        pairing=PAIRINGS,
        offset=OFFSETS,
        heads=("4/4", "4/2", "4/1"),
    ),
    *cases(  # packed sequences
        CACHE | {"format": "thd", "heads": "4", "s": 217},
        dtype=("fp16", "bf16"),
        rotary=(1.0, 0.5),
        pairing=PAIRINGS,
        offset=OFFSETS,
        place=PLACES,
    ),
]

# Dao-AILab/quack, tests/test_rotary.py
_GRID = [(d, rotary) for d in (32, 64, 96, 128) for rotary in range(8, d + 1, 8)]
QUACK = [
    *cases(
        CACHE | {"format": "bshd", "heads": "4", "s": 67},
        dtype=("bf16", "fp32"),
        rotary=(1.0, 0.5),
        pairing=PAIRINGS,
        offset=("none", "tensor"),
        place=PLACES,
    ),
    *(
        case
        for d, rotary in (*_GRID, (256, 256), (512, 512))
        for case in cases(
            CACHE | {"format": "bshd", "heads": "1", "s": 17, "d": d, "rotary": rotary},
            dtype=("bf16", "fp32"),
            pairing=PAIRINGS,
            angle=("plus", "inverse"),
        )
    ),
    *(
        case  # rows and halves aligned to different widths; and large tails
        for d, rotary, s, layout in (
            (104, 64, 37, "sliced_with_offset"),
            (96, 72, 37, "contiguous"),
            (256, 128, 23, "contiguous"),
            (512, 256, 23, "contiguous"),
        )
        for case in cases(
            CACHE | {"format": "bshd", "d": d, "rotary": rotary, "s": s, "layout": layout},
            dtype=("bf16", "fp32"),
            pairing=PAIRINGS,
            heads=("2", "3"),
            offset=("none", "tensor"),
        )
    ),
]

# flashinfer-ai/flashinfer, tests/attention/test_rope.py
_PACKED_QKV = {"format": "thd", "layout": "packed", "dtype": "fp16", "freqs": "on_the_fly"}
FLASHINFER = [
    *(
        case
        for where in ({"offset": "none"}, {"offset": "int"}, {"ids": "int32"}, {"ids": "int64"})
        for case in cases(
            _PACKED_QKV | where,
            s=(1, 4, 19, 204),
            heads=("8/8", "16/8"),
            d=(64, 128, 256),
            rotary=(0.25, 0.5, 0.75, 1.0),
            pairing=PAIRINGS,
            place=PLACES,
        )
    ),
    *(
        PLAIN
        | CACHE
        | {"format": "thd", "dtype": "bf16", "ids": "int64", "place": "in_place"}
        | {"d": d, "rotary": rotary, "pairing": pairing, "s": s, "heads": heads}
        for d, rotary, pairing, s, heads in (
            (64, 64, "half_split", 32, "1/1"),
            (256, 128, "half_split", 512, "4/2"),
            (64, 32, "half_split", 199, "4/1"),
            (64, 64, "interleaved", 32, "1/1"),
            (256, 128, "interleaved", 231, "4/2"),
            (192, 128, "half_split", 231, "3/2"),
            (80, 64, "interleaved", 64, "2/2"),
            (112, 64, "half_split", 77, "2/1"),
            (160, 96, "interleaved", 128, "6/3"),
            (576, 64, "interleaved", 199, "128/1"),  # a key that all queries share
            (384, 128, "interleaved", 19, "64/1"),
            (192, 64, "interleaved", 128, "128/1"),
            (128, 32, "interleaved", 199, "24/6"),
        )
    ),
]

# linkedin/Liger-Kernel, test/transformers/test_rope.py
LIGER = [
    *cases(
        {"format": "bhsd", "layout": "transposed", "d": 64, "rotary": 1.0, "s": 128},
        heads=("32/32", "32/8"),
        dtype=("fp32", "bf16"),
        freqs=("cos_sin", "cos_sin_per_batch"),
    ),
    *cases(
        {"format": "bhsd", "layout": "transposed", "d": 92, "rotary": 1.0, "s": 423},
        heads=("73/213", "73/155"),
        dtype=("fp32", "bf16"),
        freqs=("cos_sin", "cos_sin_per_batch"),
    ),
    *cases(
        {"format": "bhsd", "d": 8, "rotary": 1.0, "s": 2},
        heads=("2/2", "1/2"),
        dtype=("fp32", "bf16"),
        freqs=("cos_sin", "cos_sin_per_batch"),
    ),
]

# NVIDIA/TransformerEngine, tests/pytorch/test_fused_rope.py: what `test_transformer_engine_matrix`
# leaves out
TRANSFORMER_ENGINE = [
    case
    for cp in ("1/0", "2/0", "2/1")
    for case in cases(
        {"heads": "64", "cp": cp, "freqs": "angles"},
        dtype=("fp32", "bf16", "fp16"),
        s=(2048, 4096),
        d=(128, 256),
        rotary=(0.5, 1.0),
        format=("sbhd", "bshd", "thd"),
        pairing=PAIRINGS,
        offset=("none", "tensor"),
        layout=("contiguous", "transposed"),
    )
]

MATRICES = {
    "FlashAttention": FLASH_ATTENTION,
    "quack": QUACK,
    "flashinfer": FLASHINFER,
    "Liger": LIGER,
    "TransformerEngine": TRANSFORMER_ENGINE,
}
ON_A_CPU = 4  # cases of each matrix that the interpreter runs, small; the superset has them all


def small(case):
    """The same options with few heads and tokens."""
    heads = "/".join(str(min(3, int(number))) for number in case["heads"].split("/"))
    return case | {"heads": heads, "s": min(6, case["s"])}


def slice_of(matrix):
    """Cases from all over a matrix, made small."""
    return [small(case) for case in matrix[:: max(1, len(matrix) // ON_A_CPU)]]


def named(matrices):
    return [
        pytest.param(case, id=f"{name}-{name_of(case)}")
        for name, matrix in matrices.items()
        for case in matrix
    ]


def test_matrices_are_as_large_as_theirs():
    """flashinfer's own have more batch sizes, and Llama 3.1; TransformerEngine's more losses."""
    assert {name: len(matrix) for name, matrix in MATRICES.items()} == {
        "FlashAttention": 48 + 72 + 48,
        "quack": 32 + 8 * (4 + 8 + 12 + 16 + 2) + 4 * 16,
        "flashinfer": 4 * 384 + 13,
        "Liger": 3 * 8,
        "TransformerEngine": 3 * 576,
    }
    assert all(is_legal(case) for matrix in MATRICES.values() for case in matrix)


@pytest.mark.gpu
@pytest.mark.parametrize("case", named(MATRICES))
def test_matrix_of(case):
    check(case, "cuda")


@pytest.mark.parametrize(
    "case", named({name: slice_of(matrix) for name, matrix in MATRICES.items()})
)
def test_small_slice_of(case, device):
    check(case, device)
