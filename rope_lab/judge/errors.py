"""Explain an error of a reader's function in one line, with advice."""

import errno
import re
import sys
import traceback
from pathlib import Path
from typing import NamedTuple

from rope_kernels.paths import triton_is_installed

from ..compiler.launch_limits import NotLaunched
from .guests import MEMORY
from .refusals import SMALLER
from .refusals import in_words as refused_in_words
from .verdict import Fault, cause_of

WITHOUT_GRID = "is a kernel called without its grid, kernel[grid](...)?"
TRITONS_OWN = "a kernel has tl's functions and dtypes, no others: tl.arange, tl.cos, tl.float32"
NO_INDEX = "blocks and pointers have no index: an element is loaded, tl.load(x_ptr + i)"
RESTART = "no CUDA call of this notebook works after it: restart the kernel"
TOO_MUCH = f"a call may take {MEMORY / 2**30:.0f} GiB of memory, and cases are small"
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
    "exceeds triton maximum tensor numel": SMALLER,
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
    "outside of the scope of a kernel": WITHOUT_GRID,
    "has no attribute 'grid_idx'": WITHOUT_GRID,  # where Triton has no compiler
    "has no attribute 'scalar'": WITHOUT_GRID,  # the same, after another launch
    "has no attribute 'is_ptr'": WITHOUT_GRID,  # the same, since Triton 3.9
    "Cannot make_shape_compatible": "[:, None] makes a column of a block, and [None, :] a row",
    "Expected pointer argument to have shape": "the address has no row, or no column",
    "in `tl.store`": "the address comes first, and then the value: tl.store(out_ptr + i, x)",
    "and triton.language.float": "an index is a whole number: a // b, not a / b",
    "Unsupported ptr type": "an address begins with a pointer: tl.load(x_ptr + i)",
    "'int' object has no attribute 'to'": "an index of a loop: tl.cast(i, tl.int64)",
    "active drivers": "it needs a GPU, and the interpreter has none",
    "allocate memory": TOO_MUCH,
    "Unable to allocate": TOO_MUCH,  # NumPy's
    "illegal memory access": RESTART,
    "misaligned address": RESTART,
    "device-side assert": RESTART,
    "unspecified launch failure": RESTART,
}
ADVICE_IN_A_KERNEL = {  # the same, where these words mean something else elsewhere
    "'tensor' object has no attribute": "it has few methods: x.to(tl.float32), x[:, None]",
    "'int' object is not callable": NO_SHAPES,
    "index out of range": NO_SHAPES,
    "is not defined": "a kernel knows its arguments, and what its own lines set",
    "'tensor' has no len()": NO_SHAPES,
}
NEEDS_A_GPU = re.compile(r"\bcuda\b|\bis_cuda\b|\bGPU\b|active drivers", re.IGNORECASE)
# No room on the disk, or for files, or a quota that is used up
NO_ROOM = errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE
# Files that aren't the reader's: the lab's, Python's, and those of installed packages
OTHERS = (str(Path(__file__).parents[1]), sys.base_prefix, "<")
LIBRARIES = "site-packages"
OTHERS_NAMES = re.compile(r"\b(torch|math|np|numpy)\.")


class Failure(NamedTuple):
    """Why a call failed."""

    reason: str
    owner: str = ""  # the program that stored outside of its tensors
    fault: Fault = Fault.OTHER


def failure_of(error: BaseException) -> Failure:
    """Explain an error. Triton wraps what a kernel raises."""
    inner = cause_of(error)
    if isinstance(inner, NotLaunched):
        fault = Fault.PASSED_OVER if inner.passes_over else Fault.ON_A_GPU
        return Failure(f"on a GPU it doesn't start: {inner}", fault=fault)
    if triton_is_installed():
        from ..compiler.compile_here import sentence_of
        from .hooks import DiffersOnAGpu, LeftItsTensors, name_of

        sentence, line = sentence_of(error)
        if line:  # where there is a GPU, of the compiler
            return Failure(f"it does not compile: {refused_in_words(sentence, line)}")
        if isinstance(inner, LeftItsTensors):
            owner = name_of(inner.program) if inner.does == "writes" else ""
            return Failure(f"{Fault.OUTSIDE.value}: {inner}", owner, Fault.OUTSIDE)
        if isinstance(inner, DiffersOnAGpu):
            return Failure(str(inner), fault=Fault.ON_A_GPU)
    text = str(inner).strip().splitlines() or [""]
    line = line_of_the_reader(inner)
    if advice := advice_on(text[0], line, in_a_kernel=inner is not error):
        text[0] += f" ({advice})"
    where = f", at: {line}" if line else ""
    return Failure(f"it raises {type(inner).__name__}: {text[0]}{where}")


def line_of_the_reader(error: BaseException) -> str:
    """The line of the reader's code that led to an error; '' if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not (f.filename.startswith(OTHERS) or LIBRARIES in f.filename)]
    return (own[-1].line if own else "") or ""


def not_the_kernels_fault(error: BaseException, device: str = "cpu") -> str:
    """Why nothing is known of a function that raised this error; '' if it is wrong."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return f"this machine stopped the check: {error.strerror}; free some room, and run it again"
    line = line_of_the_reader(error)
    is_the_launchers = device == "cpu" and cause_of(error) is error
    if isinstance(error, NotLaunched) or not is_the_launchers:
        return ""
    if NEEDS_A_GPU.search(f"{line} {error}"):
        words = "the check runs it on CPU tensors, where this line fails"
        return f"{words}: {line} ({error}). Leave it out, or make it true on any device"
    return ""


def advice_on(text: str, line: str, in_a_kernel: bool) -> str:
    """Advice on an error, given its first line and the line of code that raised it."""
    if in_a_kernel and OTHERS_NAMES.search(line):
        return TRITONS_OWN
    rules = ADVICE_IN_A_KERNEL | ADVICE if in_a_kernel else ADVICE
    return next((advice for found, advice in rules.items() if found in text), "")
