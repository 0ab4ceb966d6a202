"""The files that make an environment say the same thing, and the script says what is missing.

Each check is a function that takes text and returns complaints. Beside the real file it gets a
broken sample, so that a check that can no longer fail is found out.
"""

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
CONSTRAINTS_OPTION = re.compile(r"(?:-c|--constraint)[ =]constraints\.txt\b")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


# constraints.txt


def constraint_lines(text):
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def pinned_names(constraints):
    return {canonicalize_name(line.split("==")[0]) for line in constraint_lines(constraints)}


def lines_that_pin_nothing(constraints):
    exact = re.compile(r"[A-Za-z0-9][\w.-]*==\d[\w.]*")  # no local version, no range, no marker
    return [line for line in constraint_lines(constraints) if not exact.fullmatch(line)]


def names_pinned_twice(constraints):
    names = [canonicalize_name(line.split("==")[0]) for line in constraint_lines(constraints)]
    return sorted({name for name in names if names.count(name) > 1})


@pytest.mark.parametrize(
    "line",
    ["torch>=2.6", "torch", "torch==2.*", "torch==2.13.0+cpu", "-e .", "torch @ file:torch.whl"],
)
def test_a_line_that_pins_nothing_is_found(line):
    assert lines_that_pin_nothing(f"numpy==2.4.6\n{line}\n") == [line]


def test_constraints_are_exact():
    constraints = read("constraints.txt")
    assert lines_that_pin_nothing(constraints) == []
    assert names_pinned_twice(constraints) == []
    assert names_pinned_twice("a-b==1\nA_b==2\nc==1\n") == ["a-b"]


# pyproject.toml against constraints.txt


PROJECTS = ("pyproject.toml", "rope_lab/pyproject.toml")


def declared_requirements(pyproject):
    project = tomllib.loads(pyproject)["project"]
    extras = project.get("optional-dependencies", {}).values()
    return [Requirement(r) for group in (project["dependencies"], *extras) for r in group]


def requirements_without_a_pin(pyproject, constraints):
    pinned = pinned_names(constraints)
    names = [canonicalize_name(r.name) for r in declared_requirements(pyproject)]
    return [name for name in names if name not in pinned]


@pytest.mark.parametrize("path", PROJECTS)
def test_every_requirement_is_pinned(path):
    pyproject = read(path)
    assert requirements_without_a_pin(pyproject, read("constraints.txt")) == []
    assert requirements_without_a_pin(pyproject, "torch==2.13.0\n") != []
    broken = '[project]\ndependencies = ["Torch"]\n[project.optional-dependencies]\nlab = ["x_y"]\n'
    assert requirements_without_a_pin(broken, "torch==2.13.0\n") == ["x-y"]


def packages_without_a_pin(roots, requires, constraints):
    """Follow `requires(name)` (its requirements, None where not installed) from the roots."""
    environment = default_environment()
    pinned = pinned_names(constraints)
    todo, seen, complaints = list(roots), set(), []
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        key = (name, *sorted(requirement.extras))
        # torch itself pins the NVIDIA packages that it takes.
        if key in seen or name.startswith(("nvidia-", "cuda-")):
            continue
        seen.add(key)
        lines = requires(name)
        if lines is None:
            continue
        if name not in pinned:
            complaints.append(name)
        for line in lines:
            wanted = Requirement(line)
            extras = ["", *requirement.extras]
            if not wanted.marker or any(
                wanted.marker.evaluate({**environment, "extra": extra}) for extra in extras
            ):
                todo.append(wanted)
    return sorted(set(complaints))


def installed_requires(name):
    """None where a package is missing, or has another version than its pin."""
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    pins = dict(line.split("==") for line in constraint_lines(read("constraints.txt")))
    pins = {canonicalize_name(package): pin for package, pin in pins.items()}
    installed = Version(metadata["Version"]).public  # torch 2.13.0+cpu is 2.13.0
    if pins.get(canonicalize_name(name), installed) != installed:
        return None
    return metadata.get_all("Requires-Dist") or []


