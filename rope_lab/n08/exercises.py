"""Notebook 08: a timer, and times from the time law."""

from ..profiling import machines


def two_times() -> dict[str, dict[int, float]]:
    """Mistakes, and the times that the time law then gives. Reads this notebook's record."""
    few, short = 131072 * 2 * 128, 128 * 4 * 8 * 128
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
        "milliseconds, not microseconds": {
            1: us(4 * few + 4 * 131072 * 128) / 1e3,
            2: us(4 * short + 4 * 128 * 128) / 1e3,
        },
    }
