"""What only notebook 07 uses."""
