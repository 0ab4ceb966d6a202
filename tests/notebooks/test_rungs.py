"""The climb: what happens at the headline shape alone."""

import re

import pytest
import torch

import rope_lab as lab
from notebook_form import ROOT
from pairwise import slow_but
from readers_rung import rung_with
from rope_lab.edits import times as times_of_edits
from rope_lab.figures import style as draw
from rope_lab.records import recorded
from rope_lab.rungs import RUNGS
from rope_lab.rungs.measured import COPY, KEY

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("kept_here")

OUT = "    out = torch.empty_like(t)"
OR_GIVEN = f"{OUT} if out is None else out\n"
AT_256 = "if t.shape[-1] == 256:\n        "
AT_2048 = "if t.shape[0] == 2048:\n        "
UNREAD = "the values are right, but what it does on an H200 can't be read: raises"
PART = "a part of the work is done outside the kernel: PyTorch runs"


def before(line):
    """A line before the launch of rung 1."""
    return {OUT: f"    dtype = t.dtype\n    {line}\n{OUT[:-1]}, dtype=dtype)"}


def cloned(when):
    """Another input where this is true."""
    begin = f"    is_in_place = out is t\n{OR_GIVEN}"
    return {OR_GIVEN: f"{begin}    if {when}:\n        t = t.clone()\n"}


