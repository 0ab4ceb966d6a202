"""Mistakes in answers to notebook 00."""

from . import Wrong

ANSWERS = [
    # a scaled copy
    Wrong(
        *(1, "no factor"),
        {"2 * x,": "x,"},
        "unchanged: the result is x as it came",
    ),
    Wrong(
        *(1, "no grid"),
        {"scaled_copy_kernel[grid](": "scaled_copy_kernel("},
        "is a kernel called without its grid, kernel[grid](...)?",
    ),
    Wrong(
        *(1, "the number of a program as an offset"),
        {"tl.program_id(0) * BLOCK": "tl.program_id(0)"},
        "from number 259 on; programs 0 and 1 store element 1 of out_ptr",
    ),
    Wrong(*(1, "another factor"), {"2 * x,": "3 * x,"}, "a factor: everything is 1.5 times"),
    Wrong(*(1, "a square"), {"2 * x,": "x * x,"}, "each element is multiplied by itself"),
    Wrong(*(1, "a sum"), {"2 * x,": "x + 2,"}, "2 is added, where it is the factor"),
    Wrong(
        *(1, "integers"),
        {"2 * x,": "(2 * x).to(tl.int32),"},
        "the fractions are gone: is it converted to an integer?",
    ),
    Wrong(
        *(1, "one element for all"),
        {"tl.load(x_ptr + i, mask=exists)": "tl.load(x_ptr)"},
        "the wrong element: (1) of the result takes x[0], not x[1]",
    ),
    Wrong(
        *(1, "the input returned"),
        {"return out": "return x"},
        "unwritten: the result is x as it came, and no program stores in it",
    ),
    Wrong(
        *(1, "a program too few"),
        {"triton.cdiv(x.numel(), block)": "max(1, x.numel() // block)"},
        "no program stores the last elements, from number 768 on; is the grid large enough?",
    ),
    # right, but more than it takes, which no task forbids
    Wrong(
        *(1, "a program for each element"),
        {"grid = (triton.cdiv(x.numel(), block),)": "grid = (x.numel(),)"},
        *("it starts 64 programs, where 1 would do: the others store nothing", "RIGHT, but"),
    ),
    Wrong(
        *(1, "no block"),
        {
            "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)": "tl.program_id(0)",
            "(triton.cdiv(x.numel(), block),)": "(x.numel(),)",
        },
        *("it starts 64 programs, one for each element: let each take a block", "RIGHT, but"),
    ),
    Wrong(
        *(1, "one program for all"),
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
]
NUMBERS = {
    2: [
        (255, "the last index of one block"),
        (256, "one block, for which one program is enough"),
    ],
}
