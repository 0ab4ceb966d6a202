"""The source of a function, for a notebook to show."""

import inspect

from IPython.display import display


def show_source(*functions) -> None:
    """Show functions from their decorators to their last lines.

    Args:
        functions: from a module or a notebook's cell. A `@triton.jit` function may be compiled or
            interpreted.

    Raises:
        TypeError: one has no source in Python, or is no function.
    """
    sources = [inspect.getsource(getattr(function, "fn", function)) for function in functions]
    text = "\n\n\n".join(source.rstrip() for source in sources)
    # A page colors such a block by its own theme, light or dark. A terminal shows the text.
    display({"text/plain": text, "text/markdown": f"```python\n{text}\n```"}, raw=True)
