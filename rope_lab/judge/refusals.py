"""What Triton's compiler refuses in a kernel that is right in the interpreter, and what to write.

The interpreter runs a kernel as Python, but the compiler accepts only a part of Python.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rope_kernels.paths import triton_is_installed

from ..compiler.compile import Job, compiles_here, job_of
from ..compiler.launch_limits import Refused
from ..compiler.launches import Launch, launched_by
from ..interpreter.tuners import has_a_choice

GPU = "sm_90"  # an H100 or H200
LOOPS = "a loop in a kernel has no break or continue: put the condition into `while`, or mask lanes"
BUILTINS = "of Python's own functions a kernel has range, min, max, len, int, float and print"
OWN = "a kernel calls tl's functions, and your own with @triton.jit above their def"
GROWS = "a list in a kernel does not grow: add up in a loop"
FIXED = "no element of a list can be set in a kernel: give the new value a name"
SMALLER = "take smaller blocks, and more programs"
ADVICE = {  # what Triton says -> what to write instead
    "type: Break": LOOPS,
    "type: Continue": LOOPS,
    "`return` statements inside": "a loop in a kernel runs to its end: put the rest into an `if`",
    "else after for": "a loop in a kernel has no else",
    "Not implemented": "a loop in a kernel has no else",
    "'Tuple' object has no attribute 'func'": "a loop runs over range or tl.static_range",
    "unsupported AST node type": "a kernel has no such expression or statement: write it otherwise",
    "multiple comparison": "write a <= i < n as (a <= i) & (i < n)",
    "'In' object": "a kernel has no `in`: write a == b or a == c",
    "comprehensions": "a kernel has no lists made by for: write the elements, or a loop",
    "has no attribute append": GROWS,
    "'append' is not in list": GROWS,  # the same, from Triton 3.6
    "__setitem__": FIXED,
    "Loop-carried variable": (
        "before the loop, give it the dtype and shape that it has in the loop: "
        "tl.zeros((BLOCK,), tl.float32)"
    ),
    "Mismatched type for": "give it the same dtype and shape in both branches",
    "Cannot access global variable": (
        "pass it as an argument, NAME: tl.constexpr, or write NAME = tl.constexpr(...) above the "
        "kernel"
    ),
    "Unsupported function referenced": OWN,
    "argument '_semantic'": OWN,
    "class 'str'>": "a kernel has no strings but constants",
    "argument of type: str": "a string is an argument NAME: tl.constexpr",
    "f-string": 'a kernel prints by tl.device_print("i", i)',
    "must be real number, not tensor": "Python's math takes constants: tl.sqrt, tl.floor",
    "not 'tensor'": "a number of a kernel is converted by x.to(tl.int32)",
    "NoneType'> to tensor": "give it a number or a block in both branches",
    "exceeds triton maximum tensor numel": SMALLER,
}
_BUILTINS = (
    "sum",
    "enumerate",
    "zip",
    "abs",
    "round",
    "bool",
    "str",
    "sorted",
    "any",
    "all",
    "map",
)
NOT_SET = "a name that is set in an `if` needs a value before it"


def in_words(sentence: str, line: str = "") -> str:
    """Triton's sentence with advice, if there is any, and the line of the kernel."""
    found = (advice for said, advice in ADVICE.items() if said in sentence)
    name, undefined, _ = sentence.partition(" is not defined")
    advice = (BUILTINS if name in _BUILTINS else NOT_SET) if undefined else next(found, "")
    return f"{sentence}{f' ({advice})' if advice else ''}{f', at: {line}' if line else ''}"


def does_not_compile(refused: Refused, gpu: str = "an H200") -> str:
    """The reason of a verdict on a kernel that is right in the interpreter."""
    said = in_words(refused.sentence, refused.line)
    return f"right in the interpreter, but {refused.kernel} does not compile for {gpu}: {said}"


class Noted(NamedTuple):
    """The compilation of a launch, and whether a tuner made that launch."""

    job: Job
    is_tuned: bool


def refusal_of(launches: Iterable[Noted]) -> str:
    """Why the first of these launches does not compile; '' if all do.

    A tuner passes over some configurations. It is refused if it passes over all of them.

    Raises:
        OSError, MemoryError: there is no room to compile them.
    """
    passed_over, compiled = {}, set()
    for job, is_tuned in launches:
        try:
            job.done(check=True)
            compiled.add(job.name)
        except Refused as refused:
            if not (refused.passes_over and is_tuned):
                return does_not_compile(refused)
            passed_over[job.name] = does_not_compile(refused)
    return next((words for kernel, words in passed_over.items() if kernel not in compiled), "")


@contextlib.contextmanager
def launches_noted() -> Iterator[dict[tuple, Noted]]:
    """Note the launches in this context, one for each compilation.

    There are none if Triton has no compiler. A launch that a GPU refuses, whatever its kernel does,
    raises `NotLaunched`.
    """
    jobs: dict[tuple, Noted] = {}
    if not triton_is_installed():
        yield jobs
        return

    def note(launch: Launch) -> object:
        note_job(jobs, launch)
        return launch.run()

    with launched_by(note):
        yield jobs


def note_job(jobs: dict[tuple, Noted], launch: Launch) -> None:
    """Add the job of a launch, unless there is one with the same compiled kernel."""
    if not compiles_here():
        return
    key = _what_is_compiled(launch)
    if key not in jobs:
        job = job_of(GPU, launch.kernel, *launch.arguments, **launch.options)
        jobs[key] = Noted(job, bool(launch.configuration) or has_a_choice())


def _what_is_compiled(launch: Launch) -> tuple:
    """The same for launches with the same compiled kernel."""
    kinds = {"num_warps": "constexpr"} | launch.kernel.fn.__annotations__
    parts = [
        (name, repr(value) if "constexpr" in str(kinds.get(name)) else _like(value))
        for name, value in launch.named.items()
    ]
    return launch.kernel.fn, *parts


def _like(value: object) -> object:
    """A launch argument's dtype or type, and whether it is 1, which is compiled as a constant."""
    if isinstance(value, tuple | list):
        return type(value), *map(_like, value)
    if type(value) in (int, float):
        return value == 1 or type(value)
    if block := getattr(value, "block_shape", None):  # of a descriptor
        return value.base.dtype, *block
    return getattr(value, "dtype", None) or repr(value)
