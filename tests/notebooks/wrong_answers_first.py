"""Answers to the exercises of notebooks 00 to 03 that are wrong, and what they must be told.

As in `wrong_answers.py`: the worked solution, and what a reader writes instead of some of its text.
`test_answers_in_notebooks.py` has them judged.
"""

from wrong_answers import Wrong

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
    Wrong(
        *("00", 1, "no kernel"),
        {
            "    scaled_copy_kernel[grid](x, out, x.numel(), BLOCK=block)\n": "",
            "return out": "return 2 * x",
        },
        "no kernel ran: PyTorch computed the result",
    ),
    Wrong(*("00", 1, "another factor"), {"2 * x,": "3 * x,"}, "a factor: everything is 1.5 times"),
    Wrong(
        *("00", 1, "a kernel for show"),
        {"return out": "return 2 * x"},
        "PyTorch wrote the result, a second tensor with the elements that your kernel stored",
    ),
    Wrong(
        *("00", 1, "a copy, doubled afterwards"),
        {"2 * x, mask": "x, mask", "return out": "return out.mul_(2)"},
        "PyTorch changed the result after the kernel had stored it",
    ),
    # 01: turn pairs by complex numbers
    Wrong(*("01", 1, "the conjugate"), {"exp(1j": "exp(-1j"}, "it rotates by minus the angle"),
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
    Wrong(*("01", 1, "pairs for ever"), {".flatten(-2)": ""}, "shape (4, 4, 2), expected (4, 8)"),
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
    Wrong(
        *("01", 1, "the first row's angles for all"),
        {"1j * angle)": "1j * angle[:1])"},
        "the wrong position: the angle is that of 0, the first position",
    ),
    Wrong(
        *("01", 1, "a loop"),
        {
            "    return torch.view_as_real(turned).flatten(-2)": "    rows = []\n"
            "    for row in turned:\n        rows.append(torch.view_as_real(row).flatten(-2))\n"
            "    return torch.stack(rows)"
        },
        "it has 1 loop, where none is asked for: for row in turned:",
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
        *("02", 1, "left in fp32"), {"rotated.to(t.dtype)": "rotated"}, "dtype float32, expected"
    ),
    Wrong(
        *("02", 1, "rounded before"),
        {"angles.cos()": "angles.cos().to(t.dtype)", "angles.sin()": "angles.sin().to(t.dtype)"},
        "rounding: compute in fp32",
    ),
    Wrong(
        *("02", 1, "the whole table"), {"freqs[:s]": "freqs"}, "it raises RuntimeError: The size"
    ),
    Wrong(
        *("02", 1, "a minus"), {"+ rotate_half": "- rotate_half"}, "it rotates by minus the angle"
    ),
    Wrong(
        *("02", 1, "the package's function"),
        {
            "    rotated = rotary * angles.cos() + rotate_half(rotary) * angles.sin()"
            "  # equation (2)\n": "    rotated = reference.apply_rotary_pos_emb(rotary, angles)\n"
        },
        "it uses apply_rotary_pos_emb, which you are asked to do without",
    ),
    Wrong(
        *("02", 1, "halves of the whole head"),
        {"rotate_half(rotary) *": "rotate_half(t)[..., :d2] *"},
        "the halves of the whole head: rotate_half gets all d elements of t, not the first d2",
    ),
]

# Right answers that do more than it takes, which no task forbids; `told` is the remark.
WASTEFUL_ANSWERS = [
    Wrong(
        *("00", 1, "a program for each element"),
        {"grid = (triton.cdiv(x.numel(), block),)": "grid = (x.numel(),)"},
        "it starts 64 programs, where 1 would do: the others store nothing",
    ),
    Wrong(
        *("00", 1, "overlapping blocks"),
        {
            "tl.program_id(0) * BLOCK +": "tl.program_id(0) * (BLOCK // 2) +",
            "triton.cdiv(x.numel(), block)": "triton.cdiv(x.numel(), block // 2)",
        },
        "elements of out_ptr twice, the same value each time",
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
        "one program stores 4 blocks, one after the other, where 4 could share them",
    ),
]
