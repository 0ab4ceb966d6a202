"""Sphinx's configuration of the site, which `make site` builds with tools/make_site.py.

Sphinx reads a folder with the repository's layout: pages of docs/ at the top, and notebooks in
notebooks/. So links between notebooks that work on GitHub also work on the site.
"""

import base64
import hashlib
import html
import json
import os
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.typing import stringify_annotation

import rope_kernels.norms
import rope_kernels.serving

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import hosted_copies  # noqa: E402
import make_site  # noqa: E402

project = "RoPE in Triton"
author = copyright = "the rope_kernels authors"
version = release = rope_kernels.__version__
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]

# The notebooks are shown with their stored outputs. Nothing is run.
nb_execution_mode = "off"
# Widgets need a running kernel, and a script from another host. The site shows a widget's text and
# the figure below it instead.
nb_ipywidgets_js = {}
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_merge_streams = True

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

# A dead reference is an error (-n -W). Two groups of names may have no link: those of other
# projects, because nothing is looked up over the network, and private ones, which have no page.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|triton|collections|pathlib|types)\..*"),
    ("py:.*", r"(.*\.)?_\w+"),
]

# Docstrings are written for a terminal, where `name` means code.
default_role = "code"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 80  # longer signatures have one argument per line
toc_object_entries_show_parents = "hide"
add_module_names = False

html_theme = "sphinx_book_theme"
html_title = "rope_kernels"  # after each page's own title
html_favicon = "static/favicon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system prefers
html_static_path = ["static"]  # tools/make_site.py adds the folder with MathJax
html_css_files = ["site.css"]
html_js_files = ["copy.js", "scroll.js"]
html_show_sphinx = False
mathjax_path = "mathjax/tex-chtml.js"  # served from the site

REPOSITORY = hosted_copies.REPOSITORY  # if it is empty, no page links to GitHub or Colab
# The address where GitHub Pages publishes the site, which pages name as their canonical address.
OWNER, _, PROJECT = REPOSITORY.partition("/")
html_baseurl = f"https://{OWNER.lower()}.github.io/{PROJECT}/" if REPOSITORY else ""
ADDRESS = hosted_copies.url_of(REPOSITORY) if REPOSITORY else ""

