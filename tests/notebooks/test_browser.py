"""In a real browser: JupyterLab, started once by `make lab` in a reader's clone, and Chromium.

Where the variable CI is set (as by `.ci/run` and GitHub) a missing Chromium is a failure; elsewhere
it is a skip that says so. Screenshots of every notebook are taken if SCREENSHOTS names a folder.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
MISSING = "Chromium is not installed: on Debian or Ubuntu, run 'sudo apt-get install chromium'"
NAMES = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SECONDS = 240  # for all cells of a notebook, on a slow machine without a GPU

# JupyterLab may open what another page has open too, in tabs behind.
IN_FRONT = ".jp-NotebookPanel:not(.lm-mod-hidden)"

pytest.importorskip("jupyterlab")
playwright = pytest.importorskip("playwright.sync_api")

from rope_lab.grading.judge import INTERRUPTED  # noqa: E402


def settings(folder: Path, theme: str) -> Path:
    """Light or dark; all else is as tools/jupyter has it for `make lab`."""
    path = folder / "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"theme": theme}))
    return folder


def need_chromium():
    if CHROMIUM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)


def stopped(address: str) -> None:
    """Wait until nothing answers there."""
    for _ in range(60):
        try:
            urllib.request.urlopen(address).read()
        except OSError:
            return
        time.sleep(0.5)
    raise AssertionError(f"the server at {address} was not stopped")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A reader's clone: what git has of this one, or would have."""
    need_chromium()
    if not (shutil.which("make") and shutil.which("git")):
        pytest.skip("a reader's clone needs make and git")
    root = tmp_path_factory.mktemp("reader") / "checkout"
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


@pytest.fixture(scope="module")
def lab(checkout):
    """Address of the JupyterLab that `make lab` starts there.

    Log, settings and workspaces go beside the clone: a workspace of the user's would bring back
    what an earlier run had open.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    theme = os.environ.get("LAB_THEME", "JupyterLab Light")
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(settings(checkout.parent / "settings", theme)),
        "JUPYTERLAB_WORKSPACES_DIR": str(checkout.parent / "workspaces"),
        "PYTHONPATH": str(checkout),
    }
    environment.pop("TRITON_INTERPRET", None)  # the notebooks choose their engine themselves
    environment.pop("ROPE_LAB_QUIET", None)  # a reader is told what takes long
    options = ["--no-browser", "--IdentityProvider.token=", f"--port={port}"]
    options += ["--ServerApp.port_retries=0", "--LabApp.expose_app_in_browser=True"]
    log = checkout.parent / "log"
    with log.open("w") as output:
        server = subprocess.Popen(
            ["make", "lab", f"VENV={sys.prefix}", f"LAB_FLAGS={' '.join(options)}"],
            cwd=checkout,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
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
        os.killpg(server.pid, signal.SIGTERM)  # make would leave JupyterLab behind
        server.wait()
        stopped(f"{address}/api")


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
        self.page.wait_for_selector(f"{IN_FRONT} .jp-Cell", timeout=60_000)
        self.in_lab("async app => { await app.restored; app.shell.collapseLeft(); }")
        self.in_lab("async (app, panel) => { await panel.sessionContext.ready; }")

    @classmethod
    def of(cls, browser, lab: str, path: str, height: int = 1000) -> "Page":
        """The page of a notebook, in a workspace of its own."""
        workspace = re.sub(r"\W", "-", path)
        return cls(browser, f"{lab}/lab/workspaces/{workspace}/tree/{path}", height)

    def close(self) -> None:
        """With its kernel, which the server would keep."""
        self.in_lab("async (_, panel) => { await panel?.sessionContext.shutdown(); }")
        self.page.close()

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
    page = Page.of(browser, lab, f"my_notebooks/{named(beginning)}")
    page.run_all()
    return page


def named(beginning: str) -> str:
    (name,) = (name for name in NAMES if name.startswith(beginning))
    return name


IN_CELL = "cell => cell.querySelectorAll('img').length"


def test_run_all_and_a_slider_that_moves_a_picture(browser, lab):
    page = open_and_run(browser, lab, "01")
    assert page.errors() == []
    assert all(cell["execution_count"] for cell in page.cells() if cell["cell_type"] == "code")
    number = next(n for n, cell in enumerate(page.cells()) if "RotationExplorer(" in cell["source"])
    explorer = page.page.locator(".widget-vbox:has(.widget-hslider)").first
    said, picture = explorer.locator(".widget-html").first, explorer.locator(".widget-html img")
    # what its own cell asked for, though the next cell asked it more; and one picture
    assert [x.inner_text() for x in explorer.locator(".widget-readout").all()] == ["4", "1", "15"]
    assert said.inner_text().startswith("m - n = 3")
    shown = [
        page.page.locator(f"{IN_FRONT} .jp-Cell").nth(n).evaluate(IN_CELL)
        for n in (number, number + 1)
    ]
    assert shown == [1, 0]
    assert explorer.evaluate("box => box.scrollHeight - box.clientHeight") == 0  # no scrollbar
    # for a screen reader
    for name in ("m (query)", "n (key)", "θ (degrees)"):
        explorer.get_by_role("slider", name=name, exact=True).wait_for(timeout=20_000)
    assert picture.get_attribute("alt") == f"Rotation explorer: {said.inner_text()}"

    before, then = picture.get_attribute("src"), said.inner_text()
    explorer.get_by_role("slider", name="m (query)").press("ArrowRight")
    page.page.wait_for_function(
        "old => document.querySelector('.widget-vbox .widget-html img').src !== old", arg=before
    )
    # the sentence is a widget of its own, and may come later than the picture
    explorer.locator(".widget-html", has_text="m - n = 4").wait_for(timeout=20_000)
    assert said.inner_text().startswith("m - n = 4") and said.inner_text() != then
    assert picture.get_attribute("alt") == f"Rotation explorer: {said.inner_text()}"
    assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
    page.close()


# A notebook of a few cells, for what would take long in those of the series.
SCRATCH = (
    """\
