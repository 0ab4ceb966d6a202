"""What every check returns: one verdict, which can be asserted, printed and shown on a page."""

import html
import math
import sys
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..solved import Link


class State(StrEnum):
    """The outcome of a check; as text, its first words."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_YET = "not yet"  # not answered, or it can't be passed on
    # Without Triton's compiler: all that the interpreter shows is right; machine code isn't read.
    AS_INTERPRETED = "right in the interpreter"


class Fault(Enum):
    """Kinds of fault that the code distinguishes; as text, how the verdict's words begin."""

    OUTSIDE = "out of bounds"
    COLLISION = "write collision"
    ON_A_GPU = "on a GPU"  # which does something else than the interpreter, or refuses
    PASSED_OVER = "on a GPU, a tuner passes over it"
    LATE = "it did not come to an end"
    OTHER = ""


RIGHT, WRONG, NOT_YET, AS_INTERPRETED = State
HOW_TO_BEGIN = "replace what the stub raises by your code, then run this cell again"
LINES_END_BETWEEN_WORDS = "white-space: pre-wrap; word-break: normal"
COLORS = {RIGHT: "#009e73", WRONG: "#d55e00", NOT_YET: "#e69f00", AS_INTERPRETED: "#0072b2"}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A result compared with the expected one, element by element."""

    name: str = "the result"  # which of the candidate's tensors it is
    shape: tuple[int, ...]
    dtype: str
    largest_error: float = 0.0  # also if all is right
    wrong: int = 0  # how many elements are wrong
    first_wrong_index: tuple[int, ...] | None = None
    got: float = 0.0  # the value there
    expected: float = 0.0  # and what it should be

    def lines(self) -> list[str]:
        """What the verdict on a wrong case says about it."""
        found = [f"  {self.name}: shape {self.shape}, {self.dtype}"]
        if self.first_wrong_index is not None:
            found.append(
                f"  first wrong index {self.first_wrong_index}: got {self.got:.4g}, "
                f"expected {self.expected:.4g}; wrong: {self.wrong} of {math.prod(self.shape)}; "
                f"largest error {self.largest_error:.2g}"
            )
        return found


@dataclass(frozen=True, kw_only=True)
class Cases:
    """The cases of an exercise, by their names, and what ran in them."""

    right: tuple[str, ...] = ()
    wrong: str = ""  # the first that is wrong; the verdict says what the mistake looks like there
    also_wrong: tuple[str, ...] = ()
    owner: str = ""  # the program that stored the first wrong element, or left its tensors
    engine: str = "interpreted"  # or 'compiled'
    launches: int = 0  # of kernels, in the interpreter, where all is right
    has_locks: bool = False  # do they need a lock to be right?

    def lines(self, compared: Comparison | None, looks_like: str, because: str) -> list[str]:
        """The verdict on a wrong case, from its first line to its last."""
        count = len(self.right)
        right = {0: "every case fails", 1: "1 other case is right"}
        right = right.get(count, f"{count} other cases are right")
        first = f"WRONG in the case '{self.wrong}'; {right}"
        if self.engine == "compiled":
            first += ". All are right in the interpreter; this one ran on the GPU"
        return [
            first,
            *(compared.lines() if compared else ()),
            *labeled("stored by", self.owner),
            *labeled("looks like", looks_like),
            *labeled("because", because),
            *labeled("also wrong", ", ".join(self.also_wrong) if self.right else ""),
        ]


@dataclass(frozen=True, kw_only=True)
class OnTheClimb:
    """A kernel compared with the rungs of the climb."""

    ahead: str = ""  # which later rungs it has climbed already
    speed: str = ""  # our kernel's recorded time, and the reader's measured on this GPU
    row: str = ""  # of the ladder, below its head, where the reader's kernel is kept
    follows: "Link | None" = None  # the exercise or the notebook after this rung's

    def lines(self) -> list[str]:
        following = self.follows.words if self.follows else ""
        return [
            *labeled("ahead", self.ahead),
            *labeled("speed", self.speed),
            *(f"  {line}" for line in self.row.splitlines()),
            *labeled("next", following),
        ]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of a check; true only if everything is right."""

    state: State
    reason: str = ""  # what was right, what is wrong, or what to do first
    fault: Fault = Fault.OTHER
    remark: str = ""  # what a right answer does that it need not do
    place: str = ""  # which of several answers, or which GPU, is wrong
    looks_like: str = ""  # which mistake leads to a wrong answer
    because: str = ""  # why a wrong choice is wrong, or which mistake leads to a wrong address
    hint: str = ""  # what to think of, where something is wrong
    boxed: bool = False  # it is about a reader's own work, which a page shows in a box
    compared: Comparison | None = None  # in an exercise, of the first wrong case
    cases: Cases = Cases()
    climb: OnTheClimb = OnTheClimb()

    @property
    def ok(self) -> bool:
        return self.state == RIGHT

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return printable(self._text())

    def _text(self) -> str:
        if self.cases.wrong:
            lines = self.cases.lines(self.compared, looks_like=self.reason, because=self.because)
            return "\n".join(lines)
        state = self.state.upper()
        if self.remark:
            first = f"{state}, but {self.remark}\n  {self.reason}"
        else:
            first = f"{state}{f' in {self.place}' if self.place else ''}: {self.reason}"
        return "\n".join(
            [
                first,
                *labeled("looks like", self.looks_like),
                *labeled("because", self.because),
                *labeled("think of", self.hint),
                *self.climb.lines(),
            ]
        )

    def _repr_html_(self) -> str | None:
        """A box with a colored line at its left and the outcome in bold; None: plain text."""
        if not self.boxed:
            return None
        shown = box(self.state, self._text())
        if following := self.climb.follows:
            words = html.escape(following.words)
            shown = shown.replace(f"next: {words}", f"next: {following.html}")
        return shown


def printable(text: str) -> str:
    """A text as standard output can print it: an escape stands for what it can't encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def labeled(label: str, words: str) -> list[str]:
    """A line of a verdict; none without words."""
    return [f"  {label}: {words}"] if words else []


def box(state: State, text: str) -> str:
    """HTML of a text that begins with its state, in bold, with a line in the state's color."""
    style = f"border-left: 4px solid {COLORS[state]}; padding-left: 0.8em; "
    style += LINES_END_BETWEEN_WORDS
    classes = f"lab-verdict lab-{state.replace(' ', '-')}"
    outcome = state.upper()
    rest = html.escape(text.removeprefix(outcome))
    return f'<pre class="{classes}" style="{style}"><b>{outcome}</b>{rest}</pre>'


def raised(error: Exception) -> str:
    """'raises TypeError: ...', with the error's first line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"raises {type(error).__name__}: {first}"


def cause_of(error: BaseException) -> BaseException:
    """The error at the start of the chain: Triton wraps what a kernel raises."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
