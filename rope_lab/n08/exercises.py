"""Notebook 08: what limits a call, times by the law."""

from collections.abc import Callable
from functools import partial

import torch

from rope_kernels import RotaryPositionEmbedding, rope_fw

from ..judge.exercise import Exercise, WrongAnswer, WrongValue
from ..profiling import machines
from ..records import Measurement, recorded
from .pretend_gpu import check_timer
from .rows_of_calls import CHANGES

_SAMPLE = """        gpu.flush()
        gpu.sleep(1000)  # the host queues the rest while the device is busy
        begin = gpu.mark()
"""

A_TIMER = Exercise(
    cell="08-ex2",
    judged_by=check_timer,
    wrong_answers=(
        WrongAnswer(
            mistake="one sample",
            instead={"range(21)": "range(1)"},
            told="every third call is disturbed",
        ),
        WrongAnswer(
            mistake="the smallest sample",
            instead={"statistics.median(times)": "min(times)"},
            told="every fifth call is quick, and the smallest sample is one of these",
        ),
        WrongAnswer(
            mistake="no sleep",
            instead={_SAMPLE: "        gpu.flush()\n        begin = gpu.mark()\n"},
            told="what does the device wait for between two marks?",
        ),
        WrongAnswer(
            mistake="no flush",
            instead={"        gpu.flush()\n": ""},
            told="where do the bytes come from, the second time?",
        ),
        WrongAnswer(
            mistake="no waiting",
            instead={"        gpu.synchronize()\n": ""},
            told="the device has not passed this mark yet: synchronize first",
        ),
        WrongAnswer(
            mistake="the host's clock, and no waiting",
            instead={
                "gpu.mark()": "gpu.clock()",
                "end.since(begin)": "end - begin",
                "        gpu.synchronize()\n": "",
            },
            told="who waits for the device?",
        ),
        WrongAnswer(
            mistake="a sleep between the marks",
            instead={
                "        gpu.sleep(1000)": "        begin = gpu.mark()\n        gpu.sleep(1000)",
                "        begin = gpu.mark()\n        call()": "        call()",
            },
            told="the sleep is between the two marks, so you time it as well",
        ),
        WrongAnswer(
            mistake="marks the other way",
            instead={"end.since(begin)": "begin.since(end)"},
            told="the marks have changed places",
        ),
        WrongAnswer(
            mistake="no return",
            instead={"return statistics.median(times)": "statistics.median(times)"},
            told="a number of microseconds is wanted, None came",
        ),
        WrongAnswer(
            mistake="a mean",
            instead={"statistics.median": "statistics.mean"},
            told="a mean: a slow call in three moves it, but not the median",
        ),
        WrongAnswer(
            mistake="a sum",
            instead={"statistics.median(times)": "sum(times)"},
            told="the time of 21 calls: divide",
        ),
        WrongAnswer(
            mistake="milliseconds",
            instead={"statistics.median(times)": "statistics.median(times) / 1000"},
            told="milliseconds, where microseconds are wanted",
        ),
        WrongAnswer(
            mistake="all samples",
            instead={"statistics.median(times)": "times"},
            told="a number of microseconds is wanted, a list of 21 came",
        ),
    ),
)


def three_times() -> dict[str, dict[int, float]]:
    """Mistakes, and what they lead to by the time law. Reads this notebook's record."""
    n, few, short = 2**26, 131072 * 2 * 128, 128 * 4 * 8 * 128
    law = machines.of_notebook_08()
    us = law.time_us
    return {
        "too few bytes: is t read and written, and its table read?": {1: us(4 * few)},
        "either t or the table is counted, not both": {1: us(4 * 131072 * 128)},
        "T0 is missing, and for few bytes it is nearly all": {2: 4 * short / law.bytes_a_us},
        "the table has a row for each position, not for each token": {
            1: us(4 * few + 2 * 4 * 131072 * 128)
        },
        "an element of bf16 has 2 bytes, not 4": {1: us(8 * few + 4 * 131072 * 128)},
        "the bytes alone, but here the instructions take longer": {3: us(4 * n)},
        "a fused multiply-add is one instruction, and is counted as two": {
            3: us(4 * n, 2 * 512 * n)
        },
    }