def test_every_package_that_comes_along_is_pinned():
    roots = [root for path in PROJECTS for root in declared_requirements(read(path))]
    assert packages_without_a_pin(roots, installed_requires, read("constraints.txt")) == []


def test_a_package_that_comes_along_unpinned_is_found():
    graph = {"a": ["b[x]", "absent"], "b": ["c; extra == 'x'", "d; extra == 'y'"], "c": [], "d": []}
    found = packages_without_a_pin([Requirement("a")], graph.get, "a==1\nb==1\n")
    assert found == ["c"]


def pins_that_refuse(python, constraints, installed):
    """Pins whose own metadata refuses that Python; `installed(name)` is (version, range)."""
    complaints = []
    for line in constraint_lines(constraints):
        name, pin = line.split("==")
        version, accepted = installed(name) or (None, None)
        if version == pin and accepted and python not in SpecifierSet(accepted):
            complaints.append(f"{line} wants Python {accepted}")
    return complaints


def installed_version(name):
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return metadata["Version"], metadata.get("Requires-Python")


def test_the_pins_accept_the_newest_python():
    end = re.search(r"<3\.(\d+)", accepted_pythons(read("pyproject.toml"))).group(1)
    newest = f"3.{int(end) - 1}.0"
    assert pins_that_refuse(newest, read("constraints.txt"), installed_version) == []
    assert pins_that_refuse(newest, "a==1\n", {"a": ("1", "<3.14")}.get) != []


def test_the_pins_accept_the_first_python_3_11():
    # Debian 12 has 3.11.2, and one package that wants 3.11.5 stops the whole installation there.
    assert pins_that_refuse("3.11.0", read("constraints.txt"), installed_version) == []
    known = {"a": ("1", ">=3.11.5"), "b": ("1", ">=3.11"), "c": ("1", ">=3.12"), "d": ("1", None)}
    found = pins_that_refuse("3.11.0", "a==1\nb==1\nc==2\nd==1\ne==1\n", known.get)
    assert found == ["a==1 wants Python >=3.11.5"]


# environment.yaml


def complaints_about_conda(text):
    dependencies = yaml.safe_load(text)["dependencies"]
    conda = [d for d in dependencies if isinstance(d, str)]
    pip = [line for d in dependencies if isinstance(d, dict) for line in d["pip"]]
    names = [line.partition(";")[0] for line in conda + pip]  # without markers
    versions = [name for name in names if re.search(r"[=<>~\d]", name)]
    complaints = [f"a version: {name}" for name in versions if not name.startswith("python ")]
    if "pip" not in conda or f"python {accepted_pythons(read('pyproject.toml'))}" not in conda:
        complaints.append("no pip, or not the Python that pyproject.toml accepts")
    if "-c constraints.txt" not in pip:
        complaints.append("no -c constraints.txt")
    wanted = {"-e .[test]", "-e ./rope_lab"}
    wanted |= {"torch", "triton", "jupyterlab", "matplotlib", "nbval", "ipywidgets"}
    return complaints + [f"no {line}" for line in sorted(wanted - set(names))]


def test_conda_environment_has_no_version_of_its_own():
    text = read("environment.yaml")
    assert complaints_about_conda(text) == []
    for good, bad in [
        ("- python >=3.11,<3.15\n", "- python\n"),
        ("- python >=3.11,<3.15\n", "- python >=3.11\n"),
        ("- python >=3.11,<3.15\n", "- python =3.12\n"),
        ("- pip\n", "- numpy\n"),
        ("-c constraints.txt", "-r constraints.txt"),
        ("-e .[test]", "-e ."),
        ("      - -e ./rope_lab\n", ""),
        ("      - nbval\n", ""),
        ("      - triton; sys_platform == 'linux'\n", ""),
        ("- torch\n", "- torch==2.13.0\n"),
        ("triton;", "triton>=3.7;"),
    ]:
        assert good in text
        assert complaints_about_conda(text.replace(good, bad)) != [], bad


# Dockerfile


