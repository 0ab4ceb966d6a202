"""What only notebook 01 uses."""
