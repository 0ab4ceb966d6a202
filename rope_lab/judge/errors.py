"""Explain an error of a reader's function in one line, with advice."""

import re
import traceback
from typing import NamedTuple

from rope_kernels.modes import triton_is_installed

from .refusals import in_words as refused_in_words
from .verdict import Fault, cause_of

WITHOUT_GRID = "is a kernel called without its grid, kernel[grid](...)?"
TRITONS_OWN = "a kernel has tl's functions and dtypes, no others: tl.arange, tl.cos, tl.float32"
NO_INDEX = "blocks and pointers have no index: an element is loaded, tl.load(x_ptr + i)"
CALLED = "a method is called with brackets: x.numel()"
NO_SHAPES = "a kernel knows no shapes of tensors: pass n"
A_BLOCK_OF_NUMBERS = "a block of n numbers is tl.arange(0, n)"
A_TUPLE = "a grid is a tuple, as in (n,)"
A_SHAPE = "x.shape is a tuple; x.numel() is the number of elements"
NO_OFFSETS = "an address is pointer + index, for each lane: tl.load(x_ptr + i, mask=...)"
A_BLOCK_FOR_A_NUMBER = "is a pointer indexed by a block? tl.store(out_ptr + i, x)"
ADVICE = {  # what an error says -> what is meant, where a kernel is concerned
    "object of type 'int' has no len()": A_TUPLE,
    'list (not "tuple")': A_TUPLE,
    "program_id() missing": "the number along the grid's first axis is tl.program_id(0)",
    "kernel() missing": "a launch passes every argument: in order, and a tl.constexpr by its name",
    "'float' object cannot be interpreted": "a grid's numbers are whole: triton.cdiv(n, block)",
    "'builtin_function_or_method' and": CALLED,
    "<class 'builtin_function_or_method'>": CALLED,
    "arange() missing 1 required": A_BLOCK_OF_NUMBERS,
    "'range' object": A_BLOCK_OF_NUMBERS,
    "arange's arguments must be of type": "a block's length is a tl.constexpr, such as BLOCK",
    "cannot add pointers": "to a pointer an index is added, and nothing else: out_ptr + i",
    "arange's range must be a power of 2": "round it up, and mask the lanes that are too many",
    "> and triton.language.int": "to a pointer an index is added, and nothing else: x_ptr + i; "
    "tl.load reads the element there",
    "for ** or pow()": "a kernel has no powers: write a product",
    "'int' object is not iterable": NO_INDEX,
    "'ellipsis' object is not iterable": NO_INDEX,
    "unsupported tensor index": NO_INDEX,
    "only 0-dimensional arrays": A_BLOCK_FOR_A_NUMBER,
    "only length-1 arrays": A_BLOCK_FOR_A_NUMBER,  # the same, from an older numpy
    "of type <class 'torch.Size'>": A_SHAPE,
    "to torch.Size": A_SHAPE,
    "of type <class 'tuple'>": "a kernel gets tensors and numbers: pass one number of the tuple",
    "if pointer argument is not a block": NO_OFFSETS,
    "multiple values for argument 'mask'": NO_OFFSETS,
    "cannot cast [": "a pointer is an address: tl.load reads the element there",
    "Expected dtype ['fp32', 'fp64']": "tl.sin and tl.cos take fp32: angle.to(tl.float32)",
    "exceeds dtype primitive_bitwidth": "a flag or a size is NAME: tl.constexpr",
    "has no attribute 'grid_idx'": WITHOUT_GRID,
    "has no attribute 'scalar'": WITHOUT_GRID,  # the same, after another launch
    "has no attribute 'is_ptr'": WITHOUT_GRID,  # the same, since Triton 3.9
    "Cannot make_shape_compatible": "[:, None] makes a column of a block, and [None, :] a row",
    "Expected pointer argument to have shape": "the address has no row, or no column",
    "in `tl.store`": "the address comes first, and then the value: tl.store(out_ptr + i, x)",
    "and triton.language.float": "an index is a whole number: a // b, not a / b",
    "Unsupported ptr type": "an address begins with a pointer: tl.load(x_ptr + i)",
    "'int' object has no attribute 'to'": "an index of a loop: tl.cast(i, tl.int64)",
    "active drivers": "it needs a GPU, and the interpreter has none",
}
ADVICE_IN_A_KERNEL = {  # the same, where these words mean something else elsewhere
    "'tensor' object has no attribute": "it has few methods: x.to(tl.float32), x[:, None]",
    "'int' object is not callable": NO_SHAPES,
    "index out of range": NO_SHAPES,
    "is not defined": "a kernel knows its arguments, and what its own lines set",
    "'tensor' has no len()": NO_SHAPES,
}
OTHERS_NAMES = re.compile(r"\b(torch|math|np|numpy)\.")


class Failure(NamedTuple):
    """Why a call failed."""

    reason: str
    owner: str = ""  # the program that stored outside of its tensors
    fault: Fault = Fault.OTHER


def failure_of(error: Exception) -> Failure:
    """Explain an error. Triton wraps what a kernel raises."""
    inner = cause_of(error)
    if triton_is_installed():
        from ..compiler.compile_process import sentence_of
        from .hooks import LeftItsTensors, name_of

        sentence, line = sentence_of(error)
        if line:  # where there is a GPU, of the compiler
            return Failure(f"it does not compile: {refused_in_words(sentence, line)}")
        if isinstance(inner, LeftItsTensors):
            owner = name_of(inner.program) if inner.does == "writes" else ""
            return Failure(f"{Fault.OUTSIDE.value}: {inner}", owner, Fault.OUTSIDE)
    text = str(inner).strip().splitlines() or [""]
    frames = [f for f in traceback.extract_tb(inner.__traceback__) if "candidate_" in f.filename]
    line = (frames[-1].line if frames else "") or ""
    if advice := advice_on(text[0], line, in_a_kernel=inner is not error):
        text[0] += f" ({advice})"
    where = f", at: {line}" if line else ""
    return Failure(f"it raises {type(inner).__name__}: {text[0]}{where}")


def advice_on(text: str, line: str, in_a_kernel: bool) -> str:
    """Advice on an error, given its first line and the line of code that raised it."""
    if in_a_kernel and OTHERS_NAMES.search(line):
        return TRITONS_OWN
    rules = ADVICE_IN_A_KERNEL | ADVICE if in_a_kernel else ADVICE
    return next((advice for found, advice in rules.items() if found in text), "")
