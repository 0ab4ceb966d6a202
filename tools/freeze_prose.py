"""Gather this repository's prose in `rope_lab/data/prose.txt`: the text of notebook 12's model.

README, documentation and the Markdown cells of all notebooks, in the order of their names, without
notebook 12. The file is frozen: records depend on it, so run this again only with new records.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "rope_lab" / "data" / "prose.txt"
DOCUMENTS = ("README.md", "docs/kernels.md", "docs/checklist.md", "CONTRIBUTING.md")
NOTES = ("benchmarks/README.md", "benchmarks/NOTES.md")
FOLDERS = ("notebooks/solutions", "notebooks/deeper", "notebooks")
MOST_BYTES = 500_000


def texts(root: Path = ROOT) -> list[str]:
    """The prose of each document and of each notebook."""
    found = [(root / name).read_text(encoding="utf-8") for name in DOCUMENTS + NOTES]
    for folder in FOLDERS:
        for path in sorted((root / folder).glob("*.ipynb")):
            if not path.name.startswith("12_"):
                cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
                words = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
                found.append("\n\n".join(words))
    return [text.strip() for text in found]


def main() -> int:
    data = ("\n\n".join(texts()) + "\n").encode()
    if len(data) > MOST_BYTES:
        print(f"{len(data)} bytes; at most {MOST_BYTES} are wanted")
        return 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(data)
    print(f"{len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
