"""The source of a function, for a notebook to show."""

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
