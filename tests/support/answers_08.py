"""Notebook 08: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n08.pretend_gpu import check_timer

_SLEEP = "        cuda._sleep(2_000_000)  # 1 ms\n"
_SAMPLE = """        begin.record()
        call()
        end.record()
"""

A_TIMER = Exercise(
    cell="08-ex2",
    judged_by=check_timer,
    wrong_answers=(
        WrongAnswer("what does the device wait for between the two events?", {_SLEEP: ""}),
        WrongAnswer(
            "a mean: a slow call in three moves it, but not the median",
            {"median(times)": "sum(times) / len(times)"},
        ),
        WrongAnswer("every third call is slow", {"range(21)": "range(1)"}),
        WrongAnswer(
            "every fifth call is fast, and the smallest sample is one of these",
            {"median(times)": "min(times)"},
        ),
        WrongAnswer(
            "where do the bytes come from, the second time?", {"        flush.sum()\n": ""}
        ),
        WrongAnswer(
            "what flush.zero_() writes goes to HBM while your call runs",
            {"flush.sum()": "flush.zero_()"},
        ),
        WrongAnswer(
            "the device has not passed both events yet: synchronize first",
            {"        cuda.synchronize()\n": ""},
        ),
        WrongAnswer(
            "a sleep of 0.5 us, which is over before the call is queued", {"2_000_000": "1000"}
        ),
        WrongAnswer(
            "the sleep is between the two events, so you time it as well",
            {_SLEEP: "", _SAMPLE: _SAMPLE.replace("\n", "\n" + _SLEEP, 1)},
        ),
        WrongAnswer(
            "the host waits between the two events: synchronize after end.record()",
            {"        end.record()\n": "        cuda.synchronize()\n        end.record()\n"},
        ),
        WrongAnswer(
            "the events are swapped", {"begin.elapsed_time(end)": "end.elapsed_time(begin)"}
        ),
        WrongAnswer(
            "it returned None: return one number", {"return median(times)": "median(times)"}
        ),
        WrongAnswer("the time of 21 calls: divide", {"median(times)": "sum(times)"}),
        WrongAnswer("milliseconds, not microseconds", {"1e3 * begin": "begin"}),
        WrongAnswer(
            "another clock: a GPU's time is between its events",
            {
                "    times = []\n": "    import time\n\n    times = []\n",
                "begin.elapsed_time(end)": "time.perf_counter()",
            },
        ),
    ),
)


TWO_TIMES = Exercise(cell="08-ex5")
