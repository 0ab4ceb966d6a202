"""What every check returns: one verdict, which can be asserted, printed and shown on a page."""

import html
import math
from dataclasses import dataclass, field

RIGHT, WRONG, NOT_YET = "right", "wrong", "not yet"
LINES_END_BETWEEN_WORDS = "white-space: pre-wrap; word-break: normal"
COLORS = {RIGHT: "#009e73", WRONG: "#d55e00", NOT_YET: "#e69f00"}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of a check; true only if everything is right."""

    state: str  # 'right', 'wrong' or 'not yet': nothing is answered, or it can't be passed on
    reason: str = ""  # what was right, what is wrong, or what to do first
    remark: str = ""  # what a right answer does that it need not do
    place: str = ""  # which of several answers, or which GPU, is wrong
    looks_like: str = ""  # which mistake leads to a wrong answer
    because: str = ""  # why a wrong choice is wrong
    hint: str = ""  # what to think of, where something is wrong
    boxed: bool = False  # it is about a reader's own work, which a page shows in a box
    # of the result that was compared, in an exercise that of the first wrong case:
    shape: tuple[int, ...] = ()
    dtype: str = ""
    wrong: int = 0  # how many of its elements are wrong
    first_wrong_index: tuple[int, ...] | None = None
    got: float = 0.0  # the value there
    expected: float = 0.0  # and what it should be
    largest_error: float = 0.0  # also where all is right
    result: str = ""  # which of the candidate's tensors is wrong
    owner: str = ""  # the program that stored the first wrong element
    # of an exercise: names of cases
    right_cases: tuple[str, ...] = ()
    case: str = ""  # the first that is wrong; `reason` says what the mistake looks like
    wrong_cases: tuple[str, ...] = ()  # the others
    launches: int = 0  # of kernels, in the interpreter
    counted: dict = field(default_factory=dict, repr=False)  # of a probe, where one was given
    engine: str = "interpreted"  # or 'compiled'
    ahead: str = ""  # which later rungs it has climbed already
    speed: str = ""  # of our kernel on a rung by the record, and of the reader's own on this GPU

    @property
    def ok(self) -> bool:
        return self.state == RIGHT

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        if self.case:
            return "\n".join(self._lines_about_the_wrong_case())
        first = f"{self.state.upper()}{f' in {self.place}' if self.place else ''}: {self.reason}"
        if self.remark:
            first = f"{self.state.upper()}, but {self.remark}\n  {self.reason}"
        more = {
            "looks like": self.looks_like,
            "because": self.because,
            "think of": self.hint,
            "ahead": self.ahead,
            "speed": self.speed,
        }
        lines = [f"  {name}: {words}" for name, words in more.items() if words]
        return "\n".join([first, *lines])

    def _repr_html_(self) -> str | None:
        """A box with a line beside it, colored by the outcome, which is bold; None: plain text."""
        if not self.boxed:
            return None
        return box(self.state, repr(self))

    def _lines_about_the_wrong_case(self) -> list[str]:
        count = len(self.right_cases)
        right = {0: "every case fails", 1: "1 other case is right"}
        right = right.get(count, f"{count} other cases are right")
        lines = [f"WRONG in the case '{self.case}'; {right}"]
        if self.engine == "compiled":
            lines[0] += ". All are right in the interpreter; this one ran on the GPU"
        if self.shape or self.dtype:
            lines.append(f"  {self.result}: shape {self.shape}, {self.dtype}")
        if self.first_wrong_index is not None:
            lines.append(
                f"  first wrong index {self.first_wrong_index}: got {self.got:.4g}, "
                f"expected {self.expected:.4g}; wrong: {self.wrong} of {math.prod(self.shape)}; "
                f"largest error {self.largest_error:.2g}"
            )
        if self.owner:
            lines.append(f"  stored by: {self.owner}")
        lines.append(f"  looks like: {self.reason}")
        if self.wrong_cases and self.right_cases:
            lines.append("  also wrong: " + ", ".join(self.wrong_cases))
        return lines


def box(state: str, text: str) -> str:
    """HTML of a text that begins with its state: that is bold, and colors the line beside it."""
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
