"""The source of a function, for a notebook to show."""

import html
import inspect

from IPython.display import Markdown, display


class Source(Markdown):
    """Python, which a page colors by its own theme, and a terminal shows as it is."""

    def __init__(self, text: str) -> None:
        super().__init__(f"```python\n{text}\n```")
        self.text = text

    def __repr__(self) -> str:
        return self.text


class FoldedSource:
    """Python under a line that opens it: readers who know it don't have to scroll past it."""

    def __init__(self, title: str, text: str) -> None:
        self.title = title
        self.text = text

    def __repr__(self) -> str:
        return f"{self.title}\n\n{self.text}"

    def _repr_html_(self) -> str:
        title, text = html.escape(self.title), html.escape(self.text)
        return f"<details><summary>{title}</summary><pre>{text}</pre></details>"


def show_source(*functions) -> None:
    """Show the source of functions, with their decorators.

    Args:
        functions: from a module or a cell of the notebook, `@triton.jit` functions too.

    Raises:
        TypeError: one has no Python source, or isn't a function.
    """
    sources = [inspect.getsource(getattr(function, "fn", function)) for function in functions]
    display(Source("\n\n\n".join(source.rstrip() for source in sources)))
