"""Every tested answer and its verdict, before the lab is rewritten (2026-11-26).

    python tests/notebooks/frozen_verdicts.py            # compare: minutes
    python tests/notebooks/frozen_verdicts.py 04 09      # these notebooks alone

A wrong answer must stay wrong, and a mistake that had a name must keep one. Other words may change:
they are printed, for reading. Once it is rewritten this file and its verdicts go.
"""

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), *(str(ROOT / name) for name in ("tools", "tests")), str(HERE)]
FROZEN = HERE / "frozen_verdicts.json"
UNNAMED = "no mistake that this check knows"


def verdicts(numbers: list[str]) -> dict[str, str]:
    """Answer -> what it is told, in its notebook."""
    import test_answers_in_notebooks as judged

    os.environ |= {judged.QUIET: "1", "MPLBACKEND": "agg"}
    found = {}
    for number in numbers or judged.NOTEBOOKS:
        notebook, answers = judged.with_answers(number, None)
        judged.execute(notebook)
        cells = [cell for cell in notebook.cells if cell.id in answers]
        found |= {answers[cell.id].name: judged.shown(cell) for cell in cells}
    return found


def state(text: str) -> str:
    return text.partition(":")[0]


def main(numbers: list[str]) -> int:
    frozen, worse = json.loads(FROZEN.read_text(encoding="utf-8")), 0
    for name, text in verdicts(numbers).items():
        before = frozen.get(name)
        if before in (None, text):
            continue
        is_worse = state(text) != state(before) or (UNNAMED in text and UNNAMED not in before)
        worse += is_worse
        print(f"{'WORSE' if is_worse else 'other words'}: {name}\n{before}\n-- now\n{text}\n")
    print(f"{worse} verdicts are worse")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