import rope_lab as lab
from rope_kernels.kernels import parts

lab.show_source(parts.turn)""",
    """\
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    print("seen from the kernel")
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def scaled_copy(x, block=256):
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out


lab.check_exercise(scaled_copy, lab.exercises.scaled_copy)""",
    """\
def endless(x):
    while True:
        pass


lab.check_exercise(endless, lab.exercises.scaled_copy)""",
)
BREAKS = "pre => getComputedStyle(pre).wordBreak"
COLORS = """pre => new Set([...pre.querySelectorAll('span')].map(
    word => getComputedStyle(word).color)).size"""


def test_what_helpers_show(browser, lab, checkout):
    """Source in colors and in whole words, what a kernel prints, a word about an endless loop."""
    cells = [nbformat.v4.new_code_cell(source) for source in SCRATCH]
    python = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    scratch = nbformat.v4.new_notebook(cells=cells, metadata=python)
    nbformat.write(scratch, checkout / "my_notebooks/scratch.ipynb")
    page = Page.of(browser, lab, "my_notebooks/scratch.ipynb")
    page.in_lab("app => { app.commands.execute('notebook:run-all-cells'); }")
    cells = page.page.locator(f"{IN_FRONT} .jp-Cell")
    cells.nth(2).locator("text=An endless loop").first.wait_for(timeout=SECONDS * 1000)
    page.command("notebook:interrupt-kernel")
    page.wait_until_idle()
    assert page.errors() == ["Interrupted"]
    assert cells.nth(2).locator(".jp-OutputArea").inner_text().strip() == INTERRUPTED
    page.in_lab("(_, panel) => { panel.content.activeCellIndex = 1; }")
    page.command("notebook:run-cell")  # at once
    page.wait_until_idle()

    source = cells.nth(0).locator(".jp-OutputArea pre")
    assert source.evaluate(COLORS) > 3
    assert source.evaluate(BREAKS) == "normal"
    words = cells.nth(1).locator(".jp-OutputArea").inner_text()
    assert "seen from the kernel" in words and "RIGHT" in words
    # a word about the time that the process took to start was there, and has gone
    assert "endless" not in words and "Starting" not in words
    page.close()


def test_a_rung_is_climbed_turns_green_and_opens_the_next_one(browser, lab):
    """The solution is typed into its stub, as a reader would; the next stub gets it."""
    page = Page.of(browser, lab, f"my_notebooks/{named('05')}")
    first = next(n for n, cell in enumerate(page.cells()) if is_code(cell))
    type_and_run(page, first, page.cells()[first]["source"])
    number, solution = first_exercise(page.cells(), "05")
    verdict = page.page.locator(f"{IN_FRONT} .jp-Cell").nth(number).locator(".lab-verdict")
    type_and_run(page, number, page.cells()[number]["source"])
    assert "lab-not-yet" in verdict.get_attribute("class")
    type_and_run(page, number, solution)
    assert "lab-right" in verdict.get_attribute("class"), verdict.inner_text()
    red, green, blue = map(int, re.findall(r"\d+", border_of(verdict))[:3])
    assert green > red and green > blue

    stubs = [i for i, cell in enumerate(page.cells()) if "check_rung(3" in "".join(cell["source"])]
    ours = page.cells()[stubs[0]]["source"]
    assert ours.startswith("# lab.mine(3)") and "pass  # your lines" in ours
    type_and_run(page, stubs[0], ours.removeprefix("# "))
    own = page.cells()[stubs[0]]["source"]
    assert own.startswith("# lab.ours(3)") and "x1 * tl.cos(angle1)" in own
    assert own.endswith("lab.check_rung(3, my_rope)")
    page.close()


def type_and_run(page: Page, number: int, source: str) -> None:
    page.in_lab(
        "(_, panel, [number, source]) => {"
        "  panel.content.activeCellIndex = number;"
        "  panel.content.activeCell.model.sharedModel.setSource(source); }",
        [number, source],
    )
    page.command("notebook:run-cell")
    page.wait_until_idle()


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
        if is_code(cell) and re.search(r"lab\.check_(exercise|rung)\(", "".join(cell["source"]))
    ]
    begin = 1 + next(i for i, cell in enumerate(solutions) if cell["cell_type"] == "code")
    sources = ["".join(c["source"]) for c in solutions[begin : checks[0] + 1] if is_code(c)]
    return stub, "\n".join(sources)


def is_code(cell: dict) -> bool:
    return cell["cell_type"] == "code"


@pytest.mark.parametrize(
    "folder, number, exercise, theme",
    [("my_notebooks", "09", 4, "JupyterLab Light"), ("notebooks", "05", 2, "JupyterLab Dark")],
)
def test_a_solution_opens_at_its_exercise(folder, number, exercise, theme, browser, lab):
    """At the first click, when JupyterLab has yet to open the solutions."""
    name = named(number)
    page = Page.of(browser, lab, f"{folder}/{name}")
    page.in_lab("(app, _, theme) => app.commands.execute('apputils:change-theme', {theme})", theme)
    page.page.wait_for_timeout(4000)  # for the page to settle
    page.page.locator(f"{IN_FRONT} a:has-text('Solution')").nth(exercise - 1).click()
    heading = page.page.locator(f"{IN_FRONT} h2[data-jupyter-id^='Exercise-{exercise}:']")
    page.page.wait_for_function(
        "heading => Math.abs(heading.getBoundingClientRect().top - 200) < 200",
        arg=heading.element_handle(),
        timeout=20_000,
    )
    page.page.wait_for_timeout(1000)
    assert 0 < heading.bounding_box()["y"] < 400
    assert page.path() == f"{folder}/solutions/{name.removesuffix('.ipynb')}_solutions.ipynb"
    # cells that grow once the reader has scrolled don't bring the heading back
    heading.hover()
    page.page.mouse.wheel(0, -700)
    page.in_lab("(_, panel) => { panel.content.viewportNode.style.paddingBottom = '99px'; }")
    page.page.wait_for_timeout(1000)
    assert heading.bounding_box()["y"] > 600
    page.close()


def test_links_of_other_pages_lead_to_the_copies(browser, lab):
    """README and docs/ name the originals. An original's own links stay among them: see above."""
    page = Page.of(browser, lab, f"my_notebooks/{NAMES[0]}")
    page.page.locator(f"{IN_FRONT} a:has-text('README')").click()
    page.page.locator(".jp-MarkdownViewer a:has-text('04 A naive RoPE kernel')").click()
    page.page.wait_for_selector(f"{IN_FRONT} h1:has-text('A naive RoPE kernel')")
    assert page.path() == "my_notebooks/04_naive_rope_kernel.ipynb"
    page.in_lab(
        "app => app.commands.execute('docmanager:open',"
        " { path: 'docs/checklist.md', factory: 'Markdown Preview' })"
    )
    page.page.locator(".jp-MarkdownViewer a:has-text('Notebook 08')").click()
    page.page.wait_for_selector(f"{IN_FRONT} h1:has-text('Profiling')")
    assert page.path() == "my_notebooks/08_profiling.ipynb"
    page.close()


