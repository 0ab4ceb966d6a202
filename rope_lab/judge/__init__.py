"""The judge: is a reader's answer right, and if not, what is the mistake?

A function's way to its verdict:

- `check_exercise.py` sends it to a child process, as source (`shipped.py`), and reads the answer.
- `judge_process.py` is that process. It tries all cases of a specification (`spec.py`), which
  `nNN/exercises.py` of the notebook has; each is an `attempt.py`.
- `trace.py` reads what the `recorder.py` hears while the kernel runs.
- `diagnose/` says which mistake a wrong result looks like, of those that `mistakes.py` has the
  form of, too; `errors.py` says what an error means.
- `verdict.py` is what comes back.

`answers.py` checks numbers and choices. `climb/` judges a kernel on a rung, `inspect/` looks at one
of the reader's own, and `picture/` draws what a launch loads and stores.
"""
