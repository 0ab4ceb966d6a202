"""What was asked: arguments, checks, and what they describe."""