def test_the_two_commands_in_a_readers_order(browser, lab, checkout):
    """`make lab`, Run All and save in an original, by mistake; then some of `make test`."""
    name = NAMES[0]
    original = checkout / "notebooks" / name
    before = original.read_bytes()
    mine = Page(browser, lab)
    assert mine.path() == f"my_notebooks/{name}"
    assert not any(cell.get("outputs") for cell in mine.cells())
    mine.page.wait_for_timeout(2000)
    assert mine.page.locator(".Toastify__toast").count() == 0  # no question about news
    mine.close()
    theirs = Page.of(browser, lab, f"notebooks/{name}")
    theirs.run_all()
    assert theirs.errors() == []
    theirs.save()
    theirs.close()
    assert original.read_bytes() != before
    assert list(original.parent.glob(".ipynb_checkpoints/*.ipynb"))
    for command in (
        ["ruff", "check"],
        ["ruff", "format", "--check"],
        ["pytest", "-q", "tests/notebooks/test_notebook_form.py"],
        ["pytest", "-q", "--nbval", f"notebooks/{name}"],
    ):
        ran = in_checkout(checkout, command)
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"


def test_a_copy_that_was_only_opened_closes_without_a_question(browser, lab, checkout):
    """Once its kernel is there, too: it has nothing to add to what the copy says of it."""
    page = Page.of(browser, lab, f"my_notebooks/{named('02')}")
    copy = checkout / page.path()
    before = copy.read_bytes()
    page.in_lab("async (_, panel) => { await panel.sessionContext.session.kernel.info; }")
    page.page.wait_for_timeout(2000)
    shown = page.in_lab("(_, panel) => panel.content.model.toJSON().metadata")
    assert shown == json.loads(before)["metadata"]
    assert not page.in_lab("(_, panel) => panel.context.model.dirty")
    assert page.page.locator(".lm-TabBar-tab.jp-mod-dirty").count() == 0
    page.in_lab("app => { app.commands.execute('application:close'); }")
    page.page.locator(IN_FRONT).wait_for(state="detached")
    assert page.page.locator(".jp-Dialog").count() == 0
    assert copy.read_bytes() == before
    page.page.close()