THREE_TIMES = Exercise(
    cell="08-ex5",
    judged_by=three_times,
    wrong_answers=(
        WrongValue(given=[34.7, 5.0, 1030], told="and its table read?"),
        WrongValue(given=[19.6, 5.0, 1030], told="not both"),
        WrongValue(
            given=[49.5, 5.0, 2060],
            told="a fused multiply-add is one instruction, and is counted as two",
        ),
        WrongValue(
            given=[64.5, 5.0, 1030],
            told="the table has a row for each position, not for each token",
        ),
        WrongValue(given=[79.6, 5.0, 1030], told="an element of bf16 has 2 bytes, not 4"),
    ),
)


def our_calls(calls: dict[str, tuple[tuple[int, ...], torch.dtype]]) -> dict[str, Callable]:
    """Name -> our kernel's call for a tensor (s, b, h, d) of that dtype, with a table of angles."""
    cases = {}
    for name, (shape, dtype) in calls.items():
        t = torch.randn(*shape, device="cuda", dtype=dtype)
        cases[name] = partial(rope_fw, t, RotaryPositionEmbedding(shape[3]).cuda()(shape[0]))
    return cases


def measured(unseen: Measurement) -> list[float]:
    """Microseconds: two calls of our kernel, then 512 multiply-adds an element on an H200."""
    more = recorded("08/more-and-more")
    with_512 = more["us"][more["instructions"].index(512)]
    return [*(timing.median_us for timing in unseen.cases.values()), with_512]


LIMITS = {
    "host": "a graph would leave a part of the time",
    "starts": "half the programs would take less time",
    "bytes": "twice the dtype would take twice the time",
    "instructions": "twice the arithmetic would take longer",
    "latency": "half the programs would take longer",
}
# what limits each; its solution says what they are
_CALLS = {"a": "instructions", "b": "latency", "c": "starts"}
_NOT_BYTES = (
    "twice the dtype takes nearly twice as long, but so do half the programs; if bytes were the "
    "limit, half the programs would change nothing"
)


def changes_of(names: str) -> str:
    """A table: what each change does to the time of these calls."""
    calls = recorded("08/unknown-calls")
    lines = [calls.source, f"{'':22}" + "".join(f"{f'({name})':>8}" for name in names)]
    lines.append(f"{'as it is, us':22}" + "".join(f"{calls[name]['us']:8.0f}" for name in names))
    for change in CHANGES:
        ratios = [calls[name][change] for name in names]
        lines.append(f"{change:22}" + "".join(f"{r:8.2f}" if r else f"{'-':>8}" for r in ratios))
    return "\n".join(lines)


def limits_of(names: str) -> dict:
    """What `check_choices` takes, for these calls."""
    mistakes = {
        sign: {place: limit for place, name in enumerate(names, 1) if limit != _CALLS[name]}
        for limit, sign in LIMITS.items()
    }
    if "b" in names:
        place = names.index("b") + 1
        mistakes[_NOT_BYTES] = {place: mistakes[LIMITS["bytes"]].pop(place)}
    right, hint = [_CALLS[name] for name in names], "section 5's table, from the top"
    return {"right": right, "choices": list(LIMITS), "hint": hint, "mistakes": mistakes}


NAME_THE_LIMIT = Exercise(
    cell="08-ex3",
    judged_by=limits_of,
    wrong_answers=(
        WrongValue(
            given=["bytes", "latency", "starts"], told="twice the dtype would take twice the time"
        ),
        WrongValue(
            given=["instructions", "starts", "starts"],
            told="half the programs would take less time",
        ),
    ),
)
