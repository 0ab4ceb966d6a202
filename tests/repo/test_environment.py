"""The files that make an environment agree, and lab.py makes it or says what is missing."""

import ast
import fnmatch
import importlib.util
import json
import os
import platform
import re
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


# lab.py, with pip, uv and venv that only say that they were called

GET_UV = "-m pip install -c constraints.txt uv"
UV = "-m uv pip install --python PYTHON -c constraints.txt"
BY_UV = f"{UV} --compile-bytecode -e .[lab,test]"
BY_PIP = "-m pip install -c constraints.txt -e .[lab,test]"
TORCH = f"{UV} --torch-backend=cpu --no-deps torch"
PACKAGE = "CHECKOUT/.venv/interpreter/triton-3.7.1+interpreter-py3-none-any.whl"
WITH_INTERPRETER = [
    *(GET_UV, BY_UV, "tools/interpreter_wheel.py 3.7.1 CHECKOUT/.venv/interpreter"),
    f"-m pip install -c constraints.txt --no-deps {PACKAGE}",
]
WITH_TORCH_FOR_CPU = [GET_UV, f"{TORCH} --dry-run", TORCH, BY_UV]


class Lab:
    """A checkout with its own lab.py. A call like the pattern `fails` fails."""

    def __init__(self, checkout, monkeypatch):
        self.checkout, self.calls = checkout, []
        self.fails, self.cleared = "", 0
        self.load()
        monkeypatch.setattr(subprocess, "call", self.call)

    def load(self):
        spec = importlib.util.spec_from_file_location("lab_of_a_checkout", self.checkout / "lab.py")
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.module.there_is_a_gpu = lambda: False

    def make(self, site=False, cpu="0", interpreter=False, fails=""):
        """The calls that this took."""
        self.calls, self.fails = [], fails
        self.module.make_environment(site=site, cpu=cpu, interpreter=interpreter)
        return self.calls

    def call(self, command, cwd=None, stdout=None, stderr=None, timeout=None, env=None):
        words = " ".join(command[1:]).replace(str(self.module.PYTHON), "PYTHON")
        if words.startswith("-m venv"):
            self.module.PYTHON.parent.mkdir(parents=True, exist_ok=True)
            self.module.PYTHON.touch()
            self.cleared += 1
            return 0
        assert Path(command[0]) == self.module.PYTHON and Path(cwd) == self.checkout
        # Behind a proxy that inspects TLS, uv's own list of certificates is not enough.
        assert env["UV_SYSTEM_CERTS"] == os.environ.get("UV_SYSTEM_CERTS", "1")
        self.calls.append(words.replace(str(self.checkout), "CHECKOUT"))
        if words.startswith("tools/interpreter_wheel.py"):
            Path(command[-1]).mkdir(exist_ok=True)
            (Path(command[-1]) / Path(PACKAGE).name).touch()
        stdout.write(f"what {words.split()[1]} says\n".encode())
        return 2 if fnmatch.fnmatch(words, self.fails) else 0


@pytest.fixture
def lab(tmp_path, monkeypatch):
    (tmp_path / "checkout/tools").mkdir(parents=True)
    files = "pyproject.toml", "constraints.txt", "tools/interpreter_wheel.py", "tools/libtriton.py"
    for name in ("lab.py", *files):
        shutil.copy(ROOT / name, tmp_path / "checkout" / name)
    return Lab(tmp_path / "checkout", monkeypatch)


