"""What Triton makes of a kernel, for a GPU that need not be here."""
