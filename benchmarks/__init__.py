"""Measure the kernels and their alternatives: `python -m benchmarks`."""
