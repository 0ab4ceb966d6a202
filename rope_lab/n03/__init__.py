"""What only notebook 03 uses."""