OTHER_KERNEL = (
    "    if out is t and t.shape[0] == 2048:\n        from rope_lab.rungs import RUNGS\n\n"
    f"        return RUNGS[3].module.my_rope(t, freqs, out)\n{OR_GIVEN}"
)
SINE_OF_A_ROW = {
    ", mask=pair < HALF)[None, :]": ", mask=pair < HALF)",
    "= tl.cos(angle1), tl.sin(angle1)": "= tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]",
    "= tl.cos(angle2), tl.sin(angle2)": "= tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]",
}
ONE_WARP = {"num_warps = 8, 4": "num_warps = 8, 1"}
PAIR = "pair = tl.arange(0, BLOCK_HALF)"
TOLD = {  # the rung, or it and whose source; what is changed; and words of the verdict
    # at the headline shape alone
    "fp32": (1, before("t = t.float()"), f"{PART} to or float; let the kernel"),
    "a clone": (
        1,
        before(f"{AT_2048}t = t.clone()"),
        "8, 256) PyTorch runs clone or contiguous, where",
    ),
    "an error": (1, before(f"{AT_2048}raise ValueError('no')"), f"{UNREAD} ValueError: no"),
    "an exit": (1, before(f"{AT_2048}raise SystemExit"), f"{UNREAD} SystemExit"),
    "an item": (
        1,
        before(f"{AT_2048}t.sum().item()"),
        "it reads elements on the host, which makes a GPU wait",
    ),
    "the angles": (1, before(f"{AT_256}freqs = -freqs"), "and should be by -sin(freqs"),
    "the table": (
        1,
        before(f"{AT_256}freqs = freqs[1:]"),
        "WRONG in the case 'heads of 256, in bfloat16'; ",
    ),
    # every use of a kernel counts
    "a clone in place": (2, cloned("is_in_place"), f"{PART} clone or contiguous"),
    "a clone backward in place": (
        4,
        cloned("is_in_place and transpose"),
        f"{PART} clone or contiguous",
    ),
    "another kernel in place": (
        2,
        {OR_GIVEN: OTHER_KERNEL},
        "in place it launches another kernel, where this",
    ),
    "a clone in place, of some sizes": (
        2,
        cloned("is_in_place and d == 24"),
        "WRONG in the case 'in place, sizes that no block divides'",
    ),
    "a clone backward, of some sizes": (
        4,
        cloned("transpose and d == 24"),
        "WRONG in the case 'backward, sizes that no block divides'",
    ),
    # it is right or refuses, and does not refuse too much
    "strides silently wrong": (
        1,
        {"or not t.is_contiguous() ": ""},
        "WRONG in the case 'batch and positions swapped in memory'",
        "because: the launcher may refuse this input: raise a ValueError",
    ),
    "no table of too few positions": (
        1,
        {"or freqs.shape[0] < s ": ""},
        "WRONG in the case 'a table that is too short'",
        "because: the launcher has to refuse it: raise a ValueError",
    ),
    "another error": (
        1,
        {"raise ValueError(": "raise TypeError("},
        "WRONG in the case 'part of the head rotated'",
        "it raises TypeError",
    ),
    "no words": (
        1,
        {
            'raise ValueError("my_rope takes a contiguous t (s, b, h, d), freqs '
            '(at least s, 1, 1, d)")': "raise ValueError"
        },
        "WRONG in the case 'part of the head rotated'",
        "its ValueError has no words: let it say what is accepted",
    ),
    "a longer table": (
        1,
        {"freqs.shape[0] < s": "freqs.shape[0] != s"},
        "WRONG in the case 'a table longer than the sequence'",
        "because: the launcher refuses an input that it has to take",
    ),
    "strides where they are wanted": (
        7,
        {"or d2 % 2:": "or d2 % 2 or not t.is_contiguous():"},
        "WRONG in the case 'batch and positions swapped in memory'",
        "because: the launcher refuses an input that it has to take",
    ),
    "no out with strides": (
        7,
        {"if not out.is_contiguous():": "if False:"},
        "WRONG in the case 'in place, batch and positions swapped in memory'",
        "because: the launcher may refuse this input: raise a ValueError",
    ),
    "32 bits": (
        7,
        {".to(tl.int64)": ""},
        "WRONG: position 2 is 2^31 elements after position 0, and comes out wrong",
        "looks like: an offset of 32 bits, which wraps around: .to(tl.int64)",
    ),
    "32 bits of a row": (
        7,
        {"tl.arange(0, BLOCK_R)).to(tl.int64)": "tl.arange(0, BLOCK_R))"},
        "WRONG: sequence 2 is 2^31 elements after sequence 0, and comes out wrong",
    ),
    "32 bits of a second member": (
        7,
        {"((pair + HALF) * stride_d)[None, :]": "HALF * stride_d + (pair * stride_d)[None, :]"},
        "WRONG: column 2 is 2^31 elements after column 0, and comes out wrong",
    ),
    "32 bits of the tail": (
        7,
        {"tl.arange(0, BLOCK_TAIL).to(tl.int64)": "tl.arange(0, BLOCK_TAIL)"},
        "WRONG: column 2 is 2^31 elements after column 0, and comes out wrong",
    ),
    # kernels of other rungs
    "loads first, before the sine of a row": (  # as a reader may write it
        (5, 6),
        {of_a_row: text for text, of_a_row in SINE_OF_A_ROW.items()},
        "NOT YET: the values are right; rung 5 requires sin/cos in the thr",
        "ahead: loads after a sine at most 0, as rung 6 requires",
    ),
    "no out": ((2, 1), {}, "NOT YET", "my_rope takes no `out`"),
    "no transpose": ((4, 3), {}, "NOT YET", "my_rope takes no `transpose`"),
    # A reader runs what was pasted, to see that it works, before looking for the edit.
    **{
        f"rung {rung} as rung {rung - 1} was": (
            (rung, rung - 1),
            {},
            "NOT YET",
            f"looks like: rung {rung - 1} as it was",
        )
        for rung in (3, 5, 6)
    },
    "nearly the rung below": ((3, 2), {PAIR: f"{PAIR} + 0"}, "NOT YET", "looks like: "),
}
BY_DAY = (
    *("fp32", "an error", "an item", "the table"),
    *("a clone backward in place", "another kernel in place", "a clone in place, of some sizes"),
    *("strides silently wrong", "a longer table", "loads first, before the sine of a row"),
    *("no out", "no transpose", "rung 6 as rung 5 was", "nearly the rung below"),
)


