"""What PyTorch differentiates or traces."""
