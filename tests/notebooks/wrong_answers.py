"""Answers to the exercises that ask for code, most of them wrong, and what they must be told.

Each is the worked solution with a line or two as readers write them: text of the solution on the
left, what a reader has instead on the right. `test_answers_in_notebooks.py` has them judged. An
exercise needs two that are told apart, and each rule of `rope_lab/grading/diagnose` one somewhere.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wrong:
    """A solution with a mistake in it."""

    notebook: str
    exercise: int
    mistake: str
    instead: dict[str, str]  # text of the solution: what is in its place
    told: str  # words of the verdict
    state: str = "WRONG"  # what its verdict begins with

    def __str__(self) -> str:
        return f"{self.notebook}-{self.exercise} {self.mistake}"


_SAMPLE = """        gpu.flush()
        gpu.sleep(1000)  # the host queues the rest while the device is busy
        begin = gpu.mark()
"""

WRONG_ANSWERS = [
    # 00: a scaled copy
    Wrong(
        *("00", 1, "no mask"),
        {", mask=exists": ""},
        "out of bounds: program 0 reads element 64 of x_ptr, whose memory has elements 0 to 63",
    ),
    Wrong(
        *("00", 1, "no factor"),
        {"2 * x,": "x,"},
        "unchanged: the result is x as it came",
    ),
    Wrong(
        *("00", 1, "no grid"),
        {"scaled_copy_kernel[grid](": "scaled_copy_kernel("},
        "is a kernel called without its grid, kernel[grid](...)?",
    ),
    Wrong(
        *("00", 1, "the number of a program as an offset"),
        {"tl.program_id(0) * BLOCK": "tl.program_id(0)"},
        "from number 259 on; program 1 stores in element 1 of out_ptr, where program 0 has stored",
    ),
    Wrong(*("00", 1, "another factor"), {"2 * x,": "3 * x,"}, "a factor: everything is 1.5 times"),
    Wrong(
        *("00", 1, "a kernel for show"),
        {"return out": "return 2 * x"},
        "PyTorch wrote the result, a second tensor with the elements that your kernel stored",
    ),
    # right, but more than it takes, which no task forbids
    Wrong(
        *("00", 1, "a program for each element"),
        {"grid = (triton.cdiv(x.numel(), block),)": "grid = (x.numel(),)"},
        *("it starts 64 programs, where 1 would do: the others store nothing", "RIGHT, but"),
    ),
    Wrong(
        *("00", 1, "overlapping blocks"),
        {
            "tl.program_id(0) * BLOCK +": "tl.program_id(0) * (BLOCK // 2) +",
            "triton.cdiv(x.numel(), block)": "triton.cdiv(x.numel(), block // 2)",
        },
        *("elements of out_ptr twice, the same value each time", "RIGHT, but"),
    ),
    Wrong(
        *("00", 1, "one program for all"),
        {
            "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    exists = i < n\n"
            "    x = tl.load(x_ptr + i, mask=exists)\n"
            "    tl.store(out_ptr + i, 2 * x, mask=exists)\n": (
                "    for begin in range(0, n, BLOCK):\n"
                "        i = begin + tl.arange(0, BLOCK)\n"
                "        x = tl.load(x_ptr + i, mask=i < n)\n"
                "        tl.store(out_ptr + i, 2 * x, mask=i < n)\n"
            ),
            "(triton.cdiv(x.numel(), block),)": "(1,)",
        },
        *(
            "one program stores 4 blocks, one after the other, where 4 could share them",
            "RIGHT, but",
        ),
    ),
    # 01: turn pairs by complex numbers
    Wrong(
        *("01", 1, "halves"),
        {
            "x.unflatten(-1, (-1, 2))": "x.unflatten(-1, (2, -1)).mT.contiguous()",
            "view_as_real(turned)": "view_as_real(turned).mT",
        },
        "the wrong pairing: it pairs halves (i, i + d2/2), where neighbors",
    ),
    Wrong(
        *("01", 1, "the imaginary part first"),
        {"(turned)": "(turned).flip(-1)"},
        "neighbors swapped: each of the two",
    ),
    Wrong(
        *("01", 1, "only the real part"),
        {"(turned)": "(turned.real + 0j)"},
        "zero: what is wrong is zero, in the second of each two neighbors",
    ),
    Wrong(
        *("01", 1, "a minus for all"),
        {"(turned)": "(-turned)"},
        "every element has the opposite sign",
    ),
    # 02: the whole function
    Wrong(
        *("02", 1, "no tail"),
        {"torch.cat([rotated.to(t.dtype), tail], dim=-1)": "rotated.to(t.dtype)"},
        "shape (5, 2, 3, 12), expected (5, 2, 3, 20)",
    ),
    Wrong(
        *("02", 1, "zeros for a tail"), {", tail]": ", tail * 0]"}, "the tail is wrong: it is zero"
    ),
    Wrong(
        *("02", 1, "rounded before"),
        {"angles.cos()": "angles.cos().to(t.dtype)", "angles.sin()": "angles.sin().to(t.dtype)"},
        "rounding: compute in fp32",
    ),
    Wrong(
        *("02", 1, "halves of the whole head"),
        {"rotate_half(rotary) *": "rotate_half(t)[..., :d2] *"},
        "the halves of the whole head: rotate_half gets all d elements of t, not the first d2",
    ),
    # 03: rotate_half in Triton
    Wrong(
        *("03", 2, "the partner as it is"),
        {"sign * x": "x"},
        "a sign: what is wrong has the opposite sign, in the first half",
    ),
    Wrong(
        *("03", 2, "the signs of the halves swapped"),
        {"in_first_half, -1, 1": "in_first_half, 1, -1"},
        "every element has the opposite sign",
    ),
    Wrong(
        *("03", 2, "one direction for all"),
        {"i + HALF, i - HALF": "i + HALF, i + HALF"},
        "out of bounds: program 0 reads element 64 of x_ptr",
    ),
    Wrong(
        *("03", 2, "the element itself"),
        {"tl.where(in_first_half, i + HALF, i - HALF)": "i"},
        "halves swapped, and a sign: each half is where the other should be",
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
        *("05", 3, "both halves loaded"),
        {
            "    cos, sin =": "    other = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
            "mask=exists)\n    angle = tl.where(other > 9, other, angle)\n    cos, sin ="
        },
        "it loads 256 bytes of freqs_ptr, where 128 are asked for: half a row of the table for",
    ),
    Wrong(
        *("05", 3, "each cosine evaluated twice"),
        {"x2 * cos + x1 * sin": "x2 * tl.cos(angle + 0.0) + x1 * sin"},
        "it evaluates 32 sines and 64 cosines, where 32 of each are asked for",
    ),
    # right in other words than the solution's: nothing is to be said about them
    Wrong(
        *("05", 3, "evaluated in both lines, which the compiler does once"),
        {
            "    cos, sin = tl.cos(angle), tl.sin(angle)\n": "",
            "x1 * cos - x2 * sin": "x1 * tl.cos(angle) - x2 * tl.sin(angle)",
            "x2 * cos + x1 * sin": "x2 * tl.cos(angle) + x1 * tl.sin(angle)",
        },
        *("RIGHT: ", "RIGHT"),
    ),
    Wrong(
        *("05", 3, "a block with one row of angles"),
        {
            "+ pair, mask=exists)\n    cos": "+ pair[None, :], mask=exists[None, :])\n    cos",
            "tl.cos(angle), tl.sin(angle)": "tl.cos(angle), tl.sin(angle)\n"
            "    cos, sin = tl.reshape(cos, (BLOCK_HALF,)), tl.reshape(sin, (BLOCK_HALF,))",
        },
        *("RIGHT: ", "RIGHT"),
    ),
    # 05: q and k
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
    # 07: the norm of a row
    Wrong(*("07", 3, "the sum for the mean"), {") / D +": ") +"}, "is not divided by d"),
    Wrong(
        *("07", 3, "no epsilon"),
        {" + 1e-6": ""},
        "in the case 'a row of zeros, and small elements'",
    ),
    Wrong(*("07", 3, "no root"), {"tl.rsqrt(": "1 / ("}, "the root is missing"),
    Wrong(*("07", 3, "the sum of the elements"), {"x * x)": "x)"}, "the elements are summed, not"),
    Wrong(*("07", 3, "no weight"), {"x * r * weight": "x * r"}, "no weights are applied"),
    Wrong(
        *("07", 3, "squares in half precision"),
        {
            "other=0.0).to(tl.float32)": "other=0.0)",
            "tl.sum(x * x)": "tl.sum((x * x).to(tl.float32))",
        },
        "convert x to fp32 first",
    ),
    # 08: a timer
    Wrong(
        *("08", 1, "one sample"),
        {"range(21)": "range(1)"},
        "every third call is disturbed",
    ),
    Wrong(
        *("08", 1, "the smallest sample"),
        {"statistics.median(times)": "min(times)"},
        "every fifth call is quick, and the smallest sample is one of these",
    ),
    Wrong(
        *("08", 1, "no sleep"),
        {_SAMPLE: "        gpu.flush()\n        begin = gpu.mark()\n"},
        "what does the device wait for between two marks?",
    ),
    Wrong(
        *("08", 1, "no flush"),
        {"        gpu.flush()\n": ""},
        "where do the bytes come from, the second time?",
    ),
    Wrong(
        *("08", 1, "no waiting"),
        {"        gpu.synchronize()\n": ""},
        "the device has not passed this mark yet: synchronize first",
    ),
    Wrong(
        *("08", 1, "the host's clock, and no waiting"),
        {
            "gpu.mark()": "gpu.clock()",
            "end.since(begin)": "end - begin",
            "        gpu.synchronize()\n": "",
        },
        "who waits for the device?",
    ),
    Wrong(
        *("08", 1, "a sleep between the marks"),
        {
            "        gpu.sleep(1000)": "        begin = gpu.mark()\n        gpu.sleep(1000)",
            "        begin = gpu.mark()\n        call()": "        call()",
        },
        "the sleep is between the two marks, so you time it as well",
    ),
    Wrong(
        *("08", 1, "a flush between the marks"),
        {
            "        gpu.flush()\n": "",
            "        begin = gpu.mark()\n": "        begin = gpu.mark()\n        gpu.flush()\n",
        },
        "the flush is between the two marks, so you time it as well",
    ),
    Wrong(
        *("08", 1, "marks the other way"),
        {"end.since(begin)": "begin.since(end)"},
        "the marks have changed places",
    ),
    Wrong(
        *("08", 1, "in milliseconds"),
        {"statistics.median(times)": "statistics.median(times) / 1000"},
        "looks like: milliseconds, not microseconds",
    ),
    Wrong(
        *("08", 1, "no return"),
        {"return statistics.median(times)": "statistics.median(times)"},
        "a number of microseconds is wanted, None came",
    ),
    Wrong(
        *("08", 1, "one call, the first"),
        {"range(21)": "range(1)", "range(3)": "range(0)"},
        "what does a first call do?",
    ),
    # 10: a stride of another tensor
    Wrong(
        *("10", 1, "the bug"),
        {"k_strides[1] + head * k_strides[2]": "k_strides[1] + head * q_strides[2]"},
        "in the case 'only q is a slice of wider rows'; 9 other cases are right\n"
        "  looks like: out of bounds: program (20, 6) reads element 1008 of k_ptr",
    ),
    Wrong(
        *("10", 1, "k without strides"),
        {
            "k_ptr + position * k_strides[0] + sequence * k_strides[1] + head * k_strides[2]": ""
            "k_ptr + (token * k_heads + head) * 2 * HALF"
        },
        "a wrong stride: it reads the memory as if the tensor were contiguous",
    ),
    # 10: an exam
    Wrong(
        *("10", 2, "none"), {}, "the table's length: right for a table that ends with the sequence"
    ),
    Wrong(
        *("10", 2, "all rows for one position"),
        {"out.numel() // (positions * d)": "out.numel() // d"},
        "the wrong position: the angle is that of 0, the first position",
    ),
    Wrong(
        *("10", 2, "the end of the table"),
        {"positions, d2 =": "freqs = freqs[-t.shape[0] :]\n    positions, d2 ="},
        "the wrong position: the angle is that of the position counted from the end of the table",
    ),
    # 11: the fused forward
    Wrong(
        *("11", 1, "a sum along the rows of a tile"),
        {"x2 * x2, 1)": "x2 * x2, 0)", "1e-6)[:, None]": "1e-6)[None, :]"},
        "the wrong axis: the squares are added up over the rows of a tile",
    ),
    Wrong(
        *("11", 1, "no eps"),
        {" + 1e-6": ""},
        "in the case 'a row of zeros, and small elements'",
    ),
    Wrong(
        *("11", 1, "the first half alone"),
        {"x1 * x1 + x2 * x2": "x1 * x1"},
        "half of the sum is missing: only the first half is squared",
    ),
    Wrong(
        *("11", 1, "the first half's weights twice"),
        {"weight_ptr + HALF + pair": "weight_ptr + pair"},
        "the wrong weight: the second half takes the first half's weights",
    ),
    Wrong(
        *("11", 1, "weights after the rotation"),
        {
            "x1 * r * weight1, x2 * r * weight2": "x1 * r, x2 * r",
            "x1 * cos1 - x2 * sin1": "(x1 * cos1 - x2 * sin1) * weight1",
            "x2 * cos2 + x1 * sin2": "(x2 * cos2 + x1 * sin2) * weight2",
        },
        "the wrong order: the weights are applied after the rotation",
    ),
    Wrong(
        *("11", 1, "rounded like the model"),
        {
            "    x1, x2 = x1 * r * weight1, x2 * r * weight2\n": (
                "    stored = x_ptr.dtype.element_ty\n"
                "    x1 = ((x1 * r).to(stored) * weight1).to(stored).to(tl.float32)\n"
                "    x2 = ((x2 * r).to(stored) * weight2).to(stored).to(tl.float32)\n"
            ),
        },
        "rounding: too often, like the model, which rounds before it rotates; round once, at the",
    ),
    # 11: three lines of the backward
    Wrong(
        *("11", 2, "no mean"),
        {"(g1 - x1 * mean) * rstd, (g2 - x2 * mean) * rstd": "g1 * rstd, g2 * rstd"},
        "the mean is missing: nothing takes the part along x away",
    ),
    Wrong(
        *("11", 2, "a sum for the mean"),
        {"x2, 1)[:, None] / (2 * HALF)": "x2, 1)[:, None]"},
        "the wrong divisor: the sum along the row is not divided by d",
    ),
    Wrong(
        *("11", 2, "divided by the elements of a half"),
        {"x2, 1)[:, None] / (2 * HALF)": "x2, 1)[:, None] / HALF"},
        "in the case 'small and plain'",
    ),
    Wrong(
        *("11", 2, "a mean of the first half"),
        {"g1 * x1 + g2 * x2, 1)": "g1 * x1, 1)"},
        "half of the sum is missing: the mean is of both halves of a row",
    ),
    Wrong(
        *("11", 2, "no last factor"),
        {"(g1 - x1 * mean) * rstd, (g2 - x2 * mean) * rstd": "g1 - x1 * mean, g2 - x2 * mean"},
        "the last factor is missing: the gradient of x is r times the rest",
    ),
    Wrong(
        *("11", 2, "the weight in its own gradient"),
        {
            "        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2\n": "",
            "g2 * w2\n": "g2 * w2\n        sum1, sum2 = sum1 + g1 * x1, sum2 + g2 * x2\n",
        },
        "the weight is in its own gradient: add to the shares before g1 and g2 take it",
    ),
    Wrong(
        *("11", 2, "a share of the last tile"),
        {"sum1 + g1 * x1, sum2 + g2 * x2": "g1 * x1, g2 * x2"},
        "the share is that of a program's last tile: add to sum1 and sum2",
    ),
    # 12: a wrapper for a model
    Wrong(
        *("12", 1, "no copy"),
        {"x.permute(2, 0, 1, 3).contiguous()": "x.permute(2, 0, 1, 3)"},
        "the wrong layout: the kernel reads memory as (s, b, h, d), and it is still (b, h, s, d)",
    ),
    Wrong(
        *("12", 1, "ones for the gradient"),
        {"grad.permute": "torch.ones_like(grad).permute"},
        "the gradient is ignored: another incoming gradient gives the same result",
    ),
    # 13: kernels of your own
    Wrong(
        *("13", 1, "the sigmoid of up"),
        {"tl.sigmoid(gate) * up": "tl.sigmoid(up) * gate"},
        "shape (3, 11008), bfloat16; first at index (0, 0): got",
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
        *("13", 4, "positions of the batch"),
        {"token - tl.max(tl.where(starts <= token, starts, 0))": "token"},
        "result 0: 28",
    ),
    Wrong(
        *("13", 4, "a sequence begins one late"),
        {"starts <= token": "starts < token"},
        "first at index (1, 0, 0): got",
    ),
    # 14: into a cache
    Wrong(
        *("14", 1, "every token of a block in one slot"),
        {" + slot % page * place_stride": ""},
        "programs 1 and 2 store element 0 of k_cache_ptr",
    ),
    Wrong(
        *("14", 1, "tokens without a slot are written"),
        {"k, mask=slot >= 0": "k"},
        "program 3 writes element -256 of k_cache_ptr",
    ),
]
