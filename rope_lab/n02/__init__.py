"""What only notebook 02 uses."""
