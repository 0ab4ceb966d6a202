"""Measurements of the kernels beside other ways to compute the same: `python -m benchmarks`."""