def docker_instructions(text):
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def complaints_about_docker(text):
    instructions = docker_instructions(text)
    run = [argument for name, argument in instructions if name == "RUN"]
    commands = [c.strip() for argument in run for c in re.split(r"&&|\|\||;", argument)]
    installs = [c for c in commands if re.search(r"\bpip3? install\b", c)]
    complaints = [c for c in installs if not CONSTRAINTS_OPTION.search(c)]
    if not any("-e '.[test]' -e ./rope_lab" in c for c in installs):
        complaints.append("the packages are not installed")
    if "touch README.md" not in commands:
        complaints.append("the README that pyproject.toml names is missing when they are")
    system = " ".join(c for c in commands if "apt-get install" in c).split()
    complaints += [
        f"no {package} from apt"
        for package in ("python3", "python3-venv", "python3-dev", "gcc", "libc6-dev")
        if package not in system
    ]
    environment = " ".join(argument for name, argument in instructions if name == "ENV")
    complaints += [
        f"{name} is not set"
        for name in ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
        if f"{name}=" not in environment
    ]
    if '"make", "lab", "LAB_FLAGS=' not in dict(instructions).get("CMD", ""):
        complaints.append("it does not start as make lab does")
    if not any('--uid "$READER_ID"' in c for c in commands):
        complaints.append("the reader's id cannot be chosen")
    for wanted in [("FROM", "debian:bookworm-slim"), ("EXPOSE", "8888"), ("USER", "reader")]:
        if wanted not in instructions:
            complaints.append("no " + " ".join(wanted))
    return complaints


def packages_that_docker_makes(text):
    """Empty ones, so that the real ones need not be there when they are installed."""
    loop = re.search(r"for package in ([^;]*);", text.replace("\\\n", " "))
    return [path.replace("/", ".") for path in loop[1].split()]


def test_docker_makes_every_package_before_it_installs_them():
    """A folder without __init__.py would be installed as a namespace, and hide the real one."""
    lab = tomllib.loads(read("rope_lab/pyproject.toml"))["tool"]["setuptools"]["packages"]
    assert packages_that_docker_makes(read("Dockerfile")) == ["rope_kernels", *lab]


def test_docker_image_is_made_from_the_constraints():
    text = read("Dockerfile")
    assert complaints_about_docker(text) == []
    for good, bad in [
        ("-c constraints.txt -e", "-e"),
        ("-c constraints.txt uv", "uv"),
        ("-c constraints.txt torch", "torch"),
        ("-e '.[test]'", "-e ."),
        (" -e ./rope_lab", ""),
        ("gcc libc6-dev", "libc6-dev"),
        ("touch README.md", "true"),
        ("python3-venv", "git"),
        ("NVIDIA_VISIBLE_DEVICES", "VISIBLE_DEVICES"),
        ("EXPOSE 8888", "EXPOSE 80"),
        ("USER reader", "USER root"),
        ('--uid "$READER_ID"', "--uid 1000"),
        ('["make", "lab"', '["jupyter", "lab"'),
        ("bookworm-slim", "latest"),
    ]:
        assert good in text
        broken = re.sub(rf"(?<!_){re.escape(good)}", bad, text)
        assert complaints_about_docker(broken) != [], bad


def complaints_about_the_readers_folder(install, dockerfile, dockerignore):
    """A container works on the reader's disk, and an image takes nobody's notebooks along."""
    workplace = dict(docker_instructions(dockerfile))["WORKDIR"]
    mounted = f'-v "$PWD/my_notebooks:{workplace}/my_notebooks"'
    complaints = [
        f"{name} does not mount the folder"
        for name, text in (("docs/install.md", install), ("Dockerfile", dockerfile))
        if mounted not in text
    ]
    if "mkdir -p my_notebooks" not in install:  # or Docker makes it, as root
        complaints.append("docs/install.md does not make the folder")
    if "--build-arg READER_ID=$(id -u)" not in install:
        complaints.append("docs/install.md does not say whose files they are")
    if "make lab VENV=$CONDA_PREFIX" not in install:
        complaints.append("docs/install.md has no line for conda")
    if "my_notebooks*" not in dockerignore.splitlines():
        complaints.append("the reader's notebooks are copied into the image")
    return complaints


