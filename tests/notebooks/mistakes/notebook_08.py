"""Mistakes in answers to notebook 08."""

from . import Wrong

_SAMPLE = """        gpu.flush()
        gpu.sleep(1000)  # the host queues the rest while the device is busy
        begin = gpu.mark()
"""

ANSWERS = [
    # a timer
    Wrong(
        *(1, "one sample"),
        {"range(21)": "range(1)"},
        "every third call is disturbed",
    ),
    Wrong(
        *(1, "the smallest sample"),
        {"statistics.median(times)": "min(times)"},
        "every fifth call is quick, and the smallest sample is one of these",
    ),
    Wrong(
        *(1, "no sleep"),
        {_SAMPLE: "        gpu.flush()\n        begin = gpu.mark()\n"},
        "what does the device wait for between two marks?",
    ),
    Wrong(
        *(1, "no flush"),
        {"        gpu.flush()\n": ""},
        "where do the bytes come from, the second time?",
    ),
    Wrong(
        *(1, "no waiting"),
        {"        gpu.synchronize()\n": ""},
        "the device has not passed this mark yet: synchronize first",
    ),
    Wrong(
        *(1, "the host's clock, and no waiting"),
        {
            "gpu.mark()": "gpu.clock()",
            "end.since(begin)": "end - begin",
            "        gpu.synchronize()\n": "",
        },
        "who waits for the device?",
    ),
    Wrong(
        *(1, "a sleep between the marks"),
        {
            "        gpu.sleep(1000)": "        begin = gpu.mark()\n        gpu.sleep(1000)",
            "        begin = gpu.mark()\n        call()": "        call()",
        },
        "the sleep is between the two marks, so you time it as well",
    ),
    Wrong(
        *(1, "marks the other way"),
        {"end.since(begin)": "begin.since(end)"},
        "the marks have changed places",
    ),
    Wrong(
        *(1, "no return"),
        {"return statistics.median(times)": "statistics.median(times)"},
        "a number of microseconds is wanted, None came",
    ),
    Wrong(
        *(1, "a mean"),
        {"statistics.median": "statistics.mean"},
        "a mean: a slow call in three moves it, but not the median",
    ),
    Wrong(
        *(1, "a sum"), {"statistics.median(times)": "sum(times)"}, "the time of 21 calls: divide"
    ),
    Wrong(
        *(1, "milliseconds"),
        {"statistics.median(times)": "statistics.median(times) / 1000"},
        "milliseconds, where microseconds are wanted",
    ),
    Wrong(
        *(1, "all samples"),
        {"statistics.median(times)": "times"},
        "a number of microseconds is wanted, a list of 21 came",
    ),
]
NUMBERS = {
    2: [
        (["bytes", "latency", "starts"], "twice the dtype would take twice the time"),
        (["instructions", "starts", "starts"], "half the programs would take less time"),
    ],
    3: [
        ([34.7, 5.0, 1030], "and its table read?"),
        ([19.6, 5.0, 1030], "not both"),
        ([49.5, 5.0, 2060], "a fused multiply-add is one instruction, and is counted as two"),
        ([64.5, 5.0, 1030], "the table has a row for each position, not for each token"),
        ([79.6, 5.0, 1030], "an element of bf16 has 2 bytes, not 4"),
    ],
}
