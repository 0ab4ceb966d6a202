"""Triton kernels and their parts. Nothing here imports torch or launches anything."""
