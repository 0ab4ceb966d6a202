"""The files that make an environment agree, and lab.py makes it or says what is missing."""

import ast
import fnmatch
import importlib.util
import os
import platform
import re
import shutil
import signal
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

ROOT = Path(__file__).resolve().parents[2]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


# Which packages there are, and who may run what


def test_every_package_that_is_asked_for_is_pinned_once_and_the_command_is_named():
    first, *pins = read("constraints.txt").splitlines()
    assert "make pins" in first and "\npins:" in read("Makefile")
    pinned = [canonicalize_name(Requirement(line).name) for line in pins]
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


REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find[-]links|\b(?:PIP|UV)_\w*(?:INDEX|LINKS)\w*\s*[=:]\s*['\"]?[\w.]*[:/]"
    r"|pypi\.org|pythonhosted\.org|download\.pytorch\.org"
)


def test_no_file_names_a_registry():
    """Where packages come from is the reader's own setting."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs git's list of files")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8")
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    found = {
        path.relative_to(ROOT).as_posix(): REGISTRY.findall(path.read_text("utf-8", "ignore"))
        for path in paths
        if path.is_file()
    }
    assert {path: names for path, names in found.items() if names} == {}


INTERPRETER = ("tools/interpreter_wheel.py", "tools/libtriton.py")


# lab.py, with pip, uv and venv that only say that they were called


class Lab:
    """A checkout with its own lab.py.

    A call like the pattern `fails` fails, and one like `waits` doesn't end before its limit.
    """

    def __init__(self, checkout):
        self.checkout, self.calls, self.certificates = checkout, [], set()
        self.fails = self.waits = ""
        self.load()

    def load(self):
        spec = importlib.util.spec_from_file_location("lab_of_a_checkout", self.checkout / "lab.py")
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)

    def make(self, site=False, cpu="0", interpreter=False, fails="", waits=""):
        self.fails, self.waits = fails, waits
        self.module.make_environment(site=site, cpu=cpu, interpreter=interpreter)

    def call(self, command, cwd=None, stdout=None, stderr=None, timeout=None, env=None):
        python = Path(command[0])
        words = " ".join(command[1:]).replace(str(self.module.PYTHON), "PYTHON")
        if words.startswith("-m venv"):
            self.module.PYTHON.parent.mkdir(parents=True, exist_ok=True)
            self.module.PYTHON.touch()
            return 0
        assert python == self.module.PYTHON and Path(cwd) == self.checkout
        self.certificates.add((env or os.environ).get("UV_SYSTEM_CERTS"))
        self.calls.append(words.replace(str(self.checkout), "CHECKOUT"))
        if words.startswith("tools/interpreter_wheel.py"):
            folder = Path(command[-1])
            folder.mkdir(exist_ok=True)
            (folder / "triton-3.7.1+interpreter-py3-none-any.whl").touch()
        stdout.write(f"what {words.split()[1]} says\n".encode())
        if fnmatch.fnmatch(words, self.waits):
            assert timeout == 10
            raise subprocess.TimeoutExpired(command, timeout)
        return 2 if fnmatch.fnmatch(words, self.fails) else 0


@pytest.fixture
def lab(tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "tools").mkdir()
    for name in ("lab.py", "pyproject.toml", "constraints.txt", *INTERPRETER):
        shutil.copy(ROOT / name, checkout / name)
    lab = Lab(checkout)
    monkeypatch.setattr(subprocess, "call", lab.call)
    monkeypatch.setattr(lab.module, "there_is_a_gpu", lambda: False)
    return lab


def an_old_python(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))


def no_ensurepip(monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)


def a_32_bit_python(monkeypatch):
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)


def windows_on_arm(monkeypatch):
    monkeypatch.setattr(sysconfig, "get_platform", lambda: "win-arm64")


def a_mac(monkeypatch, machine="arm64", version="14.1"):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "mac_ver", lambda: (version, ("", "", ""), machine))


def an_intel_mac(monkeypatch):
    a_mac(monkeypatch, machine="x86_64")


def an_old_macos(monkeypatch):
    a_mac(monkeypatch, version="13.6")


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (an_old_python, "this is Python 3.9, and 3.11 to 3.14 are accepted, "),
        (no_ensurepip, "this Python cannot make virtual environments: "),
        (a_32_bit_python, "this is a 32-bit Python, "),
        (windows_on_arm, "torch has no builds for Windows on ARM: "),
        (an_intel_mac, "this Python is made for Intel processors, "),
        (an_old_macos, "this is macOS 13.6, and torch has builds for 14 "),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(lab, monkeypatch, machine, sentence):
    machine(monkeypatch)
    with pytest.raises(SystemExit, match=f"^error: {sentence}"):
        lab.make()
    assert lab.calls == [] and not (lab.checkout / ".venv").exists()


@pytest.mark.parametrize("others", ["an environment", "nothing"])
def test_where_venv_is_a_link_what_it_leads_to_is_left_alone(lab, others):
    """`venv --clear` would empty that folder, which may be another checkout's environment."""
    target = lab.checkout.with_name("theirs")
    if others == "an environment":
        (target / "bin").mkdir(parents=True)
        (target / "bin/python").touch()
        (target / "made-from").write_text("/another/checkout\n", encoding="utf-8")
    (lab.checkout / ".venv").symlink_to(target, target_is_directory=True)
    sentence = rf"^error: \.venv is a link to {re.escape(str(target))}, .* remove the link"
    with pytest.raises(SystemExit, match=sentence):
        lab.make()
    assert lab.calls == [] and (lab.checkout / ".venv").is_symlink()
    assert target.exists() == (others == "an environment")


