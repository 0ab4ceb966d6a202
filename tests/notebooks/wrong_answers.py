"""Wrong answers to the exercises of notebooks 04 to 09, 11, 12 and 14, and what they must be told.

Each is the worked solution with a line or two as readers write them: text of the solution on the
left, what stands there instead on the right. `test_answers_in_notebooks.py` has them judged.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wrong:
    """A solution with a mistake in it."""

    notebook: str
    exercise: int
    mistake: str
    instead: dict[str, str]  # text of the solution: what stands in its place
    told: str  # words of the verdict
    candidate: str = ""  # where the exercise has more than one
    state: str = "WRONG"  # what its verdict begins with

    def __str__(self) -> str:
        return f"{self.notebook}-{self.exercise} {self.mistake}"


WRONG_ANSWERS = [
    # 04: the interleaved kernel
    Wrong(
        *("04", 3, "halves"),
        {
            "comes_first = column % 2 == 0": "comes_first = column < D2 // 2",
            "column + 1, column - 1": "column + D2 // 2, column - D2 // 2",
        },
        "the wrong pairing: it pairs halves",
    ),
    Wrong(
        *("04", 3, "minus at the second"),
        {"tl.where(comes_first, -other, other)": "tl.where(comes_first, other, -other)"},
        "a sign: it rotates by minus the angle",
    ),
    Wrong(
        *("04", 3, "minus at both"),
        {"tl.where(comes_first, -other, other)": "-other"},
        "a sign: that of the sine in the second of each two neighbors",
    ),
    Wrong(
        *("04", 3, "no tail"),
        {"tl.sin(angle), mask=exists)": "tl.sin(angle), mask=rotates)"},
        "the tail is forgotten",
    ),
    Wrong(
        *("04", 3, "the pair's number for its column"),
        {"position * D2 + column, mask": "position * D2 + column // 2, mask"},
        "the angle of pair i is in column 2i, not i",
    ),
    Wrong(
        *("04", 3, "an odd member for its own partner"),
        {"tl.where(comes_first, column + 1, column - 1)": "column + 1 - column % 2"},
        "the wrong partner: in the second of each two neighbors each element is its own",
    ),
    Wrong(
        *("04", 3, "only the partner's line"),
        {
            "comes_first = column % 2 == 0": "comes_first = column < D2 // 2",
            "partner = tl.where(comes_first": "partner = tl.where(column % 2 == 0",
        },
        "a sign: the minus is the first half's, where it is the first neighbor's",
    ),
    Wrong(
        *("04", 3, "only the partner's line, by halves"),
        {"comes_first = column % 2 == 0": "comes_first = column < D2 // 2"},
        "the wrong partner: whether it is ahead or back depends on the half",
    ),
    # 04: positions
    Wrong(
        *("04", 4, "the place for the position"),
        {"freqs_ptr + position * D2": "freqs_ptr + place * D2"},
        "the wrong position: that of the place in the sequence, not of the id",
    ),
    Wrong(
        *("04", 4, "ids read as (s, b)"),
        {"sequence * seq_len + place": "place * batch + sequence"},
        "the wrong position: the ids are read as (s, b), where (b, s) is asked",
    ),
    Wrong(
        *("04", 4, "the first sequence's ids for all"),
        {"sequence * seq_len + place": "place"},
        "the wrong position: that of the first sequence's token",
    ),
    Wrong(
        *("04", 4, "the row of t found by the id"),
        {"t_ptr + place * stride_s": "t_ptr + position * stride_s"},
        "the wrong token: t is read where the position says, too",
    ),
    Wrong(
        *("04", 4, "the first place's id for all"),
        {"ids_ptr + sequence * seq_len + place": "ids_ptr + sequence * seq_len"},
        "the wrong position: that of the sequence's first token, for all its tokens",
    ),
    # 05: half a table
    Wrong(
        *("05", 3, "each half its own angle"),
        {
            "    cos, sin =": "    angle2 = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
            "mask=exists)\n    cos, sin =",
            "x2 * cos + x1 * sin": "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)",
        },
        "the wrong angle: each half takes its own, where one is asked for both",
    ),
    Wrong(
        *("05", 3, "the second half"),
        {"position * 2 * HALF + pair, mask": "position * 2 * HALF + HALF + pair, mask"},
        "the wrong angle: the first half takes the second half's angle",
    ),
    Wrong(
        *("05", 3, "two minuses"),
        {"x2 * cos + x1 * sin": "x2 * cos - x1 * sin"},
        "a sign: that of the sine in the second half",
    ),
    Wrong(
        *("05", 3, "rows of a table half as long"),
        {"position * 2 * HALF + pair, mask": "position * HALF + pair, mask"},
        "the step of the table: the row of the next position begins d2 elements on",
    ),
    Wrong(
        *("05", 3, "a cosine twice"),
        {"x2 * cos + x1 * sin": "x2 * cos + x1 * cos"},
        "the wrong function: a cosine for the sine, in the second half",
    ),
    Wrong(
        *("05", 3, "sine, cosine"),
        {"cos, sin = tl.cos(angle), tl.sin(angle)": "cos, sin = tl.sin(angle), tl.cos(angle)"},
        "the wrong function: sine and cosine have changed places",
    ),
    Wrong(
        *("05", 3, "no mask"),
        {"exists = pair < HALF": "exists = pair < BLOCK_HALF"},
        "out of bounds: program",
    ),
    Wrong(
        *("05", 3, "no mask for the first store"),
        {
            "tl.store(out1_ptr, x1 * cos - x2 * sin, mask=exists)": (
                "tl.store(out1_ptr, x1 * cos - x2 * sin)"
            )
        },
        "write collision: program 0 stores element 12 of out_ptr twice, nan and then",
    ),
    Wrong(
        *("05", 3, "both halves loaded"),
        {
            "    cos, sin =": "    other = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
            "mask=exists)\n    angle = tl.where(other > 9, other, angle)\n    cos, sin ="
        },
        "it loads 256 bytes of freqs_ptr, where 128 are asked for: half a row of the table for",
    ),
    Wrong(
        *("05", 3, "the same half twice"),
        {
            "    cos, sin =": "    angle2 = tl.load(freqs_ptr + position * 2 * HALF + pair, "
            "mask=exists)\n    cos, sin =",
            "x2 * cos + x1 * sin": "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)",
        },
        "it loads 256 bytes of freqs_ptr, where 128 are asked for",
    ),
    Wrong(
        *("05", 3, "each cosine evaluated twice"),
        {"x2 * cos + x1 * sin": "x2 * tl.cos(angle + 0.0) + x1 * sin"},
        "it evaluates 32 sines and 64 cosines, where 32 of each are asked for",
    ),
    # 05: neighbors in place
    Wrong(
        *("05", 4, "halves"),
        {
            "row_ptr + 2 * pair * stride_d": "row_ptr + pair * stride_d",
            "x1_ptr + stride_d": "x1_ptr + HALF * stride_d",
            "HALF + 2 * pair": "HALF + pair",
        },
        "the wrong pairing: it pairs halves",
    ),
    Wrong(
        *("05", 4, "a member loaded again"),
        {
            "    tl.store(x1_ptr + stride_d,": "    x1 = tl.load(x1_ptr, mask=exists)\n"
            "    tl.store(x1_ptr + stride_d,"
        },
        "after it has overwritten it itself",
    ),
    Wrong(
        *("05", 4, "the neighbor one element on"),
        {"x1_ptr + stride_d": "x1_ptr + 1"},
        "a wrong stride: it writes beside t",
    ),
    Wrong(
        *("05", 4, "no mask"),
        {"exists = pair < HALF": "exists = pair < BLOCK_HALF"},
        "out of bounds: program",
    ),
    Wrong(
        *("05", 4, "the angles of halves"),
        {"2 * HALF + 2 * pair, mask": "2 * HALF + pair, mask"},
        "the columns of the table: the angle of pair i is in column 2i, not i",
    ),
    # 05: q and k
    Wrong(
        *("05", 5, "k by q's strides"),
        {"row - q_rows, k_heads, k_strides": "row - q_rows, k_heads, q_strides"},
        "out of bounds: program 10 reads element 32 of k_ptr",
    ),
    Wrong(
        *("05", 5, "too few programs"),
        {"(s * b * (h + g),)": "(s * b * h,)"},
        "unwritten: no program stores any element",
    ),
    Wrong(
        *("05", 5, "two launches"),
        {
            "def rope_q_and_k(": "def both(",
            "    return q_out, k_out\n": "    return q_out, k_out\n\n\n"
            "def rope_q_and_k(q, k, freqs):\n"
            "    return both(q, k, freqs)[0], both(q, k, freqs)[1]\n",
        },
        "too many launches: 2, where 1 would do",
    ),
    Wrong(
        *("05", 5, "no tail"),
        {"        tl.store(out_row_ptr + column, x, mask=passes)\n": ""},
        "the tail is forgotten",
    ),
    Wrong(
        *("05", 5, "k stored to q's output"),
        {"t_ptr, out_ptr = k_ptr, k_out_ptr": "t_ptr, out_ptr = k_ptr, q_out_ptr"},
        "program 8 stores in element 0 of q_out_ptr, where program 0 has stored before",
    ),
    Wrong(
        *("05", 5, "k by q's heads"),
        {"row - q_rows, k_heads, k_strides": "row - q_rows, q_heads, k_strides"},
        "the wrong heads: the rows of k are counted by the heads of q",
    ),
    Wrong(
        *("05", 5, "no k_heads"),
        {"row, heads, strides = row - q_rows, k_heads,": "row, strides = row - q_rows,"},
        "the wrong heads: the rows of k are counted by the heads of q",
    ),
    Wrong(
        *("05", 5, "k's position by q's heads"),
        {"row // (batch * heads)": "row // (batch * q_heads)"},
        "the wrong heads: k's position is counted by the heads of q",
    ),
    # 06: the backward of the naive kernel
    Wrong(
        *("06", 2, "the partner's angle for both"),
        {"tl.cos(angle)": "tl.cos(partners_angle)"},
        "the wrong cosine: each half takes the cosine of the other's angle",
    ),
    Wrong(
        *("06", 2, "no tail"),
        {"tl.sin(partners_angle), mask=exists": "tl.sin(partners_angle), mask=rotates"},
        "the tail is forgotten",
    ),
    Wrong(
        *("06", 2, "only the sign"),
        {"tl.sin(partners_angle)": "tl.sin(angle)"},
        "the wrong sine: each half takes",
    ),
    Wrong(
        *("06", 2, "only the sine"),
        {"tl.where(in_first_half, other, -other)": "tl.where(in_first_half, -other, other)"},
        "a sign: it is the gradient for minus the angles",
    ),
    Wrong(
        *("06", 2, "the forward"),
        {
            "tl.sin(partners_angle)": "tl.sin(angle)",
            "tl.where(in_first_half, other, -other)": "tl.where(in_first_half, -other, other)",
        },
        "a sign and the wrong sine: the map itself",
    ),
    # 06: strides of 0
    Wrong(
        *("06", 4, "contiguous, it hopes"),
        {
            "grad_ptr + position * stride_s + sequence * stride_b + head * stride_h": "grad_ptr "
            "+ row * 2 * HALF",
            "pair * stride_d": "pair",
            "(pair + HALF) * stride_d": "pair + HALF",
        },
        "a wrong stride: it reads the memory as if the tensor were contiguous",
    ),
    Wrong(
        *("06", 4, "three strides"),
        {"pair * stride_d": "pair", "(pair + HALF) * stride_d": "pair + HALF"},
        "a wrong stride: the last one is forgotten",
    ),
    Wrong(
        *("06", 4, "sequence and head in the other order"),
        {"row // heads % batch, row % heads": "row % batch, row // batch % heads"},
        "the wrong row: sequence and head are counted in the other order",
    ),
    Wrong(
        *("06", 4, "ones for a gradient"),
        {
            "    out = torch.empty(": "    grad = torch.ones_like(grad)\n    out = torch.empty(",
        },
        "the gradient is ignored",
    ),
    Wrong(
        *("06", 4, "an output like the gradient"),
        {"torch.empty(grad.shape, dtype=grad.dtype, device=grad.device)": "torch.empty_like(grad)"},
        "a wrong stride: the output is not contiguous, because its input is not",
    ),
    # 06: three sections
    Wrong(
        *("06", 5, "time for all sections"),
        {"ids_ptr + (section * batch + sequence)": "ids_ptr + (0 * section + sequence)"},
        "the wrong position: every section takes those of section 0",
    ),
    Wrong(
        *("06", 5, "sections in another order"),
        {
            "tl.where(pair < HALF // 4, 0,": "tl.where(pair < HALF // 4, 2,",
            "8, 1, 2))": "8, 1, 0))",
        },
        "the wrong position: the sections take those of 2, 1, 0",
    ),
    Wrong(
        *("06", 5, "sections of elements"),
        {"HALF // 4": "HALF // 2", "3 * HALF // 8": "3 * HALF // 4"},
        "the wrong position: the sections begin or end elsewhere",
    ),
    Wrong(
        *("06", 5, "ids read as (s, b)"),
        {
            "(section * batch + sequence) * seq_len + place": (
                "(section * seq_len + place) * batch + sequence"
            )
        },
        "the wrong position: the ids are read as (s, b), where (b, s) is asked",
    ),
    Wrong(
        *("06", 5, "a section begins with the next sequence"),
        {"(section * batch + sequence)": "(section + sequence)"},
        "the wrong position: a section begins one row of ids after the one before",
    ),
    Wrong(
        *("06", 5, "the gradient by the forward"),
        {"position_ids, transpose=True)": "position_ids, transpose=False)"},
        "a sign and the wrong sine: the map itself",
        "three_sections_backward",
    ),
    # 06: an autotuned rotation in place
    Wrong(
        *("06", 6, "a key with more in it"),
        {'    restore_value=["t_ptr"],\n': "", 'key=["HALF"]': 'key=["HALF", "rows"]'},
        "rotated 7 times: 6 runs of the tuning",
    ),
    Wrong(
        *("06", 6, "no autotune"),
        {
            "@triton.autotune(\n"
            "    configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)],\n"
            '    key=["HALF"],\n'
            '    restore_value=["t_ptr"],\n'
            "    do_bench=three_runs,\n"
            ")\n": ""
        },
        "nothing is tuned: no call goes through triton.autotune with two configurations",
    ),
    Wrong(
        *("06", 6, "past autotune"),
        {"tuned_kernel[(s * b * h,)]": "tuned_kernel.fn[(s * b * h,)]"},
        "nothing is tuned: no call goes through triton.autotune with two configurations",
    ),
    Wrong(
        *("06", 6, "one configuration, which is not timed"),
        {", triton.Config({}, num_warps=4)]": "]", '    restore_value=["t_ptr"],\n': ""},
        "nothing is tuned: no call goes through triton.autotune with two configurations",
    ),
    Wrong(
        *("06", 6, "the launcher's name for the tensor"),
        {'restore_value=["t_ptr"]': 'restore_value=["t"]'},
        "KeyError: 't'",
    ),
    Wrong(
        *("06", 6, "zeros, as the documentation's note has it"),
        {'restore_value=["t_ptr"]': 'reset_to_zero=["t_ptr"]'},
        "zero: what is wrong is zero",
    ),
    Wrong(
        *("06", 6, "a copy is rotated"),
        {"](t, freqs, b * h": "](t.clone(), freqs, b * h"},
        "unchanged",
    ),
    Wrong(
        *("06", 6, "Triton's own clock"),
        {"    do_bench=three_runs,\n": ""},
        "nothing is timed: Triton's own clock wants a GPU",
    ),
    # 07: wide loads
    Wrong(
        *("07", 5, "second, first"),
        {
            "x1 * cos - x2 * sin, x2 * cos + x1 * sin": "x2 * cos + x1 * sin, x1 * cos - x2 * sin",
        },
        "neighbors swapped",
    ),
    Wrong(
        *("07", 5, "rows without an end"),
        {"(row < rows)[:, None]": "(row >= 0)[:, None]"},
        "out of bounds: program 1 reads element 64 of t_ptr",
    ),
    Wrong(
        *("07", 5, "minus the angle"),
        {"x1 * cos - x2 * sin, x2 * cos + x1 * sin": "x1 * cos + x2 * sin, x2 * cos - x1 * sin"},
        "a sign: it rotates by minus the angle",
    ),
    Wrong(
        *("07", 5, "the first position's angles for all"),
        {"freqs_ptr + position * 2 * HALF + column": "freqs_ptr + column"},
        "the wrong position: the angle is that of 0, the first position",
    ),
    Wrong(
        *("07", 5, "angles taken apart like halves"),
        {
            "tl.split(tl.reshape(angle, (BLOCK_HALF, 2)))": (
                "tl.split(tl.trans(tl.reshape(angle, (2, BLOCK_HALF))))"
            ),
        },
        "the columns of the table: the angle of pair i is in column 2i, not i",
    ),
    Wrong(
        *("07", 5, "second, first when they are loaded"),
        {"x1, x2 = tl.split": "x2, x1 = tl.split"},
        "the wrong members: the two of a pair are exchanged when they are loaded",
    ),
    # 07: the norm of a row
    Wrong(*("07", 4, "the sum for the mean"), {") / D +": ") +"}, "is not divided by d"),
    Wrong(*("07", 4, "the mean of the block"), {"/ D +": "/ BLOCK +"}, "the columns of the block"),
    Wrong(*("07", 4, "no epsilon"), {" + 1e-6": ""}, "the 1e-6 under the root is missing"),
    Wrong(
        *("07", 4, "epsilon beside the root"),
        {"tl.rsqrt(tl.sum(x * x) / D + 1e-6)": "1 / (tl.sqrt(tl.sum(x * x) / D) + 1e-6)"},
        "the 1e-6 is in the wrong place",
    ),
    Wrong(*("07", 4, "the root itself"), {"tl.rsqrt(": "tl.sqrt("}, "not divided: `rsqrt`"),
    Wrong(*("07", 4, "no root"), {"tl.rsqrt(": "1 / ("}, "the root is missing"),
    Wrong(*("07", 4, "the sum of the elements"), {"x * x)": "x)"}, "the elements are summed, not"),
    Wrong(*("07", 4, "no weight"), {"x * r * weight": "x * r"}, "no weights are applied"),
    Wrong(*("07", 4, "masked lanes undefined"), {", other=0.0": ""}, "undefined"),
    Wrong(
        *("07", 4, "squares in half precision"),
        {
            "other=0.0).to(tl.float32)": "other=0.0)",
            "tl.sum(x * x)": "tl.sum((x * x).to(tl.float32))",
        },
        "convert x to fp32 first",
    ),
    Wrong(
        *("07", 4, "rows by the block"),
        {"tl.program_id(0) * D": "tl.program_id(0) * BLOCK"},
        "out of bounds: program",
    ),
    Wrong(
        *("07", 4, "the first row for all"),
        {"tl.program_id(0) * D + column": "column"},
        "has stored before",
    ),
    Wrong(
        *("07", 4, "each weight for a row"),
        {"weight_ptr + column, mask=exists": "weight_ptr + tl.program_id(0)"},
        "the weight of a row",
    ),
    Wrong(
        *("07", 4, "x loaded for each use"),
        {
            "x * r * weight": "tl.load(x_ptr + offset, mask=exists).to(tl.float32) * r * weight",
        },
        "x is loaded again for the product",
        state="NOT YET",
    ),
    Wrong(
        *("07", 4, "eight warps for every row"),
        {"max(1, block // 1024)": "8"},
        "rows of 1000 want in flight on an SM at least 25 KiB",
        state="NOT YET",
    ),
    Wrong(
        *("07", 4, "the length no constant"),
        {"D: tl.constexpr": "D"},
        "a multiple of 16 bytes",
        state="NOT YET",
    ),
    Wrong(
        *("07", 4, "one row after the other in one program"),
        {
            "    column = tl.arange(0, BLOCK)\n": "    column = tl.arange(0, BLOCK)\n"
            "    for row in range(N):\n",
            "    exists = column < D\n": "        exists = column < D\n",
            "    offset = tl.program_id(0)": "        offset = row",
            "    x = tl.load(": "        x = tl.load(",
            "    weight = tl.load(": "        weight = tl.load(",
            "    r = tl.rsqrt": "        r = tl.rsqrt",
            "    tl.store(out_ptr": "        tl.store(out_ptr",
            "    BLOCK: tl.constexpr,  # D": "    N,\n    BLOCK: tl.constexpr,  # D",
            "[(n,)](": "[(1,)](",
            "D=d,": "D=d, N=n,",
        },
        "in flight can't be counted through a loop",
        state="NOT YET",
    ),
    # 09: rotated and scaled
    Wrong(*("09", 6, "not scaled"), {" * scale": ""}, "a factor: everything is 2.83 times"),
    Wrong(
        *("09", 6, "minus the angle"),
        {
            "- x2 * tl.sin(angle1)": "+ x2 * tl.sin(angle1)",
            "+ x1 * tl.sin(angle2)": "- x1 * tl.sin(angle2)",
        },
        "a sign: it rotates by minus the angle",
    ),
    Wrong(
        *("09", 6, "pairs without an end"),
        {"exists = pair < HALF": "exists = pair < BLOCK_HALF"},
        "out of bounds: program",
    ),
    Wrong(
        *("09", 6, "an unscaled sine"),
        {
            "* scale": "",
            "* tl.cos(angle1)": "* scale * tl.cos(angle1)",
            "* tl.cos(angle2)": "* scale * tl.cos(angle2)",
        },
        "a factor in the sine's products: they are 2.83 times",
    ),
    Wrong(
        *("09", 6, "only the first half scaled"),
        {
            "* scale": "",
            "x1 * tl.cos(angle1) - x2 * tl.sin(angle1)": "(x1 * tl.cos(angle1) "
            "- x2 * tl.sin(angle1)) * scale",
        },
        "a factor in the second half: it is 2.83 times",
    ),
    Wrong(
        *("09", 6, "scaled by PyTorch"),
        {"(tl.float32) * scale": "(tl.float32)", "    return out": "    return out * d**-0.5"},
        "your kernel ran, and stored nothing in it",
    ),
    Wrong(
        *("09", 6, "one angle for both halves"),
        {"angle2 = tl.load(angle_ptr + HALF,": "angle2 = tl.load(angle_ptr,"},
        "the wrong angle: the second half takes the first half's angle",
    ),
    Wrong(
        *("09", 6, "one cosine of two unscaled"),
        {
            "* scale": "",
            "* tl.cos(angle1)": "* scale * tl.cos(angle1)",
            "* tl.sin(angle1)": "* scale * tl.sin(angle1)",
            "* tl.sin(angle2)": "* scale * tl.sin(angle2)",
        },
        "a factor in the cosine's products, in the second half: they are 2.83 times",
    ),
    Wrong(
        *("09", 6, "only the first member scaled"),
        {"+ HALF, mask=exists).to(tl.float32) * scale": "+ HALF, mask=exists).to(tl.float32)"},
        "a factor in the second member of each pair, before it is rotated: 2.83 times",
    ),
    Wrong(
        *("09", 6, "no mask for the first store"),
        {"- x2 * tl.sin(angle1), mask=exists)": "- x2 * tl.sin(angle1))"},
        "write collision: program 0 stores element 12 of out_ptr twice, nan and then",
    ),
    # 10: a stride of another tensor
    Wrong(
        *("10", 1, "the bug"),
        {"k_strides[1] + head * k_strides[2]": "k_strides[1] + head * q_strides[2]"},
        "in the case 'only q is a slice of wider rows'; 9 other cases are right\n"
        "  looks like: out of bounds: program (20, 6) reads element 1008 of k_ptr",
    ),
    Wrong(
        *("10", 1, "a line that was right"),
        {
            "tl.cos(angle2) + x1 * tl.sin(angle2)": "tl.cos(angle2) - x1 * tl.sin(angle2)",
        },
        "a sign: that of the sine in the second half",
    ),
    Wrong(
        *("10", 1, "k without strides"),
        {
            "k_ptr + position * k_strides[0] + sequence * k_strides[1] + head * k_strides[2]": ""
            "k_ptr + (token * k_heads + head) * 2 * HALF"
        },
        "a wrong stride: it reads the memory as if the tensor were contiguous",
    ),
    Wrong(
        *("10", 1, "the grid's head"),
        {"        head = head - q_heads\n": ""},
        "out of bounds: program (2, 2) reads element 32 of k_ptr",
    ),
    Wrong(
        *("10", 1, "the output by the heads of q"),
        {"k_out_ptr + (token * k_heads + head)": "k_out_ptr + (token * q_heads + head)"},
        "out of bounds: program (2, 2) writes element 32 of k_out_ptr",
    ),
    # 11: the fused forward
    Wrong(
        *("11", 2, "the stub's lines"),
        {"    x1, x2 = x1 * r * weight1, x2 * r * weight2\n": ""},
        "unchanged: the stub's lines rotate, and normalize nothing",
    ),
    Wrong(
        *("11", 2, "a sum along the rows of a tile"),
        {"x2 * x2, 1)": "x2 * x2, 0)", "1e-6)[:, None]": "1e-6)[None, :]"},
        "the wrong axis: the squares are added up over the rows of a tile",
    ),
    Wrong(
        *("11", 2, "a sum over the whole tile"),
        {"x2 * x2, 1)": "x2 * x2)", "1e-6)[:, None]": "1e-6)"},
        "the wrong axis: the squares of all rows of a tile are added up",
    ),
    Wrong(
        *("11", 2, "no eps"),
        {" + 1e-6": ""},
        "0/0: a row of zeros comes out as NaN",
    ),
    Wrong(
        *("11", 2, "eps beside the root"),
        {"tl.rsqrt(mean + 1e-6)": "(1 / (tl.sqrt(mean) + 1e-6))"},
        "the 1e-6 is in the wrong place: it belongs under the root",
    ),
    Wrong(
        *("11", 2, "eps in the sum"),
        {"x2 * x2, 1) / (2 * HALF)": "x2 * x2, 1)", "(mean + 1e-6)": "((mean + 1e-6) / 2 / HALF)"},
        "the 1e-6 is in the wrong place: it is added to the sum",
    ),
    Wrong(
        *("11", 2, "the root instead of its reciprocal"),
        {"tl.rsqrt(mean": "tl.sqrt(mean"},
        "multiplied by the root, not divided",
    ),
    Wrong(
        *("11", 2, "the mean over the block's columns"),
        {"/ (2 * HALF)\n": "/ (2 * BLOCK_HALF)\n"},
        "the wrong divisor: the columns of the block",
    ),
    Wrong(
        *("11", 2, "the mean over the pairs"),
        {"/ (2 * HALF)\n": "/ HALF\n"},
        "the wrong divisor: half as many elements as a row has",
    ),
    Wrong(
        *("11", 2, "a sum for a mean"),
        {" / (2 * HALF)\n": "\n"},
        "the sum of squares is not divided by d",
    ),
    Wrong(
        *("11", 2, "the first half alone"),
        {"x1 * x1 + x2 * x2": "x1 * x1"},
        "half of the sum is missing: only the first half is squared",
    ),
    Wrong(
        *("11", 2, "no r"),
        {"x1 * r * weight1, x2 * r * weight2": "x1 * weight1, x2 * weight2"},
        "the row is not normalized",
    ),
    Wrong(
        *("11", 2, "no weight"),
        {"x1 * r * weight1, x2 * r * weight2": "x1 * r, x2 * r"},
        "the wrong weight: no weights are applied",
    ),
    Wrong(
        *("11", 2, "the first half's weights twice"),
        {"weight_ptr + HALF + pair": "weight_ptr + pair"},
        "the wrong weight: the second half takes the first half's weights",
    ),
    Wrong(
        *("11", 2, "minus the angle"),
        {"x1 * cos1 - x2 * sin1": "x1 * cos1 + x2 * sin1", "+ x1 * sin2": "- x1 * sin2"},
        "a sign: it rotates by minus the angle",
    ),
    Wrong(
        *("11", 2, "weights after the rotation"),
        {
            "x1 * r * weight1, x2 * r * weight2": "x1 * r, x2 * r",
            "x1 * cos1 - x2 * sin1": "(x1 * cos1 - x2 * sin1) * weight1",
            "x2 * cos2 + x1 * sin2": "(x2 * cos2 + x1 * sin2) * weight2",
        },
        "the wrong order: the weights are applied after the rotation",
    ),
    Wrong(
        *("11", 2, "no zeros for masked elements"),
        {", other=0.0": ""},
        "NaN: an element that is masked off is used",
    ),
    Wrong(
        *("11", 2, "two programs for each tile"),
        {
            "position = tl.program_id(0) // row_blocks": (
                "position = tl.program_id(0) // 2 // row_blocks"
            ),
            "tl.program_id(0) % row_blocks": "tl.program_id(0) // 2 % row_blocks",
            "x1 * r * weight1": "x1 * r * weight1 * (tl.program_id(0) % 2)",
            "(s * triton.cdiv(b * h, block_r),)": "(2 * s * triton.cdiv(b * h, block_r),)",
        },
        "write collision: programs 0 and 1 store element 0 of out_ptr,",
    ),
    Wrong(
        *("11", 2, "rounded like the model"),
        {
            "    x1, x2 = x1 * r * weight1, x2 * r * weight2\n": (
                "    stored = x_ptr.dtype.element_ty\n"
                "    x1 = ((x1 * r).to(stored) * weight1).to(stored).to(tl.float32)\n"
                "    x2 = ((x2 * r).to(stored) * weight2).to(stored).to(tl.float32)\n"
            ),
        },
        "rounding: too often, like the model, which rounds before it rotates; round once, at the",
    ),
    Wrong(
        *("11", 2, "coarse rows"),
        {
            "    x1, x2 = x1 * r * weight1, x2 * r * weight2\n": (
                "    x1, x2 = x1 * r * weight1, x2 * r * weight2\n"
                "    x1, x2 = x1.to(tl.float16).to(tl.float32), x2.to(tl.float16).to(tl.float32)\n"
            ),
        },
        "rounding: compute in fp32, and round once, at the end",
    ),
    # 11: the missing lines of the backward
    Wrong(
        *("11", 4, "no sums"),
        {
            "        sum1 += normal[0] * dn[0]\n": "",
            "        sum2 += normal[1] * dn[1]\n": "",
        },
        "dw is 0: nothing is added to sum1 and sum2",
    ),
    Wrong(
        *("11", 4, "the stub's line"),
        {
            "        dn = turn_row(grad, angles, None, TRANSPOSE=True)\n": "",
            "        sum1 += normal[0] * dn[0]\n": "",
            "        sum2 += normal[1] * dn[1]\n": "",
            "        dxhat = times(dn, weights)\n": "",
            "        mean = dot(dxhat, normal, 0) / (2 * HALF)\n": "",
            "dx = (dxhat[0] - normal[0] * mean) * r, (dxhat[1] - normal[1] * mean) * r, dn[2]": ""
            "dx = times(grad, weights)\n"
            "        dx = turn_row(dx, angles, None)",
        },
        "unchanged: the stub's line",
    ),
    Wrong(
        *("11", 4, "a wrong sign"),
        {"turn_row(grad, angles, None, TRANSPOSE=True)": "turn_row(grad, angles, None)"},
        "a sign: the gradient is rotated by the angle, not back",
    ),
    Wrong(
        *("11", 4, "no eps"),
        {" + 1e-6": ""},
        "0/0: a masked row, all zeros, adds NaN; the 1e-6 under the root is missing",
    ),
    Wrong(
        *("11", 4, "no weight"),
        {"dxhat = times(dn, weights)": "dxhat = dn"},
        "the weight is forgotten",
    ),
    Wrong(
        *("11", 4, "no mean term"),
        {" - normal[0] * mean": "", " - normal[1] * mean": ""},
        "the mean term is missing",
    ),
    Wrong(
        *("11", 4, "the mean added"),
        {"- normal[0] * mean": "+ normal[0] * mean", "- normal[1] * mean": "+ normal[1] * mean"},
        "the sign of the mean term",
    ),
    Wrong(
        *("11", 4, "a sum for the mean"),
        {"dot(dxhat, normal, 0) / (2 * HALF)": "dot(dxhat, normal, 0)"},
        "the mean term is a sum",
    ),
    Wrong(
        *("11", 4, "the mean along the rows of a tile"),
        {
            "mean = dot(dxhat, normal, 0) / (2 * HALF)": (
                "mean = tl.sum(dxhat[0] * normal[0] + dxhat[1] * normal[1], 1)[:, None, :] "
                "/ (2 * HALF)"
            )
        },
        "the wrong axis: the mean term adds up over the rows of a tile",
    ),
    Wrong(
        *("11", 4, "no r"),
        {"mean) * r, (": "mean), (", "mean) * r, dn": "mean), dn"},
        "a factor r is missing in dx",
    ),
    Wrong(
        *("11", 4, "dw of one tile only"),
        {"sum1 += normal": "sum1 = normal", "sum2 += normal": "sum2 = normal"},
        "dw of one tile only",
    ),
    Wrong(
        *("11", 4, "dw after the weight"),
        {
            "        sum1 += normal[0] * dn[0]\n        sum2 += normal[1] * dn[1]\n": "",
            "        mean =": "        sum1 += normal[0] * dxhat[0]\n"
            "        sum2 += normal[1] * dxhat[1]\n        mean =",
        },
        "dw has the weight in it",
    ),
    Wrong(
        *("11", 4, "dw of x"),
        {"+= normal[0] * dn": "+= x[0] * dn", "+= normal[1] * dn": "+= x[1] * dn"},
        "dw takes x, not x times r",
    ),
    Wrong(
        *("11", 4, "dw of the gradient as it came"),
        {"normal[0] * dn[0]": "normal[0] * grad[0]", "normal[1] * dn[1]": "normal[1] * grad[1]"},
        "dw takes the gradient before it is rotated back",
    ),
    Wrong(
        *("11", 4, "one share for all"),
        {"share_ptr + tl.program_id(0) * 2 * HALF + zero": "share_ptr + zero"},
        "write collision: program 1 stores in element 0 of share_ptr",
    ),
    # 12: a wrapper for a model
    Wrong(
        *("12", 1, "no copy"),
        {"x.permute(2, 0, 1, 3).contiguous()": "x.permute(2, 0, 1, 3)"},
        "the wrong layout: the kernel reads memory as (s, b, h, d), and it is still (b, h, s, d)",
    ),
    Wrong(
        *("12", 1, "as it came"),
        {
            "my_rope(x.permute(2, 0, 1, 3).contiguous(), angles).permute(1, 2, 0, 3)": (
                "my_rope(x.contiguous(), angles)"
            )
        },
        "the wrong layout: the kernel takes the first dimension for positions, and it is b",
    ),
    Wrong(
        *("12", 1, "the result not permuted back"),
        {"contiguous(), angles).permute(1, 2, 0, 3)": "contiguous(), angles)"},
        "shape (4, 1, 2, 8), expected (1, 2, 4, 8)",
    ),
    Wrong(
        *("12", 1, "the result copied"),
        {
            "contiguous(), angles).permute(1, 2, 0, 3)": (
                "contiguous(), angles).permute(1, 2, 0, 3).contiguous()"
            )
        },
        "PyTorch wrote the result, a second tensor with the elements that your kernel stored",
    ),
    Wrong(
        *("12", 1, "the map for its transpose"),
        {", transpose=True": ""},
        "the map itself, where its transpose is asked for",
        "turn_back",
    ),
    Wrong(
        *("12", 1, "minus the angles"),
        {"angles, transpose=True": "-angles"},
        "each half takes the sine that the other should take",
        "turn_back",
    ),
    Wrong(
        *("12", 1, "no copy of the gradient"),
        {"grad.permute(2, 0, 1, 3).contiguous()": "grad.permute(2, 0, 1, 3)"},
        "the wrong layout: the kernel reads memory as (s, b, h, d), and it is still (b, h, s, d)",
        "turn_back",
    ),
    # 12: Llama 3's frequencies
    Wrong(
        *("12", 3, "linear"),
        {"gamma * theta + (1 - gamma) * theta / 8": "theta / 8"},
        "linear: every pair is slowed down",
    ),
    Wrong(
        *("12", 3, "NTK"),
        {
            "gamma * theta + (1 - gamma) * theta / 8": (
                "theta * 8 ** (-torch.arange(0, d, 2) / (d - 2))"
            )
        },
        "NTK: another base",
    ),
    Wrong(
        *("12", 3, "the wrong pairs"),
        {"gamma * theta + (1 - gamma) * theta / 8": "gamma * theta / 8 + (1 - gamma) * theta"},
        "the wrong pairs: fast ones are slowed down",
    ),
    Wrong(
        *("12", 3, "radians for turns"),
        {" / (2 * torch.pi)": ""},
        "2 pi is missing",
    ),
    Wrong(
        *("12", 3, "no clamp"),
        {".clamp(0, 1)": ""},
        "gamma leaves 0 to 1",
    ),
    Wrong(
        *("12", 3, "a step at 1 turn"),
        {"((turns - 1) / (4 - 1)).clamp(0, 1)": "(turns >= 1).float()"},
        "every pair of 1 turn or more is kept",
    ),
    Wrong(
        *("12", 3, "a step at 4 turns"),
        {"((turns - 1) / (4 - 1)).clamp(0, 1)": "(turns > 4).float()"},
        "every pair of 4 turns or fewer is slowed down",
    ),
    Wrong(
        *("12", 3, "blended wavelengths"),
        {"gamma * theta + (1 - gamma) * theta / 8": "theta / (gamma + (1 - gamma) * 8)"},
        "wavelengths are blended",
    ),
    # 14: kernels of your own
    Wrong(
        *("14", 1, "the sigmoid of up"),
        {"tl.sigmoid(gate) * up": "tl.sigmoid(up) * gate"},
        "first at index (0, 0): got 0.4805, expected 0.1348",
    ),
    Wrong(
        *("14", 1, "a load without its mask"),
        {"gate_ptr + i, mask=exists": "gate_ptr + i"},
        "program 32 reads element 33024 of gate_ptr",
    ),
    Wrong(
        *("14", 1, "the last block left out"),
        {"triton.cdiv(n, block)": "n // block"},
        "stored by: no program",
    ),
    Wrong(
        *("14", 1, "the input for the output"),
        {"out, n = torch.empty_like(gate)": "out, n = gate"},
        "an input is overwritten: gate",
    ),
    Wrong(
        *("14", 2, "the gradients exchanged"),
        {"return d_gate, d_up": "return d_up, d_gate"},
        "got -0.02271, expected -0.001488",
    ),
    Wrong(
        *("14", 2, "the sigmoid for its product"),
        {"d_out * silu": "d_out * sigmoid"},
        "result 1: 32864 of 33024 values",
    ),
    Wrong(
        *("14", 3, "the sum not stored"),
        {"    tl.store(residual_ptr + offset, total, mask=exists)\n": ""},
        "1 results came back, 2 are expected",
    ),
    Wrong(
        *("14", 3, "the block for the row"),
        {"/ D + 1e-6": "/ BLOCK + 1e-6"},
        "x: 15320 of 15360 values",
    ),
    Wrong(
        *("14", 3, "a program too many"),
        {"[(n,)]": "[(n + 1,)]"},
        "program 3 reads element 15360 of x_ptr",
    ),
    Wrong(
        *("14", 4, "positions of the batch"),
        {"token - tl.max(tl.where(starts <= token, starts, 0))": "token"},
        "result 0: 28604 of 40960 values",
    ),
    Wrong(
        *("14", 4, "a sequence begins one late"),
        {"starts <= token": "starts < token"},
        "result 0: 12029 of 40960 values",
    ),
    Wrong(
        *("14", 4, "minus the angle"),
        {
            "x1 * cos - x2 * sin": "x1 * cos + x2 * sin",
            "x2 * cos + x1 * sin": "x2 * cos - x1 * sin",
        },
        "first at index (3, 0, 0): got 1.641",
    ),
    # 15: into a cache
    Wrong(
        *("15", 1, "keys and values exchanged"),
        {"(k_cache_ptr + offset, k,": "(k_cache_ptr + offset, v,"},
        "k_cache: 3060 of 32768 values",
    ),
    Wrong(
        *("15", 1, "every token of a block in one slot"),
        {" + slot % page * place_stride": ""},
        "programs 1 and 2 store element 0 of k_cache_ptr",
    ),
    Wrong(
        *("15", 1, "a slot one off"),
        {"slot % page * place_stride": "(slot + 1) % page * place_stride"},
        "k_cache: 6144 of 32768 values",
    ),
    Wrong(
        *("15", 1, "tokens without a slot are written"),
        {"k, mask=slot >= 0": "k"},
        "program 3 writes element -256 of k_cache_ptr",
    ),
    Wrong(
        *("15", 1, "the cache as if it were contiguous"),
        {"element // D * h_stride + element % D": "element"},
        "k_cache: ",
    ),
]

# Right answers that do more than it takes, which no task forbids; `told` is the remark.
WASTEFUL_ANSWERS = [
    Wrong(
        *("06", 4, "a copy first"),
        {
            "    s, b, h, d = grad.shape\n": "    grad = grad.contiguous()\n"
            "    s, b, h, d = grad.shape\n"
        },
        "it copies grad by contiguous before the launch, which moves 5760 bytes more (in the case",
    ),
]

# Right answers in other words than the solution's; nothing is to be said about them.
RIGHT_ANSWERS = [
    Wrong(
        *("05", 3, "evaluated in both lines, which the compiler does once"),
        {
            "    cos, sin = tl.cos(angle), tl.sin(angle)\n": "",
            "x1 * cos - x2 * sin": "x1 * tl.cos(angle) - x2 * tl.sin(angle)",
            "x2 * cos + x1 * sin": "x2 * tl.cos(angle) + x1 * tl.sin(angle)",
        },
        "RIGHT: ",
    ),
    Wrong(
        *("05", 3, "zeros for masked angles"),
        {"HALF + pair, mask=exists)\n    cos": "HALF + pair, mask=exists, other=0.0)\n    cos"},
        "RIGHT: ",
    ),
    Wrong(
        *("05", 3, "a block with one row of angles"),
        {
            "+ pair, mask=exists)\n    cos": "+ pair[None, :], mask=exists[None, :])\n    cos",
            "tl.cos(angle), tl.sin(angle)": "tl.cos(angle), tl.sin(angle)\n"
            "    cos, sin = tl.reshape(cos, (BLOCK_HALF,)), tl.reshape(sin, (BLOCK_HALF,))",
        },
        "RIGHT: ",
    ),
]


@dataclass(frozen=True)
class WrongTimer:
    """A timer of notebook 08's exercise 2 with a mistake in it."""

    mistake: str
    instead: dict[str, str]  # text of the solution: what stands in its place
    told: str  # words of the verdict

    def __str__(self) -> str:
        return self.mistake


