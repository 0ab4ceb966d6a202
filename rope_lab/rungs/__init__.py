"""The climb of notebooks 04 to 09: seven kernels, each faster than the last, or able to do more.

Each rung is a file that has a kernel, `my_rope_kernel`, and its launcher, `my_rope`: what a reader
has in one cell when the rung is judged right. Rung 3 changes the launcher alone. Importing one
loads Triton.
"""

import inspect
from dataclasses import dataclass
from importlib import import_module

SHAPE = (2048, 16, 8, 256)  # (s, b, h, d), in bf16: what a rung is compiled and measured for


@dataclass(frozen=True)
class Rung:
    """One step of the climb."""

    number: int  # 1 is the first kernel
    notebook: str  # where a reader takes it, as '04'
    file: str  # the module in this folder that has our kernel
    change: str  # what is new, as the ladder says it
    requested: float  # bytes at the headline shape, in multiples of those of t
    evaluations: float  # of sin and cos, for each pair, as the source has them
    evaluations_of_threads: float  # the same, as the threads of an H200 compute them

    @property
    def module(self):
        """Our kernel, `my_rope_kernel`, and its launcher, `my_rope`."""
        return import_module(f"{__name__}.{self.file}")

    @property
    def source(self) -> str:
        """The text of both, without the imports before them."""
        functions = self.module.my_rope_kernel.fn, self.module.my_rope
        return "\n\n".join(inspect.getsource(function) for function in functions)


RUNGS = {
    rung.number: rung
    for rung in (
        Rung(1, "04", "rung_1_naive", "one kernel; right, or refused", 5, 4, 4),
        Rung(2, "05", "rung_2_tile", "8 rows share their angles; works in place", 2.25, 0.5, 4),
        Rung(3, "05", "rung_3_one_warp", "one warp instead of four", 2.25, 0.5, 1),
        Rung(4, "06", "rung_4_backward", "a flag makes it compute the gradient", 2.25, 0.5, 1),
        Rung(5, "07", "rung_5_sine_of_a_row", "the sine before the broadcast", 2.25, 0.5, 0.5),
        Rung(6, "09", "rung_6_loads_first", "every load before the first sine", 2.25, 0.5, 0.5),
        Rung(7, "09", "rung_7_any_input", "any strides, a tail, large tensors", 2.25, 0.5, 0.5),
    )
}


def rung_of(number: int) -> Rung:
    """The rung of this number.

    Raises:
        ValueError: there is none.
    """
    if number not in RUNGS:
        raise ValueError(f"rung is {number!r}; accepted: 1 to {len(RUNGS)}")
    return RUNGS[number]
