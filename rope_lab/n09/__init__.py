"""What only notebook 09 uses."""
