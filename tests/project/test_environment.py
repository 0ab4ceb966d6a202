"""The files that make an environment agree, and the script says what is missing."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ("pyproject.toml", "rope_lab/pyproject.toml")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def toml(path):
    return tomllib.loads(read(path))


# constraints.txt: the only pins

LINES = [line.split("#")[0].strip() for line in read("constraints.txt").splitlines()]
LINES = [line for line in LINES if line]


def pins():
    """Canonical name -> version."""
    return {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in LINES}


def test_constraints_are_exact():
    exact = re.compile(r"[A-Za-z0-9][\w.-]*==\d[\w.]*")  # no local version, no range, no marker
    assert [line for line in LINES if not exact.fullmatch(line)] == []
    assert len(pins()) == len(LINES), "a name is pinned twice"


def declared_requirements(path):
    project = toml(path)["project"]
    extras = project.get("optional-dependencies", {}).values()
    return [Requirement(r) for group in (project["dependencies"], *extras) for r in group]


def metadata_of(name):
    """None where a package is missing, or has another version than its pin."""
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    installed = Version(metadata["Version"]).public  # torch 2.13.0+cpu is 2.13.0
    return metadata if pins().get(canonicalize_name(name), installed) == installed else None


def test_every_package_that_is_asked_for_or_comes_along_is_pinned():
    environment = default_environment()
    todo = [requirement for path in PROJECTS for requirement in declared_requirements(path)]
    asked, seen = {canonicalize_name(requirement.name) for requirement in todo}, set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        key = (name, *sorted(requirement.extras))
        # torch itself pins the NVIDIA packages that it takes.
        if key in seen or name.startswith(("nvidia-", "cuda-")):
            continue
        metadata = metadata_of(name)
        if metadata is None and name not in asked:
            continue
        seen.add(key)
        for line in (metadata and metadata.get_all("Requires-Dist")) or []:
            wanted = Requirement(line)
            if not wanted.marker or any(
                wanted.marker.evaluate({**environment, "extra": extra})
                for extra in ("", *requirement.extras)
            ):
                todo.append(wanted)
    assert {name for name, *_ in seen} - pins().keys() == set()


def accepted_pythons():
    """The minor versions of Python 3: the oldest, and the one after the newest."""
    requires = toml("pyproject.toml")["project"]["requires-python"]
    return [int(x) for x in re.fullmatch(r">=3\.(\d+),<3\.(\d+)", requires).groups()]


def test_the_pins_accept_the_oldest_and_the_newest_python():
    """Debian 12 has 3.11.2; one package that wants 3.11.5 stops the whole installation there."""
    oldest, end = accepted_pythons()
    for python in (f"3.{oldest}.0", f"3.{end - 1}.0"):
        for name in pins():
            metadata = metadata_of(name)
            accepted = metadata and metadata.get("Requires-Python")
            assert not accepted or python in SpecifierSet(accepted), (name, python)


# What other files say of versions, and where packages come from


def test_the_same_pythons_are_accepted_everywhere():
    oldest, end = accepted_pythons()
    script = read("tools/make_environment.sh")
    assert f"(3, {oldest}) <= sys.version_info[:2] < (3, {end})" in script
    words = f"3.{oldest} to 3.{end - 1}"
    assert f"and {words} are accepted" in script and f"Python {words}" in read("README.md")
    conda = yaml.safe_load(read("environment.yaml"))["dependencies"]
    assert f"python {toml('pyproject.toml')['project']['requires-python']}" in conda


def test_conda_takes_versions_from_the_constraints():
    *conda, from_pip = yaml.safe_load(read("environment.yaml"))["dependencies"]
    assert {"-c constraints.txt", "-e .[test]", "-e ./rope_lab"} <= set(from_pip["pip"])
    assert [x for x in conda + from_pip["pip"] if re.match(r"(?!python )[\w-]+ *[=<>~]", x)] == []


def test_docker_takes_versions_from_the_constraints():
    text = read("Dockerfile").replace("\\\n", " ")
    installs = re.findall(r"\bpip3? install\b[^&|;\n]*", text)
    assert installs and [x for x in installs if "-c constraints.txt" not in x] == []


def test_docker_makes_every_package_before_it_installs_them():
    """A folder without __init__.py would be installed as a namespace, and hide the real one."""
    lab = toml("rope_lab/pyproject.toml")["tool"]["setuptools"]["packages"]
    loop = re.search(r"for package in ([^;]*);", read("Dockerfile").replace("\\\n", " "))
    assert loop[1].replace("/", ".").split() == ["rope_kernels", *lab]


def test_the_oldest_torch_is_named_and_tested():
    dependencies = toml("pyproject.toml")["project"]["dependencies"]
    oldest = next(x for x in dependencies if "torch" in x).removeprefix("torch>=")
    assert f"torch {oldest}, or newer" in read("README.md")
    assert f"torch=={oldest}." in read(".github/workflows/ci.yml")


def test_one_version_everywhere():
    version = toml("pyproject.toml")["project"]["version"]
    assert f'__version__ = "{version}"\n' in read("rope_kernels/__init__.py")
    released = re.findall(r"^## \[(\d.*?)\]", read("CHANGELOG.md"), re.MULTILINE)
    assert released[:1] in ([], [version])


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda x: x.stem)
def test_strangers_run_nothing_on_a_machine_of_ours_and_write_nothing(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    ours = any("self-hosted" in job["runs-on"] for job in workflow["jobs"].values())
    assert not ours or "pull_request" not in workflow[True]  # in YAML 1.1 `on` is a boolean


def root_conftest():
    spec = importlib.util.spec_from_file_location("root_conftest", ROOT / "conftest.py")
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    return conftest


def test_what_the_reader_chose_for_nbval_stays():
    conftest = root_conftest()
    chosen = {
        "nbval": True,
        "nbval_cell_timeout": 300,
        "nbval_kernel_name": "other",
        "nbval_current_env": False,
        "current_env": False,
        "nbval_sanitize_with": "mine.cfg",
        "sanitize_with": None,
    }
    for option in (chosen, {"keyword": "x"}):  # in the second case, nbval is absent
        given = SimpleNamespace(**option)
        conftest.pytest_configure(SimpleNamespace(option=given))
        assert vars(given) == option


@pytest.mark.parametrize(
    ("tags", "gpu", "compared"),
    [(["measures"], True, False), (["measures"], False, True), ([], True, True)],
)
def test_a_cell_that_measures_is_compared_where_it_replays(tags, gpu, compared, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    cell = SimpleNamespace(metadata={"tags": tags})
    item = SimpleNamespace(cell=cell, options={"check": True})
    root_conftest().pytest_itemcollected(item)
    assert item.options == {"check": compared}


REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find[-]links|\b(?:PIP|UV)_(?:EXTRA_)?INDEX"
    r"|pypi\.org|pythonhosted\.org|download\.pytorch\.org"
)


def project_files():
    """What git tracks or would track; where there is no git (a Docker image), everything."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        skipped = re.compile(r"\.git|\.venv|__pycache__|\.ipynb_checkpoints|my_notebooks.*")
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(map(skipped.fullmatch, path.relative_to(ROOT).parts))
        ]
    return [path for path in paths if path.is_file()]


