"""Patched models of transformers: README's table, and the picture of losses."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.gpu import GPU
from benchmarks.kind import Kind
from benchmarks.results import NOTHING, ROOT, Table
from rope_lab.records import origin

TOKENS = 4096  # of a step


def measured(gpu: GPU, found: dict) -> Iterator[str]:
    """Everything that a record holds."""
    from benchmarks import training  # transformers, which takes seconds

    return training.measured(gpu, found, TOKENS)


def tables(record: dict) -> list:
    """What is made of a record."""
    losses = Losses(record["losses"], ROOT / "docs" / "images" / "losses_with_norms.png")
    return [Table(ROOT / "README.md", "models", table(record)), losses]


def table(record: dict) -> str:
    """README's rows: medians of all turns."""
    titles = ["", "differing tensors", "launches per layer", "tokens per second", "with norms"]
    rows = [titles, ["---"] * len(titles)]
    for row in record["rows"]:
        rates = {way: f"{TOKENS / median(ms) * 1e3:,.0f}" for way, ms in row["ms"].items()}
        counts = {
            way: f"{found['before']:.0f}→{found['after']:.0f}"
            for way, found in row["launches"].items()
        }
        name = row["model"] + ("" if row["precision"] == "bf16" else f", {row['precision']}")
        norms = f"{counts['norms']}, {rates['norms']}" if "norms" in rates else NOTHING
        differing = f"{row['differ']}/{row['tensors']}"
        speed = f"{rates['unpatched']}→{rates['patched']}"
        rows.append([name, differing, counts["patched"], speed, norms])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    versions = {name: x for name, x in record["versions"].items() if name != "python"}
    return "\n".join([*lines, "", origin(record["gpu"], versions, record["date"])])


@dataclass(frozen=True)
class Losses:
    """The curves of each model lie on each other."""

    of_models: dict
    file: Path

    def write(self) -> None:
        """Draw them."""
        import matplotlib.pyplot as plt

        from benchmarks.pictures import STYLE

        with plt.rc_context(STYLE):
            figure, axes = plt.subplots(1, 5, figsize=(11, 2.6), sharey=True)
            for ax, (name, ways) in zip(axes, self.of_models.items(), strict=True):
                ax.plot(ways["unpatched"], linewidth=4, alpha=0.35, label="unpatched")
                ax.plot(ways["norms"], linewidth=1, color="black", label="norms=True")
                ax.set_title(name)
            axes[0].legend()
            figure.supxlabel("step")
            figure.supylabel("loss")
            figure.savefig(self.file, dpi=110)
            plt.close(figure)


MODELS = Kind(
    file="{gpu}-models",
    sets={"models": ()},
    record=("models",),
    mark="differ when run twice",
    more=measured,
    tables=tables,
)
