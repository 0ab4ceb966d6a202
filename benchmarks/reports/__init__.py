"""What is made of results: pages, README's tables, pictures, verdicts. A module for each kind."""