def test_no_file_names_a_registry():
    """Where packages come from is the reader's own setting."""
    found = []
    for path in project_files():
        text = path.read_text(encoding="utf-8", errors="ignore")  # a picture has no such text
        found += [f"{path.relative_to(ROOT)}: {x}" for x in REGISTRY.findall(text)]
    assert found == []


# tools/make_environment.sh, with a Python and a PATH made for the test

TOOLS = ("sh", "cat", "cksum", "dirname", "env", "head", "mkdir", "rm", "tail", "timeout", "uname")

# Answers as the real Python would, after `change`; `-m venv` makes a stand-in whose pip and uv
# write their arguments to pip.log and end with $PIP_ENDS_WITH and $UV_ENDS_WITH.
FAKE_PYTHON = """#!/bin/sh
if [ "$1" = -m ]; then
    mkdir -p .venv/bin
    cat >.venv/bin/python <<'END'
#!/bin/sh
[ "$1" = -c ] && exit 1  # asked for Python.h
echo "$*" >>pip.log
echo "what $2 says"
[ "$2" = uv ] && exit "${{UV_ENDS_WITH:-0}}"
exit "${{PIP_ENDS_WITH:-0}}"
END
    chmod +x .venv/bin/python
    exit
fi
exec {python} -c 'import sys
{change}
exec(sys.argv[2])' "$@"
"""


