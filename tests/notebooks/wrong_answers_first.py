"""Answers to the exercises of notebooks 00 to 03 that are wrong, and what they must be told.

As in `wrong_answers.py`: the worked solution, and what a reader writes instead of some of its text.
`test_answers_in_notebooks.py` has them judged.
"""

from wrong_answers import Wrong

_P = "    P = torch.cat([torch.arange(0, d2, 2), torch.arange(1, d2, 2)])\n"

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
        {"torch.exp(1j * angle)": "angle.cos()"},
        "the sine is missing: its products are left out",
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
    # 01: a table of scores
    Wrong(*("01", 3, "backwards"), {"* theta": "* -theta"}, "it rotates by minus the angle"),
    Wrong(
        *("01", 3, "keys in rows"),
        {
            "return turn_pairs(q, angle)": "return turn_pairs(k, angle)",
            "@ turn_pairs(k, angle)": "@ turn_pairs(q, angle)",
        },
        "transposed: rows and columns",
    ),
    Wrong(
        *("01", 3, "divided by the root of d"),
        {"angle).T": "angle).T / math.sqrt(q.shape[-1])"},
        "a factor: everything is 0.354 times",
    ),
    Wrong(
        *("01", 3, "keys the other way"),
        {"turn_pairs(k, angle)": "turn_pairs(k, -angle)"},
        "the keys turn the other way: the score has the sum of the positions",
    ),
    Wrong(*("01", 3, "keys as they are"), {"turn_pairs(k, angle)": "k"}, "the keys are not turned"),
    Wrong(
        *("01", 3, "queries as they are"),
        {"turn_pairs(q, angle)": "q"},
        "the queries are not turned",
    ),
    Wrong(
        *("01", 3, "a loop"),
        {
            "return turn_pairs(q, angle) @": "return torch.stack([row for row in "
            "turn_pairs(q, angle)]) @"
        },
        "it has 1 loop, where none is asked for: return torch.stack([row for row in",
    ),
    # 01: all rotation matrices
    Wrong(
        *("01", 4, "transposed"),
        {"= -angle.sin()": "= angle.sin()", "first] = angle.sin()": "first] = -angle.sin()"},
        "a sign: it rotates by minus the angle",
    ),
    Wrong(
        *("01", 4, "halves"),
        {"arange(0, 2 * pairs, 2)": "arange(pairs)", "first + 1": "first + pairs"},
        "the wrong pairing: it pairs halves",
    ),
    Wrong(
        *("01", 4, "two plus"),
        {"= -angle": "= angle"},
        "a sign: that of the sine in the second of each two",
    ),
    Wrong(
        *("01", 4, "memory that was never filled"),
        {"torch.zeros": "torch.empty"},
        "new memory came back, and what is wrong was never put there",
    ),
    Wrong(
        *("01", 4, "no sines"),
        {
            "    matrices[:, first, second] = -angle.sin()\n": "",
            "    matrices[:, second, first] = angle.sin()\n": "",
        },
        "the sine is missing",
    ),
    Wrong(
        *("01", 4, "half of the cosines"),
        {"    matrices[:, second, second] = angle.cos()\n": ""},
        "zero: what is wrong is zero",
    ),
    Wrong(
        *("01", 4, "the first position for all"),
        {"angle.cos()": "angle[:1].cos()", "angle.sin()": "angle[:1].sin()"},
        "the wrong position: the angle is that of 0, the first position",
    ),
    Wrong(
        *("01", 4, "two loops"),
        {
            "    matrices[:, first, first] = angle.cos()\n": "    for m in range(s):\n"
            "        for i in range(pairs):\n"
            "            matrices[m, 2 * i, 2 * i] = angle[m, i].cos()\n"
        },
        "it has 2 loops, where none is asked for: for m in range(s):",
    ),
    # 01: frequencies
    Wrong(*("01", 5, "always 10000"), {"float(base)": "10000.0"}, "base is ignored"),
    Wrong(
        *("01", 5, "without the 2"),
        {"arange(0, d, 2)": "arange(d // 2)"},
        "a factor in the exponent: it is the square root",
    ),
    Wrong(
        *("01", 5, "counted from 1"),
        {"arange(0, d, 2)": "arange(2, d + 2, 2)"},
        "shifted: every element is one place too early",
    ),
    Wrong(*("01", 5, "without the minus"), {"(-torch": "(torch"}, "the reciprocal"),
    Wrong(
        *("01", 5, "one for each element"),
        {"arange(0, d, 2)": "arange(d)"},
        "shape (8,), expected (4,)",
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
            "  # equation (2)\n": "    rotated = apply_rotary_pos_emb(rotary, angles)\n"
        },
        "it uses apply_rotary_pos_emb, which you are asked to do without",
    ),
    Wrong(
        *("02", 1, "halves of the whole head"),
        {"rotate_half(rotary) *": "rotate_half(t)[..., :d2] *"},
        "the halves of the whole head: rotate_half gets all d elements of t, not the first d2",
    ),
    # 02: the way back
    Wrong(
        *("02", 2, "the way there"),
        {
            "first, second = x.chunk(2, dim=-1)": "d2 = x.shape[-1]\n" + _P.rstrip("\n"),
            "torch.stack([first, second], dim=-1).flatten(-2)": "x[..., P]",
        },
        "the order: the permutation goes the other way",
    ),
    Wrong(
        *("02", 2, "backwards"),
        {"torch.stack([first, second], dim=-1).flatten(-2)": "x.flip(-1)"},
        "the order: the last dimension runs backwards",
    ),
    Wrong(
        *("02", 2, "a minus"),
        {"[first, second]": "[first, -second]"},
        "the opposite sign, in the second of each two neighbors",
    ),
    Wrong(
        *("02", 2, "pairs for ever"), {".flatten(-2)": ""}, "shape (4, 1, 2, 4, 2), expected (4, 1"
    ),
    Wrong(
        *("02", 2, "there and back"),
        {"torch.stack([first, second], dim=-1).flatten(-2)": "torch.cat([first, second], -1)"},
        "unchanged: the result is x as it came",
    ),
    Wrong(
        *("02", 2, "the second first"), {"[first, second]": "[second, first]"}, "neighbors swapped"
    ),
    # 02: quarter turns of neighbors
    Wrong(
        *("02", 3, "the partner's sign"),
        {"2 * (i % 2) - 1": "1 - 2 * (i % 2)"},
        "a sign: every element has the opposite sign",
    ),
    Wrong(
        *("02", 3, "no sign"),
        {"* sign": ""},
        "the opposite sign, in the first of each two neighbors",
    ),
    Wrong(
        *("02", 3, "always the next one"),
        {"i + 1 - 2 * (i % 2)": "(i + 1) % len(i)"},
        "the wrong partner: every place looks one ahead, odd ones too",
    ),
    Wrong(*("02", 3, "a sign in fp32"), {"* sign": "* sign.float()"}, "dtype float32, expected"),
    Wrong(
        *("02", 3, "no partner"),
        {"x[..., partner]": "x"},
        "neighbors swapped, and a sign",
    ),
    Wrong(
        *("02", 3, "halves"),
        {
            "i + 1 - 2 * (i % 2)": "(i + len(i) // 2) % len(i)",
            "2 * (i % 2) - 1": "torch.where(i < len(i) // 2, -1, 1)",
        },
        "the wrong pairing: it pairs halves",
    ),
    Wrong(
        *("02", 3, "a stack"),
        {"x[..., partner] * sign": "torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)"},
        "it takes 2 operations (1 neg, 1 stack), where one indexing operation and one product are",
    ),
    Wrong(
        *("02", 3, "a choice of two"),
        {
            "x[..., partner] * sign": "torch.where(sign < 0, -x[..., partner], x[..., partner])",
        },
        "it takes 4 operations (2 index, 1 neg, 1 where), where one indexing operation and one",
    ),
    # 02: interleaved, with a half-split function
    Wrong(
        *("02", 4, "the table forgotten"),
        {"freqs[..., P])": "freqs)"},
        "the wrong angle: the table's angles are in another order",
    ),
    Wrong(
        *("02", 4, "no way back"),
        {"rotated[..., P.argsort()]": "rotated"},
        "the order: the right numbers, with halves where neighbors are asked for",
    ),
    Wrong(
        *("02", 4, "no permutation"),
        {
            "(rotary[..., P], freqs[..., P])": "(rotary, freqs)",
            "rotated[..., P.argsort()]": "rotated",
        },
        "the wrong pairing: it pairs halves",
    ),
    Wrong(
        *("02", 4, "zeros for a tail"), {", tail]": ", tail * 0]"}, "the tail is wrong: it is zero"
    ),
    Wrong(
        *("02", 4, "the way there twice"),
        {"P.argsort()": "P"},
        "the order: the permutation once more, where its inverse is asked for",
    ),
    Wrong(
        *("02", 4, "the inverse there, the permutation back"),
        {
            "rotary[..., P]": "rotary[..., P.argsort()]",
            "freqs[..., P]": "freqs[..., P.argsort()]",
            "rotated[..., P.argsort()]": "rotated[..., P]",
        },
        "the order: the permutation and its inverse have changed places",
    ),
    # 03: a grid of two dimensions
    Wrong(
        *("03", 2, "over the end of the row"),
        {
            "    in_first_half =": "    exists = column < (tl.num_programs(0) - row) * 2 * HALF\n"
            "    in_first_half =",
        },
        "write collision: programs 0 and 1 store element 8 of out_ptr,",
    ),
    Wrong(
        *("03", 2, "the axes swapped"),
        {
            "tl.program_id(0)": "tl.program_id(1)",
            "tl.program_id(1) * BLOCK": "tl.program_id(0) * BLOCK",
        },
        "3 of 4 programs store nothing: is their mask false?",
    ),
    Wrong(
        *("03", 2, "one block a row"),
        {"triton.cdiv(width, block)": "1"},
        "no program stores the columns from 64 on, in any row",
    ),
    Wrong(
        *("03", 2, "the sign elsewhere"),
        {"-x, x)": "x, -x)"},
        "every element has the opposite sign",
    ),
    Wrong(
        *("03", 2, "no mask"),
        {"exists = column < 2 * HALF": "exists = column >= 0"},
        "out of bounds: program",
    ),
    Wrong(
        *("03", 2, "one dimension"),
        {
            "tl.program_id(0)": "tl.program_id(0) // tl.cdiv(2 * HALF, BLOCK)",
            "tl.program_id(1)": "tl.program_id(0) % tl.cdiv(2 * HALF, BLOCK)",
            "(rows, triton.cdiv(width, block))": "(rows * triton.cdiv(width, block),)",
        },
        "the grid has 1 dimension, where 2 are asked for",
    ),
    # 03: in place
    Wrong(
        *("03", 3, "from a copy"),
        {
            "    pairs,  # number": "    y_ptr,\n    pairs,  # number",
            "tl.load(x_ptr + first": "tl.load(y_ptr + first",
            "tl.load(x_ptr + second": "tl.load(y_ptr + second",
            "[grid](x, pairs": "[grid](x, x.clone(), pairs",
        },
        "a second tensor: y_ptr is not x",
    ),
    Wrong(
        *("03", 3, "a gather"),
        {
            "first = pair // HALF * 2 * HALF + pair % HALF": "first = pair",
            "second = first + HALF": "in_first = pair % (2 * HALF) < HALF\n"
            "    second = tl.where(in_first, pair + HALF, pair - HALF)",
            "    x1 = tl.load(x_ptr + first, mask=exists)\n": "",
            "-x2, mask": "tl.where(second > first, -x2, x2), mask",
            "    tl.store(x_ptr + second, x1, mask=exists)\n": "",
            "x.numel() // 2": "x.numel()",
        },
        "a race between programs: program 1 reads element",
    ),
    Wrong(
        *("03", 3, "loaded too late"),
        {
            "    x1 = tl.load(x_ptr + first, mask=exists)\n": "",
            "    tl.store(x_ptr + second, x1": "    x1 = tl.load(x_ptr + first, mask=exists)\n"
            "    tl.store(x_ptr + second, x1",
        },
        "read after write: program 0 reads element 0 of x_ptr after it has overwritten it itself",
    ),
    Wrong(*("03", 3, "no minus"), {"-x2,": "x2,"}, "the opposite sign, in the first half"),
    Wrong(
        *("03", 3, "members at home"),
        {"first, -x2": "first, -x1", "second, x1": "second, x2"},
        "halves swapped, and a sign",
    ),
    Wrong(
        *("03", 3, "as many pairs as elements"),
        {"x.numel() // 2": "x.numel()"},
        "out of bounds: program 0 reads element",
    ),
    Wrong(
        *("03", 3, "half of the pairs"),
        {"x.numel() // 2": "x.numel() // 4"},
        "no program stores the last elements, from number 32 on; is the grid large enough?",
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
    Wrong(
        *("03", 2, "a launch for show"),
        {
            "    rotate_half_rows_kernel[grid](": (
                "    rotate_half_rows_kernel[grid](x, out, HALF=width // 2, BLOCK=block)\n"
                "    rotate_half_rows_kernel[grid]("
            )
        },
        "it launches 2 kernels, where 1 would do",
    ),
]

# Right answers in other words than the solution's; nothing is to be said about them.
RIGHT_ANSWERS = [
    Wrong(
        *("01", 3, "the same for q and k"),
        {
            "    return turn_pairs(q, angle) @ turn_pairs(k, angle).T": "    q, k = "
            "[turn_pairs(x, angle) for x in (q, k)]\n    return q @ k.T"
        },
        "RIGHT: ",
    ),
    Wrong(
        *("01", 4, "four places in turn"),
        {
            "    matrices[:, first, first] = angle.cos()\n"
            "    matrices[:, first, second] = -angle.sin()\n": "    for column, value in "
            "((first, angle.cos()), (second, -angle.sin())):\n"
            "        matrices[:, first, column] = value\n"
        },
        "RIGHT: ",
    ),
    Wrong(
        *("02", 3, "a gather"),
        {"x[..., partner] * sign": "x.gather(-1, partner.expand_as(x)).mul_(sign)"},
        "RIGHT: ",
    ),
    Wrong(
        *("02", 3, "the product first"),
        {"x[..., partner] * sign": "(x * -sign.to(x.dtype)).index_select(-1, partner)"},
        "RIGHT: ",
    ),
]
