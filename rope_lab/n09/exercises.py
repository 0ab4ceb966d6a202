"""Notebook 09: what bounds four kernels."""

from ..judge.exercise import Exercise, KernelOfTheRungBelow, WrongAnswer, WrongValue
from ..profiling import machines
from ..profiling.roofline import Machine
from ..rungs import RUNGS

RUNG_6 = Exercise(
    cell="09-ex1",
    judged_by=RUNGS[6],
    wrong_answers=(
        WrongAnswer(
            mistake="sixteen rows",
            instead={"num_warps = 8, 1": "num_warps = 16, 1"},
            told="more than 8 rows a program: stay at 8",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="a loop over rows",
            instead={
                "    rows,  # b * h, rows of one position\n": "    rows,  # b * h\n",
                "    tl.store(out_ptr + offset, x1": (
                    "    for _ in range(1):\n        pass\n    tl.store(out_ptr + offset, x1"
                ),
            },
            told="instructions can't be counted through a loop; write rows as a tile",
            state="NOT YET",
        ),
        KernelOfTheRungBelow(
            rung=6,
            told="rung 5 as it was: for which edit is there evidence above the exercise?",
        ),
    ),
)

RUNG_7 = Exercise(
    cell="09-ex2",
    judged_by=RUNGS[7],
    wrong_answers=(
        WrongAnswer(
            mistake="one sine before the second angle",
            instead={
                "    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)\n": "",
                "    cos2, sin2": (
                    "    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)\n    cos2, sin2"
                ),
            },
            told="freqs_ptr is loaded after a sine: move (angle2 = tl.load(angle_ptr + HALF",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="four warps",
            instead={"block_r, num_warps = 8, 1": "block_r, num_warps = 8, 4"},
            told="4 warps share the loads: see num_warps",
            state="NOT YET",
        ),
        KernelOfTheRungBelow(
            rung=7,
            told="rung 6 as it was: for which edit is there evidence above the exercise?",
        ),
    ),
)

_PROGRAMS_A_US = 1600
# programs and instructions a warp of four kernels that move 128 MiB
_KERNELS = (32_768, 220), (32_768, 1840), (262_144, 79), (4_096, 2500)


def _times(law: Machine, programs: int, instructions: int) -> dict[str, float]:
    return {
        "bytes": 2**27 / law.bytes_a_us,
        "instructions": 32 * programs * instructions / law.instructions_a_us,
        "programs": programs / _PROGRAMS_A_US,
    }


def which_bound() -> dict:
    """What `check_choices` takes. Reads notebook 08's record."""
    law, reasons, right = machines.of_notebook_08(), {}, []
    for place, kernel in enumerate(_KERNELS, 1):
        times = _times(law, *kernel)
        right.append(max(times, key=times.get))
        for bound, us in times.items():  # what does not bound it, and why
            words = f"its {bound} take {us:.0f} us, and something else takes longer"
            reasons.setdefault(words, {})[place] = bound
    return {
        "right": right,
        "choices": ("bytes", "instructions", "programs"),
        "hint": "three times for each kernel; the largest one decides",
        "mistakes": reasons,
    }


WHICH_LIMIT = Exercise(
    cell="09-ex4",
    judged_by=which_bound,
    wrong_answers=(
        WrongValue(
            given=["instructions", "instructions", "programs", "bytes"],
            told="its instructions take 7 us",
        ),
        WrongValue(given=["bytes", "bytes", "programs", "bytes"], told="its bytes take 30 us"),
    ),
)
