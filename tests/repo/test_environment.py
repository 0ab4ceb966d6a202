"""The files that make an environment agree, and the script says what is missing."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

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


# Where packages come from, and who may run what


def test_docker_installs_every_package_of_the_lab():
    """A folder without __init__.py would be installed as a namespace, and hide the real one."""
    lab = toml("rope_lab/pyproject.toml")["tool"]["setuptools"]["packages"]
    loop = re.search(r"for package in ([^;]*);", read("Dockerfile").replace("\\\n", " "))
    assert loop[1].replace("/", ".").split() == ["rope_kernels", *lab]


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda x: x.name)
def test_strangers_run_nothing_on_a_machine_of_ours_and_write_nothing(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    ours = any("self-hosted" in job["runs-on"] for job in workflow["jobs"].values())
    assert not ours or "pull_request" not in workflow[True]  # in YAML 1.1 `on` is a boolean


REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find[-]links|\b(?:PIP|UV)_\w*(?:INDEX|LINKS)\w*\s*[=:]\s*['\"]?[\w.]*[:/]"
    r"|pypi\.org|pythonhosted\.org|download\.pytorch\.org"
)


def test_no_file_names_a_registry():
    """Where packages come from is the reader's own setting."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs git's list of files")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    found = {
        path.relative_to(ROOT).as_posix(): REGISTRY.findall(path.read_text("utf-8", "ignore"))
        for path in paths
        if path.is_file()
    }
    assert {path: names for path, names in found.items() if names} == {}


# tools/make_environment.sh, with a Python and a PATH made for the test

TOOLS = [
    "sh",
    "cat",
    "chmod",
    "cksum",
    "dirname",
    "head",
    "mkdir",
    "rm",
    "tail",
    "uname",
]

# Ten seconds are one second in a test, where something doesn't end; else they have no limit.
FAKE_TIMEOUT = f"""#!/bin/sh
shift
[ -z "$WAITS" ] && exec "$@"
exec {shutil.which("timeout")} 1 "$@"
"""