@pytest.mark.parametrize(
    ("module", "name", "value", "sentence"),
    [
        (sys, "version_info", (3, 9, 2, "final", 0), "this is Python 3.9, "),
        (sys, "maxsize", 2**31 - 1, "this is a 32-bit Python, "),
        (sysconfig, "get_platform", lambda: "win-arm64", "torch has no builds for Windows on ARM"),
        (platform, "machine", lambda: "x86_64", "this Python is made for Intel processors, "),
        (platform, "mac_ver", lambda: ("13.6", (), "arm64"), "this is macOS 13.6, "),
        (sys, "modules", {**sys.modules, "ensurepip": None}, "this Python cannot create virtual"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(
    lab, monkeypatch, module, name, value, sentence
):
    if module is platform:
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(module, name, value)
    with pytest.raises(SystemExit, match=f"^error: {sentence}"):
        lab.make()
    assert lab.calls == [] and not (lab.checkout / ".venv").exists()


def test_an_old_python_can_read_what_it_is_told():
    ast.parse(read("lab.py"), feature_version=(3, 6))


def test_where_venv_is_a_link_what_it_leads_to_is_left_alone(lab):
    """`venv --clear` would empty that folder, which may be another checkout's environment."""
    target = lab.checkout.with_name("theirs")
    (lab.checkout / ".venv").symlink_to(target, target_is_directory=True)
    sentence = rf"^error: \.venv is a link to {re.escape(str(target))}, .* remove the link"
    with pytest.raises(SystemExit, match=sentence):
        lab.make()
    assert lab.calls == [] and (lab.checkout / ".venv").is_symlink() and not target.exists()


@pytest.mark.parametrize("interpreter", [False, True], ids=["Triton", "its interpreter"])
def test_an_environment_is_made_once_and_again_when_something_has_changed(lab, capsys, interpreter):
    with pytest.raises(SystemExit, match=r"^error: the packages could not be installed"):
        lab.make(fails="*")  # a half-made one does not count
    assert lab.calls == [GET_UV, BY_PIP]
    assert capsys.readouterr().err.splitlines() == ["what pip says"] * 2
    whole, none = WITH_INTERPRETER if interpreter else [GET_UV, BY_UV], []
    assert [lab.make(interpreter=interpreter) for _ in range(2)] == [whole, none]
    tools = ["tools/interpreter_wheel.py", "tools/libtriton.py"] if interpreter else []
    for name in ("pyproject.toml", "constraints.txt", *tools):
        with (lab.checkout / name).open("a", encoding="utf-8") as file:
            file.write("\n# changed\n")
        assert [lab.make(interpreter=interpreter) for _ in range(2)] == [whole, none]
    assert lab.cleared == 2  # the first time, and after it had failed
    lab.checkout = lab.checkout.rename(lab.checkout.with_name("elsewhere"))
    lab.load()
    assert lab.make(interpreter=interpreter) == whole
    lab.make(interpreter=not interpreter)  # the other one would not take its place
    assert lab.cleared == 4
    with_site = [GET_UV, BY_UV.replace("test]", "test,site]")]
    assert [lab.make(site=site)[:2] for site in (True, False, True)] == [with_site, none, none]


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_linux_alone_has_tritons_compiler(lab, monkeypatch, system):
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("14.1", (), "arm64"))
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(sys, "argv", ["lab.py", "--environment"])
    monkeypatch.delenv("CPU", raising=False)
    assert lab.module.main() == 0
    assert lab.calls == (WITH_TORCH_FOR_CPU if system == "linux" else WITH_INTERPRETER)


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ({"fails": "-m uv *"}, [GET_UV, BY_UV, BY_PIP]),
        ({"fails": "* uv"}, [GET_UV, BY_PIP]),
        ({"cpu": ""}, WITH_TORCH_FOR_CPU),
        ({"cpu": "", "fails": "* torch *"}, [GET_UV, f"{TORCH} --dry-run", BY_UV]),
        ({"cpu": "1"}, [GET_UV, TORCH, BY_UV]),
    ],
    ids=["uv fails", "no uv", "no GPU", "no build for CPUs", "insisted on"],
)
def test_where_one_way_to_install_fails_another_is_taken(lab, monkeypatch, given, calls):
    monkeypatch.setattr(sys, "platform", "linux")
    assert lab.make(**given) == calls


def test_jupyterlab_knows_the_settings_and_the_extension_that_it_is_given(lab):
    schemas = Path(sys.prefix, "share/jupyter/lab/schemas")
    if not schemas.exists():
        pytest.skip("needs JupyterLab")
    folder = ROOT / lab.module.JUPYTERLAB.relative_to(lab.checkout)
    for plugin, settings in json.loads(read(folder / "overrides.json")).items():
        extension, name = plugin.split(":")
        schema = json.loads((schemas / extension / f"{name}.json").read_text(encoding="utf-8"))
        assert set(settings) <= set(schema["properties"])
    for package in folder.glob("extensions/*/package.json"):
        build = json.loads(read(package))["jupyterlab"]["_build"]
        assert (package.parent / build["load"]).exists()


def test_with_a_gpu_torch_comes_with_cuda(lab):
    lab.module.there_is_a_gpu = lambda: True
    assert lab.make(cpu="") == [GET_UV, BY_UV]


@pytest.mark.parametrize(
    "given",
    [
        {"cpu": "1", "fails": "* torch"},
        {"interpreter": True, "fails": "tools/interpreter_wheel.py *"},
        {"interpreter": True, "fails": "*.whl"},
    ],
)
def test_an_environment_without_what_was_insisted_on_is_not_a_whole_one(lab, given):
    with pytest.raises(SystemExit, match=r"^error: .* could not be installed"):
        lab.make(**given)
    assert not (lab.checkout / ".venv/made-from").exists()
