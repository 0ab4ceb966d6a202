"""In a real browser: JupyterLab as `make lab` starts it, in headless Chromium.

Where the variable CI is set (as by `.ci/run` and GitHub) a missing Chromium is a failure; elsewhere
it is a skip that says so. Screenshots of every notebook are taken if SCREENSHOTS names a folder.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
MISSING = "Chromium is not installed: on Debian or Ubuntu, run 'sudo apt-get install chromium'"
NAMES = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SECONDS = 240  # for all cells of a notebook, on a slow machine without a GPU

pytest.importorskip("jupyterlab")
playwright = pytest.importorskip("playwright.sync_api")


def settings(folder: Path, theme: str) -> Path:
    """All cells are drawn at once, no news; light or dark."""
    for plugin, values in {
        "notebook-extension/tracker": {"windowingMode": "none"},
        "apputils-extension/themes": {"theme": theme},
        "apputils-extension/notification": {"fetchNews": "false"},
    }.items():
        path = folder / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    return folder


def need_chromium():
    if CHROMIUM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)


@contextmanager
def jupyterlab(command, folder: Path, packages: Path):
    """Address of a JupyterLab; `command(options)` is the command line that starts it in `folder`.

    The kernels import this project from `packages`. Log and settings go beside `folder`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    theme = os.environ.get("LAB_THEME", "JupyterLab Light")
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(settings(folder.parent / "settings", theme)),
        "PYTHONPATH": str(packages),
    }
    environment.pop("TRITON_INTERPRET", None)  # the notebooks choose their engine themselves
    options = ["--no-browser", "--IdentityProvider.token=", f"--port={port}"]
    options += ["--ServerApp.port_retries=0", "--LabApp.expose_app_in_browser=True"]
    log = folder.parent / "log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command(options), cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/api").read()
                break
            except OSError:
                assert server.poll() is None, log.read_text()
                time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address of a JupyterLab on copies of the notebooks; stored outputs stay as they are."""
    need_chromium()
    folder = tmp_path_factory.mktemp("lab") / "checkout"
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    start = [sys.executable, "-m", "jupyter", "lab", "--allow-root"]
    with jupyterlab(lambda options: [*start, *options], folder, packages=ROOT) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    need_chromium()
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Page:
    """A notebook, open in JupyterLab."""

    def __init__(self, browser, address: str, height: int = 1000) -> None:
        self.page = browser.new_page(viewport={"width": 1366, "height": height})
        self.page.goto(address)
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
        self.in_lab("async app => { await app.restored; app.shell.collapseLeft(); }")
        self.in_lab("async (app, panel) => { await panel.sessionContext.ready; }")

    @classmethod
    def of(cls, browser, lab: str, name: str, height: int = 1000) -> "Page":
        """The page of a notebook, in a workspace of its own."""
        return cls(browser, f"{lab}/lab/workspaces/{name[:2]}/tree/notebooks/{name}", height)

    def in_lab(self, function: str, argument=None):
        """Call a JavaScript function with the application, the notebook's panel, an argument."""
        call = f"argument => ({function})(jupyterapp, jupyterapp.shell.currentWidget, argument)"
        return self.page.evaluate(call, argument)

    def command(self, name: str) -> None:
        self.in_lab("(app, _, name) => app.commands.execute(name)", name)

    def run_all(self) -> None:
        """Run All, to its end; no cell is left that has not run."""
        self.in_lab("app => { app.commands.execute('notebook:run-all-cells'); }")
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        running = ".jp-InputPrompt >> text='[*]:'"
        self.page.wait_for_timeout(1000)
        self.page.wait_for_function(
            "() => ![...document.querySelectorAll('.jp-InputPrompt')]"
            ".some(prompt => prompt.textContent.includes('*'))",
            timeout=SECONDS * 1000,
        )
        assert self.page.locator(running).count() == 0

    def save(self) -> None:
        """Save the notebook, which also makes a checkpoint."""
        self.in_lab("app => app.commands.execute('docmanager:save')")

    def path(self) -> str:
        return self.in_lab("(_, panel) => panel.context.path")

    def cells(self) -> list[dict]:
        """What the page's notebook holds now."""
        return self.in_lab("(_, panel) => panel.content.model.toJSON()")["cells"]

    def errors(self) -> list[str]:
        return [
            output["ename"]
            for cell in self.cells()
            if "raises-exception" not in cell["metadata"].get("tags", [])
            for output in cell.get("outputs", [])
            if output["output_type"] == "error"
        ]


def open_and_run(browser, lab, beginning: str) -> Page:
    (name,) = (name for name in NAMES if name.startswith(beginning))
    page = Page.of(browser, lab, name)
    page.run_all()
    return page


def test_run_all_and_a_slider_that_moves_a_picture(browser, lab):
    page = open_and_run(browser, lab, "01")
    assert page.errors() == []
    assert all(cell["execution_count"] for cell in page.cells() if cell["cell_type"] == "code")
    explorer = page.page.locator(".widget-vbox:has(.widget-image)").first
    picture = explorer.locator("img.widget-image")
    before, said = picture.get_attribute("src"), explorer.locator(".widget-html").inner_text()
    handle = explorer.locator(".noUi-handle").first
    handle.focus()
    handle.press("ArrowRight")
    page.page.wait_for_function(
        "([old]) => document.querySelector('.widget-vbox img.widget-image').src !== old",
        arg=[before],
    )
    assert explorer.locator(".widget-html").inner_text() != said
    assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
    page.page.close()