_SAMPLE = """        gpu.flush()
        gpu.sleep(1000)  # the host queues the rest while the device is busy
        begin = gpu.mark()
"""
WRONG_TIMERS = [
    WrongTimer(
        "one sample",
        {"range(21)": "range(1)"},
        "every third call is disturbed",
    ),
    WrongTimer(
        "one sample after one call",
        {"range(21)": "range(1)", "range(3)": "range(1)"},
        "every third call is disturbed",
    ),
    WrongTimer(
        "one sample after two calls",
        {"range(21)": "range(1)", "range(3)": "range(2)"},
        "every third call is disturbed",
    ),
    WrongTimer(
        "one sample without a sleep",
        {
            "range(21)": "range(1)",
            _SAMPLE: "        gpu.flush()\n        begin = gpu.mark()\n",
        },
        "what does the device wait for between two marks?",
    ),
    WrongTimer(
        "a mean",
        {"statistics.median(times)": "statistics.mean(times)"},
        "every third call is disturbed",
    ),
    WrongTimer(
        "the smallest sample",
        {"statistics.median(times)": "min(times)"},
        "every fifth call is quick, and the smallest sample is one of these",
    ),
    WrongTimer(
        "no sleep",
        {_SAMPLE: "        gpu.flush()\n        begin = gpu.mark()\n"},
        "what does the device wait for between two marks?",
    ),
    WrongTimer(
        "no flush",
        {"        gpu.flush()\n": ""},
        "where do the bytes come from, the second time?",
    ),
    WrongTimer(
        "no waiting",
        {"        gpu.synchronize()\n": ""},
        "the device has not passed this mark yet: synchronize first",
    ),
    WrongTimer(
        "the host's clock, and no waiting",
        {
            "gpu.mark()": "gpu.clock()",
            "end.since(begin)": "end - begin",
            "        gpu.synchronize()\n": "",
        },
        "who waits for the device?",
    ),
    WrongTimer(
        "a sleep between the marks",
        {
            "        gpu.sleep(1000)": "        begin = gpu.mark()\n        gpu.sleep(1000)",
            "        begin = gpu.mark()\n        call()": "        call()",
        },
        "the sleep is between the two marks, so you time it as well",
    ),
    WrongTimer(
        "a flush between the marks",
        {
            "        gpu.flush()\n": "",
            "        begin = gpu.mark()\n": "        begin = gpu.mark()\n        gpu.flush()\n",
        },
        "the flush is between the two marks, so you time it as well",
    ),
    WrongTimer(
        "marks the other way",
        {"end.since(begin)": "begin.since(end)"},
        "the marks have changed places",
    ),
    WrongTimer(
        "in milliseconds",
        {"statistics.median(times)": "statistics.median(times) / 1000"},
        "looks like: milliseconds, not microseconds",
    ),
    WrongTimer(
        "a mark as in PyTorch",
        {"end.since(begin)": "begin.elapsed_time(end)"},
        "it raises AttributeError: 'Mark' object has no attribute 'elapsed_time'",
    ),
    WrongTimer(
        "no return",
        {"return statistics.median(times)": "statistics.median(times)"},
        "a number of microseconds is wanted, None came",
    ),
    WrongTimer(
        "one call, the first",
        {"range(21)": "range(1)", "range(3)": "range(0)"},
        "what does a first call do?",
    ),
]


