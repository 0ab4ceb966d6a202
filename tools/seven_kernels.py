"""Write the measured parts of docs/seven_kernels.md, and draw its pictures: `make seven_kernels`.

Its prose is edited in the page. The text between its markers is made here, from the rungs' files,
the records and the checks, and `tests/notebooks/test_seven_kernels.py` makes it again. README's
chart of *Three edits* is also drawn here.
"""

import difflib
import inspect
import io
import os
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import rope_lab as lab
from benchmarks.tables import fill
from rope_lab.compiler.compile import Compiled
from rope_lab.compiler.instructions import warp_instructions
from rope_lab.edits import times
from rope_lab.figures import style as draw
from rope_lab.judge.climb.instruments import headline
from rope_lab.judge.climb.ladder import ladder
from rope_lab.judge.rehearsal import rehearsed
from rope_lab.n05.figures import who_holds_what
from rope_lab.n09.figures import climb, order
from rope_lab.profiling import machines, roofline
from rope_lab.records import QUIET, recorded
from rope_lab.rungs import RUNGS
from rope_lab.rungs.measured import COPY, KEY

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
PAGE = IMAGES.with_name("seven_kernels.md")
H200 = machines.of_notebook_08()
NEW = (1, 2)  # rungs that share too little with the one before for a diff
KERNEL_ALONE = (2, 7)  # rungs whose launcher isn't shown, because the page has to be short
COLORS = 64  # of a picture that is stored


@cache
def code_of(rung: int, **options: bool) -> tuple[Compiled, int]:
    """The machine code of a rung at the headline shape for an H200, and how many programs run."""
    my_rope = partial(RUNGS[rung].module.my_rope, **options)
    (launch,) = rehearsed(my_rope, headline, "meta").launches
    return launch.compiled(), launch.programs


# the pictures


def who_loads_angles(rung: int) -> None:
    """Which program loads each angle, and stores each element, for 8 rows of one position."""
    my_rope = RUNGS[rung].module.my_rope
    lab.draw_launch(my_rope, torch.randn(1, 1, 8, 8), torch.randn(1, 1, 1, 8), loads="freqs_ptr")


def orders(title: str, *rungs: int) -> None:
    order({f"rung {rung}": code_of(rung)[0] for rung in rungs}, title)


def order_of_gradient() -> None:
    codes = {"forward": code_of(4)[0], "gradient": code_of(4, transpose=True)[0]}
    order(codes, "The gradient takes the same loads, sines and stores")


PICTURES: dict[str, Callable[[], None]] = {
    "seven_kernels.png": lambda: climb(recorded(KEY)),
    "seven_1.png": partial(who_loads_angles, 1),
    "seven_2.png": partial(who_loads_angles, 2),
    "seven_3_before.png": partial(who_holds_what, 8, 4),
    "seven_3.png": partial(who_holds_what, 8, 1),
    "seven_4.png": order_of_gradient,
    "seven_5.png": partial(who_holds_what, 1, 1),  # of the row of angles
    "seven_6.png": partial(orders, "Rung 6 requests all its data before the first sine", 5, 6),
    "seven_7.png": partial(orders, "More instructions, and the same ten loads first", 6, 7),
    "three_edits.svg": partial(times, 3),
}


def store(name: str) -> None:
    """Draw a picture, and store with it what it says, which is compared later."""
    figure, said = draw.drawn(PICTURES[name])
    if name.endswith(".svg"):
        with plt.rc_context({"svg.hashsalt": name}):  # the same file each time
            figure.savefig(IMAGES / name, metadata={"Description": said, "Date": None})
        return
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=2 * figure.dpi)
    about = PngInfo()
    about.add_itxt("Description", said)
    few_colors = Image.open(drawn).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    few_colors.save(IMAGES / name, optimize=True, pnginfo=about)


def shown(name: str) -> str:
    figure, _ = draw.drawn(PICTURES[name])
    return f"![{figure.get_suptitle()}](images/{name})"


# the text between the markers


def predicted(rung: int) -> dict[str, float]:
    """Notebook 08's equation (2): what its bytes take, its instructions, and the call."""
    code, programs = code_of(rung)
    instructions = 32 * warp_instructions(code) * code.num_warps * programs
    moved, _ = roofline.headline(0, "bf16")
    return {
        "memory": moved / H200.bytes_a_us,
        "instructions": instructions / H200.instructions_a_us,
        "call": H200.time_us(moved, instructions),
    }


def table() -> str:
    """The ladder, with predictions, and what its numbers come from."""
    whole = ladder(len(RUNGS))
    columns = ("rung", "of a copy", "time", "predicted", *whole.head[3:6], "what changed")
    lines = [columns, ["--:"] * (len(columns) - 1) + ["---"]]
    for cells in whole.rows:
        row = dict(zip(whole.head, cells, strict=True))
        row["predicted"] = f"{predicted(int(row['rung']))['call']:.0f} us" if row["rung"] else ""
        lines.append([row[name] for name in columns])
    text = "\n".join(f"|{'|'.join(line)}|" for line in lines)
    text = re.sub(r" (us|N)\|", r"&nbsp;\1|", text).replace("us|", "µs|")
    return f"{text}\n\n{whole.source}\n\n{shown('seven_kernels.png')}"


def code(rung: int) -> str:
    """The rung's source if it is new, else its difference from the rung before, marked."""
    now = _shown_of(rung, rung)
    if rung in NEW:
        return f"```python\n{now}\n```"
    before = _shown_of(rung, rung - 1)
    around = 0 if rung in KERNEL_ALONE else 1
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=around)
    marked = [" ..." if line.startswith("@@") else line.rstrip() for line in [*lines][2:]]
    return "\n".join(["```diff", *marked, "```"])


def _shown_of(rung: int, number: int) -> str:
    """What is shown of a kernel, `number`, or compared, in the part of a rung."""
    ours = RUNGS[number]
    kernel = inspect.getsource(ours.module.my_rope_kernel.fn)
    source = kernel if rung in KERNEL_ALONE else ours.source
    return re.sub(r"  # .*", "", source.strip())


def verdict(rung: int) -> str:
    """Its first line."""
    first, *_ = repr(lab.check_rung(rung, RUNGS[rung].module.my_rope)).splitlines()
    return f"**Check:** `{first}`"


def numbers(rung: int) -> str:
    us, measured = predicted(rung), recorded(KEY)
    time, copy = (measured[case].median_us for case in (f"rung {rung}", COPY))
    limits = f"bytes {us['memory']:.0f} µs, instructions {us['instructions']:.0f} µs"
    return (
        f"**Predicted {us['call']:.0f} µs** ({limits}), **measured {time:.0f} µs**, "
        f"{copy / time:.0%} of a copy."
    )


def part(rung: int) -> str:
    """All that is made for a rung."""
    names = [name for name in PICTURES if re.match(rf"seven_{rung}\b|seven_{rung}_", name)]
    pictures = [shown(name) for name in names]
    return "\n\n".join([code(rung), *pictures, numbers(rung), verdict(rung)])


PARTS: dict[str, Callable[[], str]] = {"table": table} | {
    f"rung {rung}": partial(part, rung) for rung in RUNGS
}


def get_ready() -> None:
    """Use the look of figures, and what is the same on every machine."""
    os.environ[QUIET] = "1"
    draw.style()


def main() -> None:
    get_ready()
    text = PAGE.read_text(encoding="utf-8")
    for name, make in PARTS.items():
        text = fill(text, name, f"{make()}\n")
    PAGE.write_text(text, encoding="utf-8")
    for name in PICTURES:
        store(name)


if __name__ == "__main__":
    main()
