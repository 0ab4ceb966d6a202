"""Calls of the public API as values: drawn at random, made, and performed.

The comparisons of results and of machine code share them. Nothing here imports torch or
`rope_kernels` before a call is made: a checkout brings its own.
"""
