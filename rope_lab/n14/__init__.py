"""What only notebook 14 uses."""