def test_an_old_python_can_read_what_it_is_told():
    ast.parse(read("lab.py"), feature_version=(3, 6))


def test_make_says_that_there_is_no_python(tmp_path):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shutil.copy(ROOT / "Makefile", tmp_path)
    env = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    command = ["make", "lab", "PYTHON=python3.99", "VENV=.venv"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8")
    assert ran.returncode and ran.stdout == ""
    assert ran.stderr.startswith("error: python3.99 was not found: on Debian or Ubuntu, run ")


GET_UV = "-m pip install -c constraints.txt uv"
UV = "-m uv pip install --python PYTHON -c constraints.txt"
BY_UV = f"{UV} --compile-bytecode -e .[lab,test]"
BY_PIP = "-m pip install -c constraints.txt -e .[lab,test]"
TORCH = f"{UV} --torch-backend=cpu --no-deps torch"
MAKE_INTERPRETER = "tools/interpreter_wheel.py 3.7.1 CHECKOUT/.venv/interpreter"
BY_PIP_INTERPRETER = "-m pip install -c constraints.txt --no-deps CHECKOUT/.venv/interpreter/"
BY_PIP_INTERPRETER += "triton-3.7.1+interpreter-py3-none-any.whl"
WITH_INTERPRETER = [GET_UV, BY_UV, MAKE_INTERPRETER, BY_PIP_INTERPRETER]
WITH_TORCH_FOR_CPU = [GET_UV, f"{TORCH} --dry-run", TORCH, BY_UV]
OTHER_BUILD = "PyTorch's own registry does not provide it here, so the build is taken that is found"


@pytest.mark.parametrize("interpreter", [False, True], ids=["Triton", "its interpreter"])
def test_an_environment_is_made_once_and_again_when_something_has_changed(lab, capsys, interpreter):
    with pytest.raises(SystemExit, match=r"^error: the packages could not be installed"):
        lab.make(interpreter=interpreter, fails="*")  # a half-made one does not count
    assert capsys.readouterr().err.splitlines() == ["what pip says"] * 2
    made, whole = [GET_UV, BY_PIP], WITH_INTERPRETER if interpreter else [GET_UV, BY_UV]

    def make():
        lab.make(interpreter=interpreter)
        return capsys.readouterr().out

    make()
    made += whole
    assert lab.calls == made
    assert make() == "" and lab.calls == made
    names = ("pyproject.toml", "constraints.txt", *(INTERPRETER if interpreter else ()))
    for name in names:
        with (lab.checkout / name).open("a", encoding="utf-8") as file:
            file.write("\n# changed\n")
        assert make().startswith("Bringing .venv up to date")
        made += whole
        assert lab.calls == made
    lab.checkout = lab.checkout.rename(lab.checkout.with_name("elsewhere"))
    lab.load()
    assert make().startswith("Making .venv")
    assert lab.calls == [*made, *whole]
    lab.make(interpreter=not interpreter)  # the other one would not take its place
    assert capsys.readouterr().out.startswith("Making .venv")


@pytest.mark.parametrize("said", ["", "0", None])
def test_uv_trusts_the_systems_certificates_unless_it_is_told_otherwise(lab, monkeypatch, said):
    """Behind a proxy that inspects TLS, uv's own list of certificates is not enough."""
    monkeypatch.delenv("UV_SYSTEM_CERTS", raising=False)
    if said is not None:
        monkeypatch.setenv("UV_SYSTEM_CERTS", said)
    lab.make(cpu="")  # which asks PyTorch's registry, too
    assert lab.certificates == {("1" if said is None else said)}


@pytest.mark.parametrize(
    ("fails", "calls"),
    [("-m uv *", [GET_UV, BY_UV, BY_PIP]), ("* uv", [GET_UV, BY_PIP])],
    ids=["uv fails", "uv is not to be had"],
)
def test_pip_does_it_where_uv_does_not(lab, fails, calls):
    lab.make(fails=fails)
    assert lab.calls == calls


def test_what_the_site_needs_is_added_once_and_not_forgotten(lab):
    lab.make()
    for site in (True, False, True):
        lab.make(site=site)
    assert lab.calls == [GET_UV, BY_UV, GET_UV, BY_UV.replace("test]", "test,site]")]


@pytest.mark.parametrize("fails", ["tools/interpreter_wheel.py *", "*.whl"])
def test_an_environment_without_the_interpreter_is_not_a_whole_one(lab, fails):
    with pytest.raises(SystemExit, match=r"^error: Triton's interpreter could not be installed"):
        lab.make(interpreter=True, fails=fails)
    assert not (lab.checkout / ".venv/made-from").exists()


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_linux_alone_has_tritons_compiler(lab, monkeypatch, capsys, system):
    a_mac(monkeypatch)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(sys, "argv", ["lab.py", "--environment"])
    monkeypatch.delenv("CPU", raising=False)
    assert lab.module.main() == 0
    assert lab.calls == (WITH_TORCH_FOR_CPU if system == "linux" else WITH_INTERPRETER)
    assert ("198 MB" in capsys.readouterr().out) == (system != "linux")


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ({"cpu": ""}, WITH_TORCH_FOR_CPU),
        ({"cpu": "", "fails": "* torch *"}, [GET_UV, f"{TORCH} --dry-run", BY_UV]),
        ({"cpu": "", "waits": "*--dry-run"}, [GET_UV, f"{TORCH} --dry-run", BY_UV]),
        ({"cpu": "1"}, [GET_UV, TORCH, BY_UV]),
        ({"cpu": "1", "fails": "* torch"}, [GET_UV, TORCH]),
    ],
    ids=["tried", "not there", "no answer", "insisted on", "insisted on, not there"],
)
def test_the_cpu_build_is_tried_where_there_is_no_gpu(lab, monkeypatch, capsys, given, calls):
    monkeypatch.setattr(sys, "platform", "linux")
    if calls[-1] == BY_UV:
        lab.make(**given)
    else:
        with pytest.raises(SystemExit, match=r"^error: the CPU build of torch could not be"):
            lab.make(**given)
        assert not (lab.checkout / ".venv/made-from").exists()
    assert lab.calls == calls
    said = capsys.readouterr().out
    assert said.count(OTHER_BUILD) == (given["cpu"] == "" and len(given) > 1)
    assert len(said.splitlines()) <= 5


