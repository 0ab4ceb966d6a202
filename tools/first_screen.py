"""Draw the two pictures of the first screen, and the one for links: `make first_screen`.

Writes docs/images/verdict.svg (what the lab says today of a kernel with a mistake in it),
docs/images/ladder.svg (from the record 09/rungs), their place in README with both in words, and
docs/images/share.png, which pages that link to the site show; Chromium draws that one.
tests/project/test_first_screen.py holds all of them equal to the lab and the record of today.

Each picture brings its ground, light or dark, as the reader's system has it. They are so narrow
that two fit side by side into README and the site's first page, and one into a phone.
"""

import hashlib
import importlib.util
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

from PIL import Image
from PIL.PngImagePlugin import PngInfo

import pages
import rope_lab as lab
from rope_lab.figures.draw_ladder import NAMES
from rope_lab.figures.style import BLUE, ORANGE
from rope_lab.grading.verdict import COLORS, Verdict
from rope_lab.records import Measurement, recorded
from rope_lab.rungs import RUNGS, SHAPE

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"

# The mistake: our kernel of rung 1 with this text exchanged. Two cases of twelve have such strides.
MISSING = "column * stride_d"
RUNG, OURS, READERS = 1, f"row_ptr + {MISSING}, mask=exists", "row_ptr + column, mask=exists"

WIDE, HIGH = 376, 296  # two of them and a space fit into 760 pixels
MARGIN, LETTERS = 12, 50  # in a line of a verdict
STYLE = """
text { font-family: Helvetica, Arial, 'Liberation Sans', sans-serif; font-size: 12px }
text, .ink { fill: #333333 }
.plate { fill: #fafafa; stroke: #d0d7de }
.title { font-size: 14px; font-weight: bold }
.small { font-size: 10px }
.code { font-family: ui-monospace, Menlo, Consolas, 'Liberation Mono', monospace; font-size: 11px }
@media (prefers-color-scheme: dark) {
  text, .ink { fill: #e6edf3 }
  .plate { fill: #1c2128; stroke: #444c56 }
}"""


def verdict_of_the_mistake() -> Verdict:
    """What a reader sees who has written rung 1 so."""
    source = RUNGS[RUNG].source
    assert OURS in source, f"not in our kernel any more: {OURS}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.py"
        imports = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
        path.write_text(imports + source.replace(OURS, READERS))
        found = importlib.util.spec_from_file_location("answer", path)
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return lab.check_rung(RUNG, module.my_rope)


def _text(x: float, y: float, words: str, kind: str = "", **attributes: str) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{kind}{more} xml:space="preserve">{escape(words)}</text>'


def _bar(x: float, y: float, wide: float, high: float, color: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:.1f}" height="{high:g}" fill="{color}"/>'


def svg(parts: list[str], wide: int = WIDE, high: int = HIGH) -> str:
    size = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    # a little lower than the picture: on a phone one is below the other
    plate = f'<rect class="plate" x=".5" y="3" width="{wide - 1}" height="{high - 6}" rx="6"/>'
    style = f"<style>{STYLE}\n</style>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, style, plate, *parts, "</svg>\n"])


def verdict_picture(verdict: Verdict) -> list[str]:
    """The mistake, and below it the verdict in a box like the notebook's, its lines wrapped."""
    lines = []
    for line in repr(verdict).splitlines():
        indent = "  " if line.startswith(" ") else ""
        lines += textwrap.wrap(line.strip(), LETTERS, initial_indent=indent,
                               subsequent_indent=indent)  # fmt: skip
    parts = [
        _text(MARGIN, 26, "A verdict names the mistake", "title"),
        _text(MARGIN, 49, f"tl.load({READERS})", "code"),
        _text(MARGIN, 67, f"in a kernel that needs {MISSING} there:"),
    ]
    top, step = 96, 17.5
    parts.append(_bar(MARGIN, top - 14, 4, step * len(lines) + 6, COLORS[verdict.state]))
    parts += [_text(MARGIN + 13, top + step * i, x, "code") for i, x in enumerate(lines)]
    return parts


