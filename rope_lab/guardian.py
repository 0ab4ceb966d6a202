"""End a process group and remove its folder once the process that started both is gone.

`child.py` runs this beside each child. A notebook that is killed can't end its child, and a child
in an endless loop doesn't notice; one whose loop is in C can't even run another thread.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

if __name__ == "__main__":
    parent, group, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    while os.getppid() == parent:
        time.sleep(0.5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
