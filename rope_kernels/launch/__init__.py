"""From tensors to one launch: plans, tiles, and the fast path."""