def ladder_picture(record: Measurement) -> list[str]:
    """A bar for each rung, up to the one that is as fast as a copy."""
    times = {case: record[case].median_us for case in NAMES if case in record.cases}
    times.pop("package")
    copy, eager = record["copy"].median_us, times["eager"]
    last = list(times.values())[-1]
    left, right = 172, 278  # of the bars
    scale = 0.85 * (right - left) / max(us for us in times.values() if us != eager)
    title = f"{len(times) - 1} rungs to {100 * copy / last:.0f} % of a copy's speed"
    top, step = 66, 20.5
    parts = [_text(MARGIN, 26, title, "title")]
    for x, words in ((right + 34, "\u00b5s"), (WIDE - MARGIN, "of copy")):
        parts.append(_text(x, top - 18, words, text_anchor="end"))
    for place, (case, us) in enumerate(times.items()):
        y = top + step * place
        color = ORANGE if case == "eager" else BLUE
        parts += [
            _text(MARGIN, y, " ".join(NAMES[case].split())),
            _bar(left, y - 11, min(us * scale, right - left), 14, color),
            _text(right + 34, y, f"{us:.0f}", text_anchor="end"),
            _text(WIDE - MARGIN, y, f"{100 * copy / us:.0f} %", text_anchor="end"),
        ]
    x, bottom = left + copy * scale, top + step * (len(times) - 1) + 6
    parts += [
        f'<rect class="ink" x="{x - 0.75:.1f}" y="{top - 14}" width="1.5" '
        f'height="{bottom - top + 14:g}"/>',
        _text(x, top - 18, "copy", text_anchor="middle"),
        _text(x + 6, top - 0.5, "cut off", "small", style="fill: #111111"),
    ]
    lines = textwrap.wrap(f"Forward of {SHAPE} in bf16. {record.origin}", 66)
    assert len(lines) <= 3, record.origin
    return parts + [_text(MARGIN, HIGH - 40 + 13 * i, x, "small") for i, x in enumerate(lines)]


def pictures(verdict: Verdict, record: Measurement) -> dict[str, str]:
    """Name of a file in docs/images: its text."""
    return {
        "verdict.svg": svg(verdict_picture(verdict)),
        "ladder.svg": svg(ladder_picture(record)),
    }


def share_picture(drawn: dict[str, str]) -> str:
    """1200 x 630 pixels, as pages show that link here: both pictures, in light."""
    scale = 1.5
    parts = [
        _text(30, 76, "RoPE in Triton", style="font-size: 54px; font-weight: bold"),
        _text(30, 126, "Write a GPU kernel at the speed of a copy, in notebooks that judge it",
              style="font-size: 30px"),
    ]  # fmt: skip
    for x, picture in zip((30, 606), drawn.values(), strict=True):
        size = f'width="{WIDE * scale:g}" height="{HIGH * scale:g}" viewBox="0 0 {WIDE} {HIGH}"'
        inner = picture.split("</style>", 1)[1]
        parts.append(f'<svg x="{x}" y="156" {size}>{inner}')
    return svg(parts, 1200, 630)


def fingerprint(picture: str) -> str:
    return hashlib.sha256(picture.encode()).hexdigest()[:16]


def draw_share_picture(picture: str, path: Path) -> None:
    """By Chromium, with the fingerprint of what it shows."""
    from playwright.sync_api import sync_playwright

    browsers = "chromium", "chromium-browser", "google-chrome"
    chromium = next(filter(None, map(shutil.which, browsers)), None)
    if chromium is None:
        sys.exit("error: Chromium was not found: run 'sudo apt-get install chromium'.")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 630}, color_scheme="light")
        page.set_content(f'<body style="margin: 0">{picture}')
        page.screenshot(path=path)
        browser.close()
    about = PngInfo()
    about.add_text("Shows", fingerprint(picture))
    with Image.open(path) as drawn:
        drawn.convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(
            path, pnginfo=about, optimize=True
        )


def in_words(verdict: Verdict, record: Measurement) -> list[str]:
    """Both pictures for readers who don't see them."""
    said = ". ".join(line.strip() for line in repr(verdict).splitlines())
    times = [f"{' '.join(NAMES[case].split())} {record[case].median_us:.0f} \u00b5s"
             for case in NAMES if case in record.cases and case != "package"]  # fmt: skip
    return [
        f"A verdict on a kernel that loads `{READERS}`: {said}",
        f"The ladder: {', '.join(times)}; a copy takes {record['copy'].median_us:.0f} \u00b5s.",
    ]


def filled_in(readme: str, words: list[str]) -> str:
    """README with both pictures between their marks."""
    links = "notebooks/04_naive_rope_kernel.ipynb", "notebooks/09_to_the_memory_limit.ipynb"
    names = "verdict", "ladder"
    shown = [
        f"[![{said}](docs/images/{name}.svg)]({link})"
        for said, name, link in zip(words, names, links, strict=True)
    ]
    return pages.fill(readme, "pictures", "".join(f"{picture}\n" for picture in shown))


def main() -> None:
    verdict, record = verdict_of_the_mistake(), recorded("09/rungs")
    IMAGES.mkdir(exist_ok=True)
    drawn = pictures(verdict, record)
    for name, text in drawn.items():
        (IMAGES / name).write_text(text, encoding="utf-8")
    draw_share_picture(share_picture(drawn), IMAGES / "share.png")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(filled_in(text, in_words(verdict, record)), encoding="utf-8")


if __name__ == "__main__":
    main()
