"""Open the notebooks in JupyterLab, on Linux, macOS and Windows, without make.

Creates the environment .venv from constraints.txt, and copies the notebooks to my_notebooks/.
If both are up to date, it changes nothing.

It uses only the standard library and syntax that Python 3.6 has, so that an old Python can report
that it is too old.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
LOG = VENV / "install.log"
# Written last, so that an unfinished environment never counts as done. The first line is the
# checkout's path, because an environment does not work after it is moved.
STAMP = VENV / "made-from"
BEAT = 15  # seconds between two lines about the progress of an installation
BEGIN = time.monotonic()
# JupyterLab reads its default settings and extensions from here.
JUPYTERLAB = ROOT / "tools" / "jupyterlab"

PIP = [str(PYTHON), "-m", "pip", "install", "-c", "constraints.txt"]
UV = [str(PYTHON), "-m", "uv", "pip", "install", "--python", str(PYTHON), "-c", "constraints.txt"]
# These make a package of Triton's interpreter, for systems that Triton has no packages for.
INTERPRETER = ("tools/interpreter_wheel.py", "tools/libtriton.py")
# With this option, uv downloads torch from PyTorch's package index. All else is installed later.
TORCH_FOR_CPU = [*UV, "--torch-backend=cpu", "--no-deps", "torch"]


def say(sentence: str) -> None:
    print(sentence, flush=True)


def stop(sentence: str) -> None:
    sys.exit("error: " + sentence)


def stop_with_log(sentence: str) -> None:
    for line in LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]:
        print(line, file=sys.stderr)
    stop(sentence)


def in_the_way() -> str:
    """Why this Python cannot create the environment, and what to do; empty if it can."""
    version = ".".join(map(str, sys.version_info[:2]))
    if not (3, 11) <= sys.version_info[:2] < (3, 15):
        return (
            f"this is Python {version}, but the pinned packages support 3.11 to 3.14. Install one "
            "of these and use it: 'python3.13 lab.py' or 'make lab PYTHON=python3.13'."
        )
    if sys.maxsize < 2**32:
        return "this is a 32-bit Python, for which torch has no builds. Install a 64-bit Python."
    if sysconfig.get_platform() == "win-arm64":
        return "torch has no builds for Windows on ARM. Use WSL."
    if sys.platform == "darwin":
        if platform.machine() != "arm64":
            return (
                "this Python is made for Intel processors, for which torch has no builds on macOS. "
                "Install a Python for Apple silicon, or use Docker (docs/install.md)."
            )
        if int(platform.mac_ver()[0].split(".")[0]) < 14:
            return (
                f"this is macOS {platform.mac_ver()[0]}, but torch requires macOS 14 or later. "
                "Update macOS, or use Docker (docs/install.md)."
            )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return (
            "this Python cannot create virtual environments. "
            f"On Debian or Ubuntu, run 'sudo apt-get install python{version}-venv'."
        )
    return ""


def there_is_a_gpu() -> bool:
    return bool(shutil.which("nvidia-smi")) or os.path.exists("/dev/nvidiactl")


def how_far(log: str) -> str:
    """What pip or uv does, by what it has logged: how many packages of how many."""

    def last(pattern):
        return (re.findall(pattern, log, re.MULTILINE) or [""])[-1]

    count = last("^(?:Resolved|Prepared|Installed) ([0-9]+) packages? in")
    if last("^Installed [0-9]+ packages? in"):
        return f"all {count} packages are installed; compiling them to bytecode"
    if last("^Prepared [0-9]+ packages? in"):
        return f"all {count} packages are downloaded; installing them"
    if last("^Installing collected packages"):
        return "all packages are downloaded; installing them"
    # uv names packages that are larger than a megabyte, when it begins and when it is done
    large = re.findall("^Downloading ([^ \n]+) [(](.+)[)]$", log, re.MULTILINE)
    done = re.findall("^ Downloaded ([^ \n]+)$", log, re.MULTILINE)
    if large:
        rest = [f"{name} ({size})" for name, size in large if name not in done]
        words = f"{len(large) - len(rest)} of {len(large)} large packages are downloaded"
        return words + "; next " + ", ".join(rest[:3]) if rest else words
    collected = re.findall("^Collecting ", log, re.MULTILINE)
    if collected:
        return f"{len(collected)} packages found so far"
    return f"downloading {count} packages" if count else "waiting for the package index"


def say_how_far(begins_at, ended) -> None:
    """Until the event `ended`: print the elapsed time and the progress that the log shows."""
    while not ended.wait(BEAT):
        log = LOG.read_bytes()[begins_at:].decode("utf-8", errors="replace")
        minutes, seconds = divmod(int(time.monotonic() - BEGIN), 60)
        say(f"  {minutes}:{seconds:02}  {how_far(log)}")


def run(command, timeout=None, **variables) -> bool:
    """Whether it succeeded. pip and uv write some 500 lines to the log; we print the progress."""
    # Where a company's proxy inspects TLS, the system has the proxy's certificate. Without this
    # variable uv trusts a list of its own.
    environment = dict({"UV_SYSTEM_CERTS": "1"}, **os.environ)
    environment.update(variables)
    ended = threading.Event()
    with LOG.open("ab") as log:
        beat = threading.Thread(target=say_how_far, args=(log.tell(), ended), daemon=True)
        beat.start()
        try:
            called = subprocess.call(
                command,
                cwd=str(ROOT),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            return False
        finally:
            ended.set()
            beat.join()
    return called == 0


def registry_answers() -> bool:
    """Whether PyTorch's package index offers the CPU build, within ten seconds.

    This downloads nothing. The download itself is untested, because the index could not be
    reached where this was written.
    """
    return run([*TORCH_FOR_CPU, "--dry-run"], timeout=10, UV_HTTP_RETRIES="0")


def install_torch_for_cpu(cpu: str, uv_works: bool) -> None:
    """`cpu` is "1" (the CPU build or an error), "0" (don't try), or "" (if there is no GPU)."""
    if cpu == "" and sys.platform == "linux" and not there_is_a_gpu():
        say("No NVIDIA GPU was found, so the CPU build of torch is installed (CPU=0: with CUDA).")
        if not (uv_works and registry_answers() and run(TORCH_FOR_CPU)):
            say(
                "The CPU build could not be downloaded from PyTorch's package index. The default "
                "build, usually with CUDA, is installed instead."
            )
    elif cpu not in ("", "0") and not (uv_works and run(TORCH_FOR_CPU)):
        stop_with_log(
            "the CPU build of torch could not be installed; see the error above. Omit CPU=1 to "
            "install the default build, which also runs on a CPU."
        )


def install_interpreter() -> bool:
    """Install Triton's interpreter, made from Triton's package for Linux; whether that worked."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    version = re.search("^triton==([^ ;\n]+)", pins, re.MULTILINE).group(1)
    say(
        "Triton publishes packages only for Linux. Downloading the Linux package (198 MB, 80 "
        "seconds at 20 Mbit/s), and installing its interpreter (1 MB of Python)."
    )
    folder = VENV / "interpreter"
    if not run([str(PYTHON), INTERPRETER[0], version, str(folder)]):
        return False
    (made,) = folder.glob("triton-" + version + "+*.whl")
    return run([*PIP, "--no-deps", str(made)])


def make_environment(site: bool, cpu: str, interpreter: bool) -> None:
    """Create .venv with the packages of constraints.txt, unless it is up to date.

    `interpreter`: install only Triton's interpreter instead of Triton.
    """
    names = ["pyproject.toml", "constraints.txt", *(INTERPRETER if interpreter else ())]
    pins = b"".join((ROOT / name).read_bytes() for name in names)
    # An environment with Triton can't be updated to one with its interpreter, or back.
    place = str(ROOT) + (", with Triton's interpreter alone" if interpreter else "")
    wanted = [place, hashlib.sha256(pins).hexdigest()]
    made = STAMP.read_text(encoding="utf-8").splitlines() if STAMP.exists() else []
    if PYTHON.exists() and made[:2] == wanted and (not site or "site" in made):
        return

    problem = in_the_way()
    if problem:
        stop(problem)
    if PYTHON.exists() and made[:1] == wanted[:1]:
        say("Updating .venv to constraints.txt and pyproject.toml.")
        STAMP.unlink()
    else:
        # `venv --clear` would empty what a link leads to, such as another checkout's environment.
        # `is_symlink` would miss a junction, the other kind of link that Windows has.
        if VENV.resolve() != VENV:
            theirs = VENV.resolve() / PYTHON.relative_to(VENV)
            stop(
                f".venv is a link to {VENV.resolve()}, and creating an environment in .venv would "
                "empty that folder. Either remove the link, which keeps the folder, or use its "
                f"environment: '{theirs} lab.py --this-python'."
            )
        say(f"Creating .venv with Python {platform.python_version()}.")
        if subprocess.call([sys.executable, "-m", "venv", "--clear", str(VENV)]):
            stop("this Python could not create .venv; see the error above.")

    # If uv fails, pip installs everything: uv doesn't read pip's settings, which may name the only
    # package index that can be reached.
    uv_works = run([*PIP, "uv"])
    install_torch_for_cpu(cpu, uv_works)
    say(
        "Now about 150 packages are downloaded and installed: 2.8 GB with CUDA, 0.6 GB without. "
        f"This takes some minutes. The complete output is in {LOG.relative_to(ROOT)}."
    )
    project = ["-e", ".[lab,test,site]" if site else ".[lab,test]"]
    # Compile to bytecode, as pip does: the tests start a hundred processes that import torch.
    if not (uv_works and run([*UV, "--compile-bytecode", *project])) and not run([*PIP, *project]):
        stop_with_log(
            "the packages could not be installed; see the error above and "
            f"{LOG.relative_to(ROOT)}. Run the same command to start over; finished downloads are "
            "cached."
        )
    if interpreter and not install_interpreter():
        stop_with_log(
            "Triton's interpreter could not be installed; see the error above and "
            + str(LOG.relative_to(ROOT))
            + ". Run the same command to start over."
        )
    made_now = [*wanted, "site"] if site else wanted
    STAMP.write_text("\n".join(made_now) + "\n", encoding="utf-8")
    say("The environment .venv is ready.")


def open_lab(python: str, options) -> int:
    """Copy the notebooks for the reader and run JupyterLab until it ends."""
    copied = subprocess.call([python, "tools/readers_copies.py"], cwd=str(ROOT))
    if copied != 0:
        return copied
    say("Opening notebook 00 in JupyterLab, which prints its address below. Ctrl+C stops it.")
    # The command `jupyter` would not be found in an environment that is not activated. JupyterLab
    # needs --allow-root to run as root, which is the usual user on rented GPU machines.
    command = [python, "-m", "jupyterlab"]
    command += ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    command += ["--LabApp.default_url=/lab/tree/my_notebooks/00_start_here.ipynb"]
    command += ["--LabApp.app_settings_dir=" + str(JUPYTERLAB)]
    command += ["--LabApp.extra_labextensions_path=" + str(JUPYTERLAB / "extensions"), *options]
    server = subprocess.Popen(command, cwd=str(ROOT))
    # JupyterLab also receives Ctrl+C and asks whether to stop, so wait for its answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    return server.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.rsplit("\n\n", 1)[0],
        epilog="To use another Python for .venv, call it: python3.13 lab.py. All other options\n"
        "are passed to JupyterLab: python3 lab.py --no-browser --port=8888",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--environment", action="store_true", help="only create .venv")
    which.add_argument(
        "--this-python",
        action="store_true",
        help="use the packages of this Python (conda, a container) instead of .venv",
    )
    parser.add_argument(
        "--site", action="store_true", help="also install the packages that build the site"
    )
    parser.add_argument(
        "--interpreter",
        action="store_true",
        default=sys.platform != "linux",
        help="install Triton's interpreter without its compiler, as on macOS and Windows",
    )
    parser.add_argument(
        "--cpu",
        choices=["0", "1"],
        default=os.environ.get("CPU", ""),
        help="1: require torch's CPU build; 0: install the default build; omitted: the CPU build "
        "if there is no NVIDIA GPU and it can be downloaded. The variable CPU has the same effect",
    )
    asked, options = parser.parse_known_args()
    if asked.environment and options:
        parser.error("options not allowed with --environment: " + " ".join(options))
    if not asked.this_python:
        make_environment(asked.site, asked.cpu, asked.interpreter)
    if asked.environment:
        return 0
    return open_lab(sys.executable if asked.this_python else str(PYTHON), options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        stop("interrupted. Run the same command to start over.")