@dataclass(frozen=True)
class WrongRepair:
    """Notebook 10's exam with a repair that is none."""

    mistake: str
    instead: dict[str, str]  # text of the exam: what stands in its place
    told: str  # words of the verdict

    def __str__(self) -> str:
        return self.mistake


_ROWS = "out.numel() // (positions * d)"
_FIRST_LINE = "positions, d2 = freqs.shape[0], freqs.shape[-1]"
WRONG_REPAIRS = [
    WrongRepair("none", {}, "the table's length: right for a table that ends with the sequence"),
    WrongRepair(
        "the rows of one sequence",
        {_ROWS: "heads"},
        "out of bounds: program 8 reads element 192 of t_ptr",
    ),
    WrongRepair(
        "the rows of one head",
        {_ROWS: "t.shape[1]"},
        "out of bounds: program 4 reads element 64 of t_ptr",
    ),
    WrongRepair(
        "all rows for one position",
        {_ROWS: "out.numel() // d"},
        "the wrong position: the angle is that of 0, the first position",
    ),
    WrongRepair(
        "the end of the table",
        {_FIRST_LINE: "freqs = freqs[-t.shape[0] :]\n    " + _FIRST_LINE},
        "the wrong position: the angle is that of the position counted from the end of the table",
    ),
    WrongRepair(
        "long tables refused",
        {_FIRST_LINE: "assert len(freqs) == len(t)\n    " + _FIRST_LINE},
        "it raises AssertionError",
    ),
]
