"""Exercises and predictions: is it right, and if not, what does the mistake look like?

`exercises/` has what a reader's function is judged by and says how to add an exercise, `judge.py`
judges it in a process of its own, and `diagnose/` names the mistake of a wrong result.
"""
