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


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address of a JupyterLab on copies of the notebooks; stored outputs stay as they are."""
    if CHROMIUM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    theme = os.environ.get("LAB_THEME", "JupyterLab Light")
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(settings(folder / "settings", theme)),
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("TRITON_INTERPRET", None)  # the notebooks choose their engine themselves
    options = ["--no-browser", "--allow-root", "--IdentityProvider.token=", f"--port={port}"]
    options += ["--ServerApp.port_retries=0", "--LabApp.expose_app_in_browser=True"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter", "lab", *options],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/api").read()
                break
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def browser(lab):
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Page:
    """A notebook, open in JupyterLab."""

    def __init__(self, browser, lab: str, name: str, width: int = 1366, height: int = 1000) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.page.goto(f"{lab}/lab/workspaces/{name[:2]}/tree/notebooks/{name}")
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
        self.in_lab("async app => { await app.restored; app.shell.collapseLeft(); }")
        self.in_lab("async (app, panel) => { await panel.sessionContext.ready; }")

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
    page = Page(browser, lab, name)
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


@pytest.mark.skipif("SCREENSHOTS" not in os.environ, reason="SCREENSHOTS names no folder")
@pytest.mark.parametrize("name", NAMES)
def test_screenshots(name, browser, lab):
    """The whole of a notebook with its stored outputs, top to bottom; nothing sticks out."""
    folder = Path(os.environ["SCREENSHOTS"])
    folder.mkdir(parents=True, exist_ok=True)
    page = Page(browser, lab, name, height=4000)
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