def test_with_a_gpu_torch_comes_with_cuda(lab, monkeypatch):
    monkeypatch.setattr(lab.module, "there_is_a_gpu", lambda: True)
    lab.make(cpu="")
    assert lab.calls == [GET_UV, BY_UV]


ASKS = """
import signal, sys
def ask(*_):
    print("really?", flush=True)
    sys.exit(3)
signal.signal(signal.SIGINT, ask)
print(*sys.argv[1:], flush=True)
signal.pause()
"""


@pytest.mark.skipif(os.name == "nt", reason="sends a signal to a group of processes")
def test_ctrl_c_is_jupyterlabs_and_its_answer_is_waited_for(tmp_path):
    shutil.copy(ROOT / "lab.py", tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/readers_copies.py").write_text("", encoding="utf-8")
    (tmp_path / "jupyterlab.py").write_text(ASKS, encoding="utf-8")
    command = [sys.executable, "lab.py", "--this-python", "--port=9"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True
    ) as opened:
        assert opened.stdout.readline().startswith("Opening notebook 00 ")
        assert opened.stdout.readline().endswith("00_start_here.ipynb --port=9\n")
        os.killpg(opened.pid, signal.SIGINT)
        assert opened.stdout.read() == "really?\n"
    assert opened.returncode == 3
