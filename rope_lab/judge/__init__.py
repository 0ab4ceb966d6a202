"""The judge: is a reader's answer right, and if not, what is the mistake?

A function's way to its verdict:

- `check_exercise.py` sends it to a child process, tries it there on all cases of a specification,
  and makes one verdict of what comes out.
- `shipment.py` makes source of it, and `child.py` has the process, which `judge_process.py` gets
  ready for a candidate.
- `attempt.py` is one case: what is wrong with the results, or beside them. A specification
  (`spec.py`) is in `nNN/exercises.py` of the notebook.
- `diagnose/` says which mistake wrong elements look like, of those that `mistakes.py` has the form
  of, too.
- `verdict.py` is what the reader sees.

While the kernel runs, `hooks.py` calls `trace.py`. `errors.py` says what an error means, and
`refusals.py` what Triton's compiler says.

`answers.py` checks numbers and choices. `climb/` judges a kernel on a rung, `inspect/` looks at one
of the reader's own, and `picture/` draws what a launch loads and stores.
"""
