"""Random calls of the public API: drawn as plain data, made from it, spoilt, and performed.

`compare_results.py` performs each with two checkouts. Nothing here imports torch or `rope_kernels`
before a call is made.
"""
