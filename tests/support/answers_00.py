"""Notebook 00: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer, WrongValue
from rope_lab.n00 import exercises

A_SCALED_COPY = Exercise(
    cell="00-ex1",
    judged_by=exercises.scaled_copy,
    wrong_answers=(
        WrongAnswer(
            mistake="no factor",
            instead={"2 * x,": "x,"},
            told="unchanged: the result is x as it came",
        ),
        WrongAnswer(
            mistake="no grid",
            instead={"scaled_copy_kernel[grid](": "scaled_copy_kernel("},
            told="is a kernel called without its grid, kernel[grid](...)?",
        ),
        WrongAnswer(
            mistake="the number of a program as an offset",
            instead={"tl.program_id(0) * BLOCK": "tl.program_id(0)"},
            told="from number 259 on; programs 0 and 1 store element 1 of out_ptr",
        ),
        WrongAnswer(
            mistake="another factor",
            instead={"2 * x,": "3 * x,"},
            told="a factor: everything is 1.5 times",
        ),
        WrongAnswer(
            mistake="no mask at the store",
            instead={"2 * x, mask=exists": "2 * x"},
            told="every result is right, so only a mask is missing",
        ),
        WrongAnswer(
            mistake="one lane too many",
            instead={"i < n": "i <= n"},
            told="or true for lanes past the end",
        ),
        WrongAnswer(
            mistake="a pointer doubled",
            instead={"tl.load(x_ptr + i": "tl.load(2 * x_ptr + i"},
            told="to a pointer an index is added, and nothing else",
        ),
        WrongAnswer(
            mistake="a block without a beginning",
            instead={"tl.arange(0, BLOCK)": "tl.arange(BLOCK)"},
            told="a block of n numbers is tl.arange(0, n)",
        ),
        WrongAnswer(
            mistake="a function of PyTorch",
            instead={"2 * x,": "torch.mul(x, 2),"},
            told="a kernel has tl's functions and dtypes, no others",
        ),
        WrongAnswer(
            mistake="a dtype of PyTorch",
            instead={"2 * x,": "2 * x.to(torch.float32),"},
            told="a kernel has tl's functions and dtypes, no others",
        ),
        WrongAnswer(
            mistake="a method of PyTorch",
            instead={"2 * x,": "2 * x.float(),"},
            told="it has few methods: x.to(tl.float32), x[:, None]",
        ),
        WrongAnswer(
            mistake="an index",
            instead={"tl.load(x_ptr + i, mask=exists)": "x_ptr[i]"},
            told="blocks and pointers have no index",
        ),
        WrongAnswer(
            mistake="an index of a block",
            instead={"2 * x,": "2 * x[i],"},
            told="blocks and pointers have no index",
        ),
        WrongAnswer(
            mistake="the shape of a pointer",
            instead={"i < n": "i < x_ptr.shape[0]"},
            told="a kernel knows no shapes of tensors: pass n",
        ),
        WrongAnswer(
            mistake="the length of a pointer",
            instead={"i < n": "i < len(x_ptr)"},
            told="a kernel knows no shapes of tensors: pass n",
        ),
        WrongAnswer(
            mistake="a range",
            instead={"tl.arange(0, BLOCK)": "range(BLOCK)"},
            told="a block of n numbers is tl.arange(0, n)",
        ),
        WrongAnswer(
            mistake="a grid that is no whole number",
            instead={"triton.cdiv(x.numel(), block)": "x.numel() / block"},
            told="a grid's numbers are whole: triton.cdiv(n, block)",
        ),
        WrongAnswer(
            mistake="a method without brackets",
            instead={"(x, out, x.numel(),": "(x, out, x.numel,"},
            told="a method is called with brackets: x.numel()",
        ),
        WrongAnswer(
            mistake="the input for the output, in the kernel",
            instead={"tl.store(out_ptr": "tl.store(x_ptr"},
            told="the kernel stores in x_ptr, and the result is its out_ptr",
        ),
        WrongAnswer(
            mistake="the input for the output, in the launch",
            instead={"(x, out, x.numel()": "(x, x, x.numel()"},
            told="no kernel gets the result: the launch doesn't pass it",
        ),
        WrongAnswer(
            mistake="the output for the input, in the kernel",
            instead={"tl.load(x_ptr": "tl.load(out_ptr"},
            told="the kernel loads from out_ptr, which is the result: new memory",
        ),
        WrongAnswer(
            mistake="a power",
            instead={"2 * x,": "x**2,"},
            told="a kernel has no powers: write a product",
        ),
        WrongAnswer(
            mistake="no index in the load's address",
            instead={"tl.load(x_ptr + i, mask": "tl.load(x_ptr, mask"},
            told="an address is pointer + index, for each lane",
        ),
        WrongAnswer(
            mistake="a pointer stored",
            instead={"2 * x,": "x_ptr + i,"},
            told="a pointer is an address: tl.load reads the element there",
        ),
        WrongAnswer(
            mistake="value and address exchanged",
            instead={"tl.store(out_ptr + i, 2 * x,": "tl.store(2 * x, out_ptr + i,"},
            told="the address comes first, and then the value",
        ),
        WrongAnswer(
            mistake="one lane too few",
            instead={"i < n": "i < n - 1"},
            told="Is the mask true for them?",
        ),
        WrongAnswer(
            mistake="one element further on",
            instead={"tl.arange(0, BLOCK)": "tl.arange(0, BLOCK) + 1"},
            told="no program stores the first element",
        ),
        WrongAnswer(
            mistake="the grid for n",
            instead={"(x, out, x.numel(),": "(x, out, grid[0],"},
            told="or a mask that is false for its other lanes?",
        ),
        WrongAnswer(
            mistake="programs without an axis",
            instead={"tl.program_id(0)": "tl.program_id()"},
            told="the number along the grid's first axis is tl.program_id(0)",
        ),
        WrongAnswer(
            mistake="a name of the launcher",
            instead={"tl.program_id(0) * BLOCK": "tl.program_id(0) * block"},
            told="a kernel knows its arguments, and what its own lines set",
        ),
        WrongAnswer(
            mistake="a shape for a number",
            instead={"triton.cdiv(x.numel(), block)": "triton.cdiv(x.shape, block)"},
            told="x.shape is a tuple; x.numel() is the number of elements",
        ),
        WrongAnswer(
            mistake="a list for a grid",
            instead={"(triton.cdiv(x.numel(), block),)": "[triton.cdiv(x.numel(), block)]"},
            told="a grid is a tuple, as in (n,)",
        ),
        WrongAnswer(
            mistake="a tuple for n",
            instead={"(x, out, x.numel(),": "(x, out, grid,"},
            told="pass one number of the tuple",
        ),
        WrongAnswer(
            mistake="what a launch returns",
            instead={"    scaled_copy_kernel[grid]": "    out = scaled_copy_kernel[grid]"},
            told="A launch returns None, too",
        ),
        WrongAnswer(
            mistake="the input returned",
            instead={"return out": "return x"},
            told="unwritten: the result is x as it came, and no program stores in it",
        ),
        WrongAnswer(
            mistake="a program too few",
            instead={"triton.cdiv(x.numel(), block)": "max(1, x.numel() // block)"},
            told="no program stores the last elements, from number 768 on; is the grid "
            "large enough?",
        ),
        WrongAnswer(
            mistake="a program without a block",
            instead={"tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)": "tl.program_id(0) * BLOCK"},
            told="each program stores one element: no block, tl.arange(0, BLOCK)",
        ),
        WrongAnswer(
            mistake="a number that the launch doesn't pass",
            instead={"(x, out, x.numel(), BLOCK=block)": "(x, out, BLOCK=block)"},
            told="a launch passes every argument: in order, and a tl.constexpr by its name",
        ),
        WrongAnswer(
            mistake="a block as long as the vector",
            instead={"tl.arange(0, BLOCK)": "tl.arange(0, n)"},
            told="a block's length is a tl.constexpr, such as BLOCK",
        ),
        # right, but more than it takes, which no task forbids
        WrongAnswer(
            mistake="a program for each element",
            instead={"grid = (triton.cdiv(x.numel(), block),)": "grid = (x.numel(),)"},
            told="it starts 64 programs, where 1 would do: the others store nothing",
            state="RIGHT, but",
        ),
        WrongAnswer(
            mistake="no block",
            instead={
                "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)": "tl.program_id(0)",
                "(triton.cdiv(x.numel(), block),)": "(x.numel(),)",
            },
            told="it starts 64 programs, one for each element: let each take a block",
            state="RIGHT, but",
        ),
        WrongAnswer(
            mistake="one program for all",
            instead={
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
            told="one program stores 4 blocks, one after the other, where 4 could share them",
            state="RIGHT, but",
        ),
    ),
)


A_BUG_THAT_SMALL_TESTS_MISS = Exercise(
    cell="00-ex2",
    judged_by=exercises.FORGOTTEN_BLOCK,
    wrong_answers=(
        WrongValue(given=255, told="the last index of one block"),
        WrongValue(given=256, told="one block, for which one program is enough"),
    ),
)
