"""Pictures beside a file of results. Each carries the fingerprint of the results it shows."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rope_lab.figures import style as draw
from rope_lab.records import origin


@dataclass(frozen=True)
class Picture:
    """How to draw one; the function returns None if the results have no rows for it."""

    figure: Callable[[dict], Figure | None]
    dpi: int = 160


def draw_all(results: dict, pictures: dict[str, Picture], path: Path) -> list[Path]:
    """Draw every picture that the results have rows for; its key goes after the file's name."""
    draw.style()
    written = []
    for suffix, picture in pictures.items():
        figure = picture.figure(results)
        if figure is None:
            continue
        draw.cite(figure, origin(results["gpu"], results["versions"], results["date"]))
        file = path.with_name(f"{path.stem}{suffix}.png")
        metadata = {"Software": None, "Results": fingerprint(results)}
        figure.savefig(file, dpi=picture.dpi, metadata=metadata)
        plt.close(figure)
        written.append(file)
    return written


def fingerprint(results: dict) -> str:
    """Of what a picture shows: the rows, and where and when they were measured."""
    shown = {key: results[key] for key in ("gpu", "versions", "date", "rows")}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]