# Answers as the real Python would, after `change`; `-m venv` makes a stand-in whose pip and uv
# write their arguments to calls.log. A call like the pattern $FAILS fails, one like $WAITS doesn't
# end.
FAKE_PYTHON = """#!/bin/sh
if [ "$1" = -m ]; then
    mkdir -p .venv/bin
    cat >.venv/bin/python <<'END'
#!/bin/sh
echo "$*" >>calls.log
echo "what $2 says"
case "$*" in
$WAITS) exec sleep 60 ;;
$FAILS) exit 2 ;;
esac
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
    for name in (*TOOLS, "sleep"):
        (commands / name).symlink_to(shutil.which(name))
    (commands / "timeout").write_text(FAKE_TIMEOUT)
    (commands / "timeout").chmod(0o755)

    def make_environment(change=None, *arguments, **environment):
        if change is not None:
            fake = commands / "python3"
            fake.write_text(FAKE_PYTHON.format(python=sys.executable, change=change))
            fake.chmod(0o755)
        return subprocess.run(
            ["sh", "tools/make_environment.sh", *arguments],
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
        (None, "error: python3 was not found: on Debian or Ubuntu, run "),
        ('sys.version_info = (3, 9, 2, "final", 0)', "error: python3 is Python 3.9, and 3.11 to "),
        ('sys.modules["ensurepip"] = None', "error: python3 cannot make virtual environments: "),
    ],
    ids=["no python3", "an old python3", "no python3-venv"],
)
def test_what_is_missing_is_said_in_one_sentence(bare_machine, change, sentence):
    ran = bare_machine(change)
    (said,) = ran.stderr.splitlines()
    assert ran.returncode != 0 and ran.stdout == "" and said.startswith(sentence)
    assert not (bare_machine.checkout / ".venv").exists()


def calls_of(machine):
    log = machine.checkout / "calls.log"
    return log.read_text().splitlines() if log.exists() else []


GET_UV = "-m pip install -c constraints.txt uv"
UV = "-m uv pip install --python .venv/bin/python -c constraints.txt"
BY_UV = f"{UV} --compile-bytecode -e .[test] -e ./rope_lab"
BY_PIP = "-m pip install -c constraints.txt -e .[test] -e ./rope_lab"
TORCH = f"{UV} --torch-backend=cpu --no-deps torch"
OTHER_BUILD = "PyTorch's own registry does not provide it here, so the build is taken that is found"

without_a_gpu = pytest.mark.skipif(
    os.path.exists("/dev/nvidiactl"), reason="this machine has an NVIDIA GPU"
)


def test_an_environment_is_made_once_and_again_when_something_has_changed(bare_machine):
    stopped = bare_machine("", FAILS="*")  # a half-made one does not count
    *reasons, sentence = stopped.stderr.splitlines()
    assert stopped.returncode != 0 and set(reasons) == {"what pip says"}
    assert "error: the packages could not be installed" in sentence
    assert calls_of(bare_machine) == [GET_UV, BY_PIP]
    assert bare_machine("").returncode == 0
    made = calls_of(bare_machine)
    assert made[2:] == [GET_UV, BY_UV]
    again = bare_machine("")
    assert (again.returncode, again.stdout) == (0, "")
    for name in (*PROJECTS, "constraints.txt"):
        with (bare_machine.checkout / name).open("a") as file:
            file.write("\n# changed\n")
        assert bare_machine("").returncode == 0
        made += [GET_UV, BY_UV]
        assert calls_of(bare_machine) == made
    moved = bare_machine.checkout.with_name("elsewhere")
    bare_machine.checkout.rename(moved)
    command = ["sh", str(moved / "tools/make_environment.sh")]
    subprocess.run(command, env={"PATH": str(bare_machine.commands), "CPU": "0"}, check=True)
    assert (moved / "calls.log").read_text().splitlines() == [*made, GET_UV, BY_UV]


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ({"FAILS": "-m uv *"}, [GET_UV, BY_UV, BY_PIP]),
        ({"FAILS": "* uv"}, [GET_UV, BY_PIP]),
    ],
    ids=["uv fails", "uv is not to be had"],
)
def test_pip_does_it_where_uv_does_not(bare_machine, given, calls):
    ran = bare_machine("", **given)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert calls_of(bare_machine) == calls


def test_the_site_comes_in_the_same_call_and_is_not_forgotten(bare_machine):
    with_site = BY_UV.replace("[test]", "[test,site]")
    assert bare_machine("", "site").returncode == 0
    assert bare_machine("").stdout == bare_machine("", "site").stdout == ""
    assert calls_of(bare_machine) == [GET_UV, with_site]
    (bare_machine.checkout / "constraints.txt").write_text("")
    assert bare_machine("").returncode == 0
    assert bare_machine("", "site").returncode == 0
    assert calls_of(bare_machine)[2:] == [GET_UV, BY_UV, GET_UV, with_site]


@without_a_gpu
@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ({"CPU": ""}, [GET_UV, f"{TORCH} --dry-run", TORCH, BY_UV]),
        ({"CPU": "", "FAILS": "* torch *"}, [GET_UV, f"{TORCH} --dry-run", BY_UV]),
        ({"CPU": "", "WAITS": "*--dry-run"}, [GET_UV, f"{TORCH} --dry-run", BY_UV]),
        ({"CPU": "1"}, [GET_UV, TORCH, BY_UV]),
        ({"CPU": "1", "FAILS": "* torch"}, [GET_UV, TORCH]),
        ({"CPU": "0"}, [GET_UV, BY_UV]),
    ],
    ids=["tried", "not there", "no answer", "insisted on", "insisted on, not there", "not wanted"],
)
def test_the_cpu_build_is_tried_where_there_is_no_gpu(bare_machine, given, calls):
    ran = bare_machine("", **given)
    assert calls_of(bare_machine) == calls
    if calls[-1] == BY_UV:
        assert ran.returncode == 0
    else:
        assert ran.returncode != 0
        assert "error: the CPU build of torch could not be installed" in ran.stderr
        assert not (bare_machine.checkout / ".venv/made-from").exists()
    assert ran.stdout.count(OTHER_BUILD) == (given["CPU"] == "" and len(given) > 1)
    assert len(ran.stdout.splitlines() + ran.stderr.splitlines()) <= 5


def test_with_a_gpu_torch_comes_with_cuda(bare_machine):
    (bare_machine.commands / "nvidia-smi").symlink_to(shutil.which("true"))
    assert bare_machine("", CPU="").returncode == 0
    assert calls_of(bare_machine) == [GET_UV, BY_UV]
