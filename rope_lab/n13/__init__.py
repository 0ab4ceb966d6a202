"""What only notebook 13 uses."""
