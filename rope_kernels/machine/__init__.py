"""What is underneath: engines, and what PyTorch does with a call."""
