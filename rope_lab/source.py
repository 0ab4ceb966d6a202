"""The source of a function, or a change of it, for a notebook to show."""

import html
import inspect

from IPython.display import display


class Source:
    """Python that a page shows in colors, and a terminal as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        # every page colors such a block by its own theme, light or dark
        return f"```python\n{self.text}\n```"


class ChangedLines:
    """Lines of a diff: a page shows those that begin with - and + in colors."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        # behind the page's own text, which keeps its contrast on light and on dark pages
        colors = {"-": "rgba(213, 94, 0, 0.22)", "+": "rgba(0, 158, 115, 0.22)"}
        rows = []
        for line in self.lines:
            color = colors.get(line[:1])
            text = html.escape(line)
            rows.append(f'<span style="background: {color}">{text}</span>' if color else text)
        return "<pre>" + "\n".join(rows) + "</pre>"


def show_source(*functions) -> None:
    """Show functions from their decorators to their last lines.

    Args:
        functions: from a module or a notebook's cell. A `@triton.jit` function may be compiled or
            interpreted.

    Raises:
        TypeError: one has no source in Python, or is no function.
    """
    texts = [inspect.getsource(getattr(function, "fn", function)) for function in functions]
    display(Source("\n\n\n".join(text.rstrip() for text in texts)))