@pytest.mark.parametrize("what", slow_but(TOLD, *BY_DAY))
def test_what_a_verdict_on_a_rung_says(what, tmp_path):
    asked, changes, *told = TOLD[what]
    rung, of = asked if isinstance(asked, tuple) else (asked, asked)
    verdict = lab.check_rung(rung, rung_with(of, changes, tmp_path))
    assert all(words in repr(verdict) for words in told), verdict
    assert verdict or "our kernel for rung" not in repr(verdict)
    assert ("as it was" in repr(verdict)) == what.endswith(" was"), verdict


AHEAD = {  # what is changed in our rung 2, the rungs that its verdict names, and those timed
    "nothing": ({}, [], [2]),
    "one warp": (ONE_WARP, [3], [2, 3]),
    "the sine of a row": (SINE_OF_A_ROW, [3, 5], [2, 3]),
    "both": (ONE_WARP | SINE_OF_A_ROW, [3, 5], [2, 5]),
}


@pytest.mark.parametrize("change", slow_but(AHEAD, "both"))
def test_a_kernel_ahead_of_its_rung_is_told_so_and_our_time_is_not_the_readers(change, tmp_path):
    instead, ahead, timed = AHEAD[change]
    told = repr(lab.check_rung(2, rung_with(2, instead, tmp_path)))
    assert told.startswith("RIGHT: rung 2, ")
    assert [*map(int, re.findall(r"as rung (\d) requires", told))] == ahead
    assert [*map(int, re.findall(r"our kernel for rung (\d) takes \d+ us", told))] == timed
    assert torch.cuda.is_available() or "speed: yours is not timed here\n" in told


def test_what_may_be_refused_may_be_right(tmp_path):
    """Rung 7 takes strides and a tail, which rung 4 may refuse."""
    verdict = lab.check_rung(4, rung_with(7, {}, tmp_path))
    assert verdict and "part of the head rotated" in verdict.cases.right, verdict


@pytest.mark.parametrize("rung", slow_but(RUNGS, 2))
def test_our_kernel_of_a_rung_is_not_ahead_of_it(rung, tmp_path):
    verdict = lab.check_rung(rung, rung_with(rung, {}, tmp_path))
    assert verdict and "ahead" not in repr(verdict), verdict


@pytest.mark.parametrize("rung", slow_but((2, 4, 5), 5))
def test_our_kernel_of_the_next_rung_is_told_that_it_is_ahead(rung, tmp_path):
    told = repr(lab.check_rung(rung, rung_with(rung + 1, {}, tmp_path)))
    assert told.startswith(f"RIGHT: rung {rung}, ")
    assert [*map(int, re.findall(r"as rung (\d) requires", told))] == [rung + 1]
    assert f"our kernel for rung {rung + 1} takes" in told


@pytest.mark.parametrize(
    "name, rung, right",
    (
        ("speed", 2, "block_r, num_warps = 8, 4"),
        ("verdict", 7, "t_ptrs + (pair * stride_d)[None, :]"),
    ),
)
def test_a_picture_of_readme_shows_a_verdict(name, rung, right, tmp_path):
    """Word by word, but in narrower lines; the first is in the place of a right one."""
    picture = (ROOT / f"docs/images/{name}.svg").read_text(encoding="utf-8")
    instead, *drawn = re.findall(r'class="code"[^>]*>(.+?)</text>', picture)
    verdict = lab.check_rung(rung, rung_with(rung, {right: instead}, tmp_path))
    assert " ".join(drawn).split() == repr(verdict).split()


def test_readme_tells_the_times_of_the_record():
    """Those of its chart, for who doesn't see it, and those of its sentences."""
    times = recorded(KEY)
    _, said = draw.drawn(times_of_edits, edits=3)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    bars = re.search(r"the kernel \d+ µs.*", said)[0]
    assert f"on an NVIDIA H200: {bars}](docs/images/three_edits.svg)" in readme
    share = times[COPY].median_us / times[f"rung {max(RUNGS)}"].median_us
    assert f"({share:.0%}"[:-1] + " % of its speed)" in readme
    assert f"measured on an NVIDIA H200, {times.date}" in readme
