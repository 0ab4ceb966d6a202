"""What the judge shows of a rung, for any kernel: `lab.inspect`."""