def test_a_readers_work_outlives_the_container():
    texts = [read("docs/install.md"), read("Dockerfile"), read(".dockerignore")]
    assert complaints_about_the_readers_folder(*texts) == []
    for number, good, bad in [
        (0, '-v "$PWD/my_notebooks', '-v "$PWD/notebooks'),
        (0, "mkdir -p my_notebooks", "mkdir -p notebooks"),
        (0, " --build-arg READER_ID=$(id -u)", ""),
        (0, "VENV=$CONDA_PREFIX", ""),
        (1, "WORKDIR /home/reader", "WORKDIR /home/writer"),
        (2, "my_notebooks*", "notebooks"),
    ]:
        assert good in texts[number]
        broken = [*texts]
        broken[number] = broken[number].replace(good, bad)
        assert complaints_about_the_readers_folder(*broken) != [], bad


# The Makefile, .ci/run and the workflows


def recipe(makefile, target):
    found = re.search(rf"^{target}:.*\n((?:\t.*\n|\n)*)", makefile, re.MULTILINE)
    return found.group(1).replace("\\\n", " ") if found else ""


def complaints_about_make(makefile):
    test = recipe(makefile, "test")
    wanted = ["ruff check", "ruff format --check", "pytest tests", "pytest --nbval notebooks"]
    wanted.append("ROPE_KERNELS_FAST_PATH=0")
    complaints = [f"make test lacks {command}" for command in wanted if command not in test]
    test_all = recipe(makefile, "test-all")
    complaints += [f"make test-all lacks {x}" for x in wanted if x not in test_all]
    if not re.search(r"pytest tests(?! --slices)", test_all):
        complaints.append("make test-all leaves cases out")
    for target in ("lab", "test", "test-all", "notebooks", "bench"):
        if not re.search(rf"^{target}: environment\b", makefile, re.MULTILINE):
            complaints.append(f"make {target} does not make the environment")
    if "tools/make_environment.sh" not in recipe(makefile, "environment"):
        complaints.append("make environment does not run its script")
    return complaints


def test_make_does_what_the_readme_says():
    text = read("Makefile")
    assert complaints_about_make(text) == []
    for good, bad in [
        ("pytest tests", "pytest -k fast"),
        ("ROPE_KERNELS_FAST_PATH=0", ""),
        ("--nbval notebooks", "notebooks"),
        ("ruff format --check", "ruff format"),
        ("test: environment", "test:"),
        ("sh tools/make_environment.sh", "true"),
    ]:
        assert good in text
        assert complaints_about_make(text.replace(good, bad)) != [], bad


def complaints_about_ci_script(text):
    lines = [line.strip() for line in text.splitlines()]
    complaints = [] if "make test" in lines else ["README's command, make test, is not called"]
    if "set -euo pipefail" not in lines:
        complaints.append("a failure would not stop it")
    if not {"export CI=1", "for name in chromium npm; do"} <= set(lines):
        complaints.append("tests that need more than Python would be skipped, or could not run")
    return complaints


def test_ci_runs_readmes_command():
    text = read(".ci/run")
    assert complaints_about_ci_script(text) == []
    for bad in ("# make test", "make lab"):
        assert complaints_about_ci_script(text.replace("make test", bad)) != []
    for good, bad in [
        ("set -euo", "set -u"),
        ("export CI=1", "CI=1"),
        ("chromium npm", "chromium"),
    ]:
        assert good in text
        assert complaints_about_ci_script(text.replace(good, bad)) != [], bad
    assert os.access(ROOT / ".ci/run", os.X_OK)


def complaints_about_workflow(text, *, commands, labels=None, trigger="pull_request"):
    workflow = yaml.safe_load(text)
    jobs = workflow["jobs"].values()
    ran = [step.get("run", "").strip() for job in jobs for step in job["steps"]]
    complaints = [f"{command} is not run" for command in commands if command not in ran]
    if workflow.get("permissions") != {"contents": "read"}:
        complaints.append("permissions are not read-only")
    if labels and any(job["runs-on"] != labels for job in jobs):
        complaints.append("the wrong runner")
    triggers = workflow[True]  # in YAML 1.1 the key `on` is a boolean
    if labels and "pull_request" in triggers:
        complaints.append("strangers' pull requests run on a machine of our own")
    if trigger not in triggers:
        complaints.append(f"no {trigger} starts it")
    return complaints


