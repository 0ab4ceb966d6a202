"""Answers to the exercises, most of them wrong, and what they must be told; a file a notebook.

- `ANSWERS`: the worked solution with a line or two as readers write them.
- `NUMBERS`: exercise -> numbers and choices, each with words of its verdict.
- `RUNGS`: our kernel of a rung with a line or two as readers write them.

`test_answers_in_notebooks.py` has them judged. An exercise needs two that are told apart, and each
rule of `rope_lab/judge/diagnose` one somewhere.
"""

from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

from rope_lab.rungs import RUNGS as OURS


@dataclass(frozen=True)
class Wrong:
    """A solution with a mistake in it."""

    number: int  # of the exercise, or of the rung
    mistake: str
    instead: dict[str, str]  # text of the solution, or of our kernel: what is in its place
    told: str  # words of the verdict
    state: str = "WRONG"  # what its verdict begins with


@dataclass(frozen=True)
class WrongRung(Wrong):
    """A kernel of a rung with a mistake in it."""

    state: str = "NOT YET"


_OF_THE_RUNG_BELOW = {  # what its kernel is told: it isn't on this rung yet
    2: "my_rope takes no `out`",
    3: "every row evaluates its own: a program needs several rows of one position",
    4: "my_rope takes no `transpose`",
    5: "128 lanes share the angles of a row: how many has each? See num_warps",
    6: "is the sine taken after the broadcast (cos1, sin1 = tl.cos(angle1), tl.sin(angle1))?",
    7: "t_ptr is loaded after a sine: move (x1 = tl.load(t_ptr + offset, mask",
}


_FILES = {
    file.name[-2:]: vars(import_module(f"{__name__}.{file.name}"))
    for file in iter_modules(__path__)
}
ANSWERS = {number: names.get("ANSWERS", []) for number, names in _FILES.items()}
NUMBERS = {
    (number, exercise): given
    for number, names in _FILES.items()
    for exercise, given in names.get("NUMBERS", {}).items()
}
RUNGS = [wrong for names in _FILES.values() for wrong in names.get("RUNGS", ())]
RUNGS += [
    WrongRung(
        *(rung, "the kernel of the rung below"),
        {OURS[rung].source.strip(): OURS[rung - 1].source.strip()},
        told,
    )
    for rung, told in _OF_THE_RUNG_BELOW.items()
]
