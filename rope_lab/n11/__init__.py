"""What only notebook 11 uses."""
