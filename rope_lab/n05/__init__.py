"""What only notebook 05 uses."""