def in_checkout(checkout: Path, command: list[str]):
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )


PAGE_OF_THE_SITE = """<!doctype html><html><head>
<link rel="stylesheet" href="site.css"><style>pre {{ padding: 1rem }}</style>
<script src="copy.js"></script><script src="scroll.js"></script></head>
<body class="bd-content"><div class="cell"><div class="cell_input"><div class="highlight">
<pre>{code}</pre></div></div>
<div class="cell_output"><img width="704" height="99" style="width: 704px" alt=""></div>
<div class="cell_output"><img width="300" height="99" style="width: 300px" alt=""></div>
</div></body></html>"""


@pytest.mark.parametrize("width, hints", [(390, [True, False]), (1280, [False, False])])
def test_on_a_phone_the_site_hides_no_code_and_names_what_scrolls(width, hints, browser, tmp_path):
    shutil.copytree(ROOT / "docs/static", tmp_path, dirs_exist_ok=True)
    (tmp_path / "page.html").write_text(PAGE_OF_THE_SITE.format(code=99 * "a" + "\nb"))
    page = browser.new_page(viewport={"width": width, "height": 844}, has_touch=width < 600)
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_timeout(200)
    assert [hint.is_visible() for hint in page.locator(".scroll-hint").all()] == hints
    button, code = page.locator("button.copy-code"), page.locator("pre")
    first_line = code.evaluate(
        "pre => { const text = document.createRange(); text.selectNodeContents(pre);"
        " return text.getClientRects()[0].top; }"
    )
    box = button.bounding_box()
    assert box["y"] + box["height"] <= first_line
    assert code.bounding_box()["y"] - box["y"] < 20
    page.close()


@pytest.mark.skipif("SCREENSHOTS" not in os.environ, reason="SCREENSHOTS names no folder")
@pytest.mark.parametrize("name", NAMES)
def test_screenshots(name, browser, lab):
    """The whole of a notebook with its stored outputs, top to bottom; nothing sticks out."""
    folder = Path(os.environ["SCREENSHOTS"])
    folder.mkdir(parents=True, exist_ok=True)
    page = Page.of(browser, lab, f"notebooks/{name}", height=4000)
    page.page.wait_for_timeout(3000)
    outer = page.page.locator(f"{IN_FRONT} .jp-WindowedPanel-outer")
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