@pytest.fixture
def bare_machine(tmp_path):
    """A checkout and a function that runs its script with nothing on the PATH but `commands`."""
    checkout, commands = tmp_path / "checkout", tmp_path / "bin"
    for folder in ("tools", "rope_lab"):
        (checkout / folder).mkdir(parents=True)
    commands.mkdir()
    for name in (*PROJECTS, "constraints.txt", "tools/make_environment.sh"):
        shutil.copy(ROOT / name, checkout / name)
    for name in (*TOOLS, "chmod"):
        (commands / name).symlink_to(shutil.which(name))

    def make_environment(change=None, **environment):
        if change is not None:
            fake = commands / "python3"
            fake.write_text(FAKE_PYTHON.format(python=sys.executable, change=change))
            fake.chmod(0o755)
        return subprocess.run(
            ["sh", "tools/make_environment.sh"],
            cwd=checkout,
            env={"PATH": str(commands), "CPU": "0", **environment},
            capture_output=True,
            text=True,
        )

    make_environment.checkout, make_environment.commands = checkout, commands
    return make_environment


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            None,
            "error: python3 was not found: "
            "on Debian or Ubuntu, run 'sudo apt-get install python3 python3-venv'.",
        ),
        (
            'sys.version_info = (3, 9, 2, "final", 0)',
            "error: python3 is Python 3.9, and 3.11 to 3.14 are accepted, because the pinned "
            "packages have no builds for others: install one of these and name it, "
            "as in PYTHON=python3.13.",
        ),
        (
            'sys.version_info = (3, 15, 0, "final", 0)',
            "error: python3 is Python 3.15, and 3.11 to 3.14 are accepted, because the pinned "
            "packages have no builds for others: install one of these and name it, "
            "as in PYTHON=python3.13.",
        ),
        (
            'sys.modules["ensurepip"] = None',
            "error: python3 cannot make virtual environments: "
            "on Debian or Ubuntu, run 'sudo apt-get install python3-venv'.",
        ),
    ],
    ids=["no python3", "an old python3", "a new python3", "no python3-venv"],
)
def test_what_is_missing_is_said_in_one_sentence(bare_machine, change, sentence):
    ran = bare_machine(change)
    assert ran.returncode != 0
    assert ran.stderr.splitlines() == [sentence]
    assert ran.stdout == ""
    assert not (bare_machine.checkout / ".venv").exists()


def test_another_python_is_named_in_the_sentence(bare_machine):
    ran = bare_machine(PYTHON="python3.12")
    assert ran.returncode != 0
    assert ran.stderr == (
        "error: python3.12 was not found: "
        "on Debian or Ubuntu, run 'sudo apt-get install python3.12 python3.12-venv'.\n"
    )


def pip_calls(machine):
    log = machine.checkout / "pip.log"
    return log.read_text().splitlines() if log.exists() else []


PIP = "-m pip install -c constraints.txt"
INSTALL = f"{PIP} -e .[test] -e ./rope_lab"
TORCH = (
    "-m uv pip install --python .venv/bin/python --torch-backend=cpu -c constraints.txt "
    "--no-deps torch"
)
OTHER_BUILD = "PyTorch's own registry does not provide it here, so pip takes the build it finds"

without_a_gpu = pytest.mark.skipif(
    os.path.exists("/dev/nvidiactl"), reason="this machine has an NVIDIA GPU"
)


def test_an_environment_is_made_once(bare_machine):
    assert bare_machine("").returncode == 0
    assert pip_calls(bare_machine) == [INSTALL]
    again = bare_machine("")
    assert (again.returncode, again.stdout) == (0, "")
    assert pip_calls(bare_machine) == [INSTALL]


@pytest.mark.parametrize("name", ["pyproject.toml", "rope_lab/pyproject.toml", "constraints.txt"])
def test_a_changed_file_is_installed_anew(bare_machine, name):
    bare_machine("")
    with open(bare_machine.checkout / name, "a") as file:
        file.write("\n# changed\n")
    assert bare_machine("").returncode == 0
    assert pip_calls(bare_machine) == [INSTALL, INSTALL]


def test_a_moved_checkout_is_installed_anew(bare_machine):
    bare_machine("")
    moved = bare_machine.checkout.with_name("elsewhere")
    bare_machine.checkout.rename(moved)
    command = ["sh", str(moved / "tools/make_environment.sh")]
    environment = {"PATH": str(bare_machine.commands), "CPU": "0"}
    subprocess.run(command, env=environment, check=True)
    assert (moved / "pip.log").read_text().splitlines() == [INSTALL, INSTALL]


def test_a_half_made_environment_does_not_count(bare_machine):
    stopped = bare_machine("", PIP_ENDS_WITH="1")
    assert stopped.returncode != 0
    reason, sentence = stopped.stderr.splitlines()
    assert reason == "what pip says" and "error: the packages could not be installed" in sentence
    assert bare_machine("").returncode == 0
    assert pip_calls(bare_machine) == [INSTALL, INSTALL]


