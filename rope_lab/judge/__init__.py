"""The judge: is a reader's answer right, and if not, what is the mistake?

How a function gets its verdict:

- `check_exercise.py` runs it on all cases of a specification, and combines the outcomes into one
  verdict.
- `guests.py` ends it in time, and puts back what it changes. `../run.py` lets its kernels run where
  their tensors are.
- `attempt.py` runs one case and finds what is wrong with the results, or with anything else. A
  notebook's specifications (`spec.py`) are in its `nNN/exercises.py`.
- `diagnose/` finds the mistake that explains wrong elements. Mistakes that only one exercise knows
  are written as in `mistakes.py`.
- `verdict.py` is what the reader sees.

While the kernel runs, `hooks.py` calls `trace.py`. `errors.py` explains errors, and `refusals.py`
explains what Triton's compiler refuses. `on_a_gpu.py` has what a GPU does in another way than the
interpreter. `rehearsal.py` calls a right function once more, with large tensors that claim to be on
a GPU.

`answers.py` checks numbers and choices. `climb/` judges a kernel on a rung, `inspect/` analyzes a
kernel of the reader's own, and `picture/` draws what a launch loads and stores.
"""
