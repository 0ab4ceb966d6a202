"""Notebook 14: its exercises, and wrong answers to them."""

from exercise import Exercise, WrongAnswer
from rope_lab.n14 import exercises

WRITE_ROWS_TO_THEIR_SLOTS = Exercise(
    cell="14-ex1",
    judged_by=exercises.write_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            "programs 1 and 2 store element 0 of k_cache_ptr",
            {" + slot % block_size * place_stride": ""},
        ),
        WrongAnswer(
            "against the exercise: too many launches: 2, where 1 would do",
            {
                "lab.inspect(write,": (
                    "def write_twice(*tensors):\n    write(*tensors)\n    write(*tensors)\n\n\n"
                    "lab.inspect(write_twice,"
                )
            },
        ),
        WrongAnswer(
            "against the exercise: PyTorch runs",
            {
                "    tl.store(v_cache_ptr + offset, v, mask=slot >= 0)\n": "",
                "        num_warps=1,\n    )\n": (
                    "        num_warps=1,\n    )\n"
                    "    v_cache[slots[:-2] // block_size, slots[:-2] % block_size] = v[:-2]\n"
                ),
            },
        ),
        WrongAnswer("program 3 writes element -256 of k_cache_ptr", {"k, mask=slot >= 0": "k"}),
    ),
)
