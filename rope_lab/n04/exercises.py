"""Notebook 04: the first RoPE kernels."""
# ruff: noqa: F821 (the letters of shapes)

from ..judge.climb.specifications import PLACE, UNMASKED, mistakes_of_rotating
from ..judge.definitions import TWO_BLOCKS_FOR_ONE, rope
from ..judge.mistakes import Mistake, Solution
from ..judge.spec import spec

# the outcomes of five calls of the first kernel
OUTCOMES = ("right", "wrong", "refused")
FIVE_TESTS = {
    "one sequence, contiguous: row r is where the kernel looks for it": {1: "wrong"},
    "32 is a power of two, and Triton requires no more": {1: "refused"},
    "three sequences have three times as many rows as the grid": {2: "right"},
    "16 is a power of two; Triton does not count rows": {2: "refused"},
    "only dimensions of size 1 moved: row r is where it was": {3: "wrong"},
    "16 is a power of two; Triton does not check strides": {3: "refused"},
    "a row begins 48 elements after the one before, and the kernel expects 16": {4: "right"},
    "the kernel doesn't get the strides, so nothing can refuse them": {4: "refused"},
    "the result is not the question: `tl.arange` takes powers of two": {5: "right"},
    "no program runs: `tl.arange` takes powers of two": {5: "wrong"},
}


def _of_an_index(index: str, stride: str) -> list[Mistake]:
    """Mistakes in an index times its stride in the address of a row."""
    return [
        Mistake(
            f"all {index}s take the elements of {index} 0: {index} * {stride} is missing, or "
            f"{index} is always 0",
            {f"{index} * {stride}": "0"},
        ),
        Mistake(
            f"a {index} is {stride} elements after the one before, not 1",
            {f"{index} * {stride}": index},
        ),
    ]


STRIDED_COPY = Solution("04-ex3")
WHOLE_HEADS = Solution("04-ex4")


@spec(
    kernel=True,
    contiguous=True,
    launches=1,
    extra=TWO_BLOCKS_FOR_ONE,
    mistakes=STRIDED_COPY.with_mistakes(
        Mistake(
            "the sequence: i // (D * heads) counts the tokens of all positions; % batch is missing",
            sequence="i // (D * heads)",
        ),
        Mistake(
            "the sequence: there are `batch` of them, so % batch, not % heads",
            sequence="i // (D * heads) % heads",
        ),
        Mistake(
            "the sequence: % and // are swapped: divide first, then take the remainder",
            sequence="i % (D * heads) // batch",
        ),
        Mistake(
            "the sequence: a token has D * heads elements: divide by both, not by D alone",
            sequence="i // D % batch",
        ),
        Mistake(
            "the sequence: a token has D * heads elements: divide by both, not by heads alone",
            sequence="i // heads % batch",
        ),
        Mistake(
            "the sequence: i // D * heads divides, and then multiplies: parentheses, i // (D * "
            "heads)",
            sequence="i // D * heads % batch",
        ),
        Mistake(
            "the load begins at t_ptr, at the first row of t: begin at row_ptr",
            {"row_ptr + column": "t_ptr + column"},
        ),
        Mistake(
            "columns are stride_d apart, not stride_h", {"column * stride_d": "column * stride_h"}
        ),
        Mistake(
            "each index has the stride of the next one: stride_s is for positions",
            row_ptr="t_ptr + position * stride_b + sequence * stride_h + head * stride_d",
        ),
        *_of_an_index("position", "stride_s"),
        *_of_an_index("sequence", "stride_b"),
        *_of_an_index("head", "stride_h"),
        Mistake(
            "the result has the order of t's memory: load with the strides of t, store at out_ptr "
            "+ i",
            {"out_ptr + i,": f"out_ptr + {PLACE},"},
        ),
        Mistake(
            "each element has its own place in the result: store at out_ptr + i",
            {"out_ptr + i,": "out_ptr + column,"},
        ),
        Mistake(
            "column * stride_d is missing in the address",
            {"row_ptr + column * stride_d": "row_ptr"},
        ),
        Mistake(
            "the strides of sequences and heads are swapped in row_ptr",
            row_ptr="t_ptr + position * stride_s + sequence * stride_h + head * stride_b",
        ),
        Mistake(
            "the strides of positions and sequences are swapped in row_ptr",
            row_ptr="t_ptr + position * stride_b + sequence * stride_s + head * stride_h",
        ),
        Mistake(
            "the sequence: divided by batch, too, it is the position: % batch, which begins "
            "again with each",
            sequence="i // (D * heads) // batch",
        ),
        Mistake(
            "the sequence: a remainder first counts elements: divide i by D * heads, then take %",
            sequence="i % batch",
        ),
        Mistake(
            "i is the place in the result: a row of t begins at t_ptr + three products of index "
            "and stride",
            row_ptr="t_ptr + i",
        ),
        Mistake(
            "i is added to the row's address, which has position, sequence and head already",
            {"* stride_h\n": "* stride_h + i\n"},
        ),
        Mistake(
            "column * stride_d is added twice, in row_ptr and in the load",
            {"* stride_h\n": "* stride_h + column * stride_d\n"},
        ),
        Mistake(
            "each index needs its stride: position * stride_s, and so on",
            row_ptr="t_ptr + position + sequence + head",
        ),
        Mistake("columns are stride_d apart, and D is how many there are", {"* stride_d": "* D"}),
        Mistake(
            "one stride for all: each index has its own",
            row_ptr="t_ptr + (position + sequence + head) * stride_s",
        ),
        Mistake(
            "i counts from the first element of t, and row_ptr is at the row: add column * "
            "stride_d",
            x="tl.load(row_ptr + i, mask=exists)",
        ),
    ),
    unmasked="every result is right, so a mask is missing, or true for lanes past the end",
)
def strided_copy(t: "(s, b, h, d)"):
    """The same elements, contiguous in memory."""
    return t.clone()


# the whole head rotates
rope_of_whole_heads = spec(
    rope.function,
    kernel=True,
    contiguous=True,
    launches=1,
    leave_out=("part of the head rotated",),
    extra=TWO_BLOCKS_FOR_ONE,
    mistakes=WHOLE_HEADS.with_mistakes(*mistakes_of_rotating("D")),
    unmasked=UNMASKED,
)
