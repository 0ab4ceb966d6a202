"""What only notebook 10 uses."""
