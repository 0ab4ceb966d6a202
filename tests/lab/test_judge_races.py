"""Right results by luck: two programs, or two lanes of one program, meet at an element.

The interpreter runs programs one by one and a program's lanes together, so all results are right.
The kernels are in `tests/support/racing_kernels.py`.
"""
# ruff: noqa: F821 (the letters of shapes)

from functools import partial

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

import racing_kernels as kernels
import rope_lab as lab
from cells import Cell
from rope_lab.judge.spec import STRIDED, spec

LEFT_OUT = (*STRIDED, "half precision")
IN_PLACE = {"overwrites": ("x",), "kernel": True, "leave_out": LEFT_OUT}


@spec(kernel=True, leave_out=LEFT_OUT, tolerance=(1e-3, 1e-3))
def summed(x: "(n)"):
    return x.sum()[None]


@spec(**IN_PLACE)
def exchanged(x: "(s, 64)"):
    return x.roll(32, 1)


@spec(**IN_PLACE)
def exchanged_in_a_warp(x: "(s, 32)"):
    return x.roll(16, 1)


@spec(**IN_PLACE)
def neighbors_exchanged(x: "(s, 64)"):
    return x.view(-1, 2).flip(1).view_as(x)


@spec(**IN_PLACE)
def less_the_first(x: "(n)"):
    return x - x[0]


@spec(kernel=True, leave_out=LEFT_OUT)
def turned_round(x: "(s, 64)"):
    return x.flip(1)


@spec(kernel=True, leave_out=LEFT_OUT)
def copied(x: "(n)"):
    return x.clone()


@spec(overwrites=("x",), kernel=True)
def shifted(x: "(n)"):
    return torch.cat((x[1:], torch.zeros_like(x[:1])))


@spec(overwrites=("x",), kernel=True)
def last_added(x: "(n)"):
    return x + x[-1]


@spec(**IN_PLACE)
def grown(x: "(n)"):
    return 4 * x.abs()


