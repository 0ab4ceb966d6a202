"""Compile kernels for a GPU that need not be present, and read the result."""