def test_a_gpu_without_a_compiler_is_a_warning(bare_machine):
    (bare_machine.commands / "nvidia-smi").symlink_to(shutil.which("true"))
    ran = bare_machine("")
    assert ran.returncode == 0
    assert ran.stderr.splitlines() == [
        "warning: this machine has an NVIDIA GPU but no gcc and no Python.h, which Triton needs "
        "to launch a kernel there: on Debian or Ubuntu, run 'sudo apt-get install gcc python3-dev'."
    ]
    (bare_machine.commands / "gcc").symlink_to(shutil.which("true"))
    assert "but no Python.h, which" in bare_machine("").stderr


@without_a_gpu
@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ({"CPU": ""}, [f"{PIP} uv", f"{TORCH} --dry-run", TORCH, INSTALL]),
        ({"CPU": "", "UV_ENDS_WITH": "2"}, [f"{PIP} uv", f"{TORCH} --dry-run", INSTALL]),
        ({"CPU": "1"}, [f"{PIP} uv", TORCH, INSTALL]),
        ({"CPU": "1", "UV_ENDS_WITH": "2"}, [f"{PIP} uv", TORCH]),
        ({"CPU": "0"}, [INSTALL]),
    ],
    ids=["tried", "not to be had", "insisted on", "insisted on, not to be had", "not wanted"],
)
def test_the_cpu_build_is_tried_where_there_is_no_gpu(bare_machine, given, calls):
    ran = bare_machine("", **given)
    assert pip_calls(bare_machine) == calls
    if calls[-1] == INSTALL:
        assert ran.returncode == 0
    else:
        assert ran.returncode != 0
        assert "error: the CPU build of torch could not be installed" in ran.stderr
        assert not (bare_machine.checkout / ".venv/made-from").exists()
    assert ran.stdout.count(OTHER_BUILD) == (given["CPU"] == "" and "UV_ENDS_WITH" in given)
    assert len(ran.stdout.splitlines() + ran.stderr.splitlines()) <= 5


def test_with_a_gpu_torch_comes_with_cuda(bare_machine):
    (bare_machine.commands / "nvidia-smi").symlink_to(shutil.which("true"))
    assert bare_machine("", CPU="").returncode == 0
    assert pip_calls(bare_machine) == [INSTALL]


# Python, but its environments have no pip: what PYTHONPATH has instead plays pip and uv.
PYTHON_WITHOUT_PIP = """#!/bin/sh
[ "$1" = -m ] && exec {python} -m venv --without-pip .venv
exec {python} "$@"
"""
UV_THAT_WAITS = """
import socket
with socket.create_connection(("127.0.0.1", {port}), timeout=60) as connection:
    connection.recv(1)
"""


@pytest.fixture
def machine_with_uv(bare_machine, tmp_path):
    """A bare machine with a real Python, and with the uv that is given as a module's text."""
    python = bare_machine.commands / "python3"
    python.write_text(PYTHON_WITHOUT_PIP.format(python=sys.executable))
    python.chmod(0o755)
    (tmp_path / "pip.py").write_text("")

    def make_environment(uv, **environment):
        (tmp_path / "uv.py").write_text(uv)
        return bare_machine(CPU="", PYTHONPATH=str(tmp_path), **environment)

    make_environment.log = bare_machine.checkout / ".venv/pip.log"
    return make_environment


@without_a_gpu
def test_a_registry_that_does_not_answer_is_left_after_ten_seconds(machine_with_uv):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        begun = time.monotonic()
        ran = machine_with_uv(UV_THAT_WAITS.format(port=listener.getsockname()[1]))
        took = time.monotonic() - begun
        listener.settimeout(1)
        listener.accept()[0].close()  # it was asked
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count(OTHER_BUILD) == 1
    assert 10 <= took < 40


@without_a_gpu
def test_the_real_uv_gives_up_on_a_registry_that_is_out_of_reach(machine_with_uv):
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed: it comes with an environment made without a GPU")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ran = machine_with_uv(
            f"import os, sys\nos.execv({uv!r}, ['uv', *sys.argv[1:]])\n",
            HTTPS_PROXY=f"http://127.0.0.1:{closed.getsockname()[1]}",
        )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count(OTHER_BUILD) == 1
    assert "/torch/" in machine_with_uv.log.read_text(), "the address that it asked"