UNPINNED = [
    "truncate --size 0 constraints.txt",
    "make .venv/made-for-site CPU=1",
    "git restore constraints.txt",
    ".venv/bin/python -m pip freeze",  # names the versions
    ".venv/bin/python -m pytest tests -n auto --dist worksteal -rs",
]


@pytest.mark.parametrize(
    ("name", "rules", "breaks"),
    [
        (
            "ci.yml",
            {"commands": ["make test CPU=1"]},
            [("make test CPU=1", "make help"), ("contents: read", "contents: write")],
        ),
        (
            "gpu.yml",
            {"commands": ["make test-all"], "labels": ["self-hosted", "gpu"], "trigger": "push"},
            [
                ("run: make test-all", "run: make test"),
                ("[self-hosted, gpu]", "ubuntu-latest"),
                ("workflow_dispatch:", "pull_request:"),
            ],
        ),
        (
            "newest.yml",
            {"commands": UNPINNED, "trigger": "schedule"},
            [(command, "make help") for command in UNPINNED] + [("schedule:", "push:")],
        ),
    ],
)
def test_workflows_run_the_tests(name, rules, breaks):
    text = read(f".github/workflows/{name}")
    assert complaints_about_workflow(text, **rules) == []
    for good, bad in breaks:
        assert good in text
        assert complaints_about_workflow(text.replace(good, bad), **rules) != [], bad


def oldest_torches(pyproject, readme, workflow):
    """What pyproject.toml accepts, README names and CI installs."""
    requirement = next(
        x for x in tomllib.loads(pyproject)["project"]["dependencies"] if "torch" in x
    )
    return {
        requirement.removeprefix("torch>="),
        re.search(r"torch (\d+\.\d+), or newer", readme)[1],
        re.search(r"torch==(\d+\.\d+)\.", workflow)[1],
    }


def test_the_oldest_torch_is_named_and_tested():
    pyproject, workflow = read("pyproject.toml"), read(".github/workflows/ci.yml")
    assert oldest_torches(pyproject, read("README.md"), workflow) == {"2.9"}
    older = pyproject.replace("torch>=2.9", "torch>=2.6")
    assert oldest_torches(older, read("README.md"), workflow) == {"2.6", "2.9"}


def accepted_pythons(pyproject):
    return tomllib.loads(pyproject)["project"]["requires-python"]


def complaints_about_pythons(pyproject, script, readme, workflow):
    """Each file accepts the same range, and CI tries its oldest Python and none outside."""
    oldest, end = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", accepted_pythons(pyproject)).groups()
    newest = int(end) - 1
    complaints = []
    if f"(3, {oldest}) <= sys.version_info[:2] < (3, {end})" not in script:
        complaints.append("the script accepts others")
    if f"and 3.{oldest} to 3.{newest} are accepted" not in script:
        complaints.append("the script's sentence names others")
    ranges = set(re.findall(r"Python (3\.\d+ to 3\.\d+|3\.\d+ or newer)", readme))
    if ranges != {f"3.{oldest} to 3.{newest}"}:
        complaints.append(f"README names {ranges}")
    tried = yaml.safe_load(workflow)["jobs"]["test"]["strategy"]["matrix"]["python"]
    minors = [int(version.removeprefix("3.")) for version in tried]
    if min(minors) != int(oldest) or max(minors) > newest:
        complaints.append(f"CI tries {tried}")
    return complaints


def test_the_same_pythons_are_accepted_everywhere():
    texts = {
        "pyproject": read("pyproject.toml"),
        "script": read("tools/make_environment.sh"),
        "readme": read("README.md"),
        "workflow": read(".github/workflows/ci.yml"),
    }
    assert complaints_about_pythons(**texts) == []
    for name, good, bad in [
        ("pyproject", "<3.15", "<3.16"),
        ("script", "(3, 11)", "(3, 9)"),
        ("script", "3.11 to 3.14", "3.11 to 3.15"),
        ("readme", "Python 3.11 to 3.14", "Python 3.11 or newer"),
        ("workflow", '"3.11"', '"3.12"'),
        ("workflow", '"3.13"', '"3.15"'),
    ]:
        assert good in texts[name]
        broken = texts | {name: texts[name].replace(good, bad)}
        assert complaints_about_pythons(**broken) != [], bad


