"""What only notebook 12 uses."""
