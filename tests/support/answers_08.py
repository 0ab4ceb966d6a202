"""Notebook 08: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer, WrongValue
from rope_lab.n08 import exercises
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
        WrongAnswer(
            mistake="no sleep",
            instead={_SLEEP: ""},
            told="what does the device wait for between the two events?",
        ),
        WrongAnswer(
            mistake="a mean",
            instead={"median(times)": "sum(times) / len(times)"},
            told="a mean: a slow call in three moves it, but not the median",
        ),
        WrongAnswer(
            mistake="one sample",
            instead={"range(21)": "range(1)"},
            told="every third call is disturbed",
        ),
        WrongAnswer(
            mistake="the smallest sample",
            instead={"median(times)": "min(times)"},
            told="every fifth call is fast, and the smallest sample is one of these",
        ),
        WrongAnswer(
            mistake="no flush",
            instead={"        flush.sum()\n": ""},
            told="where do the bytes come from, the second time?",
        ),
        WrongAnswer(
            mistake="a flush that writes",
            instead={"flush.sum()": "flush.zero_()"},
            told="what flush.zero_() writes goes to HBM while your call runs",
        ),
        WrongAnswer(
            mistake="no waiting",
            instead={"        cuda.synchronize()\n": ""},
            told="the device has not passed both events yet: synchronize first",
        ),
        WrongAnswer(
            mistake="a sleep of so many microseconds",
            instead={"2_000_000": "1000"},
            told="a sleep of 0.5 us, which is over before the call is queued",
        ),
        WrongAnswer(
            mistake="a sleep between the events",
            instead={_SLEEP: "", _SAMPLE: _SAMPLE.replace("\n", "\n" + _SLEEP, 1)},
            told="the sleep is between the two events, so you time it as well",
        ),
        WrongAnswer(
            mistake="events the other way",
            instead={"begin.elapsed_time(end)": "end.elapsed_time(begin)"},
            told="the events are swapped",
        ),
        WrongAnswer(
            mistake="no return",
            instead={"return median(times)": "median(times)"},
            told="it returned None: return one number",
        ),
        WrongAnswer(
            mistake="a sum",
            instead={"median(times)": "sum(times)"},
            told="the time of 21 calls: divide",
        ),
        WrongAnswer(
            mistake="milliseconds",
            instead={"1e3 * begin": "begin"},
            told="milliseconds, not microseconds",
        ),
        WrongAnswer(
            mistake="another clock",
            instead={
                "    times = []\n": "    import time\n\n    times = []\n",
                "begin.elapsed_time(end)": "time.perf_counter()",
            },
            told="another clock: a GPU's time is between its events",
        ),
    ),
)


TWO_TIMES = Exercise(
    cell="08-ex5",
    judged_by=exercises.two_times,
    wrong_answers=(
        WrongValue(given=[34.5, 5.0], told="and its table read?"),
        WrongValue(given=[19.6, 5.0], told="not both"),
    ),
)
