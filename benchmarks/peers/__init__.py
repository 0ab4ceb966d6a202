"""The RoPE kernels of other projects, timed without their packages.

`sources.py` names each project's repository and commit and unpacks the few files that hold its
RoPE. One module a project compiles or imports these files and calls them by a launcher of ours.
`python -m benchmarks.peers` checks each against fp64, times those that are right, and writes a
record; `python -m benchmarks.peers.report` makes a table of it.
"""
