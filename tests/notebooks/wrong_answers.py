"""Wrong answers to the exercises of notebooks 04 to 09 and 11 to 14, and what they must be told.

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
    # 05: q and k
    Wrong(
        *("05", 4, "k by q's strides"),
        {"row - q_rows, k_heads, k_strides": "row - q_rows, k_heads, q_strides"},
        "out of bounds: program 10 reads element 32 of k_ptr",
    ),
    Wrong(
        *("05", 4, "too few programs"),
        {"(s * b * (h + g),)": "(s * b * h,)"},
        "unwritten: no program stores any element",
    ),
    Wrong(
        *("05", 4, "two launches"),
        {
            "def rope_q_and_k(": "def both(",
            "    return q_out, k_out\n": "    return q_out, k_out\n\n\n"
            "def rope_q_and_k(q, k, freqs):\n"
            "    return both(q, k, freqs)[0], both(q, k, freqs)[1]\n",
        },
        "too many launches: 2, where 1 would do",
    ),
    Wrong(
        *("05", 4, "no tail"),
        {"        tl.store(out_row_ptr + column, x, mask=passes)\n": ""},
        "the tail is forgotten",
    ),
    Wrong(
        *("05", 4, "k stored to q's output"),
        {"t_ptr, out_ptr = k_ptr, k_out_ptr": "t_ptr, out_ptr = k_ptr, q_out_ptr"},
        "program 8 stores in element 0 of q_out_ptr, where program 0 has stored before",
    ),
    Wrong(
        *("05", 4, "k by q's heads"),
        {"row - q_rows, k_heads, k_strides": "row - q_rows, q_heads, k_strides"},
        "the wrong heads: the rows of k are counted by the heads of q",
    ),
    Wrong(
        *("05", 4, "no k_heads"),
        {"row, heads, strides = row - q_rows, k_heads,": "row, strides = row - q_rows,"},
        "the wrong heads: the rows of k are counted by the heads of q",
    ),
    Wrong(
        *("05", 4, "k's position by q's heads"),
        {"row // (batch * heads)": "row // (batch * q_heads)"},
        "the wrong heads: k's position is counted by the heads of q",
    ),
    # 07: the norm of a row
    Wrong(*("07", 3, "the sum for the mean"), {") / D +": ") +"}, "is not divided by d"),
    Wrong(*("07", 3, "the mean of the block"), {"/ D +": "/ BLOCK +"}, "everything is 1.15 times"),
    Wrong(
        *("07", 3, "no epsilon"),
        {" + 1e-6": ""},
        "in the case 'a row of zeros, and small elements'",
    ),
    Wrong(
        *("07", 3, "epsilon beside the root"),
        {"tl.rsqrt(tl.sum(x * x) / D + 1e-6)": "1 / (tl.sqrt(tl.sum(x * x) / D) + 1e-6)"},
        "in the case 'a row of zeros, and small elements'",
    ),
    Wrong(*("07", 3, "no root"), {"tl.rsqrt(": "1 / ("}, "the root is missing"),
    Wrong(*("07", 3, "the sum of the elements"), {"x * x)": "x)"}, "the elements are summed, not"),
    Wrong(*("07", 3, "no weight"), {"x * r * weight": "x * r"}, "no weights are applied"),
    Wrong(*("07", 3, "masked lanes undefined"), {", other=0.0": ""}, "undefined"),
    Wrong(
        *("07", 3, "squares in half precision"),
        {
            "other=0.0).to(tl.float32)": "other=0.0)",
            "tl.sum(x * x)": "tl.sum((x * x).to(tl.float32))",
        },
        "convert x to fp32 first",
    ),
    Wrong(
        *("07", 3, "rows by the block"),
        {"tl.program_id(0) * D": "tl.program_id(0) * BLOCK"},
        "out of bounds: program",
    ),
    Wrong(
        *("07", 3, "the first row for all"),
        {"tl.program_id(0) * D + column": "column"},
        "has stored before",
    ),
    Wrong(
        *("07", 3, "each weight for a row"),
        {"weight_ptr + column, mask=exists": "weight_ptr + tl.program_id(0)"},
        "the weight of a row",
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
        "in the case 'a row of zeros, and small elements'",
    ),
    Wrong(
        *("11", 2, "eps beside the root"),
        {"tl.rsqrt(mean + 1e-6)": "(1 / (tl.sqrt(mean) + 1e-6))"},
        "in the case 'a row of zeros, and small elements'",
    ),
    Wrong(
        *("11", 2, "the mean over the block's columns"),
        {"/ (2 * HALF)\n": "/ (2 * BLOCK_HALF)\n"},
        "a factor: everything is 1.15 times",
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
        *("12", 1, "ones for the gradient"),
        {"grad.permute": "torch.ones_like(grad).permute"},
        "the gradient is ignored: another incoming gradient gives the same result",
        "turn_back",
    ),
    Wrong(
        *("12", 1, "no copy of the gradient"),
        {"grad.permute(2, 0, 1, 3).contiguous()": "grad.permute(2, 0, 1, 3)"},
        "the wrong layout: the kernel reads memory as (s, b, h, d), and it is still (b, h, s, d)",
        "turn_back",
    ),
    # 13: kernels of your own
    Wrong(
        *("13", 1, "the sigmoid of up"),
        {"tl.sigmoid(gate) * up": "tl.sigmoid(up) * gate"},
        "shape (3, 11008), bfloat16; first at index (0, 0): got",
    ),
    Wrong(
        *("13", 1, "a load without its mask"),
        {"gate_ptr + i, mask=exists": "gate_ptr + i"},
        "program 32 reads element 33024 of gate_ptr",
    ),
    Wrong(
        *("13", 1, "the last block left out"),
        {"triton.cdiv(n, block)": "n // block"},
        "stored by: no program",
    ),
    Wrong(
        *("13", 1, "the input for the output"),
        {"out, n = torch.empty_like(gate)": "out, n = gate"},
        "an input is overwritten: gate",
    ),
    Wrong(
        *("13", 2, "the gradients exchanged"),
        {"return d_gate, d_up": "return d_up, d_gate"},
        "result 0: 32",
    ),
    Wrong(
        *("13", 2, "the sigmoid for its product"),
        {"d_out * silu": "d_out * sigmoid"},
        "result 1: 32",
    ),
    Wrong(
        *("13", 3, "the sum not stored"),
        {"    tl.store(residual_ptr + offset, total, mask=exists)\n": ""},
        "1 results came back, 2 are expected",
    ),
    Wrong(
        *("13", 3, "the block for the row"),
        {"/ D + 1e-6": "/ BLOCK + 1e-6"},
        "shape (3, 5120), bfloat16; first at index (0, 0): got",
    ),
    Wrong(
        *("13", 3, "a program too many"),
        {"[(n,)]": "[(n + 1,)]"},
        "program 3 reads element 15360 of x_ptr",
    ),
    Wrong(
        *("13", 4, "positions of the batch"),
        {"token - tl.max(tl.where(starts <= token, starts, 0))": "token"},
        "result 0: 28",
    ),
    Wrong(
        *("13", 4, "a sequence begins one late"),
        {"starts <= token": "starts < token"},
        "first at index (1, 0, 0): got",
    ),
    Wrong(
        *("13", 4, "minus the angle"),
        {
            "x1 * cos - x2 * sin": "x1 * cos + x2 * sin",
            "x2 * cos + x1 * sin": "x2 * cos - x1 * sin",
        },
        "first at index (3, 0, 0): got",
    ),
    # 14: into a cache
    Wrong(
        *("14", 1, "keys and values exchanged"),
        {"(k_cache_ptr + offset, k,": "(k_cache_ptr + offset, v,"},
        "k_cache: 3060 of 32768 values",
    ),
    Wrong(
        *("14", 1, "every token of a block in one slot"),
        {" + slot % page * place_stride": ""},
        "programs 1 and 2 store element 0 of k_cache_ptr",
    ),
    Wrong(
        *("14", 1, "a slot one off"),
        {"slot % page * place_stride": "(slot + 1) % page * place_stride"},
        "k_cache: 6144 of 32768 values",
    ),
    Wrong(
        *("14", 1, "tokens without a slot are written"),
        {"k, mask=slot >= 0": "k"},
        "program 3 writes element -256 of k_cache_ptr",
    ),
    Wrong(
        *("14", 1, "the cache as if it were contiguous"),
        {"element // D * h_stride + element % D": "element"},
        "k_cache: ",
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
