"""What the judge knows of a rung, for any kernel: `lab.inspect`."""
