"""The ladder: our kernels' counts, and what no notebook's stored table shows."""

from types import SimpleNamespace

import pytest

import rope_lab as lab
from pairwise import slow_but
from rope_lab.judge.climb.check_rung import verdict_on_values
from rope_lab.judge.climb.instruments import headline, readings_of
from rope_lab.judge.climb.targets import IN_THE_SOURCE, IN_THE_THREADS, advice
from rope_lab.judge.rehearsal import rehearsed
from rope_lab.rungs import RUNGS, kept, measured
from rope_lab.rungs.measured import COPY, EAGER, KEY, make_cases

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("kept_here")


# What the first program does: loads, evaluations of sin and cos, stores.
ORDER = (
    {1: "LLLEES"} | dict.fromkeys((2, 3, 4, 5), "LLEEEELLSS") | dict.fromkeys((6, 7), "LLLLEEEESS")
)


@pytest.mark.parametrize("rung", slow_but(RUNGS, 1, 3, 7))
def test_its_counts_are_those_of_our_kernel(rung):
    verdict, counted = verdict_on_values(rung, RUNGS[rung].module.my_rope)
    assert verdict
    ours = RUNGS[rung]
    (launch,) = rehearsed(ours.module.my_rope, headline, "meta").launches
    found = readings_of(counted, launch)
    assert found["bytes requested"] == ours.requested
    assert found[IN_THE_SOURCE] == ours.evaluations
    assert found[IN_THE_THREADS] == ours.evaluations_of_threads
    assert "".join(event.kind for event in counted.events) == ORDER[rung]


def test_a_climbed_rung_is_marked_unless_outputs_are_compared(monkeypatch):
    kept.keep(1, RUNGS[1].module.my_rope)
    assert "✓" not in repr(lab.ladder(1))
    monkeypatch.delenv("ROPE_LAB_QUIET")
    assert repr(lab.ladder(1)).splitlines()[2].startswith("1 ✓")


def test_one_time_is_one_share_of_a_copy():
    """Rounded to a microsecond, two rungs may take as long as a copy and have 99 and 100 %."""
    table = lab.ladder()
    time, share = (table.head.index(name) for name in ("time", "of a copy"))
    shares: dict[str, set[str]] = {}
    for row in table.rows:
        shares.setdefault(row[time], set()).add(row[share])
    assert all(len(found) == 1 for found in shares.values()), shares


def test_the_whole_ladder_keeps_what_exercises_ask_for():
    """Notebook 04 shows it, and 05, 07 and 09 ask for the edits of rungs 3, 5 and 6."""
    whole = repr(lab.ladder())
    told = {rung for rung in RUNGS if RUNGS[rung].change in whole}
    assert told == {1, 2, 4, 7}
    assert RUNGS[6].change in repr(lab.ladder(6))


def test_every_case_rotates_alike(monkeypatch):
    monkeypatch.setattr("rope_lab.rungs.measured.SHAPE", (3, 2, 4, 32))
    cases = make_cases(lab.device)
    assert list(cases) == [COPY, EAGER, *(f"rung {rung}" for rung in RUNGS)]
    expected = cases[EAGER]()
    for name, case in cases.items():
        if name != COPY:  # eager rounds three times
            assert lab.compare(case(), expected, (0.02, 0.02)), name


@pytest.mark.parametrize(
    ("angles", "lines", "words"),
    (
        (2, 2, "each row loads its own angles"),
        (1, 2, "too few rows"),
        (1, 4, "a program loads freqs_ptr 4 times, where each half once would do"),
    ),
)
def test_bytes_too_many_are_explained_by_what_is_loaded_too_often(angles, lines, words):
    """Angles of each row are twice the bytes of t in bf16; those of a few rows are fewer."""
    loaded = {"t": 128, "freqs": 128 * angles}
    events = lines * [SimpleNamespace(kind="L", of="freqs_ptr")]
    counted = SimpleNamespace(elements=64, element_bytes=2, loaded=loaded, events=events)
    assert words in advice("bytes requested", {}, counted, launch=None)


class Times(dict):
    """A record of medians."""

    gpu, date = "NVIDIA H200", "2026-11-27"


def test_the_speed_of_ours_is_a_share_of_the_copys(monkeypatch):
    medians = {"rung 3": 160.6, COPY: 64.9}
    times = Times({name: SimpleNamespace(median_us=us) for name, us in medians.items()})
    monkeypatch.setattr(measured, "recorded", {KEY: times}.__getitem__)
    said = "our kernel for rung 3 takes 161 us, 40% of a copy (NVIDIA H200, 2026-11-27)"
    assert measured.speed_of_ours(3) == said
