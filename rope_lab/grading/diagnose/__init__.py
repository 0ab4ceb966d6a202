"""What kind of mistake does a wrong result look like? A file for each kind.

Each guess is tested on the numbers: a wrong result with every sign turned is right, or it is what
the specification makes of inputs that were read in the wrong order. A guess that the numbers do not
bear out is not made. `table.py` has the order in which they are tried, and how to add one;
`evidence.py` what they are tested on.
"""
