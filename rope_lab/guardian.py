"""Kill a process, and all that it started, when the process that started this one is gone.

`child.py` starts one guardian for each child. A notebook that is killed can't kill its child, and a
child in an endless loop doesn't notice; if the loop is in C, it can't even run another thread.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

# Options to start a process that an interrupt of the notebook doesn't reach
APART: dict[str, int]
if sys.platform == "win32":
    APART = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
else:
    APART = {"start_new_session": True}


def end_with_all_it_started(pid: int) -> None:
    """Kill a process that was started with `APART`, if it exists, and those that it started."""
    if sys.platform == "win32":  # Windows has no groups, but knows each process's parent
        command = ["taskkill", "/T", "/F", "/PID", str(pid)]
        subprocess.run(command, capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # there is nothing to kill
            os.killpg(pid, signal.SIGKILL)


def wait_for_the_end_of(parent: int) -> None:
    """Wait until the process that started this one is gone."""
    if sys.platform == "win32":  # the parent's id doesn't change, and there are no forks
        sys.stdin.buffer.read()  # only the parent could write
    else:  # forks of the parent could write
        while os.getppid() == parent:
            time.sleep(0.5)


if __name__ == "__main__":
    wait_for_the_end_of(int(sys.argv[1]))
    end_with_all_it_started(int(sys.argv[2]))
    shutil.rmtree(sys.argv[3], ignore_errors=True)
