"""What only notebook 04 uses."""
