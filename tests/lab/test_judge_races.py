"""Right results by luck: two programs, or two lanes of one program, meet at an element.

The interpreter runs programs one by one and a program's lanes together, so all results are right.
"""
# ruff: noqa: F821 (the letters of shapes)

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

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

LOAD, STORE = "x = tl.load(x_ptr + i, mask=i < n)", "tl.store(out_ptr + i, y, mask=i < n)"
MAKE, PLACE = "torch.empty_like(x)", "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
HERE = {MAKE: "x"}
BY_16 = {"64": "16"}  # a block is a warp's
BY_ONE = {"(triton.cdiv(x.numel(), 64),)": "(1,)", "=64": "=triton.next_power_of_2(x.numel())"}
NEXT = "x = tl.load(x_ptr + i + 1, mask=i + 1 < n, other=0.0)"
AGAIN = {"    doubling_k": "    for _ in 'ab': doubling_k"}
ONE_NUMBER = {MAKE: "torch.zeros(1, device=x.device)", "return out": "return out.to(x.dtype)"}


def with_more(name, made):
    """A tensor more that the launcher makes, and its name in the kernel."""
    return {"x_ptr, out_ptr": f"x_ptr, {name}, out_ptr", "](x, out": f"](x, {made}, out"}


LOCK = with_more("lock_ptr", "torch.zeros(1, dtype=torch.int32, device=x.device)")
PART = "part = tl.sum(tl.where(i < n, x, 0.0).to(tl.float32))\n"
STORED = "tl.store(out_ptr, tl.load(out_ptr) + part)"
FREE = "\ntl.debug_barrier()\ntl.atomic_xchg(lock_ptr, 0)"


def summed_by(lines):
    """Each program adds its block to the one number, and may hold a lock for that."""
    return Cell(PART + lines, instead={STORE: "", **BY_16, **ONE_NUMBER, **LOCK})


def waiting(lines):
    """Until a condition is false."""
    return f"while {lines}:\n    pass\n"


def exchanged_by(after="", *, partner="(i ^ 32)", options="", **instead):
    """Of each row, which one program has, the halves change places."""
    y = f"y = tl.load(x_ptr + {partner}, mask=i < n)\n"
    return Cell(y + after, options=options, instead={LOAD: "", **HERE, **instead})


