"""Notebook 10: what the kernels with bugs should compute."""

from ..judge.definitions import rope, rope_of_q_and_k
from ..judge.exercise import Exercise, WrongAnswer, WrongValue
from ..judge.lines import keys_by_lines
from ..judge.spec import STRIDED, Case, spec

# every tensor contiguous, and every head rotated as a whole
rope_of_whole_heads = spec(
    rope.function,
    leave_out=(*STRIDED, "part of the head rotated", "a table longer than the sequence"),
    kernel=True,
)

# of whole heads; in one case q and k have different strides
_ONLY_Q = "only q is a slice of wider rows"


def _with_strides(of_positions: str, of_sequences: str, of_heads: str):
    rows = f"position * {of_positions} + sequence * {of_sequences} + head * {of_heads}"
    return keys_by_lines(row_ptr=rows)


def _with_head(head: str):
    """Another number for the head of k, wherever it is used."""
    return keys_by_lines(head=head, place=f"row - row % heads + {head}")


rope_of_q_and_k_apart = spec(
    rope_of_q_and_k.function,
    leave_out=("part of the head rotated", "every other element"),
    kernel=True,
    launches=1,
    extra=(Case(_ONLY_Q, {"s": 7, "b": 3, "h": 5, "g": 2, "d": 24}, layout=_ONLY_Q),),
    unmasked="every result is right, so a mask is missing, or true for lanes past the end",
    mistakes={  # all but the bug that is to be found
        "all rows of k are found by the strides of q: k has strides of its own": (
            keys_by_lines(strides="q_strides")
        ),
        "positions of k are as far apart as those of q: k has strides of its own": (
            _with_strides("q_strides[0]", "k_strides[1]", "k_strides[2]")
        ),
        "sequences of k are as far apart as those of q: k has strides of its own": (
            _with_strides("k_strides[0]", "q_strides[1]", "k_strides[2]")
        ),
        "heads of k are k_strides[2] apart; k_strides[1] is the way between sequences": (
            _with_strides("k_strides[0]", "k_strides[1]", "k_strides[1]")
        ),
        "heads of k are k_strides[2] apart; k_strides[0] is the way between positions": (
            _with_strides("k_strides[0]", "k_strides[1]", "k_strides[0]")
        ),
        "head has no part in the address: every head of k reads the first one": (
            _with_strides("k_strides[0]", "k_strides[1]", "0")
        ),
        "head counts the heads of q first: subtract q_heads": _with_head("(row % heads + q_heads)"),
        "head counts the heads of q first: subtract q_heads, not k_heads": (
            _with_head("(row % heads + q_heads - heads)")
        ),
        "head - q_heads is the head of k: it begins at 0": _with_head("(row % heads + 1)"),
        "the first head of k is taken for one of q: head < q_heads, not <=": (
            keys_by_lines(place="where(row % heads == 0, -1, row)")
        ),
        "the result of k has k_heads heads of each token": (
            keys_by_lines(place="row // heads * q_heads + row % heads")
        ),
        "the rows of k are read from q: begin at k_ptr": keys_by_lines(t_ptr="q_ptr"),
    },
)


