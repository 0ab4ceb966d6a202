"""What only notebook 00 uses."""