OF_TILES = "tl.program_id(0) * 128 + tl.arange(0, 2)[:, None] * 64 + tl.arange(0, 64)[None, :]"
PAIRS = """\
pair = tl.program_id(0) * 32 + tl.arange(0, 32)
both = 2 * pair[:, None] + tl.arange(0, 2)[None, :]
first, second = tl.split(tl.load(x_ptr + both, mask=both < n))
tl.store(x_ptr + 2 * pair, second, mask=2 * pair < n)"""
SCRATCH = with_more("scratch_ptr", MAKE)
TURNED = "turned = tl.program_id(0) * BLOCK + BLOCK - 1 - tl.arange(0, BLOCK)\n"
WRITTEN, BARRIER = f"{TURNED}tl.store(scratch_ptr + i, x)\n", "tl.debug_barrier()\n"
READ = "y = tl.load(scratch_ptr + turned)"
TWICE = f"{BARRIER}tl.store(scratch_ptr + i, 2 * y)\n{BARRIER}y = tl.load(scratch_ptr + i) / 2"
TOTAL = with_more("total_ptr", "torch.zeros(1, device=x.device)")
LAST = "is_last = tl.program_id(0) == tl.num_programs(0) - 1\n"
ADDED = f"{PART}tl.atomic_add(total_ptr, part)\n{LAST}y = tl.load(total_ptr, mask=is_last)"
LAST_STORES = "tl.store(out_ptr, y, mask=is_last)"
ZEROED = f"{PART}tl.store(out_ptr, 0.0, mask=tl.program_id(0) == 0)\ntl.atomic_add(out_ptr, part)"
LOCKED_SUM = summed_by(f"{waiting('tl.atomic_cas(lock_ptr, 0, 1) == 1')}{STORED}{FREE}")
ALL = {  # what meets -> the kernel, what is asked, and words of the verdict
    # programs
    "the first of the next program": (  # which is loaded before it is overwritten, by luck
        Cell("y = x", instead={LOAD: NEXT, **HERE, **BY_16}),
        shifted,
        "program 1 overwrites element 16 of x_ptr, which another program loads",
    ),
    "the last, for all": (  # who overwrites it has loaded it last, but others before
        Cell("y = x + tl.load(x_ptr + n - 1 + 0 * i)", instead={**HERE, **BY_16}),
        last_added,
        "of x_ptr, which another program loads",
    ),
    "programs of two launches": (
        Cell("y = tl.abs(x) * 2", instead={**HERE, **BY_16, **AGAIN}),
        grown,
        "RIGHT, but it launches 2 kernels",
    ),
    "a sum with no lock": (
        summed_by(STORED),
        summed,
        "a race between programs: program 1 reads element 0 of out_ptr after program 0 has over",
    ),
    "a sum under a lock": (LOCKED_SUM, summed, LOCKED),
    "a sum under a lock that is exchanged": (
        summed_by(f"{waiting('tl.atomic_xchg(lock_ptr, 1) == 1')}{STORED}{FREE}"),
        summed,
        LOCKED,
    ),
    "a sum in turn": (
        summed_by(
            waiting("tl.load(lock_ptr, volatile=True) != tl.program_id(0)")
            + f"{STORED}\ntl.atomic_add(lock_ptr, 1)"
        ),
        summed,
        LOCKED,
    ),
    "atomic sums": (summed_by("tl.atomic_add(out_ptr, part)"), summed, RIGHT),
    "atomic sums that are read": (
        Cell(ADDED, instead={STORE: LAST_STORES, **BY_16, **ONE_NUMBER, **TOTAL}),
        summed,
        "program 3 reads element 0 of total_ptr, which program 0 updates atomically: before or",
    ),
    "atomic sums onto the zero of one program": (
        Cell(ZEROED, instead={STORE: "", **BY_16, **ONE_NUMBER}),
        summed,
        "program 1 atomically updates element 0 of out_ptr, which program 0 stores: before or",
    ),
    "a lock outside the tensors": (
        Cell("tl.atomic_cas(lock_ptr + 1, 0, 1)\ny = x", instead=LOCK),
        copied,
        "out of bounds: program 0 writes element 1 of lock_ptr, whose memory has elements 0 to 0",
    ),
    # lanes that store what others have loaded
    "partners": (
        exchanged_by(),
        exchanged,
        f"{LANES} 0 stores element 0 of x_ptr, which lane 32 has loaded, without a barrier "
        "between. The warps of a program don't wait for each other: let the lane that stores an "
        "element be the one that loads it, or write tl.debug_barrier() between the two",
    ),
    "partners of a tile": (
        exchanged_by(**{PLACE: OF_TILES, "x.numel(), 64": "x.numel(), 128"}),
        exchanged,
        f"{LANES} (0, 0) stores element 0 of x_ptr, which lane (0, 32) has loaded",
    ),
    "partners, by one warp": (
        exchanged_by(options=", num_warps=1"),
        exchanged,
        f"{ONE_WARP} stores element 0 of x_ptr, which lane 32 has loaded",
    ),
    "partners within a warp": (
        exchanged_by(partner="(i ^ 16)", **{"64": "32"}),
        exchanged_in_a_warp,
        f"{ONE_WARP} stores element 0 of x_ptr, which lane 16 has loaded",
    ),
    "partners, a barrier between": (exchanged_by(BARRIER), exchanged, RIGHT),
    "partners, a barrier too early": (
        exchanged_by(f"{BARRIER}y = tl.load(x_ptr + (i ^ 32), mask=i < n)"),
        exchanged,
        LANES,
    ),
    "partners, a sum between": (
        exchanged_by("y += 0 * tl.sum(y.to(tl.float32))"),
        exchanged,
        RIGHT,
    ),
    "pairs that are split": (
        Cell(
            PAIRS,
            instead={LOAD: "", STORE: "tl.store(out_ptr + 2 * pair + 1, first, 2 * pair < n)"}
            | HERE,
        ),
        neighbors_exchanged,
        RIGHT,
    ),
    "one number of all lanes": (
        Cell("y = x - tl.load(x_ptr)", instead=HERE | BY_ONE),
        less_the_first,
        f"{LANES} 0 stores element 0 of x_ptr, which every lane has loaded",
    ),
    # lanes that load what others have stored
    "scratch": (
        Cell(WRITTEN + READ, instead=SCRATCH),
        turned_round,
        f"{LANES} 0 loads element 63 of scratch_ptr, which lane 63 has stored",
    ),
    "scratch, a barrier between": (
        Cell(WRITTEN + BARRIER + READ, instead=SCRATCH),
        turned_round,
        RIGHT,
    ),
    "scratch of the same lane": (
        Cell(
            f"{WRITTEN}y = tl.load(scratch_ptr + i)",
            instead={STORE: "tl.store(out_ptr + turned, y, mask=i < n)", **SCRATCH},
        ),
        turned_round,
        RIGHT,
    ),
    "scratch twice": (
        Cell(f"{WRITTEN}{BARRIER}{READ}\n{TWICE}", instead=SCRATCH),
        turned_round,
        RIGHT,
    ),
}


@pytest.mark.parametrize("case", ALL)
def test_what_meets_at_an_element(case, tmp_path):
    candidate, wanted, said = ALL[case]
    verdict = lab.check_exercise(candidate.launcher(tmp_path), wanted)
    assert said in repr(verdict) and bool(verdict) is said.startswith("RIGHT"), verdict


def exchanged_in_place(x):
    x.copy_(x.roll(32, 1))


INSPECTED = {  # the kernel, its reference, its columns, and what the page says
    "a race between lanes": (
        exchanged_by(),
        exchanged_in_place,
        64,
        "WRONG at size 3: in program 0, lane 0 stores element 0 of x_ptr, which lane 32 has "
        "loaded, without a barrier between",
    ),
    "a lock": (  # one after the other they are right, and a race without it
        LOCKED_SUM,
        lambda x: x.sum()[None],
        300,
        "RIGHT at the sizes 3, 6, 9, one program after the other; whether a lock orders them on a "
        "GPU is not known\n",
    ),
}


@pytest.mark.parametrize("what", INSPECTED)
def test_inspect_finds_them_too(what, tmp_path):
    cell, reference, columns, told = INSPECTED[what]

    def make(size, device):
        return (torch.randn(size, columns, device=device),)

    options = {"small": 3, "large": 6000, "tolerance": (1e-3, 1e-3)}
    page = repr(lab.inspect(cell.launcher(tmp_path), reference, make, **options))
    assert page.startswith(told), page
