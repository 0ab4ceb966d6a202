"""Modules that are named, one after the other: each in a process with its imports done.

Run by torchrun; rank 0 prints '== name' before what a module prints.
"""

import ast
import os
import runpy
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from torch.distributed import TCPStore


def new_port(store, name):
    """Where the ranks of a module meet; the launcher's port is that of one meeting."""
    if os.environ["RANK"] == "0":
        with socket.create_server((os.environ["MASTER_ADDR"], 0)) as server:
            store.set(name, str(server.getsockname()[1]))
    return store.get(name).decode()


for name in sys.argv[1:]:
    for statement in ast.parse(Path(find_spec(name).origin).read_text()).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            exec(ast.unparse(statement))

launchers = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
for name in sys.argv[1:]:
    if os.environ["RANK"] == "0":
        print(f"== {name}", flush=True)
    os.environ["MASTER_PORT"] = new_port(launchers, name)
    child = os.fork()
    if not child:
        runpy.run_module(name, run_name="__main__")
        break
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{name} failed")
