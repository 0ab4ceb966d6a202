"""Exercises and predictions: is it right, and if not, what does the mistake look like?

`judge.py` judges a reader's function by a specification, which `nNN/exercises.py` of its notebook
has, in a process of its own, and `diagnose/` names the mistake of a wrong result.
`mistakes.py` is the form of a mistake that a specification knows, and of what it is told.
"""