LOCKED = "RIGHT, but whether a lock orders its programs is not checked: program 1 reads element 0"
LANES = "a race between lanes: in program 0, lane"
ONE_WARP = "RIGHT, but in more than one warp it would race: in program 0, lane 0"
RIGHT = "RIGHT: "
summing, adding = partial(partial, kernels.locked_sum), partial(partial, kernels.added_up)
exchanging, turning = partial(partial, kernels.exchange), partial(partial, kernels.by_scratch)
HERE = {"torch.empty_like(x)": "x", "64": "16"}  # by blocks of a warp
TWICE = {**HERE, "    doubling_k": "    for _ in 'ab': doubling_k"}
LOAD, NEXT = "x_ptr + i, mask=i < n", "x_ptr + i + 1, mask=i + 1 < n, other=0.0"
ALL = {  # what meets -> the kernel, what is asked, and words of the verdict
    # programs
    "the first of the next program": (  # which is loaded before it is overwritten, by luck
        Cell("y = x", instead={LOAD: NEXT, **HERE}),
        shifted,
        "program 1 overwrites element 16 of x_ptr, which another program loads",
    ),
    "the last, for all": (  # who overwrites it has loaded it last, but others before
        Cell("y = x + tl.load(x_ptr + n - 1 + 0 * i)", instead=HERE),
        last_added,
        "of x_ptr, which another program loads",
    ),
    "programs of two launches": (
        Cell("y = tl.abs(x) * 2", instead=TWICE),
        grown,
        "RIGHT, but it launches 2 kernels",
    ),
    "a sum with no lock": (
        summing(how="none"),
        summed,
        "a race between programs: program 1 reads element 0 of out_ptr after program 0 has over",
    ),
    "a sum under a lock": (summing(how="lock"), summed, LOCKED),
    "a sum under a lock that is exchanged": (summing(how="exchanged lock"), summed, LOCKED),
    "a sum in turn": (summing(how="ticket"), summed, LOCKED),
    "atomic sums": (summing(how="atomic"), summed, RIGHT),
    "atomic sums that are read": (
        adding(how="read"),
        summed,
        "program 3 reads element 0 of total_ptr, which program 0 updates atomically: before or",
    ),
    "atomic sums onto the zero of one program": (
        adding(how="zeroed"),
        summed,
        "program 1 atomically updates element 0 of total_ptr, which program 0 stores: before or",
    ),
    "a lock outside the tensors": (
        kernels.claimed_outside,
        copied,
        "out of bounds: program 0 writes element 1 of lock_ptr, whose memory has elements 0 to 0",
    ),
    # lanes that store what others have loaded
    "partners": (
        exchanging(),
        exchanged,
        f"{LANES} 0 stores element 0 of x_ptr, which lane 32 has loaded, without a barrier "
        "between. The warps of a program don't wait for each other: let the lane that stores an "
        "element be the one that loads it, or write tl.debug_barrier() between the two",
    ),
    "partners of a tile": (
        exchanging(how="tiles"),
        exchanged,
        f"{LANES} (0, 0) stores element 0 of x_ptr, which lane (0, 32) has loaded",
    ),
    "partners, by one warp": (
        exchanging(warps=1),
        exchanged,
        f"{ONE_WARP} stores element 0 of x_ptr, which lane 32 has loaded",
    ),
    "partners within a warp": (
        exchanging(),
        exchanged_in_a_warp,
        f"{ONE_WARP} stores element 0 of x_ptr, which lane 16 has loaded",
    ),
    "partners, a barrier between": (exchanging(how="barrier"), exchanged, RIGHT),
    "partners, a barrier too early": (exchanging(how="too early a barrier"), exchanged, LANES),
    "partners, a sum between": (exchanging(how="sum"), exchanged, RIGHT),
    "pairs that are split": (exchanging(how="neighbors"), neighbors_exchanged, RIGHT),
    "one number of all lanes": (
        kernels.less_the_first,
        less_the_first,
        f"{LANES} 0 stores element 0 of x_ptr, which every lane has loaded",
    ),
    # lanes that load what others have stored
    "scratch": (
        turning(),
        turned_round,
        f"{LANES} 0 loads element 63 of scratch_ptr, which lane 63 has stored",
    ),
    "scratch, a barrier between": (turning(how="barrier"), turned_round, RIGHT),
    "scratch of the same lane": (turning(how="same lane"), turned_round, RIGHT),
    "scratch twice": (turning(how="twice"), turned_round, RIGHT),
}


@pytest.mark.parametrize("case", ALL)
def test_what_meets_at_an_element(case, tmp_path):
    candidate, wanted, said = ALL[case]
    if isinstance(candidate, Cell):
        candidate = candidate.launcher(tmp_path)
    verdict = lab.check_exercise(candidate, wanted)
    assert said in repr(verdict) and bool(verdict) is said.startswith("RIGHT"), verdict


def test_inspect_finds_them_too():
    def make(size, device):
        return (torch.randn(size, 64, device=device),)

    def exchanged_in_place(x):
        x.copy_(x.roll(32, 1))

    found = lab.inspect(kernels.exchange, exchanged_in_place, make, small=3, large=1000)
    words = "at size 3: in program 0, lane 0 stores element 0 of x_ptr, which lane 32 has loaded, "
    assert found.wrong == f"{words}without a barrier between"


def test_inspect_does_not_know_whether_a_lock_orders_programs():
    """One after the other they are right, and a race without the lock."""

    def make(size, device):
        return (torch.randn(size, 300, device=device),)

    locked_sum, total = partial(kernels.locked_sum, how="lock"), lambda x: x.sum()[None]
    page = repr(lab.inspect(locked_sum, total, make, small=3, large=6000, tolerance=(1e-3, 1e-3)))
    assert page.startswith("RIGHT at the sizes 3, 6, 9, one program after the other; "), page
    assert "whether a lock orders them on a GPU is not known\n" in page