REPAIR_IT = Exercise(
    cell="10-ex1",
    judged_by=rope_of_q_and_k_apart,
    wrong_answers=(
        WrongAnswer(
            mistake="the bug",
            instead={"k_strides[1] + head * k_strides[2]": "k_strides[1] + head * q_strides[2]"},
            told=(
                "in the case 'only q is a slice of wider rows'; 11 other cases are right\n"
                "  looks like: out of bounds: program (20, 6) reads element 1008 of k_ptr"
            ),
        ),
        WrongAnswer(
            mistake="k without strides",
            instead={
                "k_ptr + position * k_strides[0] + sequence * k_strides[1] + head * k_strides[2]": (
                    "k_ptr + (token * k_heads + head) * 2 * HALF"
                )
            },
            told="a wrong stride: it reads the memory as if the tensor were contiguous",
        ),
        WrongAnswer(
            mistake="k by q's strides",
            instead={
                "k_strides[0]": "q_strides[0]",
                "k_strides[1]": "q_strides[1]",
                "k_strides[2]": "q_strides[2]",
            },
            told="all rows of k are found by the strides of q",
        ),
        WrongAnswer(
            mistake="positions by q's stride",
            instead={"position * k_strides[0]": "position * q_strides[0]"},
            told="positions of k are as far apart as those of q",
        ),
        WrongAnswer(
            mistake="sequences by q's stride",
            instead={"sequence * k_strides[1]": "sequence * q_strides[1]"},
            told="sequences of k are as far apart as those of q",
        ),
        WrongAnswer(
            mistake="heads by the stride of sequences",
            instead={"head * k_strides[2]": "head * k_strides[1]"},
            told="k_strides[1] is the way between sequences",
        ),
        WrongAnswer(
            mistake="no head",
            instead={" + head * k_strides[2]": ""},
            told="every head of k reads the first one",
        ),
        WrongAnswer(
            mistake="head not counted from 0",
            instead={"        head = head - q_heads\n": ""},
            told="head counts the heads of q first: subtract q_heads",
        ),
        WrongAnswer(
            mistake="k's heads subtracted",
            instead={"head = head - q_heads": "head = head - k_heads"},
            told="subtract q_heads, not k_heads",
        ),
        WrongAnswer(
            mistake="<= for <",
            instead={"if head < q_heads": "if head <= q_heads"},
            told="the first head of k is taken for one of q",
        ),
        WrongAnswer(
            mistake="the result by q's heads",
            instead={"k_out_ptr + (token * k_heads": "k_out_ptr + (token * q_heads"},
            told="the result of k has k_heads heads of each token",
        ),
        WrongAnswer(
            mistake="k read from q",
            instead={"k_ptr + position": "q_ptr + position"},
            told="the rows of k are read from q",
        ),
        WrongAnswer(
            mistake="no mask",
            instead={"exists = pair < HALF": "exists = pair < BLOCK"},
            told="every result is right, so a mask is missing",
        ),
    ),
)

# The walk, in the case where q is a slice of rows with 29 elements, and k is contiguous.
_TOKEN, _HEAD = 20, 6 - 5  # of program (20, 6): the grid counts q's 5 heads first
_POSITION, _SEQUENCE = divmod(_TOKEN, 3)  # of 3 sequences
_Q_APART, _K_APART = 24 + 5, 24  # heads of each, in elements
_BEGIN = _POSITION * 3 * 2 * 24 + _SEQUENCE * 2 * 24  # of k's 2 heads of that token
WALKED = [
    _K_APART,
    _HEAD,
    _BEGIN + _HEAD * _K_APART,
    _BEGIN + _HEAD * _Q_APART,
]
MISSTEPS = {
    "k is contiguous in this case, so its heads follow one another": {1: 29},
    "6 counts q's 5 heads first": {2: 6},
    "counted from 1; the first one has the number 0": {2: 2},
    "bytes, where elements are wanted": {1: 96, 3: 3936, 4: 3956},
    "there its token begins, with head 0, and it is head 1": {3: 960, 4: 960},
    "the wrong stride is in the place of the right one, not added to it": {4: 1013},
    "here the stride is k's own, not that of the line with the bug": {3: 989},
    "1008 is the first element after the end, not the first of a head": {3: 1008, 4: 1008},
    "it should begin there: insert the numbers into the line letter by letter": {4: 984},
}

THE_WALK = Exercise(
    cell="10-ex3",
    judged_by=(WALKED, MISSTEPS),
    wrong_answers=(
        WrongValue(given=[24, 6, 984, 989], told="6 counts q's 5 heads first"),
        WrongValue(given=[29, 1, 984, 989], told="k is contiguous in this case"),
        WrongValue(given=[24, 1, 984, 984], told="insert the numbers into the line"),
        WrongValue(given=[24, 2, 984, 989], told="the first one has the number 0"),
        WrongValue(given=[96, 1, 3936, 3956], told="bytes, where elements are wanted"),
        WrongValue(given=[24, 1, 960, 989], told="with head 0, and it is head 1"),
        WrongValue(given=[24, 1, 984, 1013], told="not added to it"),
    ),
)

THE_UNSEEN_BUG = Exercise(
    cell="10-ex2",
    judged_by=rope,
    wrong_answers=(
        WrongAnswer(
            mistake="none",
            instead={},
            told="the table's length: right for a table that ends with the sequence",
        ),
        WrongAnswer(
            mistake="all rows for one position",
            instead={"out.numel() // (positions * d)": "out.numel() // d"},
            told="the wrong position: the angle is that of 0, the first position",
        ),
    ),
)
