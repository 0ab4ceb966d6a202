"""The files that make an environment agree, and lab.py makes it or says what is missing."""

import ast
import fnmatch
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from processes import ROOT


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_package_that_is_asked_for_is_pinned_once():
    pinned = [
        canonicalize_name(Requirement(x).name) for x in read("constraints.txt").splitlines()[1:]
    ]
    assert len(set(pinned)) == len(pinned)
    project = tomllib.loads(read("pyproject.toml"))["project"]
    asked = {"uv"}.union(project["dependencies"], *project["optional-dependencies"].values())
    assert {canonicalize_name(Requirement(line).name) for line in asked} <= set(pinned)


def test_a_wheel_holds_the_package_alone(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    names = ("pyproject.toml", "README.md", "LICENSE", "rope_kernels", "rope_lab", "tests", "tools")
    for name in names:
        (tmp_path / name).symlink_to(ROOT / name)
    command = "from setuptools.build_meta import build_wheel; build_wheel('.')"
    subprocess.run([sys.executable, "-c", command], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in held if ".dist-info" not in name} == {"rope_kernels"}
    assert {"rope_kernels/kernel.py", "rope_kernels/py.typed"} <= set(held)


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda x: x.name)
def test_strangers_run_nothing_on_a_machine_of_ours_and_write_nothing(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    ours = any("self-hosted" in job["runs-on"] for job in workflow["jobs"].values())
    assert not ours or "pull_request" not in workflow[True]  # in YAML 1.1 `on` is a boolean


def test_no_file_names_a_registry():
    """Where packages come from is the reader's own setting."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs git's list of files")
    names = r"--(extra-)?index-url|--find[-]links|pypi[.]org|pythonhosted[.]org|download[.]pytorch"
    settings = r"(PIP|UV)_[A-Z_]*(INDEX|LINKS)[A-Z_]* *[=:] *['\"]?[a-z.]*[:/]"
    command = ["git", "grep", "--untracked", "-nE", "-e", names, "-e", settings]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert (found.returncode, found.stdout) == (1, "")


def test_jupyterlab_knows_the_settings_and_the_extension_that_it_is_given():
    schemas, folder = Path(sys.prefix, "share/jupyter/lab/schemas"), ROOT / "tools/jupyterlab"
    if not schemas.exists():
        pytest.skip("needs JupyterLab")
    for plugin, settings in json.loads(read(folder / "overrides.json")).items():
        extension, name = plugin.split(":")
        schema = json.loads((schemas / extension / f"{name}.json").read_text(encoding="utf-8"))
        assert set(settings) <= set(schema["properties"])
    for package in folder.glob("extensions/*/package.json"):
        build = json.loads(read(package))["jupyterlab"]["_build"]
        assert (package.parent / build["load"]).exists()


def test_an_old_python_can_read_what_it_is_told():
    ast.parse(read("lab.py"), feature_version=(3, 6))


# lab.py: a dry run, which lists the commands

GET_UV = "-m pip install -c constraints.txt uv"
UV = "-m uv pip install --python PYTHON -c constraints.txt"
BY_UV = f"{UV} --compile-bytecode -e .[lab,test]"
BY_PIP = "-m pip install -c constraints.txt -e .[lab,test]"
TORCH = f"{UV} --torch-backend=cpu --no-deps torch"
FOLDER = "CHECKOUT/.venv/interpreter"
INPUTS = "pyproject.toml", "constraints.txt", "tools/interpreter_wheel.py", "tools/libtriton.py"
WITH_INTERPRETER = [
    *(GET_UV, BY_UV, f"tools/interpreter_wheel.py 3.7.1 {FOLDER}"),
    f"-m pip install -c constraints.txt --no-deps {FOLDER}/triton-3.7.1+interpreter.whl",
]


class Checkout:
    """A checkout with its own lab.py, whose commands do nothing."""

    def __init__(self, folder):
        self.folder, self.listed, self.cleared, self.fails = folder, [], 0, ""

    def environment(self, *options, fails=""):
        """The commands of `lab.py --environment`; one like the pattern `fails` fails."""
        spec = importlib.util.spec_from_file_location("lab_of_a_checkout", self.folder / "lab.py")
        self.lab = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.lab)
        self.lab.there_is_a_gpu = lambda: False
        self.listed, self.fails, sys.argv = [], fails, ["lab.py", "--environment", *options]
        assert self.lab.main() == 0
        return self.listed

    def call(self, command, **options):
        words = " ".join(map(str, command[1:])).replace(str(self.lab.PYTHON), "PYTHON")
        if words.startswith("-m venv"):
            self.lab.PYTHON.parent.mkdir(parents=True, exist_ok=True)
            self.lab.PYTHON.touch()
            self.cleared += 1
            return 0
        # Behind a proxy that inspects TLS, uv's own list of certificates is not enough.
        assert options["env"]["UV_SYSTEM_CERTS"] == os.environ.get("UV_SYSTEM_CERTS", "1")
        self.listed.append(words.replace(str(self.folder), "CHECKOUT"))
        if words.startswith("tools/interpreter_wheel.py"):
            Path(command[-1]).mkdir(exist_ok=True)
            Path(command[-1], "triton-3.7.1+interpreter.whl").touch()
        return 2 if fnmatch.fnmatch(words, self.fails) else 0


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    made = Checkout(tmp_path / "checkout")
    (made.folder / "tools").mkdir(parents=True)
    for name in ("lab.py", *INPUTS):
        shutil.copy(ROOT / name, made.folder / name)
    monkeypatch.setattr(subprocess, "call", made.call)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("14.1", (), "arm64"))
    monkeypatch.delenv("CPU", raising=False)
    return made


@pytest.mark.parametrize(
    ("system", "options", "fails", "commands"),
    [
        ("linux", "", "", [GET_UV, f"{TORCH} --dry-run", TORCH, BY_UV]),  # there is no GPU
        ("linux", "", "* torch *", [GET_UV, f"{TORCH} --dry-run", BY_UV]),
        ("linux", "--cpu=0", "-m uv *", [GET_UV, BY_UV, BY_PIP]),
        ("linux", "--cpu=0", "* uv", [GET_UV, BY_PIP]),
        ("linux", "--cpu=1", "", [GET_UV, TORCH, BY_UV]),
        ("darwin", "", "", WITH_INTERPRETER),
        ("win32", "", "", WITH_INTERPRETER),
        ("linux", "--cpu=0", "*", None),
        ("linux", "--cpu=1", "* torch", None),
        ("darwin", "", "tools/interpreter_wheel.py *", None),
        ("darwin", "", "*.whl", None),
    ],
)
def test_where_one_way_to_install_fails_another_is_taken_or_nothing_is_made(
    checkout, monkeypatch, system, options, fails, commands
):
    monkeypatch.setattr(sys, "platform", system)
    if commands is None:
        with pytest.raises(SystemExit, match=r"^error: .* could not be installed"):
            checkout.environment(*options.split(), fails=fails)
    else:
        assert checkout.environment(*options.split(), fails=fails) == commands
    assert (checkout.folder / ".venv/made-from").exists() == (commands is not None)


def test_an_environment_is_made_once_and_again_when_something_has_changed(checkout):
    options, whole = ["--cpu=0", "--interpreter"], WITH_INTERPRETER
    assert [checkout.environment(*options) for _ in range(2)] == [whole, []]
    for name in INPUTS:
        with (checkout.folder / name).open("a", encoding="utf-8") as file:
            file.write("\n# changed\n")
        assert [checkout.environment(*options) for _ in range(2)] == [whole, []]
    with_site = [command.replace("test]", "test,site]") for command in whole]
    ways = ["--site"], [], ["--site"]
    assert [checkout.environment(*options, *way) for way in ways] == [with_site, [], []]
    assert checkout.cleared == 1
    checkout.folder = checkout.folder.rename(checkout.folder.with_name("elsewhere"))
    assert checkout.environment(*options) == whole
    checkout.environment("--cpu=0")  # Triton takes its interpreter's place
    assert checkout.cleared == 3


@pytest.mark.parametrize(
    ("module", "name", "value", "sentence"),
    [
        (sys, "version_info", (3, 9, 2, "final", 0), "this is Python 3.9, "),
        (sys, "maxsize", 2**31 - 1, "this is a 32-bit Python, "),
        (sysconfig, "get_platform", lambda: "win-arm64", "torch has no builds for Windows on ARM"),
        (platform, "machine", lambda: "x86_64", "this Python is made for Intel processors, "),
        (platform, "mac_ver", lambda: ("13.6", (), "arm64"), "this is macOS 13.6, "),
    ],
)
def test_what_is_in_the_way_is_said_before_anything_is_made(
    checkout, monkeypatch, module, name, value, sentence
):
    monkeypatch.setattr(sys, "platform", "darwin" if module is platform else "linux")
    monkeypatch.setattr(module, name, value)
    with pytest.raises(SystemExit, match=f"^error: {sentence}"):
        checkout.environment()
    assert checkout.listed == [] and checkout.cleared == 0


def test_where_venv_is_a_link_what_it_leads_to_is_left_alone(checkout):
    """`venv --clear` would empty that folder, which may be another checkout's environment."""
    (checkout.folder / ".venv").symlink_to(checkout.folder, target_is_directory=True)
    with pytest.raises(SystemExit, match=r"^error: \.venv is a link to .* remove the link"):
        checkout.environment()
    assert checkout.listed == [] and checkout.cleared == 0
