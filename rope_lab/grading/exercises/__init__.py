"""The specifications that exercises are judged by: plain PyTorch, and no more than a definition.

To add an exercise to notebook 05:

1. Write its specification in `exercises_05.py` and import it below. `spec.py` explains the letters
   of its shapes and the options of `@spec`. What several notebooks need is in `definitions.py`.
2. Write the task and a stub in the notebook. The stub ends in
   `lab.check_exercise(mine, lab.exercises.NAME)`. The solution is in `notebooks/solutions/`.
3. Write five wrong answers, and what each must be told, in `tests/notebooks/wrong_answers.py`, or
   in `wrong_answers_first.py` there for notebooks 00 to 03.

If a verdict does not name the mistake: one that only this exercise knows goes into the `mistakes`
of its specification, one that any kernel may make into a file of `diagnose/`. What is asked beyond
a right result, such as no loop, is a rule in `counts.py`. A number or a choice needs no
specification: its wrong answers are in `mistakes.py`, and a right one that takes computing is in
`answers_09.py`.

Three tests in `tests/notebooks/` prove it; try `-k 05` first. `test_exercises.py` holds tasks,
stubs and solutions together, `test_wrong_answers.py` counts the wrong answers, and
`test_answers_in_notebooks.py` has them judged in their notebook.
"""
# ruff: noqa: F401 (all names of the room, for `lab.exercises.NAME`)

from .definitions import (
    rope,
    rope_gradient,
    rope_of_neighbors,
    rope_of_q_and_k,
    rotate_half,
    rotate_half_of_neighbors,
)
from .exercises_00 import scaled_copy
from .exercises_01 import (
    frequencies,
    rotation_matrices,
    slow_pairs,
    table_of_scores,
    turned_pairs,
)
from .exercises_02 import (
    halves_to_neighbors,
    rope_in_pytorch,
    rope_of_neighbors_in_pytorch,
    rotate_half_of_neighbors_in_pytorch,
)
from .exercises_03 import (
    contiguous_halves_to_neighbors,
    rotate_half_in_place,
    rotate_half_of_rows,
)
from .exercises_04 import rope_at_positions
from .exercises_05 import (
    rope_by_first_half,
    rope_of_neighbors_in_place,
    rope_of_q_and_k_at_once,
)
from .exercises_06 import (
    rope_gradient_of_whole_heads,
    rope_in_three_sections,
    rope_in_three_sections_gradient,
    rope_of_whole_rows_tuned,
)
from .exercises_07 import rope_of_neighbors_of_whole_heads
from .exercises_09 import rope_scaled
from .exercises_10 import rope_of_q_and_k_apart, rope_of_whole_heads
from .exercises_11 import rope_of_normalized_gradient, rope_of_normalized_rows
from .exercises_12 import rope_gradient_of_heads_first, rope_of_heads_first
from .exercises_12_context import frequencies_of_llama3
from .exercises_13 import positions_of_a_rank, rope_gradient_of_a_shard, rope_of_a_shard
from .exercises_rungs import (
    rope_of_any_strides,
    rope_of_whole_rows,
    rope_of_whole_rows_gradient,
    rope_of_whole_rows_in_place,
)
