"""End a process, and all that it started, once the process that started this one is gone.

`child.py` runs this beside each child. A notebook that is killed can't end its child, and a child
in an endless loop doesn't notice; one whose loop is in C can't even run another thread.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

# How a process is started that an interrupt of the notebook doesn't reach
APART: dict[str, int]
if sys.platform == "win32":
    APART = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
else:
    APART = {"start_new_session": True}


def end_with_all_it_started(pid: int) -> None:
    """End a process that was started `APART`, if it is there, and those that it started."""
    if sys.platform == "win32":  # which has no groups, but remembers who started whom
        command = ["taskkill", "/T", "/F", "/PID", str(pid)]
        subprocess.run(command, capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # there is nothing to end
            os.killpg(pid, signal.SIGKILL)


def wait_for_the_end_of(parent: int) -> None:
    """Wait until the process that started this one is gone."""
    if sys.platform == "win32":  # where a parent's number stays, and there are no forks
        sys.stdin.buffer.read()  # the parent alone could write
    else:  # forks of the parent could write
        while os.getppid() == parent:
            time.sleep(0.5)


if __name__ == "__main__":
    wait_for_the_end_of(int(sys.argv[1]))
    end_with_all_it_started(int(sys.argv[2]))
    shutil.rmtree(sys.argv[3], ignore_errors=True)
