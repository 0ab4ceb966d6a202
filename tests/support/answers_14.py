"""Notebook 14: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n14 import exercises

WRITE_ROWS_TO_THEIR_SLOTS = Exercise(
    cell="14-ex1",
    judged_by=exercises.write_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="every token of a block in one slot",
            instead={" + slot % block_size * place_stride": ""},
            told="programs 1 and 2 store element 0 of k_cache_ptr",
        ),
        WrongAnswer(
            mistake="tokens without a slot are written",
            instead={"k, mask=slot >= 0": "k"},
            told="program 3 writes element -256 of k_cache_ptr",
        ),
    ),
)
