"""What the page *Three edits* uses: a check of each edit, and a picture that grows with them.

Its edits are those of rungs 3, 5 and 6 of the climb. They are judged by the same instruments, in
fewer words, for a reader who has not seen the series; no kernel is kept for its notebooks.
"""

from .check import check
from .picture import times

__all__ = ["check", "times"]
