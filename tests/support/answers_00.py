"""Notebook 00: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n00 import exercises

A_SCALED_COPY = Exercise(
    cell="00-ex1",
    judged_by=exercises.scaled_copy,
    wrong_answers=(
        WrongAnswer(
            "unchanged: the result is x as it came",
            {"2 * x,": "x,"},
            kind="factor",
            line="tl.store(out_ptr + i, x, mask=exists)",
        ),
        WrongAnswer(
            "take smaller blocks, and more programs",  # one for all elements
            {
                "BLOCK=block)": "BLOCK=triton.next_power_of_2(x.numel()))",
                "grid = (triton.cdiv(x.numel(), block),)": "grid = (1,)",
            },
        ),
        WrongAnswer(
            "a GPU starts at most 65535 programs on axis 1",
            {
                "grid = (triton": "grid = (1, triton",
                "tl.program_id(0)": "tl.program_id(1)",
            },
        ),
        WrongAnswer(
            "out_ptr of scaled_copy_kernel is on the CPU",
            {"torch.empty_like(x)": "torch.empty(x.shape, dtype=x.dtype)"},
        ),
        WrongAnswer(
            "is a kernel called without its grid, kernel[grid](...)?",
            {"scaled_copy_kernel[grid](": "scaled_copy_kernel("},
        ),
        WrongAnswer(
            "from number 259 on; programs 0 and 1 store element 1 of out_ptr",
            {"tl.program_id(0) * BLOCK": "tl.program_id(0)"},
            kind="beginning",
            line="i = tl.program_id(0) + tl.arange(0, BLOCK)",
        ),
        WrongAnswer(
            "a factor: everything is 1.5 times",
            {"2 * x,": "3 * x,"},
            kind="factor",
            line="tl.store(out_ptr + i, 3 * x, mask=exists)",
        ),
        WrongAnswer(
            "every result is right, so a mask is missing",
            {"2 * x, mask=exists": "2 * x"},
            kind="outside",
            line="tl.store(out_ptr + i, 2 * x)",
        ),
        WrongAnswer(
            "or true for lanes past the end",
            {"i < n": "i <= n"},
            kind="mask",
            line="exists = i <= n",
        ),
        WrongAnswer(
            "to a pointer an index is added, and nothing else",
            {"tl.load(x_ptr + i": "tl.load(2 * x_ptr + i"},
        ),
        WrongAnswer(
            "a block of n numbers is tl.arange(0, n)", {"tl.arange(0, BLOCK)": "tl.arange(BLOCK)"}
        ),
        WrongAnswer(
            "a kernel has tl's functions and dtypes, no others", {"2 * x,": "torch.mul(x, 2),"}
        ),
        WrongAnswer(
            "it has few methods: x.to(tl.float32), x[:, None]", {"2 * x,": "2 * x.float(),"}
        ),
        WrongAnswer(
            "blocks and pointers have no index", {"tl.load(x_ptr + i, mask=exists)": "x_ptr[i]"}
        ),
        WrongAnswer("blocks and pointers have no index", {"2 * x,": "2 * x[i],"}),
        WrongAnswer("a kernel knows no shapes of tensors: pass n", {"i < n": "i < x_ptr.shape[0]"}),
        WrongAnswer("a kernel knows no shapes of tensors: pass n", {"i < n": "i < len(x_ptr)"}),
        WrongAnswer(
            "a block of n numbers is tl.arange(0, n)", {"tl.arange(0, BLOCK)": "range(BLOCK)"}
        ),
        WrongAnswer(
            "a grid's numbers are whole: triton.cdiv(n, block)",
            {"triton.cdiv(x.numel(), block)": "x.numel() / block"},
        ),
        WrongAnswer(
            "a method is called with brackets: x.numel()",
            {"(x, out, x.numel(),": "(x, out, x.numel,"},
        ),
        WrongAnswer(
            "the kernel stores in x_ptr, and the result is its out_ptr",
            {"tl.store(out_ptr": "tl.store(x_ptr"},
            kind="unwritten",
            line="tl.store(x_ptr + i, 2 * x, mask=exists)",
        ),
        WrongAnswer(
            "no kernel gets the result: the launch doesn't pass it",
            {"(x, out, x.numel()": "(x, x, x.numel()"},
            kind="unwritten",
            line="tl.store(out_ptr + i, 2 * x, mask=exists)",
        ),
        WrongAnswer(
            "the kernel loads from out_ptr, which is the result: new memory",
            {"tl.load(x_ptr": "tl.load(out_ptr"},
            kind="not finite",
            line="x = tl.load(out_ptr + i, mask=exists)",
        ),
        WrongAnswer("a kernel has no powers: write a product", {"2 * x,": "x**2,"}),
        WrongAnswer(
            "an address is pointer + index, for each lane",
            {"tl.load(x_ptr + i, mask": "tl.load(x_ptr, mask"},
        ),
        WrongAnswer(
            "a pointer is an address: tl.load reads the element there", {"2 * x,": "x_ptr + i,"}
        ),
        WrongAnswer(
            "the address comes first, and then the value",
            {"tl.store(out_ptr + i, 2 * x,": "tl.store(2 * x, out_ptr + i,"},
        ),
        WrongAnswer(
            "Is the mask true for them?",
            {"i < n": "i < n - 1"},
            kind="mask",
            line="exists = i < n - 1",
        ),
        WrongAnswer(
            "no program stores the first element",
            {"tl.arange(0, BLOCK)": "tl.arange(0, BLOCK) + 1"},
            kind="beginning",
            line="i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + 1",
        ),
        WrongAnswer(
            "the number along the grid's first axis is tl.program_id(0)",
            {"tl.program_id(0)": "tl.program_id()"},
        ),
        WrongAnswer(
            "a kernel knows its arguments, and what its own lines set",
            {"tl.program_id(0) * BLOCK": "tl.program_id(0) * block"},
        ),
        WrongAnswer(
            "x.shape is a tuple; x.numel() is the number of elements",
            {"triton.cdiv(x.numel(), block)": "triton.cdiv(x.shape, block)"},
        ),
        WrongAnswer(
            "a grid is a tuple, as in (n,)",
            {"(triton.cdiv(x.numel(), block),)": "[triton.cdiv(x.numel(), block)]"},
        ),
        WrongAnswer("pass one number of the tuple", {"(x, out, x.numel(),": "(x, out, grid,"}),
        WrongAnswer(
            "each program stores one element: no block, tl.arange(0, BLOCK)",
            {"tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)": "tl.program_id(0) * BLOCK"},
            kind="unwritten",
            line="i = tl.program_id(0) * BLOCK",
        ),
        WrongAnswer(
            "a launch passes every argument: in order, and a tl.constexpr by its name",
            {"(x, out, x.numel(), BLOCK=block)": "(x, out, BLOCK=block)"},
        ),
        WrongAnswer(
            "a block's length is a tl.constexpr, such as BLOCK",
            {"tl.arange(0, BLOCK)": "tl.arange(0, n)"},
        ),
        # right, but more than it takes, which no task forbids
        WrongAnswer(
            "it starts 64 programs, where 1 would do: the others store nothing",
            {"grid = (triton.cdiv(x.numel(), block),)": "grid = (x.numel(),)"},
            state="RIGHT, but",
        ),
        WrongAnswer(
            "it starts 64 programs, one for each element: let each take a block",
            {
                "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)": "tl.program_id(0)",
                "(triton.cdiv(x.numel(), block),)": "(x.numel(),)",
            },
            state="RIGHT, but",
        ),
        WrongAnswer(
            "one program stores 4 blocks, one after the other, where 4 could share them",
            {
                (
                    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
                    "    exists = i < n\n"
                    "    x = tl.load(x_ptr + i, mask=exists)\n"
                    "    tl.store(out_ptr + i, 2 * x, mask=exists)\n"
                ): (
                    "    for begin in range(0, n, BLOCK):\n"
                    "        i = begin + tl.arange(0, BLOCK)\n"
                    "        x = tl.load(x_ptr + i, mask=i < n)\n"
                    "        tl.store(out_ptr + i, 2 * x, mask=i < n)\n"
                ),
                "(triton.cdiv(x.numel(), block),)": "(1,)",
            },
            state="RIGHT, but",
        ),
    ),
)


A_BUG_THAT_SMALL_TESTS_MISS = Exercise(cell="00-ex2")