def versions(pyproject, package, changelog):
    return {
        tomllib.loads(pyproject)["project"]["version"],
        *re.findall(r'^__version__ = "(.*)"', package, re.MULTILINE),
        *re.findall(r"^## \[(\d.*?)\]", changelog, re.MULTILINE)[:1],
    }


def test_one_version_everywhere():
    pyproject, changelog = read("pyproject.toml"), read("CHANGELOG.md")
    package = read("rope_kernels/__init__.py")
    assert len(versions(pyproject, package, changelog)) == 1
    assert len(versions(pyproject, '__version__ = "9.9"\n', changelog)) == 2
    assert len(versions(pyproject, package, "## [9.9] - today\n")) == 2


# conftest.py

NBVAL_SAYS_NOTHING = {
    "nbval": True,
    "nbval_cell_timeout": 2000,
    "nbval_kernel_name": None,
    "nbval_current_env": False,
    "current_env": False,
    "nbval_sanitize_with": None,
    "sanitize_with": None,
}


def root_conftest():
    spec = importlib.util.spec_from_file_location("root_conftest", ROOT / "conftest.py")
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    return conftest


def nbval_options(**given):
    option = SimpleNamespace(**given)
    root_conftest().pytest_configure(SimpleNamespace(option=option))
    return vars(option)


def test_nbval_needs_no_further_option():
    chosen = nbval_options(**NBVAL_SAYS_NOTHING)
    assert chosen["nbval_cell_timeout"] == 120
    assert chosen["nbval_current_env"] is True
    assert chosen["nbval_sanitize_with"] == str(ROOT / "tools/nbval_sanitize.cfg")


def test_what_the_reader_chose_for_nbval_stays():
    chosen = nbval_options(
        **{
            **NBVAL_SAYS_NOTHING,
            "nbval_cell_timeout": 300,
            "nbval_kernel_name": "other",
            "nbval_sanitize_with": "mine.cfg",
        }
    )
    assert chosen["nbval_sanitize_with"] == "mine.cfg"
    assert chosen["nbval_cell_timeout"] == 300
    assert chosen["nbval_current_env"] is False
    assert nbval_options(keyword="x") == {"keyword": "x"}  # nbval is absent


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


def test_nbval_still_has_the_options_that_conftest_sets(pytestconfig):
    if not pytestconfig.pluginmanager.hasplugin("nbval"):
        pytest.skip("nbval is not installed")
    for name in NBVAL_SAYS_NOTHING:
        assert hasattr(pytestconfig.option, name)
    assert pytestconfig.option.nbval_cell_timeout != 2000


# No file says where packages come from: that is the reader's own setting.


def registry_mentions(text):
    pattern = (
        r"--(?:extra-)?index-url|--find[-]links|\b(?:PIP|UV)_(?:EXTRA_)?INDEX"
        r"|pypi\.org|pythonhosted\.org|download\.pytorch\.org"
    )
    return re.findall(pattern, text)


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
    complaints = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        complaints += [f"{path.relative_to(ROOT)}: {found}" for found in registry_mentions(text)]
    assert complaints == []


@pytest.mark.parametrize(
    "parts",
    [
        ("pip install --index", "-url x torch"),
        ("pip install --extra-index", "-url x torch"),
        ("pip install --find", "-links wheels torch"),
        ("PIP_", "INDEX_URL=x"),
        ("UV_EXTRA_", "INDEX_URL=x"),
        ("https://py", "pi.org/simple"),
        ("https://download.py", "torch.org/whl/cpu"),
    ],
)
def test_a_registry_is_found(parts):  # in two parts, or the check would find this file
    assert len(registry_mentions("".join(parts))) == 1
    assert registry_mentions(" ".join(parts)) == []


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