def test_an_exercise_is_solved_and_turns_green(browser, lab):
    """The solution is typed into its stub, as a reader would."""
    page = open_and_run(browser, lab, "05")
    assert page.errors() == []
    number, solution = first_exercise(page.cells(), "05")
    verdict = page.page.locator(".jp-Cell").nth(number).locator(".lab-verdict")
    assert "lab-not-yet" in verdict.get_attribute("class")
    page.in_lab(
        "(_, panel, [number, source]) => {"
        "  panel.content.activeCellIndex = number;"
        "  panel.content.activeCell.model.sharedModel.setSource(source); }",
        [number, solution],
    )
    page.command("notebook:run-cell")
    page.wait_until_idle()
    assert "lab-right" in verdict.get_attribute("class"), verdict.inner_text()
    red, green, blue = map(int, re.findall(r"\d+", border_of(verdict))[:3])
    assert green > red and green > blue
    page.page.close()


def border_of(locator) -> str:
    return locator.evaluate("element => getComputedStyle(element).borderLeftColor")


def first_exercise(cells: list[dict], number: str) -> tuple[int, str]:
    """Where the first stub stands, and its solution with the check after it."""
    stub = next(i for i, cell in enumerate(cells) if "NotImplementedError" in cell["source"])
    (path,) = (ROOT / "notebooks" / "solutions").glob(f"{number}_*.ipynb")
    solutions = json.loads(path.read_text())["cells"]
    checks = [
        i
        for i, cell in enumerate(solutions)
        if cell["cell_type"] == "code" and "lab.check_exercise(" in "".join(cell["source"])
    ]
    begin = 1 + next(i for i, cell in enumerate(solutions) if cell["cell_type"] == "code")
    sources = ["".join(c["source"]) for c in solutions[begin : checks[0] + 1] if is_code(c)]
    return stub, "\n".join(sources)


def is_code(cell: dict) -> bool:
    return cell["cell_type"] == "code"


@pytest.fixture
def checkout(tmp_path):
    """A reader's clone: what git has of this one, or would have."""
    if not (shutil.which("make") and shutil.which("git")):
        pytest.skip("a reader's clone needs make and git")
    root = tmp_path / "checkout"
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("there is no git here to ask for the files")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def make_lab(options: list[str]) -> list[str]:
    return ["make", "lab", f"VENV={sys.prefix}", f"LAB_FLAGS={' '.join(options)}"]


def test_the_two_commands_in_a_readers_order(browser, checkout):
    """`make lab`, Run All and save, in a copy and in its original; then what `make test` runs."""
    name = NAMES[0]
    original = checkout / "notebooks" / name
    before = original.read_bytes()
    with jupyterlab(make_lab, checkout, packages=checkout) as lab:
        mine = Page(browser, lab)
        assert mine.path() == f"my_notebooks/{name}"
        assert not any(cell.get("outputs") for cell in mine.cells())
        theirs = Page(browser, f"{lab}/lab/workspaces/original/tree/notebooks/{name}")
        for page in (mine, theirs):
            page.run_all()
            assert page.errors() == []
            page.save()
            page.page.close()
    saved = json.loads((checkout / "my_notebooks" / name).read_text())
    assert any(cell.get("outputs") for cell in saved["cells"])
    assert original.read_bytes() != before
    assert list(original.parent.glob(".ipynb_checkpoints/*.ipynb"))
    for command in (
        ["ruff", "check"],
        ["ruff", "format", "--check"],
        ["pytest", "-q", "tests/test_notebook_form.py", "tests/test_site.py"],
        ["pytest", "-q", "--nbval", f"notebooks/{name}"],
    ):
        ran = in_checkout(checkout, command)
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"


def in_checkout(checkout: Path, command: list[str]):
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif("SCREENSHOTS" not in os.environ, reason="SCREENSHOTS names no folder")
@pytest.mark.parametrize("name", NAMES)
def test_screenshots(name, browser, lab):
    """The whole of a notebook with its stored outputs, top to bottom; nothing sticks out."""
    folder = Path(os.environ["SCREENSHOTS"])
    folder.mkdir(parents=True, exist_ok=True)
    page = Page.of(browser, lab, name, height=4000)
    page.page.wait_for_timeout(3000)
    outer = page.page.locator(".jp-NotebookPanel .jp-WindowedPanel-outer").first
    top, piece = 0, 0
    while True:
        at, whole, seen = outer.evaluate(
            "(e, y) => { e.scrollTop = y; return [e.scrollTop, e.scrollHeight, e.clientHeight]; }",
            top,
        )
        page.page.wait_for_timeout(800)
        outer.screenshot(path=folder / f"{Path(name).stem}-{piece}.png")
        if at + seen >= whole - 5:
            break
        top, piece = at + seen - 60, piece + 1
    wide = outer.evaluate(
        "outer => [...outer.querySelectorAll('.jp-RenderedHTMLCommon table, img')]"
        ".filter(e => e.getBoundingClientRect().right > outer.getBoundingClientRect().right).length"
    )
    page.page.close()
    assert wide == 0
