"""What only notebook 06 uses."""
