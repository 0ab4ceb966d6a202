"""What a GPU accepts of a launch, whatever its kernel computes. The interpreter accepts more.

The numbers are those of the CUDA C++ Programming Guide, technical specifications by compute
capability. Triton's compiler itself refuses blocks of more than 2^20 elements, and a number of
warps that isn't a power of two.
"""

from typing import NamedTuple

WHOLE = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # options that are integers


class Limit(NamedTuple):
    """The most that a launch may ask for."""

    most: int
    what: str
    advice: str  # what to write instead


# A tuner takes another configuration where one of these is exceeded: `OutOfResources` in Triton.
THREADS = Limit(1024, "threads", "take at most num_warps=32")
# A launch fails where one of these is exceeded, also in a tuner.
AXES = (
    Limit(2**31 - 1, "programs on axis 0 of a grid", "give each program more"),
    Limit(65_535, "programs on axis 1 of a grid", "put the longest axis first"),
    Limit(65_535, "programs on axis 2 of a grid", "put the longest axis first"),
)


class NotLaunched(RuntimeError):
    """A GPU refuses a launch; the message says why.

    Attributes:
        passes_over: whether a tuner takes another configuration; otherwise its launch fails.
    """

    def __init__(self, message: str, passes_over: bool = False) -> None:
        super().__init__(message)
        self.passes_over = passes_over


class Refused(RuntimeError):
    """Triton's compiler refuses a kernel.

    Attributes:
        kernel: its name.
        sentence: why.
        line: the kernel's line with the error; '' if it isn't known.
        passes_over: whether a tuner takes another configuration instead.
    """

    def __init__(
        self,
        kernel: str,
        gpu: str,
        sentence: str,
        line: str = "",
        *,
        passes_over: bool = False,
        words: str = "",
    ) -> None:
        """`words`: all that the compiler said; by default, the sentence."""
        super().__init__(f"{kernel} does not compile for {gpu}:\n{words or sentence}")
        self.kernel, self.sentence, self.line = kernel, sentence, line
        self.passes_over = passes_over


def check_resource(asked: int, limit: Limit) -> None:
    """Raise `NotLaunched` in Triton's words if a program needs more than there is."""
    if asked > limit.most:
        words = f"{limit.what}, Required: {asked}, Hardware limit: {limit.most}"
        raise NotLaunched(f"out of resource: {words} ({limit.advice})", passes_over=True)


def check_shared_memory(asked: int, most: int) -> None:
    """As `check_resource`; both in bytes."""
    check_resource(asked, Limit(most, "shared memory", "take smaller blocks"))


def check_launch(grid: tuple[int, ...], options: dict[str, object]) -> None:
    """Raise `NotLaunched` if a GPU refuses this grid, or these options of the compiler."""
    for name in WHOLE:
        value = options.get(name)
        if value is not None and type(value) is not int:
            raise NotLaunched(f"{name}={value!r} is a {type(value).__name__}: pass an integer")
    check_resource(32 * (options.get("num_warps") or 1), THREADS)
    for asked, limit in zip(grid, AXES, strict=False):
        if asked > limit.most:
            words = f"a GPU starts at most {limit.most} {limit.what}, not {asked}"
            raise NotLaunched(f"{words}: {limit.advice}")