html_theme_options = {
    "logo": {"text": project},
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "use_download_button": True,
    "use_fullscreen_button": False,
    "navbar_persistent": [],  # the sidebar has the search
    "repository_url": ADDRESS,
    "repository_provider": "github",
    # for the button below; those copies come alone
    "repository_branch": hosted_copies.HOSTED_BRANCH,
    "use_repository_button": bool(REPOSITORY),
    # "open in" at the top of a notebook's page; its download button gives the raw notebook
    "launch_buttons": {"colab_url": "https://colab.research.google.com"} if REPOSITORY else {},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


PLACES = make_site.places()
WRITTEN_IN = {place: path for path, place in PLACES.items()}


def name_anchors(app, docname, source):
    """Give headings the anchors that they have on GitHub: links then work on both."""
    is_page = Path(app.env.doc2path(docname)).suffix == ".md"
    of_heading = make_site.page_anchor if is_page else make_site.anchor
    app.env.myst_config = replace(app.env.myst_config, heading_slug_func=of_heading)


def link_to_the_repository(app, doctree):
    """Resolve links as GitHub does, relative to their file in the repository.

    A link to a page of the site leads to that page. Links to other files lead to GitHub, or become
    plain text if the repository's address is unknown. A link to a missing file is left for Sphinx
    to report. A page may include parts of another file, so each link knows its own file.
    """
    for link in list(doctree.findall(addnodes.pending_xref)):
        within_the_page = link.source is None  # [text](#place): MyST names no file
        if link["reftype"] != "myst" or link["refdomain"] == "doc" or within_the_page:
            continue
        target, _, anchor = link["reftarget"].partition("#")
        place = os.path.relpath(link.source, app.srcdir)
        path = os.path.normpath(Path(WRITTEN_IN.get(place, place)).parent / target)
        if path.startswith("..") or not (ROOT / path).exists():
            continue
        page, kind = os.path.splitext(PLACES.get(path, ""))
        if path == "README.md":  # the first page contains it
            page, kind = "index", ".md"
        if kind in (".md", ".ipynb"):
            link.attributes |= {"refdomain": "doc", "reftarget": page, "reftargetid": anchor}
        elif place in ("api.md", "lab.md") and path.endswith(".py"):
            for name in list(link.findall(nodes.literal)):
                name.replace_self(to_its_description(name))
            link.replace_self(link.children)
        elif REPOSITORY:
            address = f"{ADDRESS}/blob/main/{path}" + (f"#{anchor}" if anchor else "")
            link.replace_self(nodes.reference("", "", *link.children, refuri=address))
        else:
            link.replace_self(link.children)


def to_its_description(name):
    """Link a name in the table of an API page, such as `lab.bench`, to its description."""
    words = name.astext()
    target = words.replace("lab.", "rope_lab.") if "lab." in words else f"rope_kernels.{words}"
    place = {"refdomain": "py", "reftype": "obj", "reftarget": target}
    return addnodes.pending_xref("", name.deepcopy(), **place)


def drop_pictures_of_other_hosts(app, doctree):
    """Remove README's badges, because no page of the site loads anything from another host."""
    for image in list(doctree.findall(nodes.image)):
        if "://" in image["uri"]:
            badge = image.parent if isinstance(image.parent, nodes.reference) else image
            badge.parent.remove(badge)


def descriptions(path):
    """The stored descriptions of a notebook's pictures: hash of a picture -> description."""
    if path.suffix != ".ipynb":
        return {}
    found = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            words = output.get("metadata", {}).get("image/png", {}).get("alt")
            if words:
                picture = base64.b64decode("".join(output["data"]["image/png"]))
                found[hashlib.sha256(picture).hexdigest()] = words
    return found


def describe_figures(app, doctree):
    """Set the alternative text of pictures in outputs, which otherwise is their file's name.

    MyST names the file of a picture after its hash.
    """
    stored = descriptions(Path(app.env.doc2path(app.env.docname)))
    for image in doctree.findall(nodes.image):
        if words := stored.get(Path(image["uri"]).stem):
            image["alt"] = words
        if image.get("alt"):
            continue
        section = image
        while not isinstance(section, nodes.section):
            section = section.parent
        title = section.next_node(nodes.title).astext()
        image["alt"] = stored.get(Path(image["uri"]).stem) or f"A figure of the section “{title}”."


def describe_page(app, pagename, templatename, context, doctree):
    """Set the description that search engines show to the first paragraph."""
    title = re.sub(r"<[^>]*>", "", html.unescape(context.get("title") or pagename))
    first = doctree.next_node(nodes.paragraph) if doctree else None
    text = " ".join(f"{title}. {first.astext() if first else ''}".split())
    if len(text) < 80:
        text += f" {project}: write, check and measure GPU kernels, in notebooks that run anywhere."
    text = text if len(text) <= 160 else text[:159].rsplit(" ", 1)[0] + "…"
    tags = [("name", "description", text), *card(title, text, context.get("pageurl"))]
    shown = [f'<meta {key}="{name}" content="{html.escape(said)}" />' for key, name, said in tags]
    context["metatags"] = "\n".join([context.get("metatags", ""), *shown])


def card(title, text, address):
    """Open Graph tags, from which other sites make a preview.

    A picture needs a complete address, so there is none if the site's address is unknown.
    """
    about = {"title": title, "description": text.removeprefix(f"{title}. ")}
    about |= {"type": "website", "site_name": project}
    if address:
        about |= {"url": address, "image": f"{html_baseurl}_static/share.png"}
    size = "summary_large_image" if address else "summary"
    tags = [("property", f"og:{name}", value) for name, value in about.items()]
    return [*tags, ("name", "twitter:card", size)]


def show_equations_as_written(app, doctree):
    r"""Leave equations with \\ as they are. Sphinx's environment for them does not allow \tag."""
    for equation in doctree.findall(nodes.math_block):
        if not equation.get("no-wrap"):
            equation["no-wrap"] = True
            equation.children[:] = [nodes.Text(rf"\[{equation.astext()}\]")]


def set_lists_apart(app, what, name, obj, options, lines):
    """Add empty lines around lists, which reStructuredText requires."""

    def indent(line):
        return len(line) - len(line.lstrip())

    apart, dash = lines[:1], None
    for before, line in pairwise(lines):
        if re.match(r" *- ", line):
            if dash is None and before.strip():
                apart.append("")
            dash = indent(line)
        elif line.strip() and dash is not None and indent(line) <= dash:
            if before.strip():
                apart.append("")
            dash = None
        apart.append(line)
    lines[:] = apart
    if what == "property":  # napoleon would read the text before a colon as the type
        lines[:0] = ["..", ""]


def returns_section(docstring, preprocess_types=False):
    """The text as it is: napoleon would read the text before a colon as the type."""
    return [("", "", docstring._dedent(docstring._consume_to_next_section()))]


GoogleDocstring._consume_returns_section = returns_section


# A type as signatures spell it out -> its name
ALIASES = {
    stringify_annotation(getattr(room, name), "smart"): f"~{room.__name__}.{name}"
    for room, names in {
        rope_kernels: ("Freqs", "TensorFormat", "CpOrder", "OutputPairing", "Rounding"),
        rope_kernels.norms: ("NormRounding",),
        rope_kernels.serving: ("Packing",),
    }.items()
    for name in names
}


def say_signature(app, what, name, obj, options, signature, returns):
    """Show types by their names, and defaults as Python code.

    Sphinx doesn't parse signatures that contain `<factory>` or `<Fault.OTHER: ''>`.
    """
    for spelled_out, alias in ALIASES.items():
        signature = signature and signature.replace(spelled_out, alias)
    signature = signature and signature.replace("<factory>", "...")
    return (signature and re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", signature), returns)


def setup(app):
    app.connect("source-read", name_anchors)
    app.connect("doctree-read", link_to_the_repository)
    app.connect("doctree-read", drop_pictures_of_other_hosts)
    app.connect("doctree-read", describe_figures)
    app.connect("doctree-read", show_equations_as_written)
    app.connect("html-page-context", describe_page)
    app.connect("autodoc-process-signature", say_signature)
    app.connect("autodoc-process-docstring", set_lists_apart, priority=100)  # before napoleon
