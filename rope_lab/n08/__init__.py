"""What only notebook 08 uses."""
