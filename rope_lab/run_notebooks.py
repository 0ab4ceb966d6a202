"""Run notebooks and store their outputs in one normal form: `python -m rope_lab.run_notebooks`.

What differs between machines or runs is left out, so that a diff shows real changes: versions in
the metadata, execution times, widget ids, paths in tracebacks.
On a GPU the measurements of `lab.bench` are recorded; this is the only command that records.
Elsewhere the line that names the engine stays as it was stored.
"""

import argparse
import base64
import io
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import torch
from nbclient import NotebookClient
from PIL import Image

from .records import QUIET, RECORD_SWITCH

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_CELL_TIMEOUT_SECONDS = 600
_ENGINE = re.compile("^Engine: .*$", re.MULTILINE)  # a line of `rope_lab.ENGINE`
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path) -> None:
    """Run one notebook in its own folder and write it back, normalized.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed; the file is left as it was.
    """
    os.environ[QUIET] = "1"  # for the kernel, which inherits it
    os.environ["KINETO_LOG_LEVEL"] = "6"  # torch.profiler's own log, on stderr: only errors
    notebook = nbformat.read(path, as_version=4)
    # A replayed measurement was made with the stored engine, not with this machine's.
    engines = {} if os.environ.get(RECORD_SWITCH) == "1" else _engines_of(notebook)
    client = NotebookClient(
        notebook,
        timeout=_CELL_TIMEOUT_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        coalesce_streams=True,  # prints arrive in one piece or in several by chance
    )
    client.execute()
    normalize(notebook, engines)
    nbformat.write(notebook, path)


def normalize(notebook: nbformat.NotebookNode, engines: dict[str, list[str]]) -> None:
    """Remove what differs between machines and runs from an executed notebook, in place.

    Args:
        notebook: as it was executed.
        engines: id of a cell -> stored lines that name the engine, instead of this machine's.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        cell.pop("attachments", None)
        for output in cell.get("outputs", []):
            _normalize_output(output)
        stored = iter(engines.get(cell.id, ()))
        for texts, kind in _texts_of(cell):
            texts[kind] = _ENGINE.sub(lambda line, s=stored: next(s, line[0]), texts[kind])


def _engines_of(notebook: nbformat.NotebookNode) -> dict[str, list[str]]:
    return {
        cell.id: [line for texts, kind in _texts_of(cell) for line in _ENGINE.findall(texts[kind])]
        for cell in notebook.cells
    }


def _texts_of(cell: nbformat.NotebookNode) -> Iterator[tuple[dict, str]]:
    """The plain text of a cell's outputs: each object that contains one, and its key."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            yield output, "text"
        elif "text/plain" in output.get("data", {}):
            yield output.data, "text/plain"


def _normalize_output(output: nbformat.NotebookNode) -> None:
    if output.output_type == "error":
        output.traceback = []  # full of paths; the error's name and message are stored anyway
    if output.output_type in ("display_data", "execute_result"):
        sizes = {kind: size for kind, size in output.metadata.items() if kind == "image/png"}
        output.metadata = nbformat.from_dict(sizes)  # of pictures with 2x resolution
        output.data.pop(WIDGET_VIEW, None)  # a random id that no reader's kernel knows
        if "image/png" in output.data:
            output.data["image/png"] = with_palette(output.data["image/png"])


def with_palette(picture: str) -> str:
    """A picture of 255 colors, a third of the bytes; both in base64.

    A figure has few colors, so only shades at the edges of letters are lost.
    """
    image = Image.open(io.BytesIO(base64.b64decode(picture)))
    if image.mode == "P":
        return picture
    few = image.convert("RGB").quantize(255, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    few.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode() + "\n"


def main(arguments: list[str]) -> int:
    """Execute the notebooks named, or all in the folders named."""
    parser = argparse.ArgumentParser("python -m rope_lab.run_notebooks", description=__doc__)
    said = "a notebook or a folder of them (default: notebooks)"
    parser.add_argument("places", nargs="*", type=Path, default=[Path("notebooks")], help=said)
    places = [place.resolve() for place in parser.parse_args(arguments).places]
    for place in places:
        if not place.exists():
            parser.error(f"there is no {place.name} in {place.parent}")
    if torch.cuda.is_available():
        os.environ[RECORD_SWITCH] = "1"
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    paths = [p for place in places for p in (sorted(place.rglob("*.ipynb")) or [place])]
    for path in paths:
        if ".ipynb_checkpoints" in path.parts:
            continue
        print(f"{path.name} ...", end=" ", flush=True)
        begin = time.perf_counter()
        execute(path)
        print(f"{time.perf_counter() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
