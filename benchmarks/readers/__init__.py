"""What carries over: three specifications of notebook 14, written by a reader of 00 to 10.

    python -m benchmarks.readers --out benchmarks/results/nvidia-h200-readers.json

The reader was a language model, on 2026-11-25. It had the notebooks and `docs/inspect.md`, no
solution, no ladder and no kernel of the package, and no GPU. Its kernels and its microseconds were
committed before they first ran on one.
"""
