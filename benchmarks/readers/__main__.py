"""Time a reader's kernels beside copies of as many bytes: `python -m benchmarks.readers`."""

import sys

from benchmarks.readers.timed import main

sys.exit(main(sys.argv[1:]))
